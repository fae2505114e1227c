"""Pictures of trees and posteriors; every function takes axes and returns them.

Drawings of trees are laid out in inches at ``FONT`` points: leaves stand side by side in slots of equal width, and a
question is at most two slots wide. The middle of an internal node keeps at least a slot from the ends of its subtree,
so that no two boxes can overlap, whatever the tree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .inference_data import by_draw, ess, rhat
from .posterior import SampledPosterior
from .trees import LEAF, Tree

if TYPE_CHECKING:
    from .posterior import Posterior

FONT = 8.0
LINE = 0.145
SLOT = 0.8
QUESTION = 2.0 * SLOT - 0.1
PADDING = 0.06
GAP = 0.4
BARS = 0.36
BAND = 0.26
MARGIN = 0.15
NEGLIGIBLE = 1e-4
MOST_COLORS = 20


def plot_tree(tree: Tree, ax: Any = None, max_depth: int | None = None) -> Any:
    """Draw a tree: questions in the nodes, yes to the left, no to the right.

    A leaf shows its class probabilities as bars, with the most probable class and its probability, or its mean.

    Parameters
    ----------
    tree : Tree
        Any tree; leaves without values are drawn empty.
    ax : matplotlib Axes, optional
        The drawing, text included, is scaled down to it. Default: a new figure large enough for 8 point text.
    max_depth : int, optional
        Subtrees below this depth are drawn as "..." and their number of leaves.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If ``max_depth`` is negative or no integer.

    Examples
    --------
    >>> ax = plot_tree(Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]))
    >>> ax.texts[0].get_text()
    'x0 ≤ 2.5'
    """
    if max_depth is not None:
        _check_count("max_depth", max_depth, 0)
    layout = _Layout(tree, max_depth)
    pen = _Pen(layout.box, ax)
    for node in layout.inner:
        _draw_question(pen, layout, int(node))
    for node in layout.cut:
        n = int(layout.n_leaves[node])
        _draw_box(pen, layout, int(node), f"...\n{n} leaves", 2.0 * LINE, linestyle="--", facecolor="none")
    if tree.value is None:
        for node in layout.leaves:
            _draw_box(pen, layout, int(node), "leaf", LINE, facecolor="none")
    elif tree.value.shape[1] == 1 and tree.classes is None:
        _draw_means(pen, layout)
    else:
        _draw_classes(pen, layout)
    pen.ax.set_axis_off()
    return pen.ax


class _Layout:
    """Where the visible nodes of a tree go, in inches; y is the top of a node's box."""

    def __init__(self, tree: Tree, max_depth: int | None) -> None:
        self.tree = tree
        depth = tree.node_depth
        inner, cut = tree.feature != LEAF, np.zeros(tree.n_nodes, dtype=bool)
        visible = np.ones(tree.n_nodes, dtype=bool)
        if max_depth is not None:
            visible, cut = depth <= max_depth, inner & (depth == max_depth)
        self.n_leaves = np.ones(tree.n_nodes, dtype=np.int64)
        self.x = np.zeros(tree.n_nodes)
        slots = visible & (cut | ~inner)
        self.x[slots] = (np.arange(slots.sum()) + 0.5) * SLOT
        self.inner, self.cut, self.leaves = (np.flatnonzero(m) for m in (visible & inner & ~cut, cut, visible & ~inner))
        for i in np.flatnonzero(inner)[::-1]:
            self.n_leaves[i] = self.n_leaves[tree.left[i]] + self.n_leaves[tree.right[i]]
        for i in self.inner[::-1]:
            self.x[i] = (self.x[tree.left[i]] + self.x[tree.right[i]]) / 2.0
        self.lines = {int(i): _question_lines(tree, int(i)) for i in self.inner}
        self.question_height = max(map(len, self.lines.values()), default=0) * LINE + 2.0 * PADDING
        self.y = -depth * (self.question_height + GAP)
        self.labels = _class_labels(tree)
        self.legend = _Legend(self.labels, max(slots.sum(), 3) * SLOT)
        lowest = float(self.y[visible].min()) - (BARS + 2.0 * LINE + PADDING if self.labels else 2.0 * LINE + PADDING)
        self.legend_top = lowest - GAP / 2.0
        bottom = self.legend_top - self.legend.height if self.legend.height else lowest
        middle, width = slots.sum() * SLOT / 2.0, max(slots.sum() * SLOT, self.legend.width, QUESTION)
        self.box = (middle - width / 2.0, middle + width / 2.0, bottom, 0.0)


