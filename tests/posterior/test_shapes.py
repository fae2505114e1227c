"""Trees grouped by features, cells, splits and majority trees; rules are printed as the data are."""

import re

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.ess import rhat_and_ess
from pactree_mcmc.posterior.report.content import report_content
from pactree_mcmc.posterior.trees.cells import Cells, identifying_rows
from pactree_mcmc.posterior.trees.paths import interval_of_cut

from .spaces import (
    MODELS,
    all_trees,
    independent_draws,
    probabilities_by_key,
    probabilities_of_cells_and_splits,
    with_draws,
)

COUNTS = np.arange(24) % 3
CUSTOM = pt.CustomLeaf(
    score=lambda s, n: -s[1] / (1.0 + s[0]),
    stats=lambda y: np.column_stack([np.ones_like(y), y]),
    predict=lambda sums: sums[:, 1] / np.maximum(sums[:, 0], 1.0),
    expectation=lambda rng, sums, leaf: (sums[:, 1] / sums[:, 0] + rng.normal(size=len(sums)))[leaf],
)
WORDS_OF_MISSING_VALUES = [
    ([(9.0, True)], "x0 <= 9.5 or missing", 1.0),
    ([(9.0, False)], "x0 <= 9.5", 0.0),
    ([(9.0, True), (9.0, False), (9.0, True), (9.0, False)], "x0 <= 9.5 or missing (0.50)", 0.5),
]


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
    assert (width > 0.0).all() and (np.abs(intervals - expected) <= 0.15 * width[..., None]).all()


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
    assert shape.splits["words"].tolist() == [shape.tree.split(0)] and shape.format().startswith(shape.tree.split(0))


def tree_at(threshold, missing_left):
    return pt.Tree([0, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0], default_left=[missing_left, 0, 0])


@pytest.fixture
def model_with_missing_values():
    x = np.append(np.arange(20.0), np.full(10, np.nan))
    return pt.TreeModel(x[:, None], np.isnan(x).astype(float), missing="branch", leaf=pt.NormalInverseGamma())


def test_sides_of_missing_values_are_not_mixed(model_with_missing_values):
    """A split of missing from known values with its sides exchanged is the same split."""
    trees = [tree_at(np.nan, True), tree_at(np.nan, False)]
    post = pt.posterior_from_trees(model_with_missing_values, trees)
    (shape,) = post.shapes().shapes
    assert shape.probability == 1.0 and shape.splits["words"].tolist() == ["x0 is missing"]
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


@pytest.mark.parametrize(("trees", "words", "missing_left"), WORDS_OF_MISSING_VALUES)
def test_where_missing_values_go_is_said(model_with_missing_values, trees, words, missing_left):
    post = pt.posterior_from_trees(model_with_missing_values, [tree_at(*each) for each in trees])
    (shape,) = post.shapes().shapes
    assert shape.splits["missing_left"].tolist() == [missing_left] and shape.splits["words"].tolist() == [words]
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
    assert stuck.n_cells == 4 and stuck.asdsf == pytest.approx(np.std([0, 0, 1, 1], ddof=1)) and stuck.expected < 0.05
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


pytest.importorskip("pandas")


def expected_of(model, trees, weight, min_support=0.5):
    """The majority cells as sets of rows, and their probabilities."""
    return {
        cell: p for cell, p in probabilities_of_cells_and_splits(model, trees, weight)[0].items() if p > min_support
    }


def rows_of(model, tree):
    """The set of distinct rows in each node of a consensus tree, from its words."""
    out = [set(range(model.units.n_units))]
    for node in range(1, len(tree.words)):
        above = out[tree.parent[node]]
        texts = conditions(tree.words[node])
        out.append({u for u in above if all(satisfies(model, u, condition) for condition in texts)})
    return out


def conditions(words):
    return words.replace("}, ", "}|").split("|") if "{" in words else words.split(", ")


def satisfies(model, unit, condition):
    """Return True if a distinct row meets one condition, or more joined by commas behind a brace."""
    x = model.unit_numbers(np.array([unit]))[0]
    if "{" not in condition:
        return all(satisfies_bound(model, x, part) for part in condition.split(", "))
    text_before, _, braces = condition.rpartition("x")
    name, _, listed = braces.partition(" ")
    label = str(model.columns.categories[int(name)].tolist()[int(x[int(name)])])
    is_listed = label in listed[listed.index("{") + 1 : -1].split(", ")
    ordered = (
        all(satisfies_bound(model, x, part) for part in text_before.rstrip(", ").split(", ")) if text_before else True
    )
    return ordered and (is_listed != listed.startswith("not"))


