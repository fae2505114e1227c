"""Splits carried over to other cells. A move that changes a split applies those below it again, in new cells.

Under local cuts a split is a partition of the rows of a cell, and many thresholds, or sets of categories, give the same
partition. They are the *raw forms* of the split. A move that carries a split over draws one of its raw forms uniformly
(`draw_raw`) and fits that to the new cell (`fit_split`). Such a move exchanges raw trees. For each split carried over,
its log proposal ratio contains the log number of raw forms in the old tree minus that in the new one.
"""

from math import inf, log
from typing import NamedTuple

import numpy as np

from ...core.bits import full_mask, goes_left, n_bits
from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.base import follows_design, halves_box, has_empty_sides, least_rows, parts_box, parts_rows
from ..state.random import flip, pick, pick_subset
from ..state.records import NONE, ChainState
from ..state.splits import Split, box_range, fixed_split, log_rule_of, neighbouring_codes

MIDPOINT = -2  # cut in the raw form of a split in the middle of a box
LOG_2 = log(2.0)


class RawForms(NamedTuple):
    """Raw forms of a split, which are the thresholds or sets of categories that divide the cell alike."""

    # at an ordered split any of the `n` cuts from `first` on; at a nominal one the categories in `free` may be on
    # either side
    first: int
    n: int
    free: int
    swaps: bool  # True if exchanging the sides gives another raw form


class RawForm(NamedTuple):
    """Raw form of a split, a threshold ``cut`` or a set of categories (bits, else -1), that any cell can be cut by."""

    cut: int
    categories: int
    swapped: bool  # True if the left side of the raw form is the right side of the split
    log_raw_forms: float  # log number of raw forms of the split


@jit
def fit_split(
    model: Lowered, state: ChainState, node: int, feature: int, cut: int, categories: int
) -> tuple[Split, bool]:
    """Return the split that a raw form gives in a leaf's cell, and True if its sides changed places."""
    # The raw form is the largest code going left, `cut` (MIDPOINT: the middle of the box), or, if not -1, the bits of
    # the `categories` that go left; under nominal splits the smallest category goes left. A fixed tree gives its own
    # split instead. log_rule is -inf if the split is not admissible
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
        low, upper = neighbouring_codes(model, state, node, feature, cut)
        if not has_empty_sides(rule):
            possible = low >= 0 and upper < n_codes
            if possible and rule.min_leaf > 1:
                possible = has_min_rows(model, state, node, feature, low, np.int64(-1))
        cut = low if upper < n_codes else n_codes - 1
    else:
        low, high = box_range(model, state, node, feature)
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
    """Return the bits that go left in a node's cell, if the sides changed places, and if each has enough rows."""
    rule = model.split_prior
    present = cell_categories(model, state, node, k)
    left = categories & present
    if has_empty_sides(rule) and (left == 0 or left == present):
        return full_mask(rule.feature[k].n_codes) if left == present else np.int64(0), False, True
    if left == 0 or left == present:
        return left, False, False
    swapped = left & present & -present == 0
    if swapped:
        left = present & ~left
    if least_rows(rule) > 1:
        return left, swapped, has_min_rows(model, state, node, k, np.int64(0), left)
    return left, swapped, True


@jit
def has_min_rows(model: Lowered, state: ChainState, node: int, k: int, cut: int, categories: int) -> bool:
    """Return True if a split on feature ``k`` leaves at least ``min_leaf`` rows of the node on both sides."""
    codes, rows, rows_left = model.units.codes, model.units.rows, np.int64(0)
    for i in range(state.node[node].start, state.node[node].stop):
        u = state.order[i]
        rows_left += goes_left(np.int64(codes[k, u]), cut, categories) * rows[u & model.units.rows_all]
    return min(rows_left, state.node[node].rows - rows_left) >= model.split_prior.min_leaf


@jit
def cell_categories(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Return the bits of the categories of feature ``k`` in a node's box under grid cuts, else in its rows."""
    if parts_box(model.split_prior):
        return state.box[node, k, 0]
    codes, order = model.units.codes, state.order
    categories, all_categories = np.int64(0), full_mask(model.split_prior.feature[k].n_codes)
    for i in range(state.node[node].start, state.node[node].stop):
        categories |= np.int64(1) << np.int64(codes[k, order[i]])
        if categories == all_categories:
            break
    return categories


@jit
def raw_forms(model: Lowered, state: ChainState, node: int) -> RawForms:
    """Return the raw forms of an internal node's split: the cuts, or sets of categories, that divide the cell alike."""
    rule, record = model.split_prior, state.node[node]
    k = record.feature
    if halves_box(rule):
        return RawForms(np.int64(MIDPOINT), np.int64(1), np.int64(0), False)
    if follows_design(rule):
        return RawForms(record.cut, np.int64(1), np.int64(0), False)
    if record.categories >= 0:
        present = cell_categories(model, state, node, k)
        left = record.categories & present
        swaps = left != 0 and left != present
        return RawForms(record.cut, np.int64(1), full_mask(rule.feature[k].n_codes) & ~present, swaps)
    if parts_box(rule):
        return RawForms(record.cut, np.int64(1), np.int64(0), False)
    first = record.cut
    if record.upper == rule.feature[k].n_codes:
        first = code_range(model, state, node, k)[1] if record.stop > record.start else np.int64(-1)
    return RawForms(first, record.upper - first, np.int64(0), False)


@jit
def log_raw_forms(forms: RawForms) -> float:
    """Return the log of the number of raw forms, the cuts or sets of categories that divide the cell alike."""
    return log(float(forms.n)) + LOG_2 * (n_bits(forms.free) + forms.swaps)


@jit
def draw_raw(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> RawForm:
    """Draw a raw form of an internal node's split, a cut or category set that divides the cell alike, uniformly."""
    forms, record = raw_forms(model, state, node), state.node[node]
    if record.categories < 0:
        cut = forms.first + pick(rng, forms.n) if forms.n > 1 else forms.first
        return RawForm(cut, np.int64(-1), False, log_raw_forms(forms))
    categories = (record.categories & ~forms.free) | pick_subset(rng, forms.free)
    swapped = False
    if forms.swaps and flip(rng, 0.5):
        categories = full_mask(model.split_prior.feature[record.feature].n_codes) & ~categories
        swapped = True
    return RawForm(np.int64(-1), categories, swapped, log_raw_forms(forms))


@jit
def undivided_side(model: Lowered, state: ChainState, node: int, k: int, cut: int, categories: int) -> int:
    """Return the side, 0 left or 1 right, to which a split sends the whole cell of a node; -1 if it divides it."""
    if categories >= 0:
        present = cell_categories(model, state, node, k)
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
    """Return the smallest and the largest code of feature ``k`` among the rows of a node, which must have rows."""
    codes, order, start = model.units.codes, state.order, state.node[node].start
    low = high = np.int64(codes[k, order[start]])
    for i in range(start + 1, state.node[node].stop):
        c = np.int64(codes[k, order[i]])
        low, high = min(low, c), max(high, c)
    return low, high
