"""Survival functions: closed forms, coverage of the truth, Kaplan-Meier curves, forms of y, bad input."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.rows.calibration import kaplan_meier

N = 60
RNG = np.random.default_rng(3)
X = np.column_stack([RNG.integers(0, 5, N), RNG.integers(0, 4, N)]).astype(float)
PRIOR = {"tree_prior": pt.ChipmanPrior(0.9, 1.0, max_depth=2)}
LEAVES = {"exponential": pt.ExponentialGamma(3.0, 2.0), "Weibull": pt.WeibullGamma(2.0, shape=3.0, rate=2.0)}
TIMES = np.array([0.0, 0.3, 0.7, 1.5])
ROOT = pt.Tree([-1], [0], [0], [0])


def censor(rng, time):
    """Return times and events, censored at independent times."""
    limit = rng.exponential(2.0 * np.median(time), len(time))
    return np.column_stack([np.minimum(time, limit), time <= limit])


Y = censor(RNG, RNG.exponential(size=N) * (1.0 + 2.0 * (X[:, 0] > 2)))


def simulate(leaf, rng):
    """Return a table from the model, censored, and the rate of each row."""
    model = pt.TreeModel(X, Y, leaf=leaf, **PRIOR)
    number = pt.simulate(model, rng=rng)[0].apply(X)
    rates = np.empty(N)
    for node in np.unique(number):
        rates[number == node] = leaf.draw_parameters(rng, np.zeros((1, 4)), model.target)[0]
    time = leaf.draw_given(rng, [rates], model.target, None)
    return pt.TreeModel(X, censor(rng, time), leaf=leaf, **PRIOR), rates


def coverage_of(leaf, tables):
    """Return the fraction of true survival probabilities and medians inside 90 % bands, and its error."""
    rng, is_covered = np.random.default_rng(1), []
    for _ in range(tables):
        model, rates = simulate(leaf, rng)
        post = exact.solve(model)
        survival, truth = post.survival(X, TIMES[1:]), np.exp(-rates[:, None] * TIMES[1:] ** leaf.k)
        is_in_band = (survival.lower <= truth) & (truth <= survival.upper)
        median, ends = leaf.median_given(rates), post.median_survival(X)
        is_covered.append([is_in_band.mean(), ((ends["lower"] <= median) & (median <= ends["upper"])).mean()])
        # the band holds the curve at all times or at none
        assert np.array_equal(is_in_band.all(axis=1), is_in_band.any(axis=1))
    return np.mean(is_covered, axis=0), np.std(is_covered, axis=0) / np.sqrt(tables)


@pytest.mark.more(everyday=["Weibull"])
@pytest.mark.parametrize("name", LEAVES)
def test_bands_cover_the_truth(name):
    fraction, error = coverage_of(LEAVES[name], 30)
    assert np.all(np.abs(fraction - 0.9) < 0.02 + 3.0 * error), (fraction, error)


@pytest.mark.parametrize("name", LEAVES)
def test_one_leaf_in_closed_form(name):
    leaf = LEAVES[name]
    post = pt.posterior_from_trees(pt.TreeModel(X, Y, leaf=leaf, **PRIOR), [ROOT])
    gamma = stats.gamma(leaf.shape + Y[:, 1].sum(), scale=1.0 / (leaf.rate + (Y[:, 0] ** leaf.k).sum()))
    survival = post.survival(X[:1], TIMES, 0.8)
    for j, t in enumerate(TIMES):

        def density(rate, t=t):
            return gamma.pdf(rate) * np.exp(-rate * t**leaf.k)

        assert survival.mean[0, j] == pytest.approx(
            integrate.quad(density, 0.0, 20.0, points=[gamma.mean()])[0], abs=1e-7
        )
    assert survival.lower[0] == pytest.approx(np.exp(-gamma.ppf(0.9) * TIMES**leaf.k))
    assert survival.upper[0] == pytest.approx(np.exp(-gamma.ppf(0.1) * TIMES**leaf.k))
    median = post.median_survival(X[:1], 0.8)
    assert median["lower"][0] == pytest.approx((np.log(2.0) / gamma.ppf(0.9)) ** (1.0 / leaf.k))
    # the mean curve reaches one half at the median of a new time
    assert post.survival(X[:1], median["median"][0]).mean[0, 0] == pytest.approx(0.5, abs=1e-9)


@pytest.mark.more
def test_exact_sampled_and_drawn_times_agree():
    model = pt.TreeModel(X, Y, leaf=LEAVES["Weibull"], **PRIOR)
    truth = exact.solve(model)
    survival = truth.survival(X[:5], TIMES)
    fraction_later = (truth.sample_predictive(X[:5], 5000, rng=1)[:, :, None] > TIMES).mean(axis=0)
    assert survival.mean == pytest.approx(fraction_later, abs=0.025)
    sampled = pt.sample(model, 2000, tune=200, chains=2, rng=1, kernel="local", progress=False).survival(X[:5], TIMES)
    for name in ("mean", "lower", "upper"):
        assert getattr(sampled, name) == pytest.approx(getattr(survival, name), abs=0.025)
    assert survival.table().columns.tolist() == ["row", "time", "mean", "lower", "upper"]
    assert len(survival.table()) == 20


@pytest.mark.filterwarnings("ignore:The confidence interval is undefined")
def test_kaplan_meier_is_that_of_scipy():
    rng = np.random.default_rng(2)
    time, event = censor(rng, rng.exponential(size=50)).T
    time, event = np.round(time, 1) + 0.1, event == 1.0
    curve = kaplan_meier(time, event, 0.9)
    expected = stats.ecdf(stats.CensoredData.right_censored(time, ~event)).sf
    ends = expected.confidence_interval(0.9, method="log-log")
    assert curve.time == pytest.approx(expected.quantiles)
    assert curve.survival == pytest.approx(expected.probabilities)
    is_inner = ~np.isnan(curve.lower)
    assert is_inner.sum() > 10
    assert curve.lower[is_inner] == pytest.approx(ends.low.probabilities[is_inner])
    assert curve.upper[is_inner] == pytest.approx(ends.high.probabilities[is_inner])


def test_calibration_of_data_from_the_model():
    """Over tables from the model the events add up to those expected, and 90 % intervals hold the model's curve."""
    rng, counts, is_covered = np.random.default_rng(4), np.zeros(2), []
    for _ in range(12):
        model, rates = simulate(LEAVES["exponential"], rng)
        y = censor(rng, rng.exponential(size=N) / rates)  # held-out rows with the same rates
        table = exact.solve(model).calibration(X, y, 3, times=[0.2, 0.5]).table()
        each = table.drop_duplicates("group")
        counts += [each["events"].sum(), each["expected_events"].sum()]
        complete = table.dropna()
        is_covered += (
            (complete["lower"] <= complete["expected"]) & (complete["expected"] <= complete["upper"])
        ).tolist()
    assert counts[0] == pytest.approx(counts[1], rel=0.08)
    assert 0.75 < np.mean(is_covered) < 0.95


