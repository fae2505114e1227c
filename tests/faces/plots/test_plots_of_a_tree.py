"""Plots of one tree and of shapes: all of it is drawn, and no text overlaps another."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from matplotlib.colors import to_rgba

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots import plot_leaves, plot_tree
from pactree_mcmc.faces.plots.style import COLORS
from pactree_mcmc.table.columns import Columns
from tests.faces.plots.posteriors import some, stump, twice
from tests.problems.refusals import refuses

LONG = (
    "radius",
    "worst of the concave points",
    "standard error of the fractal dimension of the nucleus, the worst of three",
    "A_VERY_LONG_SNAKE_CASE_NAME_WITHOUT_ANY_SPACES_IN_IT",
    "price ($) per $",
    "marital status",
)
STATUS = np.array(["divorced", "married, living apart", "never married", "unknown", "widowed"])
TEN = np.array(["class one", *(f"class number {word}" for word in ("two", "three", "4", "5", "6", "7", "8", "9", "X"))])
RNG = np.random.default_rng(5)
MODELS = {
    "two classes": lambda: pt.TreeModel(X, np.where(X[:, 0] > 2, "yes", "no")),
    "three classes": lambda: pt.TreeModel(X, X[:, 1].astype(int)),
    "numbers": lambda: pt.TreeModel(X, X[:, 0] + 0.1 * RNG.normal(size=80)),
    "nominal": lambda: pt.TreeModel(X, X[:, 1] > 0, nominal=[1]),
    "regression": lambda: pt.TreeModel(X, RNG.normal(size=80), leaf=pt.NormalLinear([0])),
}


def random_tree(n_leaves, n_values, seed=0, names=LONG, classes=None, skew=False):
    """A tree of given size; its last feature is nominal."""
    rng = np.random.default_rng(seed)
    nodes = []

    def grow(n):
        here = len(nodes)
        nodes.append([-1, 0.0, 0, 0, -1])
        if n > 1:
            k = int(rng.integers(len(names)))
            nominal = k == len(names) - 1
            first = 1 if skew else int(rng.integers(1, n))
            nodes[here][:3] = [k, 0.0 if nominal else rng.normal() * 10.0 ** rng.integers(-5, 5), len(nodes)]
            nodes[here][4] = int(rng.integers(1, 31)) if nominal else -1
            grow(first)
            nodes[here][3] = len(nodes)
            grow(n - first)

    grow(n_leaves)
    m = len(nodes)
    value = rng.dirichlet(np.full(n_values, 0.5), m) if n_values > 1 else 100.0 * rng.normal(size=(m, 1))
    columns = Columns(tuple(names), True, (None,) * (len(names) - 1) + (STATUS,))
    feature, threshold, left, right, categories = zip(*nodes, strict=True)
    return pt.Tree(feature, threshold, left, right, categories, value=value, columns=columns, classes=classes)


def words(ax):
    return [text.get_text().strip() for text in ax.texts]


def check_legible(ax, smallest=5.0):
    """No text on another, none outside the figure, none too small."""
    ax.get_figure().draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    left, right = np.array([b.x0 for b in boxes]), np.array([b.x1 for b in boxes])
    low, high = np.array([b.y0 for b in boxes]), np.array([b.y1 for b in boxes])
    overlap_x = np.minimum.outer(right, right) - np.maximum.outer(left, left)
    overlap_y = np.minimum.outer(high, high) - np.maximum.outer(low, low)
    clash = np.triu((overlap_x > 1.0) & (overlap_y > 1.0), 1)
    assert not clash.any(), [(words(ax)[i], words(ax)[j]) for i, j in np.argwhere(clash)]
    page = ax.get_figure().bbox
    assert left.min() >= 0 and low.min() >= 0 and right.max() <= page.x1
    assert high.max() <= page.y1 and min(text.get_fontsize() for text in ax.texts) >= smallest


@pytest.mark.more(everyday=["1-1"])
@pytest.mark.parametrize(("n_values", "n_leaves"), list(product((1, 2, 10), (1, 5, 200))))
def test_trees_of_every_size_are_legible(n_leaves, n_values):
    classes = None if n_values == 1 else TEN[:n_values]
    tree = random_tree(n_leaves, n_values, seed=n_leaves, classes=classes)
    for one in (tree, replace(tree, rows=np.full(tree.n_nodes, 123456))):
        ax = plot_tree(one)
        check_legible(ax)
        drawn_words = [" ".join(text.split()) for text in words(ax)]
        assert drawn_words.count("yes") == drawn_words.count("no") == n_leaves - 1
    tree = random_tree(6, 1, names=("age", "income", "status"))
    drawn_words = [" ".join(text.split()) for text in words(plot_tree(tree))]
    for node in range(tree.n_nodes):
        split = tree.split(node).replace("<=", "≤") if tree.feature[node] >= 0 else f"{tree.value[node, 0]:.4g}"
        assert split in drawn_words


def test_a_posterior_is_drawn_by_its_most_probable_tree():
    post = some()
    axes = plot_tree(post)
    check_legible(axes)
    tree = post.map_tree()
    assert [t.get_text() for t in axes.texts] == [t.get_text() for t in plot_tree(tree).texts]
    lines = [text.get_text().split("\n")[-1] for text in axes.texts]
    assert sorted(line for line in lines if line.endswith(" rows")) == sorted(f"{n:.0f} rows" for n in tree.rows)
    best = np.argmax(post.draws.log_prior_of_tree + post.draws.log_score_of_tree)
    part = f"{post.draws.weight_of_tree[best]:.2g} of the draws"
    assert axes.get_title() == f"most probable of {post.draws.n_distinct_trees} trees drawn, {part}"
    x = np.arange(12.0)
    truth = exact.solve(pt.TreeModel(x[:, None], x > 5))
    probability = np.exp(truth.model.log_posterior(truth.map_tree()) - truth.log_evidence)
    assert plot_tree(truth).get_title() == f"most probable tree, probability {probability:.2g}"
    refuses(r"tree is 'tree', a str; give a Tree, or a posterior", lambda: plot_tree("tree"), TypeError)


@pytest.mark.parametrize(("n_values", "max_depth"), [(1, 0), (10, 3)])
def test_truncated_subtrees_show_their_leaves(max_depth, n_values):
    tree = random_tree(60, n_values, seed=3, classes=TEN if n_values > 1 else None)
    ax = plot_tree(tree, max_depth=max_depth)
    check_legible(ax)
    counts = [int(text.split()[1]) for text in words(ax) if text.startswith("...")]
    depth = tree.node_depth
    assert len(counts) == np.sum((tree.feature >= 0) & (depth == max_depth))
    assert sum(counts) + np.sum((tree.feature < 0) & (depth <= max_depth)) == 60
    refuses(r"max_depth=.* is out of range; give an integer >= 0", lambda: plot_tree(tree, max_depth=-1))


class TestLeaves:
    def test_bars_are_the_rows_of_each_class(self):
        post = some()
        tree = twice(2.5, 1.5)
        ax = plot_leaves(post, tree=tree)
        X, y = post.model.columns, post.model.target.values
        assert X.names == ("f0", "f1")
        leaf = tree.apply(post.model.row_numbers(np.arange(60)))
        counts = np.array([[np.sum((leaf == node) & (y == k)) for k in (0, 1)] for node in (2, 3, 4)])
        for k in (0, 1):
            bars = [
                p for p in ax.patches if p.get_facecolor() == to_rgba(COLORS[k]) and p.get_x() > 0.0
            ]  # the last one is in the legend
            heights = np.array([p.get_height() for p in bars[:3]])
            np.testing.assert_allclose(heights / 1.1 * counts.max(), counts[:, k], atol=1e-9)

    def test_histograms_hold_all_rows(self):
        post = some(True)
        ax = plot_leaves(post, tree=stump(0, 2.5), n_bins=7)
        y = post.model.target.values
        leaf = stump(0, 2.5).apply(post.model.row_numbers(np.arange(60)))
        bars = [p.get_width() for p in ax.patches if p.get_facecolor() == to_rgba(COLORS[0])]
        expected = np.array([np.histogram(y[leaf == node], 7, (y.min(), y.max()))[0] for node in (1, 2)])
        np.testing.assert_allclose(np.reshape(bars, (2, 7)) / max(bars), expected / expected.max(), atol=1e-9)
        assert any(text.get_text() == f"longest bar: {expected.max()} rows" for text in ax.texts)


X = np.column_stack([RNG.integers(0, 6, 80), RNG.integers(0, 3, 80)]).astype(float)


def split_twice(k, threshold, other):
    return pt.Tree([k, other, -1, -1, -1], [threshold, 0.5, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])


@pytest.mark.parametrize("name", MODELS)
def test_every_node_has_a_box_and_every_mean_a_strip(name):
    model = MODELS[name]()
    trees = [split_twice(0, cut, 0) for cut in (2.5, 3.5)]
    if name == "nominal":
        trees = [pt.Tree([1, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0], [1, -1, -1])]
    shape = pt.posterior_from_trees(model, trees, [[0] * 5 + [len(trees) - 1] * 5]).shapes().shapes[0]
    ax = pt.plots.plot_shape(shape)
    texts = [text.get_text() for text in ax.texts]
    n_leaves = len(shape.splits) + 1
    assert sum("rows" in text for text in texts) == n_leaves
    assert sum("≤" in text or " in {" in text for text in texts) == len(shape.splits)
    assert len(ax.patches) == len(shape.splits) + n_leaves
    names = {"three classes": ["0 ", "1 ", "2 "], "regression": []}.get(name, [""])
    strips = [text for text in texts if text.endswith("]") and "≤" not in text]
    assert len(strips) == n_leaves * len(names)
    assert sum(text.startswith("y = ") for text in texts) == n_leaves * (name == "regression")
    assert all(text.startswith(one) for text, one in zip(strips, names * n_leaves, strict=True))
    # a bar of the interval lies around the mark of the mean
    bars, marks = ([line for line in ax.lines if test(line)] for test in (lambda line: line.get_zorder() == 2, is_mark))
    for bar, mark in zip(bars, marks, strict=True):
        assert bar.get_xdata()[0] <= mark.get_xdata()[0] <= bar.get_xdata()[1]
    assert len(bars) == len(strips)


def is_mark(line):
    return line.get_marker() == "|"


def test_refused():
    refuses("shape", lambda: pt.plots.plot_shape("tree"), TypeError)