class _Legend:
    """Columns of class labels that fit a width, in inches; nothing when there are too many classes for colours."""

    def __init__(self, labels: list[str], width: float) -> None:
        self.labels = [_shortened(label, 30) for label in labels] if len(labels) <= MOST_COLORS else []
        self.column = max(map(_text_width, self.labels), default=0.0) + 0.4
        self.n_columns = max(1, min(len(self.labels), int(width / self.column)))
        self.height = math.ceil(len(self.labels) / self.n_columns) * 1.2 * LINE
        self.width = self.n_columns * self.column if self.labels else 0.0


class _Pen:
    """Axes in which a unit is an inch, times ``scale``."""

    def __init__(self, box: tuple[float, float, float, float], ax: Any) -> None:
        import matplotlib.pyplot as plt

        left, right, bottom, top = box
        need = np.array([right - left, top - bottom]) + 2.0 * MARGIN
        if ax is None:
            title = 0.3
            figure = plt.figure(figsize=(need[0], need[1] + title))
            ax = figure.add_axes((0.0, 0.0, 1.0, need[1] / (need[1] + title)))
        extent = ax.get_window_extent()
        size = np.array([extent.width, extent.height]) / ax.get_figure().dpi
        self.ax, self.scale = ax, min(1.0, float((size / need).min()))
        half, middle = size / self.scale / 2.0, ((left + right) / 2.0, (bottom + top) / 2.0)
        ax.set_xlim(middle[0] - half[0], middle[0] + half[0])
        ax.set_ylim(middle[1] - half[1], middle[1] + half[1])
        ax.set_aspect("equal")

    def text(self, x: float, y: float, text: str, **kwargs: Any) -> None:
        """Text centred at a point unless told otherwise; a dollar sign is one."""
        options = {"ha": "center", "va": "center", "fontsize": FONT, "linespacing": 1.15, **kwargs}
        options["fontsize"] *= self.scale
        self.ax.text(x, y, text, parse_math=False, **options)

    def rectangles(self, corners: np.ndarray, **kwargs: Any) -> None:
        """Rectangles given as (m, 4): left, bottom, width, height."""
        from matplotlib.collections import PolyCollection

        x, y, w, h = np.asarray(corners, dtype=np.float64).reshape(-1, 4).T
        shape = np.array([[x, y], [x + w, y], [x + w, y + h], [x, y + h]]).transpose(2, 0, 1)
        self.ax.add_collection(PolyCollection(shape, **kwargs), autolim=False)

    def line(self, x: list[float], y: list[float]) -> None:
        """A grey line."""
        self.ax.plot(x, y, color="0.55", linewidth=0.9 * self.scale, solid_joinstyle="round", zorder=0)


def _draw_question(pen: _Pen, layout: _Layout, node: int) -> None:
    """The box of an internal node, and the elbows to its children with their answers."""
    tree, x, top = layout.tree, layout.x[node], layout.y[node]
    height = layout.question_height
    text = "\n".join(layout.lines[node])
    _draw_box(pen, layout, node, text, height - 2.0 * PADDING, width=QUESTION, facecolor="0.95")
    bend = top - height - GAP / 2.0
    pen.line([x, x], [top - height, bend])
    for child, answer, side in ((tree.left[node], "yes", "right"), (tree.right[node], "no", "left")):
        pen.line([x, layout.x[child], layout.x[child]], [bend, bend, layout.y[child]])
        shift = -0.04 if side == "right" else 0.04
        pen.text(x + shift, bend + 0.02, answer, ha=side, va="bottom", fontsize=0.85 * FONT, color="0.35")


