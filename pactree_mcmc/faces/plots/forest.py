"""Many trees in one picture: the forest of the draws, and the tree of the cells that most of them have.

Both place a node by the training rows in it, so that nodes with the same rows are in the same place in every tree.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import Seed, check_count, check_number, check_type
from ...posterior.base import Posterior
from ...posterior.sampled import SampledPosterior, draws_from
from ...posterior.trees.cells import rows_looked_at
from ...posterior.trees.consensus import ConsensusTree
from ...posterior.trees.distances import row_counts, spaced
from ...table.words import count_text
from ...tree.arrays import LEAF
from ...tree.coded import leaves_of_units
from .axes import COLORS, axes_or_new, check_posterior, has_no_draws, legend_below, say_no_draws, shortened
from .tree import FONT, GAP, LINE, MARGIN, PADDING, class_words, line_width, scaled_axes, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = len(COLORS) - 2
"""Features with a colour of their own; all others are grey."""
OTHERS = COLORS[-1]
LETTERS = 36
BOX, REST = 1.75, 2.0 * LINE + 2.0 * PADDING
"""Width of a node of a consensus tree with the gap to the next, height of a box of other rows, in inches."""
BLUE, SHADE = (0.0, 0.45, 0.7), 0.45
ACROSS = "fraction of the training rows, in the order of the leaves of the most probable tree"
COLORED = "edges by the feature of the split above"


def plot_forest(
    posterior: Posterior, ax: Axes | None = None, *, n_trees: int = 200, alpha: float | None = None, rng: Seed = 0
) -> Axes:
    """Many drawn trees over one another, translucent: what most trees have in common is dark.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    n_trees : int, default 200
        Draws shown, evenly spaced; of a posterior that is not draws, drawn from it.
    alpha : float, optional
        Opacity of an edge, in (0, 1]. Default: 3 / sqrt(number of draws shown), at most 0.8.
    rng : int, SeedSequence, Generator or None, default 0
        For those draws.

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
    After DensiTree (Bouckaert 2010) for phylogenies. Empty nodes are not drawn. Of more than 2,000 distinct rows so
    many are looked at, evenly spaced.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
    >>> stump = pt.Tree([0, -1, -1], [5.5, 0, 0], [1, 0, 0], [2, 0, 0])
    >>> ax = plot_forest(pt.posterior_from_trees(model, [stump]))
    >>> ax.lines[0].get_xdata().round(2).tolist()  # from the root to the left leaf, from the root to the right one
    [0.5, 0.3, nan, 0.5, 0.8, nan]
    """
    check_posterior(posterior)
    check_count("n_trees", n_trees)
    if alpha is not None:
        alpha = check_number("alpha", alpha, "a number 0..1", 0.0, 1.0)
    if has_no_draws(posterior):
        return say_no_draws(axes_or_new(ax, 7.0, 4.6))
    from matplotlib.ticker import MaxNLocator

    post = draws_from(posterior, n_trees, rng)
    ax = axes_or_new(ax, 7.0, 4.6)
    shown = post.tree_of_draw.ravel()[spaced(post.tree_of_draw.size, n_trees)]
    which, counts = np.unique(shown, return_counts=True)
    best = int(np.argmax(post.log_prior_of_tree + post.log_score_of_tree))
    edges = _edges_of(post, np.append(which, best))
    opacity = min(0.8, 3.0 / math.sqrt(len(shown))) if alpha is None else alpha
    own = edges.tree == len(which)
    named = _draw_edges(ax, post, edges, np.append(counts, 0), opacity)
    gaps = np.full((int(own.sum()), 1, 2), np.nan)
    way = np.concatenate([edges.ends[own], gaps], axis=1).reshape(-1, 2)
    named += ax.plot(
        *way.T, color="black", linewidth=1.0, marker="o", markersize=3, alpha=0.9, label="most probable tree"
    )
    ax.set(xlim=(-0.02, 1.02), ylim=(edges.depth + 0.3, -0.3), xlabel=ACROSS, ylabel="depth")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_title(f"{len(shown)} draws, {len(which)} different trees", fontsize="medium")
    legend_below(ax, named, [str(line.get_label()) for line in named], title=COLORED, ncols=2)
    return ax


class Edges(NamedTuple):
    """The edges between nodes of several trees that hold rows."""

    ends: np.ndarray
    """(m, 2, 2): of the upper and the lower node the mean position of the rows, and the depth."""
    tree: np.ndarray
    """(m,) int64: which of the trees."""
    feature: np.ndarray
    """(m,) int64: the feature that the upper node splits on."""
    depth: int
    """Of the deepest tree."""


def _edges_of(post: SampledPosterior, which: np.ndarray) -> Edges:
    """The edges of the distinct trees ``which``, rows sorted by the leaves of the last of them."""
    trees, units = post.coded_trees.take(which), rows_looked_at(post.model)[0]
    tree = np.repeat(np.arange(len(which)), np.diff(trees.offset))
    first = trees.offset[tree]
    leaf, rows = leaves_of_units(trees, post.model.units.codes, units), row_counts(post.model, units)
    # leaves are numbered from left to right, so their numbers sort rows; of equal ones the mean over the trees decides
    order = np.lexsort(((leaf - trees.offset[:-1]).mean(axis=1), leaf[:, -1]))
    position = np.empty(len(rows))
    position[order] = (np.cumsum(rows[order]) - rows[order] / 2.0) / rows.sum()
    n = len(tree)
    held, total = np.zeros(n), np.zeros(n)
    for column in leaf.T:
        held += np.bincount(column, weights=rows, minlength=n)
        total += np.bincount(column, weights=rows * position, minlength=n)
    inner = np.flatnonzero(trees.feature != LEAF)
    parent, depth = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    sides = inner + 1, first[inner] + trees.right[inner]
    for side in sides:
        parent[side] = inner
    for i in inner.tolist():
        depth[i + 1] = depth[first[i] + trees.right[i]] = depth[i] + 1
    for i in inner[::-1].tolist():
        for sums in (held, total):
            sums[i] = sums[i + 1] + sums[first[i] + trees.right[i]]
    below = np.sort(np.concatenate(sides))
    below = below[held[below] > 0.0]
    with np.errstate(invalid="ignore"):
        place = np.column_stack([total / held, depth])
    up = parent[below]
    feature = post.model.columns.source[trees.feature[up]]
    return Edges(np.stack([place[up], place[below]], axis=1), tree[below], feature, int(depth.max()))


def _draw_edges(ax: Axes, post: SampledPosterior, edges: Edges, counts: np.ndarray, opacity: float) -> list[Any]:
    """Edges as often as their tree is drawn; returns what the legend shows."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D

    drawn = counts[edges.tree] > 0
    weight = np.bincount(edges.feature[drawn], counts[edges.tree[drawn]], post.model.n_features)
    frequent = np.argsort(-weight, kind="stable")[:NAMED]
    frequent = frequent[weight[frequent] > 0.0]
    color = np.tile(to_rgba(OTHERS), (post.model.n_features, 1))
    color[frequent] = np.reshape([to_rgba(COLORS[i]) for i in range(len(frequent))], (-1, 4))
    shade = color[edges.feature[drawn]]
    # as dark as so many edges over one another
    shade[:, 3] = 1.0 - (1.0 - opacity) ** counts[edges.tree[drawn]]
    ax.add_collection(LineCollection(edges.ends[drawn], colors=shade, linewidths=1.4, capstyle="round"))
    named = [
        Line2D([], [], color=color[k], linewidth=2.5, label=shortened(post.model.columns.names[k], LETTERS))
        for k in frequent
    ]
    more = int((weight > 0.0).sum()) - len(frequent)
    return [*named, *([Line2D([], [], color=OTHERS, linewidth=2.5, label=f"{more} other features")] if more else [])]


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
        what a leaf with these rows predicts. The more probable, the darker the box and the thicker the edge. A node
        has more than two children where most trees split it further, but not by one split; rows in none of its children
        are in a dashed box.

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
        if has_no_draws(tree):
            return say_no_draws(axes_or_new(ax, 5.0, 3.4))
        tree, title = tree.consensus_tree(min_support), f"cells in more than {100.0 * min_support:.3g}% of the trees"
    check_type("tree", tree, ConsensusTree, "what consensus_tree() returns, or a posterior")
    ax = _Consensus(tree, ax).ax
    ax.set_title(title if len(tree.words) > 1 else f"{title}: none but the cell of all rows", fontsize=FONT + 1.0)
    return ax


