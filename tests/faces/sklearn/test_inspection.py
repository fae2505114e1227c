"""scikit-learn's tools of inspection on the estimators, with columns of integers and of text.

scikit-learn itself refuses a grid over a column of integers, whose fractions would be rounded; its advice, to cast the
column, must hold for estimators fitted to the integers.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import partial_dependence, permutation_importance

import pactree_mcmc as pt

SHORT = {"n_estimators": 40, "work": 1e6, "random_state": 0}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 120
    return pd.DataFrame(
        {
            "age": rng.integers(20, 70, n),
            "rooms": rng.integers(1, 4, n).astype(np.int8),
            "kind": rng.choice(["a", "b", "c"], n),
            "group": pd.Categorical(rng.choice(["x", "y"], n)),
            "some": pd.array(rng.integers(0, 30, n), dtype="Int64"),
            "flag": rng.random(n) < 0.5,
        }
    )


@pytest.fixture(scope="module")
def fitted(table):
    noise = np.random.default_rng(1).normal(size=len(table))
    y = table["age"] / 10.0 + 2.0 * (table["kind"] == "a") + 3.0 * (table["rooms"] == 2) + 0.3 * noise
    return pt.BayesianTreeRegressor(**SHORT, nominal=["rooms"]).fit(table, y), y


def cast(table):
    return table.astype({"age": float, "some": float})


def check_dependence(fitted, table, name, **more):
    """The grid's averages are those of predictions with the column set to the value."""
    actual = partial_dependence(fitted, table, [name], grid_resolution=6, **more)
    values, average = actual["grid_values"][0], actual["average"][0]
    by_hand = [fitted.predict(table.assign(**{name: value})).mean() for value in values]
    assert average == pytest.approx(by_hand)
    return values, average


def test_of_columns_without_order(fitted, table):
    for name in ("kind", "group", "flag", "rooms"):
        values, average = check_dependence(fitted[0], table, name, categorical_features=[name])
        assert set(values) == set(table[name])
        assert np.ptp(average) > 0.1 or name in ("group", "flag")


def test_a_cast_table_predicts_the_same(fitted, table):
    """Nominal integers are the same categories as floats."""
    assert np.array_equal(fitted[0].predict(table), fitted[0].predict(table.astype({"rooms": float, "age": float})))


def test_permutation_importance(fitted, table):
    actual = permutation_importance(fitted[0], table, fitted[1], n_repeats=3, random_state=0).importances_mean
    assert set(np.argsort(-actual)[:3]) == {0, 1, 2} and np.all(np.abs(actual[4:]) < 0.05)
