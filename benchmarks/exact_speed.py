"""Warm time and memory of exact.solve on the problems with known answers.

maptree_medium needs the shared tables. Run: python benchmarks/exact_speed.py
"""

import resource
import sys
import time
from pathlib import Path

from data import four_levels, has_table, read_table

import exact
import pactree_mcmc as pt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))
from chipman_1998 import chipman_data  # noqa: E402


def problems():
    leaf = pt.NormalInverseGamma(m0=4.85, k0=1 / 3, a0=5.0, b0=20.0)
    yield "Chipman et al. 1998", pt.TreeModel(*chipman_data(), tree_prior=pt.ChipmanPrior(0.95, 1.0), leaf=leaf)
    yield "one dimension, n = 200", pt.TreeModel(*four_levels(), tree_prior=pt.ChipmanPrior(0.95, 1.0, max_depth=10))
    if has_table("maptree_medium"):
        X, y, _ = read_table("maptree_medium")
        prior, leaf = pt.ChipmanPrior(0.95, 0.5), pt.DirichletMultinomial(2.5)
        yield "maptree_medium", pt.TreeModel(X, y, tree_prior=prior, leaf=leaf)


def main():
    for name, model in problems():
        exact.solve(model)
        began = time.perf_counter()
        truth = exact.solve(model)
        seconds = time.perf_counter() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        graph = truth.graph
        print(f"{name}: {seconds:.3f} s, log evidence {truth.log_evidence:.6f}, {graph.n_cells:,} cells,", end=" ")
        print(
            f"{graph.n_slots:,} (cell, depth) pairs, {graph.n_edges:,} questions; peak of the process {memory:.2f} GB"
        )


if __name__ == "__main__":
    main()
