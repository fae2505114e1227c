"""The classifiers keep scikit-learn's contract, give the results of the functions, and count repeated rows."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

import exact
from tests.problems.refusals import refuses

ESTIMATORS = [exact.DyadicTreeClassifier(), exact.DyadicTreeClassifier("square-root", cyclic=True)]
CLASSIFIERS = [exact.PACBayesTreeClassifier(random_state=3), exact.DyadicTreeClassifier()]
each_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS, ids=repr)


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
    assert fitted.tree_ == best.tree and (fitted.risk_, fitted.penalty_) == (best.risk, best.penalty)
    assert np.mean(fitted.predict(X) != y) == pytest.approx(fitted.risk_)
    splits = np.bincount(best.tree.feature[best.tree.feature >= 0], minlength=2)
    assert fitted.split_counts_.tolist() == splits.tolist()
    assert fitted.feature_importances_ == pytest.approx(splits / splits.sum())
    reloaded = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(reloaded.predict_proba(X), fitted.predict_proba(X))
    search = GridSearchCV(exact.DyadicTreeClassifier(levels=3), {"strength": [0.01, 0.1]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9


def test_bounds_on_the_risk():
    X, y = table()
    refuses("give bounds=", lambda: exact.DyadicTreeClassifier(levels=2).fit(X, y).risk_bound(X, y))
    fitted = exact.DyadicTreeClassifier(levels=2, bounds=[[0, 1], [0, 1]]).fit(X, y)
    assert fitted.risk_bound(X, y, delta=0.1).terms["empirical risk"] == pytest.approx(fitted.risk_)
    assert fitted.risk_bound(X, y, delta=0.1).raw < fitted.risk_bound(X, y, delta=0.01).raw
    strange = np.where(np.arange(len(y)) == 0, "zebra", y)
    assert fitted.risk_bound(X, strange).terms["empirical risk"] >= 1 / len(y)
    refuses("delta=0", lambda: fitted.risk_bound(X, y, delta=0))


def test_wrong_arguments():
    X, y = table(30)
    refuses("penalty='lasso'", lambda: exact.DyadicTreeClassifier("lasso").fit(X, y))


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
    assert np.array_equal(weighted, repeated) and not np.array_equal(classifier.fit(X, y).predict_proba(X), repeated)
    assert np.array_equal(classifier.fit(X, y, np.ones(len(X))).predict_proba(X), classifier.fit(X, y).predict_proba(X))
