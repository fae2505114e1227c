"""Exported trees send the training rows to the same leaves in scikit-learn, which compares as float32."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import pactree_mcmc as pt
from pactree_mcmc.model.plain import draw_prior
from pactree_mcmc.tree import export


def leaves_of_sklearn(arrays, X):
    """Leaf (n,) by scikit-learn's own rule: X as float32 against thresholds in float64."""
    x, out = np.asarray(X, dtype=np.float32), np.zeros(len(X), dtype=np.int64)
    for i, row in enumerate(x):
        node = 0
        while arrays["children_left"][node] >= 0:
            value = row[arrays["feature"][node]]
            left = arrays["missing_go_to_left"][node] == 1 if np.isnan(value) else value <= arrays["threshold"][node]
            node = arrays["children_left" if left else "children_right"][node]
        out[i] = node
    return out


def unix_seconds(step, n=200):
    rng = np.random.default_rng(0)
    return (1.7e9 + step * rng.permutation(n))[:, None]


def prior_trees(X, split_prior=None, n=10):
    model = pt.TreeModel(X, np.arange(len(X)) % 2, tree_prior=pt.ChipmanPrior(0.97, 0.3), split_prior=split_prior)
    rng = np.random.default_rng(1)
    return pt.posterior_from_trees(model, [draw_prior(model, rng).tree for _ in range(n)])


def check_agreement(X, split_prior=None, rows=None):
    """Every exported tree agrees with the tree on all rows, or is refused; returns how many are exported."""
    post, exported, refused = prior_trees(X, split_prior), 0, []
    for t in range(post.n_distinct_trees):
        tree = post.distinct_tree(t)
        try:
            arrays = tree.to_sklearn(rows)
        except ValueError as error:
            refused.append(str(error))
            continue
        exported += 1
        np.testing.assert_array_equal(leaves_of_sklearn(arrays, X), tree.apply(X))
    assert all("'x0'" in message and "float32" in message for message in refused)
    return exported


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("step", [1.0, 64.0, 100.0, 150.0, 1000.0])
def test_all_training_rows_agree_or_the_column_is_named(step):
    assert (check_agreement(unix_seconds(step)) > 0) == (step > 100.0) or step == 100.0


@pytest.mark.parametrize("split_prior", [pt.GridCuts(12), pt.DyadicCuts(6)])
def test_other_cuts_agree_on_the_rows_that_are_given(split_prior):
    X = unix_seconds(150.0)
    assert check_agreement(X, split_prior, rows=X) > 0


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e30])
def test_thresholds_that_separate_as_float32_stay_as_they_are(scale):
    post = prior_trees(scale * np.random.default_rng(2).normal(size=(100, 2)))
    for t in range(post.n_distinct_trees):
        tree = post.distinct_tree(t)
        assert pt.Tree.from_sklearn(tree.to_sklearn()) == tree


def test_scikit_learn_itself_routes_like_the_test():
    X = unix_seconds(150.0)
    fitted = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, np.arange(200) % 2)
    tree = fitted.tree_
    arrays = {
        name: getattr(tree, name)
        for name in ("children_left", "children_right", "feature", "threshold", "missing_go_to_left")
    }
    np.testing.assert_array_equal(leaves_of_sklearn(arrays, X), fitted.apply(X))


@pytest.mark.planted
def test_thresholds_that_are_not_moved_are_seen(monkeypatch):
    monkeypatch.setattr(export, "_float32_thresholds", lambda tree, X: tree.threshold)
    with pytest.raises(AssertionError):
        check_agreement(unix_seconds(100.0))
