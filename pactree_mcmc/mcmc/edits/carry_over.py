"""Splits carried from one cell to another: moves that change a split apply those below it again in new cells.

Under local cuts a split is a way of parting the rows of a cell, and many thresholds, or sets of categories, do
it alike. To make it in another cell a node's split is first made *raw*: one of these thresholds or sets is drawn
uniformly (`draw_raw`); there the raw split is fitted to the new cell (`fit_split`). A move that does so is an
exchange between raw trees: its proposal ratio holds the number of raw forms of each split that was carried,
``log_raw_forms``, of the new tree minus that of the old, with a minus sign.
"""

from math import inf, log
from typing import NamedTuple

import numpy as np

from ...core.bits import all_bits, n_bits
from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.geometry import follows_design, halves_box, has_empty_sides, least_rows, parts_box, parts_rows
from ..state.codes import codes_about
from ..state.random import flip, pick
from ..state.records import NONE
from ..state.splits import Split, fixed_split, log_rule_of, span
from ..state.tree import ChainState

MIDPOINT = -2
"""As a raw cut: wherever the middle of the box is."""
LOG_2 = log(2.0)


class RawForms(NamedTuple):
    """The raw forms of a split: any of ``n`` cuts from ``first`` on; the categories ``free`` on either side."""

    first: int
    n: int
    free: int
    swaps: bool
    """Whether the form with its sides exchanged is another one."""


class Raw(NamedTuple):
    """A split as it can be made in any cell."""

    cut: int
    categories: int
    swapped: bool
    """The side written as left is the present right side."""
    log_raw_forms: float


@jit
def fit_split(
    model: Lowered, state: ChainState, node: int, feature: int, cut: int, categories: int
) -> tuple[Split, bool]:
    """Return the split of a leaf that separates its cell as the given one does, and True if its sides changed places.

    ``log_rule`` is ``-inf`` if the split cannot be made. Under nominal splits the smallest category goes left.
    """
    rule = model.split_prior
    if follows_design(rule):
        return fixed_split(model, state, node), False
    refused = Split(feature, cut, cut + 1, categories, -inf)
    if not state.node[node].splittable:
        return refused, False
    upper, swapped, possible = cut + 1, False, True
    if categories >= 0:
        categories, swapped, possible = _fit_categories(model, state, node, feature, categories)
        cut = upper = np.int64(-1)
    elif parts_rows(rule):
        n_codes = rule.feature[feature].n_codes
        low, upper = codes_about(model, state, node, feature, cut)
        if not has_empty_sides(rule):
            possible = low >= 0 and upper < n_codes
            if possible and rule.min_leaf > 1:
                possible = leaves_rows(model, state, node, feature, low, rule.min_leaf)
        cut = low if upper < n_codes else n_codes - 1
    else:
        low, high = span(model, state, node, feature)
        middle = (low + high) // 2 - 1
        if cut == MIDPOINT:
            cut = middle
        possible = low <= cut < high - 1 if parts_box(rule) else high - low >= 2 and cut == middle
        upper = cut + 1
    if not possible:
        return refused, False
    log_rule = log_rule_of(model, state, node, feature, cut)
    if log_rule == -inf:
        return refused, False
    return Split(feature, cut, upper, categories, log_rule), swapped


@jit
def _fit_categories(model: Lowered, state: ChainState, node: int, k: int, categories: int) -> tuple[int, bool, bool]:
    """Return the categories going left, True if the sides changed places, and True if the split can be made."""
    rule = model.split_prior
    present = cell_bits(model, state, node, k)
    left = categories & present
    if has_empty_sides(rule) and (left == 0 or left == present):
        everything = left == present
        return all_bits(rule.feature[k].n_codes) if everything else np.int64(0), False, True
    if left == 0 or left == present:
        return left, False, False
    swapped = left & present & -present == 0
    if swapped:
        left = present & ~left
    if least_rows(rule) > 1:
        rows = rows_with(model, state, node, k, left)
        return left, swapped, min(rows, state.node[node].rows - rows) >= rule.min_leaf
    return left, swapped, True


