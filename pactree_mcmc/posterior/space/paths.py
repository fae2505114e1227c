"""The way from the root to a node in words, each feature once: ``x3 <= 0.5, x7 > 2``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...table.coding import LARGEST
from ...table.columns import Columns
from ...tree.arrays import LEAF, TreeArrays
from ...tree.words import one_of, side_words

ALL_ROWS = "all rows"


class Condition(NamedTuple):
    """The answer to one split, in the units of X."""

    feature: int
    threshold: float
    categories: int
    """Bits of the categories going left, -1 for an ordered feature."""
    missing_left: bool
    left: bool
    """The answer: yes."""


def path_to(trees: TreeArrays, tree: int, node: int) -> list[tuple[int, Condition]]:
    """Nodes above ``node``, counted over all trees, from the root of its ``tree`` on, and what each asks."""
    base = int(trees.offset[tree])
    here, out = base, []
    while here < node:
        right = base + int(trees.right[here])
        left = node < right
        out.append((here, condition_of(trees, here, left)))
        here = here + 1 if left else right
    return out


def condition_of(trees: TreeArrays, node: int, left: bool = True) -> Condition:
    """What an inner node asks, with the answer yes unless ``left`` is False."""
    assert trees.feature[node] != LEAF
    k, threshold = int(trees.feature[node]), float(trees.threshold[node])
    return Condition(k, threshold, int(trees.categories[node]), bool(trees.default_left[node]), left)


def in_words(columns: Columns, conditions: Iterable[Condition]) -> str:
    """The conditions together, one of each feature and side, in the order in which features are met."""
    by_feature: dict[int, list[Condition]] = {}
    for condition in conditions:
        by_feature.setdefault(condition.feature, []).append(condition)
    words = [columns.names[k] + said for k, known in by_feature.items() for said in _said(columns, k, known)]
    return ", ".join(words) if words else ALL_ROWS


def _said(columns: Columns, k: int, known: list[Condition]) -> list[str]:
    """What conditions about feature ``k`` say of it, behind its name."""
    if columns.categories[k] is not None:
        return [_categories_said(columns, k, known)]
    upper, lower, present, lacks, told = np.inf, -np.inf, True, k in columns.twins, False
    for _, threshold, _, missing_left, left in known:
        lacks &= missing_left == left
        if abs(threshold) == LARGEST:
            # missing values on one side, all others on the other
            present, told = present and missing_left != left, True
        elif left:
            upper = min(upper, threshold)
        else:
            lower = max(lower, threshold)
    if not present:
        return [" is missing"]
    bounds = [(lower, False)] * bool(lower > -np.inf) + [(upper, True)] * bool(upper < np.inf)
    said = [f" {side_words(bound, left, columns.kind(k))}" for bound, left in bounds] or [" is known"] * told
    return [*said[:-1], said[-1] + (" or missing" if lacks else "")] if said else []


def _categories_said(columns: Columns, k: int, known: list[Condition]) -> str:
    categories = columns.categories[k]
    assert categories is not None
    every = (1 << len(categories)) - 1
    allowed = every
    for condition in known:
        allowed &= condition.categories if condition.left else ~condition.categories
    if 2 * allowed.bit_count() > len(categories):
        return " not" + one_of(columns.label_set(k, every & ~allowed))
    return one_of(columns.label_set(k, allowed))