def satisfies_bound(model, x, condition):
    missing = condition.endswith(" or missing")
    name, _, bound = condition.removesuffix(" or missing").partition(" ")
    value = x[int(name[1:])]
    if bound in ("is missing", "is known"):
        return np.isnan(value) == (bound == "is missing")
    side, threshold = bound.split()
    return missing if np.isnan(value) else (value <= float(threshold)) == (side == "<=")


def check(model, tree, expected):
    support_of_rows = {frozenset(rows): p for rows, p in zip(rows_of(model, tree), tree.support, strict=True)}
    assert support_of_rows.keys() == expected.keys()
    assert [support_of_rows[cell] for cell in expected] == pytest.approx(list(expected.values()))
    for node in range(1, len(tree.words)):
        assert tree.parent[node] < node and tree.depth[node] == tree.depth[tree.parent[node]] + 1
    for node in range(len(tree.words)):
        children = tree.children(node)
        in_children = sum(tree.rows[child] for child in children)
        assert tree.rest[node] == (tree.rows[node] - in_children if children else 0.0)


@pytest.mark.more(everyday=["local, nominal"])
@pytest.mark.parametrize("name", [name for name in MODELS if "twice" not in name])
def test_exact_consensus_is_that_of_all_trees_listed(name):
    model = MODELS[name]
    truth, trees, probability = all_trees(model)
    check(model, truth.consensus_tree(join_cuts=False), expected_of(model, trees, probability))
    check(model, truth.consensus_tree(0.8, join_cuts=False), expected_of(model, trees, probability, 0.8))


@pytest.mark.more(everyday=["local, nominal"])
@pytest.mark.parametrize("name", ["local, nominal", "local, missing", "grid, empty cells", "dyadic"])
def test_consensus_of_draws(name):
    model = MODELS[name]
    post = independent_draws(exact.solve(model), chains=2, draws=60)
    trees = [post.draws.distinct_tree(t) for t in range(post.draws.n_distinct_trees)]
    check(model, post.consensus_tree(join_cuts=False), expected_of(model, trees, post.draws.weight_of_tree))


def test_values_and_rows_are_those_of_leaves():
    post = independent_draws(exact.solve(MODELS["a row counts twice"]), draws=100)
    tree = post.consensus_tree()
    assert tree.rows[0] == 10.0
    single = pt.posterior_from_trees(post.model, [pt.Tree([-1], [0], [0], [0])])
    assert tree.value[0] == pytest.approx(single.draws.place_values[0])


def test_a_node_may_have_three_children():
    """Three pieces in every tree, joined differently in each of three: no pair is in a majority."""
    X = np.array([[float(a), float(b)] for a in range(3) for b in range(4)])
    model = pt.TreeModel(X[:, :1], X[:, 0] > 1, nominal=[0], leaf=pt.DirichletMultinomial(1.0))

    def tree(first, second):
        return pt.Tree([0, -1, 0, -1, -1], [0] * 5, [1, 0, 3, 0, 0], [2, 0, 4, 0, 0], [first, -1, second, -1, -1])

    post = pt.posterior_from_trees(model, [tree(1, 2), tree(2, 4), tree(4, 1)])
    consensus = post.consensus_tree()
    assert consensus.children(0) == [1, 2, 3] and consensus.support.tolist() == [1.0] * 4
    lines = consensus.format().splitlines()
    assert len(lines) == 4 and [line[:4] for line in lines] == ["all ", "|-- ", "|-- ", "`-- "]
    assert sorted(consensus.words[1:]) == ["x0 in {0.0}", "x0 in {1.0}", "x0 in {2.0}"]
    assert "(4 rows, support 1.00) False: 0.833, True: 0.167" in consensus.format()


def test_a_cell_reached_by_several_paths_is_listed_once():
    """Of twenty trees 19 have the cell x0 > 3.5, x1 > 0.5, by three paths."""
    x0, x1 = (a.ravel().astype(float) for a in np.meshgrid(np.arange(6), np.arange(2)))
    model = pt.TreeModel(np.column_stack([x0, x1]), (x0 > 3) & (x1 > 0))

    def tree(*splits):
        """Return the tree whose splits (feature, threshold) each divide the right child of the one before."""
        n = len(splits)
        feature, threshold = np.full(2 * n + 1, -1), np.zeros(2 * n + 1)
        left, right = np.zeros(2 * n + 1, dtype=int), np.zeros(2 * n + 1, dtype=int)
        feature[:-1:2], threshold[:-1:2] = zip(*splits, strict=True)
        left[:-1:2], right[:-1:2] = np.arange(n) * 2 + 1, np.arange(n) * 2 + 2
        return pt.Tree(feature, threshold, left, right)

    trees = [tree((0, 3.5), (1, 0.5))] * 8 + [tree((0, 1.5), (1, 0.5), (0, 3.5))] * 4
    trees += [tree((0, 1.5), (0, 3.5), (1, 0.5))] * 7 + [tree((0, 1.5), (0, 2.5), (1, 0.5))]
    found = pt.posterior_from_trees(model, trees).consensus_tree()
    nodes = [i for i in range(len(found.words)) if found.rows[i] == 2.0]
    assert [(round(float(found.support[i]), 9), found.children(i)) for i in nodes] == [(0.75, []), (0.95, [])], (
        found.format()
    )


