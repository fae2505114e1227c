"""The conjecture of Scott (2004, section 3.5.2), measured: Neyman-Pearson trees with the spatially adaptive penalty.

Class 0 is uniform on the square, class 1 uniform above a curve g; alpha is the area there, so that the best rule misses
nothing. Excess: misses plus false alarms above alpha, true values. SRM's proven rate is n^(-1/3), the conjectured one
n^(-1/2). Tolerances and penalties are a fraction of the theory's, which says nothing at these n.
Run: python benchmarks/np_adaptive.py [--fraction 0.1] [--draws 10]
"""

import argparse
import time

import numpy as np

import exact

SIZES = (250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000)
MOST_BY_SRM = 2000


def curve(x):
    return 0.5 + 0.25 * np.sin(2 * np.pi * x)


def excess(tree, alpha, m=400):
    """True misses plus false alarms above alpha, on a grid."""
    ticks = (np.arange(m) + 0.5) / m
    grid = np.column_stack([np.repeat(ticks, m), np.tile(ticks, m)])
    called, is_one = tree.predict(grid) == 1, grid[:, 1] > curve(grid[:, 0])
    return np.mean(~called[is_one]) + max(called.mean() - alpha, 0.0)


def sample(n, seed):
    rng = np.random.default_rng([n, seed])
    X, y = rng.random((4 * n, 2)), rng.integers(0, 2, 4 * n)
    kept = (y == 0) | (X[:, 1] > curve(X[:, 0]))
    return X[kept][:n], y[kept][:n]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fraction", type=float, default=0.1)
    parser.add_argument("--draws", type=int, default=10)
    given = parser.parse_args()
    ticks = (np.arange(10_000) + 0.5) / 10_000
    alpha = float(np.mean(1 - curve(ticks)))
    means = {}
    for method in ("srm", "adaptive"):
        for n in SIZES:
            if method == "srm" and n > MOST_BY_SRM:
                continue
            began, found = time.process_time(), []
            for seed in range(given.draws):
                how = {"alpha": alpha, "method": method, "tolerance": given.fraction, "strength": given.fraction}
                tree = exact.neyman_pearson_tree(*sample(n, seed), levels=5, cyclic=True, bounds=[[0, 1]] * 2, **how)
                found.append((excess(tree.tree, alpha), tree.n_leaves, tree.gap))
            mean, seconds = np.mean(found, axis=0), time.process_time() - began
            means[method, n] = mean[0]
            spread = np.std([row[0] for row in found], ddof=1) / given.draws**0.5
            print(
                f"{method}, n = {n}: excess {mean[0]:.4f} ({spread:.4f}), {mean[1]:.1f} leaves, gap {mean[2]:.4f}"
                f" [{seconds / given.draws:.2f} CPU s each]",
                flush=True,
            )
        n, value = zip(*((n, means[m, n]) for m, n in means if m == method), strict=True)
        for few in (len(n), min(len(n), 4)):
            slope = np.polyfit(np.log(n[:few]), np.log(value[:few]), 1)[0]
            print(f"  slope of log excess in log n, n = {n[0]} to {n[few - 1]}: {slope:.2f}", flush=True)


if __name__ == "__main__":
    main()
