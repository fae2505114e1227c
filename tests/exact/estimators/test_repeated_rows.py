"""sample_weight of the classifiers that count rows: how often a row is there."""

import numpy as np
import pytest

import exact
from benchmarks.table2_rules import HSVoteClassifier, PrunedTreeClassifier

CLASSIFIERS = [
    exact.PACBayesTreeClassifier(random_state=3),
    exact.PACBayesTheoryClassifier("kd", random_state=3),
    PrunedTreeClassifier("kd", penalty="spatial", random_state=3),
    HSVoteClassifier(random_state=3),
    exact.DyadicTreeClassifier(),
    exact.NeymanPearsonTreeClassifier(0.2),
    exact.ProgressiveMixtureClassifier(orders=3, random_state=3),
    exact.ProgressiveMixtureClassifier("dyadic", orders=3, random_state=3),
]
each_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS, ids=repr)


def table(n=60, seed=0):
    """Rows on a coarse grid, some of them equal, and weights from 0 to 3."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2)).round(1)
    y = np.where((X[:, 0] > 0.5) ^ (rng.random(n) < 0.2), "b", "a")
    return X, y, rng.integers(0, 4, n)


@pytest.mark.tenth_a_day
@each_classifier
def test_weights_are_repetitions(classifier):
    X, y, weight = table()
    repeated = classifier.fit(X.repeat(weight, axis=0), y.repeat(weight)).predict_proba(X)
    mixed = np.random.default_rng(1).permutation(len(X))
    weighted = classifier.fit(X[mixed], y[mixed], sample_weight=weight[mixed].tolist()).predict_proba(X)
    assert np.array_equal(weighted, repeated)
    assert not np.array_equal(classifier.fit(X, y).predict_proba(X), repeated)
    assert np.array_equal(classifier.fit(X, y, np.ones(len(X))).predict_proba(X), classifier.fit(X, y).predict_proba(X))


@each_classifier
def test_other_weights_are_refused(classifier):
    X, y, weight = table()
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


def test_rows_are_those_given():
    X, y, weight = table()
    voted = CLASSIFIERS[1].fit(X, y, weight)
    assert voted.n_counted_ == len(voted.counted_rows_) == weight.sum() - weight.sum() // 2
    assert np.all(np.bincount(voted.counted_rows_, minlength=len(X)) <= weight)
    mixed = CLASSIFIERS[6].fit(X, y, weight)
    assert np.array_equal(np.bincount(mixed.rows_, minlength=len(X)), weight)
    model = mixed.mixture_.model
    assert np.array_equal(model.classes_[model.target.values], y[mixed.rows_])


def test_copies_have_no_guarantee():
    X, y, weight = table()
    null = exact.NeymanPearsonTreeClassifier(0.2, levels=2, bounds=[[0, 1], [0, 1]])
    assert null.fit(X, y, weight > 0).guarantee().false_alarm.raw > 0.2
    with pytest.raises(ValueError, match="independent rows, and copies are not; fit without sample_weight"):
        null.fit(X, y, weight).guarantee()
