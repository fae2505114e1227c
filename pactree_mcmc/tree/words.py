"""What a split says, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..table.coding import LARGEST
from ..table.values import DATES, NUMBER, TRUTH, date_words


def ordered_words(threshold: float, missing_left: bool | None, kind: str = NUMBER) -> str:
    """What an ordered split says of a feature of this kind; ``missing_left`` is None where no value is missing."""
    if missing_left is not None and abs(threshold) == LARGEST:
        return " is missing" if missing_left else " is known"
    return f" {side_words(threshold, True, kind)}" + (" or missing" if missing_left else "")


def side_words(threshold: float, left: bool, kind: str = NUMBER) -> str:
    """What is known of the values on one side of a threshold."""
    if kind == TRUTH and 0.0 <= threshold < 1.0:
        return "= no" if left else "= yes"
    return f"{'<=' if left else '>'} {date_words(threshold, kind) if kind in DATES else f'{threshold:.6g}'}"


def one_of(labels: Iterable[Any]) -> str:
    """What a nominal split says of its feature."""
    return f" in {{{', '.join(sorted(map(label_words, labels)))}}}"


def label_words(label: Any) -> str:
    """A category as text."""
    if isinstance(label, bool):
        return "yes" if label else "no"
    return "missing" if label is None else str(label)