def test_refused():
    post = exact.solve(pt.TreeModel(X, Y, leaf=pt.ExponentialGamma(), **PRIOR))
    other = exact.solve(pt.TreeModel(X, Y[:, 0], **PRIOR))
    for ask in (lambda p: p.survival(X, TIMES), lambda p: p.median_survival(X), lambda p: p.calibration(X, Y)):
        with pytest.raises(ValueError, match=r"NormalInverseGamma is not a model of times.*ExponentialGamma"):
            ask(other)
    for times in (-1.0, [np.nan], [], [[1.0]], "soon"):
        with pytest.raises(ValueError, match="times"):
            post.survival(X, times)
    with pytest.raises(ValueError, match="coverage"):
        post.survival(X, TIMES, 1.0)
    with pytest.raises(ValueError, match="coverage"):
        post.calibration(X, Y, coverage=2.0)
    with pytest.raises(ValueError, match="groups"):
        post.calibration(X, Y, 0)
    with pytest.raises(TypeError, match="groups"):
        post.calibration(X, Y, "a lot")
    with pytest.raises(ValueError, match="splits on feature 5"):
        post.calibration(X, Y, pt.Tree([5, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]))
    with pytest.raises(ValueError, match="needs times > 0"):
        post.calibration(X, Y * [0.0, 1.0])
    with pytest.raises(ValueError, match="60 rows and y has 3"):
        post.calibration(X, Y[:3])
    with pytest.raises(ValueError, match="no rows"):
        post.calibration(X[:0], Y[:0])


def test_new_y_is_matched_by_name():
    named = pd.DataFrame({"dead": Y[:, 1] == 1.0, "days": Y[:, 0]})
    post = exact.solve(pt.TreeModel(X, named, leaf=pt.ExponentialGamma(), **PRIOR))
    unclear = pd.DataFrame({"dead": [1.0], "days": [1.0]})
    assert post.calibration(X[:1], unclear, 1).time[0] == 1.0
    with pytest.raises(ValueError, match="y lacks"):
        post.calibration(X, named.rename(columns={"days": "weeks"}), 4)
