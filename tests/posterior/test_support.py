"""Cells and splits: those of all trees listed, those of trees counted by hand, and their Monte-Carlo errors."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.ess import rhat_and_ess
from pactree_mcmc.posterior.trees.cells import Cells

from .spaces import (
    MODELS,
    all_trees,
    independent_draws,
    probabilities_by_key,
    probabilities_of_cells_and_splits,
    with_draws,
)


def stump(threshold, feature=0):
    return pt.Tree([feature, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0])


def disagreement(model):
    """The largest difference between the exact support and that of all trees listed."""
    truth, trees, probability = all_trees(model)
    expected = probabilities_by_key(model, *probabilities_of_cells_and_splits(model, trees, probability))
    support = truth.support(0.0)
    answer = dict(zip(support.key, support.probability.tolist(), strict=True))
    assert len(answer) == len(support.key)
    both = expected.keys() | answer.keys()
    return max(abs(expected.get(key, 0.0) - answer.get(key, 0.0)) for key in both)


@pytest.mark.more(everyday=["local, nominal"])
@pytest.mark.parametrize("name", MODELS)
def test_exact_support_is_that_of_all_trees_listed(name):
    assert disagreement(MODELS[name]) < 1e-9


@pytest.mark.more(everyday=["local, nominal"])
@pytest.mark.parametrize("name", MODELS)
def test_support_of_draws_is_that_of_trees_counted_by_hand(name):
    model = MODELS[name]
    post = independent_draws(exact.solve(model), chains=3, draws=40)
    support = post.support(0.0)
    for chain, column in zip(post.draws.tree_of_draw, support.by_chain.T, strict=True):
        frequency = np.bincount(chain, minlength=post.draws.n_distinct_trees) / len(chain)
        trees = [post.draws.distinct_tree(t) for t in range(post.draws.n_distinct_trees)]
        expected = probabilities_by_key(model, *probabilities_of_cells_and_splits(model, trees, frequency))
        assert expected.keys() == set(support.key)
        assert column == pytest.approx([expected[key] for key in support.key], abs=1e-12)
    traces = support.by_tree[:, post.draws.tree_of_draw]
    assert (traces.mean(axis=(1, 2)) == pytest.approx(support.probability)) and support.probability.min() > 0.0
    rhat, ess = rhat_and_ess(traces)
    assert np.array_equal(support.rhat, rhat) and np.array_equal(support.ess, ess)
    p = support.probability
    assert support.mcse == pytest.approx(np.sqrt(p * (1 - p) / ess))
    for kind in ("cell", "split"):
        assert np.all(np.diff(p[support.kind == kind]) <= 0.0)


def test_the_same_partition_is_the_same_split():
    """Exchanged categories, another threshold between the same rows, another feature that separates them equally."""
    X = np.array([[0, 0, 5.0], [1, 0, 6.0], [0, 1, 9.0], [1, 1, 8.0]])
    model = pt.TreeModel(X, [0, 1, 0, 1], nominal=[0])
    leaf = {"left": [1, 0, 0], "right": [2, 0, 0]}
    trees = [
        pt.Tree([0, -1, -1], [0, 0, 0], categories=[1, -1, -1], **leaf),
        pt.Tree([0, -1, -1], [0, 0, 0], categories=[2, -1, -1], **leaf),
        *(pt.Tree([k, -1, -1], [t, 0, 0], **leaf) for k, t in ((1, 0.2), (1, 0.7), (2, 7.0))),
    ]
    cells = pt.posterior_from_trees(model, trees).draws.cells
    assert cells.split_of_node[::3].tolist() == [0, 0, 1, 1]  # thresholds between the same rows are one tree
    assert cells.of_node.reshape(4, 3)[:2].tolist() == [[0, 1, 2], [0, 2, 1]]


def test_the_expected_difference_counts_effective_draws():
    """With each draw repeated nine times the frequencies differ by three times as much."""
    post = independent_draws(exact.solve(MODELS["grid, nominal"]), draws=300)
    sticky = with_draws(post, np.repeat(post.draws.tree_of_draw, 9, axis=1)).asdsf(0.0)
    difference = post.asdsf(0.0)
    assert sticky.asdsf == pytest.approx(difference.asdsf)
    assert sticky.expected == pytest.approx(difference.expected, rel=0.1)


@pytest.mark.planted
def test_stuck_chains_differ_far_more_than_expected():
    x = np.arange(10.0)
    model = pt.TreeModel(x[:, None], x > 5)
    stuck = pt.posterior_from_trees(
        model, [stump(4.5), stump(5.5)], np.repeat([[0], [0], [1], [1]], 200, axis=1)
    ).asdsf()
    assert stuck.n_cells == 4
    assert stuck.asdsf == pytest.approx(np.std([0, 0, 1, 1], ddof=1))
    assert stuck.expected < 0.05
    one = pt.posterior_from_trees(model, [stump(4.5), stump(5.5)], [[0] * 100 + [1] * 100]).asdsf()
    assert one.asdsf == pytest.approx(np.std([0, 1], ddof=1))


def test_what_cannot_be_asked():
    post = independent_draws(exact.solve(MODELS["local, nominal"]), draws=5)
    for wrong in (-0.1, 1.1, "often", np.nan):
        with pytest.raises(ValueError, match="min_probability"):
            post.support(wrong)
        with pytest.raises(ValueError, match="min_probability"):
            post.asdsf(wrong)
    short = with_draws(post, post.draws.tree_of_draw[:, :2])
    assert np.isnan(short.support().rhat).all() and np.isnan(short.asdsf().expected)
    assert isinstance(short.draws.cells, Cells)
