"""A picture of the most probable shape of tree, with an interval for each cut and each leaf."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from ...core.checks import check_type
from ...posterior.base import Posterior
from ...posterior.trees.shapes import Shape
from ...table.words import figure, figures
from . import style
from .tree import FONT, LETTERS, LINE, MARGIN, PADDING, SLOT, SPLIT, Canvas

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

WIDTH, STRIP, LEVEL = 1.7 * SLOT, 0.3, 0.45
"""Inches: width of a leaf, height of the strip with its interval, gap between two levels."""


def plot_shape(shape: Shape | Posterior, ax: Axes | None = None) -> Axes:
    """Draw a shape of tree: its splits, with the interval of each cut, and the interval of each leaf.

    Parameters
    ----------
    shape : Shape or posterior
        An element of ``post.shapes().shapes``. For a posterior the most probable shape is drawn, with its probability
        in the title.
    ax : matplotlib Axes, optional
        The drawing is scaled down to fit. Default: a new figure, large enough to read all text.

    Returns
    -------
    matplotlib Axes
        The strip below a leaf shows the expectation of y, or the probability of the last class of two, as a point with
        its interval; all strips have the same axis. Of several classes or outputs the text names the largest.

    Raises
    ------
    TypeError
        If ``shape`` is neither a shape nor a posterior.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
    >>> ax = plot_shape(truth)
    >>> ax.get_title()[:28]
    'most probable shape, probabi'
    """
    if isinstance(shape, Posterior):
        if style.has_no_draws(shape):
            return style.say_no_draws(style.axes_or_new(ax, 6.4, 4.6))
        shapes = shape.shapes(most=1)
        ax = plot_shape(shapes.shapes[0], ax)
        title = f"most probable shape, probability {shapes.shapes[0].probability:.2g}; "
        ax.set_title(f"{title}brackets hold {100.0 * shapes.coverage:g} %", fontsize=FONT + 1.0)
        return ax
    check_type("shape", shape, Shape, "an element of post.shapes().shapes, or a posterior")
    return _Drawing(shape, ax).ax


class _Drawing(Canvas):
    """A shape on a canvas; ``x`` and ``y`` are the middle and the top of the boxes of its nodes in preorder."""

    def __init__(self, shape: Shape, ax: Axes | None) -> None:
        self.shape = shape
        self.leaves = dict(iter(shape.leaves.groupby("node", sort=False)))
        n_nodes = 2 * len(shape.splits) + 1
        self.x, depth, self.children = _layout(n_nodes, set(self.leaves))
        self.texts = {int(node): _split_text(line["words"]) for node, line in shape.splits.iterrows()}
        self.height = max((text.count("\n") + 1 for text in self.texts.values()), default=0) * LINE + 2.0 * PADDING
        self.y = -depth * (self.height + LEVEL)
        self.leaf_texts = {node: _leaf_text(leaf, shape.tree.classes is not None) for node, leaf in self.leaves.items()}
        n_lines = max(text.count("\n") + 1 for text in self.leaf_texts.values())
        self.leaf_height = n_lines * LINE + 2.0 * PADDING
        bottom = float(self.y.min()) - self.leaf_height - STRIP
        size = np.array([len(self.leaves) * WIDTH, -bottom])
        super().__init__(ax, size + 2.0 * MARGIN, np.array([size[0], bottom]) / 2.0)
        self._draw()

    def _draw(self) -> None:
        for node, pair in self.children.items():
            for child in pair:
                ends = [self.x[node], self.x[child]], [self.y[node] - self.height, self.y[child]]
                self.ax.plot(*ends, color="0.6", linewidth=0.8 * self.scale, zorder=0)
                middle = np.mean(ends[0]), np.mean(ends[1])
                self.text(*middle, "yes" if child == pair[0] else "no", color="0.35", backgroundcolor="w")
            self.text_box(self.x[node], self.y[node], 1.25 * SPLIT, self.height, self.texts[node], "0.95")
        shown = {node: _shown(leaf) for node, leaf in self.leaves.items() if "mean" in leaf}
        low = min((ends[1] for ends in shown.values()), default=0.0)
        high = max((ends[2] for ends in shown.values()), default=1.0)
        if self.shape.tree.classes is not None:
            low, high = 0.0, 1.0
        for node, text in self.leaf_texts.items():
            width, top = 0.94 * WIDTH, float(self.y[node])
            self.text_box(self.x[node], top, width, self.leaf_height, text, "none")
            if node in shown:
                self._draw_strip(node, shown[node], low, high, width, top - self.leaf_height)

    def _draw_strip(
        self, node: int, ends: tuple[float, float, float], low: float, high: float, width: float, top: float
    ) -> None:
        """Draw the mean and the interval of a leaf on an axis from ``low`` to ``high``."""
        self.bars(self.x[node], top - STRIP, width, STRIP, "none")
        place = [(value - low) / max(high - low, 1e-300) - 0.5 for value in ends]
        mean, lower, upper = (self.x[node] + 0.9 * width * part for part in place)
        y = top - STRIP / 2.0
        self.ax.plot([lower, upper], [y, y], color=style.COLORS[0], linewidth=3.0 * self.scale, solid_capstyle="butt")
        self.ax.plot([mean], [y], "|", color="black", markersize=10.0 * self.scale, markeredgewidth=2.0 * self.scale)


def _layout(n_nodes: int, leaves: set[int]) -> tuple[np.ndarray, np.ndarray, dict[int, tuple[int, int]]]:
    """Return x (inches) and depth of nodes in preorder, and the two children of each split."""
    x, depth, children = np.zeros(n_nodes), np.zeros(n_nodes), {}

    def place(node: int, level: int, slot: int) -> tuple[int, int]:
        """Place a subtree whose first leaf has number ``slot``; return the next node and the next slot."""
        depth[node] = level
        if node in leaves:
            x[node] = (slot + 0.5) * WIDTH
            return node + 1, slot + 1
        right, slot = place(node + 1, level + 1, slot)
        children[node] = (node + 1, right)
        after, slot = place(right, level + 1, slot)
        x[node] = (x[node + 1] + x[right]) / 2.0
        return after, slot

    place(0, 0, 0)
    return x, depth, children


def _split_text(words: str) -> str:
    """Return the condition of a split in lines, its interval in a line of its own."""
    condition, bracket, interval = words.replace("<=", "≤").partition(" [")
    lines = textwrap.wrap(condition, LETTERS + 4)
    return "\n".join([*lines, f"[{interval}"] if bracket else lines)


def _shown(leaf: pd.DataFrame) -> tuple[float, float, float]:
    """Return mean, lower and upper end of the output in the strip: the last of two classes, or the first output."""
    line = leaf.iloc[-1] if len(leaf) == 2 else leaf.iloc[0]
    return float(line["mean"]), float(line["lower"]), float(line["upper"])


def _leaf_text(leaf: pd.DataFrame, is_classes: bool) -> str:
    """Return the text of a leaf: the largest class with its probability, or the means, with intervals."""
    rows = f"{figure(float(leaf['rows'].iloc[0]), 3)} rows"
    if "mean" not in leaf:
        return rows
    shown = leaf.loc[[leaf["mean"].idxmax()]] if is_classes else leaf
    lines = []
    for output, mean, lower, upper in shown[["output", "mean", "lower", "upper"]].itertuples(index=False):
        ends = figures((mean, lower, upper), 2)
        name = f"{output} " if len(leaf) > 1 else ""
        lines += [f"{name}{ends[0]}", f"[{ends[1]}, {ends[2]}]"]
    return "\n".join([*lines, rows])
