"""Measure the conjecture of Scott (2004, section 3.5.2): Neyman-Pearson trees with the spatially adaptive penalty.

Class 0 is uniform on the square, class 1 uniform above a curve g. alpha is the area there, so that the best rule has no
misses. Excess: misses plus false alarms above alpha, true probabilities. The proven rate of structural risk
minimisation (SRM) is n^(-1/3), the conjectured one n^(-1/2), up to a factor log n. Tolerances and penalties are a
fraction of the theory's, which are vacuous at these n. Cells are finer than the theory asks at each n, so that their
size limits neither rule. *srm* is exact and cubic in n. With --no-tolerance (at most alpha false alarms on the rows)
there is *srm, hull*, too: the best of its trees that are best for a multiplier of the constraint, as in *adaptive*, and
a limit on the leaves; with tolerances that grow with the tree these are far from the best. Slopes of log excess in
log n, standard errors by bootstrap. Seven minutes. Run:
python benchmarks/np_adaptive.py [--fraction 0.1] [--no-tolerance] [--draws 20] [--most 256000] [--most-by-srm 2000]
"""

import argparse
import time
from dataclasses import replace
from functools import partial

import numpy as np

import exact
from exact.systems.dyadic_bounds import srm_tolerance
from exact.systems.dyadic_trees import best_tree_and_cells, dyadic_problem
from exact.systems.neyman_pearson import HullTree, follow_multipliers

FIRST, LEVELS = 250, 9
DELTA = 0.05
SQUARE = [[0.0, 1.0]] * 2
RESAMPLES = 2_000
LIMITS = np.rint(2.0 ** np.arange(2.0, 12.0, 0.5))
"""Limits on the number of leaves; SRM on the hull tries those up to four roots of n."""


def curve(x):
    return 0.5 + 0.25 * np.sin(2 * np.pi * x)


def excess(tree, alpha, ticks=2048):
    """Return true misses plus false alarms above alpha, exact along feature 2, by ``ticks`` points along feature 1."""
    x, side = (np.arange(ticks) + 0.5) / ticks, 0.5**LEVELS
    low = np.arange(2**LEVELS) * side
    grid = np.column_stack([np.repeat(x, len(low)), np.tile(low + side / 2, ticks)])
    called = (tree.predict(grid) == 1).reshape(ticks, len(low))
    above = np.clip((low[None, :] + side - curve(x)[:, None]) / side, 0.0, 1.0)
    return float((~called * above).sum() / above.sum()) + max(float(called.mean()) - alpha, 0.0)


def sample(n, seed):
    """Return n random rows in the square, and their classes."""
    rng = np.random.default_rng([n, seed])
    X, y = rng.random((4 * n, 2)), rng.integers(0, 2, 4 * n)
    kept = (y == 0) | (X[:, 1] > curve(X[:, 0]))
    return X[kept][:n], y[kept][:n]


def srm_on_hull(X, y, alpha, fraction):
    """Return SRM's tree, without tolerance, among those best for a multiplier and a limit on leaves; and its objective.

    ``fraction`` multiplies the penalty. Without a limit the best tree for a multiplier is small or has a leaf for every
    row, with nothing between.
    """
    problem = dyadic_problem(X, y, LEVELS, True, SQUARE, 20_000_000)
    null, other = problem.counts[:, 0], problem.counts[:, 1]
    n0, n1 = null[0], other[0]

    def best_at(multiplier, limit):
        called = multiplier * null / n0 < other / n1
        graph = exact.with_terms(problem.graph, log_stop=-np.where(called, multiplier * null / n0, other / n1))
        hull = exact.hull_by_size(graph)
        corners = slice(int(hull.start[0]), int(hull.start[0] + hull.length[0]))
        leaves, weight = hull.leaves[corners], hull.weight[corners]
        phi = fraction * srm_tolerance(leaves, n1, DELTA, 2, cyclic=True) / 2
        best = int(np.argmin(np.where(leaves <= limit, phi - weight, np.inf)))
        tree, cells = best_tree_and_cells(problem, graph, hull, best)
        label = called[cells]
        objective = other[cells][~label].sum() / n1 + phi[best]
        return HullTree(multiplier, float(null[cells][label].sum() / n0), float(objective), tree, cells, label)

    limits = LIMITS[: np.searchsorted(LIMITS, 4 * n1 ** (1 / 2)) + 1]
    found = [follow_multipliers(partial(best_at, limit=limit), alpha)[0] for limit in limits]
    found = min(found, key=lambda point: point.objective)
    leaf, value = found.tree.feature == -1, np.zeros((found.tree.n_nodes, 2))
    value[leaf] = np.eye(2)[found.label.astype(int)]
    return replace(found.tree, value=value), found.objective