@jit
def leaves_rows(model: Lowered, state: ChainState, node: int, k: int, cut: int, least: int) -> bool:
    """Return True if a cut of an ordered feature leaves at least ``least`` rows of the node on both sides."""
    units, left = model.units, np.int64(0)
    for i in range(state.node[node].start, state.node[node].stop):
        u = state.order[i]
        if units.codes[k, u] <= cut:
            left += units.rows[u & units.rows_all]
    return min(left, state.node[node].rows - left) >= least


@jit
def cell_bits(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Return the bits of the categories that a split of the cell separates, those of its box under grid cuts, else of
    its rows.
    """
    if parts_box(model.split_prior):
        return state.box[node, k, 0]
    codes, order = model.units.codes, state.order
    seen, every = np.int64(0), all_bits(model.split_prior.feature[k].n_codes)
    for i in range(state.node[node].start, state.node[node].stop):
        seen |= np.int64(1) << np.int64(codes[k, order[i]])
        if seen == every:
            break
    return seen


@jit
def rows_with(model: Lowered, state: ChainState, node: int, k: int, categories: int) -> int:
    """Return the number of rows of the node whose category is one of the given bits."""
    units, total = model.units, np.int64(0)
    for i in range(state.node[node].start, state.node[node].stop):
        u = state.order[i]
        if (categories >> np.int64(units.codes[k, u])) & 1:
            total += units.rows[u & units.rows_all]
    return total


@jit
def raw_forms(model: Lowered, state: ChainState, node: int) -> RawForms:
    """Return the raw forms of an internal node's split."""
    rule, here = model.split_prior, state.node[node]
    k = here.feature
    if halves_box(rule):
        return RawForms(np.int64(MIDPOINT), np.int64(1), np.int64(0), False)
    if follows_design(rule):
        return RawForms(here.cut, np.int64(1), np.int64(0), False)
    if here.categories >= 0:
        present = cell_bits(model, state, node, k)
        left = here.categories & present
        swaps = left != 0 and left != present
        return RawForms(here.cut, np.int64(1), all_bits(rule.feature[k].n_codes) & ~present, swaps)
    if parts_box(rule):
        return RawForms(here.cut, np.int64(1), np.int64(0), False)
    first = here.cut
    if here.upper == rule.feature[k].n_codes:
        first = code_range(model, state, node, k)[1] if here.stop > here.start else np.int64(-1)
    return RawForms(first, here.upper - first, np.int64(0), False)


@jit
def log_raw_forms(free: RawForms) -> float:
    """Return the log of the number of raw forms."""
    return log(float(free.n)) + LOG_2 * (n_bits(free.free) + free.swaps)


@jit
def draw_raw(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> Raw:
    """Draw a raw form of an internal node's split, with equal probabilities."""
    free, here = raw_forms(model, state, node), state.node[node]
    if here.categories < 0:
        cut = free.first + pick(rng, free.n) if free.n > 1 else free.first
        return Raw(cut, np.int64(-1), False, log_raw_forms(free))
    categories = here.categories & ~free.free
    left = free.free
    while left:
        lowest = left & -left
        if flip(rng, 0.5):
            categories |= lowest
        left &= left - 1
    swapped = False
    if free.swaps and flip(rng, 0.5):
        categories = all_bits(model.split_prior.feature[here.feature].n_codes) & ~categories
        swapped = True
    return Raw(np.int64(-1), categories, swapped, log_raw_forms(free))


@jit
def one_way(model: Lowered, state: ChainState, node: int, k: int, cut: int, categories: int) -> int:
    """Return 0 if the split sends the whole cell left, 1 if right, -1 if it separates rows."""
    if categories >= 0:
        present = cell_bits(model, state, node, k)
        if categories & present == present:
            return 0
        return 1 if categories & present == 0 else NONE
    if parts_rows(model.split_prior):
        low, high = code_range(model, state, node, k)
    else:
        low, high = state.box[node, k, 0], state.box[node, k, 1] - 1
    if high <= cut:
        return 0
    return 1 if low > cut else NONE


@jit
def code_range(model: Lowered, state: ChainState, node: int, k: int) -> tuple[int, int]:
    """Return the smallest and the largest code of feature ``k`` among the rows of a node."""
    codes, order, start = model.units.codes, state.order, state.node[node].start
    low = high = np.int64(codes[k, order[start]])
    for i in range(start + 1, state.node[node].stop):
        c = np.int64(codes[k, order[i]])
        low, high = min(low, c), max(high, c)
    return low, high
