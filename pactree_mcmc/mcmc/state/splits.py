"""Splits of a cell, compiled. Other compiled code of the sampler does not distinguish split priors.

A split prior has five operations: the *key* of a cell (`claim_cell_entry`, from the hash of a node), the *mass* of the
splits on a feature, by which R is normalised within the feature (their number if all are equally likely), the *draw* of
a split (`draw_split`), the *enumeration* of splits (`fill_cut_weights`, and in `sums.split_sums`), and *carrying over*
a split from another cell (`edits.carry_over`).
"""

from math import inf, log
from typing import NamedTuple

import numpy as np

from ...core.bits import count_light_subsets, deposit_bits, full_mask, hash_integer, n_bits, sort_first
from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.base import (
    ROWS_LEFT,
    ROWS_RIGHT,
    SplitRule,
    follows_design,
    has_empty_sides,
    has_one_split_per_feature,
    is_weighted,
    new_cut,
    nominal_split_weight,
    parts_box,
    parts_rows,
    set_cell_ends,
    takes_turns,
    weight_between_codes,
)
from .random import pick, pick_weighted
from .records import NONE, STORED_VERSION, ChainState


@jit
def collect_codes(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Write the distinct codes of feature `k` in a node, ascending, into `codes.distinct`; return their number."""
    codes, order, scratch = model.units.codes[k], state.order, state.scratch.codes
    out, is_present = scratch.distinct, scratch.is_present
    start, stop = state.node[node].start, state.node[node].stop
    lowest, highest, n = np.int64(1) << 40, np.int64(-1), np.int64(0)
    for i in range(start, stop):
        c = np.int64(codes[order[i]])
        is_present[c] = 1
        lowest, highest = min(lowest, c), max(highest, c)
    if highest - lowest < 16 * (stop - start):
        for c in range(lowest, highest + 1):
            out[n] = c
            n += is_present[c]
            is_present[c] = 0
        return n
    for i in range(start, stop):
        c = np.int64(codes[order[i]])
        out[n] = c
        n += is_present[c]
        is_present[c] = 0
    sort_first(out, n)
    return n


@jit
def count_codes(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Return the number of distinct codes of feature ``k`` in the rows of a node."""
    codes, order, is_present = model.units.codes, state.order, state.scratch.codes.is_present
    start, stop, n = state.node[node].start, state.node[node].stop, np.int64(0)
    for i in range(start, stop):
        c = codes[k, order[i]]
        n += 1 - is_present[c]
        is_present[c] = 1
    for i in range(start, stop):
        is_present[codes[k, order[i]]] = 0
    return n


@jit
def has_two_codes(model: Lowered, state: ChainState, node: int, k: int) -> bool:
    """Return True if the rows of a node have more than one code of feature ``k``."""
    codes, order = model.units.codes, state.order
    start, stop = state.node[node].start, state.node[node].stop
    for i in range(start + 1, stop):
        if codes[k, order[i]] != codes[k, order[start]]:
            return True
    return False


@jit
def neighbouring_codes(model: Lowered, state: ChainState, node: int, k: int, cut: int) -> tuple[int, int]:
    """Return the largest code of `k` in a node's rows that is at most `cut`, and the smallest one above it."""
    # -1 and the number of codes if there are none; all cuts from the first to the one before the second separate the
    # rows alike
    codes, order = model.units.codes, state.order
    low, high = np.int64(-1), np.int64(model.split_prior.feature[k].n_codes)
    for i in range(state.node[node].start, state.node[node].stop):
        c = np.int64(codes[k, order[i]])
        if c <= cut:
            low = max(low, c)
        else:
            high = min(high, c)
    return low, high


@jit
def collect_codes_between(model: Lowered, state: ChainState, node: int, k: int, low: int, high: int) -> int:
    """Write the distinct codes of `k` in a node between `low` and `high`, exclusive, into `codes.distinct`."""
    # ascending; their number is returned
    codes, order, n = model.units.codes, state.order, np.int64(0)
    out, is_present = state.scratch.codes.distinct, state.scratch.codes.is_present
    for i in range(state.node[node].start, state.node[node].stop):
        c = np.int64(codes[k, order[i]])
        if low < c < high and is_present[c] == 0:
            is_present[c] = 1
            out[n] = c
            n += 1
    sort_first(out, n)
    for j in range(n):
        is_present[out[j]] = 0
    return n


@jit
def count_rows_by_code(model: Lowered, state: ChainState, node: int, k: int, n: int) -> np.ndarray:
    """Return the number of rows of a node with each of the `n` codes of `k` that `collect_codes` has just written."""
    merged_rows, rows, distinct = model.units, state.scratch.codes.rows, state.scratch.codes.distinct
    for i in range(state.node[node].start, state.node[node].stop):
        u = state.order[i]
        rows[merged_rows.codes[k, u]] += merged_rows.rows[u & merged_rows.rows_all]
    out = np.empty(n, dtype=np.int64)
    for j in range(n):
        out[j] = rows[distinct[j]]
        rows[distinct[j]] = 0
    return out


UNCOUNTED_MASS = -1.0  # value of the stored `split_mass` of an admissible feature whose splits are not counted yet


class Split(NamedTuple):
    """A split of a cell."""

    feature: int
    cut: int
    """Largest code going left, -1 if no code goes left or the split is nominal."""
    upper: int
    """Smallest code going right, under local cuts among the rows of the cell. No meaning at a nominal split."""
    categories: int
    """Bits of the categories going left, -1 for an ordered feature."""
    log_rule: float
    """Log R(split | cell), the log probability of the split under the split prior."""


@jit
def draw_split(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> Split:
    """Draw a node's split from the split prior, or return that of a fixed tree."""
    if follows_design(model.split_prior):
        return fixed_split(model, state, node)
    total = fill_feature_weights(model, state, node)
    k = pick_weighted(rng, state.scratch.feature_weight, total)
    return _draw_split_of(rng, model, state, node, k, log(state.scratch.feature_weight[k] / total))


@jit
def draw_split_of(rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int) -> Split:
    """Draw a split of the cell of a node from the split prior R, given feature ``k``, which must be admissible."""
    if follows_design(model.split_prior):
        return fixed_split(model, state, node)
    total = fill_feature_weights(model, state, node)
    return _draw_split_of(rng, model, state, node, k, log(state.scratch.feature_weight[k] / total))


@jit
def _draw_split_of(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int, log_fraction: float
) -> Split:
    """Draw a node's split from the split prior given feature ``k``, whose log probability is ``log_fraction``."""
    rule = model.split_prior
    if is_weighted(rule) and not rule.feature[k].nominal:
        return _draw_weighted_cut(rng, model, state, node, k, log_fraction)
    if parts_rows(rule):
        if rule.feature[k].nominal:
            return _draw_local_partition(rng, model, state, node, k, log_fraction)
        return _draw_local_cut(rng, model, state, node, k, log_fraction)
    low, high = box_range(model, state, node, k)
    if rule.feature[k].nominal:
        left = deposit_bits(low, 1 + 2 * pick(rng, (1 << (n_bits(low) - 1)) - 1))
        return Split(k, -1, -1, left, log_fraction - log((1 << (n_bits(low) - 1)) - 1))
    if parts_box(rule):
        cut = low + pick(rng, high - low - 1)
        return Split(k, cut, cut + 1, -1, log_fraction - log(high - low - 1))
    cut = (low + high) // 2 - 1
    return Split(k, cut, cut + 1, -1, log_fraction)


@jit
def box_range(model: Lowered, state: ChainState, node: int, k: int) -> tuple[int, int]:
    """Return the first code of coordinate ``k`` in the box of a node, and one behind its last."""
    # a feature with missing values has two coordinates, which both bound its codes; a nominal one gives bits and 0
    other = model.split_prior.feature[k].other_coordinate
    low, high = state.box[node, k, 0], state.box[node, k, 1]
    if other == k:
        return low, high
    return max(low, state.box[node, other, 0]), min(high, state.box[node, other, 1])


@jit
def middle_cut(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Return the cut in the middle of coordinate ``k`` of the box of a node, the only one under dyadic splits."""
    low, high = box_range(model, state, node, k)
    return (low + high) // 2 - 1


@jit
def claim_cell_entry(model: Lowered, state: ChainState, node: int) -> int:
    """Return the index of a node's cell in the table `stored.cell`, cleared if it belongs to another cell."""
    # each level of a ladder of temperatures has entries of its own, by count[STORED_VERSION]
    key = state.node[node].hash
    if model.split_prior.by_depth:
        key = hash_integer(key + state.node[node].depth)
    at = key ^ (state.count[STORED_VERSION] * np.int64(0x9E3779B1))
    place = (at ^ (at >> 32)) & (len(state.stored.cell) - 1)
    if state.stored.cell[place].hash != key:
        state.stored.cell[place].hash = key
        state.stored.cell[place].weight = -1.0
        state.stored.cell[place].scan = NONE
    return place


@jit
def stores_masses(model: Lowered, state: ChainState) -> bool:
    """Return True if the chain stores which features are admissible in a cell, and the masses of their splits."""
    # not if cells are boxes and splits have equal weights, since a box shows at once which features it admits
    return len(state.stored.cell) > 1 and (parts_rows(model.split_prior) or is_weighted(model.split_prior))


@jit
def store_masses(model: Lowered, state: ChainState, node: int) -> int:
    """Store the `split_mass` of each feature in a node's cell in ``stored.mass``, unless stored. Return its row."""
    # 0 for an inadmissible feature, and UNCOUNTED_MASS if R does not need it, as counting visits all rows
    place, rule = claim_cell_entry(model, state, node), model.split_prior
    if state.stored.cell[place].weight < 0.0:
        counts = rule.over_cell or is_weighted(rule) or rule.min_leaf > 1
        total = 0.0
        for k in range(len(rule.feature)):
            weight = rule.feature[k].weight
            state.stored.mass[place, k] = 0.0
            if weight > 0.0 and counts:
                state.stored.mass[place, k] = compute_split_mass(model, state, node, k)
            elif weight > 0.0 and (has_empty_sides(rule) or has_two_codes(model, state, node, k)):
                state.stored.mass[place, k] = UNCOUNTED_MASS
            if state.stored.mass[place, k] != 0.0:
                total += feature_rule_weight(rule, weight, state.stored.mass[place, k])
        state.stored.cell[place].weight = total
    return place


@jit
def fill_feature_weights(model: Lowered, state: ChainState, node: int) -> float:
    """Write the weights of the features that a cell admits into ``scratch.feature_weight``, and return their sum."""
    # R draws a feature in proportion to them; with `rule.over_cell` they include the `split_mass`
    rule = model.split_prior
    has_stored = stores_masses(model, state)
    place = store_masses(model, state, node) if has_stored else np.int64(0)
    total = 0.0
    for k in range(len(rule.feature)):
        w = rule.feature[k].weight
        if w > 0.0 and not (state.stored.mass[place, k] != 0.0 if has_stored else is_admissible(model, state, node, k)):
            w = 0.0
        if w > 0.0 and rule.over_cell:
            w *= state.stored.mass[place, k] if has_stored else compute_split_mass(model, state, node, k)
        state.scratch.feature_weight[k] = w
        total += w
    return total


@jit
def is_splittable(model: Lowered, state: ChainState, node: int) -> bool:
    """Return True if a node has an admissible split and is above the depth limit. Its rows, box and hash are set."""
    rule = model.split_prior
    if state.node[node].depth >= model.prior.depth_limit:
        return False
    if follows_design(rule):
        return rule.design[state.node[node].design].feature >= 0
    if stores_masses(model, state):
        weight = state.stored.cell[claim_cell_entry(model, state, node)].weight
        if weight >= 0.0:
            return weight > 0.0
    for k in range(len(rule.feature)):
        if rule.feature[k].weight > 0.0 and is_admissible(model, state, node, k):
            return True
    return False


@jit
def is_admissible(model: Lowered, state: ChainState, node: int, k: int) -> bool:
    """Return True if a node's cell has a split on feature ``k``, whatever the depth limit and the weight of ``k``."""
    rule = model.split_prior
    if is_weighted(rule):
        return split_mass(model, state, node, k) > 0.0
    if has_empty_sides(rule):
        return True
    if parts_rows(rule):
        if rule.min_leaf > 1:
            return state.node[node].rows >= 2 * rule.min_leaf and compute_split_mass(model, state, node, k) > 0
        return has_two_codes(model, state, node, k)
    if takes_turns(rule) and rule.feature[k].turn != state.node[node].depth % rule.n_turns:
        return False
    low, high = box_range(model, state, node, k)
    return low & (low - 1) != 0 if rule.feature[k].nominal else high - low >= 2


@jit
def feature_rule_weight(rule: SplitRule, weight: float, split_mass: float) -> float:
    """Return a feature's unnormalised split prior: ``weight``, times ``split_mass`` if ``rule.over_cell``."""
    return weight * split_mass if rule.over_cell else weight


@jit
def split_mass(model: Lowered, state: ChainState, node: int, k: int) -> float:
    """Return the sum of the weights of a node's splits on feature `k`, by which R is normalised within the feature."""
    # with equal weights their number, 0 if there are none, but always 1 for dyadic and fixed splits
    if stores_masses(model, state) and model.split_prior.feature[k].weight > 0.0:
        place = store_masses(model, state, node)
        if state.stored.mass[place, k] == UNCOUNTED_MASS:
            state.stored.mass[place, k] = compute_split_mass(model, state, node, k)
        return state.stored.mass[place, k]
    return compute_split_mass(model, state, node, k)


@jit
def compute_split_mass(model: Lowered, state: ChainState, node: int, k: int) -> float:
    """Compute the `split_mass` of feature ``k`` in a node from its rows or box, without stored values."""
    rule, n = model.split_prior, np.int64(0)
    if parts_rows(rule):
        in_order = is_weighted(rule) or rule.min_leaf > 1
        n = collect_codes(model, state, node, k) if in_order else count_codes(model, state, node, k)
    return split_mass_of_codes(model, state, node, k, n)


@jit
def split_mass_of_codes(model: Lowered, state: ChainState, node: int, k: int, n: int) -> float:
    """Return the `split_mass` of feature ``k`` in a node. See `n_splits_of_codes` for the number ``n`` of codes."""
    if is_weighted(model.split_prior):
        return fill_cut_weights(model, state, node, k, n)
    return n_splits_of_codes(model, state, node, k, n)


@jit
def fill_cut_weights(model: Lowered, state: ChainState, node: int, k: int, n: int) -> float:
    """Write the weights of a node's splits on feature ``k`` into ``scratch.cut_weight``, and return their sum."""
    # entry j is the cut behind the j-th of `n` codes or, in a box, behind its j-th code; entry 0 of a nominal feature
    # is the weight of each of its splits
    rule, weights, depth = model.split_prior, state.scratch.cut_weight, state.node[node].depth
    n_splits = n_splits_of_codes(model, state, node, k, n)
    if rule.feature[k].nominal:
        categories = n_bits(box_range(model, state, node, k)[0]) if parts_box(rule) else n
        weights[0] = nominal_split_weight(rule, k, float((1 << (categories - 1)) - 1), depth)
        return n_splits * weights[0]
    total, cut = 0.0, new_cut(rule, k, n_splits, depth)
    if parts_box(rule):
        low, high = box_range(model, state, node, k)
        set_cell_ends(rule, cut, k, low, high - 1)
        for c in range(low, high - 1):
            weights[c - low] = weight_between_codes(rule, cut, k, c, c + 1, c - low)
            total += weights[c - low]
        return total
    if n < 2:
        return 0.0
    codes, rows = state.scratch.codes.distinct, count_rows_by_code(model, state, node, k, n)
    first, last = admissible_cut_range(model, state, node, k, n)
    set_cell_ends(rule, cut, k, codes[0], codes[n - 1])
    cut[0, ROWS_LEFT], cut[0, ROWS_RIGHT] = 0.0, state.node[node].rows
    for j in range(n - 1):
        cut[0, ROWS_LEFT] += rows[j]
        cut[0, ROWS_RIGHT] -= rows[j]
        weights[j] = weight_between_codes(rule, cut, k, codes[j], codes[j + 1], j - first) if first <= j < last else 0.0
        total += weights[j]
    return total


@jit
def log_cut_weight(model: Lowered, state: ChainState, node: int, k: int, cut: int) -> float:
    """Return the log weight of the split of a node on feature ``k`` at ``cut``, 0 if splits have equal weights."""
    # log R = log P(feature) - log split_mass + log weight
    rule = model.split_prior
    if not is_weighted(rule):
        return 0.0
    n = collect_codes(model, state, node, k) if parts_rows(rule) else np.int64(0)
    fill_cut_weights(model, state, node, k, n)
    at = np.int64(0)
    if parts_box(rule) and not rule.feature[k].nominal:
        at = cut - box_range(model, state, node, k)[0]
    elif not rule.feature[k].nominal:
        while at + 1 < n and state.scratch.codes.distinct[at + 1] <= cut:
            at += 1
    return log(state.scratch.cut_weight[at]) if state.scratch.cut_weight[at] > 0.0 else -inf


@jit
def log_rule_of(model: Lowered, state: ChainState, node: int, k: int, cut: int) -> float:
    """Return the log split prior R of a node's split on ``k`` at ``cut``, as in `log_cut_weight`; -inf if R is 0."""
    total = fill_feature_weights(model, state, node)
    if not state.scratch.feature_weight[k] > 0.0:
        return -inf
    log_rule = log(state.scratch.feature_weight[k] / total) - log(split_mass(model, state, node, k))
    return log_rule + log_cut_weight(model, state, node, k, cut) if is_weighted(model.split_prior) else log_rule


@jit
def n_splits_of_codes(model: Lowered, state: ChainState, node: int, k: int, n: int) -> float:
    """Return the number of splits of a node on `k`, whatever their weights; 1 if they are dyadic or fixed."""
    # if `min_leaf` > 1, `collect_codes` has just collected the `n` codes
    rule = model.split_prior
    if has_one_split_per_feature(rule):
        return 1.0
    if parts_box(rule):
        low, high = box_range(model, state, node, k)
        return float((1 << (n_bits(low) - 1)) - 1) if rule.feature[k].nominal else float(high - low - 1)
    if has_empty_sides(rule):
        if n == 0:
            return 1.0
        return float((1 << (n - 1)) + 1) if rule.feature[k].nominal else float(n + 1)
    if rule.feature[k].nominal:
        if rule.min_leaf == 1:
            return float((1 << (n - 1)) - 1)
        rows = count_rows_by_code(model, state, node, k, n)
        sums = count_light_subsets(rows, rule.min_leaf)
        return float(_n_partitions(sums, rows, np.int64(1), np.int64(0), rows[0], rule.min_leaf))
    first, last = admissible_cut_range(model, state, node, k, n)
    return float(max(last - first, 0))


@jit
def admissible_cut_range(model: Lowered, state: ChainState, node: int, k: int, n: int) -> tuple[int, int]:
    """Return ``first, last``: cuts behind codes first to last - 1 of ``n`` collected leave ``min_leaf`` rows a side."""
    if model.split_prior.min_leaf == 1:
        return 0, n - 1
    rows = count_rows_by_code(model, state, node, k, n)
    min_leaf = model.split_prior.min_leaf
    rows_left, first, last = 0, 0, 0
    for j in range(n - 1):
        rows_left += rows[j]
        if rows_left < min_leaf:
            first = j + 1
        if state.node[node].rows - rows_left >= min_leaf:
            last = j + 1
    return first, last


@jit
def _draw_local_cut(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int, log_fraction: float
) -> Split:
    """Draw a cut between codes of a node's rows, ordered feature ``k``, uniformly. ``log_fraction`` is log P(``k``)."""
    n = collect_codes(model, state, node, k)
    if has_empty_sides(model.split_prior):
        n_splits = n + 1 if n > 0 else 1
        n_left = pick(rng, n_splits) if n > 0 else 0
    else:
        first, last = admissible_cut_range(model, state, node, k, n)
        n_splits = last - first
        n_left = first + 1 + pick(rng, n_splits)
    cut, upper = cut_and_upper(model, state, k, n, n_left)
    return Split(k, cut, upper, -1, log_fraction - log(float(n_splits)))


@jit
def _draw_weighted_cut(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int, log_fraction: float
) -> Split:
    """Draw a cut of a node on ordered feature ``k`` in proportion to its weight. log P(``k``) is ``log_fraction``."""
    n = collect_codes(model, state, node, k) if parts_rows(model.split_prior) else np.int64(0)
    total = fill_cut_weights(model, state, node, k, n)
    if parts_box(model.split_prior):
        low, high = box_range(model, state, node, k)
        at = pick_weighted(rng, state.scratch.cut_weight[: high - low - 1], total)
        cut, upper = low + at, low + at + 1
    else:
        at = pick_weighted(rng, state.scratch.cut_weight[: n - 1], total)
        cut, upper = cut_and_upper(model, state, k, n, at + 1)
    return Split(k, cut, upper, -1, log_fraction - log(total) + log(state.scratch.cut_weight[at]))


@jit
def cut_and_upper(model: Lowered, state: ChainState, k: int, n: int, n_left: int) -> tuple[int, int]:
    """Return ``cut`` and ``upper`` of the split on feature ``k`` that sends the first ``n_left`` of `n` codes left."""
    # if all go left, or n is 0, `cut` is the feature's last code and `upper` its number of codes; -1 if none does. The
    # codes of the cell are in `codes.distinct`
    n_codes = model.split_prior.feature[k].n_codes
    if n_left == n:
        return n_codes - 1, n_codes
    return state.scratch.codes.distinct[n_left - 1] if n_left > 0 else -1, state.scratch.codes.distinct[n_left]


@jit
def _draw_local_partition(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int, log_fraction: float
) -> Split:
    """Draw a partition of the categories of feature ``k`` in a node uniformly. log P(``k``) is ``log_fraction``."""
    rule = model.split_prior
    n = collect_codes(model, state, node, k)
    present = present_bits(state, n)
    if has_empty_sides(rule):
        n_splits = (1 << (n - 1)) + 1 if n > 0 else 1
        i = pick(rng, n_splits)
        if i < 2:
            left = full_mask(rule.feature[k].n_codes) if i == 0 else 0
        else:
            left = deposit_bits(present, 1 + 2 * (i - 2))
        return Split(k, -1, -1, left, log_fraction - log(float(n_splits)))
    if rule.min_leaf == 1:
        n_splits = (1 << (n - 1)) - 1
        left = deposit_bits(present, 1 + 2 * pick(rng, n_splits))
        return Split(k, -1, -1, left, log_fraction - log(float(n_splits)))
    rows = count_rows_by_code(model, state, node, k, n)
    sums = count_light_subsets(rows, rule.min_leaf)
    n_splits = _n_partitions(sums, rows, np.int64(1), np.int64(0), rows[0], rule.min_leaf)
    left, right_rows, left_rows = np.int64(1) << state.scratch.codes.distinct[0], np.int64(0), rows[0]
    for j in range(1, n):
        if_left = _n_partitions(sums, rows, j + 1, right_rows, left_rows + rows[j], rule.min_leaf)
        if_right = _n_partitions(sums, rows, j + 1, right_rows + rows[j], left_rows, rule.min_leaf)
        if pick(rng, if_left + if_right) < if_left:
            left |= np.int64(1) << state.scratch.codes.distinct[j]
            left_rows += rows[j]
        else:
            right_rows += rows[j]
    return Split(k, -1, -1, left, log_fraction - log(float(n_splits)))


@jit
def _n_partitions(sums: np.ndarray, rows: np.ndarray, j: int, right: int, left: int, min_rows: int) -> int:
    """Return the number of ways to place the categories j, j + 1, ... with at least ``min_rows`` rows on both sides."""
    # `rows` are by category, `right` and `left` count those placed, `sums` is from `count_light_subsets`
    total = 0
    for r in rows:
        total += r
    if total < 2 * min_rows:
        return 0
    # all 2^m placements but those with too few rows on one side, which exclude each other
    short_right = sums[j, min_rows - right] if right < min_rows else 0
    short_left = sums[j, min_rows - left] if left < min_rows else 0
    return (1 << (len(rows) - j)) - short_right - short_left


@jit
def fixed_split(model: Lowered, state: ChainState, node: int) -> Split:
    """Return the split that the fixed tree has in a node. Its ``log_rule`` is 0."""
    rule, i = model.split_prior, state.node[node].design
    cut = rule.design[i].cut
    return Split(rule.design[i].feature, cut, cut + 1, rule.design[i].categories, 0.0)


@jit
def present_bits(state: ChainState, n: int) -> int:
    """Return the integer with bit c set for each c of the ``n`` categories just collected (`collect_codes`)."""
    out = np.int64(0)
    for j in range(n):
        out |= np.int64(1) << state.scratch.codes.distinct[j]
    return out


@jit
def absent_categories(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Return the bits of the categories of feature ``k`` that no row of the node has, or 0 if cuts are not local."""
    rule = model.split_prior
    if not parts_rows(rule):
        return 0
    return full_mask(rule.feature[k].n_codes) & ~present_bits(state, collect_codes(model, state, node, k))
