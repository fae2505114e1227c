"""Survival functions and new exposures: closed forms, coverage, Kaplan-Meier curves, bad input."""

import inspect

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots.tree import _with_training_rows
from pactree_mcmc.posterior.rows.calibration import kaplan_meier
from tests.problems.refusals import refuses

N = 60
RNG = np.random.default_rng(3)
X = np.column_stack([RNG.integers(0, 5, N), RNG.integers(0, 4, N)]).astype(float)
PRIOR = {"tree_prior": pt.ChipmanPrior(0.9, 1.0, max_depth=2)}
LEAVES = {"exponential": pt.ExponentialGamma(3.0, 2.0), "Weibull": pt.WeibullGamma(2.0, shape=3.0, rate=2.0)}
TIMES = np.array([0.0, 0.3, 0.7, 1.5])
ROOT = pt.Tree([-1], [0], [0], [0])
NEXT = np.random.default_rng(4)
N_EXPOSED = 120
EXPOSED = NEXT.integers(0, 6, (N_EXPOSED, 1)).astype(float)
EXPOSURE = NEXT.uniform(0.2, 8.0, N_EXPOSED)
COUNTS = NEXT.poisson(EXPOSURE * np.where(EXPOSED[:, 0] > 2, 1.5, 0.3))
CENSORED = np.column_stack(
    [NEXT.weibull(1.5, N_EXPOSED) * np.where(EXPOSED[:, 0] > 2, 1.0, 4.0), NEXT.random(N_EXPOSED) < 0.7]
)
NEW, AT = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0.5, 3.0, 0.1, 40.0])
EXPOSED_LEAVES = {
    "counts": (COUNTS, lambda: pt.PoissonGamma(exposure=EXPOSURE)),
    "counts without exposures": (COUNTS, pt.PoissonGamma),
    "times": (CENSORED, lambda: pt.ExponentialGamma(exposure=EXPOSURE)),
    "Weibull times": (CENSORED, lambda: pt.WeibullGamma(1.5, exposure=EXPOSURE)),
}
NUMBERS = EXPOSED[:, 0] + NEXT.normal(size=N_EXPOSED)


def censor(rng, time):
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
    assert curve.time == pytest.approx(expected.quantiles) and curve.survival == pytest.approx(expected.probabilities)
    is_inner = ~np.isnan(curve.lower)
    assert is_inner.sum() > 10 and curve.lower[is_inner] == pytest.approx(ends.low.probabilities[is_inner])
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
    assert counts[0] == pytest.approx(counts[1], rel=0.08) and 0.75 < np.mean(is_covered) < 0.95


def test_refused():
    post = exact.solve(pt.TreeModel(X, Y, leaf=pt.ExponentialGamma(), **PRIOR))
    other = exact.solve(pt.TreeModel(X, Y[:, 0], **PRIOR))
    for ask in (lambda p: p.survival(X, TIMES), lambda p: p.median_survival(X), lambda p: p.calibration(X, Y)):
        with pytest.raises(ValueError, match=r"NormalInverseGamma is not a model of times.*ExponentialGamma"):
            ask(other)
    for times in (-1.0, [np.nan], [], [[1.0]], "soon"):
        with pytest.raises(ValueError, match="times"):
            post.survival(X, times)
    refuses("coverage", lambda: post.survival(X, TIMES, 1.0))
    refuses("coverage", lambda: post.calibration(X, Y, coverage=2.0))
    refuses("groups", lambda: post.calibration(X, Y, 0))
    refuses("groups", lambda: post.calibration(X, Y, "a lot"), TypeError)
    with pytest.raises(ValueError, match="splits on feature 5"):
        post.calibration(X, Y, pt.Tree([5, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]))
    refuses("needs times > 0", lambda: post.calibration(X, Y * [0.0, 1.0]))
    refuses("60 rows and y has 3", lambda: post.calibration(X, Y[:3]))
    refuses("no rows", lambda: post.calibration(X[:0], Y[:0]))


def test_new_y_is_matched_by_name():
    named = pd.DataFrame({"dead": Y[:, 1] == 1.0, "days": Y[:, 0]})
    post = exact.solve(pt.TreeModel(X, named, leaf=pt.ExponentialGamma(), **PRIOR))
    unclear = pd.DataFrame({"dead": [1.0], "days": [1.0]})
    assert post.calibration(X[:1], unclear, 1).time[0] == 1.0
    refuses("y lacks", lambda: post.calibration(X, named.rename(columns={"days": "weeks"}), 4))


