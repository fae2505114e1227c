"""Quantiles and intervals of every leaf against its own draws and against exact sums, for data of every size."""

import numpy as np
import pytest
from scipy import special, stats

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.leaf.distributions import Burr, Distributions, Mixture, StudentT

RUN = {"draws": 40, "tune": 40, "chains": 2, "rng": 1, "kernel": "grow-prune", "progress": False}
RNG = np.random.default_rng(2)
UNIT = RNG.gamma(2.0, size=40)
EVENTS = (np.arange(40) % 3 > 0).astype(float)
X = np.repeat([[0.0], [1.0]], 20, axis=0)
STUDENT_ACCURACY = 1e-10 if abs(special.stdtrit(5.0, 0.95) - 2.015048373333024) < 1e-12 else 1e-8
"""Relative accuracy of quantiles of Student's t distribution, which older versions of SciPy have to eight digits."""


def fit(leaf, y, X=X):
    return pt.sample(pt.TreeModel(X, y, leaf=leaf), **RUN)


def check_draws(post, rows=((0.0,), (1.0,)), n=1500):
    """Check that draws are at most each quantile as often as its probability says, up to 5 standard errors."""
    sample = post.sample_predictive(rows, n, rng=3)
    for q in (0.0005, 0.05, 0.25, 0.5, 0.75, 0.95, 0.9995):
        ends = post.predict_quantiles(rows, q)
        error = 5.0 * np.sqrt(q * (1.0 - q) / n) + 2.0 / n
        # counts of 1e60 differ by less than rounding
        assert np.all((sample <= ends + 1e-14 * np.abs(ends)).mean(axis=0) >= q - error), q
        assert np.all((sample < ends - 1e-14 * np.abs(ends)).mean(axis=0) <= q + error), q
    for coverage in (0.5, 0.9, 0.999):
        low, high = post.predict_interval(rows, coverage).T
        assert np.all(low <= high)
        assert np.array_equal(low, post.predict_quantiles(rows, (1.0 - coverage) / 2.0))


SIZES = [1e-200, 1e-100, 1e-61, 1.0, 1e60, 1e100, 1e200]
POSITIVE = {
    "exponential": lambda size: (pt.ExponentialGamma(), np.column_stack([size * UNIT, EVENTS])),
    "all censored": lambda size: (pt.ExponentialGamma(), np.column_stack([size * UNIT, np.zeros(40)])),
    "weibull": lambda size: (pt.WeibullGamma(0.8), np.column_stack([size * UNIT, EVENTS])),
    "mixed times": lambda size: (pt.ExponentialGamma(), np.column_stack([size ** X[:, 0] * UNIT, EVENTS])),
}


