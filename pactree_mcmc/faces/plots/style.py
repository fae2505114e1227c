"""Style and checks that all plots share, and axes on which trees are drawn as boxes of text of ``FONT_SIZE`` points.

Shared are axes, colours, legends, intervals, names of features and classes. In a tree, nodes without children are side
by side in slots. The box of a split is less than two slots wide, and its middle is at least a slot away from the ends
of its subtree, so boxes cannot overlap.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from ...core.checks import check_type
from ...model import TreeModel
from ...posterior.ess import ess
from ...posterior.posterior import Posterior
from ...posterior.sampled import SampledPosterior
from ...table.words import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# colours that colour-blind readers can tell apart, after Okabe and Ito (2008), without yellow
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#999999")
MAX_CHAINS_IN_LEGEND = len(COLORS)  # largest number of chains that have a colour of their own and a line in a legend
# arguments of matplotlib's ``errorbar``
ERRORBAR_STYLE: dict[str, Any] = {"fmt": "none", "ecolor": "0.2", "elinewidth": 1.0, "capsize": 2.0}
CAVEAT_LETTERS, CAVEAT_LINE_HEIGHT = 64, 0.17  # letters in a line of a caveat above a title, and inches of a line


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """Return ``ax``, or the axes of a new figure of this size in inches if it is None."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1] if ax is None else ax


def color_of(number: int) -> str:
    """Return the colour of a chain, a class or another thing with this number. Colours repeat after eight."""
    return COLORS[number % len(COLORS)]


def line_style(number: int) -> dict[str, Any]:
    """Return matplotlib's "color" and "linestyle" for a chain, row or split with this number, different in grey too."""
    return {"color": color_of(number), "linestyle": ("-", "--", "-.", ":")[number % 4]}


def set_title(ax: Axes, text: str) -> None:
    """Set the title of the axes. Dollar signs in it are not read as mathematics."""
    ax.set_title(text, fontsize="medium", parse_math=False)


def set_title_below_caveat(ax: Axes, title: str, caveat: str, size: Any, *, resizes: bool) -> None:
    """Set the title of the axes, below the lines of a caveat, for which a figure that ``resizes`` becomes higher."""
    from matplotlib.figure import Figure

    lines = [*textwrap.wrap(caveat, CAVEAT_LETTERS), title]
    ax.set_title("\n".join(lines), fontsize=size, parse_math=False)
    figure, before = ax.figure, ax.get_position()
    if resizes and caveat and isinstance(figure, Figure):
        width, height = figure.get_size_inches()
        taller = height + CAVEAT_LINE_HEIGHT * (len(lines) - 1)
        figure.set_size_inches(width, taller)
        scale = height / taller
        ax.set_position((before.x0, before.y0 * scale, before.width, before.height * scale))


def is_sampled(posterior: Posterior) -> TypeGuard[SampledPosterior]:
    return isinstance(posterior, SampledPosterior)


def legend_below(ax: Axes, handles: Sequence[Any], names: Sequence[str], **kwargs: Any) -> None:
    """Add a legend below the axes; ``kwargs`` are for matplotlib. Dollar signs in names are not mathematics."""
    place = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.16), "borderaxespad": 0.0, "alignment": "left"}
    fonts = {"frameon": False, "fontsize": "small", "title_fontsize": "small"}
    legend = ax.legend(handles, names, **{**place, **fonts, **kwargs})
    for text in legend.get_texts():
        text.set_parse_math(False)


def two_standard_errors(indicators: list[np.ndarray]) -> np.ndarray:
    """Return two standard errors (2, m), below and above the means of m ``indicators``, cut at 0 and 1."""
    # NaN if they are zero or cannot be estimated
    mean, size = np.array([(np.mean(x), ess(x)) for x in indicators]).T
    error = 2.0 * np.sqrt(mean * (1.0 - mean) / size)
    return np.minimum(np.where(error > 0.0, error, np.nan), [mean, 1.0 - mean])


def shortened_names(names: Sequence[str], most: int) -> list[str]:
    """Return names of at most ``most`` letters each, or of more if different names would otherwise be equal."""
    for letters in range(most, max(map(len, names), default=0)):
        texts = [shortened(name, letters) for name in names]
        if len(set(texts)) == len(set(names)):
            return texts
    return [*names]


def check_posterior(posterior: Any) -> None:
    check_type("posterior", posterior, Posterior, "a posterior, such as pt.sample or exact.solve returns")


