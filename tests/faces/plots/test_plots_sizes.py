"""Plots of many trees: posteriors of every size are drawn, inside their axes; what cannot be drawn is refused."""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgba

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots import (
    axes,
    plot_consensus,
    plot_cumulative_support,
    plot_forest,
    plot_leaves,
    plot_partial_dependence,
    plot_shap,
    plot_split_frequencies,
    plot_tree_space,
)
from tests.faces.plots.posteriors import LEAF, problem, some, stump, twice

LONG = "a $ name that goes on and on, beyond what anybody would call a column, \\frac{1}{2} and more of it " * 2

PLOTS = {
    "space": plot_tree_space,
    "frequencies": plot_split_frequencies,
    "cumulative": plot_cumulative_support,
    "forest": plot_forest,
    "consensus": plot_consensus,
    "leaves": plot_leaves,
    "shap": plot_shap,
    "dependence": lambda post, ax=None: plot_partial_dependence(post, 0, ax, individual=3),
}
SAMPLED_ONLY = {"frequencies", "cumulative"}


def sizes():
    """Posteriors of every size, by name."""
    return {
        "usual": lambda: some(),
        "regression": lambda: some(True),
        "stump only": lambda: pt.posterior_from_trees(problem(), [LEAF], [[0] * 8, [0] * 8]),
        "one draw": lambda: pt.posterior_from_trees(problem(), [twice(2.5, 1.5)], [[0]]),
        "three draws": lambda: pt.posterior_from_trees(problem(), [twice(2.5, 1.5), LEAF], [[0, 1, 1]]),
        "one feature": lambda: pt.posterior_from_trees(problem(p=1), [stump(0, 1.5), stump(0, 2.5)], [[0, 1, 0, 0, 1]]),
        "30 features": lambda: pt.posterior_from_trees(problem(p=30), [stump(k, 2.5) for k in range(30)]),
        "12 chains": lambda: some(chains=12),
        "long names": lambda: some(names=[LONG, "b " + LONG], classes=("$" + LONG, "z" + LONG)),
        "constant y": lambda: pt.posterior_from_trees(pt.TreeModel(np.arange(8.0)[:, None], np.ones(8)), [LEAF]),
        "no draws": lambda: pt.posterior_from_trees(problem(), [LEAF], np.zeros((2, 0), dtype=int)),
    }


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(("name", "size"), list(product(PLOTS, sizes())))
def test_every_size_is_drawn_on_the_axes_given(name, size):
    post = sizes()[size]()
    _, (ax, other) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    assert PLOTS[name](post, ax=ax) is ax
    assert plt.get_fignums() == [1]
    assert not other.has_data()
    if size == "no draws":
        assert [text.get_text() for text in ax.texts] == ["no draws"]
        return
    ax.get_figure().draw_without_rendering()
    assert ax.get_title() or (name == "leaves" and ax.texts)
    if ax.axison:
        assert ax.get_xlabel() and (ax.get_ylabel() or name == "shap")


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("name", list(PLOTS))
def test_everything_is_inside_a_figure_of_its_own(name):
    post = sizes()["long names"]()
    ax = PLOTS[name](post)
    figure = ax.get_figure()
    figure.draw_without_rendering()
    page = figure.bbox
    parts = [*ax.texts, ax.title, ax.xaxis.label, *([ax.get_legend()] if ax.get_legend() else [])]
    for part in parts:
        box = part.get_window_extent()
        if box.width and part.get_visible() and (ax.axison or part not in (ax.xaxis.label,)):
            assert box.x0 >= -1 and box.x1 <= page.x1 + 1 and box.y0 >= -1 and box.y1 <= page.y1 + 1, part


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("name", sorted(set(PLOTS) - SAMPLED_ONLY))
def test_exact_posteriors_are_drawn(name):
    X = np.array([[i % 4, i // 4] for i in range(16)], dtype=float)
    ax = PLOTS[name](exact.solve(pt.TreeModel(X, X[:, 0] > 1)))
    ax.get_figure().draw_without_rendering()


def test_what_cannot_be_drawn_is_refused():
    post = some()
    truth = exact.solve(pt.TreeModel([[0.0], [1.0]], [0, 1]))
    for plot in (plot_split_frequencies, plot_cumulative_support):
        with pytest.raises(TypeError, match="without draws"):
            plot(truth)
    for plot in (plot_tree_space, plot_forest, plot_leaves, plot_shap, lambda x: plot_partial_dependence(x, 0)):
        for wrong in (3, None, post.model):
            with pytest.raises(TypeError, match="posterior is"):
                plot(wrong)
    for wrong in ("half", [0.5], 1.0):
        with pytest.raises(ValueError, match="coverage"):
            plot_partial_dependence(post, 0, coverage=wrong)
    with pytest.raises(ValueError, match="distance"):
        plot_tree_space(post, distance="far")
    with pytest.raises(TypeError, match="truth"):
        plot_split_frequencies(post, truth=3)
    with pytest.raises(ValueError, match="min_probability"):
        plot_split_frequencies(post, min_probability=2.0)
    with pytest.raises(ValueError, match="n_splits"):
        plot_cumulative_support(post, n_splits=0)
    with pytest.raises(ValueError, match="alpha"):
        plot_forest(post, alpha=1.5)
    with pytest.raises(TypeError, match="tree is"):
        plot_consensus(3)
    with pytest.raises(ValueError, match="output"):
        plot_leaves(post, output=1)
    with pytest.raises(TypeError, match="tree is"):
        plot_leaves(post, tree="best")
    with pytest.raises(ValueError, match="max_features"):
        plot_shap(post, max_features=0)
    with pytest.raises(ValueError, match="individual"):
        plot_partial_dependence(post, 0, individual=-1)
    assert plt.get_fignums() == []


def test_colours_of_chains_are_told_apart():
    """Any two differ in what the cones for middle and short waves see."""
    lms = np.array([[0.3811, 0.5783, 0.0402], [0.1967, 0.7244, 0.0782], [0.0241, 0.1288, 0.8444]])
    colors = np.array([to_rgba(c)[:3] for c in axes.COLORS]) ** 2.2
    seen = colors @ lms.T
    # without the cones for long waves
    seen[:, 0] = 0.0
    distance = np.sqrt(((seen[:, None] - seen) ** 2).sum(axis=2)) + np.eye(len(seen))
    assert distance.min() > 0.05
