"""Log weights that floats cannot hold accurately are refused, with the largest one; below it probabilities add up."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.recursion.semirings import exp_down

RNG = np.random.default_rng(1)
X = np.arange(12.0)[:, None]
Y = 5e4 * RNG.normal(size=12)
SHALLOW = pt.ChipmanPrior(max_depth=3)


@pytest.mark.parametrize("variance", [1e-4, 1e-30, 1e-200])
def test_a_known_variance_far_below_that_of_y_is_refused(variance):
    model = pt.TreeModel(X, Y, leaf=pt.NormalKnownVariance(variance), tree_prior=SHALLOW)
    with pytest.raises(exact.Intractable, match=r"1e\+12 nats of log evidence allowed.*larger variance"):
        exact.solve(model, progress=False)


@pytest.mark.parametrize("variance", [1e8, 1.0, 0.1])
def test_predictions_are_inside_their_intervals(variance):
    model = pt.TreeModel(X, Y, leaf=pt.NormalKnownVariance(variance), tree_prior=SHALLOW)
    truth = exact.solve(model, progress=False)
    low, high = truth.credible_interval(X).T
    assert np.all(low <= truth.predict(X)) and np.all(truth.predict(X) <= high)
    assert truth.n_leaves_pmf().sum() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.more(everyday=["1e+18"])
@pytest.mark.parametrize("weight", [1e13, 1e15, 1e18])
def test_estimators_and_comparisons_sample_what_the_exact_engine_refuses(weight):
    pytest.importorskip("sklearn")
    x = (np.arange(40) % 2)[:, None] * 1.0
    y = np.where(x[:, 0] + 0.5 * RNG.normal(size=40) > 0.5, "p", "q")
    weights = np.full(40, weight)
    with pytest.raises(exact.Intractable, match="nats of log evidence"):
        exact.solve(pt.TreeModel(x, y, sample_weight=weights), progress=False)
    fitted = pt.BayesianTreeClassifier(random_state=0).fit(x, y, sample_weight=weights)
    assert fitted.predict_proba([[0.0], [1.0]]).sum(axis=1) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("weight", [1.0, 1e6, 1e9])
def test_class_probabilities_add_up(weight):
    x = (np.arange(40) % 2)[:, None] * 1.0
    y = x[:, 0] + 0.5 * RNG.normal(size=40) > 0.5
    truth = exact.solve(pt.TreeModel(x, y, sample_weight=np.full(40, weight)), progress=False)
    assert truth.predict_proba([[0.0], [1.0]]).sum(axis=1) == pytest.approx(1.0, abs=1e-4)


def test_the_exponential_does_not_read_behind_its_table():
    assert [exp_down(x) for x in (0.7, 1.5, 20.0)] == pytest.approx(np.exp([0.7, 1.5, 20.0]))
    assert exp_down(-1e300) == 0.0 and exp_down(np.nan) == 0.0
    assert exp_down(1e-13) == pytest.approx(1.0)
