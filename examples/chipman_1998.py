"""The example of Chipman, George and McCulloch (1998): exact and sampled side by side.

Run: python examples/chipman_1998.py [folder for the pictures]
"""

import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas as pd

import exact
import pactree_mcmc as pt


def chipman_data(n=800, seed=34647):
    """Return a table and y: five regions, noise of standard deviation 2."""
    rng = np.random.default_rng(seed)
    x1 = rng.choice(np.arange(1, 11) - 0.5, n)
    x2 = rng.choice(["a", "b", "c", "d"], n)
    noise = 2.0 * rng.standard_normal(n)
    in_ab = np.isin(x2, ["a", "b"])
    mean = np.where(in_ab, np.where(x1 <= 5, 8.0, 2.0), np.where(x1 <= 3, 1.0, np.where(x1 <= 7, 5.0, 8.0)))
    return pd.DataFrame({"x1": x1, "x2": pd.Categorical(x2)}), mean + noise


def main(folder):
    X, y = chipman_data()
    model = pt.TreeModel(
        X, y, tree_prior=pt.ChipmanPrior(0.95, 1.0), leaf=pt.NormalInverseGamma(m0=4.85, k0=1 / 3, a0=5.0, b0=20.0)
    )
    exact.solve(model)  # compile
    began = time.perf_counter()
    truth = exact.solve(model)
    print(f"{truth}, solved in {1000 * (time.perf_counter() - began):.1f} ms once compiled")
    print(f"P(5 leaves) = {truth.n_leaves_pmf()[5]:.4f}, best tree (one of two that mirror each other):")
    print(truth.map_tree().format(), end="\n\n")

    for kernel in ("grow-prune", "local"):
        sampled = pt.sample(model, draws=2000, tune=500, chains=4, rng=1, kernel=kernel)
        print(f"\nkernel {kernel!r}: {sampled} in {sampled.draws.seconds:.1f} s", end="\n\n")
        table = exact.compare(truth, sampled)
        print(table)
    print("\nGrow and prune alone stay with the root split they found first; the local moves find the distribution.")
    folder.mkdir(parents=True, exist_ok=True)
    table.plot().figure.savefig(folder / "chipman_1998_exact_against_sampled.png", dpi=120)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "output")
