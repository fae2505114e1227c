"""Measure the speed of the progressive mixture and of context-tree weighting.

Run: python benchmarks/progressive.py [speed] [contexts]; both unless one is named. The context-tree rival is bayesml
(pip install bayesml); without it the line is left out.
"""

import argparse
import math

import numpy as np
from clock import timed

import exact
import pactree_mcmc as pt


def checkered(n, p, seed=0):
    """Return uniform features (n, p) and classes 0 and 1, of which the first two determine the more probable one."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, p))
    return X, (rng.random(n) < np.where((X[:, 0] > 0.3) ^ (X[:, 1] > 0.6), 0.8, 0.3)).astype(int)


def cyclic_model(n, depth, p=2):
    """Return the model of a cyclic dyadic design of this depth, with half of the rows in E."""
    X, y = checkered(n, p)
    return pt.TreeModel(
        X,
        y,
        tree_prior=pt.BranchingProcess(0.4, depth),
        split_prior=pt.DyadicCuts(-(-depth // p), cyclic=True, bounds=[[0, 1]] * p),
        leaf=pt.FrozenLaplace(),
        estimation=0.5,
    )


def speed():
    print("exact.progressive_mixture, cyclic dyadic; processor seconds, best of 2, model and graph included")
    exact.progressive_mixture(cyclic_model(100, 8))
    for depth, n in ((8, 10_000), (10, 10_000)):
        model = cyclic_model(n, depth)
        print(f"  depth {depth}, n = {n:,}: {timed(lambda model=model: exact.progressive_mixture(model), 2)[2]:.3f}")
    sizes = (1_000, 10_000, 100_000)
    for p in (2, 10):
        seconds = [timed(lambda n=n, p=p: exact.progressive_mixture(cyclic_model(n, 20, p)), 2)[2] for n in sizes]
        for n, s in zip(sizes, seconds, strict=True):
            print(f"  depth 20, p = {p}, n = {n:,}: {s:.3f}")
        slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        print(f"  log-log slope {slope:.2f}, last decade {math.log10(seconds[-1] / seconds[-2]):.2f}")


def markov(n, order, seed=0):
    """Return a binary Markov sequence (n,) of this order, and its entropy rate in bits."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.05, 0.95, (2,) * order)
    s, u = rng.integers(2, size=n), rng.random(n)
    for i in range(order, n):
        s[i] = u[i] < p[tuple(s[i - order : i][::-1])]
    P = np.zeros((2**order, 2**order))
    for state in range(2**order):
        recent = tuple(state >> j & 1 for j in range(order))
        for a in range(2):
            P[state, (state << 1 | a) % 2**order] += p[recent] if a else 1 - p[recent]
    distribution = np.linalg.matrix_power(P, 10_000)[0]
    return s, float(-(distribution[:, None] * P * np.log2(np.where(P > 0, P, 1.0))).sum())


def contexts():
    """Print speed and code length of context-tree weighting, and the seconds of bayesml."""
    n = 100_000
    sequence, rate = markov(n, 3)
    exact.context_tree_weighting(sequence[:100], 4, 2)
    print(f"context-tree weighting, binary Markov source of order 3, {n:,} symbols, entropy rate {rate:.5f} bits")
    for depth in (8, 20):
        ctw, _, ours = timed(lambda depth=depth: exact.context_tree_weighting(sequence, depth, 2), 2)
        bits = ctw.code_length / ctw.n_seen
        distribution = ctw.depth_pmf()
        print(
            f"  depth {depth}: {ours:.3f} processor seconds, {n / ours:,.0f} symbols/s, {bits:.5f} bits a symbol,"
            f" most probable depth {distribution.argmax()} ({distribution.max():.3f})"
        )
    try:
        from bayesml import contexttree
    except ImportError:
        print("  bayesml is not installed")
        return
    short = sequence[:20_000]
    rival = contexttree.LearnModel(c_k=2, c_d_max=8)
    theirs = timed(lambda: rival.update_posterior(short), 1)[2]
    ours = timed(lambda: exact.context_tree_weighting(short, 8, 2), 1)[2]
    print(f"  bayesml, depth 8, first {len(short):,} symbols: {theirs:.2f} s, {theirs / ours:.0f} times ours")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], "speed", "contexts"], default=[])
    for part in parser.parse_args().parts or ["speed", "contexts"]:
        {"speed": speed, "contexts": contexts}[part]()


if __name__ == "__main__":
    main()
