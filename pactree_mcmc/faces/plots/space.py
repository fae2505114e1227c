"""The map of tree space: draws placed by the distances between their trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import Seed, check_choice
from ...posterior.base import Posterior
from ...posterior.sampled import draws_from
from ...posterior.trees.distances import KINDS, TreeDistances, classical_scaling
from ...posterior.trees.modes import Mode, Modes
from ...tree.arrays import LEAF
from ...tree.tree import Tree
from .axes import (
    MOST_CHAINS,
    axes_or_new,
    check_posterior,
    color_of,
    has_no_draws,
    legend_below,
    say_no_draws,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...posterior.sampled import SampledPosterior

SHAPES = "os^DvP*X"
"""Markers of modes, as many as there are at most."""
LETTERS = 36


def plot_tree_space(
    posterior: Posterior, ax: Axes | None = None, *, distance: str = "cells", draws: int = 400, rng: Seed = 0
) -> Axes:
    """Map of the trees: draws whose trees are alike are near each other.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact; of a sampled one 400 draws are shown, evenly spaced.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    distance : {"cells", "partitions", "predictions"}, default "cells"
        As of `SampledPosterior.tree_distances`; for cells its root, which is Euclidean.
    draws : int, default 400
        Trees drawn from a posterior that is not draws.
    rng : int, SeedSequence, Generator or None, default 0
        For those draws.

    Returns
    -------
    matplotlib Axes
        A marker for each distinct tree of each chain, larger where more of the draws shown are this tree, in the colour
        of the chain and the shape of its mode (`Posterior.modes`). The typical tree of each mode has the number of the
        mode; the legend names it by its root and its leaves, with the mass of the mode.

    Raises
    ------
    ValueError
        If an argument is out of range, or the leaf predicts nothing and ``distance`` is "predictions".

    Notes
    -----
    Classical scaling (Torgerson 1952). The labels of the axes have the part of the spread that each shows: with a small
    part, trees that are far apart may lie together on the map.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
    >>> stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
    >>> plot_tree_space(pt.posterior_from_trees(model, stumps, [[0, 1, 1]])).get_xlabel()
    'axis 1 (100% of the spread)'
    """
    check_posterior(posterior)
    check_choice("distance", distance, KINDS)
    if has_no_draws(posterior):
        return say_no_draws(axes_or_new(ax, 6.4, 4.6))
    post = draws_from(posterior, draws, rng, that_predict=distance == "predictions")
    found, modes = post.tree_distances(kind=distance), post.modes(distance)
    place, part = classical_scaling(found.matrix if distance == "cells" else found.matrix**2)
    ax = axes_or_new(ax, 6.4, 4.6)
    of_mode = modes.of_draw[found.chain, found.draw]
    _draw_places(ax, found, place, of_mode)
    for i, mode in enumerate(modes.modes):
        at = place[_middle_of(post, mode, found, of_mode == i)]
        style: dict[str, Any] = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": "black", "alpha": 0.9}
        line: dict[str, Any] = {"arrowstyle": "-", "color": "black", "linewidth": 0.8, "shrinkB": 0.0}
        away: dict[str, Any] = {"xytext": (13, 13), "textcoords": "offset points", "ha": "center", "va": "center"}
        ax.annotate(str(i), at, fontsize="small", bbox=style, arrowprops=line, zorder=5, **away)
    _draw_legend(ax, post, modes)
    n = len(np.unique(found.tree))
    ax.set_title(f"{len(found.tree)} draws, {n} different trees, by their {distance}", fontsize="medium")
    for name, axis, fraction in zip((1, 2), (ax.xaxis, ax.yaxis), part, strict=True):
        axis.set_label_text(f"axis {name} ({100.0 * fraction:.0f}% of the spread)")
    ax.margins(0.08)
    ax.set_aspect("equal", adjustable="datalim")
    return ax


def _draw_places(ax: Axes, found: TreeDistances, place: np.ndarray, of_mode: np.ndarray) -> None:
    """A marker for each distinct tree of each chain."""
    key = np.column_stack([found.chain, found.tree])
    _, first, counts = np.unique(key, axis=0, return_index=True, return_counts=True)
    size = 18.0 * np.sqrt(counts)
    for chain in np.unique(found.chain).tolist():
        for mode in np.unique(of_mode).tolist():
            here = (found.chain[first] == chain) & (of_mode[first] == mode)
            if here.any():
                style: dict[str, Any] = {"color": color_of(chain), "marker": SHAPES[mode % len(SHAPES)], "alpha": 0.55}
                ax.scatter(place[first[here], 0], place[first[here], 1], s=size[here], linewidths=0.0, **style)


def _middle_of(post: SampledPosterior, mode: Mode, found: TreeDistances, inside: np.ndarray) -> int:
    """Which of the draws shown is the typical tree of a mode."""
    for t in np.unique(found.tree[inside]).tolist():
        if post.distinct_tree(t) == mode.tree:
            return int(np.argmax(found.tree == t))
    raise AssertionError("the typical tree is one of the draws that clusters are made of")


def _draw_legend(ax: Axes, post: SampledPosterior, modes: Modes) -> None:
    from matplotlib.lines import Line2D

    dot: dict[str, Any] = {"linestyle": "none", "markersize": 6}
    lines, names = [], []
    if 1 < post.n_chains <= MOST_CHAINS:
        for c in range(post.n_chains):
            lines.append(Line2D([], [], color=color_of(c), marker="o", **dot))
            names.append(f"chain {c}")
    for i, mode in enumerate(modes.modes):
        lines.append(Line2D([], [], color="0.35", marker=SHAPES[i % len(SHAPES)], **dot))
        names.append(f"{i}: {mode.mass:.0%} of the draws; {name_of_tree(mode.tree)}")
    legend_below(ax, lines, names)


def name_of_tree(tree: Tree) -> str:
    """A tree in a few words: its root and its number of leaves."""
    if tree.feature[0] == LEAF:
        return "no split"
    return f"{shortened(tree.split(0).replace(' <= ', ' ≤ '), LETTERS)}, {tree.n_leaves} leaves"
