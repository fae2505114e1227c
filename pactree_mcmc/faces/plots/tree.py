"""Plots of trees.

Trees are laid out in inches, for text of ``FONT`` points. Leaves stand side by side in slots; splits are less than
two slots wide, and the middle of a split keeps a slot from the ends of its subtree: boxes cannot overlap.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import check_count, check_type
from ...posterior.base import Posterior
from ...posterior.sampled import SampledPosterior
from ...tree.arrays import LEAF
from ...tree.export import leaf_lines, rows_words
from ...tree.tree import Tree
from .axes import COLORS, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# points and letters a line; inches
FONT, LETTERS, LEAF_LETTERS = 8.0, 22, 14
LINE, PADDING, MARGIN, GAP = 0.145, 0.06, 0.15, 0.4
SLOT, SPLIT, BARS = 0.8, 1.5, 0.36
TITLE = 4.4
"""Least width of a new figure, for the longest title."""
MOST_COLORS = 20


def plot_tree(tree: Tree | Posterior, ax: Axes | None = None, max_depth: int | None = None) -> Axes:
    """Draw a tree: splits in the nodes, yes to the left, no to the right.

    Parameters
    ----------
    tree : Tree or posterior
        A leaf shows a bar for each class, with the most probable class and its probability; or its mean, the means of
        all outputs, or the ``words`` of the tree; or nothing. Each node shows the number of its training rows, if
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
    >>> ax = plot_tree(Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]))
    >>> ax.texts[0].get_text()
    'x0 ≤ 2.5'
    """
    check_count("max_depth", 0 if max_depth is None else max_depth, 0)
    if isinstance(tree, Posterior):
        tree, title = most_probable(tree)
        ax = plot_tree(tree, ax, max_depth)
        ax.set_title(title, fontsize=FONT + 1.0)
        return ax
    check_type("tree", tree, Tree, "a Tree, or a posterior such as that of pt.sample or an estimator's posterior_")
    drawing = Drawing(tree, ax, max_depth)
    for node in drawing.inner.tolist():
        drawing.draw_split(node)
    for node in drawing.cut.tolist():
        drawing.box(node, 0.9 * SLOT, 2.0 * LINE, f"...\n{drawing.n_leaves[node]} leaves", "none", linestyle="--")
    (drawing.draw_classes if drawing.labels else drawing.draw_means)()
    return drawing.ax


def most_probable(post: Posterior) -> tuple[Tree, str]:
    """The most probable tree, and a title that says so and how probable it is."""
    tree = post.map_tree()
    if isinstance(post, SampledPosterior):
        best = int(np.argmax(post.log_prior_of_tree + post.log_score_of_tree))
        return (
            tree,
            f"most probable of {post.n_distinct_trees} trees drawn, {post.weight_of_tree[best]:.2g} of the draws",
        )
    log_joint, log_evidence = getattr(post, "map_log_joint", None), post.log_evidence
    if log_joint is None or log_evidence is None:
        return tree, "most probable tree"
    return tree, f"most probable tree, probability {math.exp(log_joint - log_evidence):.2g}"


def scaled_axes(ax: Axes | None, size: tuple[float, float], middle: Any) -> tuple[Axes, float]:
    """Axes in which a unit is an inch, or less where a drawing of this size around ``middle`` does not fit; the scale.

    Without axes those of a new figure into which it fits, with room for a title.
    """
    import matplotlib.pyplot as plt

    if ax is None:
        wide = max(size[0], TITLE)
        ax = plt.figure(figsize=(wide, size[1] + 0.3)).add_axes((0.0, 0.0, 1.0, size[1] / (size[1] + 0.3)))
    figure = ax.get_figure()
    assert figure is not None
    room = np.asarray(ax.get_window_extent().size) / figure.dpi
    scale = min(1.0, float((room / size).min()))
    (left, bottom), (right, top) = middle - room / scale / 2.0, middle + room / scale / 2.0
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    ax.set_axis_off()
    return ax, scale


class Drawing:
    """Where the visible nodes of a tree go, the middle and the top of their boxes in inches; and how they look.

    With ``panel`` inches left below the leaves for what is drawn there, all leaves are at one height, and ``side``
    inches are left of them, for an axis.
    """

    def __init__(
        self, tree: Tree, ax: Axes | None, max_depth: int | None = None, panel: float = 0.0, side: float = 0.0
    ) -> None:
        import matplotlib as mpl

        depth, inner = tree.node_depth, tree.feature != LEAF
        deepest = int(depth.max()) if max_depth is None else max_depth
        ends = (depth <= deepest) & (~inner | (depth == deepest))
        self.tree, self.labels, self.colormaps = tree, _class_labels(tree), mpl.colormaps
        self.inner, self.cut = np.flatnonzero(inner & (depth < deepest)), np.flatnonzero(ends & inner)
        self.leaves = np.flatnonzero(ends & ~inner)
        self.n_leaves, self.x = np.ones(tree.n_nodes, dtype=np.int64), np.zeros(tree.n_nodes)
        self.x[ends] = side + (np.arange(ends.sum()) + 0.5) * SLOT
        for i in np.flatnonzero(inner)[::-1]:
            children = [tree.left[i], tree.right[i]]
            self.n_leaves[i] = self.n_leaves[children].sum()
            self.x[i] = self.x[children].mean() if depth[i] < deepest else self.x[i]
        self.splits = {i: _split_lines(tree, i) for i in self.inner.tolist()}
        self.height = max(map(len, self.splits.values()), default=0) * LINE
        self.y = -depth * (self.height + 2.0 * PADDING + GAP)
        if panel:
            self.y[self.leaves] = self.y[self.leaves].min()
        self.leaf_lines = [] if self.labels else _lines_of_leaves(tree, self.leaves)
        n_lines = max(map(len, self.leaf_lines), default=2 + (tree.rows is not None))
        self.leaf_height = n_lines * LINE + 2.0 * PADDING
        below = self.leaf_height + (panel or bool(self.labels) * BARS)
        foot = float(self.y[depth <= deepest].min()) - below
        # the legend below: columns of one width
        self.legend = self.labels if len(self.labels) <= MOST_COLORS else []
        self.legend_top, width = foot - 0.1, side + max(ends.sum(), 3) * SLOT
        self.column = max(map(text_width, self.legend), default=0.0) + 0.35
        self.n_columns = max(1, min(len(self.legend), int(width / self.column)))
        bottom = self.legend_top - math.ceil(len(self.legend) / self.n_columns) * 1.2 * LINE
        self.middle = np.array([side + ends.sum() * SLOT, bottom]) / 2.0
        size = np.array([max(width, self.column), -bottom]) + 2.0 * MARGIN
        self.ax, self.scale = scaled_axes(ax, (float(size[0]), float(size[1])), self.middle)

    def text(self, x: float, y: float, text: str, width: float = math.inf, **kwargs: Any) -> None:
        """Text centred at a point unless told otherwise, made smaller if wider than ``width``."""
        fit = min(1.0, width / max(map(text_width, text.split("\n"))))
        options = {"ha": "center", "va": "center", "linespacing": 1.15, "parse_math": False, **kwargs}
        self.ax.text(x, y, text, fontsize=FONT * self.scale * fit, **options)

    def bars(self, x: Any, bottom: Any, width: float, height: Any, color: Any, **kwargs: Any) -> None:
        """Rectangles standing on ``bottom``, ``x`` in their middle."""
        style = {"edgecolor": "0.55", "linewidth": 0.8 * self.scale, **kwargs}
        self.ax.bar(x, height, width, bottom, facecolor=color, **style)

    def box(self, node: int, width: float, height: float, text: str, color: Any, **kwargs: Any) -> None:
        """A node as a frame around text that takes ``height``."""
        x, height = self.x[node], height + 2.0 * PADDING
        self.bars(x, self.y[node] - height, width, height, color, **kwargs)
        self.text(x, self.y[node] - height / 2.0, text, width - 2.0 * PADDING)

    def draw_split(self, node: int) -> None:
        """The box of an internal node, and the elbows to its children with their answers."""
        self.box(node, SPLIT, self.height, "\n".join(self.splits[node]), "0.95")
        x, foot = self.x[node], self.y[node] - self.height - 2.0 * PADDING
        bend = foot - GAP / 2.0
        for child, answer, side in ((self.tree.left[node], "yes ", "right"), (self.tree.right[node], " no", "left")):
            way = [x, x, self.x[child], self.x[child]], [foot, bend, bend, self.y[child]]
            self.ax.plot(*way, color="0.55", linewidth=0.9 * self.scale, zorder=0)
            self.text(x, bend + 0.02, answer, ha=side, va="bottom", color="0.35")

    def draw_means(self) -> None:
        """Draw the leaves of a regression, shaded by their means, or leaves without values.

        Leaves of several outputs are not shaded.
        """
        value, at = self.tree.value, self.leaves
        shaded = value is not None and value.shape[1] == 1
        mean = value[at, 0] if shaded and value is not None else np.zeros(len(at))
        shade = np.interp(mean, [mean.min(initial=np.inf), mean.max(initial=-np.inf)], [0.05, 0.65])
        colors = self.colormaps["Blues"](shade) if shaded else ["none"] * len(at)
        for node, lines, color in zip(at.tolist(), self.leaf_lines, colors, strict=True):
            self.box(node, 0.9 * SLOT, len(lines) * LINE, "\n".join(lines), color)

    def draw_classes(self, heights: np.ndarray | None = None, room: float = BARS) -> None:
        """Leaves of a classification: a bar for each class, below them the most probable one; the legend.

        Bars have the ``heights`` (n_leaves, k), by default the probabilities, as fractions of ``room`` inches.
        """
        value = self.tree.value
        assert value is not None
        k, width, fraction = len(self.labels), 0.8 * SLOT, value[self.leaves]
        heights, colors = fraction if heights is None else heights, _class_colors(k)
        x, low = self.x[self.leaves], self.y[self.leaves] - room
        self.bars(x, low, width, room, "none", edgecolor="0.7")
        for j in range(k):
            here = x + ((j + 0.5) / k - 0.5) * width
            self.bars(here, low, width / k, heights[:, j] * room, colors[j], edgecolor="none")
        for i, best in enumerate(np.argmax(fraction, axis=1)):
            lines = [
                shortened(self.labels[best], 12),
                f"{fraction[i, best]:.2f}",
                *_rows_lines(self.tree, self.leaves[i]),
            ]
            self.text(x[i], low[i] - 0.03, "\n".join(lines), 0.95 * SLOT, va="top")
        for j, label in enumerate(self.legend):
            row, column = divmod(j, self.n_columns)
            left = self.middle[0] + (column - self.n_columns / 2.0) * self.column
            y = self.legend_top - (row + 0.5) * 1.2 * LINE
            self.bars(left + 0.05, y - 0.05, 0.1, 0.1, colors[j], edgecolor="none")
            self.text(left + 0.15, y, label, ha="left")


def _class_colors(k: int) -> list[Any]:
    """A colour for each of ``k`` classes; colour-blind readers can tell up to eight apart."""
    import matplotlib as mpl

    if k <= len(COLORS):
        return list(COLORS[:k])
    at = np.arange(k) if k <= MOST_COLORS else np.linspace(0.0, 1.0, k)
    return list(mpl.colormaps["tab20" if k <= MOST_COLORS else "turbo"](at))


def _class_labels(tree: Tree) -> list[str]:
    """Return the class labels as text; none for a regression, or without values."""
    return [] if tree.value is None or tree.classes is None else [class_words(x) for x in tree.classes.tolist()]


def class_words(label: Any) -> str:
    """A class label on one line; a number is said to be a class."""
    return shortened(label if isinstance(label, str) else f"class {label}", 30)


def _split_lines(tree: Tree, node: int) -> list[str]:
    """The split of a node in a few lines; a long name loses its middle, never the threshold."""
    k = int(tree.feature[node])
    name = f"x{k}" if tree.columns is None else tree.columns.names[k]
    rest = tree.split(node)[len(name) :].replace(" <= ", " ≤\u00a0")
    lines = textwrap.wrap(
        shortened(name, 2 * LETTERS) + rest, line_width(rest, LETTERS), max_lines=5, placeholder=" ..."
    )
    return [*(line.replace("\u00a0", " ") for line in lines), *_rows_lines(tree, node)]


def line_width(words: str, letters: int) -> int:
    """Return the letters of a line of text that breaks no threshold, at least ``letters``."""
    return max([letters, *(len(word) for word in words.split(" ") if word[:1] in "≤>")])


def _lines_of_leaves(tree: Tree, leaves: np.ndarray) -> list[list[str]]:
    """Return the lines of text of each leaf: its prediction, and its rows if they are known."""
    said = leaf_lines(tree, least=4)
    if tree.words is not None:
        said = [[line for text in lines for line in textwrap.wrap(text, LEAF_LETTERS)] for lines in said]
    return [[*(said[node] or ["leaf"]), *_rows_lines(tree, node)] for node in leaves.tolist()]


def _rows_lines(tree: Tree, node: int) -> list[str]:
    """The line that tells the rows of a node, if they are known."""
    return [] if tree.rows is None else [rows_words(tree, node)]


def text_width(text: str) -> float:
    """Width of a line of text in inches, at least that of a letter."""
    from matplotlib import font_manager, textpath

    font = font_manager.FontProperties(size=FONT)
    return textpath.text_to_path.get_text_width_height_descent(text or "x", font, False)[0] / 72.0
