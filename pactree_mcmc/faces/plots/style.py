"""Style and checks that all plots share: axes, colours, legends, intervals, names of features and classes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from ...core.checks import check_type
from ...model import TreeModel
from ...model.words import prediction_names
from ...posterior.base import Posterior
from ...posterior.ess import ess
from ...posterior.sampled import SampledPosterior
from ...posterior.trees.distances import evenly_spaced_integers

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
    """Return True if a posterior consists of draws, so that its results have Monte-Carlo errors."""
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


def shortened(text: str, most: int) -> str:
    """Return the text on one line. An ellipsis replaces its middle if it has more than ``most`` letters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - most // 3 - 1]}…{text[-(most // 3) :]}"


def shortened_names(names: Sequence[str], most: int) -> list[str]:
    """Return names of at most ``most`` letters each, or of more if different names would otherwise be equal."""
    for letters in range(most, max(map(len, names), default=0)):
        texts = [shortened(name, letters) for name in names]
        if len(set(texts)) == len(set(names)):
            return texts
    return [*names]


def rows_to_average(model: TreeModel, X: Any, most: int) -> np.ndarray:
    """Return X as numbers (n, p), or at most ``most`` evenly spaced training rows if X is None."""
    if X is None:
        rows = model.row_numbers(evenly_spaced_integers(model.n_rows, most))
    else:
        rows = model.columns.numbers(X)
    if len(rows) == 0:
        raise ValueError("X has no rows; give at least one.")
    return rows


def check_posterior(posterior: Any) -> None:
    """Raise a TypeError for anything but a posterior."""
    check_type("posterior", posterior, Posterior, "a posterior, such as pt.sample or exact.solve returns")


def check_sampled(posterior: Any) -> None:
    """Raise a TypeError for a posterior that does not consist of draws."""
    if not is_sampled(posterior):
        raise TypeError(f"posterior is a {type(posterior).__name__}, without draws; give a SampledPosterior.")


def feature_number(model: TreeModel, feature: Any) -> int:
    """Return the index of a feature from its name or index; raise a ValueError if it is unknown or not clear."""
    return model.columns.column_indices("feature", [feature])[0]


def value_column(model: TreeModel, label: Any) -> int:
    """Return the column, in predictions, of the class ``label``, the last one if None; 0 for a regression."""
    if model.classes_ is None:
        if label is not None:
            raise ValueError(f"label={label!r} is given, but the model is a regression; leave it out.")
        return 0
    labels = model.classes_.tolist()
    if label is None:
        return len(labels) - 1
    if label not in labels:
        raise ValueError(f"label={label!r} is not a class; give one of {labels[:10]}.")
    return labels.index(label)


def value_label(model: TreeModel, column: int) -> str:
    """Return the text of an axis for a column of predictions: "mean", "mean of weight" or "P(yes)"."""
    name = shortened(str(prediction_names(model)[column]), 32 if model.classes_ is None else 24)
    if model.classes_ is not None:
        return f"P({name})"
    return "mean" if name == "y" else f"mean of {name}"
