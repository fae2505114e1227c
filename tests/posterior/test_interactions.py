"""Interactions: probabilities by listing all trees, strengths by arithmetic, additive functions, bad input."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.rows import attributions as module

from .spaces import MODELS, all_trees


def pairs_below(tree, node=0, above=()):
    """The pairs of features of which one is split on below the other."""
    k = int(tree.feature[node])
    if k < 0:
        return set()
    here = {frozenset((j, k)) for j in above if j != k}
    left, right = int(tree.left[node]), int(tree.right[node])
    return here | pairs_below(tree, left, (*above, k)) | pairs_below(tree, right, (*above, k))


@pytest.mark.parametrize("name", ["local, regression", "dyadic"])
def test_probabilities_are_those_of_all_trees_listed(name):
    model = MODELS[name]
    _, trees, probability = all_trees(model)
    expected = np.zeros((model.n_features, model.n_features))
    for tree, p in zip(trees, probability, strict=True):
        for j, k in map(sorted, pairs_below(tree)):
            expected[j, k] += p
            expected[k, j] += p
    found = module.pair_probabilities(exact.solve(model).sample(4000, rng=1))
    assert np.allclose(found, expected, atol=0.04)


def grid():
    a, b, c = (x.ravel().astype(float) for x in np.meshgrid(*[np.arange(4)] * 3))
    return np.column_stack([a, b, c])


def posterior_of(y, X=None):
    X = grid() if X is None else X
    leaf = pt.NormalKnownVariance(0.01, m0=0.0, k0=0.01)
    return pt.sample(pt.TreeModel(X, y, leaf=leaf), 300, tune=300, chains=2, rng=1, kernel="local", progress=False)


def test_a_product_has_the_strength_of_its_interaction():
    """Two signs multiplied: no effect alone, all of the joint effect is interaction, of standard deviation one."""
    X = grid()
    y = np.where(X[:, 0] > 1, 1.0, -1.0) * np.where(X[:, 1] > 1, 1.0, -1.0)
    found = posterior_of(y).interactions()
    first = found.iloc[0]
    assert {first["feature"], first["other"]} == {"x0", "x1"} and first["probability"] == pytest.approx(1.0)
    assert first["strength"] == pytest.approx(1.0, abs=0.1) and first["H"] == pytest.approx(1.0, abs=0.05)
    assert first["lower"] <= first["strength"] <= first["upper"]


def test_a_sum_has_almost_none():
    X = grid()
    found = posterior_of(np.where(X[:, 0] > 1, 1.0, 0.0) + np.where(X[:, 1] > 1, 1.0, 0.0)).interactions()
    first = found.iloc[0]
    assert first["probability"] > 0.9 and first["strength"] < 0.05 and first["H"] < 0.1


def test_classes_and_a_posterior_of_one_tree():
    X = grid()
    post = pt.posterior_from_trees(pt.TreeModel(X, X[:, 0] > 1), [pt.Tree([-1], [0], [0], [0])])
    assert len(post.interactions()) == 0
    tree = pt.Tree([0, 1, -1, -1, -1], [1.5, 1.5, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])
    found = pt.posterior_from_trees(pt.TreeModel(X, X[:, 0] > 1), [tree]).interactions()
    assert found["probability"].tolist() == [1.0] and found["strength"].iloc[0] > 0.0


@pytest.mark.parametrize("wrong", [{"min_probability": 2.0}, {"most": 0}, {"coverage": 0.0}])
def test_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        exact.solve(MODELS["local, regression"]).interactions(**wrong)
