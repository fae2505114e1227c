"""Piecewise exponential times; quantiles and intervals of every leaf; exposures."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, special, stats

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.leaf.compiled import leaf_score
from pactree_mcmc.model.leaf.distributions import Burr, Distributions, Mixture, StudentT
from tests.problems.refusals import refuses

ENDS, SHAPE, RATES = np.array([0.7, 2.0]), 2.5, np.array([1.0, 2.0, 3.0])
LEAF = pt.PiecewiseExponential(ENDS, SHAPE, RATES)
N = 60
RNG = np.random.default_rng(8)
X = np.column_stack([RNG.integers(0, 4, N), RNG.integers(0, 3, N)]).astype(float)
PRIOR = {"tree_prior": pt.ChipmanPrior(0.9, 1.0, max_depth=2)}
ROOT = pt.Tree([-1], [0], [0], [0])
REFUSED = [
    ({"ends": 0}, "ends"),
    ({"ends": [2.0, 1.0]}, "increasing times"),
    ({"ends": [0.0, 1.0]}, "increasing times"),
    ({"ends": [np.nan]}, "increasing times"),
    ({"shape": 1.0}, "shape > 1"),
    ({"rate": -1.0}, "rate"),
]
RUN = {"draws": 40, "tune": 40, "chains": 2, "rng": 1, "kernel": "grow-prune", "progress": False}
PAIRS_RNG = np.random.default_rng(2)
UNIT = PAIRS_RNG.gamma(2.0, size=40)
EVENTS = (np.arange(40) % 3 > 0).astype(float)
PAIRS = np.repeat([[0.0], [1.0]], 20, axis=0)
STUDENT_ACCURACY = 1e-10 if abs(special.stdtrit(5.0, 0.95) - 2.015048373333024) < 1e-12 else 1e-8
"""Relative accuracy of quantiles of Student's t distribution, which older versions of SciPy have to eight digits."""
SIZES = [1e-200, 1e-100, 1e-61, 1.0, 1e60, 1e100, 1e200]
POSITIVE = {
    "exponential": lambda size: (pt.ExponentialGamma(), np.column_stack([size * UNIT, EVENTS])),
    "all censored": lambda size: (pt.ExponentialGamma(), np.column_stack([size * UNIT, np.zeros(40)])),
    "weibull": lambda size: (pt.WeibullGamma(0.8), np.column_stack([size * UNIT, EVENTS])),
    "mixed times": lambda size: (pt.ExponentialGamma(), np.column_stack([size ** PAIRS[:, 0] * UNIT, EVENTS])),
}
COUNTS = {
    "zero": np.zeros(40),
    "small": np.floor(UNIT),
    "3 and 10,000": np.where(PAIRS[:, 0] > 0.0, 10_000.0, 3.0),
    "0 and 1e6": np.where(PAIRS[:, 0] > 0.0, np.floor(1e6 * UNIT), 0.0),
    "1e15": np.floor(1e15 * UNIT),
    "1e60": np.floor(1e60 * UNIT),
}
N_EXPOSED = 9
EXPOSED_RNG = np.random.default_rng(5)
EXPOSED = np.column_stack([np.arange(N_EXPOSED) % 4, np.arange(N_EXPOSED) % 3]).astype(float)
E = EXPOSED_RNG.uniform(0.3, 3.0, N_EXPOSED)
TIMES = np.column_stack([EXPOSED_RNG.exponential(2.0, N_EXPOSED) + 0.05, EXPOSED_RNG.random(N_EXPOSED) < 0.7]).astype(
    float
)
EXPOSED_COUNTS = EXPOSED_RNG.poisson(3.0, N_EXPOSED).astype(float)
LEAVES = {
    "exponential": (pt.ExponentialGamma(2.5, 3.0, exposure=E), TIMES, lambda r, rows: hazard(r, rows, 1.0)),
    "weibull": (pt.WeibullGamma(1.6, 2.5, 3.0, exposure=E), TIMES, lambda r, rows: hazard(r, rows, 1.6)),
    "poisson": (
        pt.PoissonGamma(2.5, 3.0, exposure=E),
        EXPOSED_COUNTS,
        lambda r, rows: float(stats.poisson.logpmf(EXPOSED_COUNTS[rows], r * E[rows]).sum()),
    ),
}


