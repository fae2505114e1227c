"""Measure proposals per second of a kernel on one core, beside bartz (one tree, depth at most 11) in the same run.

255 quantile cuts (codes of a byte for both), p = 10, binary target, n = 10,000 and 100,000. A step of bartz is one
proposal to grow or prune, then all leaves and the error variance; ours is one proposal, with the leaves integrated out.
Each rate is the median of three chains past a burn-in, without compiling, by processor time, so that other work on the
core counts for neither. Prints rows of Markdown, one for each kernel and n; without ratios if bartz is not installed
(extra bench), or with --no-rival.
Run: python benchmarks/sampler_speed.py [--kernel grow-prune --kernel local] [--rows 10000 100000] [--no-rival]
"""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["NUMBA_NUM_THREADS"] = "1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import argparse
import importlib.util
import time
import warnings

import numpy as np
from data import friedman_binary

import pactree_mcmc as pt

CUTS = 255
CHAINS = 3
DRAWS = {"grow-prune": (3000, 10_000)}
"""Numbers of draws, of 100 proposals each, before the time is taken and while it is, by kernel, else OTHER_DRAWS."""
OTHER_DRAWS = (1000, 2000)
STEPS = 3000
OUTCOMES = ("continuous", "binary")


def ours(n, kernel):
    """Return proposals per second of a chain past its burn-in, the median of CHAINS, and leaves of the last tree."""
    model = pt.TreeModel(*friedman_binary(n), split_prior=pt.GridCuts(CUTS))
    before, measured = DRAWS.get(kernel, OTHER_DRAWS)
    how = {"chains": 1, "kernel": kernel, "progress": False}
    pt.sample(model, 1, tune=1, rng=0, **how)
    rates = []
    for seed in range(CHAINS):
        seconds = []
        for tune in (before, before + measured):
            began = time.process_time()
            post = pt.sample(model, 1, tune=tune, rng=seed, **how)
            seconds.append(time.process_time() - began)
        rates.append(100 * measured / (seconds[1] - seconds[0]))
    return float(np.median(rates)), int(post.n_leaves[0, -1])


def bartz(n, outcome):
    """Return steps per second of one tree of bartz, the median of CHAINS, and the leaves of the last tree."""
    import jax
    import jax.numpy as jnp
    from bartz import mcmcloop, mcmcstep

    X, y = friedman_binary(n)
    cuts = np.quantile(X, np.arange(1, CUTS + 1) / (CUTS + 1), axis=0)
    codes = np.stack([np.searchsorted(cuts[:, k], X[:, k]) for k in range(10)]).astype(np.uint8)
    binary = outcome == "binary"
    state = mcmcstep.init(
        X=jnp.asarray(codes),
        y=jnp.asarray(y, jnp.float32),
        outcome_type=outcome,
        offset=0.0,
        max_split=jnp.full(10, CUTS, jnp.uint8),
        num_trees=1,
        p_nonterminal=mcmcstep.make_p_nonterminal(11, 0.95, 2.0),
        leaf_prior_cov_inv=mcmcstep.Wishart(value=jnp.float32(1.0), nu=None, rate=None),
        error_cov_inv=None
        if binary
        else mcmcstep.Wishart(value=jnp.float32(1.0), nu=jnp.float32(3.0), rate=jnp.float32(1.0)),
    )
    key = jax.random.key(0)
    result = mcmcloop.run_mcmc(key, state, 1, n_burn=STEPS - 1)
    jax.block_until_ready(result.final_state.forest.split_tree)
    rates = []
    for seed in range(CHAINS):
        # the run may donate its arrays, so each goes on from a copy
        again = jax.tree.map(jnp.copy, result.final_state)
        began = time.process_time()
        out = mcmcloop.run_mcmc(jax.random.key(seed), again, 1, n_burn=STEPS - 1)
        jax.block_until_ready(out.final_state.forest.split_tree)
        rates.append(STEPS / (time.process_time() - began))
    leaves = int((out.final_state.forest.split_tree != 0).sum()) + 1
    return float(np.median(rates)), leaves


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", action="append", help="default: grow-prune, then local")
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000])
    parser.add_argument("--no-rival", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    kernels = options.kernel or ["grow-prune", "local"]
    rivals = OUTCOMES
    if options.no_rival or importlib.util.find_spec("bartz") is None:
        rivals = ()
        print("without bartz: not installed, or not wanted")
    print(
        "| kernel | n | proposals/s (leaves) |" + "".join(f" bartz, {outcome} (leaves), times |" for outcome in rivals)
    )
    print("|" + " --- |" * (3 + len(rivals)), flush=True)
    for n in options.rows:
        beside = [bartz(n, outcome) for outcome in rivals]
        for kernel in kernels:
            rate, leaves = ours(n, kernel)
            cells = [f"{theirs:,.0f} ({size}), {rate / theirs:.0f} times" for theirs, size in beside]
            print(f"| {' | '.join([kernel, f'{n:,}', f'{rate:,.0f} ({leaves})', *cells])} |", flush=True)


if __name__ == "__main__":
    main()
