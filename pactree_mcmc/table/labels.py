"""Labels of nominal columns and of classes, and groups of categories."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.checks import read_array, repr_of
from ..core.warn import warn
from ..files.encoding import CODEC, NotStorable, register_class

# largest number of categories, or groups of them, of a column, so that a set is an int64 with its sign bit free
MAX_CATEGORIES = 63


@register_class
@dataclass(frozen=True)
class CategoryGroup:
    """Two or more categories, neighbours in sorted order, which no split separates."""

    labels: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.labels[0]} to {self.labels[-1]}"

    __repr__ = __str__


def group_categories(labels: np.ndarray, n_rows: np.ndarray) -> np.ndarray:
    """Return at most `MAX_CATEGORIES` categories or groups of neighbouring ones, in the order of `labels`."""
    # the largest group has as few rows as possible; a missing value (None, the last) is never grouped
    if len(labels) <= MAX_CATEGORIES:
        return labels
    lacks = labels[-1] is None
    n, max_groups = len(labels) - lacks, MAX_CATEGORIES - lacks
    cumulative = np.concatenate([[0], np.cumsum(n_rows[:n])])
    # bisection for the smallest limit on the rows of a group with which at most `max_groups` groups are needed
    low, high = 0, int(cumulative[-1])
    while high - low > 1:
        middle = (low + high) // 2
        is_enough = len(_group_starts(cumulative, middle, max_groups)) <= max_groups
        low, high = (low, middle) if is_enough else (middle, high)
    starts = _group_starts(cumulative, high, max_groups)
    plain = labels.tolist()
    groups = [plain[a:b] for a, b in zip(starts, [*starts[1:], n], strict=True)] + [[None]] * lacks
    out = np.empty(len(groups), dtype=object)
    out[:] = [group[0] if len(group) == 1 else CategoryGroup(tuple(group)) for group in groups]
    return out


def _group_starts(cumulative: np.ndarray, limit: int, max_groups: int) -> list[int]:
    """Return the index of the first category of each group, if groups are filled in order up to ``limit`` rows each."""
    # as soon as no more categories remain than groups, of which there may be `max_groups`, each is its own group
    starts, n = [0], len(cumulative) - 1
    while True:
        if n - starts[-1] <= max_groups - len(starts) + 1:
            return [*starts, *range(starts[-1] + 1, n)]
        last = max(int(np.searchsorted(cumulative, cumulative[starts[-1]] + limit, side="right")) - 1, starts[-1] + 1)
        if last >= n:
            return starts
        starts.append(last)


def labels_of(category: Any) -> tuple[Any, ...]:
    """Return the label of a category, or of all categories in a `CategoryGroup`, as a tuple."""
    return category.labels if isinstance(category, CategoryGroup) else (category,)


def is_grouped(categories: np.ndarray | None) -> bool:
    """Return True if some of the categories of a column are groups."""
    return categories is not None and any(isinstance(category, CategoryGroup) for category in categories.tolist())


def nominal_labels(raw: Any, name: str, may_lack: bool = False, *, is_new: bool = False) -> np.ndarray:
    """Return the nominal column ``raw`` called ``name`` as an array of labels (n,)."""
    if hasattr(raw, "is_null") and hasattr(raw, "to_list"):
        missing = np.asarray(raw.is_null().to_list(), dtype=bool)
        labels = np.array(raw.to_list(), dtype=object)
    else:
        labels = read_array(f"column {name!r}", raw)
        if labels.ndim != 1:
            raise ValueError(f"column {name!r} holds lists or records; give strings or numbers.")
        if labels.dtype.kind in "mM":
            # nanoseconds would become integers, which are not equal to the same dates in another unit
            coarse = labels.astype(f"{labels.dtype.kind}8[us]")
            labels = coarse if np.array_equal(coarse, labels, equal_nan=True) else labels
        if labels.dtype.kind not in "fiubOUS":
            labels = labels.astype(object)
        if labels.dtype.kind == "O":
            missing = np.array([is_missing(v) for v in labels.tolist()], dtype=bool)
        else:
            missing = labels != labels
    if missing.any():
        if not may_lack:
            advice = 'give missing values a category of their own, or missing="branch"'
            raise ValueError(
                f"nominal column {name!r} has a missing value (first in row {int(np.argmax(missing))}); "
                f"{'fill it in: the model was built without missing values' if is_new else advice}."
            )
        labels = labels.astype(object)
        labels[missing] = None
    return labels


def is_missing(label: Any) -> bool:
    """Return True if a label is None, NaN or the NA of pandas."""
    return label is None or type(label).__name__ == "NAType" or is_nan(label)


def refuse_missing(y: Any) -> None:
    """Raise a ValueError, which names the row, if a label or number of y is missing (None, NaN, NA). y may be None."""
    if y is None:
        return
    labels = read_array("y", y)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels).ravel()
    elif labels.dtype.kind == "O":
        missing = np.array([is_missing(label) for label in labels.ravel().tolist()], dtype=np.bool_)
    else:
        return
    if missing.any():
        n_others = int(missing.sum()) - 1
        more = f" and in {n_others} more" if n_others else ""
        raise ValueError(f"y is missing in row {int(np.argmax(missing))}{more}; give it a label, or drop the row.")


def is_nan(label: Any) -> bool:
    """Return True if a label is a NaN of any type."""
    try:
        return bool(label != label)
    except Exception:
        return False


def category_codes(labels: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """Return the index (n,) of each label, or of its `CategoryGroup`, among ``categories``; -1 for an unknown label."""
    if labels.dtype.kind in "iu" and categories.dtype.kind in "iu":
        place = np.searchsorted(categories, labels).clip(max=len(categories) - 1)
        return np.where(categories[place] == labels, place, -1)
    index = {label: j for j, category in enumerate(categories.tolist()) for label in (category, *labels_of(category))}
    return np.array([index.get(c, -1) for c in check_hashable(labels.tolist())], dtype=np.int64)


def refuse_other_kind(labels: np.ndarray, categories: np.ndarray, name: str) -> None:
    """Raise a ValueError if the ``labels`` of new rows are numbers and the ``categories`` are text, or the reverse."""
    kinds = []
    for values in (labels.tolist(), [label for c in categories.tolist() for label in labels_of(c)]):
        is_text = {isinstance(value, str) for value in values if value is not None}
        is_number = all(isinstance(value, numbers.Real) for value in values if value is not None)
        kinds.append("text" if is_text == {True} else "numbers" if is_text and is_number else "")
    if all(kinds) and kinds[0] != kinds[1]:
        raise ValueError(f"nominal column {name!r} holds {kinds[0]}; the model was built on {kinds[1]}: give those.")


def refuse_nul(what: str, label: Any) -> None:
    """Raise a ValueError if a ``label`` is text with a NUL character. ``what`` names the label in the error."""
    if isinstance(label, str) and "\0" in label:
        raise ValueError(f"{what} {repr_of(label)} has a NUL character, which netCDF files cannot hold; rename it.")


def warn_if_not_storable(categories: np.ndarray, name: str) -> None:
    """Warn if a file cannot contain one of the ``categories`` (m,) of the column ``name``, before a run is made."""
    for category in categories.tolist() if categories.dtype.kind == "O" else ():
        try:
            CODEC.encode(category)
        except NotStorable:
            warn(
                f"column {name!r} holds {repr_of(category)}, a {type(category).__name__}, which a file cannot hold: "
                "save and checkpoint= will raise an error. Give text, for instance .astype(str), if you want to save."
            )
            return


def check_hashable(labels: list) -> list:
    """Return the labels, or raise a ValueError that names the type of a label that is not hashable."""
    for label in labels:
        try:
            hash(label)
        except Exception as error:
            raise ValueError(
                f"a {type(label).__name__}, {repr_of(label)}, cannot be a category; give strings or numbers."
            ) from error
    return labels


def sorted_unique(labels: np.ndarray) -> np.ndarray:
    """Return the distinct labels in order, None (missing) last; by type and text if they cannot be compared."""
    if labels.dtype.kind != "O":
        return np.unique(labels)
    distinct = _distinct_labels(labels.tolist())
    missing = [c for c in distinct if c is None]
    distinct.difference_update(missing)
    try:
        ordered = sorted(distinct)
    except Exception:
        ordered = sorted(distinct, key=lambda c: (type(c).__name__, repr_of(c)))
    ordered += missing
    out = np.empty(len(ordered), dtype=object)
    out[:] = ordered
    return out


def _distinct_labels(labels: list) -> set:
    """Return the set of the labels, or raise a ValueError if labels are not hashable or cannot be compared."""
    try:
        return set(check_hashable(labels))
    except ValueError:
        raise
    except Exception as error:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(f"labels of type {', '.join(kinds)} cannot be compared; give strings or numbers.") from error
