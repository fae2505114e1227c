"""Plots of many trees: the forest of the draws, the consensus tree, and the map of the trees."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import Seed, check_choice, check_count, check_number, check_type
from ...posterior.base import Posterior
from ...posterior.sampled import SampledPosterior, draws_from
from ...posterior.trees.cells import rows_looked_at
from ...posterior.trees.consensus import ConsensusTree
from ...posterior.trees.distances import KINDS, TreeDistances, classical_scaling, row_counts, spaced
from ...posterior.trees.representatives import Mode, Modes
from ...table.words import count_text
from ...tree.arrays import LEAF
from ...tree.coded import leaves_of_units
from ...tree.tree import Tree
from . import style
from .style import COLORS, color_of
from .tree import FONT, GAP, LINE, MARGIN, PADDING, Canvas, class_words, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_NAMED = len(COLORS) - 2
"""Number of features with a colour of their own in a forest; all others are grey."""
GREY = COLORS[-1]
LETTERS = 36
"""Largest number of letters of a name in a legend."""
BOX, REST = 1.75, 2.0 * LINE + 2.0 * PADDING
"""Inches: width of a node of a consensus tree with the gap to the next, height of a box of other rows."""
BLUE, SHADE = (0.0, 0.45, 0.7), 0.45
"""Colour of a certain node of a consensus tree, and its opacity."""
SHAPES = "os^DvP*X"
"""Markers of modes, as many as there are at most."""


def plot_forest(
    posterior: Posterior, ax: Axes | None = None, *, n_trees: int = 200, alpha: float | None = None, rng: Seed = 0
) -> Axes:
    """Draw many trees over one another, translucent: what most trees have in common is dark.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    n_trees : int, default 200
        Number of draws shown, evenly spaced, or drawn from a posterior that is not sampled.
    alpha : float, optional
        Opacity of an edge, in (0, 1]. Default: 3 / sqrt(number of draws shown), at most 0.8.
    rng : int, SeedSequence, Generator or None, default 0
        Source of randomness for those draws.

    Returns
    -------
    matplotlib Axes
        Nodes at their depth; across, the mean position of their training rows, which are sorted by the leaves of the
        most probable tree, from left to right. Edges have the colour of the feature that their upper node splits on;
        the six most frequent features are named. The thin black lines are the most probable tree.

    Raises
    ------
    ValueError
        If ``n_trees`` or ``alpha`` is out of range.

    Notes
    -----
    After DensiTree (Bouckaert 2010) for phylogenies. Empty nodes are not drawn. If there are more than 2,000 distinct
    rows, 2,000 of them determine the positions, evenly spaced.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
    >>> stump = pt.Tree([0, -1, -1], [5.5, 0, 0], [1, 0, 0], [2, 0, 0])
    >>> ax = plot_forest(pt.posterior_from_trees(model, [stump]))
    >>> ax.lines[0].get_xdata().round(2).tolist()  # from the root to the left leaf, from the root to the right one
    [0.5, 0.3, nan, 0.5, 0.8, nan]
    """
    style.check_posterior(posterior)
    check_count("n_trees", n_trees)
    if alpha is not None:
        alpha = check_number("alpha", alpha, "a number 0..1", 0.0, 1.0)
    ax = style.axes_or_new(ax, 7.0, 4.6)
    if style.has_no_draws(posterior):
        return style.say_no_draws(ax)
    from matplotlib.ticker import MaxNLocator

    post = draws_from(posterior, n_trees, rng)
    shown = post.tree_of_draw.ravel()[spaced(post.tree_of_draw.size, n_trees)]
    which, counts = np.unique(shown, return_counts=True)
    best = int(np.argmax(post.log_prior_of_tree + post.log_score_of_tree))
    edges = _edges_of(post, np.append(which, best))
    opacity = min(0.8, 3.0 / math.sqrt(len(shown))) if alpha is None else alpha
    lines = _draw_edges(ax, post, edges, np.append(counts, 0), opacity)
    ends = edges.ends[edges.tree == len(which)]
    # a NaN after each edge interrupts the line
    corners = np.concatenate([ends, np.full((len(ends), 1, 2), np.nan)], axis=1).reshape(-1, 2)
    thin: dict[str, Any] = {"color": "black", "linewidth": 1.0, "marker": "o", "markersize": 3, "alpha": 0.9}
    lines += ax.plot(*corners.T, label="most probable tree", **thin)
    across = "fraction of the training rows, in the order of the leaves of the most probable tree"
    ax.set(xlim=(-0.02, 1.02), ylim=(edges.depth + 0.3, -0.3), xlabel=across, ylabel="depth")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_title(f"{len(shown)} draws, {len(which)} different trees", fontsize="medium")
    names = [str(line.get_label()) for line in lines]
    style.legend_below(ax, lines, names, title="edges by the feature of the split above", ncols=2)
    return ax


class Edges(NamedTuple):
    """Edges between nodes with training rows, of several trees."""

    ends: np.ndarray
    """(m, 2, 2): mean position of the rows and depth, of the upper and the lower node."""
    tree: np.ndarray
    """(m,) int64: number of the tree."""
    feature: np.ndarray
    """(m,) int64: feature that the upper node splits on."""
    depth: int
    """Depth of the deepest tree."""


def _edges_of(post: SampledPosterior, which: np.ndarray) -> Edges:
    """Return the edges of the distinct trees ``which``, with rows sorted by the leaves of the last of them."""
    trees, units = post.coded_trees.take(which), rows_looked_at(post.model)[0]
    tree = np.repeat(np.arange(len(which)), np.diff(trees.offset))
    first = trees.offset[tree]
    leaf, rows = leaves_of_units(trees, post.model.units.codes, units), row_counts(post.model, units)
    # leaves are numbered from left to right, so their numbers sort rows; the mean over the trees decides among equals
    order = np.lexsort(((leaf - trees.offset[:-1]).mean(axis=1), leaf[:, -1]))
    position = np.empty(len(rows))
    position[order] = (np.cumsum(rows[order]) - rows[order] / 2.0) / rows.sum()
    n = len(tree)
    n_rows, position_sum = np.zeros(n), np.zeros(n)
    for column in leaf.T:
        n_rows += np.bincount(column, weights=rows, minlength=n)
        position_sum += np.bincount(column, weights=rows * position, minlength=n)
    inner = np.flatnonzero(trees.feature != LEAF)
    parent, depth = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    left, right = inner + 1, first[inner] + trees.right[inner]
    parent[left] = parent[right] = inner
    # nodes are in preorder: parents come before their children
    for i, low, high in zip(inner.tolist(), left.tolist(), right.tolist(), strict=True):
        depth[low] = depth[high] = depth[i] + 1
    for i, low, high in zip(inner[::-1].tolist(), left[::-1].tolist(), right[::-1].tolist(), strict=True):
        for sums in (n_rows, position_sum):
            sums[i] = sums[low] + sums[high]
    below = np.sort(np.concatenate([left, right]))
    below = below[n_rows[below] > 0.0]
    with np.errstate(invalid="ignore"):
        place = np.column_stack([position_sum / n_rows, depth])
    above = parent[below]
    feature = post.model.columns.source[trees.feature[above]]
    return Edges(np.stack([place[above], place[below]], axis=1), tree[below], feature, int(depth.max()))


def _draw_edges(ax: Axes, post: SampledPosterior, edges: Edges, counts: np.ndarray, opacity: float) -> list[Any]:
    """Draw the edges of trees that were drawn ``counts`` times, and return the lines of the legend."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D

    n_draws = counts[edges.tree]
    drawn = n_draws > 0
    weight = np.bincount(edges.feature[drawn], n_draws[drawn], post.model.n_features)
    frequent = np.argsort(-weight, kind="stable")[:N_NAMED]
    frequent = frequent[weight[frequent] > 0.0]
    color = np.tile(to_rgba(GREY), (post.model.n_features, 1))
    for k, name in zip(frequent, COLORS, strict=False):
        color[k] = to_rgba(name)
    colors = color[edges.feature[drawn]]
    # the opacity of as many edges over one another
    colors[:, 3] = 1.0 - (1.0 - opacity) ** n_draws[drawn]
    ax.add_collection(LineCollection(edges.ends[drawn], colors=colors, linewidths=1.4, capstyle="round"))
    names = [style.shortened(post.model.columns.names[k], LETTERS) for k in frequent]
    lines = [Line2D([], [], color=color[k], linewidth=2.5, label=x) for k, x in zip(frequent, names, strict=True)]
    n_others = int((weight > 0.0).sum()) - len(frequent)
    if n_others:
        lines.append(Line2D([], [], color=GREY, linewidth=2.5, label=f"{n_others} other features"))
    return lines


