"""Peak memory of a run beside the caller's arrays: 256 quantile cuts, binary target, one chain.

Counts what Python and NumPy allocate; compiled code, the same for any table, is said apart.

Run: python benchmarks/memory.py [n] [p]
"""

import resource
import sys
import tracemalloc

import numpy as np

import pactree_mcmc as pt


def main():
    n, p = (int(a) for a in (sys.argv[1:] + ["2000000", "10"][len(sys.argv) - 1 :]))
    rng = np.random.default_rng(0)
    X = rng.random((n, p))
    y = (X[:, 0] + X[:, -1] > 1).astype(np.int64)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for measured in (False, True):
        if measured:
            tracemalloc.start()
        model = pt.TreeModel(X, y, split_prior=pt.GridCuts(256))
        pt.sample(model, 10, tune=100, chains=1, rng=0, progress=False)
    used = tracemalloc.get_traced_memory()[1]
    process = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    allowed = 3 * n * p + 16 * n
    print(f"n={n:,}, p={p}: {used / 1e6:.0f} MB beside the caller's arrays, {used / n:.1f} bytes a row;", end=" ")
    print(f"allowed 3 n p + 16 n = {allowed / 1e6:.0f} MB, ratio {used / allowed:.2f};", end=" ")
    print(f"the process grew by {process / 1e6:.0f} MB in all, compiled code with it")


if __name__ == "__main__":
    main()