def draw_times(rng, falls):
    """Draw times whose hazard falls at 1 if ``falls``, and rises otherwise."""
    amount = rng.exponential(size=len(falls))
    first, second = np.where(falls, 1.2, 0.2), np.where(falls, 0.3, 1.5)
    return np.where(amount < first, amount / first, 1.0 + (amount - first) / second)


def censor(rng, time):
    limit = rng.exponential(2.0 * np.median(time), len(time))
    return np.column_stack([np.minimum(time, limit), time <= limit])


Y = censor(RNG, draw_times(RNG, X[:, 0] > 1))


def survival(rates, t):
    """P(time > t) given the rates, interval by interval."""
    edges = [0.0, *ENDS, np.inf]
    return np.exp(-sum(r * max(0.0, min(t, b) - a) for r, a, b in zip(rates, edges[:-1], edges[1:], strict=True)))


def test_score_is_the_integral_over_the_rates():
    y = np.array([[0.3, 1.0], [0.7, 1.0], [1.1, 0.0], [2.6, 1.0], [3.0, 0.0]])

    def likelihood(rates):
        out = 1.0
        for t, event in y:
            j = int(np.sum(t > ENDS))  # an event at an end is in the interval that ends there
            out *= survival(rates, t) * (rates[j] if event else 1.0)
        return out

    def density(*rates):
        return likelihood(rates) * np.prod(stats.gamma.pdf(rates, SHAPE, scale=1.0 / RATES))

    # Gauss-Laguerre: the integrand is a polynomial of non-integer powers times exponentials
    nodes, weights = special.roots_genlaguerre(40, SHAPE - 1.0)
    grid = np.meshgrid(*[nodes] * 3, indexing="ij")
    w = np.prod(np.meshgrid(*[weights] * 3, indexing="ij"), axis=0)
    # the rates of the prior are divided out, and the weight function is exp(-x) x^(shape - 1)
    total = (
        sum(
            weight * likelihood((a / RATES[0], b / RATES[1], c / RATES[2]))
            for a, b, c, weight in zip(*(part.ravel() for part in grid), w.ravel(), strict=True)
            if weight > 1e-14
        )
        / special.gamma(SHAPE) ** 3
    )
    model = pt.TreeModel(np.zeros((5, 1)), y, leaf=LEAF)
    assert model.log_score(ROOT) == pytest.approx(np.log(total), abs=1e-8) and density(1.0, 1.0, 1.0) > 0.0


def test_moments_and_quantiles_of_a_new_time():
    model = pt.TreeModel(X, Y, leaf=LEAF, **PRIOR)
    post = pt.posterior_from_trees(model, [ROOT])
    cell = model.leaf.row_stats(model.target).sum(axis=0)[None]

    def above(t):
        return model.leaf.mean_survival(cell, np.array([t]))[0, 0]

    assert post.survival(X[:1], 1.3).mean[0, 0] == pytest.approx(above(1.3))
    mean = sum(integrate.quad(above, a, b)[0] for a, b in ((0.0, 0.7), (0.7, 2.0), (2.0, 20.0), (20.0, np.inf)))
    square = sum(
        integrate.quad(lambda t: 2.0 * t * above(t), a, b)[0]
        for a, b in ((0.0, 0.7), (0.7, 2.0), (2.0, 20.0), (20.0, np.inf))
    )
    assert post.predict(X[:1])[0] == pytest.approx(mean, rel=1e-6)
    assert post.predict_std_new_y(X[:1])[0] ** 2 == pytest.approx(square - mean**2, rel=1e-5)
    for q in (0.01, 0.3, 0.5, 0.9, 0.999):
        assert above(post.predict_quantiles(X[:1], [q])[0, 0]) == pytest.approx(1.0 - q, abs=1e-8)
    drawn = model.leaf.draw(np.random.default_rng(1), np.tile(cell, (20_000, 1)), np.arange(20_000), model.target)
    for t in (0.2, 0.7, 1.5, 4.0):
        assert (drawn > t).mean() == pytest.approx(above(t), abs=0.015)
    low, high = post.credible_interval(X[:1])[0]
    expectations = post.draw_expectations(X[:1], 4000, rng=2)[:, 0]
    assert np.quantile(expectations, [0.05, 0.95]) == pytest.approx([low, high], rel=0.08)
    assert expectations.mean() == pytest.approx(mean, rel=0.05)