def plot_consensus(tree: ConsensusTree | Posterior, ax: Axes | None = None, *, min_support: float = 0.5) -> Axes:
    """Draw the consensus tree: the cells that most trees have, with the probability of each.

    Parameters
    ----------
    tree : ConsensusTree or Posterior
        What `Posterior.consensus_tree` returns, or a posterior, which is asked for it.
    ax : matplotlib Axes, optional
        The drawing, text included, is scaled down to it. Default: a new figure, large enough to read all text.
    min_support : float, default 0.5
        For a posterior: cells must be more probable than this; in [0.5, 1].

    Returns
    -------
    matplotlib Axes
        A box for each node: the conditions that lead to it from the node above, its support, its training rows, and
        what a leaf with these rows predicts. The more probable, the darker the box and the thicker the edge. A node has
        more than two children if most trees split it further, but not by one split; rows in none of its children are in
        a dashed box.

    Raises
    ------
    TypeError, ValueError
        If ``tree`` is neither, the posterior has no draws, or ``min_support`` is out of range.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
    >>> [text.get_text().split()[0] for text in plot_consensus(truth).texts]
    ['all', 'x0', 'x0']
    """
    title = "consensus tree"
    if isinstance(tree, Posterior):
        if style.has_no_draws(tree):
            return style.say_no_draws(style.axes_or_new(ax, 5.0, 3.4))
        tree, title = tree.consensus_tree(min_support), f"cells in more than {100.0 * min_support:.3g}% of the trees"
    check_type("tree", tree, ConsensusTree, "what consensus_tree() returns, or a posterior")
    ax = _draw_consensus(tree, ax)
    ax.set_title(title if len(tree.words) > 1 else f"{title}: only the cell of all rows", fontsize=FONT + 1.0)
    return ax