def check_sampled(posterior: Any) -> None:
    if not is_sampled(posterior):
        raise TypeError(f"posterior is a {type(posterior).__name__}, without draws; give a SampledPosterior.")


def feature_number(model: TreeModel, feature: Any) -> int:
    """Return the index of a feature from its name or index; raise a ValueError if it is unknown or not clear."""
    return model.columns.column_indices("feature", [feature])[0]


FONT_SIZE = 8.0  # size of text in points
# inches: height of a line, padding of a box, margin of a drawing, gap between levels
LINE_HEIGHT, BOX_PADDING, DRAWING_MARGIN, LEVEL_GAP = 0.145, 0.06, 0.15, 0.4
MIN_FIGURE_WIDTH = 4.4  # smallest width of a new figure in inches, for the longest title


class TreeCanvas:
    """Axes for a tree, in which a unit is an inch, or less if the drawing would not fit."""

    # `x` is the middle and `y` the top of the box of each node, `height` that of boxes of nodes with children. `inner`
    # and `leaves` are the nodes with and without children, in preorder; `scale` is the length of a unit in inches, at
    # most 1. Arguments: `slot`, `foot`: width and height of a node without children; `least`: smallest number of slots;
    # `side`: width of an axis left of the tree
    def __init__(
        self,
        ax: Axes | None,
        children: list[list[int]],
        lines: dict[int, list[str]],
        slot: float,
        foot: float,
        *,
        least: int = 2,
        on_one_level: bool = False,
        side: float = 0.0,
        legend: Sequence[str] = (),
    ) -> None:
        order, x, depth = slot_layout(children)
        self.children, self.lines = children, lines
        self.inner = np.array([i for i in order if children[i]], dtype=np.int64)
        self.leaves = np.array([i for i in order if not children[i]], dtype=np.int64)
        self.x = side + x * slot
        self.height = max((len(lines[i]) for i in self.inner.tolist()), default=0) * LINE_HEIGHT + 2.0 * BOX_PADDING
        self.y = -depth * (self.height + LEVEL_GAP)
        if on_one_level:
            self.y[self.leaves] = self.y[self.leaves].min()
        bottom = float(self.y[order].min()) - max(foot, self.height if len(self.inner) else 0.0)
        # the legend is below the tree, in columns of one width
        self.legend, self.legend_top = legend, bottom - 0.1
        width = side + max(len(self.leaves), least) * slot
        self.column = max(map(text_width, legend), default=0.0) + 0.35
        self.n_columns = max(1, min(len(legend), int(width / self.column)))
        bottom = self.legend_top - math.ceil(len(legend) / self.n_columns) * 1.2 * LINE_HEIGHT
        self.middle = np.array([side + len(self.leaves) * slot, bottom]) / 2.0
        self._set_scale(ax, np.array([max(width, self.column), -bottom]) + 2.0 * DRAWING_MARGIN)

    def _set_scale(self, ax: Axes | None, size: np.ndarray) -> None:
        """Set the attributes ``ax`` (a new figure if None) and ``scale``, and the limits of the axes."""
        import matplotlib.pyplot as plt

        if ax is None:
            width, height = max(float(size[0]), MIN_FIGURE_WIDTH), float(size[1])
            ax = plt.figure(figsize=(width, height + 0.3)).add_axes((0.0, 0.0, 1.0, height / (height + 0.3)))
        figure = ax.get_figure()
        assert figure is not None
        available_size = np.asarray(ax.get_window_extent().size) / figure.dpi
        self.ax, self.scale = ax, min(1.0, float((available_size / size).min()))
        half = available_size / self.scale / 2.0
        (left, bottom), (right, top) = self.middle - half, self.middle + half
        ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
        ax.set_axis_off()

    def text(self, x: float, y: float, text: str, width: float = math.inf, **kwargs: Any) -> None:
        """Write text around the point (x, y), smaller if it is wider than ``width``. ``kwargs`` are for matplotlib."""
        fit = min(1.0, width / max(map(text_width, text.split("\n"))))
        options = {"ha": "center", "va": "center", "linespacing": 1.15, "parse_math": False, **kwargs}
        self.ax.text(x, y, text, fontsize=FONT_SIZE * self.scale * fit, **options)

    def bars(self, x: Any, bottom: Any, width: float, height: Any, color: Any, **kwargs: Any) -> None:
        """Draw rectangles of one width. ``x`` is the middle of their lower edges, which are at ``bottom``."""
        options = {"edgecolor": "0.55", "linewidth": 0.8 * self.scale, **kwargs}
        self.ax.bar(x, height, width, bottom, facecolor=color, **options)

    def text_box(self, x: float, top: float, width: float, height: float, text: str, color: Any, **kwargs: Any) -> None:
        """Draw a filled frame whose upper edge has its middle at (x, top), and text in it."""
        self.bars(x, top - height, width, height, color, **kwargs)
        self.text(x, top - height / 2.0, text, width - 2.0 * BOX_PADDING)

    def draw_inner(self, width: float) -> None:
        for node in self.inner.tolist():
            self.text_box(self.x[node], self.y[node], width, self.height, "\n".join(self.lines[node]), "0.95")

    def draw_edge(self, node: int, child: int, word: str = "", **kwargs: Any) -> None:
        """Draw the line from a node down, across and down to its child, with ``word`` (such as "yes") at the bend."""
        x, foot = self.x[node], self.y[node] - self.height
        bend = foot - LEVEL_GAP / 2.0
        line: dict[str, Any] = {"color": "0.55", "linewidth": 0.9, "zorder": 0, "solid_joinstyle": "miter", **kwargs}
        line["linewidth"] *= self.scale
        self.ax.plot([x, x, self.x[child], self.x[child]], [foot, bend, bend, self.y[child]], **line)
        if word:
            side, text = ("right", f"{word} ") if self.x[child] < x else ("left", f" {word}")
            self.text(x, bend + 0.02, text, ha=side, va="bottom", color="0.35")

    def draw_answers(self) -> None:
        """Draw the lines from all splits to their children, with "yes" on the left and "no" on the right."""
        for node in self.inner.tolist():
            for child, answer in zip(self.children[node], ("yes", "no"), strict=True):
                self.draw_edge(node, child, answer)

    def draw_legend(self, colors: list[Any]) -> None:
        """Draw the legend below the tree: for each of its names a patch in the colour of the same index."""
        for j, label in enumerate(self.legend):
            row, column = divmod(j, self.n_columns)
            left = self.middle[0] + (column - self.n_columns / 2.0) * self.column
            y = self.legend_top - (row + 0.5) * 1.2 * LINE_HEIGHT
            self.bars(left + 0.05, y - 0.05, 0.1, 0.1, colors[j], edgecolor="none")
            self.text(left + 0.15, y, label, ha="left")


