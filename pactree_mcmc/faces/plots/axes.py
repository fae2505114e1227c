"""Common parts of the plots: axes, checks, intervals, names."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from ...model import TreeModel
from ...posterior.base import Posterior
from ...posterior.inference_data import ess
from ...posterior.sampled import SampledPosterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ERRORS: dict[str, Any] = {"fmt": "none", "ecolor": "0.2", "elinewidth": 1.0, "capsize": 2.0}


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes given, or those of a new figure of this size in inches."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1] if ax is None else ax


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


def two_errors(indicators: list[np.ndarray]) -> np.ndarray:
    """Reach (2, m) of two standard errors below and above the means, within [0, 1]; NaN where unknown."""
    mean, size = np.array([(np.mean(x), ess(x)) for x in indicators]).T
    error = 2.0 * np.sqrt(mean * (1.0 - mean) / size)
    return np.minimum(np.where(error > 0.0, error, np.nan), [mean, 1.0 - mean])


def shortened(text: str, most: int) -> str:
    """The text on one line, its middle left out beyond ``most`` letters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - most // 3 - 1]}…{text[-(most // 3) :]}"


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
