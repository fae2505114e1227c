"""Pictures of leaves with regressions, of missing values, of censored times, and of the largest and smallest floats."""

import warnings

import numpy as np
import pytest

import pactree_mcmc as pt

plots = pt.plots
N = 60


def stump_posterior(model, threshold=0.5, feature=0, default_left=False):
    tree = pt.Tree([feature, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0], default_left=[default_left, 0, 0])
    return pt.posterior_from_trees(model, [tree])


def linear_posterior():
    X = np.random.default_rng(0).random((N, 2))
    return stump_posterior(pt.TreeModel(X, X[:, 1] + (X[:, 0] > 0.5), leaf=pt.NormalLinear([1])))


def texts(ax):
    return " ".join(text.get_text().replace("\n", " ") for text in ax.texts)


def drawn(ax):
    """Draw the figure, without warnings but those of matplotlib's layout."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        ax.get_figure().canvas.draw()
    return ax


def test_pictures_of_a_regression_show_it():
    post = linear_posterior()
    formula = post.map_tree().words[1]
    for ax in (plots.plot_tree(post), plots.plot_leaves(post), plots.plot_consensus(post)):
        assert formula in texts(drawn(ax))


def test_partial_dependence_of_a_regression_is_a_line():
    post = linear_posterior()
    ax = drawn(plots.plot_partial_dependence(post, 1))
    steps = ax.patches[-1].get_data()
    assert len(steps.values) > 100
    assert np.ptp(np.diff(steps.values)) < 1e-9
    ax = plots.plot_partial_dependence(post, 0, individual=2)
    assert len(np.unique(ax.patches[1].get_data().values.round(9))) == 2


def test_surface_and_partition_of_a_regression():
    post = linear_posterior()
    for ax in (plots.plot_surface(post), plots.plot_surface(post, spread=True), plots.plot_partition(post)):
        assert drawn(ax).collections
    mesh = plots.plot_partition(post).collections[0].get_array()
    assert len(np.unique(np.round(mesh, 6))) > 100


def missing_posterior(default_left):
    x = np.concatenate([np.full(20, np.nan), np.tile([1.0, 2.0], 20)])
    X = np.column_stack([x, np.random.default_rng(0).random(N)])
    model = pt.TreeModel(X, np.isnan(x), missing="branch")
    return stump_posterior(model, np.nan, default_left=default_left)


@pytest.mark.parametrize("default_left", [False, True])
def test_pictures_of_missing_values(default_left):
    post = missing_posterior(default_left)
    for ax in (
        plots.plot_partial_dependence(post, 0),
        plots.plot_partial_dependence(post, 1),
        plots.plot_surface(post),
        plots.plot_partition(post),
        plots.plot_tree(post),
        plots.plot_leaves(post),
        plots.plot_forest(post),
    ):
        drawn(ax)
        assert np.abs([ax.get_xlim(), ax.get_ylim()]).max() < 100.0
    assert "1.79" not in texts(plots.plot_tree(post))


LARGEST = float(np.finfo(np.float64).max)


@pytest.mark.parametrize(
    "values", [[-LARGEST, 0.0, LARGEST], [1e308, LARGEST], [1e-310, 3e-310], [5e-324, 1e-323], [1e300, 2e300]]
)
def test_axes_of_the_largest_and_smallest_floats(values):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice(values, N), rng.random(N)])
    post = stump_posterior(pt.TreeModel(X, X[:, 0] > values[0]), values[0])
    for ax in (
        plots.plot_partial_dependence(post, 0),
        plots.plot_surface(post, points=True),
        plots.plot_partition(post),
        plots.plot_leaves(post),
    ):
        drawn(ax)
    ax = plots.plot_partial_dependence(post, 0)
    assert ax.get_xlabel().startswith("x0 / ")
    steps = ax.patches[-1].get_data().values
    assert len(np.unique(steps.round(9))) == 2
    left, right = ax.get_xlim()
    assert 0.1 < right - left < 100.0


def test_histograms_of_times_show_the_censored_ones_apart():
    X = np.random.default_rng(0).random((N, 1))
    event = np.arange(N) % 4 == 0
    y = np.column_stack([1.0 + np.arange(N), event])
    post = stump_posterior(pt.TreeModel(X, y, leaf=pt.ExponentialGamma()))
    ax = drawn(plots.plot_leaves(post))
    assert "light: censored" in texts(ax)
    light = [bar for bar in ax.patches if bar.get_alpha() == 0.35 and bar.get_width() > 0.0]
    full = [
        bar for bar in ax.patches if bar.get_linewidth() == 0.0 and bar.get_alpha() is None and bar.get_width() > 0.0
    ]
    total = sum(bar.get_width() for bar in light) / sum(bar.get_width() for bar in [*light, *full])
    assert total == pytest.approx(np.mean(~event))
    with pytest.raises(ValueError, match="output"):
        plots.plot_leaves(post, output=1)


def test_pictures_of_several_outputs_show_all():
    X = np.random.default_rng(0).random((N, 1))
    y = np.column_stack([X[:, 0] > 0.5, 100.0 * (X[:, 0] > 0.5)]) + 0.01 * np.sin(np.arange(2 * N)).reshape(N, 2)
    post = stump_posterior(pt.TreeModel(X, y, leaf=pt.MultivariateNormal(2)))
    for ax in (plots.plot_tree(post), plots.plot_leaves(post, output=1), plots.plot_consensus(post)):
        assert "y0 = " in texts(drawn(ax))
        assert "y1 = " in texts(ax)
