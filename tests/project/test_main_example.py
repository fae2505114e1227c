"""The main example gives no warning, and its rivals are at their best: their settings have the least loss."""

import importlib
import re

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from tests import ROOT


@pytest.fixture(scope="module")
def example():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        return importlib.import_module("breast_cancer")


@pytest.fixture(scope="module")
def table():
    """Return two features that do not separate the wines, and their labels as text."""
    told = load_wine(as_frame=True)
    return told.data[["ash", "alcohol"]], np.array(["a", "b", "c"])[told.target]


def counted(example, tree, X, y, X_new, pseudocount):
    """Return the smoothed class probabilities of the leaves, counted row by row."""
    leaf, classes = tree.apply(X), np.unique(y)
    counts = np.array([[np.sum((leaf == t) & (y == k)) for k in classes] for t in tree.apply(X_new)])
    return (counts + pseudocount / len(classes)) / (counts.sum(axis=1, keepdims=True) + pseudocount)


def test_cart_has_the_least_cross_validated_loss(example, table, monkeypatch):
    """Brute force: every tree of the pruning path, down to the root alone, with every pseudocount."""
    X, y = table
    monkeypatch.setattr(example, "PSEUDOCOUNTS", (0.01, 1.0))
    path = DecisionTreeClassifier(random_state=0).cost_complexity_pruning_path(X, y).ccp_alphas
    prices = [*(np.nextafter(path[1::12], 0.0)), 1.1 * path[-1]]

    def total(price, pseudocount):
        loss = 0.0
        for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
            tree = DecisionTreeClassifier(ccp_alpha=price, random_state=0).fit(X.iloc[train], y[train])
            p = counted(example, tree, X.iloc[train], y[train], X.iloc[test], pseudocount)
            loss += log_loss(y[test], p, labels=np.unique(y))
        return loss

    cart, pseudocount = example.tuned_cart(X, y)
    losses = {(price, a): total(price, a) for price in prices for a in example.PSEUDOCOUNTS}
    assert total(cart.ccp_alpha, pseudocount) <= min(losses.values()) * (1.0 + 1e-9)
    assert losses[prices[0], 0.01] > 2.0 * min(losses.values())  # unsmoothed leaves of a large tree
    p = example.smooth(*example.leaf_fractions(cart, X), pseudocount)
    np.testing.assert_allclose(p, counted(example, cart, X, y, X, pseudocount))


@pytest.mark.filterwarnings("error::pactree_mcmc.ConvergenceWarning")
def test_it_runs_without_a_warning(example, tmp_path, capsys):
    example.main(tmp_path)
    shown = capsys.readouterr().out
    assert "most probable shape" in shown
    posterior, cart, _ = re.findall(r"(?m)^(?:posterior|CART|forest).* (\d\.\d+)  +\d\.\d+$", shown)
    assert float(posterior) < float(cart)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".png"] * 3