def test_bands_are_quantiles_of_the_gamma_posteriors():
    model = pt.TreeModel(X, Y, leaf=LEAF, **PRIOR)
    post = pt.posterior_from_trees(model, [ROOT])
    edges = np.array([0.0, *ENDS, np.inf])
    at_risk = np.clip(Y[:, :1] - edges[:-1], 0.0, np.diff(edges)).sum(axis=0)
    events = [((Y[:, 1] == 1) & (Y[:, 0] > a) & (Y[:, 0] <= b)).sum() for a, b in zip(edges, edges[1:], strict=False)]
    rates = RNG.gamma(SHAPE + np.array(events), size=(20_000, 3)) / (RATES + at_risk)
    for t in (0.5, 1.5, 3.0):
        drawn = [survival(r, t) for r in rates[:4000]]
        curve = post.survival(X[:1], t)
        assert curve.mean[0, 0] == pytest.approx(np.mean(drawn), abs=0.006)
        ends = [curve.lower[0, 0], curve.upper[0, 0]]
        assert ends == pytest.approx(np.quantile(drawn, [0.05, 0.95]), abs=0.012)
    line = post.median_survival(X[:1])
    assert line["lower"][0] < line["median"][0] < line["upper"][0]
    assert post.survival(X[:1], line["median"][0]).mean[0, 0] == pytest.approx(0.5, abs=1e-8)


def test_one_interval_is_the_exponential():
    one, other = (
        exact.solve(pt.TreeModel(X, Y, leaf=leaf, **PRIOR))
        for leaf in (pt.PiecewiseExponential(1, 2.0), pt.ExponentialGamma())
    )
    assert one.log_evidence == pytest.approx(other.log_evidence) and one.predict(X) == pytest.approx(other.predict(X))
    assert one.survival(X[:3], [1.0, 2.0]).mean == pytest.approx(other.survival(X[:3], [1.0, 2.0]).mean)
    assert one.survival(X[:3], [1.0]).lower == pytest.approx(other.survival(X[:3], [1.0]).lower, abs=0.02)
    a, b = (p.calibration(X, Y, 2, times=[1.0]).table()[["expected", "expected_events"]] for p in (one, other))
    assert a.to_numpy() == pytest.approx(b.to_numpy())


def test_both_engines_and_files(tmp_path):
    model = pt.TreeModel(X, Y, leaf=pt.PiecewiseExponential(3), sample_weight=RNG.choice([1.0, 2.0], N), **PRIOR)
    truth = exact.solve(model)
    small = pt.TreeModel(X[:9], Y[:9], leaf=pt.PiecewiseExponential(2), tree_prior=pt.ChipmanPrior(max_depth=2))
    total = exact.solve(small)
    trees = total.best_trees(10_000).trees
    assert total.log_evidence == pytest.approx(special.logsumexp([small.log_posterior(tree) for tree in trees]))
    post = pt.sample(model, 1000, tune=100, chains=2, rng=1, kernel="local", progress=False)
    assert post.n_leaves_pmf()[:4] == pytest.approx(truth.n_leaves_pmf()[:4], abs=0.05)
    assert post.survival(X[:4], [0.5, 2.0]).mean == pytest.approx(truth.survival(X[:4], [0.5, 2.0]).mean, abs=0.03)
    post.save(tmp_path / "post.nc")
    again = pt.load(tmp_path / "post.nc")
    assert again.model.leaf.ends == model.leaf.ends and again.model.leaf.rate == model.leaf.rate
    assert np.array_equal(again.survival(X[:2], [1.0]).lower, post.survival(X[:2], [1.0]).lower)
    data = post.to_arviz(log_likelihood=True)
    assert data["observed_data"]["event"].shape == (N,)


