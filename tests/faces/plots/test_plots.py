"""Pictures: what is drawn is what is asked, nothing overlaps, and every size of tree and posterior can be drawn."""

from dataclasses import replace
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgba

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots import plot_inclusion, plot_n_leaves, plot_posterior, plot_trace, plot_tree
from pactree_mcmc.faces.plots.axes import COLORS
from pactree_mcmc.posterior.ess import ess
from pactree_mcmc.table.columns import Columns

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


def balanced(n_leaves, low, high):
    """Thresholds that cut ``low..high`` into ``n_leaves`` equal parts, as nested tuples; None is a leaf."""
    if n_leaves == 1:
        return None
    first = n_leaves // 2
    middle = low + (high - low) * first / n_leaves
    return (middle, balanced(first, low, middle), balanced(n_leaves - first, middle, high))


def flattened(nested, nodes):
    here = len(nodes)
    nodes.append([-1, 0.0, 0, 0])
    if nested is not None:
        nodes[here][:3] = [0, nested[0], here + 1]
        flattened(nested[1], nodes)
        nodes[here][3] = len(nodes)
        flattened(nested[2], nodes)
    return nodes


def posterior(n_leaves, regression, chains=3, draws=20):
    """Draws of trees with ``n_leaves`` and fewer leaves."""
    x = np.arange(400.0)
    y = np.sin(x / 50.0) if regression else np.where(x % 100 < 50, "a rather long label", "b")
    names = ("first", "second $ a long name that does not end before sixty letters")
    table = np.column_stack([x, x % 7])
    prior = pt.ChipmanPrior(0.99, 0.1)
    frame = pytest.importorskip("pandas").DataFrame(table, columns=list(names))
    model = pt.TreeModel(frame, y, tree_prior=prior)
    sizes = sorted({n_leaves, max(1, n_leaves - 1), max(1, n_leaves // 2)})
    nodes = [flattened(balanced(n, -0.5, 399.5), []) for n in sizes]
    trees = [pt.Tree(*zip(*tree, strict=True)) for tree in nodes]
    moved = np.random.default_rng(1).integers(0, 9, (chains, draws, 2))
    drawn = np.random.default_rng(0).integers(0, len(trees), (chains, draws))
    post = pt.posterior_from_trees(model, trees, drawn)
    post.proposed, post.accepted, post.moves, post.seconds = moved, moved // 2, ("grow", "prune"), 1.0
    return post


class Exact(pt.Posterior):
    """A posterior that is not sampled."""

    def __init__(self, model, pmf):
        self.model, self.pmf = model, np.asarray(pmf)

    log_evidence = None

    def n_leaves_pmf(self):
        return self.pmf

    def feature_inclusion(self):
        return np.linspace(0.0, 1.0, self.model.n_features)

    def root_split_pmf(self):
        return {None: 1.0}

    def map_tree(self):
        return pt.Tree([-1], [0], [0], [0])

    def draw_trees(self, n, rng=None):
        return [self.map_tree()] * n

    def _values(self, X):
        return np.zeros((len(X), 1))

    def _none(self, *args):
        raise NotImplementedError

    _drawn_trees = _tree_of_place = _mixtures = _averages = _stats_by_place = _std_over_trees = _none
    depth_pmf = kl_to_prior = summary = to_arviz = _none


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
    assert left.min() >= 0
    assert low.min() >= 0
    assert right.max() <= page.x1
    assert high.max() <= page.y1
    assert min(text.get_fontsize() for text in ax.texts) >= smallest


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(("n_values", "n_leaves"), list(product((1, 2, 10), (1, 2, 5, 30, 200))))
def test_trees_of_every_size_are_legible(n_leaves, n_values):
    classes = None if n_values == 1 else TEN[:n_values]
    tree = random_tree(n_leaves, n_values, seed=n_leaves, classes=classes)
    for shown in (tree, replace(tree, rows=np.full(tree.n_nodes, 123456))):
        ax = plot_tree(shown)
        check_legible(ax)
        assert words(ax).count("yes") == words(ax).count("no") == n_leaves - 1


@pytest.mark.parametrize("skew", [False, True])
def test_figure_grows_with_leaves_and_depth(skew):
    sizes = [plot_tree(random_tree(n, 1, skew=skew)).get_figure().get_size_inches() for n in (5, 30)]
    assert (sizes[1] > sizes[0]).all()


def test_every_split_and_mean_is_drawn():
    tree = random_tree(6, 1, names=("age", "income", "status"))
    drawn = [" ".join(text.split()) for text in words(plot_tree(tree))]
    for node in range(tree.n_nodes):
        if tree.feature[node] >= 0:
            assert tree.split(node).replace("<=", "≤") in drawn
        else:
            assert f"{tree.value[node, 0]:.4g}" in drawn


@pytest.mark.parametrize("regression", [False, True])
def test_rows_are_drawn_in_every_node(regression):
    post = posterior(9, regression)
    tree = post.map_tree()
    axes = plot_tree(tree)
    check_legible(axes)
    told = [text.get_text().split("\n")[-1] for text in axes.texts]
    assert sorted(line for line in told if line.endswith(" rows")) == sorted(f"{n:.0f} rows" for n in tree.rows)


def test_a_posterior_is_drawn_by_its_most_probable_tree():
    post = posterior(5, False)
    axes = plot_tree(post)
    check_legible(axes)
    assert [t.get_text() for t in axes.texts] == [t.get_text() for t in plot_tree(post.map_tree()).texts]
    best = np.argmax(post.log_prior_of_tree + post.log_score_of_tree)
    assert (
        axes.get_title()
        == f"most probable of {post.n_distinct_trees} trees drawn, {post.weight_of_tree[best]:.2g} of the draws"
    )
    x = np.arange(12.0)
    truth = exact.solve(pt.TreeModel(x[:, None], x > 5))
    probability = np.exp(truth.model.log_posterior(truth.map_tree()) - truth.log_evidence)
    assert plot_tree(truth).get_title() == f"most probable tree, probability {probability:.2g}"
    assert plot_tree(Exact(post.model, [0.0, 1.0])).get_title() == "most probable tree"
    with pytest.raises(TypeError, match=r"tree is 'tree', a str; give a Tree, or a posterior"):
        plot_tree("tree")


def test_yes_is_left():
    tree = pt.Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0], value=[[0.0], [1.0], [2.0]])
    place = {text.get_text().strip(): text.get_position()[0] for text in plot_tree(tree).texts}
    assert place["1"] < place["x0 ≤ 2.5"] < place["2"]
    assert place["yes"] <= place["no"]


def test_a_long_name_keeps_its_ends_and_its_threshold():
    columns = Columns(("the first of " + "very " * 20 + "many words at the end",), True, (None,))
    tree = pt.Tree([0, -1, -1], [-1.23456e-07, 0, 0], [1, 0, 0], [2, 0, 0], columns=columns)
    text = words(plot_tree(tree))[0].replace("\n", " ")
    assert text.startswith("the first of")
    assert "…" in text
    assert text.endswith("the end ≤ -1.23456e-07")


def test_classes_are_drawn_as_bars_with_the_best_named():
    value = [[0.5, 0.3, 0.2], [0.1, 0.7, 0.2], [0.0, 0.25, 0.75]]
    tree = pt.Tree([0, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0], value=value, classes=np.array(["a", "b", "c"]))
    ax = plot_tree(tree)
    assert {"b\n0.70", "c\n0.75", "a", "b", "c"} <= set(words(ax))
    frame = max(bar.get_height() for bar in ax.patches if bar.get_facecolor()[3] == 0.0)
    colored = [bar for bar in ax.patches if bar.get_facecolor()[:3] in {to_rgba(color)[:3] for color in COLORS[:3]}]
    heights = np.array([bar.get_height() for bar in colored[:6]]).reshape(3, 2).T / frame
    np.testing.assert_allclose(heights, value[1:], atol=1e-12)


def test_more_classes_than_colours_have_no_legend():
    ax = plot_tree(random_tree(4, 40, classes=np.arange(40)))
    check_legible(ax)
    assert len(words(ax)) == 3 * 3 + 4


def test_tree_without_values_and_tree_without_labels():
    assert words(plot_tree(pt.Tree([-1], [0], [0], [0]))) == ["leaf"]
    assert words(plot_tree(pt.Tree([-1], [0], [0], [0], value=[[0.25, 0.75]])))[0] == "y0 = 0.25\ny1 = 0.75"


DEPTHS = [*((k, d) for k in (1, 10) for d in (0, 1, 3)), (1, 100), pytest.param(10, 100, marks=pytest.mark.slow)]


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(("n_values", "max_depth"), DEPTHS)
def test_truncated_subtrees_show_their_leaves(max_depth, n_values):
    tree = random_tree(60, n_values, seed=3, classes=TEN if n_values > 1 else None)
    ax = plot_tree(tree, max_depth=max_depth)
    check_legible(ax)
    counts = [int(text.split()[1]) for text in words(ax) if text.startswith("...")]
    depth = tree.node_depth
    assert len(counts) == np.sum((tree.feature >= 0) & (depth == max_depth))
    assert sum(counts) + np.sum((tree.feature < 0) & (depth <= max_depth)) == 60


@pytest.mark.parametrize("max_depth", [-1, 1.5, True, "2"])
def test_bad_max_depth(max_depth):
    with pytest.raises(ValueError, match=r"max_depth=.* is out of range; give an integer >= 0"):
        plot_tree(random_tree(3, 1), max_depth=max_depth)


def test_a_drawing_is_scaled_down_to_given_axes():
    figure, axes = plt.subplots(1, 2, figsize=(12, 5))
    assert plot_tree(random_tree(12, 3, classes=TEN[:3]), axes[0]) is axes[0]
    check_legible(axes[0], smallest=1.0)
    inside = axes[0].get_window_extent()
    for text in axes[0].texts:
        box = text.get_window_extent()
        assert inside.x0 - 1 <= box.x0 <= box.x1 <= inside.x1 + 1
    assert len(figure.axes) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_leaves", "regression"),
    list(product((1, 5, 30, 200), (False, True))),
)
def test_pictures_of_posteriors(n_leaves, regression):
    post = posterior(n_leaves, regression)
    assert post.n_leaves.max() == n_leaves
    figure = plot_posterior(post)
    figure.canvas.draw()
    assert len(figure.axes) == 4
    check_legible(plot_tree(post.map_tree()))


