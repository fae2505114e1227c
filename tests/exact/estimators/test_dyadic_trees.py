"""The estimators keep scikit-learn's contract."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

import exact

ESTIMATORS = [
    exact.DyadicTreeClassifier(),
    exact.DyadicTreeClassifier("square-root", cyclic=True),
    exact.NeymanPearsonTreeClassifier(),
    exact.RootFragmentClassifier(),
]


@pytest.mark.slow
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
    found = exact.minimise_risk(X, y, penalty=0.01, levels=3)
    assert fitted.tree_ == found.tree
    assert (fitted.risk_, fitted.penalty_) == (found.risk, found.penalty)
    assert np.mean(fitted.predict(X) != y) == pytest.approx(fitted.risk_)
    splits = np.bincount(found.tree.feature[found.tree.feature >= 0], minlength=2)
    assert fitted.split_counts_.tolist() == splits.tolist()
    assert fitted.feature_importances_ == pytest.approx(splits / splits.sum())
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    search = GridSearchCV(exact.DyadicTreeClassifier(levels=3), {"strength": [0.01, 0.1]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9


@pytest.mark.slow
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
    null = exact.NeymanPearsonTreeClassifier(0.1, levels=2)
    with pytest.raises(ValueError, match="give bounds="):
        null.fit(X, y).guarantee()
    bounded = exact.NeymanPearsonTreeClassifier(0.1, levels=2, bounds=[[0, 1], [0, 1]]).fit(X, y)
    assert bounded.guarantee().false_alarm.raw > bounded.false_alarm_


def test_alpha_is_kept():
    X, y = table()
    for alpha in (0.02, 0.1, 0.3):
        fitted = exact.NeymanPearsonTreeClassifier(alpha, levels=4).fit(X, y)
        assert np.mean(fitted.predict(X[y == "a"]) == "b") == pytest.approx(fitted.false_alarm_)
        assert fitted.false_alarm_ <= alpha
        assert np.mean(fitted.predict(X[y == "b"]) == "a") == pytest.approx(fitted.miss_)


def test_wrong_arguments():
    X, y = table(30)
    with pytest.raises(ValueError, match="alpha=2 is out of range"):
        exact.NeymanPearsonTreeClassifier(2).fit(X, y)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        exact.NeymanPearsonTreeClassifier().fit(X, np.arange(30) % 3)
    with pytest.raises(ValueError, match="penalty='lasso'"):
        exact.DyadicTreeClassifier("lasso").fit(X, y)