def test_a_free_baseline_finds_what_one_shape_cannot():
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2, 300)
    y = censor(rng, draw_times(rng, x == 1))
    models = {
        leaf: exact.solve(pt.TreeModel(x[:, None], y, leaf=leaf)).log_evidence
        for leaf in (pt.PiecewiseExponential(), pt.ExponentialGamma(), pt.WeibullGamma(1.25), pt.WeibullGamma(0.8))
    }
    assert max(models, key=models.get) == next(iter(models))
    post = exact.solve(pt.TreeModel(x[:, None], y, leaf=pt.PiecewiseExponential([1.0])))
    table = post.calibration(x[:, None], y, 2, times=[1.0]).table()
    truth = np.exp([-0.2, -1.2])
    assert np.sort(table["expected"]) == pytest.approx(np.sort(truth), abs=0.08)


def test_default_ends_are_quantiles_of_events_by_weight():
    y = np.array([[1.0, 1], [2.0, 1], [3.0, 1], [4.0, 1], [9.0, 0]])
    x = np.arange(5.0)[:, None]
    assert pt.TreeModel(x, y, leaf=pt.PiecewiseExponential(4)).leaf.ends == (1.0, 2.0, 3.0)
    assert pt.TreeModel(x, y, leaf=pt.PiecewiseExponential(2)).leaf.ends == (2.0,)
    doubled = pt.TreeModel(x, y, leaf=pt.PiecewiseExponential(2), sample_weight=[1, 1, 1, 5, 1]).leaf
    assert doubled.ends == () and doubled.n_intervals == 1
    repeated = np.repeat(y, [3, 1, 2, 1, 4], axis=0)
    weighted = pt.TreeModel(x, y, leaf=pt.PiecewiseExponential(3), sample_weight=[3, 1, 2, 1, 4]).leaf
    assert weighted == pt.TreeModel(repeated[:, :1], repeated, leaf=pt.PiecewiseExponential(3)).leaf or (
        weighted.ends == pt.TreeModel(repeated[:, :1], repeated, leaf=pt.PiecewiseExponential(3)).leaf.ends
    )
    censored = pt.TreeModel(x, y * [1.0, 0.0], leaf=pt.PiecewiseExponential(4)).leaf
    assert censored.ends == ()


@pytest.mark.more(everyday=["500"])
@pytest.mark.parametrize("n", [500, 2000])
def test_simulated_data_have_the_survival_function_of_the_prior(n):
    model = pt.TreeModel(X[:8], Y[:8], leaf=LEAF, **PRIOR)
    rng = np.random.default_rng(1)
    times = np.array([pt.simulate(model, rng=rng)[1][0, 0] for _ in range(n)])
    for t in (0.5, 1.5, 4.0):
        edges = np.array([0.0, *ENDS, np.inf])
        spent = np.clip(t - edges[:-1], 0.0, np.diff(edges))
        assert (times > t).mean() == pytest.approx(np.prod((1.0 + spent / RATES) ** -SHAPE), abs=1.3 / np.sqrt(n))


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_refused(arguments, message):
    refuses(message, lambda: pt.PiecewiseExponential(**arguments))