def slot_layout(children: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the nodes in preorder, and the horizontal position (in slots) and the depth of every node."""
    # nodes without children have one slot each, the first at 0.5; the others are in the middle above their first and
    # last child; both are 0 for nodes that cannot be reached
    x, depth = np.zeros(len(children)), np.zeros(len(children), dtype=np.int64)
    order, pending, n_slots = [], [0], 0
    while pending:
        node = pending.pop()
        order.append(node)
        depth[children[node]] = depth[node] + 1
        pending += children[node][::-1]
        if not children[node]:
            x[node], n_slots = n_slots + 0.5, n_slots + 1
    for node in order[::-1]:
        if children[node]:
            x[node] = (x[children[node][0]] + x[children[node][-1]]) / 2.0
    return np.array(order), x, depth


def class_label(label: Any) -> str:
    return shortened(label if isinstance(label, str) else f"class {label}", 30)


def wrap_conditions(words: str, line_letters: int, most_lines: int) -> list[str]:
    """Return a list of at most `most_lines` lines with text such as "age <= 30, weight > 5", with ≤ in place of <=."""
    # no line ends between a sign and its threshold; the last line ends in "..." if the text does not fit
    words = words.replace(" <= ", " ≤\u00a0").replace(" > ", " >\u00a0")
    # letters of the longest threshold with its sign
    longest = max([line_letters, *(len(word) for word in words.split(" ") if word[:1] in "≤>")])
    lines = textwrap.wrap(words, longest, max_lines=most_lines, placeholder=" ...")
    return [line.replace("\u00a0", " ") for line in lines]


def wrap_words(text: str, line_letters: int) -> list[str]:
    """Return a prediction in words, such as "mean 1.5, 2 events", as lines, split at each comma, which is left out."""
    return [line for part in text.split(", ") for line in textwrap.wrap(part, line_letters)]


def text_width(text: str) -> float:
    """Return the width of a line of text in inches, of an empty line that of the letter x."""
    from matplotlib import font_manager, textpath

    font = font_manager.FontProperties(size=FONT_SIZE)
    return textpath.text_to_path.get_text_width_height_descent(text or "x", font, False)[0] / 72.0
