"""Bands that users see cover what they name: partial dependence and expectations."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.rows import predictions as predictive
from tests.posterior.test_credible import LEAVES, PRIOR, X

N = len(X)


def truth_of(model, rng):
    """Draw a tree, leaf parameters and y; return y, the tree as a posterior, and E(y) in each of its nodes (m, d)."""
    leaf, target = model.leaf, model.target
    post = pt.posterior_from_trees(model, [pt.simulate(model, rng=rng)[0]])
    number = post.draws.distinct_tree(0).apply(X)
    parameters = leaf.draw_parameters(rng, np.zeros((len(post.draws.place_stats), leaf.n_stats(target))), target)
    y = leaf.draw_given(rng, [part[number] for part in parameters], target, np.arange(N))
    return y, post, leaf.expectation_given(parameters)


def tables(name, n, seed):
    leaf, y = LEAVES[name]
    model, rng = pt.TreeModel(X, y, leaf=leaf, **PRIOR), np.random.default_rng(seed)
    while n:
        y, post, value = truth_of(model, rng)
        if model.classes_ is None or len(np.unique(y)) == 3:
            n -= 1
            yield exact.solve(pt.TreeModel(X, y, leaf=leaf, **PRIOR)), post, value


def coverage_of_partial_dependence(truth, post, value):
    """Fraction of the values of a partial dependence curve inside the band of its plot."""
    band = pt.plots.plot_partial_dependence(truth, 0, X=X, n_trees=400).patches[0].get_data()
    plt.close("all")
    actual = []
    for x in (band.edges[1:] + band.edges[:-1]) / 2.0:
        rows = X.copy()
        rows[:, 0] = x
        actual.append(value[post.draws.distinct_tree(0).apply(rows), -1].mean())
    return np.mean((band.baseline <= actual) & (actual <= band.values))


@pytest.mark.more(everyday=["normal"])
@pytest.mark.parametrize("name", ["normal", "classes"])
def test_the_band_of_partial_dependence_covers(name):
    is_covered = [coverage_of_partial_dependence(*table) for table in tables(name, 25, 1)]
    assert abs(np.mean(is_covered) - 0.9) < 0.02 + 3.0 * np.std(is_covered) / np.sqrt(25), np.mean(is_covered)


@pytest.mark.more(everyday=["normal"])
@pytest.mark.parametrize("name", ["normal", "classes", "regression", "times"])
def test_the_same_draws_by_node_and_by_row(name):
    """Draws of the values of nodes, looked up at rows, have the quantiles of the closed forms."""
    leaf, y = LEAVES[name]
    post = exact.solve(pt.TreeModel(X, y, leaf=leaf, **PRIOR)).sample(300, rng=1)
    numbers = predictive.trees_of_spaced_draws(post.draws, 3000)
    by_node = predictive.draw_predictions(post.draws, numbers, X[:3], np.random.default_rng(1))
    ends = post.credible_interval(X[:3], 0.8).reshape(3, -1, 2)
    assert np.allclose((by_node[..., None] > ends).mean(axis=0), [0.9, 0.1], atol=0.03)
