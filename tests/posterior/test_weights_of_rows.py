"""Rows count with their weights, and leaves that use columns see the row's own numbers."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots.many_trees import _tree_edges
from pactree_mcmc.faces.sklearn import estimators
from pactree_mcmc.posterior.inference_data import datasets
from pactree_mcmc.posterior.rows.dependence import feature_axis, partial_dependence, rows_to_average
from pactree_mcmc.posterior.trees.distances import typical_values
from pactree_mcmc.tree.arrays import leaves_reached

RNG = np.random.default_rng(8)
N = 60
X = np.column_stack([RNG.integers(0, 5, N), RNG.integers(0, 3, N)]).astype(float)
WEIGHT = RNG.integers(0, 5, N).astype(float)
EXPOSURE = RNG.uniform(0.2, 9.0, N).round(1)
COUNTS = RNG.poisson(EXPOSURE * np.where(X[:, 0] > 2, 2.0, 0.3))
TIMES = np.column_stack([RNG.exponential(1.0 + X[:, 0]), RNG.random(N) < 0.7])
LABELS, NUMBERS = (X[:, 0] > 1) ^ (RNG.random(N) < 0.2), X[:, 0] + RNG.normal(size=N)
LEAVES = {
    "counts with exposures": (COUNTS, lambda: pt.PoissonGamma(exposure=EXPOSURE)),
    "counts": (COUNTS, pt.PoissonGamma),
    "times": (TIMES, pt.ExponentialGamma),
    "labels": (LABELS, pt.DirichletMultinomial),
    "labels with a loss": (LABELS, lambda: pt.PacBayesLoss(1.0)),
    "frozen labels": (LABELS, pt.FrozenLaplace),
    "numbers": (NUMBERS, pt.NormalInverseGamma),
    "a regression": (NUMBERS, lambda: pt.NormalLinear([0])),
}
CUTS = {
    "local": pt.LocalCuts,
    "grid": lambda: pt.GridCuts([[0.5, 2.5], [1.5]]),
    "dyadic": lambda: pt.DyadicCuts(1),
    "fixed tree": lambda: pt.kd_tree(X, 2),
}
FEW = slice(0, 16)
TIMES_THERE = 1 + np.arange(16) % 3
REPEATED = np.repeat(np.arange(16), TIMES_THERE)
OWN = np.random.default_rng(3)
WIDE = np.column_stack([OWN.uniform(0, 40, 90), OWN.integers(0, 3, 90)]).round(2)
Y = 2.0 * WIDE[:, 0] + 5.0 * WIDE[:, 1] + OWN.normal(size=90)
GAPS = np.where(OWN.random(WIDE.shape) < [0.0, 0.3], np.nan, WIDE)
MODELS = {
    "grid": lambda: pt.TreeModel(WIDE, Y, leaf=pt.NormalLinear([0]), split_prior=pt.GridCuts([[5, 20], [0.5]])),
    "grid, two columns": lambda: pt.TreeModel(WIDE, Y, leaf=pt.NormalLinear([1, 0]), split_prior=pt.GridCuts(2)),
    "few cuts": lambda: pt.TreeModel(WIDE, Y, leaf=pt.NormalLinear([0]), split_prior=pt.LocalCuts(max_cuts=3)),
    "dyadic": lambda: pt.TreeModel(WIDE, Y, leaf=pt.NormalLinear([0]), split_prior=pt.DyadicCuts(1)),
    "fixed tree": lambda: pt.TreeModel(WIDE, Y, leaf=pt.NormalLinear([0]), split_prior=pt.kd_tree(WIDE, 2)),
    "missing values": lambda: pt.TreeModel(
        GAPS, Y, leaf=pt.NormalLinear([0]), split_prior=pt.GridCuts([[5, 20], [0.5]]), missing="branch"
    ),
}
TABLES = {name: GAPS if name == "missing values" else WIDE for name in MODELS}


def model_of(leaf, cuts, weight=WEIGHT):
    y, build = LEAVES[leaf]
    estimation = np.arange(N) % 3 == 0 if leaf == "frozen labels" else None
    prior = None if cuts == "fixed tree" else pt.ChipmanPrior(max_depth=2)
    return pt.TreeModel(
        X, y, leaf=build(), split_prior=CUTS[cuts](), sample_weight=weight, estimation=estimation, tree_prior=prior
    )


@pytest.mark.parametrize("weight", [WEIGHT, None], ids=["weights", "no weights"])
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("leaf", LEAVES)
def test_rows_of_cells_are_the_weights_of_their_rows(leaf, cuts, weight):
    truth = exact.solve(model_of(leaf, cuts, weight), progress=False)
    draws = truth.sample(200, rng=1)
    weights = np.ones(N) if weight is None else weight
    for t in range(min(draws.draws.n_distinct_trees, 9)):
        tree = draws.draws.distinct_tree(t)
        reached = tree.routes().leaves(X)
        for node in np.flatnonzero(tree.feature < 0).tolist():
            assert tree.rows[node] == pytest.approx(weights[reached == node].sum())
    in_draws = dict(zip(map(tuple, draws.support(0.0).key), draws.support(0.0).rows, strict=True))
    support = truth.support(0.0)
    rows = dict(zip(map(tuple, support.key), support.rows, strict=True))
    assert in_draws and {key: rows[key] for key in in_draws} == pytest.approx(in_draws)


@pytest.mark.parametrize("kind", ["partitions", "predictions"])
@pytest.mark.parametrize("leaf", ["numbers", "counts with exposures"])
def test_a_weight_of_k_counts_as_k_rows_in_distances(leaf, kind):
    y, build = LEAVES[leaf]
    model, n = model_of(leaf, "grid"), WEIGHT.astype(int)
    repeated = np.repeat(np.arange(N), n)
    long_leaf = pt.PoissonGamma(exposure=EXPOSURE[repeated]) if leaf == "counts with exposures" else build()
    long = pt.TreeModel(
        X[repeated], y[repeated], leaf=long_leaf, split_prior=CUTS["grid"](), tree_prior=model.tree_prior
    )
    trees = exact.solve(model, progress=False).draw_trees(6, 2)
    one, other = (pt.posterior_from_trees(m, trees).tree_distances(kind=kind).matrix for m in (model, long))
    assert one == pytest.approx(other, abs=1e-7)


def test_a_weight_of_k_counts_as_k_rows_in_a_forest():
    model, repeated = model_of("numbers", "grid"), np.repeat(np.arange(N), WEIGHT.astype(int))
    long = pt.TreeModel(X[repeated], NUMBERS[repeated], split_prior=CUTS["grid"](), tree_prior=model.tree_prior)
    trees = exact.solve(model, progress=False).draw_trees(4, 2)
    posts = [pt.posterior_from_trees(m, trees) for m in (model, long)]
    one, other = (_tree_edges(post.draws, np.arange(post.draws.n_distinct_trees)).ends for post in posts)
    assert one == pytest.approx(other)


def weighted_and_repeated(leaf):
    """Return the model of 16 rows with weights 1 to 3, and that of as many copies of each."""
    y, build = LEAVES[leaf]
    parts = {"split_prior": CUTS["grid"](), "tree_prior": pt.ChipmanPrior(max_depth=2), "leaf": build()}
    weighted = pt.TreeModel(X[FEW], y[FEW], sample_weight=TIMES_THERE.astype(float), **parts)
    return weighted, pt.TreeModel(X[FEW][REPEATED], y[FEW][REPEATED], **parts)


@pytest.mark.parametrize("leaf", ["numbers", "labels", "a regression"])
def test_a_weight_of_k_counts_as_k_rows_in_partial_dependence(leaf):
    effects = []
    for model in weighted_and_repeated(leaf):
        rows = rows_to_average(model, None, 60)
        effects.append(partial_dependence(exact.solve(model, progress=False), 0, rows, 0.9, 50, 1, 50, [0]))
    one, other = effects
    for part in ("mean", "lower", "upper"):
        assert getattr(one, part) == pytest.approx(getattr(other, part), abs=1e-9)
    assert np.abs(one.mean - one.by_row.mean(axis=1)).max() > 1e-6


def test_a_weight_of_k_counts_as_k_rows_in_typical_values_and_pictures():
    table, weight = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0], [7.0, 2.0], [np.nan, 2.0]]), [1, 1, 1, 4, 9]
    X = pd.DataFrame({"a": table[:, 0], "g": np.array(["u", "v", "w"])[table[:, 1].astype(int)]})
    for split_prior, median in ((pt.LocalCuts(), 7.0), (pt.GridCuts([[0.5], None]), np.inf)):
        model = pt.TreeModel(X, np.arange(5.0), sample_weight=weight, split_prior=split_prior, missing="branch")
        assert typical_values(model, 60).tolist() == [median, 2.0]
    one, other = weighted_and_repeated("numbers")
    assert typical_values(one, 60).tolist() == typical_values(other, 60).tolist()
    pictures = [pt.plots.plot_partial_dependence(exact.solve(m, progress=False), (0, 1)) for m in (one, other)]
    means = [np.asarray(axes.collections[0].get_array()).ravel() for axes in pictures]
    plt.close("all")
    assert means[0] == pytest.approx(means[1], abs=1e-9)


@pytest.mark.parametrize("quantile", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_weight_of_k_counts_as_k_rows_in_the_error_of_an_estimator(quantile, monkeypatch):
    monkeypatch.setattr(estimators, "ERROR_QUANTILE", quantile)
    errors, draws = [], np.array([[0, 1, 0, 0, 1, 0, 0, 1], [1, 1, 0, 1, 1, 1, 0, 1]])
    trees = [pt.Tree([0, -1, -1], [cut, 0.0, 0.0], [1, 0, 0], [2, 0, 0]) for cut in (0.5, 2.5)]
    for model in weighted_and_repeated("numbers"):
        estimator = pt.BayesianTreeRegressor()
        estimator.posterior_ = pt.posterior_from_trees(model, trees, draws)
        estimator._set_error_and_counts(independent=False)
        errors.append(estimator.monte_carlo_error_)
    assert errors[0] == pytest.approx(errors[1], rel=1e-9) and max(errors) > 0.0


def test_a_regression_in_the_leaves_standardises_columns_by_the_weights_of_their_rows():
    one, other = weighted_and_repeated("a regression")
    assert one.leaf.centers == pytest.approx(other.leaf.centers, rel=1e-12)
    assert one.leaf.scales == pytest.approx(other.leaf.scales, rel=1e-12)
    evidences = [exact.solve(model, progress=False).log_evidence for model in (one, other)]
    assert evidences[0] == pytest.approx(evidences[1], abs=1e-9)


@pytest.fixture(params=MODELS, scope="module")
def case(request):
    model = MODELS[request.param]()
    return exact.solve(model, progress=False), TABLES[request.param]


def test_row_numbers_reach_the_leaves_of_the_rows_with_their_own_regressors(case):
    truth, table = case
    model, rows = truth.model, np.array([7, 3, 3, 80])
    numbers = model.row_numbers(rows)
    assert np.array_equal(model.regressors(numbers), model.target.regressors[rows])
    trees = truth.sample(20, rng=0).draws.distinct_trees
    assert np.array_equal(leaves_reached(trees, numbers), leaves_reached(trees, model.columns.numbers(table))[rows])


def test_partial_dependence_averages_over_the_rows_of_the_table(case):
    truth, table = case
    own, given = (
        partial_dependence(truth, 1, rows_to_average(truth.model, rows, 90), 0.9, 20, 0, 20, [0])
        for rows in (None, table)
    )
    assert np.array_equal(own.by_row, given.by_row) and np.array_equal(own.lower, given.lower)


def test_engines_are_compared_at_rows_of_the_table(case):
    truth, table = case
    rows = exact.compare(truth, truth.sample(50, rng=1)).to_frame()
    predicted = rows[rows.index.str.startswith("predictive mean")]
    means = truth.predict(table)
    assert len(predicted) and all(np.isclose(value, means, rtol=1e-9).any() for value in predicted.exact)


def test_distances_of_predictions_are_over_all_rows():
    model = MODELS["grid"]()
    post = exact.solve(model, progress=False).sample(3, rng=1)
    by_row = np.array([leaf_values(post, t) for t in range(post.draws.n_distinct_trees)])
    expected = np.sqrt(((by_row[:, None] - by_row) ** 2).mean(axis=2))
    drawn = post.draws.tree_of_draw.ravel()
    distance = post.tree_distances(kind="predictions").matrix
    assert distance == pytest.approx(expected[np.ix_(drawn, drawn)], abs=1e-6)


def leaf_values(post, t):
    model, reached = post.model, post.draws.distinct_tree(t).routes().leaves(WIDE) + post.draws.coded_trees.offset[t]
    return model.leaf.value(post.draws.place_stats[reached], model.target, WIDE[:, [0]])[:, 0]


def test_the_axis_of_a_regressor_has_the_range_of_the_rows(case):
    truth, table = case
    edges = feature_axis(truth.model, 0, [truth.map_tree()], 20).edges
    assert edges[0] < table[:, 0].min() and edges[-1] > table[:, 0].max()


def test_expectations_of_training_rows_are_those_of_the_table(case):
    truth, table = case
    post = truth.sample(30, rng=1)
    own, given = (datasets(post.draws, expectation=rows, rng=2)["posterior"].expectation for rows in (True, table))
    assert np.array_equal(own.values, given.values)
