"""Leaf scores equal those of SciPy, quadrature or brute force; predictive distributions sum to one."""

import contextlib
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.leaf.compiled import leaf_score
from tests.problems.refusals import refuses

CLASSES = {
    "dirichlet": pt.DirichletMultinomial(0.7),
    "dirichlet by class": pt.DirichletMultinomial([0.5, 2.0, 1.2]),
    "laplace": pt.FrozenLaplace(0.8),
    "loss": pt.PacBayesLoss(0.6, 0.3),
    "loss with E": pt.PacBayesLoss(0.6, 0.3),
}
ON_REALS = {
    "normal": pt.NormalInverseGamma(0.3, 0.7, 2.0, 1.5),
    "normal, from the data": pt.NormalInverseGamma(),
    "known variance": pt.NormalKnownVariance(0.8, 0.3, 0.7),
    "known variance, from the data": pt.NormalKnownVariance(),
}
COUNTS = {
    "poisson": pt.PoissonGamma(1.3, 0.6),
    "poisson, from the data": pt.PoissonGamma(),
    "poisson with exposure": pt.PoissonGamma(1.3, 0.6, np.linspace(0.5, 2.5, 9)),
}
SCORED = {**CLASSES, **ON_REALS, **COUNTS}
N = 9
ROWS = [0, 2, 3, 5, 8]
RNG = np.random.default_rng(5)
X = np.column_stack([np.arange(N) % 4, np.arange(N) % 3]).astype(float)
PARAMETERS_OUT_OF_RANGE = [
    lambda: pt.ExponentialGamma(-1.0),
    lambda: pt.WeibullGamma(0.0),
    lambda: pt.NormalLinear([]),
    lambda: pt.NormalLinear([0], scales=[0.0]),
    lambda: pt.NormalLinear([0], centers=[0.0, 1.0]),
]


def nine_rows(name, *, weight=None, seed=0):
    """A model of nine rows, each a unit of its own."""
    rng = np.random.default_rng([seed, N])
    if name in CLASSES:
        y = np.append([0, 1, 2], rng.integers(3, size=N - 3))
    else:
        y = rng.poisson(3.0, N) if name in COUNTS else 2.0 * rng.normal(size=N)
    mask = np.arange(N) % 3 != 0 if name in ("laplace", "loss with E") else None
    X = np.arange(float(N))[:, None]
    return pt.TreeModel(X, y, leaf=SCORED[name], sample_weight=weight, estimation=mask)


def stats_of(model, rows):
    cell = replace(model.root_cell(), index=np.asarray(rows, dtype=np.int64))
    return cell.stats(model.leaf.n_stats(model.target))


def score_of(model, rows):
    return model.leaf.log_score(stats_of(model, rows), model.target)


def density(model, rows, row, y):
    cells = np.tile(stats_of(model, rows), (N, 1))
    return math.exp(model.leaf.log_density(cells, np.full(N, y), model.target)[row])


@pytest.mark.parametrize("name", SCORED)
def test_an_empty_cell_scores_zero(name):
    model = nine_rows(name, weight=np.array([0.0] * 3 + [1.0] * 6))
    rule = model.leaf.rule(model.target)
    assert leaf_score(rule, np.zeros((1, rule.n_stats)), 0) == 0.0
    assert leaf_score(rule, stats_of(model, [0, 1, 2])[None], 0) == 0.0
    everything_left = pt.Tree([0, -1, -1], [99.0, 0, 0], [1, 0, 0], [2, 0, 0])
    assert model.log_score(everything_left) == model.log_score(pt.Tree([-1], [0], [0], [0]))


@pytest.mark.parametrize("name", SCORED)
def test_weight_two_is_the_row_twice(name):
    """Weight 0 is no row at all."""
    leaf = SCORED[name]
    y, mask = [0, 1, 2, 1, 0, 2], np.array([True, False] * 3)
    weight = np.array([1, 2, 0, 3, 1, 2])
    repeated = np.repeat(np.arange(6), weight)
    estimation = [mask, mask[repeated]] if name in ("laplace", "loss with E") else [None, None]
    exposure = np.linspace(0.5, 2.0, 6)
    leaves = [replace(leaf, exposure=e) for e in (exposure, exposure[repeated])] if "exposure" in name else [leaf] * 2
    X = np.zeros((6, 1))
    weighted = pt.TreeModel(X, y, leaf=leaves[0], sample_weight=weight, estimation=estimation[0])
    plain = pt.TreeModel(X[repeated], np.array(y)[repeated], leaf=leaves[1], estimation=estimation[1])
    stump = pt.Tree([-1], [0], [0], [0])
    assert weighted.log_score(stump) == pytest.approx(plain.log_score(stump), abs=1e-10)


@pytest.mark.parametrize("name", ON_REALS)
def test_normal_leaves_by_scipy(name):
    """Given the parameters' prior, the rows of a cell are jointly normal or Student t."""
    model = nine_rows(name)
    leaf, y, m = model.leaf, model.target.values[ROWS], len(ROWS)
    shape = np.eye(m) + 1.0 / leaf.k0
    if isinstance(leaf, pt.NormalInverseGamma):
        joint_density = stats.multivariate_t(np.full(m, leaf.m0), leaf.b0 / leaf.a0 * shape, df=2 * leaf.a0)
    else:
        joint_density = stats.multivariate_normal(np.full(m, leaf.m0), leaf.sigma2 * shape)
    assert score_of(model, ROWS) == pytest.approx(joint_density.logpdf(y))