def test_refused_with_data():
    with pytest.raises(ValueError, match="rate has 2 entries, and there are 3 intervals"):
        pt.TreeModel(X, Y, leaf=pt.PiecewiseExponential(ENDS, rate=[1.0, 2.0]))
    refuses("times > 0", lambda: pt.TreeModel(X, -Y, leaf=pt.PiecewiseExponential()))
    post = exact.solve(pt.TreeModel(X, Y, leaf=LEAF, **PRIOR))
    refuses("PiecewiseExponential has no exposure", lambda: post.survival(X, [1.0], exposure=2.0))


def score(s, n):
    return np.nan


def own_leaf(**more):
    import math

    def log_evidence(s, n):
        return math.lgamma(2.0 + s[0]) + 2.0 * math.log(3.0) - (2.0 + s[0]) * math.log(3.0 + s[1])

    def draw_survival(rng, sums, leaf, times):
        return np.exp(-(rng.gamma(2.0 + sums[:, 0]) / (3.0 + sums[:, 1]))[leaf, None] * times)

    return pt.CustomLeaf(
        log_evidence,
        y_columns=2,
        stats=lambda y: y[:, ::-1],
        survival=draw_survival,
        predict=lambda s: (3.0 + s[:, 1]) / (1.0 + s[:, 0]),
        **more,
    )


def test_survival_of_a_leaf_of_the_caller():
    own, named = (
        exact.solve(pt.TreeModel(X, Y, leaf=leaf, **PRIOR)) for leaf in (own_leaf(), pt.ExponentialGamma(2.0, 3.0))
    )
    assert own.log_evidence == pytest.approx(named.log_evidence)
    one, other = (post.survival(X[:5], [0.0, 0.5, 2.0]) for post in (own, named))
    for name in ("mean", "lower", "upper"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=0.03)
    one, other = (post.calibration(X, Y, 2, times=[1.0]).table() for post in (own, named))
    columns = ["expected_events", "expected", "expected_lower", "expected_upper"]
    assert one[columns].to_numpy() == pytest.approx(other[columns].to_numpy(), abs=0.03, rel=0.04)
    pd.testing.assert_frame_equal(one[["rows", "events", "observed"]], other[["rows", "events", "observed"]])
    refuses(r"find the time at which post\.survival", lambda: own.median_survival(X))


def draw_censored(rng, sums, leaf):
    time = rng.exponential(3.0, len(leaf))
    return np.column_stack([np.minimum(time, 1.0), time <= 1.0])


