"""Trees grouped by the features of their splits: probabilities, intervals of cuts and leaves, nominal splits turned."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt

from .spaces import MODELS, all_trees


def shape_key(tree, node=0):
    """The features of a tree as nested tuples; only for trees without nominal splits."""
    if tree.feature[node] < 0:
        return ()
    return (int(tree.feature[node]), shape_key(tree, tree.left[node]), shape_key(tree, tree.right[node]))


@pytest.mark.parametrize("name", ["local, regression", "dyadic"])
def test_probabilities_are_those_of_all_trees_listed(name):
    model = MODELS[name]
    _, trees, probability = all_trees(model)
    mass = {}
    for tree, p in zip(trees, probability, strict=True):
        mass[shape_key(tree)] = mass.get(shape_key(tree), 0.0) + p
    shapes = exact.solve(model).shapes(draws=4000, rng=1)
    expected = sorted(mass.values(), reverse=True)[: len(shapes.shapes)]
    assert np.allclose(shapes.table()["probability"], expected, atol=0.04)


def regression_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.where(X[:, 0] > 0.3, 2.0, np.where(X[:, 1] > 0.0, 1.0, 0.0)) + 0.5 * rng.normal(size=300)
    return pt.TreeModel(X, y)


def test_a_shape_with_intervals_that_hold_the_truth():
    post = pt.sample(regression_model(), 500, tune=500, chains=2, rng=1, kernel="local", progress=False)
    shapes = post.shapes()
    first = shapes.shapes[0]
    assert first.probability > 0.4 and first.splits["feature"].tolist() == ["x0", "x1"]
    assert (first.splits["lower"] <= [0.32, 0.05]).all() and (first.splits["upper"] >= [0.28, -0.05]).all()
    assert (first.leaves["lower"] <= [0.1, 1.1, 2.1]).all() and (first.leaves["upper"] >= [-0.1, 0.9, 1.9]).all()
    assert first.tree.n_leaves == 3 and first.leaves["rows"].sum() == pytest.approx(300.0)
    assert (shapes.of_draw == 0).mean() == pytest.approx(first.probability)
    assert "[" in str(shapes) and len(str(shapes).splitlines()) <= 10


def test_a_nominal_split_turned_round_has_the_same_shape():
    x = np.arange(30) % 3
    model = pt.TreeModel(x[:, None], x > 1, nominal=[0])
    trees = [
        pt.Tree([0, -1, 0, -1, -1], [0] * 5, [1, 0, 3, 0, 0], [2, 0, 4, 0, 0], [1, -1, 2, -1, -1]),
        pt.Tree([0, 0, -1, -1, -1], [0] * 5, [1, 2, 0, 0, 0], [4, 3, 0, 0, 0], [6, 2, -1, -1, -1]),
    ]
    shapes = pt.posterior_from_trees(model, trees).shapes()
    assert [shape.probability for shape in shapes.shapes] == [1.0]
    assert shapes.shapes[0].splits["words"].tolist() == ["x0 in {0}", "x0 in {1}"]


@pytest.mark.parametrize("wrong", [{"most": 0}, {"coverage": 1.0}, {"coverage": "all"}])
def test_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        exact.solve(MODELS["local, regression"]).shapes(**wrong)


def test_leaves_without_a_posterior_of_the_expectation_have_intervals_over_trees():
    X = np.arange(40.0)[:, None]
    model = pt.TreeModel(X, X[:, 0] > 19, leaf=pt.PacBayesLoss(1.0))
    shapes = exact.solve(model).shapes(draws=200)
    leaves = shapes.shapes[0].leaves
    assert ((leaves["lower"] <= leaves["mean"] + 1e-9) & (leaves["mean"] <= leaves["upper"] + 1e-9)).mean() > 0.9
    # the interval lacks the uncertainty of leaf parameters: a reader is told so
    assert "90 % intervals in brackets, those of leaves over trees alone\n" in str(shapes)
    assert "90 % intervals in brackets\n" in str(exact.solve(pt.TreeModel(X, X[:, 0] > 19)).shapes(draws=200))


COUNTS = np.arange(24) % 3
CUSTOM = pt.CustomLeaf(
    score=lambda s, n: -s[1] / (1.0 + s[0]),
    stats=lambda y: np.column_stack([np.ones_like(y), y]),
    predict=lambda sums: sums[:, 1] / np.maximum(sums[:, 0], 1.0),
    expectation=lambda rng, sums, leaf: (sums[:, 1] / sums[:, 0] + rng.normal(size=len(sums)))[leaf],
)


@pytest.mark.parametrize(
    ("leaf", "y"),
    [
        (pt.DirichletMultinomial(), COUNTS),
        (pt.NormalInverseGamma(), COUNTS + 0.5),
        (pt.NormalSharedVariance(), COUNTS + 0.5),
        (pt.PoissonGamma(), COUNTS),
        (pt.ExponentialGamma(), np.column_stack([COUNTS + 0.5, COUNTS > 0])),
        (pt.WeibullGamma(2.0), np.column_stack([COUNTS + 0.5, COUNTS > 0])),
        (CUSTOM, COUNTS + 0.5),
    ],
    ids=lambda one: type(one).__name__ if hasattr(one, "has_closed_expectation") else "",
)
def test_intervals_of_leaves_are_those_of_the_expectation(leaf, y):
    X = np.repeat([0.0, 1.0], 12)[:, None]
    model = pt.TreeModel(X, y, leaf=leaf)
    post = pt.posterior_from_trees(model, [pt.Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0])])
    leaves = post.shapes().shapes[0].leaves
    intervals = leaves[["lower", "upper"]].to_numpy().reshape(2, -1, 2)
    expected = post.credible_interval(X[[0, -1]], 0.9).reshape(2, -1, 2)
    width = expected[..., 1] - expected[..., 0]
    assert (width > 0.0).all()
    assert (np.abs(intervals - expected) <= 0.15 * width[..., None]).all()


@pytest.mark.parametrize(
    "x",
    [
        np.arange(40) > 19,
        pd.to_timedelta(np.arange(40) // 8, unit="h"),
        pd.date_range("2020-01-01", periods=40),
        pd.Categorical(np.array(["lo", "mid", "hi"])[np.arange(40) // 14], ["lo", "mid", "hi"], ordered=True),
        1e6 * np.arange(40) + 0.125,
    ],
    ids=["truth value", "duration", "date", "level", "number"],
)
def test_a_certain_cut_is_written_as_in_a_tree(x):
    model = pt.TreeModel(pd.DataFrame({"a": x}), np.arange(40) > 23, tree_prior=pt.ChipmanPrior(max_depth=1))
    shape = exact.solve(model, progress=False).shapes(coverage=0.5).shapes[0]
    assert shape.splits["words"].tolist() == [shape.tree.split(0)]
    assert shape.format().startswith(shape.tree.split(0))


def tree_at(threshold, missing_left):
    return pt.Tree([0, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0], default_left=[missing_left, 0, 0])


@pytest.fixture
def model_with_missing_values():
    """20 known and 10 missing values; y is 1 for missing values and 0 for others."""
    x = np.append(np.arange(20.0), np.full(10, np.nan))
    return pt.TreeModel(x[:, None], np.isnan(x).astype(float), missing="branch", leaf=pt.NormalInverseGamma())


def test_sides_of_missing_values_are_not_mixed(model_with_missing_values):
    """A split of missing from known values with its sides exchanged is the same split."""
    trees = [tree_at(np.nan, True), tree_at(np.nan, False)]
    post = pt.posterior_from_trees(model_with_missing_values, trees)
    (shape,) = post.shapes().shapes
    assert shape.probability == 1.0
    assert shape.splits["words"].tolist() == ["x0 is missing"]
    assert shape.leaves["rows"].tolist() == [10.0, 20.0]
    alone = pt.posterior_from_trees(model_with_missing_values, trees[:1]).shapes().shapes[0]
    assert shape.leaves["mean"].tolist() == pytest.approx(alone.leaves["mean"].tolist())
    for join_cuts in (False, True):
        words = str(post.consensus_tree(join_cuts=join_cuts))
        assert "x0 is missing (10 rows, support 1.00)" in words and "x0 is known (20 rows, support 1.00)" in words


def test_cells_below_missing_values_are_joined_whichever_side_these_are_on(model_with_missing_values):
    """Known values below 9 in one tree and below 12 in the other have one signature."""
    first = pt.Tree(
        [0, -1, 0, -1, -1], [np.nan, 0, 9.0, 0, 0], [1, 0, 3, 0, 0], [2, 0, 4, 0, 0], default_left=[1, 0, 0, 0, 0]
    )
    second = pt.Tree(
        [0, 0, -1, -1, -1], [np.nan, 12.0, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0], default_left=[0, 0, 0, 0, 0]
    )
    post = pt.posterior_from_trees(model_with_missing_values, [first, second])
    words = str(post.consensus_tree())
    assert words.count("x0 <= ") == words.count("x0 > ") == 1 and words.count("support 1.00") == 4


@pytest.mark.parametrize(
    ("trees", "words", "missing_left"),
    [
        ([(9.0, True)], "x0 <= 9.5 or missing", 1.0),
        ([(9.0, False)], "x0 <= 9.5", 0.0),
        ([(9.0, True), (9.0, False), (9.0, True), (9.0, False)], "x0 <= 9.5 or missing (0.50)", 0.5),
    ],
)
def test_where_missing_values_go_is_said(model_with_missing_values, trees, words, missing_left):
    post = pt.posterior_from_trees(model_with_missing_values, [tree_at(*each) for each in trees])
    (shape,) = post.shapes().shapes
    assert shape.splits["missing_left"].tolist() == [missing_left]
    assert shape.splits["words"].tolist() == [words]
    assert words in str(post.shapes())


def test_uncertain_cuts_of_durations_are_short_and_of_truth_values_are_words():
    hours = np.arange(48) // 8
    table = pd.DataFrame({"a": pd.to_timedelta(hours, unit="h"), "b": hours > 2})
    model = pt.TreeModel(table, hours, split_prior=pt.GridCuts([[2.5 / 24, 3.5 / 24], [0.25, 0.75]]))
    for k, cuts, words in (
        (0, (2.5 / 24, 3.5 / 24), "a <= 02:30:00 [02:30:00, 03:30:00]"),
        (1, (0.25, 0.75), "b = no"),
    ):
        trees = [pt.Tree([k, -1, -1], [cut, 0, 0], [1, 0, 0], [2, 0, 0]) for cut in cuts]
        post = pt.posterior_from_trees(model, trees, [[0, 1]])
        assert post.shapes().shapes[0].splits["words"].tolist() == [words]
