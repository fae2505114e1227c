"""Time and memory of exact.solve on the problems with known answers, first and second solve of the process.

The first is compiled already where the cache is filled; a small problem runs before, so that loading it is not counted.
Rows of Markdown; maptree_medium needs the shared tables. Run: python benchmarks/exact_speed.py
"""

import resource
import sys
from pathlib import Path

from clock import timed
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
    exact.solve(pt.TreeModel(*four_levels(30)))
    print("| problem | cells | (cell, depth) pairs | first solve | second | log evidence | peak of the process |")
    print("|" + " --- |" * 7)
    for name, model in problems():
        truth, *first = timed(lambda model=model: exact.solve(model), 1)
        _, *second = timed(lambda model=model: exact.solve(model), 1)
        graph, memory = truth.graph, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        cells = [f"{wall:.3f} s ({cpu:.3f} of CPU)" for wall, cpu in (first, second)]
        cells = [
            name,
            f"{graph.n_cells:,}",
            f"{graph.n_slots:,}",
            *cells,
            f"{truth.log_evidence:.6f}",
            f"{memory:.2f} GB",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
