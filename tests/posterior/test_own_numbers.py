"""Leaves that use columns of the row see the row's own numbers, also if many values of a column have one code."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.inference_data import datasets
from pactree_mcmc.posterior.rows.dependence import feature_axis, partial_dependence, rows_to_average
from pactree_mcmc.tree.arrays import leaves_reached

RNG = np.random.default_rng(3)
X = np.column_stack([RNG.uniform(0, 40, 90), RNG.integers(0, 3, 90)]).round(2)
Y = 2.0 * X[:, 0] + 5.0 * X[:, 1] + RNG.normal(size=90)
GAPS = np.where(RNG.random(X.shape) < [0.0, 0.3], np.nan, X)
MODELS = {
    "grid": lambda: pt.TreeModel(X, Y, leaf=pt.NormalLinear([0]), split_prior=pt.GridCuts([[5, 20], [0.5]])),
    "grid, two columns": lambda: pt.TreeModel(X, Y, leaf=pt.NormalLinear([1, 0]), split_prior=pt.GridCuts(2)),
    "few cuts": lambda: pt.TreeModel(X, Y, leaf=pt.NormalLinear([0]), split_prior=pt.LocalCuts(max_cuts=3)),
    "dyadic": lambda: pt.TreeModel(X, Y, leaf=pt.NormalLinear([0]), split_prior=pt.DyadicCuts(1)),
    "fixed tree": lambda: pt.TreeModel(X, Y, leaf=pt.NormalLinear([0]), split_prior=pt.kd_tree(X, 2)),
    "missing values": lambda: pt.TreeModel(
        GAPS, Y, leaf=pt.NormalLinear([0]), split_prior=pt.GridCuts([[5, 20], [0.5]]), missing="branch"
    ),
}
TABLES = {name: GAPS if name == "missing values" else X for name in MODELS}


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
    assert np.array_equal(own.by_row, given.by_row)
    assert np.array_equal(own.lower, given.lower)


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
    """Predictions of one tree at the rows of the table."""
    model, reached = post.model, post.draws.distinct_tree(t).routes().leaves(X) + post.draws.coded_trees.offset[t]
    return model.leaf.value(post.draws.place_stats[reached], model.target, X[:, [0]])[:, 0]


def test_the_axis_of_a_regressor_has_the_range_of_the_rows(case):
    truth, table = case
    edges = feature_axis(truth.model, 0, [truth.map_tree()], 20).edges
    assert edges[0] < table[:, 0].min() and edges[-1] > table[:, 0].max()


def test_expectations_of_training_rows_are_those_of_the_table(case):
    truth, table = case
    post = truth.sample(30, rng=1)
    own, given = (datasets(post.draws, expectation=rows, rng=2)["posterior"].expectation for rows in (True, table))
    assert np.array_equal(own.values, given.values)
