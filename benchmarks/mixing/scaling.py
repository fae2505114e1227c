"""Time of one draw (100 proposals) of kernel `local` against the number of rows, and memory at the largest.

p = 10, binary target, 256 quantile cuts, one chain, measured after burn-in.
Run: python benchmarks/mixing/scaling.py [n ...] [--kernel local]
"""

import argparse
import resource

import numpy as np
import tables
from timing import cores, grown_start, kernel_name, read_kernel

import pactree_mcmc as pt

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
BURN_IN = 200
MEASURED = 200
REPEATS = 2


def seconds_a_draw(n, kernel):
    """Seconds of a draw past the burn-in, the shorter of some repeats, and the leaves then reached."""
    X, y = tables.friedman_binary(n)
    model = pt.TreeModel(X, y, split_prior=pt.GridCuts(256))

    def run(tune):
        with cores(1):
            return pt.sample(model, 1, tune=tune, chains=1, rng=0, kernel=kernel, start=grown_start(), progress=False)

    run(1)
    before, after = (min((run(tune) for _ in range(REPEATS)), key=_seconds) for tune in (BURN_IN, BURN_IN + MEASURED))
    return (after.seconds - before.seconds) / MEASURED, int(after.n_leaves[0, -1])


def _seconds(post):
    return post.seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", nargs="*", type=int, default=SIZES)
    parser.add_argument("--kernel", type=read_kernel, default="local")
    args = parser.parse_args()
    print(f"kernel {kernel_name(args.kernel)}, start {grown_start()}", flush=True)
    sizes, seconds = sorted(args.n), []
    for n in sizes:
        spent, leaves = seconds_a_draw(n, args.kernel)
        seconds.append(spent)
        print(f"n={n:,}: {1e6 * spent:.1f} us a draw, {leaves} leaves", flush=True)
    if len(sizes) > 1:
        slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        print(f"log-log slope {slope:.2f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"peak resident memory, tables and imports included, at n={sizes[-1]:,}: {peak / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
