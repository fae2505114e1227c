"""Measure the progressive mixture and context-tree weighting: speed, and the bias of the Monte-Carlo engines.

Run: python benchmarks/progressive.py [speed] [contexts] [bias]; all three unless some are named. The context-tree rival
is bayesml (pip install bayesml); without it the line is left out.
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


def bias_problems():
    """Yield names and models on which the engines are compared."""
    X, y = checkered(200, 2, 1)
    frozen = {"leaf": pt.FrozenLaplace(), "estimation": 0.5}
    bounds = [[0, 1]] * 2
    yield (
        "dyadic, 2 x 3 levels, n = 200",
        pt.TreeModel(
            X, y, tree_prior=pt.BranchingProcess(0.4, 6), split_prior=pt.DyadicCuts(3, bounds=bounds), **frozen
        ),
    )
    yield (
        "grid of 7 x 7 cuts, n = 200",
        pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.95, 1.0, max_depth=5), split_prior=pt.GridCuts(7), **frozen),
    )
    x, z = X[:80, :1], y[:80]
    yield (
        "one dimension, every cut, n = 80",
        pt.TreeModel(x, z, tree_prior=pt.ChipmanPrior(0.95, 1.0, max_depth=6), **frozen),
    )


def bias(kernel, wanted):
    """Print errors of both Monte-Carlo engines against the exact mixture, for problems with ``wanted`` in the name."""
    rng = np.random.default_rng(9)
    print(f"progressive mixture by Monte Carlo, kernel {kernel!r}, against exact: at 500 new points the mean absolute")
    print("error of P(y = 1), its Monte-Carlo standard error, and the excess Kullback-Leibler divergence in millinats")
    for name, model in bias_problems():
        if wanted not in name:
            continue
        X = rng.random((500, model.n_features))
        expected = exact.progressive_mixture(model).predict_proba(X)
        print(f"  {name}")
        runs = [("mcmc", {"steps": steps}) for steps in (1, 3, 10, 30, 100, 300, 1000)]
        for engine, options in [*runs, ("smc", {"particles": 200}), ("smc", {"particles": 1000})]:
            how = {"engine": engine, "kernel": kernel, "chains": 16, "rng": 1, **options}
            found, _, seconds = timed(lambda model=model, how=how: pt.progressive_mixture(model, **how), 1)
            q = found.predict_proba(X)
            kl = (expected * np.log(expected / q)).sum(axis=1).mean()
            option = ", ".join(f"{key} = {value}" for key, value in options.items())
            evidence = "" if found.log_evidence is None else f", log evidence {found.log_evidence:.2f}"
            print(
                f"    {engine}, {option}: {abs(q - expected)[:, 1].mean():.5f}, {found.predict_proba_se(X).mean():.5f},"
                f" {1e3 * kl:.4f}; {seconds:.1f} s{evidence}",
                flush=True,
            )
        print(f"    exact log evidence {exact.solve(model).log_evidence:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], "speed", "contexts", "bias"], default=[])
    parser.add_argument("--kernel", default="grow-prune")
    parser.add_argument("--problem", help="part of the name of the bias problems to run")
    arguments = parser.parse_args()
    parts = arguments.parts or ["speed", "contexts", "bias"]
    if "speed" in parts:
        speed()
    if "contexts" in parts:
        contexts()
    if "bias" in parts:
        bias(arguments.kernel, arguments.problem or "")


if __name__ == "__main__":
    main()
