"""Leaves scored by address: scores equal quadrature, both forms each other, predictions brute force."""

import contextlib
import math

import numpy as np
import pytest
from scipy import integrate, stats

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.leaf.compiled import leaf_score

N = 9
RNG = np.random.default_rng(5)
X = np.column_stack([np.arange(N) % 4, np.arange(N) % 3]).astype(float)
TIMES = np.column_stack([RNG.exponential(2.0, N) + 0.05, RNG.random(N) < 0.7]).astype(float)
REALS = RNG.normal(size=N) + X[:, 0]


def gamma_prior(shape, rate):
    return lambda value: stats.gamma.logpdf(value, shape, scale=1.0 / rate)


def hazard(value, y, k):
    """Log likelihood of times, some censored."""
    time, event = y.T
    return float(np.sum(event * (np.log(value * k) + (k - 1.0) * np.log(time)) - value * time**k))


ONE_PARAMETER = {
    "exponential": (
        pt.ExponentialGamma(2.5, 3.0),
        TIMES,
        gamma_prior(2.5, 3.0),
        lambda rate, y: hazard(rate, y, 1.0),
        (0.0, 30.0),
    ),
    "weibull": (
        pt.WeibullGamma(1.6, 2.5, 3.0),
        TIMES,
        gamma_prior(2.5, 3.0),
        lambda rate, y: hazard(rate, y, 1.6),
        (0.0, 30.0),
    ),
}
LEAVES = {name: parts[:2] for name, parts in ONE_PARAMETER.items()} | {
    "exponential, from the data": (pt.ExponentialGamma(), TIMES),
    "weibull, from the data": (pt.WeibullGamma(0.7), TIMES),
    "linear": (pt.NormalLinear([0, 1], 0.3, 0.7, 0.4, 2.0, 1.5, [1.0, 0.5], [2.0, 1.0]), REALS),
    "linear, from the data": (pt.NormalLinear([1]), REALS),
    "piecewise": (pt.PiecewiseExponential([0.7, 2.0], 1.5, [1.0, 2.0, 3.0]), TIMES),
    "piecewise, from the data": (pt.PiecewiseExponential(3), TIMES),
    "weibull, exposures": (pt.WeibullGamma(1.6, exposure=np.linspace(0.5, 2.0, N)), TIMES),
}


def model_of(name, weight=None, **more):
    leaf, y = LEAVES[name]
    return pt.TreeModel(X, y, leaf=leaf, sample_weight=weight, tree_prior=pt.ChipmanPrior(max_depth=2), **more)


def cells(model, rng, n=20):
    own = model.leaf.row_stats(model.target)
    return np.array([own[rng.choice(N, rng.integers(1, N + 1), replace=False)].sum(axis=0) for _ in range(n)])


def posterior_mean(name, value, rows):
    """Log of the integral over the parameter of prior, likelihood of ``rows`` and ``value(parameter)``."""
    _, y, prior, likelihood, ends = ONE_PARAMETER[name]
    y = y[rows]

    def density(p):
        return math.exp(prior(p) + likelihood(p, y)) * value(p)

    points = np.linspace(*ends, 100)[1:-1]
    peak = points[int(np.argmax([density(p) for p in points]))]
    width = 0.2 * (ends[1] - ends[0])
    inner = [x for x in (peak - width / 4, peak, peak + width / 4) if ends[0] < x < ends[1]]
    return integrate.quad(density, *ends, points=inner, limit=500, epsabs=0.0, epsrel=1e-11)[0]


@pytest.mark.parametrize("name", ONE_PARAMETER)
def test_the_score_is_the_integral_of_the_likelihood(name):
    model = model_of(name)
    own = model.leaf.row_stats(model.target)
    for rows in ([0], [1, 2, 3], list(range(6))):
        sums, expected = own[rows].sum(axis=0), math.log(posterior_mean(name, lambda p: 1.0, rows))
        assert model.leaf.log_score(sums, model.target) == pytest.approx(expected, abs=1e-7)
        assert leaf_score(model.lowered.leaf, sums[None], 0) == pytest.approx(expected, abs=1e-7)


