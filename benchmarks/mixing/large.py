"""Large tables with plain defaults: held-out loss, seconds, and whether predictions agree as stated.

Run: python benchmarks/mixing/large.py [--tables spambase letter friedman_100000] [--seed 0] [--kernels default whole]

A fifth of the rows is held out (at most 10,000). Loss: log loss in nats, or RMSE to the noise-free function; of the
mean of four chains, and of one chain (mean of four). Beside the default, of full length and of less work, stands the
former one, kernel "local" with 100 proposals a draw: 1,000 steps of tuning, 1,000 draws; a tenth and a third of both.
Of the default two things are said about up to 200 held-out rows. Between chains: the distance of the mean of each from
that of the others, over the errors of both by the effective draws of each chain by itself; its root mean square is 1
where chains differ as their own errors say. Between runs: the distance between two runs with different rng, over the
errors that are stated of both: by the effective draws of all chains, as `summary` and `support` have it, and by the
variance between chains, as the estimators have it; about 1.2 for four chains that stay where they are. The warning of
the first run is printed below its row.
"""

import argparse
import warnings

import numpy as np
import tables
from clock import timed
from data import friedman, load
from settings import REAL_CORES
from timing import cores

import pactree_mcmc as pt
from pactree_mcmc.posterior.ess import rhat_and_ess
from pactree_mcmc.tree.arrays import add_predictions_into