def rows_that_satisfy(words, X):
    """Evaluate conditions such as ``a <= 3 [2, 4] or missing, g not in {x, y}`` at the rows of a frame."""
    out = np.ones(len(X), dtype=bool)
    if words == "all rows":
        return out
    for text in re.split(r", (?![^{\[]*[}\]])", words):
        name, rest = text.split(" ", 1)
        column, with_missing = X[name], rest.endswith(" or missing")
        rest = re.sub(r" \[.*\]", "", rest.removesuffix(" or missing"))
        missing = column.isna().to_numpy()
        if rest in ("is missing", "is known"):
            hit = missing == (rest == "is missing")
        elif rest.startswith(("<= ", "> ")):
            sign, number = rest.split(" ")
            hit = (column <= float(number) if sign == "<=" else column > float(number)).to_numpy() & ~missing
        else:
            labels = [label.strip() for label in re.search(r"\{(.*)\}", rest).group(1).split(",")]
            is_listed = column.astype(object).where(~missing, "missing").isin(labels).to_numpy()
            hit = is_listed if rest.startswith("in") else ~is_listed & ~missing
        out &= hit | (missing & with_missing)
    return out


def close_values(seed=0, n=200):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": 1e4 + rng.integers(0, 40, n) / 1e4, "b": rng.normal(size=n).round(2)})


def mixed(seed=0, n=240):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n).round(2), "g": rng.choice(list("uvwx"), n), "b": rng.random(n)})
    X["g"] = X["g"].mask(rng.random(n) < 0.2)
    X["a"] = X["a"].mask(rng.random(n) < 0.2)
    return X


def signal(X, rng):
    return (X.iloc[:, 0].rank() > len(X) * 0.55) * 1.2 + rng.normal(size=len(X))


def posteriors():
    rng = np.random.default_rng(1)
    close, few, gaps = close_values(), close_values(3, 60), mixed()
    weight = rng.integers(0, 4, len(close)).astype(float)
    late = gaps.a.fillna(0.0) > 0.3
    y_gaps = late * 2.0 + (late & gaps.g.isin(["u", "v"])) * 1.0 + rng.normal(size=len(gaps)) * 0.8
    counts = rng.poisson(np.where(close.b > 0.1, 3.0, 0.7))
    run = {"draws": 300, "tune": 300, "chains": 2, "rng": 1, "progress": False}
    yield close, None, pt.sample(pt.TreeModel(close, signal(close, rng), split_prior=pt.LocalCuts()), **run)
    yield (
        close,
        weight,
        pt.sample(pt.TreeModel(close, signal(close, rng), sample_weight=weight, split_prior=pt.LocalCuts()), **run),
    )
    yield (
        few,
        None,
        exact.solve(pt.TreeModel(few[["b"]], signal(few[["b"]], rng), split_prior=pt.LocalCuts()), progress=False),
    )
    yield gaps, None, pt.sample(pt.TreeModel(gaps, y_gaps, missing="branch", split_prior=pt.LocalCuts()), **run)
    leaf = pt.PoissonGamma(exposure=rng.uniform(0.5, 9.0, len(close)))
    yield close, None, pt.sample(pt.TreeModel(close, counts, leaf=leaf, split_prior=pt.LocalCuts()), **run)
    yield close, None, pt.sample(pt.TreeModel(close, close.b > 0.05, split_prior=pt.LocalCuts(max_cuts=12)), **run)


@pytest.fixture(scope="module")
def cases():
    return list(posteriors())


def rows_of_nodes(tree, X):
    """The rows (n,) of each node of a consensus tree by its printed rules."""
    inside = []
    for i, words in enumerate(tree.words):
        above = np.ones(len(X), dtype=bool) if i == 0 else inside[tree.parent[i]]
        inside.append(above & rows_that_satisfy(words, X))
    return inside


