"""The sampled posterior as scikit-learn estimators, and scikit-learn's tools of inspection on them."""

import contextlib
import warnings
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.fixes import parse_version

import pactree_mcmc as pt
from tests.problems.refusals import refuses

SHORT = {"n_estimators": 100, "work": 1e6, "random_state": 0}
STATED = SHORT | {"prior": "stated"}
RUN = {"n_estimators": 20, "work": 1e4}
LIGHT = {"n_estimators": 8, "work": 1e3, "chains": 2, "prior": "stated", "max_depth": 2}
ESTIMATORS = {
    "classifier": lambda: pt.BayesianTreeClassifier(**RUN),
    "regressor": lambda: pt.BayesianTreeRegressor(**RUN),
    "light classifier": lambda: pt.BayesianTreeClassifier(**LIGHT),
    "light regressor": lambda: pt.BayesianTreeRegressor(**LIGHT),
}
# checks that fit often, or fit many rows: only light estimators run them in `test_contract`
LONG = (
    *("estimators_dtypes", "estimators_nan_inf", "estimators_overwrite_params", "estimators_fit_returns_self"),
    *("classifiers_train", "classifiers_classes", "classifier_data_not_an_array", "regressor_data_not_an_array"),
    *("regressors_train", "regressors_int", "regressors_no_decision_function", "sample_weights_list"),
    *("sample_weight_equivalence_on_dense_data", "sample_weights_not_an_array", "sample_weights_pandas_series"),
    *("sample_weights_shape", "fit_idempotent", "supervised_y_2d", "dtype_object", "pipeline_consistency"),
    *("n_features_in_after_fitting", "n_features_in", "readonly_memmap_input", "f_contiguous_array_estimator"),
    *("estimators_pickle", "dont_overwrite_parameters", "positive_only_tag_during_fit", "fit2d_predict1d"),
    *("methods_sample_order_invariance", "sample_weights_not_overwritten"),
    *("fit_check_is_fitted", "fit2d_1feature", "methods_subset_invariance", "fit_score_takes_y", "dict_unchanged"),
)
LEFT_TO_SLOW_TESTS = {"classifier": LONG, "regressor": LONG}
FEW = {"n_estimators": 40, "work": 1e6, "random_state": 0}


def keeps_the_contract(name, left_out=()):
    """The number of checks of scikit-learn that the estimator passes, or that skip it; one that fails raises."""
    left_out, passed = {f"check_{check}" for check in left_out}, 0
    if parse_version(sklearn.__version__) < parse_version("1.7.2"):
        # that check takes a real mean from whole numbers in place when an estimator is tagged categorical
        left_out.add("check_positive_only_tag_during_fit")
    for estimator, check in estimator_checks_generator(ESTIMATORS[name]()):
        if check.func.__name__ not in left_out:
            with contextlib.suppress(SkipTest):
                check(estimator)
            passed += 1
    return passed