def _draw_consensus(tree: ConsensusTree, ax: Axes | None) -> Axes:
    """Draw the boxes of a consensus tree: nodes without children side by side, the others above their children."""
    lines = [_node_lines(tree, i) for i in range(len(tree.words))]
    height = np.array([len(text) for text in lines]) * LINE + 2.0 * PADDING
    level = height.max() + GAP
    top = -tree.depth * level
    x, x_rest, n_slots = _columns(tree)
    rest = np.flatnonzero(tree.rest > 0.0).tolist()
    low = min([*(top - height), *(top[i] - level - REST for i in rest)])
    size = (max(n_slots, 2) * BOX + 2.0 * MARGIN, 2.0 * MARGIN - low)
    canvas = Canvas(ax, size, np.array([n_slots * BOX / 2.0, low / 2.0]))

    def edge(parent: int, to_x: float, to_y: float, support: float, sign: str) -> None:
        width = (0.6 + 3.4 * max(2.0 * support - 1.0, 0.0)) * canvas.scale
        ends = [x[parent], to_x], [top[parent] - height[parent], to_y]
        canvas.ax.plot(*ends, sign, color="0.45", linewidth=width, zorder=0)

    for i in rest:
        edge(i, x_rest[i], top[i] - level, 0.0, "--")
        text = f"{count_text(float(tree.rest[i]))}\nin no child"
        canvas.text_box(x_rest[i], top[i] - level, BOX - 0.15, REST, text, "none", linestyle="--")
    for i, node_lines in enumerate(lines):
        support = float(tree.support[i])
        if i > 0:
            edge(int(tree.parent[i]), x[i], top[i], support, "-")
        # from one half, which every cell exceeds, to certainty
        certainty = max(2.0 * support - 1.0, 0.0)
        color = tuple(1.0 - SHADE * certainty * (1.0 - part) for part in BLUE)
        canvas.text_box(x[i], top[i], BOX - 0.15, height[i], "\n".join(node_lines), color)
    return canvas.ax


