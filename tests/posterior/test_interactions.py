"""Probabilities of pairs of features on one path, by listing all trees."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

from .spaces import MODELS, all_trees


def pairs_below(tree, node=0, ancestors=()):
    """The pairs of features of which one is split on below the other."""
    k = int(tree.feature[node])
    if k < 0:
        return set()
    here = {frozenset((j, k)) for j in ancestors if j != k}
    left, right = int(tree.left[node]), int(tree.right[node])
    return here | pairs_below(tree, left, (*ancestors, k)) | pairs_below(tree, right, (*ancestors, k))


@pytest.mark.parametrize("name", ["local, regression", "dyadic"])
def test_probabilities_are_those_of_all_trees_listed(name):
    model = MODELS[name]
    _, trees, probability = all_trees(model)
    expected, names = {}, model.columns.names
    for tree, p in zip(trees, probability, strict=True):
        for j, k in map(sorted, pairs_below(tree)):
            expected[names[j], names[k]] = expected.get((names[j], names[k]), 0.0) + p
    table = exact.solve(model).sample(1500, rng=1).interactions(0.0)
    assert {pair for pair, p in expected.items() if p > 0.01} <= set(zip(table["feature"], table["other"], strict=True))
    for feature, other, p, mcse in table.itertuples(index=False):
        assert p == pytest.approx(expected[feature, other], abs=0.06)
        assert mcse == pytest.approx(np.sqrt(p * (1.0 - p) / 1500), rel=0.3)


@pytest.mark.parametrize("wrong", [{"min_probability": 2.0}, {"most": 0}, {"draws": 0}])
def test_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        exact.solve(MODELS["local, regression"]).interactions(**wrong)


def grid():
    a, b, c = (x.ravel().astype(float) for x in np.meshgrid(*[np.arange(4)] * 3))
    return np.column_stack([a, b, c])


def test_pairs_of_one_tree_and_of_none():
    X = grid()
    model = pt.TreeModel(X, X[:, 0] > 1)
    post = pt.posterior_from_trees(model, [pt.Tree([-1], [0], [0], [0])])
    assert len(post.interactions()) == 0
    tree = pt.Tree([0, 1, -1, -1, -1], [1.5, 1.5, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])
    pairs = pt.posterior_from_trees(model, [tree]).interactions(1.0)
    assert pairs[["feature", "other", "probability"]].to_numpy().tolist() == [["x0", "x1", 1.0]]
    assert len(pt.posterior_from_trees(model, [tree], [[0]]).interactions(most=1)) == 1
