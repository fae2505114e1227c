"""The path from the root to a node in words, each feature once: ``x3 <= 0.5, x7 > 2``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...table.coding import Scale
from ...table.columns import Columns
from ...table.words import DURATION, TRUTH, categories_text, rounded_text, side_words, threshold_text, value_text
from ...tree.arrays import LEAF, TreeArrays

if TYPE_CHECKING:
    from ...model import TreeModel

ALL_ROWS = "all rows"
DURATION_TEXT_ERROR = 5e-4
"""Largest relative error of the text of a duration, as of a number with 4 digits."""
CutIntervals = dict[tuple[int, bool], tuple[str, str]]
"""Ends (lower, upper) of the interval of a threshold as text, by (feature, side), True for the left side."""


class Condition(NamedTuple):
    """One split on a path and the side that the path takes, in the units of X."""

    feature: int
    """Number of the feature that the node splits on."""
    threshold: float
    """Largest value that goes left; NaN if the split separates missing from known values."""
    categories: int
    """Bits of the categories going left, -1 for an ordered feature."""
    missing_left: bool
    """True if missing values go left."""
    left: bool
    """True if the path goes left."""
    low: float = math.nan
    """Largest training value in the cell that goes left; NaN if it is unknown."""
    high: float = math.nan
    """Smallest training value in the cell that goes right; NaN if it is unknown."""


def path_to(trees: TreeArrays, between: np.ndarray | None, tree: int, node: int) -> list[tuple[int, Condition]]:
    """Return the ancestors of ``node``, from the root of its ``tree`` on, each as (number, condition on the path)."""
    root = int(trees.offset[tree])
    ancestor, path = root, []
    while ancestor < node:
        right = root + int(trees.right[ancestor])
        left = node < right
        path.append((ancestor, condition_of(trees, between, ancestor, left)))
        ancestor = ancestor + 1 if left else right
    return path


def condition_of(trees: TreeArrays, between: np.ndarray | None, node: int, left: bool = True) -> Condition:
    """Return the condition under which a row goes left at an inner node, or goes right if ``left`` is False."""
    assert trees.feature[node] != LEAF
    k, threshold = int(trees.feature[node]), float(trees.threshold[node])
    low, high = (math.nan, math.nan) if between is None else between[node].tolist()
    return Condition(k, threshold, int(trees.categories[node]), bool(trees.default_left[node]), left, low, high)


def beside_all_rows(model: TreeModel, condition: Condition) -> Condition:
    """Return the condition with the training values next to its threshold in the whole column, not in the cell."""
    scale, threshold, low, high = model.scales[condition.feature], condition.threshold, math.nan, math.nan
    if condition.categories < 0 and math.isfinite(threshold) and isinstance(scale, Scale) and len(scale.low):
        code = int(np.searchsorted(scale.high, threshold, side="right")) - 1
        if 0 <= code < scale.n_codes - 1:
            low, high = float(scale.high[code]), float(scale.low[code + 1])
    return condition._replace(low=low, high=high)


def units_on_side(model: TreeModel, condition: Condition) -> np.ndarray:
    """Return for each unit (merged row) of the model True if it satisfies the condition, (n_units,) bool."""
    values = model.unit_column(condition.feature)
    if condition.categories >= 0:
        goes_left = (condition.categories >> values.astype(np.int64)) & 1 == 1
    else:
        is_missing = np.isnan(values)
        goes_left = values <= condition.threshold
        if math.isnan(condition.threshold):
            goes_left = np.full(len(values), not condition.missing_left)
        goes_left[is_missing] = condition.missing_left
    return goes_left if condition.left else ~goes_left


def stats_of_units(model: TreeModel, is_inside: np.ndarray, n_stats: int) -> np.ndarray:
    """Return the statistics (n_stats,) of a cell with the units for which ``is_inside`` (n_units,) is True."""
    return replace(model.root_cell(), index=np.flatnonzero(is_inside)).stats(n_stats)


def conditions_in_words(
    columns: Columns,
    conditions: Iterable[Condition],
    ancestors: Sequence[Condition] = (),
    cuts: CutIntervals | None = None,
) -> str:
    """Return the conjunction of ``conditions``, those of a path, as text: for each feature its tightest bounds."""
    by_feature: dict[int, list[Condition]] = {}
    for condition in conditions:
        by_feature.setdefault(condition.feature, []).append(condition)
    texts = [
        columns.names[k] + text
        for k, of_feature in by_feature.items()
        for text in _condition_texts(columns, k, of_feature, ancestors, cuts or {})
    ]
    return ", ".join(texts) if texts else ALL_ROWS


def _condition_texts(
    columns: Columns, k: int, conditions: list[Condition], ancestors: Sequence[Condition], cuts: CutIntervals
) -> list[str]:
    """Return the conjunction of ``conditions``, all on feature ``k``, as texts that follow the feature's name."""
    if columns.categories[k] is not None:
        return [_category_text(columns, k, conditions, ancestors)]
    admits_missing = k in columns.twins and all(c.missing_left == c.left for c in conditions)
    of_missing = [c for c in conditions if math.isnan(c.threshold)]
    if any(c.missing_left == c.left for c in of_missing):
        return [" is missing"]
    finite = [c for c in conditions if math.isfinite(c.threshold)]
    lower, upper = (sorted((c for c in finite if c.left == left), key=lambda c: c.threshold) for left in (False, True))
    texts = []
    for c in lower[-1:] + upper[:1]:
        texts.append(f" {cut_words(columns, c, cuts.get((k, c.left)))}")
    texts = texts or [" is known"] * bool(of_missing)
    return [text + " or missing" * admits_missing for text in texts]