def rows_of_leaves(shape, X):
    """The rows (n,) of each leaf of a shape by its printed rules."""
    todo, out = [np.ones(len(X), dtype=bool)], {}
    for node in range(2 * len(shape.splits) + 1):
        hit = todo.pop()
        if node not in shape.splits.index:
            out[node] = hit
            continue
        left = rows_that_satisfy(re.sub(r" \(\d\.\d+\)$", "", shape.splits.loc[node, "words"]), X)
        todo += [hit & ~left, hit & left]
    return out


def test_rows_of_a_consensus_tree_are_those_of_its_rules(cases):
    some_joined = 0
    for X, weight, post in cases:
        tree, weights = post.consensus_tree(), np.ones(len(X)) if weight is None else weight
        some_joined += "[" in str(tree)
        inside = rows_of_nodes(tree, X)
        assert tree.rows == pytest.approx([weights[hit].sum() for hit in inside])
        for i, hit in enumerate(inside):
            below = [inside[j] for j in tree.children(i)]
            expected = weights[hit & ~np.logical_or.reduce(below)].sum() if below else 0.0
            assert tree.rest[i] == pytest.approx(expected)
    assert some_joined >= 3


def test_rows_of_the_leaves_of_a_shape_are_those_of_its_rules(cases):
    for X, weight, post in cases:
        weights = np.ones(len(X)) if weight is None else weight
        for shape in post.shapes(most=3).shapes:
            rows = [weights[hit].sum() for hit in rows_of_leaves(shape, X).values()]
            assert shape.leaves.drop_duplicates("node")["rows"].to_list() == pytest.approx(rows)


def test_a_cut_and_the_ends_of_its_interval_separate_the_data(cases):
    X, _, post = cases[0]
    seen = 0
    for text in (str(post.consensus_tree()), str(post.shapes())):
        for middle, low, high in re.findall(r"a (?:<=|>) (\S+) \[(\S+), (\S+)\]", text):
            numbers = [float(low), float(middle), float(high)]
            assert numbers[0] < numbers[2] and numbers[0] <= numbers[1] <= numbers[2]
            assert numbers[0] > 1e4 and numbers[2] < X["a"].max()
            seen += 1
    assert seen > 0


@pytest.mark.parametrize("excluded", [["u"], ["u", "v"]])
def test_a_cell_says_that_it_also_holds_missing_categories(excluded):
    rng = np.random.default_rng(4)
    g = pd.Series(rng.choice(list("uvwxyz"), 300)).mask(rng.random(300) < 0.3)
    X, y = pd.DataFrame({"g": g}), (~g.isin(excluded)) * 2.0 + 0.2 * rng.normal(size=300)
    model = pt.TreeModel(X, y, missing="branch", tree_prior=pt.ChipmanPrior(max_depth=1))
    for post in (exact.solve(model, progress=False), exact.solve(model, progress=False).sample(200, rng=1)):
        tree = post.consensus_tree()
        assert any(words.endswith("or missing") for words in tree.words)
        assert tree.rows.tolist() == [rows_that_satisfy(words, X).sum() for words in tree.words]
        support = post.support(0.5)
        cells = [words for words, kind in zip(support.words, support.kind, strict=True) if kind == "cell"]
        assert [rows_that_satisfy(words, X).sum() for words in cells] == support.rows[: len(cells)].tolist()


def mean_of_rows(post, hit):
    leaf, y = post.model.leaf, post.model.target.values
    return (leaf.k0 * leaf.m0 + y[hit].sum()) / (leaf.k0 + hit.sum())


def test_predictions_beside_a_rule_are_those_of_its_rows(cases):
    X, _, post = cases[0]
    tree = post.consensus_tree()
    assert tree.value[:, 0] == pytest.approx([mean_of_rows(post, hit) for hit in rows_of_nodes(tree, X)])
    for shape in post.shapes(most=3).shapes:
        assert shape.n_trees > 1
        expected = [mean_of_rows(post, hit) for hit in rows_of_leaves(shape, X).values()]
        assert shape.leaves["mean"].tolist() == pytest.approx(expected)


def test_paths_of_a_report_have_the_rows_and_predictions_of_their_conditions(cases):
    some_joined = 0
    for k in (0, 3):
        X, _, post = cases[k]
        for line in report_content(post, None)["paths"]:
            words = line["conditions"].replace("≤", "<=")
            some_joined += "[" in words
            hit = rows_that_satisfy(words, X)
            assert line["rows"] == pytest.approx(hit.mean())
            assert float(line["value"]) == pytest.approx(mean_of_rows(post, hit), rel=1e-4, abs=1e-4)
    assert some_joined > 3


