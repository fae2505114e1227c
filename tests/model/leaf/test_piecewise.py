"""Piecewise exponential times: evidence by integration, moments, quantiles, draws, intervals from data, bad input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, special, stats

import exact
import pactree_mcmc as pt

ENDS, SHAPE, RATES = np.array([0.7, 2.0]), 2.5, np.array([1.0, 2.0, 3.0])
LEAF = pt.PiecewiseExponential(ENDS, SHAPE, RATES)
N = 60
RNG = np.random.default_rng(8)
X = np.column_stack([RNG.integers(0, 4, N), RNG.integers(0, 3, N)]).astype(float)
PRIOR = {"tree_prior": pt.ChipmanPrior(0.9, 1.0, max_depth=2)}
ROOT = pt.Tree([-1], [0], [0], [0])


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
    assert model.log_score(ROOT) == pytest.approx(np.log(total), abs=1e-8)
    assert density(1.0, 1.0, 1.0) > 0.0


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
    assert one.log_evidence == pytest.approx(other.log_evidence)
    assert one.predict(X) == pytest.approx(other.predict(X))
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ends": 0}, "ends"),
        ({"ends": [2.0, 1.0]}, "increasing times"),
        ({"ends": [0.0, 1.0]}, "increasing times"),
        ({"ends": [np.nan]}, "increasing times"),
        ({"shape": 1.0}, "shape > 1"),
        ({"rate": -1.0}, "rate"),
    ],
)
def test_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        pt.PiecewiseExponential(**arguments)


def test_refused_with_data():
    with pytest.raises(ValueError, match="rate has 2 entries, and there are 3 intervals"):
        pt.TreeModel(X, Y, leaf=pt.PiecewiseExponential(ENDS, rate=[1.0, 2.0]))
    with pytest.raises(ValueError, match="times > 0"):
        pt.TreeModel(X, -Y, leaf=pt.PiecewiseExponential())
    post = exact.solve(pt.TreeModel(X, Y, leaf=LEAF, **PRIOR))
    with pytest.raises(ValueError, match="PiecewiseExponential has no exposure"):
        post.survival(X, [1.0], exposure=2.0)


def score(s, n):
    return np.nan


def own_leaf(**more):
    """The exponential leaf as a leaf of the caller."""
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
    with pytest.raises(ValueError, match=r"find the time at which post\.survival"):
        own.median_survival(X)


def draw_censored(rng, sums, leaf):
    """New times, censored at 1."""
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
    with pytest.raises(ValueError, match="y_columns 1 or 2"):
        pt.CustomLeaf(score, classes=True, survival=lambda rng, s, leaf, times: None)
    with pytest.raises(ValueError, match="survival is called as"):
        pt.CustomLeaf(score, stats=lambda y: y[:, None], survival=lambda times: None)
    bad = pt.CustomLeaf(
        lambda s, n: 0.0, stats=lambda y: y[:, None], survival=lambda rng, s, leaf, times: np.full((1, 1), 2.0)
    )
    post = pt.posterior_from_trees(pt.TreeModel(X, Y[:, 0], leaf=bad, **PRIOR), [ROOT])
    with pytest.raises(ValueError, match="survival= of"):
        post.survival(X[:2], [1.0])
    with pytest.raises(ValueError, match="the time is -1"):
        post.calibration(X, -np.ones(N))


def test_leaves_of_a_picture_have_kaplan_meier_curves():
    tree = pt.Tree([0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0])
    post = pt.posterior_from_trees(pt.TreeModel(X, Y, leaf=pt.PiecewiseExponential(3), **PRIOR), [tree])
    ax = pt.plots.plot_leaves(post, tree=tree)
    steps = [line for line in ax.lines if line.get_drawstyle() == "steps-post"]
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert len(steps) == len(dashed) == 2
    assert any("Kaplan-Meier up to t = " in text.get_text() for text in ax.texts)
