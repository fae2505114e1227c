"""Pictures of trees and posteriors: axes in, axes out.

Trees are laid out in inches, for text of ``FONT`` points. Leaves stand side by side in slots; questions are less than
two slots wide, and the middle of a question keeps a slot from the ends of its subtree: boxes cannot overlap.
"""

from __future__ import annotations

import math
import textwrap
from typing import Any

import numpy as np

from .inference_data import by_draw, ess, rhat
from .posterior import Posterior, SampledPosterior
from .trees import LEAF, Tree

# points and letters a line; inches
FONT, LETTERS = 8.0, 22
LINE, PADDING, MARGIN, GAP = 0.145, 0.06, 0.15, 0.4
SLOT, QUESTION, BARS = 0.8, 1.5, 0.36
MOST_COLORS, NEGLIGIBLE = 20, 1e-4
ERRORS = {"fmt": "none", "ecolor": "0.2", "elinewidth": 1.0, "capsize": 2.0}


def plot_tree(tree: Tree, ax: Any = None, max_depth: int | None = None) -> Any:
    """Draw a tree: questions in the nodes, yes to the left, no to the right.

    Parameters
    ----------
    tree : Tree
        A leaf shows a bar for each class, with the most probable one and its probability, or its mean, or nothing.
    ax : matplotlib Axes, optional
        The drawing, text included, is scaled down to it. Default: a new figure, large enough to read all text.
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
    _check_count("max_depth", 0 if max_depth is None else max_depth, 0)
    drawing = _Drawing(tree, ax, max_depth)
    for node in drawing.inner:
        drawing.draw_question(node)
    for node in drawing.cut:
        drawing.box(node, 0.9 * SLOT, 2.0 * LINE, f"...\n{drawing.n_leaves[node]} leaves", "none", linestyle="--")
    (drawing.draw_classes if drawing.labels else drawing.draw_means)()
    return drawing.ax


class _Drawing:
    """Where the visible nodes of a tree go, the middle and the top of their boxes in inches; and how they look."""

    def __init__(self, tree: Tree, ax: Any, max_depth: int | None) -> None:
        import matplotlib as mpl
        import matplotlib.pyplot as plt

        depth, inner = tree.node_depth, tree.feature != LEAF
        deepest = int(depth.max()) if max_depth is None else max_depth
        ends = (depth <= deepest) & (~inner | (depth == deepest))
        self.tree, self.labels, self.colormaps = tree, _class_labels(tree), mpl.colormaps
        self.inner, self.cut = np.flatnonzero(inner & (depth < deepest)), np.flatnonzero(ends & inner)
        self.leaves = np.flatnonzero(ends & ~inner)
        self.n_leaves, self.x = np.ones(tree.n_nodes, dtype=np.int64), np.zeros(tree.n_nodes)
        self.x[ends] = (np.arange(ends.sum()) + 0.5) * SLOT
        for i in np.flatnonzero(inner)[::-1]:
            children = [tree.left[i], tree.right[i]]
            self.n_leaves[i] = self.n_leaves[children].sum()
            self.x[i] = self.x[children].mean() if depth[i] < deepest else self.x[i]
        self.questions = {i: _question_lines(tree, i) for i in self.inner}
        self.height = max(map(len, self.questions.values()), default=0) * LINE
        self.y = -depth * (self.height + 2.0 * PADDING + GAP)
        foot = float(self.y[depth <= deepest].min()) - 2.0 * LINE - 2.0 * PADDING - bool(self.labels) * BARS
        # the legend below: columns of one width
        self.legend = self.labels if len(self.labels) <= MOST_COLORS else []
        self.legend_top, width = foot - 0.1, max(ends.sum(), 3) * SLOT
        self.column = max(map(_text_width, self.legend), default=0.0) + 0.35
        self.n_columns = max(1, min(len(self.legend), int(width / self.column)))
        bottom = self.legend_top - math.ceil(len(self.legend) / self.n_columns) * 1.2 * LINE
        self.middle = np.array([ends.sum() * SLOT, bottom]) / 2.0
        size = np.array([max(width, self.column), -bottom]) + 2.0 * MARGIN
        # a unit becomes an inch of the axes, or less when the drawing does not fit
        if ax is None:
            ax = plt.figure(figsize=(size[0], size[1] + 0.3)).add_axes((0.0, 0.0, 1.0, size[1] / (size[1] + 0.3)))
        room = ax.get_window_extent().size / ax.get_figure().dpi
        self.ax, self.scale = ax, min(1.0, float((room / size).min()))
        (left, bottom), (right, top) = self.middle - room / self.scale / 2.0, self.middle + room / self.scale / 2.0
        ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
        ax.set_axis_off()

    def text(self, x: float, y: float, text: str, width: float = math.inf, **kwargs: Any) -> None:
        """Text centred at a point unless told otherwise, made smaller if wider than ``width``."""
        fit = min(1.0, width / max(map(_text_width, text.split("\n"))))
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

    def draw_question(self, node: int) -> None:
        """The box of an internal node, and the elbows to its children with their answers."""
        self.box(node, QUESTION, self.height, "\n".join(self.questions[node]), "0.95")
        x, foot = self.x[node], self.y[node] - self.height - 2.0 * PADDING
        bend = foot - GAP / 2.0
        for child, answer, side in ((self.tree.left[node], "yes ", "right"), (self.tree.right[node], " no", "left")):
            way = [x, x, self.x[child], self.x[child]], [foot, bend, bend, self.y[child]]
            self.ax.plot(*way, color="0.55", linewidth=0.9 * self.scale, zorder=0)
            self.text(x, bend + 0.02, answer, ha=side, va="bottom", color="0.35")

    def draw_means(self) -> None:
        """Leaves of a regression: the mean, shaded from the smallest to the largest one shown; or empty leaves."""
        value, at = self.tree.value, self.leaves
        mean = np.zeros(len(at)) if value is None else value[at, 0]
        shade = np.interp(mean, [mean.min(initial=np.inf), mean.max(initial=-np.inf)], [0.05, 0.65])
        for node, number, color in zip(at, mean, self.colormaps["Blues"](shade), strict=True):
            text, face = ("leaf", "none") if value is None else (f"{number:.4g}", color)
            self.box(node, 0.9 * SLOT, LINE, text, face)

    def draw_classes(self) -> None:
        """Leaves of a classification: a bar for each class, below them the most probable one; the legend."""
        k, width, share = len(self.labels), 0.8 * SLOT, self.tree.value[self.leaves]
        name = "tab10" if k <= 10 else "tab20" if k <= MOST_COLORS else "turbo"
        colors = self.colormaps[name](np.arange(k) if k <= MOST_COLORS else np.linspace(0.0, 1.0, k))
        x, low = self.x[self.leaves], self.y[self.leaves] - BARS
        self.bars(x, low, width, BARS, "none", edgecolor="0.7")
        for j in range(k):
            here = x + ((j + 0.5) / k - 0.5) * width
            self.bars(here, low, width / k, share[:, j] * BARS, colors[j], edgecolor="none")
        for i, best in enumerate(np.argmax(share, axis=1)):
            text = f"{_shortened(self.labels[best], 12)}\n{share[i, best]:.2f}"
            self.text(x[i], low[i] - 0.03, text, 0.95 * SLOT, va="top")
        for j, label in enumerate(self.legend):
            row, column = divmod(j, self.n_columns)
            left = self.middle[0] + (column - self.n_columns / 2.0) * self.column
            y = self.legend_top - (row + 0.5) * 1.2 * LINE
            self.bars(left + 0.05, y - 0.05, 0.1, 0.1, colors[j], edgecolor="none")
            self.text(left + 0.15, y, label, ha="left")


def _class_labels(tree: Tree) -> list[str]:
    """Class labels as text; empty for a regression, or without values."""
    if tree.value is None or (tree.classes is None and tree.value.shape[1] == 1):
        return []
    labels = range(tree.value.shape[1]) if tree.classes is None else tree.classes.tolist()
    return [_shortened(label if isinstance(label, str) else f"class {label}", 30) for label in labels]


def _question_lines(tree: Tree, node: int) -> list[str]:
    """The question of a node in a few lines; a long name loses its middle, never the threshold."""
    k = int(tree.feature[node])
    name = f"x{k}" if tree.columns is None else tree.columns.names[k]
    rest = tree.question(node)[len(name) :].replace(" <= ", " ≤\u00a0")
    lines = textwrap.wrap(_shortened(name, 2 * LETTERS) + rest, LETTERS, max_lines=5, placeholder=" ...")
    return [line.replace("\u00a0", " ") for line in lines]


def _shortened(text: str, most: int) -> str:
    """The text on one line, its middle left out beyond ``most`` letters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - most // 3 - 1]}…{text[-(most // 3) :]}"


