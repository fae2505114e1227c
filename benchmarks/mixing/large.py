"""Large tables with plain defaults: held-out loss, seconds, and whether the chains' predictions agree as stated.

Run: python benchmarks/mixing/large.py [--tables spambase letter friedman_100000] [--seed 0]

A fifth of the rows is held out (at most 10,000). Beside the default stands the former one: kernel "local", 1,000 steps
of tuning and 1,000 draws of 100 proposals, and "local" of given length in the processor time that the default took.
Loss: log loss in nats, or RMSE to the noise-free function. Agreement: for up to 200 held-out rows, the distance between
the mean of each chain and the mean of the others, over the errors of both by the effective draws of each chain; its
root mean square is 1 where the chains differ as their own errors say, the fraction beyond 2 is .05.
"""

import argparse
import warnings

import numpy as np
import tables
from clock import timed
from data import friedman, load
from settings import GIVEN_LENGTH, REAL_CORES
from timing import cores

import pactree_mcmc as pt
from pactree_mcmc.posterior.ess import rhat_and_ess

TABLES = ("spambase", "letter", "friedman_100000")
POINTS, MOST_HELD_OUT = 200, 10_000
HEADER = (
    "table", "n x p", "run", "CPU s", "wall s", "draws", "leaves", "held-out loss", "worst R-hat of predictions",
    "root mean square of z", "abs(z) > 2",
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"| {' | '.join(HEADER)} |", "|" + " --- |" * len(HEADER), sep="\n", flush=True)
    for name in args.tables:
        try:
            given = split(name)
        except (FileNotFoundError, tables.MissingTable) as missing:
            print(f"{name} skipped: {missing}", flush=True)
            continue
        model = pt.TreeModel(*given[0])
        sample(model, 0, draws=4)
        sample(model, 0, kernel="local", tune=4, draws=4)
        default = line(name, given, model, "default", args.seed)
        line(name, given, model, "former default", args.seed, kernel="local", **GIVEN_LENGTH)
        # the former one again, as long as the default
        _, _, cpu = sample(model, args.seed, kernel="local", tune=100, draws=100, proposals=100)
        steps = max(int(200 * default / cpu), 8)
        how = {"tune": steps // 2, "draws": min(steps // 2, 2000), "thin": max(steps // 4000, 1), "proposals": 100}
        line(name, given, model, "former kernel, as long", args.seed, kernel="local", **how)


def split(name):
    """Training rows, and held-out rows with labels or the noise-free values."""
    if name == "friedman_100000":
        X, f, y = friedman(100_000 + MOST_HELD_OUT)
        return (X[:100_000], y[:100_000]), (X[100_000:], f[100_000:])
    X, y = load({"letter": "letter_recognition"}.get(name, name))
    rows = np.random.default_rng(0).permutation(len(y))
    held = min(len(y) // 5, MOST_HELD_OUT)
    return (X[rows[held:]], y[rows[held:]]), (X[rows[:held]], y[rows[:held]])


def sample(model, seed, **how):
    """A run on two cores, with wall and processor seconds."""
    with cores(REAL_CORES), warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        return timed(lambda: pt.sample(model, rng=seed, progress=False, **how), repeats=1)


def line(name, given, model, what, seed, **how):
    """Run, print a row; the processor seconds."""
    post, wall, cpu = sample(model, seed, **how)
    _, (X, y) = given
    if model.classes_ is None:
        loss = float(np.sqrt(np.mean((post.predict(X) - y) ** 2)))
    else:
        at = np.searchsorted(model.classes_, y)
        loss = float(-np.log(post.predict_proba(X)[np.arange(len(y)), at]).mean())
    z, rhat = disagreement(post, X[:: max(len(X) // POINTS, 1)][:POINTS])
    cells = [name, f"{model.n_rows:,} x {model.n_features}", what, f"{cpu:.1f}", f"{wall:.1f}", f"{post.n_draws}"]
    cells += [f"{post.n_leaves_of_tree @ post.weight_of_tree:.0f}", f"{loss:.4f}", f"{rhat:.2f}"]
    cells += [f"{np.sqrt(np.mean(z**2)):.2f}", f"{np.mean(np.abs(z) > 2.0):.2f}"]
    print(f"| {' | '.join(cells)} |", flush=True)
    return cpu


def disagreement(post, X):
    """Distances (chains, quantities) of each chain from the others in stated errors, and the worst R-hat."""
    values = np.moveaxis(post.values_by_draw(X), (2, 3), (0, 1))
    values = values.reshape(-1, post.n_chains, post.n_draws)
    values = values[np.ptp(values, axis=(1, 2)) > 1e-9]
    ess = np.stack([rhat_and_ess(values[:, [c]])[1] for c in range(post.n_chains)])
    mean, variance = values.mean(axis=2).T, values.var(axis=2).T / ess
    others = post.n_chains - 1
    away = mean - (mean.sum(axis=0) - mean) / others
    error = np.sqrt(variance + (variance.sum(axis=0) - variance) / others**2)
    return away / np.maximum(error, 1e-12), float(rhat_and_ess(values)[0].max())


if __name__ == "__main__":
    main()