def linear_distribution(leaf, F, r):
    """The rows r given their basis F are jointly Student (Gelman et al. 2013, section 14.8)."""
    spread = np.eye(len(r)) + F @ np.diag([1.0 / leaf.k0] + [1.0 / leaf.k1] * (F.shape[1] - 1)) @ F.T
    return stats.multivariate_t(np.zeros(len(r)), leaf.b0 / leaf.a0 * spread, df=2.0 * leaf.a0)


def test_linear_regression_is_a_joint_student_distribution():
    model = model_of("linear")
    leaf, own = model.leaf, model.leaf.row_stats(model.target)
    F, r = np.column_stack([np.ones(N), (X - leaf.centers) / leaf.scales]), REALS - leaf.m0
    for rows in ([0], [1, 4, 6], list(range(N))):
        result = leaf.log_score(own[rows].sum(axis=0), model.target)
        assert result == pytest.approx(linear_distribution(leaf, F[rows], r[rows]).logpdf(r[rows]), abs=1e-10)
    # the distribution of a further row is what the score gains by it
    rows, row = [1, 4, 6, 2], 3
    distribution = leaf.predictive(own[rows].sum(axis=0)[None], np.zeros(1, dtype=int), model.target).at(
        X[row : row + 1]
    )
    gained = leaf.log_density(np.tile(own[rows].sum(axis=0), (N, 1)), REALS, model.target)[row]
    student = stats.t(*distribution.parameters)
    assert student.logpdf(REALS[row]) == pytest.approx(gained, abs=1e-10)
    assert leaf.value(own[rows].sum(axis=0)[None], model.target, X[row : row + 1])[0, 0] == pytest.approx(
        distribution.parameters[1][0]
    )


def test_coefficients_of_a_linear_leaf_vary_as_the_inverse_of_their_precision():
    """Given the variance of the noise; within five Monte-Carlo errors."""
    model, n = model_of("linear"), 20_000
    leaf = model.leaf
    F, r = np.column_stack([np.ones(N), (X - leaf.centers) / leaf.scales]), REALS - leaf.m0
    expected = np.linalg.inv(F.T @ F + np.diag([leaf.k0, leaf.k1, leaf.k1]))
    sums = np.tile(leaf.row_stats(model.target).sum(axis=0), (n, 1))
    coefficients, sigma = leaf.draw_parameters(np.random.default_rng(3), sums, model.target)
    deviation = (coefficients - expected @ F.T @ r) / sigma[:, None]
    variance = np.diag(expected)
    error = np.sqrt((np.outer(variance, variance) + expected**2) / n)
    assert (np.abs(deviation.T @ deviation / n - expected) < 5.0 * error).all()


@pytest.mark.parametrize("name", LEAVES)
def test_draws_have_the_mean_and_the_spread_that_is_predicted(name):
    model, rng = model_of(name), np.random.default_rng(3)
    stats_ = model.leaf.row_stats(model.target).sum(axis=0)[None]
    at = (X[:1, model.leaf.columns],) if name.startswith("linear") else ()
    tiled = [np.tile(x, (20_000, 1)) for x in at]
    y = model.leaf.draw(rng, stats_, np.zeros(20_000, dtype=int), model.target, None, *tiled)
    # one leaf has one parameter: leaves of the same statistics have their own
    many = model.leaf.draw(rng, np.tile(stats_, (20_000, 1)), np.arange(20_000), model.target, None, *tiled)
    value = model.leaf.value(stats_, model.target, *at)[0]
    assert many.reshape(20_000, -1).mean(axis=0) == pytest.approx(value, abs=0.12)
    distribution = model.leaf.predictive(stats_, np.zeros(1, dtype=int), model.target)
    distribution = distribution.at(*at) if at else distribution
    middle = np.median(many)
    low, high = distribution.below(np.array([middle - 1e-9])), distribution.below(np.array([middle]))
    assert low[0] - 0.02 <= 0.5 <= high[0] + 0.02
    assert y.shape == many.shape