def test_distribution_of_the_number_of_leaves():
    post = posterior(5, True)
    ax = plot_n_leaves(post)
    distribution = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in ax.patches}
    pmf = post.n_leaves_pmf()
    assert distribution == pytest.approx({m: pmf[m] for m in range(2, 6)})
    assert ax.get_legend() is None


def test_exact_distribution_beside():
    post = posterior(5, True)
    truth = Exact(post.model, [0.0, 0.1, 0.3, 0.2, 0.2, 0.1, 0.1 - 1e-6, 1e-6])
    ax = plot_n_leaves(post, truth=truth)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["sampled", "exact"]
    heights = np.array([bar.get_height() for bar in ax.patches]).reshape(2, 6)
    np.testing.assert_allclose(heights, [np.pad(post.n_leaves_pmf(), (0, 1))[1:], truth.pmf[1:7]], atol=1e-12)
    middles = np.array([bar.get_x() + bar.get_width() / 2 for bar in ax.patches]).reshape(2, 6)
    np.testing.assert_allclose(middles.mean(axis=0), np.arange(1, 7))


def test_inclusion_is_sorted_with_names_and_intervals():
    post = posterior(1, False)
    asked = np.array([0, 1])[np.random.default_rng(5).integers(0, 2, (3, 20))]
    tree = pt.Tree([1, -1, -1], [3.5, 0, 0], [1, 0, 0], [2, 0, 0])
    model = post.model
    both = pt.posterior_from_trees(model, [post.map_tree(), tree], asked)
    ax = plot_inclusion(both)
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([asked.mean(), 0.0])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[0].startswith("second $ a long name")
    assert len(labels[0]) <= 32
    assert labels[1] == "first"
    bottom, top = ax.get_ylim()
    assert bottom > top
    ends = ax.containers[1].lines[2][0].get_segments()
    p = asked.mean()
    error = 2.0 * np.sqrt(p * (1.0 - p) / ess(asked))
    np.testing.assert_allclose(ends[0][:, 0], [p - error, p + error])
    assert np.size(ends[1]) == 0


