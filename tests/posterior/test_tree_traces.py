"""Traces of cells and of distances between trees, where ArviZ and the convergence check read them."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.convergence import distance_quantities
from pactree_mcmc.posterior.inference_data import tree_traces

from .spaces import MODELS, cells_and_splits, independent_draws

pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def post():
    return independent_draws(exact.solve(MODELS["local, nominal"]), chains=3, draws=40)


def test_traces_are_of_the_most_uncertain_cells(post):
    traces, labels = tree_traces(post)
    indicators = traces["support"]
    assert indicators.shape == (3, 40, 20) and len(set(labels["cell"])) == 20
    assert np.unique(indicators.reshape(120, 20), axis=1).shape[1] == 20
    mean = indicators.mean(axis=(0, 1))
    assert np.all(np.diff(np.abs(mean - 0.5)) >= -1e-12)
    support = post.support(0.0)
    words = dict(zip(support.words, support.probability, strict=True))
    assert mean == pytest.approx([words[label] for label in labels["cell"]])


def test_traces_are_of_distances_from_trees_drawn(post):
    traces, labels = tree_traces(post)
    assert traces["tree_distance"].shape == (3, 40, len(labels["focal"]))
    for j, label in enumerate(labels["focal"]):
        draw, chain = int(label.split()[1]), int(label.split()[-1])
        focal = cells_and_splits(post.model, post.distinct_tree(int(post.tree_of_draw[chain, draw])))[0]
        for c, t in ((0, 0), (1, 17), (2, 39)):
            other = cells_and_splits(post.model, post.distinct_tree(int(post.tree_of_draw[c, t])))[0]
            assert traces["tree_distance"][c, t, j] == len(focal ^ other)


def test_what_is_nearly_always_as_far_is_not_judged():
    x = np.arange(10.0)
    stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
    model, draws = pt.TreeModel(x[:, None], x > 5), np.zeros((4, 1000), dtype=int)
    draws[:, :20] = 1
    assert distance_quantities(pt.posterior_from_trees(model, stumps, draws)).names == []
    draws[2, :21] = 1
    assert len(distance_quantities(pt.posterior_from_trees(model, stumps, draws)).names) == 2