def cut_words(columns: Columns, cut: Condition, ends: tuple[str, str] | None = None) -> str:
    """Return the condition ``cut`` of an ordered split as text that follows the name of the feature."""
    kind = columns.kind(cut.feature)
    if ends is None or kind == TRUTH:
        return side_words(cut.threshold, cut.left, kind, cut.low, cut.high)
    return f"{'<=' if cut.left else '>'} {cut_text(columns, cut)} [{ends[0]}, {ends[1]}]"


def interval_of_cut(model: TreeModel, k: int, lower: float, upper: float) -> tuple[str, str] | None:
    """Return the ends of the interval of a threshold of feature ``k`` as text, or None if they are equal."""
    if not lower < upper:
        return None
    low, high = (_end_text(model, beside_all_rows(model, Condition(k, end, -1, False, True))) for end in (lower, upper))
    return low, high


def _end_text(model: TreeModel, end: Condition) -> str:
    """Return an end of the interval of a threshold as text."""
    if model.columns.kind(end.feature).is_plain and not end.low <= end.threshold < end.high:
        # the midpoint of a gap of its cell, among values that the candidate cuts of the column do not part
        return rounded_text(end.threshold)
    return cut_text(model.columns, end)


def cut_text(columns: Columns, cut: Condition) -> str:
    """Return the threshold of ``cut`` as short text."""
    kind, threshold = columns.kind(cut.feature), cut.threshold
    low, high = cut.low, cut.high
    if not low <= threshold < high:
        low, high = threshold, math.nextafter(threshold, math.inf)
    if kind.is_plain:
        short = rounded_text(threshold, 4)
        return short if low <= float(short) < high else threshold_text(threshold, low, high, kind)
    if kind == DURATION:
        error = DURATION_TEXT_ERROR * abs(threshold)
        return threshold_text(threshold, max(low, threshold - error), min(high, threshold + error), kind)
    return value_text(threshold, kind)


def _category_text(columns: Columns, k: int, conditions: list[Condition], ancestors: Sequence[Condition]) -> str:
    """Return the categories that ``conditions``, all on nominal feature ``k``, admit as text that follows its name."""
    possible = _admitted_categories(columns, k, ancestors)
    admitted = possible & _admitted_categories(columns, k, conditions)
    if admitted in (0, possible):
        # paths of two trees with the same rows may differ in categories that no row has
        possible, admitted = _admitted_categories(columns, k, ()), _admitted_categories(columns, k, conditions)
    if 2 * admitted.bit_count() > possible.bit_count():
        or_missing = " or missing" if None in columns.label_set(k, admitted) else ""
        return " not" + categories_text(columns.label_set(k, possible & ~admitted)) + or_missing
    return categories_text(columns.label_set(k, admitted))


def _admitted_categories(columns: Columns, k: int, conditions: Iterable[Condition]) -> int:
    """Return the categories of nominal feature ``k``, as bits, that all ``conditions`` on this feature admit."""
    categories = columns.categories[k]
    assert categories is not None
    admitted = (1 << len(categories)) - 1
    for condition in conditions:
        if condition.feature == k:
            admitted &= condition.categories if condition.left else ~condition.categories
    return admitted
