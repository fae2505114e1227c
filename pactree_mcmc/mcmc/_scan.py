"""All questions of a node at once: the split integrated out (formula sheet, section 4).

``W(u) = sum_q R(q | u) exp(beta (score(u0_q) + score(u1_q) - score(u)))``, over the questions q of the node, is found in
one pass of histograms per feature and kept with the node; `draw_scanned` draws q in proportion to its term.

A nominal feature with more than ``FEW_CATEGORIES`` categories in the cell has too many ways to try: only the prefixes
of its categories, ordered by their mean, are candidates; `is_candidate` tells whether a given question is one.
"""

from math import exp, inf, log

import numpy as np

from .._compiled import all_bits, n_bits, spread_bits
from .._numba import inlined, jit
from ..model import Lowered
from ..model._leaf_kernels import leaf_score
from ..model._questions import CYCLIC, DYADIC, FIXED, GRID, LOCAL, LOCAL_TRIVIAL
from ._questions import Question, collect_codes, fixed_question, is_admissible, n_ways_of, present_bits
from ._random import pick, pick_weighted
from ._refit import cell_bits
from ._state import NONE, SCAN, ChainState

FEW_CATEGORIES = 8
CUT, UPPER, CATEGORIES, CHOICES = range(4)
LEFT, RIGHT, TOTAL = range(3)


@jit
def scan(model: Lowered, state: ChainState, node: int) -> float:
    """Log W of a splittable node, from its table or scanned afresh."""
    here = state.node[node]
    if here.scan == state.count[SCAN]:
        return here.log_w
    rule = model.questions
    weights, largest = 0.0, -inf
    for k in range(len(rule.feature)):
        state.table[node, k] = -inf
        weight = _weight(model, state, node, k)
        if weight > 0.0:
            n = fill_bins(model, state, node, k)
            ways = n_ways_of(model, state, node, k, n)
            if ways > 0.0:
                weights += weight
                state.table[node, k] = log(weight / ways) + walk_ways(model, state, node, k, n, False, 0.0, 0.0)
                largest = max(largest, state.table[node, k])
    total = 0.0
    if largest > -inf:
        for k in range(len(model.questions.feature)):
            total += exp(state.table[node, k] - largest)
    here.log_w = largest + log(total / weights) if total > 0.0 else -inf
    here.scan = state.count[SCAN]
    return here.log_w


