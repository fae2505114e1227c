"""Every method that answers for new rows takes their exposures."""

import inspect

import numpy as np
import pytest
from scipy import stats

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots.tree import _with_training_rows

RNG = np.random.default_rng(4)
N = 120
X = RNG.integers(0, 6, (N, 1)).astype(float)
EXPOSURE = RNG.uniform(0.2, 8.0, N)
COUNTS = RNG.poisson(EXPOSURE * np.where(X[:, 0] > 2, 1.5, 0.3))
TIMES = np.column_stack([RNG.weibull(1.5, N) * np.where(X[:, 0] > 2, 1.0, 4.0), RNG.random(N) < 0.7])
NEW, AT = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0.5, 3.0, 0.1, 40.0])
LEAVES = {
    "counts": (COUNTS, lambda: pt.PoissonGamma(exposure=EXPOSURE)),
    "counts without exposures": (COUNTS, pt.PoissonGamma),
    "times": (TIMES, lambda: pt.ExponentialGamma(exposure=EXPOSURE)),
    "Weibull times": (TIMES, lambda: pt.WeibullGamma(1.5, exposure=EXPOSURE)),
}


@pytest.fixture(scope="module", params=LEAVES)
def truth(request):
    y, leaf = LEAVES[request.param]
    model = pt.TreeModel(X, y, leaf=leaf(), tree_prior=pt.ChipmanPrior(0.5, 1.0, max_depth=2))
    return exact.solve(model, progress=False)


def factor(leaf, exposure):
    """Factor of the mean of y."""
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
    normal = exact.solve(pt.TreeModel(X, NUMBERS, tree_prior=pt.ChipmanPrior(max_depth=1)), progress=False)
    if "survival" not in name:
        with pytest.raises(ValueError, match="has no exposure"):
            getattr(normal, name)(NEW, *first, exposure=2.0)


NUMBERS = X[:, 0] + RNG.normal(size=N)


def test_histograms_of_leaves_are_at_the_exposure_of_their_values():
    plt = pytest.importorskip("matplotlib.pyplot")
    y, leaf = LEAVES["counts"]
    model = pt.TreeModel(X, y, leaf=leaf())
    tree = pt.Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0])
    post = pt.posterior_from_trees(model, [tree])
    ax = pt.plots.plot_leaves(post)
    texts = [text.get_text() for text in ax.texts]
    assert any("at exposure 1" in text for text in texts)
    largest = max(float(text) for text in texts if text.replace(".", "").isdigit() and "." in text)
    assert largest == pytest.approx((y / EXPOSURE).max(), rel=0.01)
    # of a tree without values they are set to the counts per exposure
    above = X[:, 0] > 2.5
    drawn = _with_training_rows(tree, model, tree.routes().leaves(X))
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
    times = pt.posterior_from_trees(pt.TreeModel(X, TIMES, leaf=pt.WeibullGamma(0.3)), stump)
    for name in ("predict", "predict_interval", "credible_interval", "median_survival"):
        for exposure in (1e-300, [1.0, 1.0, 1e300, 1.0]):
            with pytest.raises(ValueError, match=r"exposure=1e[+-]300 multiplies the times"):
                getattr(times, name)(NEW, exposure=exposure)
    assert times.survival(NEW, [1.0], exposure=1e-300).mean == pytest.approx(1.0)
    counts = pt.posterior_from_trees(pt.TreeModel(X, COUNTS, leaf=pt.PoissonGamma(exposure=EXPOSURE)), stump)
    spread = counts.predict_std_new_y(NEW, exposure=1e300) / 1e300
    assert spread == pytest.approx(counts.predict_std_new_y(NEW, exposure=1e20) / 1e20)
