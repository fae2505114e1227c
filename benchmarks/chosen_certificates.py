"""Compare the certificate of choice with those of the training rows and of held-out rows, on three kinds of tables.

A fifth of the rows is held out. *Training rows*: posterior of the others, 30 % of them in E, the rest counted by the
bound. *Held out*: posterior of all the others, the held-out fifth counted. *Choice*: posterior of half of the others;
the other half of them chooses the prediction and is counted. The test error is that of the held-out fifth.
Run: python benchmarks/chosen_certificates.py [--splits 5] [table ...]
"""

import argparse
import time
import warnings

import numpy as np
from certificates import grid_model, known_to
from data import has_table, read_table

import pactree_mcmc as pt

DRAWS = 300
LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def tic_tac_toe():
    """Return the 958 boards at which a game that x begins may end, whether x has won (1 or 0), and the nominal columns.

    A field is 0 if it is empty, 1 for x and 2 for o. All nine columns are nominal.
    """
    ends, todo = {}, {((0,) * 9, 1)}
    while todo:
        board, turn = todo.pop()
        won = [who for who in (1, 2) if any(all(board[i] == who for i in line) for line in LINES)]
        if won or 0 not in board:
            ends[board] = won == [1]
            continue
        todo |= {((*board[:i], turn, *board[i + 1 :]), 3 - turn) for i in range(9) if board[i] == 0}
    boards = sorted(ends)
    return np.array(boards, dtype=float), np.array([int(ends[b]) for b in boards]), list(range(9))


def adult_like(n=4_000, seed=0):
    """Return a table like the census incomes (UCI Adult): features, income above a limit (0 or 1), nominal columns.

    The features are age, schooling, hours, gains, sex, household and work. The best possible error is about .16.
    """
    rng = np.random.default_rng(seed)
    age, schooling = np.round(rng.gamma(7.0, 5.6, n).clip(17, 90)), rng.binomial(16, 0.62, n).astype(float)
    hours = np.round(rng.normal(40.0, 12.0, n).clip(1, 99))
    gains = np.where(rng.random(n) < 0.08, np.round(rng.lognormal(8.5, 1.0, n)), 0.0)
    sex, household, work = rng.integers(0, 2, n), rng.integers(0, 5, n), rng.integers(0, 12, n)
    score = -3.6 + 0.35 * (schooling - 10) + 0.05 * (hours - 40) + 2.6 * (household < 2) + 3.5 * (gains > 6000)
    score += 0.9 * (age > 30) - 1.2 * (age > 65) + 0.3 * sex + 0.8 * np.isin(work, [2, 5, 9])
    score *= 1.2
    X = np.column_stack([age, schooling, hours, gains, sex, household, work])
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-score))).astype(int), [5, 6]


MADE = {"tic_tac_toe": tic_tac_toe, "adult_like": adult_like}


def fitted(X, y, rows, nominal, seed):
    """Return X as `known_to` does for ``rows`` (a mask), and the default posterior of these rows."""
    merged = known_to(X, rows, nominal)
    model = pt.TreeModel(merged[rows], y[rows], nominal=nominal)
    return merged, pt.sample(model, DRAWS, tune=DRAWS, rng=seed, progress=False)


def from_training_rows(X, y, test, E, nominal, seed):
    """Return the smallest bound on the vote's error over three values of lambda1, and the test error of that vote.

    ``test`` and ``E`` are masks; all rows that are in neither are S.
    """
    merged, found = known_to(X, E, nominal), []
    for lambda1 in (0.3, 1.0, 3.0):
        model = grid_model(merged[~test], y[~test], E[~test], nominal, lambda1)
        post = pt.sample(model, DRAWS, tune=DRAWS, rng=seed, progress=False)
        found.append((post.certificate(0.05).vote.value, np.mean(post.predict(merged[test]) != y[test])))
    return min(found)


def compare(name, splits):
    """Print bounds and errors of the three certificates on a table: means over ``splits`` random divisions."""
    X, y, nominal = MADE[name]() if name in MADE else read_table(name)
    found, alternatives, chosen = [], [], []
    for seed in range(splits):
        part = np.random.default_rng(seed).permutation(len(y)) / len(y)
        test, half = part < 0.2, part < 0.6
        today = from_training_rows(X, y, test, ~test & (part < 0.44), nominal, seed)
        merged, post = fitted(X, y, ~test, nominal, seed)
        fresh = post.holdout_certificate(merged[test], y[test], 0.05)
        merged, prior = fitted(X, y, ~test & half, nominal, seed)
        began = time.process_time()
        best = prior.holdout_certificate(merged[~half], y[~half], 0.05, choose=True)
        seconds = time.process_time() - began
        error = np.mean(best.predict(merged[test]) != y[test])
        found.append((*today, fresh.vote.value, fresh.errors / fresh.n, best.vote.value, error, seconds))
        errors = [np.mean(best.predict_as(kind, merged[test]) != y[test]) for kind in best.bounds]
        alternatives.append([(bound.value, e) for bound, e in zip(best.bounds.values(), errors, strict=True)])
        chosen.append(best.chosen)
    mean = np.mean(found, axis=0)
    closed = (mean[0] - mean[4]) / (mean[0] - mean[2])
    print(f"{name}, {len(y)} rows: bound (error)")
    print(f"    training rows {mean[0]:.4f} ({mean[1]:.4f}), held out {mean[2]:.4f} ({mean[3]:.4f}), ", end="")
    print(f"choice {mean[4]:.4f} ({mean[5]:.4f}), {mean[6]:.1f} CPU s; {closed:.0%} of the gap closed; {set(chosen)}")
    for kind, (bound, error) in zip(best.bounds, np.mean(alternatives, axis=0), strict=True):
        print(f"        {kind:20} {bound:.4f} ({error:.4f}), {(mean[0] - bound) / (mean[0] - mean[2]):.0%}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("tables", nargs="*", default=["tic_tac_toe", "adult_like", "mushroom", "kr_vs_kp"])
    options = parser.parse_args()
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    for name in options.tables:
        if name in MADE or has_table(name):
            compare(name, options.splits)


if __name__ == "__main__":
    main()