@pytest.mark.parametrize(
    ("draw", "drawn"),
    [
        (None, None),
        (draw_censored, {"y", "event"}),
        (lambda rng, sums, leaf: np.ones((len(leaf), 2)), {"uncensored_y", "event"}),
    ],
)
def test_times_of_a_leaf_of_the_caller_stand_beside_their_flags_in_arviz(draw, drawn):
    post = pt.posterior_from_trees(
        pt.TreeModel(X, Y, leaf=own_leaf(draw=draw)), [pt.Tree([-1], [0], [0], [0])], [[0] * 4]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = post.to_arviz(posterior_predictive=draw is not None)
    observed = data["observed_data"]
    assert set(observed.data_vars) == {"y", "event"}
    assert np.array_equal(observed["y"], Y[:, 0]) and np.array_equal(observed["event"], Y[:, 1] == 1.0)
    if drawn is not None:
        new = data["posterior_predictive"]
        assert set(new.data_vars) == drawn and all(each.dims == ("chain", "draw", "row") for each in new.values())
        assert "y" not in drawn or np.array_equal(new["event"], new["y"] < 1.0)


def test_survival_of_a_leaf_of_the_caller_refused():
    refuses("y_columns 1 or 2", lambda: pt.CustomLeaf(score, classes=True, survival=lambda rng, s, leaf, times: None))
    with pytest.raises(ValueError, match="survival is called as"):
        pt.CustomLeaf(score, stats=lambda y: y[:, None], survival=lambda times: None)
    bad = pt.CustomLeaf(
        lambda s, n: 0.0, stats=lambda y: y[:, None], survival=lambda rng, s, leaf, times: np.full((1, 1), 2.0)
    )
    post = pt.posterior_from_trees(pt.TreeModel(X, Y[:, 0], leaf=bad, **PRIOR), [ROOT])
    refuses("survival= of", lambda: post.survival(X[:2], [1.0]))
    refuses("the time is -1", lambda: post.calibration(X, -np.ones(N)))


def test_leaves_of_a_picture_have_kaplan_meier_curves():
    tree = pt.Tree([0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0])
    post = pt.posterior_from_trees(pt.TreeModel(X, Y, leaf=pt.PiecewiseExponential(3), **PRIOR), [tree])
    ax = pt.plots.plot_leaves(post, tree=tree)
    steps = [line for line in ax.lines if line.get_drawstyle() == "steps-post"]
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert len(steps) == len(dashed) == 2 and any("Kaplan-Meier up to t = " in text.get_text() for text in ax.texts)


def fit(leaf, y, X=PAIRS):
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
        assert np.all(low <= high) and np.array_equal(low, post.predict_quantiles(rows, (1.0 - coverage) / 2.0))


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
    post = fit(leaf, size * (np.log(UNIT) + 3.0 * PAIRS[:, 0]))
    ends = post.predict_interval([[1.0]])[0] / size
    assert -10.0 < ends[0] < ends[1] < 10.0
    check_draws(post)


@pytest.mark.more(everyday=["zero", "3 and 10,000", "0 and 1e6"])
@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_every_size(name):
    post = fit(pt.PoissonGamma(), COUNTS[name])
    ends = post.predict_interval([[0.0], [1.0]], 0.999)
    assert np.array_equal(ends, np.floor(ends)) and np.all(ends >= 0.0)
    check_draws(post)


def as_mixture(weights):
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
        truth = exact.solve(pt.TreeModel(PAIRS, ["p"] * len(PAIRS)))
        for post in (truth, truth.sample(20, rng=1)):
            assert post.credible_interval(PAIRS[:3]).tolist() == [[[1.0, 1.0]]] * 3
        assert "e+308" not in str(truth.sample(20, rng=1).shapes())

    def test_classes_with_almost_no_prior(self):
        model = pt.TreeModel(PAIRS, PAIRS[:, 0] > 0.0, leaf=pt.DirichletMultinomial(1e-100))
        stump = pt.Tree([0, -1, -1], [0.5, 0.0, 0.0], [1, 0, 0], [2, 0, 0])
        ends = pt.posterior_from_trees(model, [stump]).credible_interval(PAIRS)
        assert np.unique(ends).tolist() == [0.0, 1.0] and (ends[PAIRS[:, 0] > 0.0, 1] == 1.0).all()

    def test_beyond_all_floats(self):
        mix = as_mixture([0.5, 0.5])
        huge = Burr(np.full(2, 0.01), np.array([1.0, 2.0]), np.ones(2))
        assert mix.quantile(huge, 0.9999) == np.inf and 0.0 < mix.quantile(huge, 0.5) < 1e20
        assert mix.quantile(huge, 1e-9) == 0.0
        assert mix.quantile(by_scipy("gamma", [1e-100, 1e-90], np.zeros(2), np.ones(2)), 0.5) == 0.0

    def test_a_probability_that_is_no_number(self):
        assert np.isnan(as_mixture([1.0]).quantile(by_scipy("beta", 2.0, -1.0), 0.5))


def hazard(rate, rows, k):
    time, event = TIMES[rows].T
    e = E[rows]
    return float(np.sum(event * (np.log(rate * e * k) + (k - 1.0) * np.log(time)) - rate * e * time**k))


def model_of(name, **more):
    leaf, y, _ = LEAVES[name]
    return pt.TreeModel(EXPOSED, y, leaf=leaf, **PRIOR, **more)


@pytest.mark.more(everyday=["exponential"])
@pytest.mark.parametrize("name", LEAVES)
def test_the_score_is_the_integral_of_the_likelihood(name):
    model, likelihood = model_of(name), LEAVES[name][2]
    own = model.leaf.row_stats(model.target)
    prior = stats.gamma(2.5, scale=1.0 / 3.0)
    for rows in ([0], [1, 2, 3], list(range(N_EXPOSED))):

        def density(value, rows=rows):
            return prior.pdf(value) * math.exp(likelihood(value, rows) + 30.0)

        expected = math.log(integrate.quad(density, 0.0, 8.0, limit=300, epsrel=1e-10)[0]) - 30.0
        sums = own[rows].sum(axis=0)
        assert model.leaf.log_score(sums, model.target) == pytest.approx(expected, abs=1e-7)
        assert leaf_score(model.lowered.leaf, sums[None], 0) == pytest.approx(expected, abs=1e-7)


@pytest.mark.more(everyday=["exponential"])
@pytest.mark.parametrize("name", LEAVES)
def test_the_evidence_is_the_sum_over_all_trees(name):
    model = model_of(name, sample_weight=EXPOSED_RNG.choice([1.0, 2.0], N_EXPOSED))
    truth = exact.solve(model, progress=False)
    best = truth.best_trees(100_000)
    assert truth.log_evidence == pytest.approx(special.logsumexp([model.log_posterior(tree) for tree in best.trees]))


@pytest.mark.more(everyday=["exponential"])
@pytest.mark.parametrize("name", LEAVES)
def test_predictions_at_an_exposure_are_the_means_of_draws(name):
    model = model_of(name)
    truth = exact.solve(model, progress=False)
    at_one, at_exposure = truth.predict(EXPOSED), truth.predict(EXPOSED, exposure=E)
    power = {"weibull": -1.0 / 1.6, "exponential": -1.0}.get(name, 1.0)
    assert at_exposure == pytest.approx(at_one * E**power)
    assert truth.predict(EXPOSED[:1], exposure=2.0) == pytest.approx(at_one[:1] * 2.0**power)
    rng, leaf = np.random.default_rng(1), model.leaf
    zeros = np.zeros((1, leaf.n_stats(model.target)))
    rate = np.repeat(leaf.draw_parameters(rng, zeros, model.target)[0], N_EXPOSED)
    sample = [leaf.draw_given(rng, [rate], model.target, np.arange(N_EXPOSED)) for _ in range(20_000)]
    assert np.mean(sample, axis=0) == pytest.approx(leaf.expectation_given([rate])[:, 0] * E**power, rel=0.08)


def test_exposures_refused():
    with pytest.raises(ValueError, match=r"exposure has shape \(2,\); y has 9 rows"):
        pt.TreeModel(EXPOSED, TIMES, leaf=pt.ExponentialGamma(exposure=[1.0, 2.0]))
    refuses(r"exposure=0\.0 is out of range", lambda: pt.WeibullGamma(exposure=np.zeros(N_EXPOSED)))
    frame = pd.DataFrame(EXPOSED)
    with pytest.raises(ValueError, match="exposure has"):
        pt.TreeModel(
            frame, EXPOSED_COUNTS, leaf=pt.PoissonGamma(exposure=pd.Series(E, index=np.arange(N_EXPOSED)[::-1]))
        )
    truth = exact.solve(model_of("exponential"), progress=False)
    refuses("out of range", lambda: truth.predict(EXPOSED, exposure=-1.0))
    refuses(r"shape \(2,\); X has 9 rows", lambda: truth.predict(EXPOSED, exposure=[1.0, 2.0]))
    refuses("for exposure 1", lambda: truth.calibration(EXPOSED, TIMES))
    normal = exact.solve(pt.TreeModel(EXPOSED, EXPOSED_RNG.normal(size=N_EXPOSED), **PRIOR), progress=False)
    refuses("NormalInverseGamma has no exposure", lambda: normal.predict(EXPOSED, exposure=2.0))
