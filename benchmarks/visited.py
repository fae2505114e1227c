"""Measure the part of the posterior on trees made of drawn pieces.

Run: python benchmarks/visited.py. The exact evidence of the table `maptree_medium` is known; for another table only the
bounds are shown. Seconds are of the processor.
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np

import exact
import pactree_mcmc as pt

sys.path.insert(0, str(Path(__file__).parent / "mixing"))
import real
import tables

LOG_EVIDENCE = -58.803694
RUNS = ((250, 1), (1000, 1), (1000, 2), (1000, 3))


def visited(name, model, whole=None):
    """Print a line for each run and level ``grow``. ``whole`` is the exact log evidence, or None."""
    for draws, seed in RUNS:
        post = pt.sample(model, 1000, tune=500, chains=4, rng=seed, kernel="local", progress=False)
        post = pt.SampledPosterior(post.draws.replace(tree_of_draw=post.draws.tree_of_draw[:, :draws]))
        for grow in (0, 1, 2):
            began = time.process_time()
            found = exact.visited(post, grow)
            spent, n = time.process_time() - began, len(np.unique(post.draws.tree_of_draw))
            fraction = "" if whole is None else f", coverage {np.exp(found.log_evidence - whole):.3f}"
            print(
                f"{name}, seed {seed}: {4 * draws} draws, {n} trees, grow={grow}: log evidence >= "
                f"{found.log_evidence:.3f}{fraction}, {found.graph.n_cells} cells, {spent:.2f} s",
                flush=True,
            )


def main():
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    X, y = tables.read_table("maptree_medium")
    model = pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.95, 0.5), leaf=pt.DirichletMultinomial(2.5))
    exact.visited(pt.sample(model, 10, tune=10, chains=1, rng=1, kernel="local", progress=False), 2)
    visited("maptree_medium", model, LOG_EVIDENCE)
    visited("heart_statlog", real.model_of_table("heart_statlog"))


if __name__ == "__main__":
    main()
