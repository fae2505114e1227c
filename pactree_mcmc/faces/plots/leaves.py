"""A tree with the training rows of each leaf below it: bars of classes, or histograms of y."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...core.checks import check_count, check_type
from ...model import TreeModel
from ...model.leaf.survival import SurvivalLeaf
from ...posterior.base import Posterior
from ...table.words import count_text, figure, figures
from ...tree.arrays import leaves_reached
from ...tree.tree import Tree, stack_trees
from .axes import axes_or_new, check_posterior, color_of, has_no_draws, numbers_of_rows, say_no_draws
from .plane import unit_of
from .tree import FONT, SLOT, Drawing, most_probable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL, WIDTH = 1.1, 0.8 * SLOT
"""Height and width of the panel of a leaf in inches."""
SIDE = 0.45
"""Room for an axis in inches."""


def plot_leaves(
    posterior: Posterior, ax: Axes | None = None, *, tree: Tree | None = None, n_bins: int = 15, output: int = 0
) -> Axes:
    """Draw a tree and, below each leaf, the training rows in it.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact; its model has the rows.
    ax : matplotlib Axes, optional
        The drawing is scaled down to it. Default: a new figure, large enough to read all text.
    tree : Tree, optional
        Default: the most probable one, with a title that says so and how probable it is.
    n_bins : int, default 15
        Bins of the histograms of a regression.
    output : int, default 0
        The column of y that is shown if it has several outputs; of times to an event always the time.

    Returns
    -------
    matplotlib Axes
        A classification: in each leaf a bar for each class, as high as the rows of this class in the leaf are many, on
        one scale for all leaves; below them the most probable class, its probability and the number of rows. A
        regression: below the mean a histogram of y that lies on its side, with one axis of y and one scale of counts
        for all leaves, and a line at the mean. Of times to an event the censored ones are a lighter part of each bar,
        behind the events. Rows count with their weights.

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
    check_posterior(posterior)
    check_count("n_bins", n_bins)
    model = posterior.model
    values = model.target.values.reshape(model.n_rows, -1)
    censored = None
    if isinstance(model.leaf, SurvivalLeaf):
        values, censored = values[:, :1], values[:, 1] == 0.0
    output = check_count("output", output, 0, values.shape[1] - 1)
    if tree is not None:
        check_type("tree", tree, Tree, "a Tree, or leave it out for the most probable one")
        if tree.feature.max() >= model.n_features:
            raise ValueError(f"tree splits on feature {tree.feature.max()}; the model has {model.n_features} features.")
    elif has_no_draws(posterior):
        return say_no_draws(axes_or_new(ax, 5.0, 3.4))
    shown, title = most_probable(posterior) if tree is None else (tree, "")
    leaf = leaves_reached(stack_trees([shown]), numbers_of_rows(model, np.arange(model.n_rows)))[:, 0]
    drawing = Drawing(_with_rows(shown, model, leaf), ax, panel=PANEL, side=SIDE)
    for node in drawing.inner.tolist():
        drawing.draw_split(node)
    if model.classes_ is not None:
        counts = _counts(leaf, model.target.values, drawing.leaves, len(model.classes_), model.target.weights)
        most = max(float(counts.max()), np.finfo(np.float64).tiny)
        drawing.draw_classes(counts / most, PANEL)
        top = drawing.y[drawing.leaves[0]]
        for height, text in ((top, f"{figure(most, 4)}\nrows"), (top - PANEL, "0")):
            drawing.text(SIDE, height, text, SIDE, ha="right", va="top" if height == top else "bottom")
    else:
        drawing.draw_means()
        _draw_histograms(drawing, leaf, values[:, output], output, model.target.weights, n_bins, censored)
    drawing.ax.set_title(title, fontsize=FONT + 1.0)
    return drawing.ax


def _with_rows(tree: Tree, model: TreeModel, leaf: np.ndarray) -> Tree:
    """The tree with the training rows of the model and, if it predicts nothing else, what these have on average."""
    weight, y = model.target.weights, model.target.values
    given = np.eye(len(model.classes_))[y] if model.classes_ is not None else y.reshape(len(y), -1)
    rows = np.bincount(leaf, weight, tree.n_nodes)
    sums = np.column_stack([np.bincount(leaf, weight * column, tree.n_nodes) for column in given.T])
    for node in np.flatnonzero(tree.feature >= 0)[::-1].tolist():
        rows[node] = rows[tree.left[node]] + rows[tree.right[node]]
        sums[node] = sums[tree.left[node]] + sums[tree.right[node]]
    fits = tree.value is not None and (model.classes_ is None or tree.value.shape[1] == given.shape[1])
    value = tree.value if fits else sums / np.maximum(rows, np.finfo(np.float64).tiny)[:, None]
    return replace(tree, rows=rows, value=value, classes=model.classes_, columns=model.columns)


def _counts(leaf: np.ndarray, group: np.ndarray, leaves: np.ndarray, n: int, weight: np.ndarray) -> np.ndarray:
    """Weight of the rows of each ``group`` in each of the ``leaves``: (n_leaves, n)."""
    place = np.searchsorted(leaves, leaf)
    return np.bincount(place * n + group, weight, len(leaves) * n).reshape(len(leaves), n)


def _draw_histograms(
    drawing: Drawing,
    leaf: np.ndarray,
    y: np.ndarray,
    output: int,
    weight: np.ndarray,
    n_bins: int,
    censored: np.ndarray | None,
) -> None:
    """Draw histograms of y on their side, below the leaves, with one axis of y at the left."""
    unit = unit_of(y)
    y = y / unit
    low, high = float(y.min()), float(y.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, n_bins + 1)
    group = np.clip(np.searchsorted(edges, y, side="right") - 1, 0, n_bins - 1)
    counts = _counts(leaf, group, drawing.leaves, n_bins, weight)
    seen = counts if censored is None else _counts(leaf, group, drawing.leaves, n_bins, weight * ~censored)
    longest = max(float(counts.max()), np.finfo(np.float64).tiny)
    tall, step = PANEL - 0.1, (PANEL - 0.1) / n_bins
    assert drawing.tree.value is not None
    bottom = drawing.y[drawing.leaves[0]] - drawing.leaf_height - PANEL
    for i, node in enumerate(drawing.leaves.tolist()):
        left = drawing.x[node] - WIDTH / 2.0
        drawing.bars(left + WIDTH / 2.0, bottom, WIDTH, tall, "none", edgecolor="0.7")
        lengths, place = seen[i] / longest * WIDTH, bottom + (np.arange(n_bins) + 0.5) * step
        drawing.ax.barh(place, lengths, 0.9 * step, left, color=color_of(0), linewidth=0.0)
        rest = (counts[i] - seen[i]) / longest * WIDTH
        drawing.ax.barh(place, rest, 0.9 * step, left + lengths, color=color_of(0), alpha=0.35, linewidth=0.0)
        mean = (np.clip(drawing.tree.value[node, output] / unit, low, high) - low) / (high - low)
        drawing.ax.plot([left, left + WIDTH], [bottom + mean * tall] * 2, color=color_of(3), linewidth=1.2)
    ends = (low, (low + high) / 2.0, high)
    for y_shown, text in zip(ends, figures([end * unit for end in ends], 3), strict=True):
        height = bottom + (y_shown - low) / (high - low) * tall
        drawing.text(SIDE, height, text, SIDE, ha="right")
    left = drawing.x[drawing.leaves[0]] - WIDTH / 2.0
    said = f"longest bar: {count_text(longest)}" + ("" if censored is None else "; light: censored")
    drawing.text(left, bottom - 0.03, said, ha="left", va="top", color="0.35")
