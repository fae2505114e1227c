"""Shapley values against the sum over all subsets; interactions by listing all trees and by arithmetic."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.rows import attributions

from .spaces import MODELS, all_trees


def problem(regression=False):
    """Two ordered features, the second with missing values, a nominal one, and one that no tree uses."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": rng.integers(0, 8, 80).astype(float), "b": rng.integers(0, 5, 80) / 2.0})
    X.loc[rng.random(80) < 0.2, "b"] = np.nan
    X["kind"] = pd.Categorical(rng.choice(["p", "q", "r"], 80))
    X["idle"] = rng.random(80).round(1)
    y = rng.normal(size=80).round(2) + X["a"] if regression else rng.choice(["u", "v", "w"], 80)
    return X, pt.TreeModel(X, np.asarray(y), missing="branch", tree_prior=pt.ChipmanPrior(0.95, 0.5))


TREES = [
    pt.Tree([-1], [0], [0], [0]),
    pt.Tree([1, 2, -1, -1, -1], [0.75, 0, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0], [-1, 0b101, -1, -1, -1]),
    # the same feature several times on one path, and missing values to the left
    pt.Tree(
        [0, 0, 1, -1, 0, -1, -1, -1, 2, -1, -1],
        [5.5, 3.5, 1.25, 0, 1.5, 0, 0, 0, 0, 0, 0],
        [1, 2, 3, 0, 5, 0, 0, 0, 9, 0, 0],
        [8, 7, 4, 0, 6, 0, 0, 0, 10, 0, 0],
        [-1] * 8 + [0b010] + [-1] * 2,
        [False, False, True] + [False] * 8,
    ),
]


def follows_left(tree, node, row):
    x = row[tree.feature[node]]
    if tree.categories[node] >= 0:
        return bool(tree.categories[node] >> int(x) & 1) if x >= 0 else bool(tree.default_left[node])
    return bool(tree.default_left[node]) if np.isnan(x) else bool(x <= tree.threshold[node])


def prediction_with_features(tree, row, included, node=0):
    """Return the prediction of a tree for a row of which only some features are known."""
    if tree.feature[node] < 0:
        return tree.value[node]
    left, right = int(tree.left[node]), int(tree.right[node])
    if tree.feature[node] in included:
        return prediction_with_features(tree, row, included, left if follows_left(tree, node, row) else right)
    rows = tree.rows[[left, right]]
    part = rows / rows.sum() if rows.sum() > 0 else np.array([0.5, 0.5])
    return sum(f * prediction_with_features(tree, row, included, child) for f, child in zip(part, (left, right)))


def shapley_by_subsets(tree, row, p):
    """Shapley values (p, d) as they are defined."""
    out = np.zeros((p, tree.value.shape[1]))
    for j in range(p):
        others = [k for k in range(p) if k != j]
        for size in range(p):
            weight = math.factorial(size) * math.factorial(p - size - 1) / math.factorial(p)
            for included in combinations(others, size):
                gain = prediction_with_features(tree, row, {*included, j}) - prediction_with_features(
                    tree, row, set(included)
                )
                out[j] += weight * gain
    return out


@pytest.mark.parametrize("regression", [False, True])
def test_shapley_values_are_those_of_all_subsets_of_features(regression):
    X, model = problem(regression)
    post = pt.posterior_from_trees(model, TREES)
    rows = X.iloc[:12].copy()
    values = post.shap_by_draw(rows)
    numbers = model.columns.numbers(rows)
    for t in range(len(TREES)):
        expected = [shapley_by_subsets(post.distinct_tree(t), row, 4) for row in numbers]
        np.testing.assert_allclose(values[0, t], expected, atol=1e-12)
    assert np.all(values[..., 3, :] == 0.0)


def deep_tree(depth, features, thresholds):
    """A tree that is a line to the right, of given features and thresholds."""
    n = 2 * depth + 1
    feature, threshold, left, right = [-1] * n, [0.0] * n, [0] * n, [0] * n
    for i in range(depth):
        here = 2 * i
        feature[here], threshold[here], left[here], right[here] = features[i], thresholds[i], here + 1, here + 2
    return pt.Tree(feature, threshold, left, right)


def test_deep_paths_of_many_features_are_integrated_without_error():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 30, (400, 8)).astype(float)
    model = pt.TreeModel(X, rng.normal(size=400), tree_prior=pt.ChipmanPrior(0.95, 0.1))
    tree = deep_tree(11, [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2], [2.5] * 8 + [5.5] * 3)
    post = pt.posterior_from_trees(model, [tree])
    rows = X[[3, 77]]
    expected = [shapley_by_subsets(post.distinct_tree(0), row, 8) for row in rows]
    np.testing.assert_allclose(post.shap_by_draw(rows)[0, 0], expected, atol=1e-12)