def test_inclusion_of_many_features_and_of_an_exact_posterior():
    model = pt.TreeModel(np.random.default_rng(0).normal(size=(20, 50)), np.arange(20) % 2)
    ax = plot_inclusion(Exact(model, [0.0, 1.0]), max_features=7)
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"x{k}" for k in range(49, 42, -1)]
    assert "7 of 50" in ax.get_xlabel()
    assert len(ax.containers) == 1
    for bad in (0, 2.5):
        with pytest.raises(ValueError, match=r"max_features=.* is out of range; give an integer >= 1"):
            plot_inclusion(Exact(model, [0.0, 1.0]), max_features=bad)


def test_trace_has_a_line_for_each_chain():
    post = posterior(5, False)
    first, second = plot_trace(post)
    lp = post.log_prior + post.log_score
    np.testing.assert_array_equal([line.get_ydata() for line in first.lines], lp)
    np.testing.assert_array_equal([line.get_ydata() for line in second.lines], post.n_leaves)
    assert "R-hat" in first.get_title()


def test_trace_takes_two_axes():
    axes = plt.subplots(1, 2)[1]
    assert list(plot_trace(posterior(5, False), axes)) == list(axes)
    with pytest.raises(ValueError, match="axes has 1 entries; give two Axes"):
        plot_trace(posterior(5, False), [axes[0]])


@pytest.mark.parametrize("picture", [plot_trace, plot_posterior])
def test_only_draws_can_be_traced(picture):
    model = posterior(1, False).model
    with pytest.raises(TypeError, match="posterior is a Exact, without draws; give a SampledPosterior"):
        picture(Exact(model, [0.0, 1.0]))
    assert not plt.get_fignums()


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(("chains", "draws"), [(1, 1), (2, 3), (1, 30)])
def test_few_draws_have_no_intervals_but_pictures(chains, draws):
    plot_posterior(posterior(5, True, chains, draws)).canvas.draw()


def test_given_axes_are_returned():
    post, ax = posterior(5, True), plt.figure().add_subplot()
    assert plot_n_leaves(post, ax) is ax
    assert plot_inclusion(post, ax) is ax
    assert len(plt.get_fignums()) == 1