@jit
def draw_scanned(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> Question:
    """A question of a scanned node, in proportion to its term of W; W must not be zero."""
    largest, total, weights = -inf, 0.0, 0.0
    for k in range(len(model.questions.feature)):
        largest = max(largest, state.table[node, k])
    for k in range(len(model.questions.feature)):
        state.feature_weight[k] = exp(state.table[node, k] - largest)
        total += state.feature_weight[k]
    k = pick_weighted(rng, state.feature_weight, total)
    if model.questions.kind == FIXED:
        return fixed_question(model, state, node)
    for j in range(len(model.questions.feature)):
        if _weight(model, state, node, j) > 0.0 and is_admissible(model, state, node, j):
            weights += model.questions.feature[j].weight
    n = fill_bins(model, state, node, k)
    log_rule = -log(n_ways_of(model, state, node, k, n))
    log_sum = state.table[node, k] - log(model.questions.feature[k].weight) - log_rule
    walk_ways(model, state, node, k, n, True, rng.random(), log_sum)
    cut, upper = state.way[CUT], state.way[UPPER]
    if state.way[CHOICES] > 1:
        cut += pick(rng, state.way[CHOICES])
        upper = cut + 1
    log_rule += log(model.questions.feature[k].weight / weights)
    return Question(np.int64(k), cut, upper, state.way[CATEGORIES], log_rule)


@inlined
def _weight(model: Lowered, state: ChainState, node: int, k: int) -> float:
    """Weight of a feature, 0 where the kind of question rules it out; under local questions without a look at rows."""
    rule = model.questions
    if rule.kind == FIXED:
        return 1.0 if k == rule.design[state.node[node].design].feature else 0.0
    if rule.kind == LOCAL or rule.kind == LOCAL_TRIVIAL or is_admissible(model, state, node, k):
        return rule.feature[k].weight
    return 0.0


@jit
def is_candidate(model: Lowered, state: ChainState, node: int) -> bool:
    """Whether the question of an internal node is among those a scan tries."""
    here, kind = state.node[node], model.questions.kind
    if here.categories < 0 or kind == FIXED:
        return True
    present = cell_bits(model, state, node, here.feature)
    left = here.categories & present
    if n_bits(present) <= FEW_CATEGORIES or left == 0 or left == present:
        return True
    n = fill_bins(model, state, node, here.feature)
    prefix, done = np.int64(0), np.int64(0)
    for _ in range(n - 1):
        j = _next_in_order(model, state, n, done)
        done |= np.int64(1) << j
        prefix |= np.int64(1) << state.codes[0, j]
        if prefix == left or present & ~prefix == left:
            return True
    return False


@jit
def fill_bins(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Statistics and rows of a node by code of feature ``k``, codes ascending; how many codes.

    Under dyadic and fixed questions the bins are the two sides of the one question; under grid questions a nominal
    feature has a bin for each category of the box.
    """
    units, rule, number = model.units, model.questions, state.codes[1]
    start, stop = state.node[node].start, state.node[node].stop
    two_sides = rule.kind == DYADIC or rule.kind == CYCLIC or rule.kind == FIXED
    cut, categories = np.int64(0), np.int64(-1)
    if rule.kind == FIXED:
        design = rule.design[state.node[node].design]
        cut, categories = design.cut, design.categories
    elif two_sides:
        cut = (state.box[node, k, 0] + state.box[node, k, 1]) // 2 - 1
    n = 2
    if not two_sides and rule.kind == GRID and rule.feature[k].nominal:
        n = 0
        for c in range(rule.feature[k].n_codes):
            if (state.box[node, k, 0] >> c) & 1:
                state.codes[0, n] = c
                n += 1
    elif not two_sides:
        n = collect_codes(model, state, node, k)
    for j in range(n):
        state.codes[2, j] = 0
        if not two_sides:
            number[state.codes[0, j]] = j
        for i in range(state.bins.shape[1]):
            state.bins[j, i] = 0.0
    for i in range(start, stop):
        u = state.order[i]
        code = np.int64(units.codes[k, u])
        if not two_sides:
            j = number[code]
        elif categories >= 0:
            j = 1 - ((categories >> code) & 1)
        else:
            j = np.int64(code > cut)
        state.codes[2, j] += units.rows[u & units.rows_all]
        weight = units.weight[u & units.weight_all]
        if units.counts:
            state.bins[j, units.label[u]] += weight
        else:
            state.bins[j, 0] += weight
            state.bins[j, 1] += units.moments[0, u]
            state.bins[j, 2] += units.moments[1, u]
    if not two_sides:
        for j in range(n):
            number[state.codes[0, j]] = 0
    return n


@jit
def walk_ways(
    model: Lowered, state: ChainState, node: int, k: int, n: int, drawing: bool, u: float, log_sum: float
) -> float:
    """Log of the sum over the ways of feature ``k``, in ``n`` bins, of the exponential of their gain in score.

    When drawing, given that sum as ``log_sum`` and a uniform ``u``, it leaves the way drawn in ``state.way``: the cut,
    the code above it, the categories going left (-1: ordered), and how many cuts from that one on are alike.
    """
    for i in range(state.sides.shape[1]):
        state.sides[LEFT, i], state.sides[TOTAL, i] = 0.0, state.stats[node, i]
    rule = model.questions
    nominal = rule.feature[k].nominal and rule.kind != FIXED
    n_steps = max(n - 1, 0)
    if nominal and 1 < n <= FEW_CATEGORIES:
        n_steps = (1 << (n - 1)) - 1
    least = rule.min_leaf if rule.kind == LOCAL else 0
    largest, total, done = -inf, 0.0, 0.0
    rows_left, ordered, prefix = np.int64(0), np.int64(0), np.int64(0)
    for step in range(-2, n_steps):
        count, gain, categories = np.int64(1), 0.0, np.int64(-1)
        cut, upper = np.int64(-1), np.int64(-1)
        if step < 0:
            count, cut, categories = _trivial_ways(model, state, node, k, n, step)
            upper = cut if nominal else cut + 1
            if rule.kind == LOCAL_TRIVIAL and not nominal and cut < 0 and n > 0:
                upper = state.codes[0, 0]
            if count == 0:
                continue
        else:
            if nominal and n <= FEW_CATEGORIES:
                pattern = np.int64(1 + 2 * step)
                rows_left = _sum_pattern(state, n, pattern)
                for j in range(n):
                    if (pattern >> j) & 1:
                        categories = (np.int64(0) if categories < 0 else categories) | np.int64(1) << state.codes[0, j]
            else:
                j = np.int64(step)
                if nominal:
                    j = _next_in_order(model, state, n, ordered)
                    ordered |= np.int64(1) << j
                    prefix |= np.int64(1) << state.codes[0, j]
                    categories = prefix
                    if not prefix & (np.int64(1) << state.codes[0, 0]):
                        categories = present_bits(state, n) & ~prefix
                rows_left += state.codes[2, j]
                for i in range(state.sides.shape[1]):
                    state.sides[LEFT, i] += state.bins[j, i]
                if not nominal:
                    cut, upper, count = _between(model, state, node, k, j)
            if rows_left < least or state.node[node].rows - rows_left < least:
                continue
            gain = state.beta[0] * _gain(model, state, node)
        if drawing:
            done += count * exp(gain - log_sum)
            state.way[CUT], state.way[UPPER], state.way[CATEGORIES], state.way[CHOICES] = cut, upper, categories, count
            if u < done:
                return 0.0
        elif gain > largest:
            total = total * exp(largest - gain) + count if largest > -inf else float(count)
            largest = gain
        else:
            total += count * exp(gain - largest)
    return largest + log(total) if total > 0.0 else -inf


@inlined
def _gain(model: Lowered, state: ChainState, node: int) -> float:
    """Score of both sides less that of the node, the left side's statistics being set."""
    for i in range(state.sides.shape[1]):
        state.sides[RIGHT, i] = state.sides[TOTAL, i] - state.sides[LEFT, i]
    left = leaf_score(model.leaf, state.sides[LEFT])
    return left + leaf_score(model.leaf, state.sides[RIGHT]) - state.node[node].score


@inlined
def _sum_pattern(state: ChainState, n: int, pattern: int) -> int:
    """Statistics of the bins in ``pattern`` into the left side; their rows are returned."""
    rows = np.int64(0)
    for i in range(state.sides.shape[1]):
        state.sides[LEFT, i] = 0.0
    for j in range(n):
        if (pattern >> j) & 1:
            rows += state.codes[2, j]
            for i in range(state.sides.shape[1]):
                state.sides[LEFT, i] += state.bins[j, i]
    return rows


@jit
def _next_in_order(model: Lowered, state: ChainState, n: int, done: int) -> int:
    """The bin with the smallest mean of those whose bit in ``done`` is clear."""
    best, lowest = np.int64(-1), inf
    for j in range(n):
        if not (done >> j) & 1:
            mean, weight = 0.0, 0.0
            if model.units.counts:
                for i in range(state.bins.shape[1]):
                    weight += state.bins[j, i]
                    mean += i * state.bins[j, i]
            else:
                weight, mean = state.bins[j, 0], state.bins[j, 1]
            mean = mean / weight if weight > 0.0 else 0.0
            if best < 0 or mean < lowest:
                best, lowest = np.int64(j), mean
    return best


@inlined
def _between(model: Lowered, state: ChainState, node: int, k: int, j: int) -> tuple[int, int, int]:
    """Cut, upper code and number of alike cuts between bins j and j + 1."""
    kind = model.questions.kind
    if kind == FIXED:
        design = model.questions.design[state.node[node].design]
        return design.cut, design.cut + 1, np.int64(1)
    if kind == DYADIC or kind == CYCLIC:
        middle = (state.box[node, k, 0] + state.box[node, k, 1]) // 2 - 1
        return middle, middle + 1, np.int64(1)
    cut, upper = state.codes[0, j], state.codes[0, j + 1]
    return (cut, cut + 1, upper - cut) if kind == GRID else (cut, upper, np.int64(1))


@inlined
def _trivial_ways(model: Lowered, state: ChainState, node: int, k: int, n: int, step: int) -> tuple[int, int, int]:
    """How many ways leave everything on one side, the first such cut or its categories; step -2: right, -1: left."""
    rule = model.questions
    n_codes = rule.feature[k].n_codes
    if rule.kind == LOCAL_TRIVIAL:
        nominal = rule.feature[k].nominal
        if step == -2:
            return (np.int64(1) if n > 0 else np.int64(0)), np.int64(-1), np.int64(0) if nominal else np.int64(-1)
        return np.int64(1), (np.int64(-1) if nominal else n_codes - 1), all_bits(n_codes) if nominal else np.int64(-1)
    if rule.kind == GRID and not rule.feature[k].nominal:
        low, high = state.box[node, k, 0], state.box[node, k, 1]
        if n == 0:
            return (high - low - 1 if step == -2 else np.int64(0)), low, np.int64(-1)
        if step == -2:
            return state.codes[0, 0] - low, low, np.int64(-1)
        return high - 1 - state.codes[0, n - 1], state.codes[0, n - 1], np.int64(-1)
    return np.int64(0), np.int64(0), np.int64(-1)