def fitted(method, X, y, alpha, fraction, tolerance):
    """Return the tree of a rule and its objective. ``fraction`` and ``tolerance`` multiply penalty and tolerance."""
    if method == "srm, hull":
        return srm_on_hull(X, y, alpha, fraction)
    found = exact.neyman_pearson_tree(
        X,
        y,
        alpha=alpha,
        method=method,
        tolerance=tolerance,
        strength=fraction,
        delta0=DELTA,
        delta1=DELTA,
        levels=LEVELS,
        cyclic=True,
        bounds=SQUARE,
    )
    return found.tree, found.objective


def slope(sizes, draws, rng):
    """Return the slope of the log mean excess in log n, and its standard error by resampling ``draws`` of each size."""
    x = np.log(sizes)

    def of(values):
        return np.polyfit(x, np.log([v.mean() for v in values]), 1)[0]

    again = [of([rng.choice(v, len(v)) for v in draws]) for _ in range(RESAMPLES)]
    return of(draws), float(np.std(again))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rules", nargs="*")
    parser.add_argument("--fraction", type=float, default=0.1)
    parser.add_argument("--no-tolerance", action="store_true")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--most", type=int, default=256_000)
    parser.add_argument("--most-by-srm", type=int, default=2000)
    options = parser.parse_args()
    ticks = (np.arange(10_000) + 0.5) / 10_000
    alpha, rng = float(np.mean(1 - curve(ticks))), np.random.default_rng(0)
    tolerance = 0.0 if options.no_tolerance else options.fraction
    for method in options.rules or (("srm", "srm, hull", "adaptive") if options.no_tolerance else ("srm", "adaptive")):
        most = options.most_by_srm if method == "srm" else options.most
        sizes = [FIRST * 2**i for i in range(40) if FIRST * 2**i <= most]
        every = []
        for n in sizes:
            began, found = time.process_time(), []
            for seed in range(options.draws):
                tree, objective = fitted(method, *sample(n, seed), alpha, options.fraction, tolerance)
                found.append((excess(tree, alpha), tree.n_leaves, objective))
            found = np.array(found)
            every.append(found[:, 0])
            mean, error = found.mean(axis=0), found[:, 0].std(ddof=1) / options.draws**0.5
            seconds = (time.process_time() - began) / options.draws
            print(
                f"{method}, n = {n}: excess {mean[0]:.4f} ({error:.4f}), {mean[1]:.1f} leaves, objective {mean[2]:.4f}"
                f" [{seconds:.2f} CPU s each]",
                flush=True,
            )
        for low, high in ((FIRST, 4000), (4000, 64_000), (64_000, 256_000), (4000, 256_000)):
            of = [i for i, n in enumerate(sizes) if low <= n <= high]
            if sizes and high <= sizes[-1] and len(of) > 1:
                found = slope([sizes[i] for i in of], [every[i] for i in of], rng)
                print(f"  slope, n = {low} to {high}: {found[0]:.3f} ({found[1]:.3f})", flush=True)


if __name__ == "__main__":
    main()