@pytest.fixture(scope="module", params=EXPOSED_LEAVES)
def truth(request):
    y, leaf = EXPOSED_LEAVES[request.param]
    model = pt.TreeModel(EXPOSED, y, leaf=leaf(), tree_prior=pt.ChipmanPrior(0.5, 1.0, max_depth=2))
    return exact.solve(model, progress=False)


def factor(leaf, exposure):
    return exposure if isinstance(leaf, pt.PoissonGamma) else exposure ** (-1.0 / leaf.k)


def test_intervals_of_the_expectation_scale_with_it(truth):
    at = factor(truth.model.leaf, AT)
    assert truth.predict(NEW, exposure=AT) == pytest.approx(truth.predict(NEW) * at)
    assert truth.credible_interval(NEW, exposure=AT) == pytest.approx(truth.credible_interval(NEW) * at[:, None])
    drawn = truth.draw_expectations(NEW, 30, rng=1)
    assert truth.draw_expectations(NEW, 30, rng=1, exposure=AT) == pytest.approx(drawn * at)
    assert truth.predict(NEW, exposure=2.0) == pytest.approx(truth.predict(NEW, exposure=np.full(4, 2.0)))


def test_quantiles_of_a_new_y_are_those_of_its_distribution(truth):
    leaf, q = truth.model.leaf, np.array([0.05, 0.5, 0.95])
    draws = truth.sample(400, rng=2)
    found, interval = draws.predict_quantiles(NEW, q, exposure=AT), draws.predict_interval(NEW, exposure=AT)
    assert interval == pytest.approx(found[:, [0, 2]], rel=1e-6)
    reached = [
        draws.draws.distinct_tree(t).routes().leaves(NEW) + draws.draws.coded_trees.offset[t]
        for t in draws.draws.tree_of_draw[0]
    ]
    for i, e in enumerate(AT):
        s = draws.draws.place_stats[[nodes[i] for nodes in reached]]
        if isinstance(leaf, pt.PoissonGamma):
            rate = leaf.rate + s[:, 0]
            below = lambda y: stats.nbinom.cdf(y, leaf.shape + s[:, 1], rate / (rate + e)).mean()  # noqa: B023, E731
            for y, p in zip(found[i], q, strict=True):
                assert below(y) >= p > below(y - 1.0)
        else:
            shape, rate = leaf.shape + s[:, 1], leaf.rate + s[:, 2]
            for y, p in zip(found[i], q, strict=True):
                assert 1.0 - ((1.0 + e * y**leaf.k / rate) ** -shape).mean() == pytest.approx(p, abs=1e-7)


def test_standard_deviations_have_the_exposure(truth):
    leaf, at = truth.model.leaf, factor(truth.model.leaf, AT)
    assert truth.predict_std_over_trees(NEW, exposure=AT) == pytest.approx(truth.predict_std_over_trees(NEW) * at)
    std = truth.predict_std_new_y(NEW, exposure=AT)
    if not isinstance(leaf, pt.PoissonGamma):
        assert std == pytest.approx(truth.predict_std_new_y(NEW) * at)
        return
    draws = truth.sample(400, rng=2)
    std = draws.predict_std_new_y(NEW, exposure=AT)
    trees = [draws.draws.distinct_tree(t).routes().leaves(NEW) for t in draws.draws.tree_of_draw[0]]
    reached = np.array(trees) + draws.draws.coded_trees.offset[draws.draws.tree_of_draw[0]][:, None]
    for i, e in enumerate(AT):
        s = draws.draws.place_stats[reached[:, i]]
        shape, rate = leaf.shape + s[:, 1], leaf.rate + s[:, 0]
        mean, variance = stats.nbinom.stats(shape, rate / (rate + e))
        assert std[i] == pytest.approx(np.sqrt((variance + mean**2).mean() - mean.mean() ** 2), rel=1e-6)


@pytest.mark.more
def test_draws_of_a_new_y_have_the_exposure(truth):
    drawn = truth.sample_predictive(NEW, 4000, rng=3, exposure=AT)
    drawn = drawn.reshape(4000, 4, -1)[..., 0]
    low, high = truth.predict_interval(NEW, 0.8, exposure=AT).T
    assert ((drawn < low).mean(axis=0) < 0.13).all() and ((drawn > high).mean(axis=0) < 0.13).all()
    assert np.median(drawn, axis=0) == pytest.approx(truth.predict_quantiles(NEW, 0.5, exposure=AT), rel=0.15, abs=1.0)