def _columns(tree: ConsensusTree) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the middles of the nodes and of the boxes of their other rows, in inches, and the number of slots."""
    x, x_rest, n_slots = np.zeros(len(tree.words)), np.zeros(len(tree.words)), 0

    def place(node: int) -> float:
        nonlocal n_slots
        below = [place(child) for child in tree.children(node)]
        if tree.rest[node] > 0.0 or not below:
            n_slots += 1
            x_rest[node] = (n_slots - 0.5) * BOX
            below.append(x_rest[node])
        x[node] = (below[0] + below[-1]) / 2.0
        return float(x[node])

    place(0)
    return x, x_rest, n_slots


def _node_lines(tree: ConsensusTree, node: int) -> list[str]:
    """Return the conditions of a node in a few lines, its support, its rows, and its prediction."""
    lines = wrapped(tree.words[node], 24, 4)
    lines += [f"support {tree.support[node]:.2f}"] * (node > 0) + [count_text(float(tree.rows[node]))]
    if tree.value is None:
        return lines + [line for text in tree.said[node] for line in textwrap.wrap(text, 24)]
    if tree.classes is None:
        return [*lines, *tree.said[node]]
    best = int(np.argmax(tree.value[node]))
    return [*lines, f"{class_words(tree.classes.tolist()[best])}: {tree.value[node][best]:.2f}"]


def plot_tree_space(
    posterior: Posterior, ax: Axes | None = None, *, distance: str = "cells", draws: int = 400, rng: Seed = 0
) -> Axes:
    """Draw a map of the trees: draws whose trees are alike are near each other.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact; of a sampled one 400 draws are shown, evenly spaced.
    ax
        As for `plot_forest`.
    distance : {"cells", "partitions", "predictions"}, default "cells"
        As of `SampledPosterior.tree_distances`; for cells its root, which is Euclidean.
    draws : int, default 400
        Number of trees drawn from a posterior that is not sampled.
    rng
        As for `plot_forest`.

    Returns
    -------
    matplotlib Axes
        A marker for each distinct tree of each chain, larger if more of the draws shown are this tree, in the colour
        of the chain and the shape of its mode (`Posterior.modes`). The typical tree of each mode has the number of the
        mode; the legend names it by its root and its leaves, with the mass of the mode.

    Raises
    ------
    ValueError
        If an argument is out of range, or the leaf predicts nothing and ``distance`` is "predictions".

    Notes
    -----
    Classical scaling (Torgerson 1952). The labels of the axes have the part of the spread that each shows: with a small
    part, trees that are far apart may be close on the map.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
    >>> stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
    >>> plot_tree_space(pt.posterior_from_trees(model, stumps, [[0, 1, 1]])).get_xlabel()
    'axis 1 (100% of the spread)'
    """
    style.check_posterior(posterior)
    check_choice("distance", distance, KINDS)
    if style.has_no_draws(posterior):
        return style.say_no_draws(style.axes_or_new(ax, 6.4, 4.6))
    post = draws_from(posterior, draws, rng, that_predict=distance == "predictions")
    distances, modes = post.tree_distances(kind=distance), post.modes(distance)
    place, part = classical_scaling(distances.matrix if distance == "cells" else distances.matrix**2)
    mode_of_draw = modes.of_draw[distances.chain, distances.draw]
    ax = style.axes_or_new(ax, 6.4, 4.6)
    _draw_trees(ax, distances, place, mode_of_draw)
    for i, mode in enumerate(modes.modes):
        at = place[_typical_draw(post, mode, distances, mode_of_draw == i)]
        frame: dict[str, Any] = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": "black", "alpha": 0.9}
        line: dict[str, Any] = {"arrowstyle": "-", "color": "black", "linewidth": 0.8, "shrinkB": 0.0}
        beside: dict[str, Any] = {"xytext": (13, 13), "textcoords": "offset points", "ha": "center", "va": "center"}
        ax.annotate(str(i), at, fontsize="small", bbox=frame, arrowprops=line, zorder=5, **beside)
    _draw_legend(ax, post, modes)
    n = len(np.unique(distances.tree))
    ax.set_title(f"{len(distances.tree)} draws, {n} different trees, by their {distance}", fontsize="medium")
    for name, axis, fraction in zip((1, 2), (ax.xaxis, ax.yaxis), part, strict=True):
        axis.set_label_text(f"axis {name} ({100.0 * fraction:.0f}% of the spread)")
    ax.margins(0.08)
    ax.set_aspect("equal", adjustable="datalim")
    return ax


def _draw_trees(ax: Axes, distances: TreeDistances, place: np.ndarray, mode_of_draw: np.ndarray) -> None:
    """Draw a marker for each distinct tree of each chain."""
    key = np.column_stack([distances.chain, distances.tree])
    _, first, counts = np.unique(key, axis=0, return_index=True, return_counts=True)
    chain, mode, size = distances.chain[first], mode_of_draw[first], 18.0 * np.sqrt(counts)
    for c, k in np.unique(np.column_stack([chain, mode]), axis=0).tolist():
        here = (chain == c) & (mode == k)
        look: dict[str, Any] = {"color": color_of(c), "marker": SHAPES[k % len(SHAPES)], "alpha": 0.55}
        x, y = place[first[here]].T
        ax.scatter(x, y, s=size[here], linewidths=0.0, **look)


def _typical_draw(post: SampledPosterior, mode: Mode, distances: TreeDistances, inside: np.ndarray) -> int:
    """Return the place, among the draws shown, of the typical tree of a mode."""
    for t in np.unique(distances.tree[inside]).tolist():
        if post.distinct_tree(t) == mode.tree:
            return int(np.argmax(distances.tree == t))
    raise AssertionError("the typical tree is one of the draws that clusters are made of")


def _draw_legend(ax: Axes, post: SampledPosterior, modes: Modes) -> None:
    from matplotlib.lines import Line2D

    dot: dict[str, Any] = {"linestyle": "none", "markersize": 6}
    lines, names = [], []
    if 1 < post.n_chains <= style.MOST_CHAINS:
        for c in range(post.n_chains):
            lines.append(Line2D([], [], color=color_of(c), marker="o", **dot))
            names.append(f"chain {c}")
    for i, mode in enumerate(modes.modes):
        lines.append(Line2D([], [], color="0.35", marker=SHAPES[i % len(SHAPES)], **dot))
        names.append(f"{i}: {mode.mass:.0%} of the draws; {_tree_name(mode.tree)}")
    style.legend_below(ax, lines, names)


def _tree_name(tree: Tree) -> str:
    """Return the root and the number of leaves of a tree."""
    if tree.feature[0] == LEAF:
        return "no split"
    return f"{style.shortened(tree.split(0).replace(' <= ', ' ≤ '), LETTERS)}, {tree.n_leaves} leaves"
