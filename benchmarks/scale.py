"""Measure fits and predictions at many rows of 20 features: processor seconds, peak memory, slope against rows.

Each size of each method runs in a process of its own, whose data may take at most ``--most-memory`` GB, after a small
fit that loads compiled code.
Run: python benchmarks/scale.py [--sizes 1e4 1e5 1e6] [--methods sampler counts ...]
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import exact
import pactree_mcmc as pt

P, DEPTH, PIECE, PREDICTED = 20, 10, 500_000, 100_000
WORK = 1e8
WARM_UP = 20_000
"""Rows of the small fit: so many that the sampler uses the moves that it uses for many rows."""


def table(n, p=P):
    """Return uniform features (n, p) and the classes of a noisy chessboard of two of them, with a strip of a third."""
    rng = np.random.default_rng(0)
    X = rng.random((n, p))
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)) | (X[:, 2] > 0.9)
    return X, np.where(rng.random(n) < 0.1, ~y, y).astype(np.int64)


def sampler(X, y):
    """Sample with local moves on 256 quantile cuts, in an adaptive run with little work."""
    model = pt.TreeModel(X, y, split_prior=pt.GridCuts(256))
    return pt.sample(model, 50, chains=2, rng=0, kernel="local", work=WORK, progress=False)


def default_cuts(X, y):
    """Sample with the default cuts, between all values of the rows of a cell, in an adaptive run with little work."""
    return pt.sample(pt.TreeModel(X, y), chains=2, rng=0, work=WORK, progress=False)


def grid(X, y):
    """Sample with 16 quantile cuts a feature, in an adaptive run with little work."""
    return pt.sample(pt.TreeModel(X, y, split_prior=pt.GridCuts(16)), chains=2, rng=0, work=WORK, progress=False)


def default_cuts_regression(X, y):
    """Sample as `default_cuts` does, for the class as a number with normal noise."""
    return default_cuts(X, np.random.default_rng(1).normal(y))


def grid_regression(X, y):
    """Sample as `grid` does, for the class as a number with normal noise."""
    return grid(X, np.random.default_rng(1).normal(y))


def counts(X, y):
    """Sum over the subtrees of a KD tree of the first rows, with rows counted in pieces."""
    design, prior = pt.kd_tree(X[:10_000], DEPTH), pt.BranchingProcess(0.5, max_depth=None)
    fed = exact.DesignCounts(design)
    for first in range(0, len(X), PIECE):
        fed.update(X[first : first + PIECE], y[first : first + PIECE])
    return fed.solve(tree_prior=prior)


def solve(X, y):
    """Sum over the subtrees of the same KD tree, with all rows at once."""
    design, prior = pt.kd_tree(X[:10_000], DEPTH), pt.BranchingProcess(0.5, max_depth=None)
    return exact.solve(pt.TreeModel(X, y, split_prior=design, tree_prior=prior))


def dyadic(X, y):
    """Fit the dyadic tree of least penalised risk, with coordinates in turn."""
    bounds = [[0.0, 1.0]] * X.shape[1]
    return exact.DyadicTreeClassifier(levels=1, cyclic=True, bounds=bounds).fit(X, y)


def mixture(X, y):
    """Fit the progressive mixture over the subtrees of a KD tree, for one order of the rows."""
    model = pt.TreeModel(
        X,
        y,
        tree_prior=pt.BranchingProcess(0.5, None),
        split_prior=pt.kd_tree(X, DEPTH, coordinate="widest"),
        leaf=pt.FrozenLaplace(0.5),
        estimation=np.random.default_rng(0).permutation(len(X)) < len(X) // 2,
    )
    return exact.progressive_mixture(model, orders=1, rng=0)


SAMPLERS = (sampler, default_cuts, grid, default_cuts_regression, grid_regression)
METHODS = {fit.__name__: fit for fit in (*SAMPLERS, counts, solve, dyadic, mixture)}
"""Functions that fit, by name; the first line of their docstrings is printed."""


def peak():
    """Return the peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def present():
    """Return the memory that this process has now in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(method, n):
    """Fit n rows and return seconds of the fit and per predicted row, bytes per row beside X and y, and peak bytes."""
    fit, small = METHODS[method], table(WARM_UP)
    answer = "predict" if method.endswith("regression") else "predict_proba"
    getattr(fit(*small), answer)(small[0][:10])
    X, y = table(n)
    before, began = present(), time.process_time()
    fitted = fit(X, y)
    fitted_in, began = time.process_time() - began, time.process_time()
    m = min(n, PREDICTED)
    getattr(fitted, answer)(X[:m])
    predicted_in = time.process_time() - began
    return {"n": n, "fit": fitted_in, "predict": predicted_in / m, "bytes": (peak() - before) / n, "peak": peak()}


def apart(method, n, most_memory):
    """Return the result of `measure` in a process of its own, or its error as {"n": n, "error": text}."""
    call = [sys.executable, __file__, "--one", method, str(n), "--most-memory", str(most_memory)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"n": n, "error": (done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def slope(sizes, values):
    """Return the slope of a line through the points (``sizes``, ``values``) on logarithmic axes."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-9)), 1)[0])


def scale(args):
    for method in args.methods:
        print(f"{method}: {METHODS[method].__doc__}", flush=True)
        found = []
        for n in (int(float(size)) for size in args.sizes):
            one = apart(method, n, args.most_memory)
            if "error" in one:
                print(f"  n={n:,}: {one['error']}", flush=True)
                break
            found.append(one)
            words = f"fit {one['fit']:.2f} s, predict {1e6 * one['predict']:.2f} us a row, "
            words += f"peak {one['peak'] / 1e9:.2f} GB, {one['bytes']:.0f} bytes a row beside X and y"
            print(f"  n={n:,}: {words}", flush=True)
        if len(found) > 1:
            sizes, seconds = ([one[name] for one in found] for name in ("n", "fit"))
            last = slope(sizes[-2:], seconds[-2:])
            print(f"  log-log slope {slope(sizes, seconds):.2f}, of the last two sizes {last:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["1e4", "1e5", "1e6"], help="rows")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--most-memory", type=float, default=6.0, help="GB")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        most = int(args.most_memory * 1e9)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        print(json.dumps(measure(args.one[0], int(args.one[1]))))
    else:
        scale(args)


if __name__ == "__main__":
    main()