@pytest.mark.more(everyday=["exponential", "weibull", "linear"])
@pytest.mark.parametrize("name", LEAVES)
def test_both_engines_agree(name, tmp_path):
    model = model_of(name)
    truth = exact.solve(model)
    assert exact.solve(model).log_evidence == truth.log_evidence
    post = truth.sample(4000, rng=1)
    values, expected = post.predict(X), truth.predict(X)
    assert values == pytest.approx(expected, abs=0.15)
    assert post.draws.log_score_of_tree[0] == pytest.approx(model.log_score(post.draws.distinct_tree(0)), abs=1e-10)
    short = pt.sample(model, 60, tune=20, chains=2, rng=1, kernel="grow-prune", progress=False)
    short.save(tmp_path / "run.nc")
    loaded = pt.load(tmp_path / "run.nc")
    assert np.array_equal(loaded.predict(X), short.predict(X))
    assert np.array_equal(pt.resume(loaded, 5, progress=False).log_score[:, :60], short.log_score)
    is_censored = model.target.values.ndim > 1 and (model.target.values[:, 1] == 0).any()
    with pytest.warns(UserWarning, match="censored") if is_censored else contextlib.nullcontext():
        groups = short.to_arviz(log_likelihood=True, posterior_predictive=True)
    assert np.isfinite(groups.log_likelihood["y"].values).all()
    assert pt.simulate(model, rng=1)[1].shape == model.target.values.shape
    ends = post.predict_interval(X, 0.8)
    assert ends == pytest.approx(truth.predict_interval(X, 0.8), abs=0.3, rel=0.1)
    assert (ends[:, 0] <= ends[:, 1]).all()


@pytest.mark.parametrize(
    ("leaf", "y", "message"),
    [
        (pt.ExponentialGamma(), np.column_stack([np.zeros(N), np.ones(N)]), "needs times > 0"),
        (pt.ExponentialGamma(), np.column_stack([np.ones(N), np.full(N, 0.5)]), "the event is 0.5"),
        (pt.ExponentialGamma(), np.ones(N), "needs 2 columns"),
        (pt.ExponentialGamma(shape=0.5), TIMES, "makes the mean time infinite"),
        (pt.NormalLinear(["age"]), REALS, "is not a column"),
    ],
)
def test_what_a_leaf_cannot_take_is_refused(leaf, y, message):
    with pytest.raises(ValueError, match=message):
        pt.TreeModel(X, y, leaf=leaf)


@pytest.mark.parametrize(
    "call",
    [
        lambda: pt.ExponentialGamma(-1.0),
        lambda: pt.WeibullGamma(0.0),
        lambda: pt.NormalLinear([]),
        lambda: pt.NormalLinear([0], scales=[0.0]),
        lambda: pt.NormalLinear([0], centers=[0.0, 1.0]),
    ],
)
def test_parameters_out_of_range_are_refused(call):
    with pytest.raises((ValueError, TypeError)):
        call()


class TestRegressors:
    def test_nominal_and_missing_columns_are_refused(self):
        table = np.column_stack([np.array(list("ababababa"), dtype=object), X[:, 0]])
        with pytest.raises(ValueError, match="is nominal"):
            pt.TreeModel(table, REALS, nominal=[0], leaf=pt.NormalLinear([0]))
        gaps = X.copy()
        gaps[3, 0] = np.nan
        with pytest.raises(ValueError, match="lacks a value in row 3"):
            pt.TreeModel(gaps, REALS, missing="branch", leaf=pt.NormalLinear([0]))
        model = pt.TreeModel(gaps, REALS, missing="branch", leaf=pt.NormalLinear([1]))
        post = exact.solve(model)
        with pytest.raises(ValueError, match="row 0 lacks a value"):
            post.predict([[0.0, np.nan]])

    def test_columns_by_name(self):
        import pandas as pd

        table = pd.DataFrame({"size": X[:, 0], "age": X[:, 1]})
        by_name = pt.TreeModel(table, REALS, leaf=pt.NormalLinear(["age"]))
        by_place = pt.TreeModel(X, REALS, leaf=pt.NormalLinear([1]))
        assert exact.solve(by_name).log_evidence == exact.solve(by_place).log_evidence
        assert np.array_equal(exact.solve(by_name).predict(table[["age", "size"]]), exact.solve(by_place).predict(X))
