"""Groups of categories, for nominal columns with more categories than a split can separate.

The compiled code holds a set of categories as the bits of one integer. A column with more than ``MAX_CATEGORIES``
categories is therefore split by groups of categories that are neighbours in sorted order. The groups depend on the
numbers of rows only, never on y: groups chosen by y would make splits on such a column look far better than they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..files.encoding import kept

MAX_CATEGORIES = 63
"""Largest number of categories, or groups of categories, of a column: the bits of an int64 without its sign."""


@kept
@dataclass(frozen=True)
class CategoryGroup:
    """Two or more categories, neighbours in sorted order, which no split separates."""

    labels: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.labels[0]} to {self.labels[-1]}"

    __repr__ = __str__


def group_categories(labels: np.ndarray, n_rows: np.ndarray) -> np.ndarray:
    """Return at most ``MAX_CATEGORIES`` categories or groups of neighbouring ones, in the order of ``labels``.

    The largest group has as few rows as possible. A missing value (None, which comes last) is never grouped.

    Parameters
    ----------
    labels : ndarray of shape (m,)
        The categories in sorted order.
    n_rows : int array of shape (m,)
        The number of rows of each category.
    """
    if len(labels) <= MAX_CATEGORIES:
        return labels
    lacks = labels[-1] is None
    n, most = len(labels) - lacks, MAX_CATEGORIES - lacks
    below = np.concatenate([[0], np.cumsum(n_rows[:n])])
    # the smallest limit of rows a group for which at most `most` groups are needed, by bisection
    low, high = 0, int(below[-1])
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_group_starts(below, middle, most)) <= most else (middle, high)
    starts = _group_starts(below, high, most)
    plain = labels.tolist()
    groups = [plain[a:b] for a, b in zip(starts, [*starts[1:], n], strict=True)] + [[None]] * lacks
    out = np.empty(len(groups), dtype=object)
    out[:] = [group[0] if len(group) == 1 else CategoryGroup(tuple(group)) for group in groups]
    return out


def _group_starts(below: np.ndarray, limit: int, most: int) -> list[int]:
    """Return the first category of each group if groups are filled in order up to ``limit`` rows.

    Once the categories left are no more than the groups left, of ``most``, each is alone.
    """
    starts, n = [0], len(below) - 1
    while True:
        if n - starts[-1] <= most - len(starts) + 1:
            return [*starts, *range(starts[-1] + 1, n)]
        last = max(int(np.searchsorted(below, below[starts[-1]] + limit, side="right")) - 1, starts[-1] + 1)
        if last >= n:
            return starts
        starts.append(last)


def labels_of(category: Any) -> tuple[Any, ...]:
    """Return the labels of a category, or of all categories of a group."""
    return category.labels if isinstance(category, CategoryGroup) else (category,)


def is_grouped(categories: np.ndarray | None) -> bool:
    """Return True if some of the categories of a column are groups."""
    return categories is not None and any(isinstance(category, CategoryGroup) for category in categories.tolist())
