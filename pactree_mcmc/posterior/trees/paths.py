"""The path from the root to a node in words, each feature once: ``x3 <= 0.5, x7 > 2``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ...table.columns import Columns
from ...table.words import figure, one_of, side_words, value_text
from ...tree.arrays import LEAF, TreeArrays

ALL_ROWS = "all rows"
Cuts = dict[tuple[int, bool], tuple[float, float]]
"""Intervals of thresholds by feature and side, True for the left one."""


class Condition(NamedTuple):
    """The answer to one split, in the units of X."""

    feature: int
    threshold: float
    """NaN if the split separates missing from known values."""
    categories: int
    """Bits of the categories going left, -1 for an ordered feature."""
    missing_left: bool
    left: bool
    """True if the path goes left."""
    low: float = math.nan
    """Largest training value on the left of the threshold, in the cell that it splits; NaN if it is unknown."""
    high: float = math.nan
    """Smallest training value on the right, likewise."""


def path_to(trees: TreeArrays, between: np.ndarray | None, tree: int, node: int) -> list[tuple[int, Condition]]:
    """Return the nodes above ``node``, counted over all trees, from the root of its ``tree`` on, and their conditions.

    ``between`` is as `values_between` returns it.
    """
    base = int(trees.offset[tree])
    here, out = base, []
    while here < node:
        right = base + int(trees.right[here])
        left = node < right
        out.append((here, condition_of(trees, between, here, left)))
        here = here + 1 if left else right
    return out


def condition_of(trees: TreeArrays, between: np.ndarray | None, node: int, left: bool = True) -> Condition:
    """Return the condition of an inner node, that of its left side unless ``left`` is False."""
    assert trees.feature[node] != LEAF
    k, threshold = int(trees.feature[node]), float(trees.threshold[node])
    low, high = (math.nan, math.nan) if between is None else between[node].tolist()
    return Condition(k, threshold, int(trees.categories[node]), bool(trees.default_left[node]), left, low, high)


def conditions_in_words(
    columns: Columns, conditions: Iterable[Condition], above: Sequence[Condition] = (), cuts: Cuts | None = None
) -> str:
    """Return the conditions together, one of each feature and side, features in the order of the path.

    Of a nominal feature only the categories that the conditions ``above`` admit are named. ``cuts`` are intervals of
    thresholds, which are shown in brackets.
    """
    by_feature: dict[int, list[Condition]] = {}
    for condition in conditions:
        by_feature.setdefault(condition.feature, []).append(condition)
    words = [
        columns.names[k] + text
        for k, own in by_feature.items()
        for text in _as_texts(columns, k, own, above, cuts or {})
    ]
    return ", ".join(words) if words else ALL_ROWS


def _as_texts(
    columns: Columns, k: int, conditions: list[Condition], above: Sequence[Condition], cuts: Cuts
) -> list[str]:
    """Return the conditions on feature ``k`` together as texts, to be put behind its name."""
    if columns.categories[k] is not None:
        return [_categories_as_text(columns, k, conditions, above)]
    lacks = k in columns.twins and all(c.missing_left == c.left for c in conditions)
    of_missing = [c for c in conditions if math.isnan(c.threshold)]
    if any(c.missing_left == c.left for c in of_missing):
        return [" is missing"]
    finite = [c for c in conditions if math.isfinite(c.threshold)]
    lower, upper = (sorted((c for c in finite if c.left == left), key=lambda c: c.threshold) for left in (False, True))
    texts = []
    for c in lower[-1:] + upper[:1]:
        if (k, c.left) in cuts:
            cut, low, high = (cut_text(columns, k, number) for number in (c.threshold, *cuts[k, c.left]))
            texts.append(f" {'<=' if c.left else '>'} {cut} [{low}, {high}]")
        else:
            texts.append(f" {side_words(c.threshold, c.left, columns.kind(k), c.low, c.high)}")
    texts = texts or [" is known"] * bool(of_missing)
    return [text + " or missing" * lacks for text in texts]


def cut_text(columns: Columns, k: int, cut: float) -> str:
    """Return a cut of an ordered feature as short text."""
    return figure(cut, 4) if columns.kind(k).is_plain else value_text(cut, columns.kind(k))


def _categories_as_text(columns: Columns, k: int, conditions: list[Condition], above: Sequence[Condition]) -> str:
    """Return the categories that conditions admit as text, or those that they exclude if these are fewer."""
    possible = _possible(columns, k, above)
    allowed = possible & _possible(columns, k, conditions)
    if allowed in (0, possible):
        # paths of two trees with the same rows may differ in categories that no row has
        possible, allowed = _possible(columns, k, ()), _possible(columns, k, conditions)
    if 2 * allowed.bit_count() > possible.bit_count():
        return " not" + one_of(columns.label_set(k, possible & ~allowed))
    return one_of(columns.label_set(k, allowed))


def _possible(columns: Columns, k: int, conditions: Iterable[Condition]) -> int:
    """Return the bits of the categories of feature ``k`` that conditions admit."""
    categories = columns.categories[k]
    assert categories is not None
    out = (1 << len(categories)) - 1
    for condition in conditions:
        if condition.feature == k:
            out &= condition.categories if condition.left else ~condition.categories
    return out
