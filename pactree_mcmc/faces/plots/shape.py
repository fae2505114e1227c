"""Plots of the trees that stand for a posterior: the most probable shape with its intervals, and the consensus tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import check_type
from ...posterior.base import Posterior
from ...posterior.trees.consensus import ConsensusTree
from ...posterior.trees.shapes import Shape
from ...table.words import count_text, rounded_text, rounded_texts
from . import style
from .canvas import (
    BOX_PADDING,
    FONT_SIZE,
    LINE_HEIGHT,
    TreeCanvas,
    class_label,
    text_width,
    wrap_conditions,
    wrap_words,
)
from .tree import SPLIT_BOX_WIDTH, SPLIT_LINE_LETTERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# inches: smallest width of a leaf of a shape, and height of the strip of a mean
MIN_LEAF_WIDTH, STRIP_HEIGHT = 1.0, 0.14
# largest number of classes in a leaf of a shape, and of letters of the name of one
MAX_CLASSES, MAX_CLASS_LETTERS = 8, 32
CONSENSUS_BOX_WIDTH = 1.75  # width of a node of a consensus tree with the gap to the next, in inches
MAX_LISTED_CLASSES = 6  # largest number of classes that are all listed in a node of a consensus tree
CERTAIN_COLOR, CERTAIN_OPACITY = (0.0, 0.45, 0.7), 0.45  # colour of a certain node of a consensus tree, and its opacity


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
        A leaf has the mean, or the probability of each class (of two classes that of the last one), with its interval,
        as text and as a strip. The strips of means have one axis in all leaves, those of probabilities go from 0 to 1.
        If predictions depend on columns of X, a leaf has the regression of the most
        probable tree instead.

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
        shapes = shape.shapes(most=1)
        drawn = plot_shape(shapes.shapes[0], ax)
        title = f"most probable shape, probability {shapes.shapes[0].probability:.2g}; "
        title += f"brackets are {100.0 * shapes.coverage:g} % intervals"
        style.set_title_below_caveat(drawn, title, shapes.caveat, FONT_SIZE + 1.0, resizes=ax is None)
        return drawn
    check_type("shape", shape, Shape, "an element of post.shapes().shapes, or a posterior")
    return _draw_shape(shape, ax)


class ValueStrip(NamedTuple):
    """The mean of a leaf of a shape, or the probability of a class in it, and its interval."""

    name: str  # class; empty for a regression
    texts: list[str]  # mean, lower end and upper end of the interval as text
    place: list[float]  # the same three as fractions of the axis, which all leaves share; probabilities go from 0 to 1


def value_strips(shape: Shape) -> dict[int, list[ValueStrip]]:
    """Return the strips of each leaf of a shape, by node; empty lists if leaves have no values."""
    table = shape.leaves
    out: dict[int, list[ValueStrip]] = {int(node): [] for node in table["node"]}
    if "mean" not in table:
        return out
    if "class" not in table:
        low, span = table["lower"].min(), (table["upper"].max() - table["lower"].min()) or 1.0
        for node, *ends in table[["node", "mean", "lower", "upper"]].itertuples(index=False):
            out[int(node)].append(ValueStrip("", rounded_texts(ends, 2), [(end - low) / span for end in ends]))
        return out
    classes = list(dict.fromkeys(table["class"]))
    listed = set(table.groupby("class", sort=False)["mean"].max().nlargest(MAX_CLASSES).index)
    for label in classes[1:] if len(classes) == 2 else classes:
        lines = table[table["class"] == label] if label in listed else table[:0]
        for node, *ends in lines[["node", "mean", "lower", "upper"]].itertuples(index=False):
            name = style.shortened(str(label), MAX_CLASS_LETTERS)
            out[int(node)].append(ValueStrip(name, [f"{p:.2f}" for p in ends], ends))
    return out


def _draw_shape(shape: Shape, ax: Axes | None) -> Axes:
    """Draw the splits and the leaves of a shape, whose nodes are in preorder."""
    rows, strips = shape.leaves.groupby("node")["rows"].first(), value_strips(shape)
    texts = {
        node: [f"{strip.name} {strip.texts[0]} [{', '.join(strip.texts[1:])}]".strip() for strip in leaf]
        for node, leaf in strips.items()
    }
    if "words" in shape.leaves:
        words_of_leaf = zip(shape.leaves["node"].tolist(), shape.leaves["words"], strict=True)
        texts = {node: wrap_words(words, SPLIT_LINE_LETTERS + 4) for node, words in words_of_leaf}
    n_lines, n_strips = max(map(len, texts.values())), len(next(iter(strips.values())))
    height = LINE_HEIGHT + n_lines * LINE_HEIGHT + n_strips * STRIP_HEIGHT + 2.0 * BOX_PADDING
    width = max([MIN_LEAF_WIDTH, *(text_width(text) + 3.0 * BOX_PADDING for lines in texts.values() for text in lines)])
    lines = {int(node): _condition_lines(line["words"]) for node, line in shape.splits.iterrows()}
    children = _children_in_preorder(set(strips), 2 * len(strips) - 1)
    canvas = TreeCanvas(ax, children, lines, width + 0.12, height)
    canvas.draw_inner(1.15 * SPLIT_BOX_WIDTH)
    canvas.draw_answers()
    for node, leaf in strips.items():
        x, top = float(canvas.x[node]), float(canvas.y[node])
        canvas.bars(x, top - height, width, height, "none")
        y = top - BOX_PADDING - LINE_HEIGHT / 2.0
        canvas.text(x, y, f"{rounded_text(float(rows[node]), 3)} rows", width, color="0.35")
        for i, text in enumerate(texts[node]):
            y -= LINE_HEIGHT
            canvas.text(x, y, text, width)
            if leaf:
                _draw_strip(
                    canvas,
                    x,
                    y - (LINE_HEIGHT + STRIP_HEIGHT) / 2.0,
                    width - 4.0 * BOX_PADDING,
                    np.array(leaf[i].place),
                )
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
    drawn = _draw_consensus(tree, ax)
    title += "" if len(tree.words) > 1 else ": only the cell of all rows"
    style.set_title_below_caveat(drawn, title, tree.caveat, FONT_SIZE + 1.0, resizes=ax is None)
    return drawn


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
        canvas.text_box(
            canvas.x[i], canvas.y[i], CONSENSUS_BOX_WIDTH - 0.15, height, "\n".join(texts), color, **box_style
        )
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
    listed_classes = (
        np.arange(k) if 2 < k <= MAX_LISTED_CLASSES else np.argsort(-tree.value[node], kind="stable")[: 1 + (k > 2)]
    )
    return lines + [f"{class_label(tree.classes.tolist()[j])}: {tree.value[node][j]:.2f}" for j in listed_classes]