METHODS = ["predict", "predict_quantiles", "predict_interval", "credible_interval", "draw_expectations"]
METHODS += ["sample_predictive", "survival", "median_survival", "predict_std_new_y", "predict_std_over_trees"]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_takes_and_checks_exposures(truth, name):
    if "survival" in name and isinstance(truth.model.leaf, pt.PoissonGamma):
        pytest.skip("counts")
    method, first = getattr(truth, name), {"predict_quantiles": (0.5,), "survival": ([1.0],)}.get(name, ())
    assert inspect.signature(method).parameters["exposure"].kind is inspect.Parameter.KEYWORD_ONLY
    for wrong in (-1.0, [1.0, 2.0], np.nan):
        with pytest.raises(ValueError, match="exposure"):
            method(NEW, *first, exposure=wrong)
    normal = exact.solve(pt.TreeModel(EXPOSED, NUMBERS, tree_prior=pt.ChipmanPrior(max_depth=1)), progress=False)
    if "survival" not in name:
        refuses("has no exposure", lambda: getattr(normal, name)(NEW, *first, exposure=2.0))


def test_histograms_of_leaves_are_at_the_exposure_of_their_values():
    plt = pytest.importorskip("matplotlib.pyplot")
    y, leaf = EXPOSED_LEAVES["counts"]
    model = pt.TreeModel(EXPOSED, y, leaf=leaf())
    tree = pt.Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0])
    post = pt.posterior_from_trees(model, [tree])
    ax = pt.plots.plot_leaves(post)
    texts = [text.get_text() for text in ax.texts]
    assert any("at exposure 1" in text for text in texts)
    largest = max(float(text) for text in texts if text.replace(".", "").isdigit() and "." in text)
    assert largest == pytest.approx((y / EXPOSURE).max(), rel=0.01)
    # of a tree without values they are set to the counts per exposure
    above = EXPOSED[:, 0] > 2.5
    drawn = _with_training_rows(tree, model, tree.routes().leaves(EXPOSED))
    assert drawn.value[2, 0] == pytest.approx(COUNTS[above].sum() / EXPOSURE[above].sum())
    plt.close("all")


def test_survival_functions_have_the_exposure(truth):
    if isinstance(truth.model.leaf, pt.PoissonGamma):
        pytest.skip("counts")
    k = truth.model.leaf.k
    curves = truth.survival(NEW, [0.5, 2.0], exposure=AT)
    for i, e in enumerate(AT):
        one = truth.survival(NEW[[i]], np.array([0.5, 2.0]) * e ** (1.0 / k))
        for name in ("mean", "lower", "upper"):
            assert getattr(curves, name)[i] == pytest.approx(getattr(one, name)[0])
    median = truth.median_survival(NEW, exposure=AT)
    assert median["median"].to_numpy() == pytest.approx(truth.predict_quantiles(NEW, 0.5, exposure=AT))
    assert median.to_numpy() == pytest.approx(truth.median_survival(NEW).to_numpy() * (AT ** (-1.0 / k))[:, None])


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_exposures_beyond_all_floats():
    stump = [pt.Tree([-1], [0], [0], [0])]
    times = pt.posterior_from_trees(pt.TreeModel(EXPOSED, CENSORED, leaf=pt.WeibullGamma(0.3)), stump)
    for name in ("predict", "predict_interval", "credible_interval", "median_survival"):
        for exposure in (1e-300, [1.0, 1.0, 1e300, 1.0]):
            with pytest.raises(ValueError, match=r"exposure=1e[+-]300 multiplies the times"):
                getattr(times, name)(NEW, exposure=exposure)
    assert times.survival(NEW, [1.0], exposure=1e-300).mean == pytest.approx(1.0)
    counts = pt.posterior_from_trees(pt.TreeModel(EXPOSED, COUNTS, leaf=pt.PoissonGamma(exposure=EXPOSURE)), stump)
    spread = counts.predict_std_new_y(NEW, exposure=1e300) / 1e300
    assert spread == pytest.approx(counts.predict_std_new_y(NEW, exposure=1e20) / 1e20)
