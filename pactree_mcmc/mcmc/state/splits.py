"""Splits of a cell, compiled: which features are admissible, in how many ways, and a draw from R."""

from math import log
from typing import NamedTuple

import numpy as np

from ...core.bits import all_bits, low_sums, n_bits, sort_first, spread_bits
from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.base import CYCLIC, DYADIC, FIXED, GRID, LOCAL, LOCAL_TRIVIAL
from .arrays import ChainState
from .random import pick, pick_weighted
from .records import NONE, SCAN


class Question(NamedTuple):
    """One way to part a cell."""

    feature: int
    cut: int
    """Largest code going left; -1: none."""
    upper: int
    """Next code on the right, in the cell under local questions."""
    categories: int
    """Bits of the categories going left, -1 for an ordered feature."""
    log_rule: float
    """Log R(question | cell)."""


@jit
def draw_question(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> Question:
    """A question of a splittable leaf, from the question prior."""
    if model.split_prior.kind == FIXED:
        return fixed_question(model, state, node)
    total = weigh_features(model, state, node)
    k = pick_weighted(rng, state.feature_weight, total)
    return _draw_way(rng, model, state, node, k, log(state.feature_weight[k] / total))


@jit
def draw_question_about(rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int) -> Question:
    """One of the questions that feature ``k``, which must be admissible, asks of the cell of a node, uniformly."""
    if model.split_prior.kind == FIXED:
        return fixed_question(model, state, node)
    total = weigh_features(model, state, node)
    return _draw_way(rng, model, state, node, k, log(state.feature_weight[k] / total))


@jit
def _draw_way(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int, log_weight: float
) -> Question:
    rule = model.split_prior
    if rule.kind == LOCAL or rule.kind == LOCAL_TRIVIAL:
        if rule.feature[k].nominal:
            return _draw_local_partition(rng, model, state, node, k, log_weight)
        return _draw_local_cut(rng, model, state, node, k, log_weight)
    low, high = span(model, state, node, k)
    if rule.feature[k].nominal:
        left = spread_bits(low, 1 + 2 * pick(rng, (1 << (n_bits(low) - 1)) - 1))
        return Question(k, -1, -1, left, log_weight - log((1 << (n_bits(low) - 1)) - 1))
    if rule.kind == GRID:
        cut = low + pick(rng, high - low - 1)
        return Question(k, cut, cut + 1, -1, log_weight - log(high - low - 1))
    cut = (low + high) // 2 - 1
    return Question(k, cut, cut + 1, -1, log_weight)


@jit
def span(model: Lowered, state: ChainState, node: int, k: int) -> tuple[int, int]:
    """First code of an ordered coordinate in the box of a node and one behind the last, seen from both coordinates of
    its feature; of a nominal one categories and 0.
    """
    twin = model.split_prior.feature[k].twin
    low, high = state.box[node, k, 0], state.box[node, k, 1]
    if twin == k:
        return low, high
    return max(low, state.box[node, twin, 0]), min(high, state.box[node, twin, 1])


@jit
def middle_cut(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """The cut in the middle of the box."""
    low, high = span(model, state, node, k)
    return (low + high) // 2 - 1


@jit
def cell_of(state: ChainState, node: int) -> int:
    """The place where what is known of the node's cell is kept; emptied if it held another cell.

    Each level of a ladder has its own, by the number that its tables bear.
    """
    at = state.node[node].hash ^ (state.count[SCAN] * np.int64(0x9E3779B1))
    place = (at ^ (at >> 32)) & (len(state.cell) - 1)
    if state.cell[place].hash != state.node[node].hash:
        state.cell[place].hash = state.node[node].hash
        state.cell[place].weight = -1.0
        state.cell[place].scan = state.cell[place].ahead = NONE
    return place


@jit
def keeps_cells(model: Lowered, state: ChainState) -> bool:
    """Whether admissible features are kept by cell; but for local questions the box tells them at once."""
    return len(state.cell) > 1 and (model.split_prior.kind == LOCAL or model.split_prior.kind == LOCAL_TRIVIAL)


@jit
def know_ways(model: Lowered, state: ChainState, node: int) -> int:
    """See that the ways of all features of the node's cell are kept; where."""
    place = cell_of(state, node)
    if state.cell[place].weight < 0.0:
        total = 0.0
        for k in range(len(model.split_prior.feature)):
            weight = model.split_prior.feature[k].weight
            state.ways[place, k] = count_ways(model, state, node, k) if weight > 0.0 else 0.0
            if state.ways[place, k] > 0.0:
                total += weight
        state.cell[place].weight = total
    return place


@jit
def weigh_features(model: Lowered, state: ChainState, node: int) -> float:
    """Weights of the features admissible in a node into ``state.feature_weight``; their sum is returned."""
    rule = model.split_prior
    keeps = keeps_cells(model, state)
    place = know_ways(model, state, node) if keeps else np.int64(0)
    total = 0.0
    for k in range(len(rule.feature)):
        w = rule.feature[k].weight
        if w > 0.0 and not (state.ways[place, k] > 0.0 if keeps else is_admissible(model, state, node, k)):
            w = 0.0
        state.feature_weight[k] = w
        total += w
    return total


@jit
def is_splittable(model: Lowered, state: ChainState, node: int) -> bool:
    """Whether some question is admissible in a node whose range, box, depth, hash and design node are set."""
    rule = model.split_prior
    if state.node[node].depth >= model.prior.depth_limit:
        return False
    if rule.kind == FIXED:
        return rule.design[state.node[node].design].feature >= 0
    if keeps_cells(model, state):
        known = state.cell[cell_of(state, node)].weight
        if known >= 0.0:
            return known > 0.0
    for k in range(len(rule.feature)):
        if rule.feature[k].weight > 0.0 and is_admissible(model, state, node, k):
            return True
    return False


@jit
def is_admissible(model: Lowered, state: ChainState, node: int, k: int) -> bool:
    """Whether feature ``k`` can part the node."""
    rule = model.split_prior
    if rule.kind == LOCAL_TRIVIAL:
        return True
    if rule.kind == LOCAL:
        if rule.min_leaf > 1:
            return state.node[node].rows >= 2 * rule.min_leaf and count_ways(model, state, node, k) > 0
        codes, order = model.units.codes, state.order
        start, stop = state.node[node].start, state.node[node].stop
        for i in range(start + 1, stop):
            if codes[k, order[i]] != codes[k, order[start]]:
                return True
        return False
    if rule.kind == CYCLIC and rule.feature[k].turn != state.node[node].depth % rule.n_turns:
        return False
    low, high = span(model, state, node, k)
    return low & (low - 1) != 0 if rule.feature[k].nominal else high - low >= 2


@jit
def n_ways(model: Lowered, state: ChainState, node: int, k: int) -> float:
    """Number of ways in which feature ``k`` can part the node; 0 when it is not admissible."""
    if keeps_cells(model, state) and model.split_prior.feature[k].weight > 0.0:
        return state.ways[know_ways(model, state, node), k]
    return count_ways(model, state, node, k)


@jit
def count_ways(model: Lowered, state: ChainState, node: int, k: int) -> float:
    """`n_ways`, counted afresh."""
    kind = model.split_prior.kind
    n = collect_codes(model, state, node, k) if kind == LOCAL or kind == LOCAL_TRIVIAL else np.int64(0)
    return n_ways_of(model, state, node, k, n)


@jit
def n_ways_of(model: Lowered, state: ChainState, node: int, k: int, n: int) -> float:
    """`count_ways` of a node whose ``n`` codes were collected, under local questions."""
    rule = model.split_prior
    if rule.kind == FIXED or rule.kind == DYADIC or rule.kind == CYCLIC:
        return 1.0
    if rule.kind == GRID:
        low, high = span(model, state, node, k)
        return float((1 << (n_bits(low) - 1)) - 1) if rule.feature[k].nominal else float(high - low - 1)
    if rule.kind == LOCAL_TRIVIAL:
        if n == 0:
            return 1.0
        return float((1 << (n - 1)) + 1) if rule.feature[k].nominal else float(n + 1)
    if rule.feature[k].nominal:
        if rule.min_leaf == 1:
            return float((1 << (n - 1)) - 1)
        rows = rows_of_codes(model, state, node, k, n)
        sums = low_sums(rows, rule.min_leaf)
        return float(_n_partitions(sums, rows, np.int64(1), np.int64(0), rows[0], rule.min_leaf))
    first, last = cut_range(model, state, node, k, n)
    return float(max(last - first, 0))


@jit
def collect_codes(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Distinct codes of feature ``k`` in a node, ascending, into ``state.codes``; their number is returned."""
    codes, order, out, seen = model.units.codes, state.order, state.codes[0], state.codes[1]
    n, lowest, highest = 0, np.int64(1) << 40, np.int64(-1)
    for i in range(state.node[node].start, state.node[node].stop):
        c = np.int64(codes[k, order[i]])
        if seen[c] == 0:
            seen[c] = 1
            out[n] = c
            n += 1
            lowest, highest = min(lowest, c), max(highest, c)
    if highest - lowest < 8 * n:
        n = 0
        for c in range(lowest, highest + 1):
            if seen[c]:
                out[n] = c
                n += 1
    else:
        sort_first(out, n)
    for j in range(n):
        seen[out[j]] = 0
    return n


@jit
def rows_of_codes(model: Lowered, state: ChainState, node: int, k: int, n: int) -> np.ndarray:
    """Rows of the node that have each of the ``n`` codes just collected, (n,) int64."""
    units, total = model.units, state.codes[1]
    for i in range(state.node[node].start, state.node[node].stop):
        u = state.order[i]
        total[units.codes[k, u]] += units.rows[u & units.rows_all]
    out = np.empty(n, dtype=np.int64)
    for j in range(n):
        out[j] = total[state.codes[0, j]]
        total[state.codes[0, j]] = 0
    return out


@jit
def cut_range(model: Lowered, state: ChainState, node: int, k: int, n: int) -> tuple[int, int]:
    """Which of the ``n`` codes just collected may be the last on the left: ``first`` to ``last - 1``."""
    if model.split_prior.min_leaf == 1:
        return 0, n - 1
    rows = rows_of_codes(model, state, node, k, n)
    least = model.split_prior.min_leaf
    below, first, last = 0, 0, 0
    for j in range(n - 1):
        below += rows[j]
        if below < least:
            first = j + 1
        if state.node[node].rows - below >= least:
            last = j + 1
    return first, last


@jit
def _draw_local_cut(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int, log_weight: float
) -> Question:
    n = collect_codes(model, state, node, k)
    if model.split_prior.kind == LOCAL_TRIVIAL:
        ways = n + 1 if n > 0 else 1
        below = pick(rng, ways) if n > 0 else 0
    else:
        first, last = cut_range(model, state, node, k, n)
        ways = last - first
        below = first + 1 + pick(rng, ways)
    cut, upper = ends(model, state, k, n, below)
    return Question(k, cut, upper, -1, log_weight - log(float(ways)))


@jit
def ends(model: Lowered, state: ChainState, k: int, n: int, below: int) -> tuple[int, int]:
    """Cut and next code on the right when ``below`` of the ``n`` codes just collected go left; all left if n = 0."""
    n_codes = model.split_prior.feature[k].n_codes
    if below == n:
        return n_codes - 1, n_codes
    return state.codes[0, below - 1] if below > 0 else -1, state.codes[0, below]


@jit
def _draw_local_partition(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int, log_weight: float
) -> Question:
    rule = model.split_prior
    n = collect_codes(model, state, node, k)
    present = present_bits(state, n)
    if rule.kind == LOCAL_TRIVIAL:
        ways = (1 << (n - 1)) + 1 if n > 0 else 1
        way = pick(rng, ways)
        if way < 2:
            left = all_bits(rule.feature[k].n_codes) if way == 0 else 0
        else:
            left = spread_bits(present, 1 + 2 * (way - 2))
        return Question(k, -1, -1, left, log_weight - log(float(ways)))
    if rule.min_leaf == 1:
        ways = (1 << (n - 1)) - 1
        left = spread_bits(present, 1 + 2 * pick(rng, ways))
        return Question(k, -1, -1, left, log_weight - log(float(ways)))
    rows = rows_of_codes(model, state, node, k, n)
    sums = low_sums(rows, rule.min_leaf)
    ways = _n_partitions(sums, rows, np.int64(1), np.int64(0), rows[0], rule.min_leaf)
    left, right_rows, left_rows = np.int64(1) << state.codes[0, 0], np.int64(0), rows[0]
    for j in range(1, n):
        if_left = _n_partitions(sums, rows, j + 1, right_rows, left_rows + rows[j], rule.min_leaf)
        if_right = _n_partitions(sums, rows, j + 1, right_rows + rows[j], left_rows, rule.min_leaf)
        if pick(rng, if_left + if_right) < if_left:
            left |= np.int64(1) << state.codes[0, j]
            left_rows += rows[j]
        else:
            right_rows += rows[j]
    return Question(k, -1, -1, left, log_weight - log(float(ways)))


@jit
def _n_partitions(sums: np.ndarray, rows: np.ndarray, j: int, right: int, left: int, least: int) -> int:
    """How many ways to place the categories j, j + 1, ... leave at least ``least`` rows on both sides."""
    total = 0
    for r in rows:
        total += r
    if total < 2 * least:
        return 0
    short_right = sums[j, least - right] if right < least else 0
    short_left = sums[j, least - left] if left < least else 0
    return (1 << (len(rows) - j)) - short_right - short_left


@jit
def fixed_question(model: Lowered, state: ChainState, node: int) -> Question:
    """The question the fixed tree asks in a node."""
    rule, i = model.split_prior, state.node[node].design
    cut = rule.design[i].cut
    return Question(rule.design[i].feature, cut, cut + 1, rule.design[i].categories, 0.0)


@jit
def present_bits(state: ChainState, n: int) -> int:
    """Bits of the ``n`` categories just collected."""
    out = np.int64(0)
    for j in range(n):
        out |= np.int64(1) << state.codes[0, j]
    return out


@jit
def absent_categories(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Bits of the known categories of ``k`` that no row of the node has, under local questions; else 0."""
    rule = model.split_prior
    if rule.kind != LOCAL and rule.kind != LOCAL_TRIVIAL:
        return 0
    return all_bits(rule.feature[k].n_codes) & ~present_bits(state, collect_codes(model, state, node, k))
