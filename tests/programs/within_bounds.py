"""Both engines over every kind of splits and of size; with the word ``beyond``, a place beyond the end of an array."""

import sys

import numpy as np

import exact
import pactree_mcmc as pt
from pactree_mcmc.core.bits import sort_first
from tests.problems.extremes import faults


def everything():
    """Runs and exact answers."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 4, 40), rng.integers(0, 7, 40), rng.random(40)])
    y = (X[:, 1] + 4 * X[:, 2] + rng.random(40) > 5).astype(int)
    for split_prior in (pt.LocalCuts(), pt.LocalCuts(min_leaf=3), pt.GridCuts(5), pt.DyadicCuts(3)):
        nominal = None if isinstance(split_prior, pt.DyadicCuts) else [0]
        model = pt.TreeModel(X, y, split_prior=split_prior, nominal=nominal)
        post = pt.sample(model, 20, tune=10, chains=1, rng=2, progress=False)
        assert np.isfinite(post.draws.log_score_of_tree).all() and np.isfinite(post.predict_proba(X)).all()
        few = pt.TreeModel(X[:7], y[:7], split_prior=split_prior, nominal=nominal)
        truth = exact.solve(few)
        truth.predict_proba(X), truth.n_leaves_pmf(), truth.draw_trees(3, 1), truth.map_tree()


if __name__ == "__main__":
    if "beyond" in sys.argv:
        sort_first(np.zeros(3), 5)
    everything()
    assert [line for seed in range(200) for line in faults(seed)] == []
    print("within bounds")
