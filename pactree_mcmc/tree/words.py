"""Splits as text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from ..table.kinds import NUMBER, TRUTH, Kind
from ..table.words import threshold_text

PLAIN = re.compile(r"(?!missing$)[^ \"',{}]([^,{}]*[^ ,{}])?")
"""Categories that are shown without quotes: none of the signs that end a category, no quote or space at the start."""


def ordered_words(
    threshold: float, missing_left: bool | None, kind: Kind = NUMBER, low: float = math.nan, high: float = math.nan
) -> str:
    """Return an ordered split as text, to be put behind the name of the feature.

    ``missing_left`` is None if no value is missing. A split without threshold separates missing from known values.
    ``low`` and ``high`` are as in `threshold_text`.
    """
    if math.isnan(threshold):
        return " is missing" if missing_left else " is known"
    return f" {side_words(threshold, True, kind, low, high)}" + (" or missing" if missing_left else "")


def side_words(threshold: float, left: bool, kind: Kind = NUMBER, low: float = math.nan, high: float = math.nan) -> str:
    """Return the condition on the values of one side of a threshold as text."""
    if kind == TRUTH and 0.0 <= threshold < 1.0:
        return "= no" if left else "= yes"
    return f"{'<=' if left else '>'} {threshold_text(threshold, low, high, kind)}"


def one_of(labels: Iterable[Any]) -> str:
    """Return a set of categories as text, to be put behind the name of the feature."""
    return f" in {{{', '.join(sorted(map(label_words, labels)))}}}"


def label_words(label: Any) -> str:
    """Return a category as text; in quotes if it could be read as several categories, or as a missing value."""
    if isinstance(label, bool):
        return "yes" if label else "no"
    if isinstance(label, str):
        return label if PLAIN.fullmatch(label) and label.isprintable() else repr(label)
    return "missing" if label is None else str(label)
