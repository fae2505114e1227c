"""The error for a leaf score that is NaN or infinite, which names the cell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..tree.words import one_of, side_words

if TYPE_CHECKING:
    from . import TreeModel

MOST_STATS = 12
"""Largest number of statistics that an error lists."""


class NotFinite(ValueError):
    """A leaf score is NaN or infinite."""


class Answer(NamedTuple):
    """A split on the path to a cell, in codes, and the side of the cell."""

    coordinate: int
    cut: int
    upper: int
    categories: int
    left: bool


def not_finite(model: TreeModel, answers: Iterable[Answer], what: str, rows: int, stats: Any, score: Any) -> NotFinite:
    """Return the error that ``what`` has a score which is not finite; ``answers`` lead to its cell."""
    path = " and ".join(words(model, answer) for answer in answers)
    numbers = [f"{v:.6g}" for v in np.asarray(stats)[:MOST_STATS].tolist()] + ["..."] * (len(stats) > MOST_STATS)
    cell = f"{path}{'; ' if path else ''}{int(rows)} rows, statistics [{', '.join(numbers)}]"
    return NotFinite(
        f"the score of {what} is {float(score)}: {cell}, {model.leaf!r}. Give less extreme leaf parameters, y or "
        "sample_weight."
    )


def words(model: TreeModel, answer: Answer) -> str:
    """Return an answer as text, such as ``x0 > 2.5``."""
    columns, c = model.columns, answer.coordinate
    k = int(columns.source[c])
    name = columns.names[k]
    if columns.categories[k] is not None:
        asked = one_of(columns.label_set(k, answer.categories))
        return name + (asked if answer.left else " not" + asked)
    scale, cut, upper = model.scales[c], np.array([answer.cut]), np.array([answer.upper])
    threshold, (low, high) = float(scale.threshold(cut, upper)[0]), scale.between(cut, upper)[0].tolist()
    missing = k in columns.twins and answer.left == (c < columns.n_features)
    if np.isnan(threshold):
        return f"{name} is {'missing' if missing else 'known'}"
    return f"{name} {side_words(threshold, answer.left, columns.kind(k), low, high)}{' or missing' if missing else ''}"
