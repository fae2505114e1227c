"""Peak memory of a run beside the caller's arrays: 256 quantile cuts, binary target, one chain.

Run: python benchmarks/memory.py [n] [p]
"""

import resource
import sys

import numpy as np

import pactree_mcmc as pt


def peak():
    """Largest resident size so far, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(X, y):
    model = pt.TreeModel(X, y, questions=pt.GridCuts(256))
    return pt.sample(model, 10, tune=100, chains=1, rng=0, progress=False)


def main():
    n, p = (int(a) for a in (sys.argv[1:] + ["2000000", "10"][len(sys.argv) - 1 :]))
    rng = np.random.default_rng(0)
    run(rng.random((500, p)), rng.random(500) < 0.5)
    X = rng.random((n, p))
    y = (X[:, 0] + X[:, -1] > 1).astype(np.int64)
    before = peak()
    run(X, y)
    used = peak() - before
    allowed = 3 * n * p + 16 * n
    print(f"n={n:,}, p={p}: {used / 1e6:.0f} MB beside the caller's arrays, {used / n:.1f} bytes a row;", end=" ")
    print(f"allowed 3 n p + 16 n = {allowed / 1e6:.0f} MB, ratio {used / allowed:.2f}")


if __name__ == "__main__":
    main()