class _Consensus:
    """The boxes of a consensus tree, in inches: nodes without children side by side, the others above these."""

    def __init__(self, tree: ConsensusTree, ax: Axes | None) -> None:
        m = len(tree.words)
        self.tree, self.x, self.beside, self.n_slots = tree, np.zeros(m), np.zeros(m), 0
        self.lines = [_node_lines(tree, i) for i in range(m)]
        self.tall = np.array([len(lines) for lines in self.lines]) * LINE + 2.0 * PADDING
        self.y = -tree.depth * (self.tall.max() + GAP)
        self.place(0)
        rest = np.flatnonzero(tree.rest > 0.0).tolist()
        low = min([*(self.y - self.tall), *(self.y[i] - self.tall.max() - GAP - REST for i in rest)])
        size = (max(self.n_slots, 2) * BOX + 2.0 * MARGIN, 2.0 * MARGIN - low)
        self.ax, self.scale = scaled_axes(ax, size, (self.n_slots * BOX / 2.0, low / 2.0))
        for i in rest:
            top = float(self.y[i] - self.tall.max() - GAP)
            self.edge(i, self.beside[i], top, 0.0)
            text = f"{count_text(float(tree.rest[i]))}\nin no child"
            self.box(self.beside[i], top, REST, text, "none", linestyle="--")
        for i in range(m):
            if i > 0:
                self.edge(int(tree.parent[i]), self.x[i], self.y[i], float(tree.support[i]))
            # from one half, which every cell exceeds, to certainty
            shade = tuple(1.0 - SHADE * max(2.0 * tree.support[i] - 1.0, 0.0) * (1.0 - part) for part in BLUE)
            self.box(self.x[i], self.y[i], self.tall[i], "\n".join(self.lines[i]), shade)

    def place(self, node: int) -> float:
        """Where a node goes across, after those below it."""
        below = [self.place(child) for child in self.tree.children(node)]
        if self.tree.rest[node] > 0.0 or not below:
            self.n_slots += 1
            self.beside[node] = (self.n_slots - 0.5) * BOX
            below.append(self.beside[node])
        self.x[node] = (below[0] + below[-1]) / 2.0
        return float(self.x[node])

    def edge(self, parent: int, x: float, top: float, support: float) -> None:
        """A line from the foot of a node to the top of a box below, thicker the more probable."""
        foot = self.y[parent] - self.tall[parent]
        style: dict[str, Any] = {"color": "0.45", "zorder": 0, "linestyle": "-" if support else "--"}
        width = (0.6 + 3.4 * max(2.0 * support - 1.0, 0.0)) * self.scale
        self.ax.plot([self.x[parent], x], [foot, top], linewidth=width, **style)

    def box(self, x: float, top: float, height: float, text: str, color: Any, **kwargs: Any) -> None:
        """A frame around text, made smaller if it is too wide."""
        style: dict[str, Any] = {"edgecolor": "0.55", "linewidth": 0.8 * self.scale, "facecolor": color, **kwargs}
        self.ax.bar(x, height, BOX - 0.15, top - height, **style)
        room = BOX - 0.15 - 2.0 * PADDING
        size = FONT * self.scale * min(1.0, room / max(map(text_width, text.split("\n"))))
        place: dict[str, Any] = {"ha": "center", "va": "center", "linespacing": 1.15, "parse_math": False}
        self.ax.text(x, top - height / 2.0, text, fontsize=size, **place)


def _node_lines(tree: ConsensusTree, node: int) -> list[str]:
    """The conditions of a node in a few lines, its support, rows, and the mean or the most probable class."""
    words = tree.words[node].replace(" <= ", " ≤\u00a0").replace(" > ", " >\u00a0")
    lines = [
        line.replace("\u00a0", " ")
        for line in textwrap.wrap(words, line_width(words, 24), max_lines=4, placeholder=" ...")
    ]
    lines += [f"support {tree.support[node]:.2f}"] * (node > 0) + [count_text(float(tree.rows[node]))]
    if tree.value is not None:
        value = tree.value[node]
        best = int(np.argmax(value))
        labels = [] if tree.classes is None else tree.classes.tolist()
        return [*lines, f"{class_words(labels[best])}: {value[best]:.2f}"] if labels else [*lines, *tree.said[node]]
    return lines + [line for text in tree.said[node] for line in textwrap.wrap(text, 24)]
