"""The rivals of the benchmarks do their best: CART's prunings are scikit-learn's, and its choice is the least loss."""

import importlib

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests import ROOT


@pytest.fixture(scope="module")
def rivals():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("rivals")


PROBLEMS = {"iris": (DecisionTreeClassifier, load_iris, 4), "diabetes": (DecisionTreeRegressor, load_diabetes, 25)}


@pytest.mark.parametrize("name", PROBLEMS)
def test_prunings_are_those_of_scikit_learn(rivals, name):
    kind, load, every = PROBLEMS[name]
    X, y = load(return_X_y=True)
    whole = kind(random_state=0).fit(X, y)
    pruned = rivals.Pruned(whole)
    for price in [*pruned.prices()[::every], pruned.prices()[-1]]:
        expected = kind(random_state=0, ccp_alpha=price).fit(X, y)
        leaf = pruned.leaf_of(X, price)
        np.testing.assert_allclose(whole.tree_.value[leaf], expected.tree_.value[expected.apply(X)])
        n_leaves = pruned.totals(np.ones((whole.tree_.node_count, 1)), np.array([price]))[0, 0]
        assert n_leaves == len(np.unique(leaf)) == expected.get_n_leaves()
    assert expected.get_n_leaves() == 1  # prices reach up to the root


def cross_validated(rivals, X, y, price, pseudo):
    """Log loss of the trees that scikit-learn prunes at a price, their leaves smoothed by hand."""
    total, classes = 0.0, np.unique(y)
    for train, test in rivals.folds_of(y, 5, False):
        tree = DecisionTreeClassifier(random_state=0, ccp_alpha=price).fit(X[train], y[train])
        leaf, at = tree.apply(X[train]), tree.apply(X[test])
        counts = np.array([[np.sum((leaf == t) & (y[train] == k)) for k in classes] for t in at])
        said = (counts + pseudo / len(classes)) / (counts.sum(axis=1, keepdims=True) + pseudo)
        total += len(test) * rivals.loss(said, y[test], classes)
    return total


def test_price_and_pseudo_rows_lose_least(rivals):
    """No other price of the path or number of pseudo rows does better in the same folds, found by refitting."""
    X, y = load_iris(return_X_y=True)
    cart = rivals.Cart(False, pseudo_rows=(0.01, 0.3, 3.0)).fit(X, y)
    losses = {
        (price, pseudo): cross_validated(rivals, X, y, price, pseudo)
        for price in cart.pruned.prices()
        for pseudo in cart.pseudo_rows
    }
    assert losses[cart.price, cart.pseudo] == pytest.approx(min(losses.values()), rel=1e-9)
    assert max(losses.values()) > 1.5 * min(losses.values())
    tree = DecisionTreeClassifier(random_state=0, ccp_alpha=cart.price).fit(X, y)
    counts = tree.tree_.value[tree.apply(X), 0] * tree.tree_.n_node_samples[tree.apply(X), None]
    smoothed = (counts + cart.pseudo / 3) / (counts.sum(axis=1, keepdims=True) + cart.pseudo)
    np.testing.assert_allclose(cart.predict(X), smoothed)


def test_pseudo_votes_save_a_forest_from_infinite_loss(rivals):
    X, y = load_iris(return_X_y=True)
    forest = rivals.Forest(False, 16, max_features=None).fit(X[::2], y[::2])
    said = forest.predict(X[1::2])
    np.testing.assert_allclose(said.sum(axis=1), 1.0)
    plain = rivals.loss(forest.forest.predict_proba(X[1::2]), y[1::2], forest.classes)
    assert rivals.loss(said, y[1::2], forest.classes) < min(plain, 0.5)


def test_loss_of_a_class_never_seen(rivals):
    said = np.array([[0.5, 0.5], [0.5, 0.5]])
    assert rivals.loss(said, np.array([0, 2]), np.array([0, 1])) == pytest.approx((np.log(2) - np.log(1e-15)) / 2)