def test_below_empty_nodes_rows_go_both_ways_by_halves():
    x = np.repeat([0.0, 3.0], 10)
    X = np.column_stack([x, np.tile([0.0, 1.0], 10)])
    model = pt.TreeModel(X, x > 1, split_prior=pt.GridCuts([[0.5, 1.5, 2.5], [0.5]]))
    # the node between .5 and 1.5 is empty, and is split once more
    tree = pt.Tree([0, 0, -1, 1, -1, -1, -1], [1.5, 0.5, 0, 0.5, 0, 0, 0], [1, 2, 0, 4, 0, 0, 0], [6, 3, 0, 5, 0, 0, 0])
    post = pt.posterior_from_trees(model, [tree])
    expected = [shapley_by_subsets(post.distinct_tree(0), row, 2) for row in np.array([[1.0, 1.0], [0.0, 0.0]])]
    np.testing.assert_allclose(post.shap_by_draw([[1.0, 1.0], [0.0, 0.0]])[0, 0], expected, atol=1e-12)


@pytest.mark.parametrize("regression", [False, True])
def test_contributions_add_up_to_the_prediction(regression):
    X, model = problem(regression)
    post = pt.posterior_from_trees(model, TREES, [[0, 1, 2, 2], [2, 1, 1, 2]])
    shap = post.shap(X)
    expected = post.predict(X)[:, None] if regression else post.predict_proba(X)
    np.testing.assert_allclose(shap.base + shap.mean.sum(axis=1), expected, atol=1e-12)
    trees = post.shap_by_draw(X).sum(axis=3) + means_of_trees(post)[post.tree_of_draw][:, :, None]
    np.testing.assert_allclose(trees, post.values_by_draw(X), atol=1e-12)


def means_of_trees(post):
    return attributions.TreesWithValues(
        post.distinct_trees, post.node_values, attributions.fractions_of_rows(post)
    ).means()