def _draw_box(
    pen: _Pen, layout: _Layout, node: int, text: str, inside: float, width: float = 0.9 * SLOT, **kwargs: Any
) -> None:
    """A frame around text of height ``inside``, hanging from the node's place."""
    x, top, height = layout.x[node], layout.y[node], inside + 2.0 * PADDING
    style = {"edgecolor": "0.55", "linewidth": 0.8 * pen.scale, **kwargs}
    pen.rectangles([x - width / 2.0, top - height, width, height], **style)
    pen.text(x, top - height / 2.0, text)


def _draw_means(pen: _Pen, layout: _Layout) -> None:
    """Leaves of a regression: the mean, on a shade from the smallest to the largest one shown."""
    import matplotlib as mpl

    mean = layout.tree.value[layout.leaves, 0]
    low, high = (float(mean.min()), float(mean.max())) if len(mean) else (0.0, 0.0)
    shade = np.full(len(mean), 0.3) if low == high else 0.05 + 0.6 * (mean - low) / (high - low)
    for node, value, color in zip(layout.leaves, mean, mpl.colormaps["Blues"](shade), strict=True):
        _draw_box(pen, layout, int(node), f"{value:.4g}", LINE, facecolor=color)


def _draw_classes(pen: _Pen, layout: _Layout) -> None:
    """Leaves of a classification: a bar for each class, below them the most probable one; the legend."""
    k, width = len(layout.labels), 0.8 * SLOT
    colors = _class_colors(k)
    left, top = layout.x[layout.leaves] - width / 2.0, layout.y[layout.leaves]
    frames = np.column_stack([left, top - BARS, np.full(len(left), width), np.full(len(left), BARS)])
    pen.rectangles(frames, facecolor="none", edgecolor="0.7", linewidth=0.6 * pen.scale)
    share = np.clip(layout.tree.value[layout.leaves], 0.0, 1.0)
    for j in range(k):
        bars = np.column_stack([left + j * width / k, frames[:, 1], frames[:, 2] / k, share[:, j] * BARS])
        pen.rectangles(bars, facecolor=colors[j], edgecolor="none")
    for i, node in enumerate(layout.leaves):
        best = int(np.argmax(share[i]))
        text = f"{_wrapped(layout.labels[best], SLOT - 0.08, 1)[0]}\n{share[i, best]:.2f}"
        pen.text(layout.x[node], frames[i, 1] - 0.03, text, va="top")
    legend, middle = layout.legend, (layout.box[0] + layout.box[1]) / 2.0
    for j, label in enumerate(legend.labels):
        row, column = divmod(j, legend.n_columns)
        x = middle - legend.width / 2.0 + column * legend.column
        y = layout.legend_top - (row + 0.5) * 1.2 * LINE
        pen.rectangles([x, y - 0.05, 0.1, 0.1], facecolor=colors[j], edgecolor="none")
        pen.text(x + 0.16, y, label, ha="left")


def _class_labels(tree: Tree) -> list[str]:
    """Class labels as text; empty for a regression, or without values."""
    if tree.value is None or (tree.classes is None and tree.value.shape[1] == 1):
        return []
    labels = range(tree.value.shape[1]) if tree.classes is None else tree.classes.tolist()
    return [" ".join(label.split()) if isinstance(label, str) else f"class {label}" for label in labels]


def _class_colors(k: int) -> Any:
    import matplotlib as mpl

    if k > MOST_COLORS:
        return mpl.colormaps["turbo"](np.linspace(0.0, 1.0, k))
    return mpl.colormaps["tab10" if k <= 10 else "tab20"](np.arange(k))


def _question_lines(tree: Tree, node: int) -> list[str]:
    """The question of a node, wrapped to the width of its box; a long name loses its middle, never the threshold."""
    k = int(tree.feature[node])
    name = f"x{k}" if tree.columns is None else tree.columns.names[k]
    rest = tree.question(node)[len(name) :].replace(" <= ", " ≤ ")
    lines = _wrapped(_shortened(name, 48), QUESTION - 0.1, 3)
    if _text_width(lines[-1] + rest) <= QUESTION - 0.1:
        return [*lines[:-1], lines[-1] + rest]
    return lines + _wrapped(rest.strip(), QUESTION - 0.1, 3)


