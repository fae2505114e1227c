"""Simulate Theorems 3 and 4 of Blanchard (1999): risks of the data-dependent mixtures beside the bounds.

x is uniform on [0, 1], P(y = 1) is .9 on an interval of length .3 and .2 elsewhere: a tree of three leaves. Each
mixture predicts new rows, each of which counts among its points. "Corollary 2", "omega" and "splittings" are the bounds
at their infimum over all trees, the last two with counted splits ("splittings": Theorem 3). The lower bound holds for
the worst true distribution.
Run: python benchmarks/blanchard.py [--draws 30] [--rows 20 40 80]
"""

import argparse
import time

import numpy as np

import exact
import pactree_mcmc as pt

PRIOR = pt.BranchingProcess(0.45, max_depth=2)


def truth(x):
    return np.where((x > 0.35) & (x <= 0.65), 0.9, 0.2)


def divergence(p, q):
    return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))


def one_sample(n, seed, n_new=8):
    """Return risks (nats, mean over ``n_new`` new rows) and bounds for one sample of ``n`` rows, by name."""
    rng = np.random.default_rng([n, seed])
    x, new = rng.random((n, 1)), rng.random((n_new, 1))
    y = (rng.random(n) < truth(x[:, 0])).astype(int)
    if len(np.unique(y)) == 1:  # a table without one of the classes is not known to have two
        y[0] = 1 - y[0]
    out = {}
    for splitting in ("local", "global"):
        how = {"estimation": 0.5, "tree_prior": PRIOR, "splitting": splitting}
        found = exact.data_dependent_mixture(x, y, new, **how)
        out[f"risk, {splitting}"] = divergence(truth(new[:, 0]), found.probability[:, 1]).mean()
    model = pt.TreeModel(
        x, y, tree_prior=PRIOR, split_prior=pt.LocalCuts(trivial=True), leaf=pt.FrozenLaplace(), estimation=0.5
    )
    p = truth(x[:, 0])
    for name, splits in (("Corollary 2", "corollary"), ("omega", "counted"), ("splittings", "global")):
        out[name] = exact.kl_infimum(model, np.column_stack([1 - p, p]), splits=splits).total
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--rows", type=int, nargs="+", default=[20, 40, 80])
    options = parser.parse_args()
    for n in options.rows:
        began = time.process_time()
        found = [one_sample(n, seed) for seed in range(options.draws)]
        means = {name: np.array([row[name] for row in found]) for name in found[0]}
        parts = [f"{k} {v.mean():.4f} ({v.std(ddof=1) / len(v) ** 0.5:.4f})" for k, v in means.items()]
        lower = exact.minimax_lower_bound(n)
        print(f"n = {n}: lower bound {lower.value:.4f}, {', '.join(parts)} [{time.process_time() - began:.0f} CPU s]")


if __name__ == "__main__":
    main()