@pytest.mark.more(everyday=["exponential-1e-200", "all censored-1e-200", "weibull-1e-100", "mixed times-1e-61"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", POSITIVE)
def test_positive_leaves_of_every_size(name, size):
    post = fit(*POSITIVE[name](size))
    if "mixed" not in name:
        ends = post.predict_interval([[1.0]])[0] / size
        assert 1e-4 < ends[0] < ends[1] < 1e4
    check_draws(post)


@pytest.mark.more(everyday=["NormalKnownVariance-1e-140", "NormalSharedVariance-1e-60"])
@pytest.mark.parametrize("size", [1e-140, 1e-60, 1.0, 1e60, 1e140])
@pytest.mark.parametrize(
    "leaf",
    [pt.NormalInverseGamma(), pt.NormalKnownVariance(), pt.NormalSharedVariance(), pt.NormalLinear([0])],
    ids=lambda leaf: type(leaf).__name__,
)
def test_normal_leaves_of_every_size(leaf, size):
    post = fit(leaf, size * (np.log(UNIT) + 3.0 * X[:, 0]))
    ends = post.predict_interval([[1.0]])[0] / size
    assert -10.0 < ends[0] < ends[1] < 10.0
    check_draws(post)


COUNTS = {
    "zero": np.zeros(40),
    "small": np.floor(UNIT),
    "3 and 10,000": np.where(X[:, 0] > 0.0, 10_000.0, 3.0),
    "0 and 1e6": np.where(X[:, 0] > 0.0, np.floor(1e6 * UNIT), 0.0),
    "1e15": np.floor(1e15 * UNIT),
    "1e60": np.floor(1e60 * UNIT),
}


@pytest.mark.more(everyday=["zero", "3 and 10,000", "0 and 1e6"])
@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_every_size(name):
    post = fit(pt.PoissonGamma(), COUNTS[name])
    ends = post.predict_interval([[0.0], [1.0]], 0.999)
    assert np.array_equal(ends, np.floor(ends)) and np.all(ends >= 0.0)
    check_draws(post)


def as_mixture(weights):
    """Return a mixture of one row."""
    return Mixture(np.arange(len(weights)), np.array(weights), np.array([0, len(weights)]))


def of(kind, *parameters):
    return kind(*(np.atleast_1d(np.asarray(p, dtype=float)) for p in parameters))


def by_scipy(family, *parameters):
    return of(lambda *arrays: Distributions(family, *arrays), *parameters)


@pytest.mark.more(everyday=["1e-09-1e-200", "0.0005-1e-200", "0.05-1e-100", "0.5-1e-61", "0.95-1.0"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("q", [1e-9, 0.0005, 0.05, 0.5, 0.95, 0.9995, 1.0 - 1e-9])
def test_quantiles_of_one_distribution_scale(q, size):
    """The quantile at any size is that at size one, which SciPy has, and tails have a small relative error."""
    for distribution, unit in (
        (by_scipy("betaprime", 2.0, 5.0, 0.0, size), stats.betaprime(2.0, 5.0)),
        (by_scipy("betaprime", 0.5, 400.0, 0.0, size), stats.betaprime(0.5, 400.0)),
        (of(Burr, 1.0, 3.0, size), stats.lomax(3.0)),
        (of(StudentT, 5.0, 0.0, size), stats.t(5.0)),
    ):
        result = as_mixture([1.0]).quantile(distribution, q)
        exact = unit.ppf(q) if q < 0.5 else unit.isf(1.0 - q)
        rel = STUDENT_ACCURACY if unit.dist.name == "t" else 1e-10
        assert result[0] / size == pytest.approx(exact, rel=rel, abs=1e-12)
        assert distribution.below(result)[0] == pytest.approx(q, rel=rel)
        assert distribution.above(result)[0] == pytest.approx(1.0 - q, rel=rel)


class TestNoEndOfTheSearchIsAnAnswer:
    def test_one_class(self):
        truth = exact.solve(pt.TreeModel(X, ["p"] * len(X)))
        for post in (truth, truth.sample(20, rng=1)):
            assert post.credible_interval(X[:3]).tolist() == [[[1.0, 1.0]]] * 3
        assert "e+308" not in str(truth.sample(20, rng=1).shapes())

    def test_classes_with_almost_no_prior(self):
        model = pt.TreeModel(X, X[:, 0] > 0.0, leaf=pt.DirichletMultinomial(1e-100))
        stump = pt.Tree([0, -1, -1], [0.5, 0.0, 0.0], [1, 0, 0], [2, 0, 0])
        ends = pt.posterior_from_trees(model, [stump]).credible_interval(X)
        assert np.unique(ends).tolist() == [0.0, 1.0]
        assert (ends[X[:, 0] > 0.0, 1] == 1.0).all()

    def test_beyond_all_floats(self):
        mix = as_mixture([0.5, 0.5])
        huge = Burr(np.full(2, 0.01), np.array([1.0, 2.0]), np.ones(2))
        assert mix.quantile(huge, 0.9999) == np.inf
        assert 0.0 < mix.quantile(huge, 0.5) < 1e20
        assert mix.quantile(huge, 1e-9) == 0.0
        assert mix.quantile(by_scipy("gamma", [1e-100, 1e-90], np.zeros(2), np.ones(2)), 0.5) == 0.0

    def test_a_probability_that_is_no_number(self):
        assert np.isnan(as_mixture([1.0]).quantile(by_scipy("beta", 2.0, -1.0), 0.5))