def _shortened(text: str, most: int) -> str:
    """The text on one line, its middle left out beyond ``most`` characters."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    return f"{text[: most - most // 3 - 1]}…{text[-(most // 3) :]}"


def _wrapped(text: str, width: float, most: int) -> list[str]:
    """The text in at most ``most`` lines no wider than ``width`` inches."""
    lines = [""]
    for token in re.split(r"(?<=[ _/,])", text):
        left = token
        while left:
            fits = len(left)
            while fits > 0 and _text_width((lines[-1] + left[:fits]).rstrip()) > width:
                fits -= 1
            if fits < len(left) and lines[-1]:
                lines.append("")
                continue
            lines[-1] += left[: max(fits, 1)]
            left = left[max(fits, 1) :]
    lines = [line.rstrip() for line in lines]
    if len(lines) > most:
        last = lines[most - 1]
        while last and _text_width(last + "…") > width:
            last = last[:-1]
        lines = [*lines[: most - 1], last + "…"]
    return lines


@lru_cache(maxsize=4096)
def _text_width(text: str) -> float:
    """Width of a line of text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    return text_to_path.get_text_width_height_descent(text, FontProperties(size=FONT), False)[0] / 72.0


def plot_n_leaves(posterior: Posterior, ax: Any = None, exact: Posterior | None = None) -> Any:
    """Bars of the law of the number of leaves, with Monte-Carlo intervals when it is sampled.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    exact : Posterior, optional
        An exact posterior, drawn beside.

    Returns
    -------
    matplotlib Axes
        Intervals are two standard errors by the effective sample size; probabilities below 1e-4 at either end are
        left out.
    """
    ax = _axes(ax, 5.0, 3.2)
    sampled = isinstance(posterior, SampledPosterior)
    laws = {"sampled" if sampled else "exact": posterior.n_leaves_pmf()}
    if exact is not None:
        laws = {next(iter(laws)): posterior.n_leaves_pmf(), "exact ": exact.n_leaves_pmf()}
    most = max(map(len, laws.values()))
    heights = np.array([np.pad(law, (0, most - len(law))) for law in laws.values()])
    shown = np.flatnonzero(heights.max(axis=0) > NEGLIGIBLE)
    leaves = np.arange(shown[0], shown[-1] + 1)
    width = 0.8 / len(laws)
    for j, label in enumerate(laws):
        here = leaves + (j - (len(laws) - 1) / 2.0) * width
        ax.bar(here, heights[j, leaves], width, label=label.strip(), color=f"C{j}")
        if j == 0 and sampled:
            drawn = posterior.n_leaves[posterior.tree_of_draw]
            _draw_intervals(ax, here, [drawn == m for m in leaves])
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlim(leaves[0] - 0.6, leaves[-1] + 0.6)
    ax.set_xlabel("number of leaves")
    ax.set_ylabel("probability")
    if len(laws) > 1:
        ax.legend(frameon=False)
    return ax


def plot_inclusion(
    posterior: Posterior, ax: Any = None, max_features: int = 20, *, exact: Posterior | None = None
) -> Any:
    """Horizontal bars of the probability that each feature is asked about, the largest on top.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    max_features : int, default 20
        The most probable ones, at most this many.
    exact : Posterior, optional
        An exact posterior, its probabilities drawn as marks.

    Returns
    -------
    matplotlib Axes
        Intervals of a sampled posterior are two standard errors by the effective sample size.

    Raises
    ------
    ValueError
        If ``max_features`` is below 1 or no integer.
    """
    _check_count("max_features", max_features, 1)
    inclusion, names = posterior.feature_inclusion(), posterior.model.columns.names
    order = np.argsort(-inclusion, kind="stable")[:max_features]
    ax = _axes(ax, 5.5, 0.26 * len(order) + 1.0)
    place = np.arange(len(order))
    ax.barh(place, inclusion[order], 0.75, color="C0")
    if isinstance(posterior, SampledPosterior):
        asked = posterior.split_counts > 0
        _draw_intervals(ax, place, [asked[posterior.tree_of_draw, k] for k in order], horizontal=True)
    if exact is not None:
        ax.plot(exact.feature_inclusion()[order], place, "D", color="C1", markersize=4, label="exact")
        ax.legend(frameon=False, loc="lower right")
    ax.set_yticks(place, [_shortened(names[k], 32) for k in order], parse_math=False, fontsize="small")
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xlim(0.0, 1.02)
    ax.set_xlabel("probability of being asked about")
    if len(order) < len(names):
        ax.set_title(f"{len(order)} of {len(names)} features", fontsize="medium")
    return ax


