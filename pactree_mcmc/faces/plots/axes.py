"""Common parts of the plots: axes, checks, intervals, names."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from ...core.checks import check_type
from ...model import TreeModel
from ...posterior.base import Posterior
from ...posterior.ess import ess
from ...posterior.sampled import SampledPosterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#999999")
"""Colours that colour-blind readers can tell apart, after Okabe and Ito (2008), yellow left out."""
MOST_CHAINS = len(COLORS)
"""Chains told apart by colour and listed in a legend."""
ERRORS: dict[str, Any] = {"fmt": "none", "ecolor": "0.2", "elinewidth": 1.0, "capsize": 2.0}


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes given, or those of a new figure of this size in inches."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1] if ax is None else ax


def color_of(number: int) -> str:
    """Colour of a chain, a class or another thing with a number; after the last the first comes again."""
    return COLORS[number % len(COLORS)]


def is_sampled(posterior: Posterior) -> TypeGuard[SampledPosterior]:
    """Whether a posterior consists of draws, so that its results have Monte-Carlo errors."""
    return isinstance(posterior, SampledPosterior)


def has_no_draws(posterior: Posterior) -> bool:
    """Whether a sampled posterior is empty."""
    return is_sampled(posterior) and posterior.tree_of_draw.size == 0


def say_no_draws(ax: Axes) -> Axes:
    """Axes that say that there is nothing to show."""
    ax.text(0.5, 0.5, "no draws", ha="center", va="center", transform=ax.transAxes, color="0.4")
    ax.set(xticks=[], yticks=[])
    return ax


def legend_below(ax: Axes, handles: Sequence[Any], names: Sequence[str], **kwargs: Any) -> None:
    """A legend below the axes, names as they are."""
    place = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.16), "borderaxespad": 0.0, "alignment": "left"}
    style = {"frameon": False, "fontsize": "small", "title_fontsize": "small"}
    legend = ax.legend(handles, names, **{**place, **style, **kwargs})
    for text in legend.get_texts():
        text.set_parse_math(False)


def two_errors(indicators: list[np.ndarray]) -> np.ndarray:
    """Reach (2, m) of two standard errors below and above the means, within [0, 1]; NaN where unknown."""
    mean, size = np.array([(np.mean(x), ess(x)) for x in indicators]).T
    error = 2.0 * np.sqrt(mean * (1.0 - mean) / size)
    return np.minimum(np.where(error > 0.0, error, np.nan), [mean, 1.0 - mean])


def shortened(text: str, most: int) -> str:
    """The text on one line, its middle left out beyond ``most`` letters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - most // 3 - 1]}…{text[-(most // 3) :]}"


def numbers_of_rows(model: TreeModel, rows: np.ndarray) -> np.ndarray:
    """Training rows (m,) as numbers (m, p) that every tree of the model routes as it routes these rows."""
    return model.unit_numbers(rows if model.unit_of_row is None else model.unit_of_row[rows])


def spaced_rows(model: TreeModel, most: int) -> np.ndarray:
    """At most ``most`` training rows as numbers (m, p), evenly spaced in the table."""
    return numbers_of_rows(model, np.unique(np.linspace(0, model.n_rows - 1, min(most, model.n_rows)).astype(np.int64)))


def check_posterior(posterior: Any) -> None:
    """Refuse what is not a posterior."""
    check_type("posterior", posterior, Posterior, "a posterior, such as pt.sample or exact.solve returns")


def check_sampled(posterior: Any) -> None:
    """Refuse a posterior that does not consist of draws."""
    if not is_sampled(posterior):
        raise TypeError(f"posterior is a {type(posterior).__name__}, without draws; give a SampledPosterior.")


def feature_number(model: TreeModel, feature: Any) -> int:
    """The index of a feature given by its name or index."""
    names = list(model.columns.names)
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, numbers.Integral) and not isinstance(feature, bool) and 0 <= int(feature) < len(names):
        return int(feature)
    shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    raise ValueError(f"feature {feature!r} is unknown; give an index 0..{len(names) - 1} or one of {shown}.")


def value_column(model: TreeModel, label: Any) -> int:
    """Which column of the values is shown: that of the class ``label``, the last one by default; 0 of a regression."""
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


def value_name(model: TreeModel, column: int) -> str:
    """What is shown, in words."""
    return "mean" if model.classes_ is None else f"P({shortened(str(model.classes_[column]), 24)})"