TABLES = ("spambase", "letter", "friedman_100000")
POINTS, MOST_HELD_OUT, COMPILED_ON = 200, 10_000, 300
FORMER = (100, 333, 1000)  # steps of tuning, and draws
WORK = (2.5e9, 1e10)  # of the default
HEADER = (
    "table", "n x p", "run", "CPU s", "wall s", "steps", "leaves", "log posterior", "loss", "of one chain",
    "worst R-hat of predictions", "between chains", "between runs, by ESS", "by chains",
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", nargs="+", default=["default"], help="that find their own length")
    args = parser.parse_args()
    print(f"| {' | '.join(HEADER)} |", "|" + " --- |" * len(HEADER), sep="\n", flush=True)
    for name in args.tables:
        try:
            given = split(name)
        except (FileNotFoundError, tables.MissingTable) as missing:
            print(f"{name} skipped: {missing}", flush=True)
            continue
        model = pt.TreeModel(*given[0])
        compile_on(model, *given[0])
        for steps in FORMER:
            how = {"tune": steps, "draws": steps, "proposals": 100}
            line(name, given, model, f"former default, {2 * steps} steps", args.seed, kernel="local", **how)
        for kernel in args.kernels:
            for work in WORK:
                line(name, given, model, f"{kernel}, work={work:g}", args.seed, kernel=kernel, work=work)


def split(name):
    """Training rows, and held-out rows with labels or the noise-free values."""
    if name == "friedman_100000":
        X, f, y = friedman(100_000 + MOST_HELD_OUT)
        return (X[:100_000], y[:100_000]), (X[100_000:], f[100_000:])
    X, y = load({"letter": "letter_recognition"}.get(name, name))
    # classes, not numbers
    y = y.astype(int).astype(str)
    rows = np.random.default_rng(0).permutation(len(y))
    held = min(len(y) // 5, MOST_HELD_OUT)
    return (X[rows[held:]], y[rows[held:]]), (X[rows[:held]], y[rows[:held]])


def compile_on(model, X, y):
    """Short runs, of kernel "whole" on a few rows, so that nothing is compiled later."""
    sample(pt.TreeModel(X[:COMPILED_ON], y[:COMPILED_ON]), 0, draws=4, kernel="whole")
    sample(model, 0, tune=1, draws=4, proposals=100)


def sample(model, seed, **how):
    """A run on two cores, with wall and processor seconds."""
    with cores(REAL_CORES), warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        return timed(lambda: pt.sample(model, rng=seed, progress=False, **how), repeats=1)


def line(name, given, model, what, seed, **how):
    """Run, print a row; of an adaptive run another one to compare with, and the warning."""
    post, wall, cpu = sample(model, seed, **how)
    _, (X, y) = given
    by_chain = predictions_by_chain(post, X)
    points = X[:: max(len(X) // POINTS, 1)][:POINTS]
    z, rhat = disagreement(post, points)
    log_posterior = (post.log_prior_of_tree + post.log_score_of_tree) @ post.weight_of_tree
    cells = [name, f"{model.n_rows:,} x {model.n_features}", what, f"{cpu:.1f}", f"{wall:.1f}", f"{post.course.steps}"]
    cells += [f"{post.n_leaves_of_tree @ post.weight_of_tree:.0f}", f"{log_posterior:.0f}"]
    cells += [f"{loss(model, by_chain.mean(axis=0), y):.4f}"]
    cells += [f"{np.mean([loss(model, one, y) for one in by_chain]):.4f}"]
    cells += [f"{rhat:.2f}", f"{root_mean_square(z):.1f}"]
    compared = how.get("work") == max(WORK)
    if compared:
        other = sample(model, seed + 1, **how)[0]
        cells += [f"{root_mean_square(z):.2f}" for z in between_runs(post, other, points)]
    print(f"| {' | '.join(cells)} |", flush=True)
    if compared:
        print("  " + post.summary().attrs["verdict"], flush=True)


def predictions_by_chain(post, X):
    """Means of leaf values (chains, n, d) over the draws of each chain."""
    by_chain, X = np.zeros((post.n_chains, len(X), post.node_values.shape[1])), post.model.columns.numbers(X)
    for out, trees in zip(by_chain, post.tree_of_draw, strict=True):
        weight = np.bincount(trees, minlength=post.n_distinct_trees) / post.n_draws
        add_predictions_into(out, post.distinct_trees, weight, post.node_values, X)
    return by_chain


def loss(model, predicted, y):
    """Log loss of class probabilities, or root mean square error of means."""
    if model.classes_ is None:
        return float(np.sqrt(np.mean((predicted[:, 0] - y) ** 2)))
    at = np.searchsorted(model.classes_, y)
    return float(-np.log(predicted[np.arange(len(y)), at]).mean())


def root_mean_square(z):
    """Return the root mean square of distances in errors."""
    return float(np.sqrt(np.mean(z**2)))


def values_at(post, X):
    """Draws (quantities, chains, draws) of what is predicted at rows."""
    values = np.moveaxis(post.values_by_draw(X), (2, 3), (0, 1))
    return values.reshape(-1, post.n_chains, post.n_draws)


def disagreement(post, X):
    """Distances (chains, quantities) of each chain from the others in stated errors, and the worst R-hat."""
    values = values_at(post, X)
    values = values[np.ptp(values, axis=(1, 2)) > 1e-9]
    ess = np.stack([rhat_and_ess(values[:, [c]])[1] for c in range(post.n_chains)])
    mean, variance = values.mean(axis=2).T, values.var(axis=2).T / ess
    others = post.n_chains - 1
    away = mean - (mean.sum(axis=0) - mean) / others
    error = np.sqrt(variance + (variance.sum(axis=0) - variance) / others**2)
    return away / np.maximum(error, 1e-12), float(rhat_and_ess(values)[0].max())


def between_runs(post, other, X):
    """Distances (quantities,) between two runs in errors by effective draws, and by the variance between chains."""
    values = [values_at(one, X) for one in (post, other)]
    away = values[0].mean(axis=(1, 2)) - values[1].mean(axis=(1, 2))
    by_ess = sum(v.var(axis=(1, 2)) / rhat_and_ess(v)[1] for v in values)
    by_chains = sum(v.mean(axis=2).var(axis=1, ddof=1) / v.shape[1] for v in values)
    moves = np.minimum(by_ess, by_chains) > 1e-18
    return [(away / np.sqrt(np.maximum(error, 1e-18)))[moves] for error in (by_ess, by_chains)]


if __name__ == "__main__":
    main()