def _text_width(text: str) -> float:
    """Width of a line of text in inches, at least that of a letter."""
    from matplotlib import font_manager, textpath

    font = font_manager.FontProperties(size=FONT)
    return textpath.text_to_path.get_text_width_height_descent(text or "x", font, False)[0] / 72.0


def plot_n_leaves(posterior: Posterior, ax: Any = None, exact: Posterior | None = None) -> Any:
    """Bars of the law of the number of leaves; an end below 1e-4 is left out.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact; two Monte-Carlo standard errors are drawn when it is sampled.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    exact : Posterior, optional
        An exact posterior, its law drawn beside.

    Returns
    -------
    matplotlib Axes
    """
    import matplotlib.pyplot as plt

    ax = plt.subplots(figsize=(5.0, 3.2), layout="constrained")[1] if ax is None else ax
    laws = [p.n_leaves_pmf() for p in (posterior, exact) if p is not None]
    laws = np.array([np.pad(law, (0, max(map(len, laws)) - len(law))) for law in laws])
    shown = np.flatnonzero(laws.max(axis=0) > NEGLIGIBLE)
    leaves, width = np.arange(shown[0], shown[-1] + 1), 0.8 / len(laws)
    place = leaves + width * (np.arange(len(laws))[:, None] - (len(laws) - 1) / 2.0)
    sampled = isinstance(posterior, SampledPosterior)
    for here, law, label in zip(place, laws, ("sampled" if sampled else "posterior", "exact"), strict=False):
        ax.bar(here, law[leaves], width, label=label)
    if sampled:
        drawn = posterior.n_leaves[posterior.tree_of_draw]
        error = _two_errors([drawn == m for m in leaves])
        ax.errorbar(place[0], laws[0, leaves], yerr=error, **ERRORS)
    ax.xaxis.set_major_locator(plt.MaxNLocator(integer=True, min_n_ticks=1))
    ax.set(xlim=(leaves[0] - 0.6, leaves[-1] + 0.6), xlabel="number of leaves", ylabel="probability")
    if exact is not None:
        ax.legend(frameon=False)
    return ax