@pytest.mark.more(everyday=["classifier"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_contract(name):
    assert keeps_the_contract(name, LEFT_TO_SLOW_TESTS.get(name, ())) > 15


def frame(n=120, seed=0):
    """A text column that decides, a number beside it."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "green", "blue", "black"], n)
    size = rng.random(n).round(2)
    y = np.where(np.isin(colour, ["red", "black"]) ^ (size > 0.8), "yes", "no")
    return pd.DataFrame({"colour": colour, "size": size}), y


@pytest.fixture(scope="module")
def plain():
    return pt.BayesianTreeClassifier(**SHORT).fit(*frame(60))


def test_missing_values_are_refused_by_name(plain):
    X, y = frame(60)
    gap = X.copy()
    gap.loc[3, "size"] = np.nan
    refuses(r"column 'size' contains NaN \(first in row 3\)", lambda: pt.BayesianTreeClassifier(**SHORT).fit(gap, y))
    gap = X.astype({"colour": object})
    gap.loc[5, "colour"] = None
    with pytest.raises(ValueError, match=r"'colour' has a missing value \(first in row 5\).*category of their own"):
        pt.BayesianTreeClassifier(**SHORT).fit(gap, y)
    refuses("feature names should match", lambda: plain.predict(X.rename(columns={"size": "weight"})))
    refuses("X has 60 rows and y has 59", lambda: pt.BayesianTreeClassifier(**SHORT).fit(X, y[1:]))


@pytest.mark.parametrize("kind", [pt.BayesianTreeClassifier, pt.BayesianTreeRegressor])
def test_weights_are_repetitions(kind):
    rng = np.random.default_rng(1)
    X, weight = rng.random((40, 3)).round(1), rng.integers(0, 4, 40)
    y = (X[:, 0] + rng.random(40) > 1.0).astype(float if kind is pt.BayesianTreeRegressor else int)
    answer = "predict" if kind is pt.BayesianTreeRegressor else "predict_proba"
    mixed = rng.permutation(40)
    repeated = kind(**STATED).fit(X.repeat(weight, axis=0), y.repeat(weight))
    weighted = kind(**STATED).fit(X[mixed], y[mixed], sample_weight=weight[mixed])
    assert np.allclose(getattr(repeated, answer)(X), getattr(weighted, answer)(X))
    assert not np.allclose(
        kind(**STATED).fit(X, y).posterior_.draws.place_stats.sum(), weighted.posterior_.draws.place_stats.sum()
    )
    kept_rows = weighted.rows_
    assert np.all(weight[mixed][kept_rows] > 0) and len(kept_rows) == np.sum(weight > 0)
    assert np.array_equal(weighted.posterior_.model.target.weights, weight[mixed][kept_rows])
    with pytest.raises(ValueError, match=r"(sample_weight is 0 in every row|at least one non-zero)"):
        kind().fit(X, y, sample_weight=np.zeros(40))


def test_warns_if_chains_disagree_and_once_in_a_search():
    rng = np.random.default_rng(0)
    X = rng.random((200, 20))
    y = X @ np.ones(20) + 0.1 * rng.normal(size=200)
    few = pt.BayesianTreeRegressor(prior="stated", chains=2, n_estimators=100, work=1e4, random_state=0)
    text = r"^BayesianTreeRegressor: (not converged; predictions: |too few draws).*monte_carlo_error_"
    for _ in range(2):
        with pytest.warns(pt.ConvergenceWarning, match=text):
            few.fit(X, y)
    assert few.monte_carlo_error_ > 0.1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GridSearchCV(few, {"max_depth": [4, 8]}, cv=2).fit(X, y)
    assert sum(one.category is pt.ConvergenceWarning for one in caught) == 1


def test_credible_intervals_are_those_of_the_posterior(plain):
    new = frame(60)[0].head(3)
    assert np.array_equal(plain.credible_interval(new, 0.8), plain.posterior_.credible_interval(new, 0.8))
    draws = plain.posterior_.draw_expectations(new, 30, rng=1)
    assert np.array_equal(plain.draw_expectations(new, 30, rng=1), draws)
    refuses("coverage", lambda: plain.credible_interval(new, 1.0))
    refuses("draws", lambda: plain.draw_expectations(new, 0))


def test_intervals():
    rng = np.random.default_rng(0)
    X = rng.random((300, 2))
    y = np.where(X[:, 0] > 0.5, 3.0, 0.0) + rng.normal(size=300) * np.where(X[:, 1] > 0.5, 0.2, 1.0)
    fitted = pt.BayesianTreeRegressor(**STATED).fit(X, y)
    mean, std = fitted.predict(X, return_std=True)
    assert np.allclose(mean, fitted.predict(X)) and np.all(std > 0.0)
    ends = fitted.predict_interval(X, 0.8)
    assert np.allclose(ends, fitted.predict_quantiles(X, [0.1, 0.9]))
    assert np.allclose(ends[:, 0], fitted.predict_quantiles(X, 0.1))
    assert 0.75 < np.mean((ends[:, 0] < y) & (y < ends[:, 1])) < 0.9
    width = ends[:, 1] - ends[:, 0]
    assert width[X[:, 1] < 0.4].mean() > 2.0 * width[X[:, 1] > 0.6].mean()
    for wrong in (0.0, 1.0, 90):
        with pytest.raises(ValueError, match=r"coverage=.* is out of range"):
            fitted.predict_interval(X, wrong)
    post = fitted.posterior_
    assert np.array_equal(ends, post.predict_interval(X, 0.8)) and np.array_equal(std, post.predict_std_new_y(X))
    assert np.all(std > post.predict_std_over_trees(X))
    draws = fitted.sample_predictive(X, 200, rng=1)
    assert np.array_equal(draws, post.sample_predictive(X, 200, rng=1))
    assert np.mean((ends[:, 0] < draws) & (draws < ends[:, 1])) == pytest.approx(0.8, abs=0.01)
    table, _ = frame(60)
    nominal = pt.BayesianTreeRegressor(**STATED).fit(table, table["size"] + (table["colour"] == "red"))
    assert nominal.predict_interval(table.head(3)).shape == (3, 2)
    assert np.allclose(nominal.predict(table, return_std=True)[0], nominal.predict(table))


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
    return pt.BayesianTreeRegressor(**FEW, nominal=["rooms"]).fit(table, y), y


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
