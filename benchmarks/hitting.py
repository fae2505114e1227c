"""Count proposals until a chain first reaches the posterior: a deep isolated step, and a decoy whose pull grows with n.

After Kim and Rockova (mixing rates of Bayesian CART) and Tan, Ronen, Saarinen and Duan (hitting times of Bayesian trees
that grow with n). Each chain starts from the stump. It hits when its log posterior is within 3 nats of that of the best
tree, which the exact engine finds. Medians over chains; the budget if half of the chains have not hit.

step: one feature, dyadic cuts, a wavelet at depth D (mean 0 on every coarser interval), so that no split above it has
any signal; D grows.
decoy: P(y = 1) is .9 if x1 and x2 are on the same side of 1/2 and .1 otherwise; x3 shows which, in 80 % of the rows.
A greedy root splits on x3; the best tree does not split on it. n grows.
Run: python benchmarks/hitting.py PICTURE [step decoy] [--chains 6] [--budget 100000]
"""

import argparse
import time
import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullLocator

import exact
import pactree_mcmc as pt

KERNELS = {
    "blanchard": {"kernel": "blanchard"},
    "grow-prune": {"kernel": "grow-prune"},
    "cgm": {"kernel": "cgm"},
    "local": {"kernel": "local"},
    "local, tempered": {"kernel": "local", "betas": 4},
}
EVERY = 50
"""Number of proposals per draw, so the resolution of a hitting time."""
NATS = 3.0
"""Distance from the best log posterior at which a chain has hit."""


def step(depth):
    """Return the model of a wavelet at ``depth``: 512 rows, noise of standard deviation 1."""
    rng = np.random.default_rng(depth)
    x = (np.arange(512) + 0.5) / 512
    at = np.floor(x * 2**depth) == 2 ** (depth - 1) if depth else np.ones(512, dtype=bool)
    up = np.floor(x * 2 ** (depth + 1)) % 2 == 0
    y = np.where(at, np.where(up, 1.0, -1.0), 0.0) * 1.2 * 2 ** (depth / 2) + rng.normal(size=512)
    prior = pt.BranchingProcess(0.3, max_depth=depth + 2)
    splits, leaf = pt.DyadicCuts(depth + 2, bounds=[[0, 1]]), pt.NormalKnownVariance(1.0, 0.0, 0.1)
    return pt.TreeModel(x[:, None], y, split_prior=splits, tree_prior=prior, leaf=leaf)


def decoy(n):
    """Return the model of n rows of the decoy, three features with cuts at 1/4, 1/2 and 3/4."""
    rng = np.random.default_rng(n)
    X = rng.random((n, 3))
    same = (X[:, 0] > 0.5) == (X[:, 1] > 0.5)
    side = np.where(rng.random(n) < 0.8, same, ~same)
    X[:, 2] = (X[:, 2] + side) / 2.0
    y = rng.random(n) < np.where(same, 0.9, 0.1)
    cuts = pt.GridCuts([[0.25, 0.5, 0.75]] * 3)
    return pt.TreeModel(X, y, split_prior=cuts, tree_prior=pt.ChipmanPrior(0.95, 2.0, max_depth=5))


def hits(model, how, chains, budget):
    """Return the number of proposals (chains,) until each chain first hits, ``budget`` if it does not; and CPU seconds.

    ``how`` has the arguments of `pt.sample` that choose the kernel.
    """
    best = exact.solve(model).map_log_joint
    began = time.process_time()
    run = {"tune": 0, "chains": chains, "rng": 1, "start": "stump", "proposals": EVERY, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        post = pt.sample(model, budget // EVERY, **run, **how)
    reached = post.log_prior + post.log_score >= best - NATS
    first = np.where(reached.any(axis=1), EVERY * (np.argmax(reached, axis=1) + 1), budget)
    return first, time.process_time() - began


PROBLEMS = {
    "step": (step, (0, 1, 2, 3, 4), "depth of the step"),
    "decoy": (decoy, (25, 50, 100, 200, 400, 800), "rows"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture")
    parser.add_argument("what", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--chains", type=int, default=6)
    parser.add_argument("--budget", type=int, default=100_000)
    options = parser.parse_args()
    figure, axes = plt.subplots(1, len(options.what), figsize=(5 * len(options.what) + 2, 3.6), constrained_layout=True)
    for ax, what in zip(np.atleast_1d(axes), options.what, strict=True):
        make, sizes, label = PROBLEMS[what]
        for name, how in KERNELS.items():
            found = []
            for size in sizes:
                first, seconds = hits(make(size), how, options.chains, options.budget)
                missed = int(np.sum(first == options.budget))
                found.append(options.budget if 2 * missed >= options.chains else np.median(first))
                print(f"{what} {size}, {name}: median {found[-1]:.0f}, not hit {missed} of {len(first)}", end=" ")
                print(f"[{seconds:.1f} CPU s]", flush=True)
            ax.plot(sizes, found, "o-", markersize=4, label=name)
        ax.axhline(options.budget, color="0.5", linewidth=0.8, linestyle="--", label="budget: half have not hit")
        ax.set(yscale="log", xlabel=label, ylabel="proposals until the first hit", title=what)
        if what == "decoy":
            ax.set_xscale("log")
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.xaxis.set_minor_locator(NullLocator())
    lines = np.atleast_1d(axes)[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside right center", frameon=False, fontsize=8)
    figure.savefig(options.picture, dpi=90)


if __name__ == "__main__":
    main()
