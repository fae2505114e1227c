"""Representations of results."""

import numpy as np

import exact
import pactree_mcmc as pt

X = np.arange(20.0)[:, None]
MODEL = pt.TreeModel(X, X[:, 0] > 9)


def test_representations_fit_a_screen():
    truth = exact.solve(MODEL)
    post = truth.sample(20, rng=1)
    values = [post, MODEL, post.tree_distances(), post.shapes(), truth.graph]
    run = pt.sample(MODEL, 20, tune=5, chains=2, rng=1, kernel="grow-prune", progress=False)
    for one in (*values, run.course, run.draws.calls[0]):
        assert len(repr(one)) <= 450 and "\n" not in repr(one) and repr(one).startswith(type(one).__name__)
    assert "matrix=<array (20, 20)>" in repr(post.tree_distances())