@pytest.mark.more(everyday=["poisson-None"])
@pytest.mark.parametrize("weight", [None, np.linspace(0.2, 2.5, N)])
@pytest.mark.parametrize("name", COUNTS)
def test_poisson_by_quadrature(name, weight):
    model = nine_rows(name, weight=weight)
    leaf, y = model.leaf, model.target.values[ROWS]
    w = np.ones(len(ROWS)) if weight is None else weight[ROWS]
    exposure = np.ones(len(ROWS)) if leaf.exposure is None else leaf.exposure[ROWS]
    prior, score = stats.gamma(leaf.shape, scale=1 / leaf.rate), score_of(model, ROWS)
    total, _ = integrate.quad(
        lambda rate: math.exp(w @ stats.poisson.logpmf(y, rate * exposure) - score) * prior.pdf(rate), 0, 40, limit=200
    )
    assert total == pytest.approx(1.0)


def resolved(y, leaf, **more):
    return pt.TreeModel(np.arange(float(len(y)))[:, None], y, leaf=leaf, **more).leaf


class TestDefaults:
    """Parameters left out are set from the data as the docstrings say."""

    Y = (1.0, 2.0, 4.0, 9.0)
    WEIGHT = (1.0, 0.0, 2.0, 1.0)

    def test_normal_inverse_gamma(self):
        leaf = resolved(self.Y, pt.NormalInverseGamma())
        assert (leaf.m0, leaf.k0, leaf.a0) == (4.0, 0.25, 1.5) and leaf.b0 == pytest.approx(1.5 * np.var(self.Y) / 4)
        assert resolved(self.Y, pt.NormalInverseGamma(a0=6.0)).b0 == pytest.approx(6.0 * np.var(self.Y) / 4)

    @pytest.mark.parametrize("n", [2, 10, 49])
    @pytest.mark.parametrize("value", [0.1, 2.5, 1e9 + 0.1])
    def test_constant_y_has_variance_one(self, n, value):
        """Also where the rounded mean differs from it; rows of weight zero do not count."""
        y, weight = np.append(np.full(n, value), 7.0), np.append(np.ones(n), 0.0)
        assert resolved(y[:n], pt.NormalKnownVariance()).sigma2 == 0.25
        assert resolved(y[:n], pt.NormalInverseGamma()).b0 == 1.5 / 4
        assert resolved(y, pt.NormalInverseGamma(), sample_weight=weight).b0 == 1.5 / 4
        assert resolved(y, pt.NormalInverseGamma(), sample_weight=weight).m0 == value


def test_a_score_without_address_is_not_called_by_one():
    """The density of one row is not defined if leaves share the variance; a call by address would end the process."""
    leaf = pt.NormalSharedVariance(m0=0.0, k0=1.0, a0=2.0, b0=1.0)
    model = pt.TreeModel([[0.0], [1.0], [2.0]], [0.5, 1.0, 1.5], leaf=leaf)
    with pytest.raises(NotImplementedError, match="NormalSharedVariance"):
        model.leaf.log_density(np.ones((1, 3)), np.zeros(1), model.target)


TIMES = np.column_stack([RNG.exponential(2.0, N) + 0.05, RNG.random(N) < 0.7]).astype(float)
REALS = RNG.normal(size=N) + X[:, 0]
NOT_FOR_LEAVES = [
    (pt.ExponentialGamma(), np.column_stack([np.zeros(N), np.ones(N)]), "needs times > 0"),
    (pt.ExponentialGamma(), np.column_stack([np.ones(N), np.full(N, 0.5)]), "the event is 0.5"),
    (pt.ExponentialGamma(), np.ones(N), "needs 2 columns"),
    (pt.ExponentialGamma(shape=0.5), TIMES, "makes the mean time infinite"),
    (pt.NormalLinear(["age"]), REALS, "is not a column"),
]


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
    assert low[0] - 0.02 <= 0.5 <= high[0] + 0.02 and y.shape == many.shape


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
    assert ends == pytest.approx(truth.predict_interval(X, 0.8), abs=0.3, rel=0.1) and (ends[:, 0] <= ends[:, 1]).all()


@pytest.mark.parametrize(("leaf", "y", "message"), NOT_FOR_LEAVES)
def test_what_a_leaf_cannot_take_is_refused(leaf, y, message):
    refuses(message, lambda: pt.TreeModel(X, y, leaf=leaf))


@pytest.mark.parametrize("call", PARAMETERS_OUT_OF_RANGE)
def test_parameters_out_of_range_are_refused(call):
    with pytest.raises((ValueError, TypeError)):
        call()


class TestRegressors:
    def test_nominal_and_missing_columns_are_refused(self):
        table = np.column_stack([np.array(list("ababababa"), dtype=object), X[:, 0]])
        refuses("is nominal", lambda: pt.TreeModel(table, REALS, nominal=[0], leaf=pt.NormalLinear([0])))
        gaps = X.copy()
        gaps[3, 0] = np.nan
        with pytest.raises(ValueError, match="lacks a value in row 3"):
            pt.TreeModel(gaps, REALS, missing="branch", leaf=pt.NormalLinear([0]))
        model = pt.TreeModel(gaps, REALS, missing="branch", leaf=pt.NormalLinear([1]))
        post = exact.solve(model)
        refuses("row 0 lacks a value", lambda: post.predict([[0.0, np.nan]]))

    def test_columns_by_name(self):
        import pandas as pd

        table = pd.DataFrame({"size": X[:, 0], "age": X[:, 1]})
        by_name = pt.TreeModel(table, REALS, leaf=pt.NormalLinear(["age"]))
        by_place = pt.TreeModel(X, REALS, leaf=pt.NormalLinear([1]))
        assert exact.solve(by_name).log_evidence == exact.solve(by_place).log_evidence
        assert np.array_equal(exact.solve(by_name).predict(table[["age", "size"]]), exact.solve(by_place).predict(X))
