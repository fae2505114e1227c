"""What a split says, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..table.coding import LARGEST
from ..table.kinds import NUMBER, TRUTH, Kind, value_words


def ordered_words(threshold: float, missing_left: bool | None, kind: Kind = NUMBER) -> str:
    """Return an ordered split in words, behind the name of its feature; ``missing_left`` is None if none is missing."""
    if missing_left is not None and abs(threshold) == LARGEST:
        return " is missing" if missing_left else " is known"
    return f" {side_words(threshold, True, kind)}" + (" or missing" if missing_left else "")


def side_words(threshold: float, left: bool, kind: Kind = NUMBER) -> str:
    """Return what is known of the values on one side of a threshold, in words."""
    if kind == TRUTH and 0.0 <= threshold < 1.0:
        return "= no" if left else "= yes"
    return f"{'<=' if left else '>'} {value_words(threshold, kind)}"


def one_of(labels: Iterable[Any]) -> str:
    """What a nominal split says of its feature."""
    return f" in {{{', '.join(sorted(map(label_words, labels)))}}}"


def label_words(label: Any) -> str:
    """A category as text."""
    if isinstance(label, bool):
        return "yes" if label else "no"
    return "missing" if label is None else str(label)