def plot_inclusion(posterior: Posterior, ax: Any = None, max_features: int = 20) -> Any:
    """Bars of the probability that each feature is asked about, the largest on top.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact; two Monte-Carlo standard errors are drawn when it is sampled.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    max_features : int, default 20
        The most probable ones, at most this many.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If ``max_features`` is below 1 or no integer.
    """
    import matplotlib.pyplot as plt

    _check_count("max_features", max_features, 1)
    names, inclusion = posterior.model.columns.names, posterior.feature_inclusion()
    order = np.argsort(-inclusion, kind="stable")[:max_features]
    inclusion, place = inclusion[order], np.arange(len(order))
    ax = plt.subplots(figsize=(5.5, 0.26 * len(order) + 1.0), layout="constrained")[1] if ax is None else ax
    ax.barh(place, inclusion, 0.75)
    if isinstance(posterior, SampledPosterior):
        asked = posterior.split_counts > 0
        error = _two_errors([asked[posterior.tree_of_draw, k] for k in order])
        ax.errorbar(inclusion, place, xerr=error, **ERRORS)
    ax.set_yticks(place, [_shortened(names[k], 32) for k in order], parse_math=False, fontsize="small")
    few = f" ({len(order)} of {len(names)} features)" if len(order) < len(names) else ""
    ax.set(xlim=(0.0, 1.02), ylim=(len(order) - 0.4, -0.6), xlabel=f"probability of being asked about{few}")
    return ax


def plot_trace(posterior: SampledPosterior, axes: Any = None) -> Any:
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
        Titles give R-hat and the bulk effective sample size.

    Raises
    ------
    TypeError, ValueError
        If the posterior has no draws; if ``axes`` are not two.
    """
    import matplotlib.pyplot as plt

    _check_sampled(posterior)
    axes = np.ravel(plt.subplots(2, 1, figsize=(7.0, 5.5), layout="constrained")[1] if axes is None else axes)
    if len(axes) != 2:
        raise ValueError(f"axes has {len(axes)} entries; give two Axes, or leave it out.")
    scalars = by_draw(posterior)
    shown = {"log posterior": scalars["log_prior"] + scalars["log_score"], "number of leaves": scalars["n_leaves"]}
    for ax, (name, values) in zip(axes, shown.items(), strict=True):
        ax.plot(values.T, linewidth=0.8, alpha=0.8, marker="." if values.shape[1] == 1 else None)
        ax.set(xlabel="draw", ylabel=name)
        ax.set_title(f"R-hat {rhat(values):.2f}, effective sample size {ess(values):.0f}", fontsize="medium")
        ax.margins(x=0.01)
    axes[1].yaxis.set_major_locator(plt.MaxNLocator(integer=True, min_n_ticks=1))
    return axes


def plot_posterior(posterior: SampledPosterior, exact: Posterior | None = None) -> Any:
    """Four pictures of a sampled posterior: traces, law of the number of leaves, feature inclusion.

    Parameters
    ----------
    posterior : SampledPosterior
        Draws of chains, or independent ones.
    exact : Posterior, optional
        An exact posterior, its law of the number of leaves drawn beside.

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
    plot_inclusion(posterior, axes[1, 1])
    return figure


def _two_errors(indicators: list[np.ndarray]) -> np.ndarray:
    """Reach (2, m) of two standard errors below and above the means, within [0, 1]; NaN where unknown."""
    mean, size = np.array([(np.mean(x), ess(x)) for x in indicators]).T
    error = 2.0 * np.sqrt(mean * (1.0 - mean) / size)
    return np.minimum(np.where(error > 0.0, error, np.nan), [mean, 1.0 - mean])


def _check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} is out of range; give an integer >= {least}.")


def _check_sampled(posterior: Any) -> None:
    if not isinstance(posterior, SampledPosterior):
        raise TypeError(f"posterior is a {type(posterior).__name__}, without draws; give a SampledPosterior.")