def test_events_beside_a_rule_are_those_of_its_rows():
    X, rng = close_values(), np.random.default_rng(3)
    time, event = rng.exponential(np.where(X.b > 0.1, 4.0, 1.0)), rng.random(len(X)) < 0.7
    y = pd.DataFrame({"time": time, "event": event})
    model = pt.TreeModel(X, y, leaf=pt.ExponentialGamma(), split_prior=pt.LocalCuts())
    tree = pt.sample(model, 300, tune=300, chains=2, rng=1, progress=False).consensus_tree()
    assert "[" in str(tree)
    said = [re.fullmatch(r"mean \S+, (\d+) events?, time at risk (\S+)", ", ".join(lines)) for lines in tree.said]
    for hit, numbers in zip(rows_of_nodes(tree, X), said, strict=True):
        assert int(numbers[1]) == event[hit].sum() and float(numbers[2]) == pytest.approx(time[hit].sum(), rel=1e-3)


def test_rows_of_cells_are_those_of_their_rules_if_a_sample_of_rows_tells_cells_apart():
    X = pd.DataFrame({"a": np.arange(4000.0), "b": np.arange(4000) % 2})
    model = pt.TreeModel(X, (X.a > 2000) * 1.0 + np.random.default_rng(1).normal(size=4000), split_prior=pt.LocalCuts())
    sampled = np.isin(np.arange(4000), identifying_rows(model)[0])
    # trees with cuts on either side of a row that is not compared; the less probable one splits further
    row = next(i for i in range(2001, 4000, 2) if not sampled[i])
    stump = pt.Tree([0, -1, -1], [row - 0.5, 0, 0], [1, 0, 0], [2, 0, 0])
    split = pt.Tree([0, -1, 1, -1, -1], [row + 0.5, 0, 0.5, 0, 0], [1, 0, 3, 0, 0], [2, 0, 4, 0, 0])
    post = pt.posterior_from_trees(model, [stump, split], [[0, 1, 1]])
    tree = post.consensus_tree(join_cuts=False)
    assert len(tree.words) == 5 and tree.rows.tolist() == [hit.sum() for hit in rows_of_nodes(tree, X)]
    assert tree.value[:, 0] == pytest.approx([mean_of_rows(post, hit) for hit in rows_of_nodes(tree, X)])


def test_ends_of_intervals_have_few_digits():
    """An end among values that the cuts of the column do not part, as the midpoint of a gap of its cell can be."""
    x = np.arange(1, 31) / 10
    model = pt.TreeModel(x[:, None], x > 1.5, split_prior=pt.LocalCuts(max_cuts=3))
    ends = (0.1 + 0.2) / 2, (1.1 + 2.2) / 2
    assert all(len(repr(end)) > 15 for end in ends) and interval_of_cut(model, 0, *ends) == ("0.15", "1.65")


def test_rows_beside_rules_of_a_progressive_mixture_are_those_of_the_data():
    """Its trees rest on the rows of one stage, but a rule is read on the table."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"a": rng.integers(0, 9, 60) * 1.0, "b": rng.integers(0, 3, 60) * 1.0})
    y = np.where(X.a > 4, "yes", "no")
    model = pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(max_depth=2))
    post = pt.progressive_mixture(model, chains=2, draws=200, particles=20, kernel="grow-prune", rng=1)
    for join_cuts in (True, False):
        tree = post.consensus_tree(join_cuts=join_cuts)
        at_root = (np.array([np.sum(y == "no"), np.sum(y == "yes")]) + 1.0) / 62.0
        assert tree.rows[0] == 60 and tree.value[0] == pytest.approx(at_root)
    table = post.support(0.05).table()
    for kind, words, rows in zip(table["kind"], table["words"], table["rows"], strict=True):
        if kind == "cell":
            assert rows_that_satisfy(words, X).sum() == rows, words


def test_rows_at_a_cut_belong_to_the_rule_at_most_the_cut():
    """Cuts of a grid may be values of the data; between values it makes no difference."""
    x = np.repeat(np.arange(6.0), 3)
    model = pt.TreeModel(x[:, None], x > 2.0, split_prior=pt.GridCuts([[2.0]]))
    post = pt.posterior_from_trees(model, [pt.Tree([0, -1, -1], [2.0, 0.0, 0.0], [1, 0, 0], [2, 0, 0])])
    for text in (str(post.consensus_tree()), str(post.shapes())):
        assert text.count("(9 rows") == 2, text
