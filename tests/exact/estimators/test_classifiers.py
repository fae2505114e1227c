"""The classifiers keep scikit-learn's contract, give the results of the functions, and count repeated rows."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

import exact

ESTIMATORS = [
    exact.DyadicTreeClassifier(),
    exact.DyadicTreeClassifier("square-root", cyclic=True),
]


@pytest.mark.more
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_contract(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 50
    assert [(r["check_name"], r["exception"]) for r in results if r["status"] not in ("passed", "skipped")] == []


def table(n=300):
    rng = np.random.default_rng(0)
    X = rng.random((n, 2))
    return X, np.where((X[:, 0] > 0.5) ^ (rng.random(n) < 0.05), "b", "a")


def test_as_the_function_says():
    X, y = table()
    fitted = exact.DyadicTreeClassifier(0.01, strength=1.0, levels=3).fit(X, y)
    best = exact.minimise_risk(X, y, penalty=0.01, levels=3)
    assert fitted.tree_ == best.tree
    assert (fitted.risk_, fitted.penalty_) == (best.risk, best.penalty)
    assert np.mean(fitted.predict(X) != y) == pytest.approx(fitted.risk_)
    splits = np.bincount(best.tree.feature[best.tree.feature >= 0], minlength=2)
    assert fitted.split_counts_.tolist() == splits.tolist()
    assert fitted.feature_importances_ == pytest.approx(splits / splits.sum())
    reloaded = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(reloaded.predict_proba(X), fitted.predict_proba(X))
    search = GridSearchCV(exact.DyadicTreeClassifier(levels=3), {"strength": [0.01, 0.1]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9


@pytest.mark.more
def test_coordinates_in_turn_where_there_are_many():
    rng = np.random.default_rng(0)
    X = rng.random((200, 40))
    y = X[:, 3] > 0.5
    fitted = exact.DyadicTreeClassifier().fit(X, y)
    assert fitted.cyclic_ and fitted.tree_ == exact.minimise_risk(X, y, strength=0.1, cyclic=True).tree
    assert not exact.DyadicTreeClassifier().fit(X[:, :5], y).cyclic_
    with pytest.raises(exact.Intractable, match="cells"):
        exact.DyadicTreeClassifier(cyclic=False).fit(X, y)
    with pytest.raises(ValueError, match="cyclic='always' is unknown; give one of"):
        exact.DyadicTreeClassifier(cyclic="always").fit(X, y)
    with pytest.raises(ValueError, match=r"levels=2\.5 is out of range"):
        exact.DyadicTreeClassifier(levels=2.5).fit(X, y)


def test_bounds_on_the_risk():
    X, y = table()
    with pytest.raises(ValueError, match="give bounds="):
        exact.DyadicTreeClassifier(levels=2).fit(X, y).risk_bound(X, y)
    fitted = exact.DyadicTreeClassifier(levels=2, bounds=[[0, 1], [0, 1]]).fit(X, y)
    assert fitted.risk_bound(X, y, delta=0.1).terms["empirical risk"] == pytest.approx(fitted.risk_)
    assert fitted.risk_bound(X, y, delta=0.1).raw < fitted.risk_bound(X, y, delta=0.01).raw
    strange = np.where(np.arange(len(y)) == 0, "zebra", y)
    assert fitted.risk_bound(X, strange).terms["empirical risk"] >= 1 / len(y)
    with pytest.raises(ValueError, match="delta=0"):
        fitted.risk_bound(X, y, delta=0)


def test_wrong_arguments():
    X, y = table(30)
    with pytest.raises(ValueError, match="penalty='lasso'"):
        exact.DyadicTreeClassifier("lasso").fit(X, y)


CLASSIFIERS = [
    exact.PACBayesTreeClassifier(random_state=3),
    exact.DyadicTreeClassifier(),
]
each_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS, ids=repr)


def weighted_table(n=60, seed=0):
    """Rows on a coarse grid, some of them equal, and weights from 0 to 3."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2)).round(1)
    y = np.where((X[:, 0] > 0.5) ^ (rng.random(n) < 0.2), "b", "a")
    return X, y, rng.integers(0, 4, n)


@pytest.mark.more(everyday=["PACBayesTreeClassifier(random_state=3)"])
@each_classifier
def test_weights_are_repetitions(classifier):
    X, y, weight = weighted_table()
    repeated = classifier.fit(X.repeat(weight, axis=0), y.repeat(weight)).predict_proba(X)
    mixed = np.random.default_rng(1).permutation(len(X))
    weighted = classifier.fit(X[mixed], y[mixed], sample_weight=weight[mixed].tolist()).predict_proba(X)
    assert np.array_equal(weighted, repeated)
    assert not np.array_equal(classifier.fit(X, y).predict_proba(X), repeated)
    assert np.array_equal(classifier.fit(X, y, np.ones(len(X))).predict_proba(X), classifier.fit(X, y).predict_proba(X))


@each_classifier
def test_other_weights_are_refused(classifier):
    X, y, weight = weighted_table()
    with pytest.raises(ValueError, match=r"sample_weight is 0\.5 in row 7; .* give whole numbers >= 0, how often"):
        classifier.fit(X, y, np.where(np.arange(len(X)) == 7, 0.5, weight))
    with pytest.raises(ValueError, match=r"sample_weight is -1\.0 in row 2"):
        classifier.fit(X, y, np.where(np.arange(len(X)) == 2, -1, weight))
    with pytest.raises(ValueError, match=r"0 in every row|at least one non-zero"):
        classifier.fit(X, y, np.zeros(len(X)))
    with pytest.raises(ValueError, match="NaN"):
        classifier.fit(X, y, np.full(len(X), np.nan))
    with pytest.raises(exact.Intractable, match="rows repeated as often as sample_weight says"):
        classifier.fit(X, y, np.full(len(X), 1e15))


@pytest.mark.parametrize("column", [["u", "v"], pd.to_datetime(["2024-01-01", "2024-01-02"])], ids=["text", "dates"])
def test_columns_of_text_and_dates_are_named(column):
    X, y = pd.DataFrame({"a": [0.0, 1.0], "kind": [0.0, 1.0]}), [0, 1]
    message = "column 'kind' holds text or dates; .* or take BayesianTreeClassifier"
    with pytest.raises(ValueError, match=message):
        exact.DyadicTreeClassifier().fit(X.assign(kind=column), y)
    with pytest.raises(ValueError, match=message):
        exact.DyadicTreeClassifier().fit(X, y).predict(X.assign(kind=column))
