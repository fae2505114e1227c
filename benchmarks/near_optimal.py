"""Measure near-optimal trees by bounds and depth-first search, beside the sum over all trees and beside STreeD.

Binary features, two classes, the objective errors + .01 n leaves, a depth limit; the best tree, and all trees with an
objective of at most 1.1 times the best. The sum builds the graph of all cells (`exact.build_graph`) and lists its best
trees; it must find the same. STreeD (pystreed, one tree) runs in the same process if it is installed. Seconds of the
second call. Rows of Markdown.
Run: python benchmarks/near_optimal.py [--sizes 500x12x4 ...] [--without-sum]
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import importlib.util

import numpy as np
from clock import timed

import exact
import pactree_mcmc as pt

SIZES = ("500x12x4", "1000x25x4", "1000x40x4", "1000x40x5", "1000x100x4")
"""Problems: rows x features x depth limit."""
LARGEST_SUM = 2_000_000
"""Largest number of cells of the sum, for which a process takes two gigabytes."""


def problem(n, p):
    """Return rows (n, p) of zeros and ones, and classes that depend on five of the features and on chance."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (n, p))
    y = X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3] * X[:, 4] + (rng.random(n) < 0.15) >= 2
    return X.astype(float), y.astype(int)


def by_sum(model, penalty):
    """Return the objectives up to 1.1 times the best, from the graph of all cells; None if it is too large."""
    try:
        found = exact.build_graph(model, LARGEST_SUM)
    except exact.Intractable:
        return None
    errors = found.stats.sum(axis=1) - found.stats.max(axis=1)
    log_stop = exact.by_slot(found, -errors - penalty)
    graph = exact.with_terms(found, log_stop=log_stop, log_split=0.0, log_rule=0.0)
    best = exact.answers.best_sums(graph)
    values, _ = exact.recursion.trees.rank_trees(graph, best, 20_000)
    return -values[values >= 1.1 * values[0] - 1e-9]


def streed(X, y, penalty, depth):
    """Return the objective (errors plus ``penalty`` per leaf) of STreeD's best tree."""
    from pystreed import STreeDClassifier

    tree = STreeDClassifier("cost-complex-accuracy", max_depth=depth, cost_complexity=penalty / len(y))
    tree.fit(X.astype(int), y)
    return np.sum(tree.predict(X.astype(int)) != y) + penalty * tree.get_n_leaves()


def measure(size, with_sum):
    """Print the row of one problem, an element of SIZES."""
    n, p, depth = map(int, size.split("x"))
    X, y = problem(n, p)
    penalty = 0.01 * n
    model = pt.TreeModel(X, y, tree_prior=pt.LeafPenalty(1.0, max_depth=depth))
    best, _, best_seconds = timed(lambda: exact.best_trees(model, 1, penalty=penalty), 2)
    objective = -best.log_joint[0]
    near, _, seconds = timed(lambda: exact.trees_within(model, 0.1 * objective, penalty=penalty), 2)
    x = near.importance(X, y)
    needed = ", ".join(str(k) for k in np.flatnonzero(x[:, 0] > 0.0))
    row = f"| {n}, {p}, {depth} | {objective:g} | {len(near.trees):,}{'' if near.complete else ' or more'} "
    row += f"| {best_seconds:.2f} | {seconds:.2f} | {near.ambiguity(X):.2f}, {needed or 'none'} "
    if with_sum:
        expected, _, sum_seconds = timed(lambda: by_sum(model, penalty), 1)
        row += "| too large " if expected is None else f"| {len(expected):,}, {sum_seconds:.1f} "
        assert expected is None or np.allclose(np.sort(expected), np.sort(-near.log_joint))
    if importlib.util.find_spec("pystreed"):
        other, _, other_seconds = timed(lambda: streed(X, y, penalty, depth), 2)
        row += f"| {other:g}, {other_seconds:.2f} "
    print(row + "|", flush=True)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--sizes", nargs="+", default=SIZES)
    options.add_argument("--without-sum", action="store_true")
    chosen = options.parse_args()
    for each in chosen.sizes:
        measure(each, not chosen.without_sum)
