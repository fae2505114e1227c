"""Proposals per second of "grow-prune" on one core, beside bartz (one tree, depth at most 11) in the same run.

256 quantile cuts, p = 10, binary target. Run: python benchmarks/sampler_speed.py [--no-rival]
"""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import argparse
import time

import numpy as np
from data import friedman_binary

import pactree_mcmc as pt


def ours(n):
    """Proposals per second, from 300,000 to 1,300,000 proposals of a chain, and leaves reached; median of three."""
    model = pt.TreeModel(*friedman_binary(n), questions=pt.GridCuts(256))
    pt.sample(model, 1, tune=1, chains=1, rng=0, progress=False)
    rates = []
    for seed in range(3):
        seconds = []
        for tune in (3000, 13_000):
            began = time.perf_counter()
            post = pt.sample(model, 1, tune=tune, chains=1, rng=seed, progress=False)
            seconds.append(time.perf_counter() - began)
        rates.append(1_000_000 / (seconds[1] - seconds[0]))
    return float(np.median(rates)), int(post.n_leaves[0, -1])


def bartz(n, outcome):
    """Steps per second of one tree of bartz; a step is one proposal."""
    import jax
    import jax.numpy as jnp
    from bartz import mcmcloop, mcmcstep

    X, y = friedman_binary(n)
    cuts = np.quantile(X, np.arange(1, 257) / 257, axis=0)
    codes = np.stack([np.searchsorted(cuts[:, k], X[:, k]) for k in range(10)]).astype(np.uint16)
    binary = outcome == "binary"
    state = mcmcstep.init(
        X=jnp.asarray(codes),
        y=jnp.asarray(y, jnp.float32),
        outcome_type=outcome,
        offset=0.0,
        max_split=jnp.full(10, 256, jnp.uint16),
        num_trees=1,
        p_nonterminal=mcmcstep.make_p_nonterminal(11, 0.95, 2.0),
        leaf_prior_cov_inv=mcmcstep.Wishart(value=jnp.float32(1.0), nu=None, rate=None),
        error_cov_inv=None
        if binary
        else mcmcstep.Wishart(value=jnp.float32(1.0), nu=jnp.float32(3.0), rate=jnp.float32(1.0)),
    )
    steps = 3000
    key = jax.random.key(0)
    result = mcmcloop.run_mcmc(key, state, 1, n_burn=steps - 1)
    jax.block_until_ready(result.final_state.forest.split_tree)
    rates = []
    for seed in range(3):
        # the run may donate its arrays, so each goes on from a copy
        again = jax.tree.map(jnp.copy, result.final_state)
        began = time.perf_counter()
        out = mcmcloop.run_mcmc(jax.random.key(seed), again, 1, n_burn=steps - 1)
        jax.block_until_ready(out.final_state.forest.split_tree)
        rates.append(steps / (time.perf_counter() - began))
    return float(np.median(rates))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-rival", action="store_true")
    with_rival = not parser.parse_args().no_rival
    for n in (10_000, 100_000):
        rate, leaves = ours(n)
        print(f"n={n}: pactree-mcmc {rate:,.0f} proposals/s ({leaves} leaves)")
        if with_rival and n == 10_000:
            for outcome in ("continuous", "binary"):
                rival = bartz(n, outcome)
                print(f"n={n}: bartz ({outcome}) {rival:,.0f} proposals/s, ratio {rate / rival:.0f}")


if __name__ == "__main__":
    main()