def test_means_and_intervals_are_those_of_the_draws(monkeypatch):
    """With leaf values that are fixed given the tree, the intervals are those of the trees drawn, each once."""
    monkeypatch.setattr(pt.DirichletMultinomial, "has_expectation", False)
    X, model = problem()
    draws = np.random.default_rng(0).integers(0, 3, (2, 40))
    post = pt.posterior_from_trees(model, TREES, draws)
    in_one_block = post.shap(X.iloc[:9], 0.8, draws=80)
    monkeypatch.setattr(attributions, "MAX_VALUES_IN_MEMORY", 2000)
    in_blocks = post.shap(X.iloc[:9], 0.8, draws=80)
    by_draw = post.shap_by_draw(X.iloc[:9]).reshape(80, 9, 4, 3)
    np.testing.assert_allclose(in_blocks.mean, by_draw.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose([in_blocks.lower, in_blocks.upper], np.quantile(by_draw, [0.1, 0.9], axis=0), atol=1e-12)
    size = np.abs(by_draw).mean(axis=1)
    np.testing.assert_allclose(in_blocks.importance, size.mean(axis=0), atol=1e-12)
    interval = [in_blocks.importance_lower, in_blocks.importance_upper]
    np.testing.assert_allclose(interval, np.quantile(size, [0.1, 0.9], axis=0), atol=1e-12)
    for one, other in zip(in_blocks[:-2], in_one_block):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_intervals_are_over_trees_and_leaf_parameters():
    """Against leaf parameters drawn here from Dirichlet distributions, and the sum over all subsets of features."""
    X, model = problem()
    post, rng = pt.posterior_from_trees(model, TREES), np.random.default_rng(5)
    row, alpha = model.columns.numbers(X.iloc[:1])[0], model.leaf.alpha
    draws = []
    for i in range(600):
        tree = post.distinct_tree(i % 3)
        start = int(post.distinct_trees.offset[i % 3])
        counts = post.node_stats[start : start + len(tree.feature)]
        value = np.array([rng.dirichlet(c + alpha) for c in counts])
        draws.append(shapley_by_subsets(pt.Tree(*tree_columns(tree), value=value, rows=tree.rows), row, 4))
    shap = post.shap(X.iloc[:1], 0.8, draws=3000)
    ends = np.quantile(draws, [0.1, 0.9], axis=0)
    np.testing.assert_allclose([shap.lower[0], shap.upper[0]], ends, atol=0.03)
    np.testing.assert_allclose(shap.importance, np.abs(draws).mean(axis=0), atol=0.01)
    np.testing.assert_allclose(shap.mean[0], np.mean(draws, axis=0), atol=0.01)
    with pytest.raises(ValueError, match="draws"):
        post.shap(X.iloc[:1], draws=0)


def tree_columns(tree):
    return tree.feature, tree.threshold, tree.left, tree.right, tree.categories, tree.default_left


def test_what_cannot_be_asked_is_refused():
    X, model = problem()
    post = pt.posterior_from_trees(model, TREES)
    with pytest.raises(ValueError, match=r"coverage=.*0 < coverage < 1"):
        post.shap(X, 1.5)
    empty = pt.posterior_from_trees(model, TREES, np.zeros((1, 0), dtype=int))
    for ask in (empty.shap, empty.shap_by_draw):
        with pytest.raises(ValueError, match="no draws"):
            ask(X)
    linear = pt.TreeModel(X[["a"]].to_numpy(), np.arange(80.0), leaf=pt.NormalLinear([0]))
    with pytest.raises(ValueError, match="looks at columns"):
        pt.posterior_from_trees(linear, TREES[:1]).shap(X[["a"]].to_numpy())


def test_importance_by_name():
    X, model = problem()
    shap = pt.posterior_from_trees(model, TREES).shap(X.iloc[:9])
    table = shap.table()
    assert set(table["feature"]) == set(X.columns) and table["output"].tolist()[:3] == ["u", "v", "w"]
    mean = table.groupby("feature", sort=False)["importance"].mean()
    assert mean.is_monotonic_decreasing and table["feature"].iloc[-1] == "idle"
    a = table[table["feature"] == "a"]
    assert (
        pytest.approx(np.array([shap.importance[0], shap.importance_lower[0], shap.importance_upper[0]]))
        == a[["importance", "lower", "upper"]].to_numpy().T
    )


@pytest.mark.planted
def test_a_wrong_fraction_of_rows_would_be_noticed(monkeypatch):
    X, model = problem()
    post = pt.posterior_from_trees(model, TREES)
    halves = attributions.fractions_of_rows(post)
    monkeypatch.setattr(attributions, "fractions_of_rows", lambda _: np.where(halves < 1.0, 0.5, halves))
    row = X.iloc[:1]
    expected = shapley_by_subsets(post.distinct_tree(2), model.columns.numbers(row)[0], 4)
    assert np.abs(post.shap_by_draw(row)[0, 2, 0] - expected).max() > 0.01


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
    expected = np.zeros((model.n_features, model.n_features))
    for tree, p in zip(trees, probability, strict=True):
        for j, k in map(sorted, pairs_below(tree)):
            expected[j, k] += p
            expected[k, j] += p
    estimates = attributions.pair_probabilities(exact.solve(model).sample(1500, rng=1))
    assert np.allclose(estimates, expected, atol=0.06)


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
    pairs = posterior_of(y).interactions()
    first = pairs.iloc[0]
    assert {first["feature"], first["other"]} == {"x0", "x1"} and first["probability"] == pytest.approx(1.0)
    assert first["strength"] == pytest.approx(1.0, abs=0.1) and first["H"] == pytest.approx(1.0, abs=0.05)
    assert first["lower"] <= first["strength"] <= first["upper"]
    assert len(posterior_of(y).interactions(first["probability"])) == 1


def test_a_sum_has_almost_none():
    X = grid()
    pairs = posterior_of(np.where(X[:, 0] > 1, 1.0, 0.0) + np.where(X[:, 1] > 1, 1.0, 0.0)).interactions()
    first = pairs.iloc[0]
    assert first["probability"] > 0.9 and first["strength"] < 0.05 and first["H"] < 0.1


def test_classes_and_a_posterior_of_one_tree():
    X = grid()
    post = pt.posterior_from_trees(pt.TreeModel(X, X[:, 0] > 1), [pt.Tree([-1], [0], [0], [0])])
    assert len(post.interactions()) == 0
    tree = pt.Tree([0, 1, -1, -1, -1], [1.5, 1.5, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])
    pairs = pt.posterior_from_trees(pt.TreeModel(X, X[:, 0] > 1), [tree]).interactions()
    assert pairs["probability"].tolist() == [1.0] and pairs["strength"].iloc[0] > 0.0


@pytest.mark.parametrize("wrong", [{"min_probability": 2.0}, {"most": 0}, {"coverage": 0.0}])
def test_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        exact.solve(MODELS["local, regression"]).interactions(**wrong)
