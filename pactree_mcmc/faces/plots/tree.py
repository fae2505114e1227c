"""Plots of one tree, alone or with its training rows, and of the shape or the consensus tree of a posterior."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...core.checks import check_count, check_type
from ...model import TreeModel
from ...model.leaf.counts import ExposedLeaf, PoissonGamma
from ...model.leaf.positive import SurvivalLeaf
from ...posterior.posterior import Posterior
from ...posterior.rows.calibration import kaplan_meier
from ...posterior.rows.survival import N_GRID_TIMES
from ...posterior.trees.consensus import ConsensusTree
from ...posterior.trees.shapes import Shape, value_strips
from ...table.words import count_text, rounded_text, rounded_texts, shortened
from ...tree.arrays import LEAF, leaves_reached
from ...tree.tree import Tree, leaf_lines, match_columns, rows_words, stack_trees
from . import style
from .style import (
    BOX_PADDING,
    COLORS,
    FONT_SIZE,
    LINE_HEIGHT,
    TreeCanvas,
    class_label,
    text_width,
    wrap_conditions,
    wrap_words,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPLIT_LINE_LETTERS, LEAF_LINE_LETTERS = 22, 24  # letters in a line of a split, and of a leaf
# inches: smallest width of a slot, width of the box of a split, height of the bars of classes
MIN_SLOT_WIDTH, SPLIT_BOX_WIDTH, CLASS_BARS_HEIGHT = 0.8, 1.5, 0.36
# inches: height and width of the panel below a leaf, and width of an axis beside the panels
PANEL_HEIGHT, PANEL_WIDTH, SIDE_AXIS_WIDTH = 1.1, 0.8 * MIN_SLOT_WIDTH, 0.45
MAX_LEGEND_CLASSES = 20  # largest number of classes with a legend
SMALLEST_FLOAT = np.finfo(np.float64).tiny


def plot_tree(tree: Tree | Posterior, ax: Axes | None = None, max_depth: int | None = None) -> Axes:
    """Draw a tree: splits in the nodes, yes to the left, no to the right.

    Parameters
    ----------
    tree : Tree or posterior
        A leaf shows a bar for each class, with the most probable class and its probability; or its mean, or
        the ``words`` of the tree; or nothing. Each node shows the number of its training rows, if
        known. For a posterior the most probable tree is drawn (of those drawn, for a sampled one), with its probability
        in the title.
    ax : matplotlib Axes, optional
        The drawing is scaled down to fit, including text. Default: a new figure, large enough to read all text.
    max_depth : int, optional
        Subtrees below this depth are drawn as "..." and their number of leaves.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If ``max_depth`` is not an integer >= 0.
    TypeError
        If ``tree`` is neither a tree nor a posterior.

    Examples
    --------
    >>> from pactree_mcmc import Tree
    >>> ax = plot_tree(Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]))
    >>> ax.texts[0].get_text()
    'x0 ≤ 2.5'
    """
    check_count("max_depth", 0 if max_depth is None else max_depth, 0)
    if isinstance(tree, Posterior):
        tree, title = most_probable_tree(tree)
        ax = plot_tree(tree, ax, max_depth)
        ax.set_title(title, fontsize=FONT_SIZE + 1.0)
        return ax
    check_type("tree", tree, Tree, "a Tree, or a posterior such as that of pt.sample or an estimator's posterior_")
    drawing = TreeDrawing(tree, ax, max_depth)
    for node in drawing.cut.tolist():
        text, height = f"...\n{_count_leaves(tree, node)} leaves", 2.0 * LINE_HEIGHT + 2.0 * BOX_PADDING
        drawing.text_box(drawing.x[node], drawing.y[node], 0.9 * MIN_SLOT_WIDTH, height, text, "none", linestyle="--")
    if drawing.labels:
        drawing.draw_classes()
    else:
        drawing.draw_means()
    return drawing.ax


def most_probable_tree(post: Posterior) -> tuple[Tree, str]:
    """Return the most probable tree, of those drawn if the posterior is sampled, and a title."""
    tree = post.map_tree()
    if post.draws is not None and post.draws.sees_all_rows:
        best = int(np.argmax(post.draws.order_key_of_tree))
        part = f"{post.draws.weight_of_tree[best]:.2g} of the draws"
        return tree, f"most probable of {post.draws.n_distinct_trees} trees drawn, {part}"
    log_joint, log_evidence = getattr(post, "map_log_joint", None), post.log_evidence
    if log_joint is None or log_evidence is None:
        return tree, "most probable tree"
    return tree, f"most probable tree, probability {math.exp(log_joint - log_evidence):.2g}"


class TreeDrawing(TreeCanvas):
    """A `Tree` on a canvas: boxes of the splits, space for the leaves, and the lines between them."""

    # if `panel` is positive, all leaves are at one height with `panel` inches below them, and `side` inches for an axis
    # are left of them; `cut` are the nodes below `max_depth` at which subtrees are left out
    def __init__(
        self, tree: Tree, ax: Axes | None, max_depth: int | None = None, panel: float = 0.0, side: float = 0.0
    ) -> None:
        depth, inner = tree.node_depth, tree.feature != LEAF
        deepest = int(depth.max()) if max_depth is None else max_depth
        is_drawn_split = inner & (depth < deepest)
        pairs = zip(tree.left.tolist(), tree.right.tolist(), is_drawn_split.tolist(), strict=True)
        children = [[left, right] if is_drawn else [] for left, right, is_drawn in pairs]
        self.tree, self.labels = tree, _class_labels(tree)
        leaves = np.flatnonzero(~inner & (depth <= deepest))
        self.lines_of_leaves = [] if self.labels else _lines_of_leaves(tree, leaves)
        n_lines = max(map(len, self.lines_of_leaves), default=2 + (tree.rows is not None))
        self.leaf_height = n_lines * LINE_HEIGHT + 2.0 * BOX_PADDING
        longest = max((text_width(line) for lines in self.lines_of_leaves for line in lines), default=0.0)
        self.slot = max(MIN_SLOT_WIDTH, longest + 4.0 * BOX_PADDING)
        super().__init__(
            ax,
            children,
            {i: _lines_of_split(tree, i) for i in np.flatnonzero(is_drawn_split).tolist()},
            self.slot,
            self.leaf_height + (panel or bool(self.labels) * CLASS_BARS_HEIGHT),
            least=3,
            on_one_level=panel > 0.0,
            side=side,
            legend=self.labels if len(self.labels) <= MAX_LEGEND_CLASSES else [],
        )
        self.cut, self.leaves = self.leaves[inner[self.leaves]], leaves
        self.draw_inner(SPLIT_BOX_WIDTH)
        self.draw_answers()

    def draw_means(self) -> None:
        """Draw the leaves of a regression, shaded by their means, or leaves without values."""
        import matplotlib as mpl

        value, at = self.tree.value, self.leaves
        shades: Any = ["none"] * len(at)
        if value is not None and value.shape[1] == 1:
            mean = value[at, 0]
            ends = [mean.min(initial=np.inf), mean.max(initial=-np.inf)]
            shades = mpl.colormaps["Blues"](np.interp(mean, ends, [0.05, 0.65]))
        for node, lines, color in zip(at.tolist(), self.lines_of_leaves, shades, strict=True):
            height = len(lines) * LINE_HEIGHT + 2.0 * BOX_PADDING
            self.text_box(self.x[node], self.y[node], self.slot - 0.08, height, "\n".join(lines), color)

    def draw_classes(self, heights: np.ndarray | None = None, bars_height: float = CLASS_BARS_HEIGHT) -> None:
        """Draw the leaves of a classification as bars above the most probable class, and the legend."""
        value = self.tree.value
        assert value is not None
        k, width, fraction = len(self.labels), 0.8 * MIN_SLOT_WIDTH, value[self.leaves]
        heights, colors = fraction if heights is None else heights, _class_colors(k)
        x, low = self.x[self.leaves], self.y[self.leaves] - bars_height
        self.bars(x, low, width, bars_height, "none", edgecolor="0.7")
        for j in range(k):
            here = x + ((j + 0.5) / k - 0.5) * width
            self.bars(here, low, width / k, heights[:, j] * bars_height, colors[j], edgecolor="none")
        for i, best in enumerate(np.argmax(fraction, axis=1)):
            lines = [shortened(self.labels[best], 12), f"{fraction[i, best]:.2f}"]
            lines += _lines_of_rows(self.tree, self.leaves[i])
            self.text(x[i], low[i] - 0.03, "\n".join(lines), 0.95 * MIN_SLOT_WIDTH, va="top")
        self.draw_legend(colors)


def _count_leaves(tree: Tree, node: int) -> int:
    """Return the number of leaves below a node, 1 for a leaf."""
    pending, n = [node], 0
    while pending:
        i = int(pending.pop())
        if tree.feature[i] == LEAF:
            n += 1
        else:
            pending += [tree.left[i], tree.right[i]]
    return n


def _class_colors(k: int) -> list[Any]:
    """Return a colour for each of ``k`` classes; colour-blind readers can tell up to eight apart."""
    import matplotlib as mpl

    if k <= len(COLORS):
        return list(COLORS[:k])
    at = np.arange(k) if k <= MAX_LEGEND_CLASSES else np.linspace(0.0, 1.0, k)
    return list(mpl.colormaps["tab20" if k <= MAX_LEGEND_CLASSES else "turbo"](at))


def _class_labels(tree: Tree) -> list[str]:
    """Return the class labels as text, or an empty list for a regression or without values."""
    return [] if tree.value is None or tree.classes is None else [class_label(x) for x in tree.classes.tolist()]


def _lines_of_split(tree: Tree, node: int) -> list[str]:
    """Return the split of a node in a few lines; a long name loses its middle, never the threshold."""
    k = int(tree.feature[node])
    name = f"x{k}" if tree.columns is None else tree.columns.names[k]
    text = shortened(name, 2 * SPLIT_LINE_LETTERS) + tree.split(node)[len(name) :]
    lines = wrap_conditions(text, SPLIT_LINE_LETTERS, 5)
    return [*lines, *_lines_of_rows(tree, node)]


def _lines_of_leaves(tree: Tree, leaves: np.ndarray) -> list[list[str]]:
    """Return the lines of text of each of ``leaves`` (node indices): its prediction, and its rows if they are known."""
    predictions = leaf_lines(tree, min_digits=4)
    if tree.words is not None:
        predictions = [[line for x in lines for line in wrap_words(x, LEAF_LINE_LETTERS)] for lines in predictions]
    return [[*(predictions[node] or ["leaf"]), *_lines_of_rows(tree, node)] for node in leaves.tolist()]


def _lines_of_rows(tree: Tree, node: int) -> list[str]:
    return [] if tree.rows is None else [rows_words(tree, node)]


def plot_leaves(posterior: Posterior, ax: Axes | None = None, *, tree: Tree | None = None, n_bins: int = 15) -> Axes:
    """Draw a tree and, below each leaf, the training rows in it.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact; its model has the rows.
    ax : matplotlib Axes, optional
        The drawing is scaled down to it. Default: a new figure, large enough to read all text.
    tree : Tree, optional
        Default: the most probable one, with its probability in the title.
    n_bins : int, default 15
        Number of bins of the histograms of a regression. Times have none.

    Returns
    -------
    matplotlib Axes
        A classification: in each leaf a bar for each class, whose height is the number of its rows. A regression: in
        each leaf a histogram of y on its side, with a line at the mean. All leaves have one scale. With exposures y is
        that at exposure 1, a rate or a time. Times to an event: in each leaf the Kaplan-Meier curve of its rows, a tick
        at each censored time, and dashed the survival function of the model. Rows count with their weights.

    Raises
    ------
    TypeError, ValueError
        If ``tree`` is not a tree, splits on a feature that the model does not have, or a number is out of range.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(8)], [x > 3 for x in range(8)]))
    >>> plot_leaves(truth).get_title().startswith("most probable tree")
    True
    """
    style.check_posterior(posterior)
    check_count("n_bins", n_bins)
    model = posterior.model
    values, weight = model.target.values.reshape(model.n_rows, -1), model.target.weights
    title = ""
    if tree is not None:
        check_type("tree", tree, Tree, "a Tree, or leave it out for the most probable one")
        tree = match_columns(tree, model.columns)
        if tree.feature.max() >= model.n_features:
            raise ValueError(f"tree splits on feature {tree.feature.max()}; the model has {model.n_features} features.")
    else:
        tree, title = most_probable_tree(posterior)
    leaf = leaves_reached(stack_trees([tree]), model.row_numbers(np.arange(model.n_rows)))[:, 0]
    drawing = TreeDrawing(_with_training_rows(tree, model, leaf), ax, panel=PANEL_HEIGHT, side=SIDE_AXIS_WIDTH)
    if model.classes_ is not None:
        counts = _weights_by_leaf_and_group(leaf, model.target.values, drawing.leaves, len(model.classes_), weight)
        largest = max(float(counts.max()), SMALLEST_FLOAT)
        drawing.draw_classes(counts / largest, PANEL_HEIGHT)
        top = drawing.y[drawing.leaves[0]]
        drawing.text(SIDE_AXIS_WIDTH, top, f"{rounded_text(largest, 4)}\nrows", SIDE_AXIS_WIDTH, ha="right", va="top")
        drawing.text(SIDE_AXIS_WIDTH, top - PANEL_HEIGHT, "0", SIDE_AXIS_WIDTH, ha="right", va="bottom")
    else:
        drawing.draw_means()
        y = values[:, 0]
        is_exposed = isinstance(model.leaf, ExposedLeaf) and model.leaf.exposure is not None
        if is_exposed:
            # at exposure 1, as the values of the leaves
            leaf_model = cast(ExposedLeaf, model.leaf)
            y = y / leaf_model.at_exposure(np.ones((len(y), 1)), leaf_model.exposures(model.target))[:, 0]
        if model.leaf.has_survival:
            legend = _draw_survival(drawing, model, leaf, y)
        else:
            legend = _draw_histograms(drawing, leaf, y, weight, n_bins)
        left, foot = drawing.x[drawing.leaves[0]] - PANEL_WIDTH / 2.0, _panel_bottom(drawing) - 0.03
        drawing.text(left, foot, legend + "; at exposure 1" * is_exposed, ha="left", va="top", color="0.35")
    drawing.ax.set_title(title, fontsize=FONT_SIZE + 1.0)
    return drawing.ax


def _with_training_rows(tree: Tree, model: TreeModel, leaf: np.ndarray) -> Tree:
    """Return the tree with the numbers of training rows of all nodes, counted with weights, and with values."""
    weight, y = model.target.weights, model.target.values
    values = np.eye(len(model.classes_))[y] if model.classes_ is not None else y.reshape(len(y), -1)[:, :1]
    # means of counts are per unit of exposure
    exposure = model.leaf.exposures(model.target) if isinstance(model.leaf, PoissonGamma) else np.ones(len(y))
    sums = [np.bincount(leaf, weight * column, tree.n_nodes) for column in (np.ones(len(y)), exposure, *values.T)]
    for node in np.flatnonzero(tree.feature >= 0)[::-1].tolist():
        for total in sums:
            total[node] = total[tree.left[node]] + total[tree.right[node]]
    rows, means = sums[0], np.column_stack(sums[2:]) / np.maximum(sums[1], SMALLEST_FLOAT)[:, None]
    fits = tree.value is not None and (model.classes_ is None or tree.value.shape[1] == values.shape[1])
    value = tree.value if fits else means
    return replace(tree, rows=rows, value=value, classes=model.classes_, columns=model.columns)


def _weights_by_leaf_and_group(
    leaf: np.ndarray, group: np.ndarray, leaves: np.ndarray, n: int, weight: np.ndarray
) -> np.ndarray:
    """Return the weight of the rows of each of ``n`` groups in each of the ``leaves``, as an array (n_leaves, n)."""
    return np.bincount(np.searchsorted(leaves, leaf) * n + group, weight, len(leaves) * n).reshape(len(leaves), n)


def _panel_bottom(drawing: TreeDrawing) -> float:
    return float(drawing.y[drawing.leaves[0]] - drawing.leaf_height - PANEL_HEIGHT)


def _draw_survival(drawing: TreeDrawing, model: TreeModel, leaf: np.ndarray, time: np.ndarray) -> str:
    """Draw the Kaplan-Meier curve below each leaf, and dashed that of the model. Return the scale as text."""
    event, weight, last = model.leaf.times_and_events(model.target.values)[1], model.target.weights, float(time.max())
    bottom, height, grid = _panel_bottom(drawing), PANEL_HEIGHT - 0.1, np.linspace(0.0, last, N_GRID_TIMES)
    row_stats, color = model.leaf.row_stats(model.target), style.color_of(0)
    line: dict[str, Any] = {"color": color, "linewidth": 1.2}
    for node in drawing.leaves.tolist():
        here, left = (leaf == node) & (weight > 0.0), drawing.x[node] - PANEL_WIDTH / 2.0

        def place(t: np.ndarray, left: float = left) -> np.ndarray:
            return left + t / last * PANEL_WIDTH

        drawing.bars(drawing.x[node], bottom, PANEL_WIDTH, height, "none", edgecolor="0.7")
        if isinstance(model.leaf, SurvivalLeaf):
            curve = model.leaf.mean_survival(row_stats[here].sum(axis=0)[None], grid)[0]
            drawing.ax.plot(place(grid), bottom + height * curve, "--", color=style.color_of(3), linewidth=1.0)
        if here.any():
            observed = kaplan_meier(time[here], event[here], 0.9, weight[here])
            steps, censored = np.append(1.0, observed.survival), np.unique(time[here & ~event])
            times = place(np.append(0.0, observed.time))
            drawing.ax.plot(times, bottom + height * steps, drawstyle="steps-post", **line)
            ticks = observed.survival[np.searchsorted(observed.time, censored)]
            drawing.ax.plot(place(censored), bottom + height * ticks, "|", color=color, markersize=4.0)
    for level, text in ((0.0, "0"), (0.5, "0.5"), (1.0, "1")):
        drawing.text(SIDE_AXIS_WIDTH, bottom + level * height, text, SIDE_AXIS_WIDTH, ha="right")
    dashed = "; dashed: the model" * isinstance(model.leaf, SurvivalLeaf)
    return f"Kaplan-Meier up to t = {rounded_text(last, 3)}{dashed}"


def _draw_histograms(drawing: TreeDrawing, leaf: np.ndarray, y: np.ndarray, weight: np.ndarray, n_bins: int) -> str:
    """Draw a histogram of y on its side and a line at the mean below each leaf. Return the scale as text."""
    low, high = float(y.min()), float(y.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    group = np.clip(np.searchsorted(np.linspace(low, high, n_bins + 1), y, side="right") - 1, 0, n_bins - 1)
    counts = _weights_by_leaf_and_group(leaf, group, drawing.leaves, n_bins, weight)
    longest = max(float(counts.max()), SMALLEST_FLOAT)
    bottom, height = _panel_bottom(drawing), PANEL_HEIGHT - 0.1
    place, thickness = bottom + (np.arange(n_bins) + 0.5) * height / n_bins, 0.9 * height / n_bins
    assert drawing.tree.value is not None
    for i, node in enumerate(drawing.leaves.tolist()):
        left = drawing.x[node] - PANEL_WIDTH / 2.0
        drawing.bars(drawing.x[node], bottom, PANEL_WIDTH, height, "none", edgecolor="0.7")
        drawing.ax.barh(place, counts[i] / longest * PANEL_WIDTH, thickness, left, color=style.color_of(0), lw=0.0)
        mean = (np.clip(drawing.tree.value[node, 0], low, high) - low) / (high - low)
        ends = [left, left + PANEL_WIDTH]
        drawing.ax.plot(ends, [bottom + mean * height] * 2, color=style.color_of(3), linewidth=1.2)
    ticks = (low, (low + high) / 2.0, high)
    for tick, text in zip(ticks, rounded_texts(ticks, 3), strict=True):
        drawing.text(SIDE_AXIS_WIDTH, bottom + (tick - low) / (high - low) * height, text, SIDE_AXIS_WIDTH, ha="right")
    return f"longest bar: {count_text(longest)}"


# inches: smallest width of a leaf of a shape, and height of the strip of a mean
MIN_LEAF_WIDTH, STRIP_HEIGHT = 1.0, 0.14
CONSENSUS_BOX_WIDTH = 1.75  # width of a node of a consensus tree with the gap to the next, in inches
MAX_LISTED_CLASSES = 6  # largest number of classes that are all listed in a node of a consensus tree
CERTAIN_COLOR, CERTAIN_OPACITY = (0.0, 0.45, 0.7), 0.45  # colour of a certain node of a consensus tree, and its opacity


def plot_shape(shape: Shape | Posterior, ax: Axes | None = None, *, label: Any = None) -> Axes:
    """Draw a shape of tree: its splits, with the interval of each cut, and the interval of each leaf.

    Parameters
    ----------
    shape : Shape or posterior
        An element of ``post.shapes().shapes``. For a posterior the most probable shape is drawn, with its probability
        in the title.
    ax : matplotlib Axes, optional
        The drawing is scaled down to fit. Default: a new figure, large enough to read all text.
    label : optional
        Class whose probability is shown. Default: of two classes the last one, else all.

    Returns
    -------
    matplotlib Axes
        A leaf has the mean, or the name and the probability of each class that is shown, with its interval,
        as text and as a strip. The strips of means have one axis in all leaves, those of probabilities go from 0 to 1.
        If predictions depend on columns of X, a leaf has the regression of the most
        probable tree instead.

    Raises
    ------
    TypeError, ValueError
        If ``shape`` is neither a shape nor a posterior, or ``label`` is not a class.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
    >>> ax = plot_shape(truth)
    >>> ax.get_title()[:28]
    'most probable shape, probabi'
    """
    if isinstance(shape, Posterior):
        shapes = shape.shapes(most=1)
        axes = plot_shape(shapes.shapes[0], ax, label=label)
        title = f"most probable shape, probability {shapes.shapes[0].probability:.2g}; "
        title += f"brackets are {100.0 * shapes.coverage:g} % intervals{shapes.remark}"
        style.set_title_below_caveat(axes, title, shapes.caveat, FONT_SIZE + 1.0, resizes=ax is None)
        return axes
    check_type("shape", shape, Shape, "an element of post.shapes().shapes, or a posterior")
    return _draw_shape(shape, ax, label)


def _draw_shape(shape: Shape, ax: Axes | None, label: Any) -> Axes:
    """Draw the splits and the leaves of a shape, whose nodes are in preorder."""
    rows, strips = shape.leaves.groupby("node")["rows"].first(), value_strips(shape, label)
    text_of = "{0.name} {0.texts[0]} [{0.texts[1]}, {0.texts[2]}]".format
    texts = {node: [text_of(strip).strip() for strip in leaf] for node, leaf in strips.items()}
    if "words" in shape.leaves:
        words_of_leaf = zip(shape.leaves["node"].tolist(), shape.leaves["words"], strict=True)
        texts = {node: wrap_words(words, SPLIT_LINE_LETTERS + 4) for node, words in words_of_leaf}
    n_lines, n_strips = max(map(len, texts.values())), len(next(iter(strips.values())))
    height = LINE_HEIGHT + n_lines * LINE_HEIGHT + n_strips * STRIP_HEIGHT + 2.0 * BOX_PADDING
    width = max([MIN_LEAF_WIDTH, *(text_width(text) + 3.0 * BOX_PADDING for lines in texts.values() for text in lines)])
    lines = {int(node): _condition_lines(line["words"]) for node, line in shape.splits.iterrows()}
    canvas = TreeCanvas(ax, _children_in_preorder(set(strips), 2 * len(strips) - 1), lines, width + 0.12, height)
    canvas.draw_inner(1.15 * SPLIT_BOX_WIDTH)
    canvas.draw_answers()
    for node, leaf in strips.items():
        x, top = float(canvas.x[node]), float(canvas.y[node])
        canvas.bars(x, top - height, width, height, "none")
        y = top - BOX_PADDING - LINE_HEIGHT / 2.0
        canvas.text(x, y, count_text(float(rows[node])), width, color="0.35")
        for i, text in enumerate(texts[node]):
            y -= LINE_HEIGHT
            canvas.text(x, y, text, width)
            if leaf:
                middle, place = y - (LINE_HEIGHT + STRIP_HEIGHT) / 2.0, np.array(leaf[i].place)
                _draw_strip(canvas, x, middle, width - 4.0 * BOX_PADDING, place)
                y -= STRIP_HEIGHT
    return canvas.ax


def _draw_strip(canvas: TreeCanvas, x: float, y: float, width: float, place: np.ndarray) -> None:
    """Draw the mean and its interval as a strip on an axis of this width, whose middle is (x, y)."""
    mean, lower, upper = x + width * (place - 0.5)
    ax, scale = canvas.ax, canvas.scale
    ax.plot([x - width / 2.0, x + width / 2.0], [y, y], color="0.75", linewidth=0.8 * scale, zorder=1)
    ax.plot([lower, upper], [y, y], color=style.COLORS[0], linewidth=3.5 * scale, solid_capstyle="butt", zorder=2)
    ax.plot([mean], [y], "|", color="black", markersize=7.0 * scale, markeredgewidth=1.6 * scale, zorder=3)


def _children_in_preorder(leaves: set[int], n_nodes: int) -> list[list[int]]:
    """Return the children (left, right) of each node of a binary tree, whose nodes are numbered in preorder."""
    children: list[list[int]] = [[] for _ in range(n_nodes)]
    # nodes that wait for a child, the lowest last
    waiting: list[int] = []
    for node in range(n_nodes):
        if waiting:
            children[waiting[-1]].append(node)
            if len(children[waiting[-1]]) == 2:
                waiting.pop()
        if node not in leaves:
            waiting.append(node)
    return children


def _condition_lines(words: str) -> list[str]:
    """Return the condition of a split, such as "x0 <= 3 [2, 4] or missing", in lines."""
    condition, bracket, rest = words.partition(" [")
    interval, _, after = rest.partition("] ")
    own_lines = [f"[{interval}]", after] if after else [f"[{interval}"] if bracket else []
    return [*wrap_conditions(condition, SPLIT_LINE_LETTERS + 4, 5), *own_lines]


def plot_consensus(tree: ConsensusTree | Posterior, ax: Axes | None = None, *, min_support: float = 0.5) -> Axes:
    """Draw the consensus tree: the cells that most trees have, with the probability of each.

    Parameters
    ----------
    tree : ConsensusTree or Posterior
        Result of `Posterior.consensus_tree`, or a posterior, whose consensus tree is drawn.
    ax : matplotlib Axes, optional
        The drawing is scaled down to it. Default: a new figure, large enough to read all text.
    min_support : float, default 0.5
        For a posterior: cells must be more probable than this; in [0.5, 1].

    Returns
    -------
    matplotlib Axes
        A box for each node: the conditions that lead to it, its support, its training rows, and the prediction of a
        leaf with these rows. The more probable, the darker the box and the thicker the edge. A node has more than two
        children if most trees split it further, but not by one split; rows in no child are in a dashed box.

    Raises
    ------
    TypeError, ValueError
        If ``tree`` is neither, or ``min_support`` is out of range.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
    >>> [text.get_text().split()[0] for text in plot_consensus(truth).texts]
    ['all', 'x0', 'x0']
    """
    title = "consensus tree"
    if isinstance(tree, Posterior):
        tree, title = tree.consensus_tree(min_support), f"cells in more than {100.0 * min_support:.3g}% of the trees"
    check_type("tree", tree, ConsensusTree, "what consensus_tree() returns, or a posterior")
    axes = _draw_consensus(tree, ax)
    title += "" if len(tree.words) > 1 else ": only the cell of all rows"
    style.set_title_below_caveat(axes, title, tree.caveat, FONT_SIZE + 1.0, resizes=ax is None)
    return axes


def _draw_consensus(tree: ConsensusTree, ax: Axes | None) -> Axes:
    """Draw the boxes of a consensus tree: the more probable, the darker the box and the thicker the edge."""
    n = len(tree.words)
    children = [tree.children(i) for i in range(n)]
    lines = {i: _consensus_node_lines(tree, i) for i in range(n)}
    # other rows have a box of their own, after the children
    for i in np.flatnonzero(tree.rest > 0.0).tolist():
        children[i].append(len(children))
        lines[len(children)] = [count_text(float(tree.rest[i])), "in no child"]
        children.append([])
    foot = max(len(lines[i]) for i in range(len(children)) if not children[i]) * LINE_HEIGHT + 2.0 * BOX_PADDING
    canvas = TreeCanvas(ax, children, lines, CONSENSUS_BOX_WIDTH, foot)
    for i, texts in lines.items():
        is_rest = i >= n
        # from one half, which every cell exceeds, to certainty
        certainty = 0.0 if is_rest else max(2.0 * float(tree.support[i]) - 1.0, 0.0)
        color: Any = tuple(1.0 - CERTAIN_OPACITY * certainty * (1.0 - part) for part in CERTAIN_COLOR)
        height = canvas.height if children[i] else len(texts) * LINE_HEIGHT + 2.0 * BOX_PADDING
        box_style: dict[str, Any] = {"linestyle": "--"} if is_rest else {}
        color = "none" if is_rest else color
        size = CONSENSUS_BOX_WIDTH - 0.15, height
        canvas.text_box(canvas.x[i], canvas.y[i], *size, "\n".join(texts), color, **box_style)
        for child in children[i]:
            sure = 0.0 if child >= n else max(2.0 * float(tree.support[child]) - 1.0, 0.0)
            line: dict[str, Any] = {"linestyle": "--"} if child >= n else {}
            canvas.draw_edge(i, child, color="0.45", linewidth=0.6 + 3.4 * sure, **line)
    return canvas.ax


def _consensus_node_lines(tree: ConsensusTree, node: int) -> list[str]:
    """Return the conditions of a node in a few lines, its support (not of the root), its rows, and its prediction."""
    lines = wrap_conditions(tree.words[node], 24, 4)
    lines += [f"support {tree.support[node]:.2f}"] * (node > 0) + [count_text(float(tree.rows[node]))]
    if tree.value is None or tree.classes is None:
        return lines + [line for text in tree.said[node] for line in wrap_words(text, 24)]
    k = len(tree.classes)
    listed = np.arange(k) if k > 2 else np.argsort(-tree.value[node], kind="stable")[:1]
    if k > MAX_LISTED_CLASSES:
        listed = np.argsort(-tree.value[node], kind="stable")[:2]
    return lines + [f"{class_label(tree.classes.tolist()[j])}: {tree.value[node][j]:.2f}" for j in listed]