def plot_trace(posterior: SampledPosterior, axes: Sequence[Any] | None = None) -> Any:
    """Log posterior and number of leaves, draw by draw, a line for each chain.

    Parameters
    ----------
    posterior : SampledPosterior
        Draws of chains, or independent ones.
    axes : two matplotlib Axes, optional
        For the log posterior (unnormalised, nats) and the number of leaves. Default: those of a new figure.

    Returns
    -------
    ndarray of shape (2,) of matplotlib Axes
        Their titles give R-hat and the bulk effective sample size.

    Raises
    ------
    TypeError
        If the posterior has no draws.
    ValueError
        If ``axes`` are not two.
    """
    _check_sampled(posterior)
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(2, 1, sharex=True, figsize=(7.0, 5.0), layout="constrained")[1]
    if np.size(axes) != 2:
        raise ValueError(f"axes has {np.size(axes)} entries; give two Axes, or leave it out.")
    scalars = by_draw(posterior)
    shown = {"log posterior": scalars["log_prior"] + scalars["log_score"], "number of leaves": scalars["n_leaves"]}
    style = {"drawstyle": "steps-mid", "linewidth": 0.8, "alpha": 0.8}
    for ax, (name, values) in zip(np.ravel(axes), shown.items(), strict=True):
        for c, chain in enumerate(values):
            ax.plot(chain, label=f"chain {c}", marker="." if len(chain) == 1 else None, **style)
        ax.set_ylabel(name)
        ax.set_title(f"R-hat {rhat(values):.2f}, effective sample size {ess(values):.0f}", fontsize="medium")
        ax.set_xlabel("draw")
        ax.margins(x=0.01)
    return np.ravel(axes)


def plot_posterior(posterior: SampledPosterior, exact: Posterior | None = None) -> Any:
    """Four pictures of a sampled posterior: traces, the law of the number of leaves, feature inclusion.

    Parameters
    ----------
    posterior : SampledPosterior
        Draws of chains, or independent ones.
    exact : Posterior, optional
        An exact posterior, drawn beside.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    TypeError
        If the posterior has no draws.
    """
    import matplotlib.pyplot as plt

    _check_sampled(posterior)
    figure, axes = plt.subplots(2, 2, figsize=(11.0, 7.5), layout="constrained")
    plot_trace(posterior, axes[:, 0])
    plot_n_leaves(posterior, axes[0, 1], exact)
    plot_inclusion(posterior, axes[1, 1], exact=exact)
    return figure


def _axes(ax: Any, width: float, height: float) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def _draw_intervals(ax: Any, place: np.ndarray, indicators: list[np.ndarray], horizontal: bool = False) -> None:
    """Two standard errors around the means of ``indicators``, each (chains, draws) bool; none where unknown."""
    mean = np.array([np.mean(x) for x in indicators])
    error = 2.0 * np.sqrt(mean * (1.0 - mean) / np.array([ess(x) for x in indicators]))
    known = np.isfinite(error) & (error > 0.0)
    place, mean, error = place[known], mean[known], error[known]
    reach = np.array([np.minimum(error, mean), np.minimum(error, 1.0 - mean)])
    style = {"fmt": "none", "ecolor": "0.2", "elinewidth": 1.0, "capsize": 2.0}
    if horizontal:
        ax.errorbar(mean, place, xerr=reach, **style)
    else:
        ax.errorbar(place, mean, yerr=reach, **style)


def _check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} is out of range; give an integer >= {least}.")


def _check_sampled(posterior: Any) -> None:
    if not isinstance(posterior, SampledPosterior):
        raise TypeError(
            f"posterior is a {type(posterior).__name__}, which has no draws to trace; give a SampledPosterior "
            "(an exact posterior makes one by its sample method), or call plot_n_leaves and plot_inclusion."
        )
