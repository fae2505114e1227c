"""A density of trees, drawn from the top down, whose parameters are learned (formula sheet, section 12.3).

    P(split | u) = logistic(a_k . x(u)),      P(q | u) proportional to R(q | u) exp(b_k . f(q, u) + c_k[feature of q])

at a cell u of depth class ``k = min(depth, LEVELS - 1)``; below the root there is one set of parameters for each of a
few features that the root may ask about, and one for all others: what is good below one root is not below another.
Each is mixed with a *defensive* part of weight ``DEFENCE``, the lookahead sum of one level to a power, so that no tree
is out of reach. What a cell needs is found in one pass over its rows, feature by feature, and kept with the cell: the
two probabilities of splitting, and each feature's part of the questions. A nominal feature of many categories has the
same candidates as in `_scan`.
"""

from math import exp, inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from .._compiled import mixed
from .._numba import jit
from ..model import Lowered
from ..model._leaf_kernels import LAPLACE, LOSS, NORMAL, POISSON, squares_about_mean
from ..model._questions import CYCLIC, DYADIC, FIXED, GRID, LOCAL
from ._questions import Question, fixed_question, n_ways_of, span
from ._random import flip, pick, pick_weighted
from ._refit import cell_bits
from ._scan import (
    CATEGORIES,
    CHOICES,
    CUT,
    FEW_CATEGORIES,
    UPPER,
    feature_weight,
    fill_bins,
    gains_into,
    next_in_order,
    note_way,
    trivial_ways,
)
from ._state import (
    DENSITY_LEVELS,
    EXHAUSTED,
    N_CELL_TERMS,
    N_STRATA,
    N_WAY_TERMS,
    NONE,
    SCAN,
    ChainState,
    is_leaf,
    next_node,
    node_log_stop,
    prior_index,
)

N_TOPS = 3
MOST_VALUES = 50_000
"""Units times features of the largest cell whose subtree is redrawn."""
DEFENCE = 0.1
"""Weight of the defensive part."""
FLAT = 0.4
"""Power of the gains in the defensive part."""
FLAT_ODDS, MOST_ODDS = 0.5, 60.0
"""Power of the odds of splitting in it, and the largest log odds it knows."""
LOG_LEARNED, LOG_DEFENCE = log(1.0 - DEFENCE), log(DEFENCE)
GAIN, LEARNED, DEFENSIVE = range(3)
LOST = -30.0
"""Terms smaller by this, in nats, do not count in the sums of a proposal."""


class Impurity(NamedTuple):
    """How much a cell might gain by splits, in the terms of its leaf model."""

    nats: float
    minority: float
    """Weight outside the largest class; for numbers a measure like ``nats``."""


@jit
def impurity(model: Lowered, logs: np.ndarray, stats: np.ndarray, row: int) -> Impurity:
    """Impurity of the cell with statistics ``stats[row]``, 0 of one without weight."""
    if logs.shape[1] > 1:
        return _impurity_of_counts(logs, stats, row)
    rule = model.guess
    if not model.units.counts:
        n = stats[row, 0]
        if n <= 0.0:
            return Impurity(0.0, 0.0)
        if rule.kind == POISSON:
            return Impurity(stats[row, 1], stats[row, 1])
        squares = squares_about_mean(stats[row, 1], stats[row, 2], stats[row, 1] / n)
        if rule.kind == NORMAL:
            nats = (rule.params[2] + 0.5 * n) * log1p(squares / (2.0 * rule.params[3]))
        else:
            nats = squares / (2.0 * rule.params[0])
        return Impurity(nats, nats)
    n_classes = stats.shape[1]
    if rule.kind == LAPLACE or rule.kind == LOSS:
        n_classes = stats.shape[1] // 2 if rule.kind == LAPLACE else np.int64(rule.params[2])
    total, nats, most = 0.0, 0.0, 0.0
    for i in range(n_classes):
        n = 0.0
        for j in range(i, stats.shape[1], n_classes):
            n += stats[row, j]
        total += n
        most = max(most, n)
        if n > 0.0:
            nats -= n * log(n)
    if total > 0.0:
        nats += total * log(total)
    return Impurity(max(nats, 0.0), max(total - most, 0.0))


@jit
def _impurity_of_counts(logs: np.ndarray, stats: np.ndarray, row: int) -> Impurity:
    total, most, nats = np.int64(0), np.int64(0), 0.0
    for i in range(stats.shape[1]):
        n = np.int64(stats[row, i])
        total += n
        most = max(most, n)
        nats -= logs[0, n]
    return Impurity(max(nats + logs[0, total], 0.0), float(total - most))


@jit
def _log1p(logs: np.ndarray, x: float) -> float:
    return logs[1, np.int64(x)] if logs.shape[1] > 1 else log1p(x)


@jit
def way_terms_into(
    out: np.ndarray, at: int, logs: np.ndarray, gain: float, left: Impurity, right: Impurity, n_left: int, n: int
) -> None:
    """The terms f of a way to part a cell of ``n`` rows, ``n_left`` of them going left, into ``out[at]``."""
    out[at, 0] = gain
    out[at, 1] = left.nats + right.nats
    out[at, 2] = max(left.nats, right.nats)
    out[at, 3] = sqrt(left.nats) + sqrt(right.nats)
    out[at, 4] = _log1p(logs, left.minority) + _log1p(logs, right.minority)
    out[at, 5] = _log1p(logs, float(n_left)) + _log1p(logs, float(n - n_left)) - 2.0 * _log1p(logs, n + 1.0)


@jit
def cell_terms_into(model: Lowered, state: ChainState, node: int, odds: float) -> None:
    """The terms x of a cell whose log odds of splitting by lookahead are ``odds``, into ``state.cell_terms``."""
    out, here = state.cell_terms, impurity(model, state.logs, state.stats, node)
    odds = min(max(odds, -1e6), 1e6)
    out[0], out[1], out[2] = 1.0, odds, min(odds, 0.0)
    out[3], out[4], out[5] = here.nats, sqrt(here.nats), log1p(here.minority)
    out[6], out[7] = log1p(float(state.node[node].rows)), float(state.node[node].depth)


@jit
def row_of(state: ChainState, node: int) -> int:
    """Where the density has the parameters of a node, given the stratum of its tree."""
    level = min(state.node[node].depth, np.int64(DENSITY_LEVELS - 1))
    return level if level == 0 else 1 + state.stratum[0] * (DENSITY_LEVELS - 1) + level - 1


@jit
def enter_stratum(state: ChainState, feature: int) -> None:
    """Look from now on at trees whose root asks about ``feature``."""
    last = len(state.density) - 1
    stratum = np.int64(state.density[last, N_CELL_TERMS + N_WAY_TERMS + feature])
    state.stratum[0] = min(max(stratum, np.int64(0)), np.int64(N_STRATA - 1))


@jit
def logit(density: np.ndarray, row: int, terms: np.ndarray, at: int, k: int) -> float:
    """``b . f + c[feature]`` of the way with the terms ``terms[at]``."""
    total = density[row, N_CELL_TERMS + N_WAY_TERMS + k]
    for j in range(N_WAY_TERMS):
        total += density[row, N_CELL_TERMS + j] * terms[at, j]
    return total


@jit
def weigh_ways(model: Lowered, state: ChainState, node: int, k: int, n: int) -> int:
    """What every way of feature ``k``, in ``n`` bins, weighs; one behind the last way.

    Way w, from -2 on, stands in entry ``w + 2``: how many are alike in ``alike`` (0: none), its gain and its logit in
    ``tilts``, its terms f in ``way_terms``.
    """
    n_ways, row, rule = gains_into(model, state, node, k, n), row_of(state, node), model.questions
    terms, tilts, alike, logs, density = state.way_terms, state.tilts, state.alike, state.logs, state.density
    rows, whole, nothing = state.node[node].rows, impurity(model, logs, state.stats, node), Impurity(0.0, 0.0)
    for way in range(-2, 0):
        alike[way + 2] = trivial_ways(model, state, node, k, n, way)[0]
        if alike[way + 2] > 0 and way == -2:
            way_terms_into(terms, 0, logs, 0.0, nothing, whole, np.int64(0), rows)
        elif alike[way + 2] > 0:
            way_terms_into(terms, 1, logs, 0.0, whole, nothing, rows, rows)
    least, beta = rule.min_leaf if rule.kind == LOCAL else 0, state.beta[0]
    gaps = rule.kind == GRID and not rule.feature[k].nominal
    codes, gains, lefts, rights = state.codes, state.gains, state.lefts, state.rights
    for way in range(n_ways):
        n_left, at = codes[3, way], way + 2
        alike[at] = 0
        if n_left >= least and rows - n_left >= least:
            alike[at] = codes[0, way + 1] - codes[0, way] if gaps else np.int64(1)
            left, right = impurity(model, logs, lefts, way), impurity(model, logs, rights, way)
            way_terms_into(terms, at, logs, beta * gains[way], left, right, n_left, rows)
    for at in range(n_ways + 2):
        if alike[at] > 0:
            tilts[GAIN, at], tilts[LEARNED, at] = terms[at, 0], logit(density, row, terms, at, k)
    return n_ways


@jit
def _log_sum_ways(state: ChainState, n_ways: int, part: int, power: float) -> float:
    """Log of the sum over the ways just weighed, of exponentials of their tilts times ``power``."""
    tilts, alike, largest, total = state.tilts, state.alike, -inf, 0.0
    for at in range(n_ways + 2):
        if alike[at] > 0:
            largest = max(largest, tilts[part, at])
    if largest == -inf:
        return -inf
    for at in range(n_ways + 2):
        apart = power * (tilts[part, at] - largest)
        if alike[at] > 0 and apart > LOST:
            total += alike[at] * exp(apart)
    return power * largest + log(total)


@jit
def _log_sum_features(state: ChainState, part: int, p: int) -> float:
    largest, total = -inf, 0.0
    for k in range(p):
        largest = max(largest, state.sums[part, k])
    if largest == -inf:
        return -inf
    for k in range(p):
        total += exp(state.sums[part, k] - largest)
    return largest + log(total)


@jit
def known(model: Lowered, state: ChainState, node: int) -> int:
    """See that what the density needs of a splittable node is kept; where."""
    here, row = state.node[node], row_of(state, node)
    at = mixed(here.hash + state.count[SCAN] * np.int64(0x9E3779B1) + here.depth * 64 + row)
    place = (at ^ (at >> 32)) & (len(state.guide) - 1)
    guide = state.guide[place]
    if guide.hash == here.hash and guide.depth == here.depth and guide.row == row and guide.scan == state.count[SCAN]:
        return place
    guide.hash, guide.depth, guide.row, guide.scan = here.hash, here.depth, row, state.count[SCAN]
    p, weights = len(model.questions.feature), 0.0
    for k in range(p):
        for part in range(3):
            state.sums[part, k] = -inf
        weight = feature_weight(model, state, node, k)
        if weight > 0.0:
            n = fill_bins(model, state, node, k)
            ways = n_ways_of(model, state, node, k, n)
            if ways > 0.0:
                weights += weight
                n_ways = weigh_ways(model, state, node, k, n)
                log_rule = log(weight / ways)
                state.sums[GAIN, k] = log_rule + _log_sum_ways(state, n_ways, GAIN, 1.0)
                state.sums[LEARNED, k] = log_rule + _log_sum_ways(state, n_ways, LEARNED, 1.0)
                state.sums[DEFENSIVE, k] = log_rule + _log_sum_ways(state, n_ways, GAIN, FLAT)
    guide.weight = weights
    guide.log_learned = _log_sum_features(state, LEARNED, p)
    guide.log_defensive = _log_sum_features(state, DEFENSIVE, p)
    for k in range(p):
        learned = exp(state.sums[LEARNED, k] - guide.log_learned) if state.sums[LEARNED, k] > -inf else 0.0
        defensive = exp(state.sums[DEFENSIVE, k] - guide.log_defensive) if state.sums[DEFENSIVE, k] > -inf else 0.0
        state.shares[place, k] = (1.0 - DEFENCE) * learned + DEFENCE * defensive
    guide.odds = lookahead_odds(model, state, node, _log_sum_features(state, GAIN, p) - log(weights))
    _split_into(model, state, node, place)
    return place


@jit
def lookahead_odds(model: Lowered, state: ChainState, node: int, log_w: float) -> float:
    """Log odds of splitting by the lookahead sum of one level."""
    split = model.prior.table[prior_index(model, state.node[node].depth, state.node[node].design)].log_split
    if split == -inf or log_w == -inf:
        return -inf
    return split + log_w - node_log_stop(model, state, node)


@jit
def _split_into(model: Lowered, state: ChainState, node: int, place: int) -> None:
    """Log probabilities of splitting and of stopping, from the odds kept."""
    guide = state.guide[place]
    if guide.odds == -inf or guide.odds == inf:
        sure = guide.odds > 0.0
        guide.log_split, guide.log_stop = (0.0, -inf) if sure else (-inf, 0.0)
        return
    cell_terms_into(model, state, node, guide.odds)
    z, row = 0.0, row_of(state, node)
    for j in range(N_CELL_TERMS):
        z += state.density[row, j] * state.cell_terms[j]
    flat = FLAT_ODDS * min(max(guide.odds, -MOST_ODDS), MOST_ODDS)
    guide.log_split = log((1.0 - DEFENCE) * _logistic(z) + DEFENCE * _logistic(flat))
    guide.log_stop = log((1.0 - DEFENCE) * _logistic(-z) + DEFENCE * _logistic(-flat))


@jit
def _logistic(z: float) -> float:
    return 1.0 / (1.0 + exp(-z)) if z > -700.0 else 0.0


@jit
def _log_mixture(state: ChainState, place: int, log_rule: float, learned: float, gain: float) -> float:
    """Log probability of a question with the given logit and gain; ``log_rule`` is log of weight over ways."""
    guide = state.guide[place]
    a = LOG_LEARNED + log_rule + learned - guide.log_learned
    b = LOG_DEFENCE + log_rule + FLAT * gain - guide.log_defensive
    return max(a, b) + log1p(exp(min(a, b) - max(a, b)))


@jit
def log_question(model: Lowered, state: ChainState, node: int) -> float:
    """Log probability of the question of an internal node; ``-inf`` if it is none of the candidates."""
    if model.questions.kind == FIXED:
        return 0.0
    place, here = known(model, state, node), state.node[node]
    gain = state.beta[0] * (state.node[here.left].guess + state.node[here.right].guess - here.guess)
    left = impurity(model, state.logs, state.stats, here.left)
    right = impurity(model, state.logs, state.stats, here.right)
    last = len(state.way_terms) - 1
    n_left, terms = state.node[here.left].rows, state.way_terms
    way_terms_into(terms, last, state.logs, gain, left, right, n_left, here.rows)
    learned = logit(state.density, row_of(state, node), terms, last, here.feature)
    return _log_mixture(state, place, here.log_rule + log(state.guide[place].weight), learned, gain)


@jit
def draw_way(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> tuple[Question, float]:
    """A question of a splittable node drawn from the density, and the log of its probability."""
    if model.questions.kind == FIXED:
        return fixed_question(model, state, node), 0.0
    place, rule, total = known(model, state, node), model.questions, 0.0
    for k in range(len(rule.feature)):
        state.feature_weight[k] = state.shares[place, k]
        total += state.feature_weight[k]
    k = np.int64(pick_weighted(rng, state.feature_weight, total))
    n = fill_bins(model, state, node, k)
    log_rule = log(rule.feature[k].weight / n_ways_of(model, state, node, k, n))
    n_ways, u, done, chosen, log_g = weigh_ways(model, state, node, k, n), rng.random(), 0.0, np.int64(-3), -inf
    for way in range(-2, n_ways):
        if state.alike[way + 2] > 0:
            one = _log_mixture(state, place, log_rule, state.tilts[LEARNED, way + 2], state.tilts[GAIN, way + 2])
            done += state.alike[way + 2] * exp(one) / state.shares[place, k]
            chosen, log_g = np.int64(way), one
            if u < done:
                break
    note_way(model, state, node, k, n, chosen)
    cut, upper = state.way[CUT], state.way[UPPER]
    if state.way[CHOICES] > 1:
        cut += pick(rng, state.way[CHOICES])
        upper = cut + 1
    return Question(k, cut, upper, state.way[CATEGORIES], log_rule - log(state.guide[place].weight)), log_g


@jit
def log_density(model: Lowered, state: ChainState, top: int) -> float:
    """Log density of the subtree at and below ``top``, given its cell."""
    total, node = 0.0, np.int64(top)
    while node != NONE:
        if state.node[node].splittable:
            place = known(model, state, node)
            if is_leaf(state, node):
                total += state.guide[place].log_stop
            else:
                total += state.guide[place].log_split + log_question(model, state, node)
                if state.node[node].depth == 0:
                    enter_stratum(state, state.node[node].feature)
        node = next_node(state, node, top)
    return total


@jit
def splits(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> bool:
    """Whether a splittable node is to be split, drawn from the density."""
    return flip(rng, exp(state.guide[known(model, state, node)].log_split))


@jit
def sample_ways(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, expected: float, retained: int, base: int
) -> int:
    """A systematic sample of the questions of a splittable node into ``state.branch`` from ``base`` on; how many.

    Question q is in it with probability ``p_q = min(1, expected * g(q))``. Where a node of the same cell is
    ``retained`` (not NONE), the sample is drawn given that the question of that node is in it. Without room for all
    the work is exhausted.
    """
    place, rule = known(model, state, node), model.questions
    if rule.kind == FIXED:
        _note_branch(state, base, fixed_question(model, state, node), 0.0, retained != NONE)
        return 1
    point = _first_point(rng, model, state, node, expected, retained, place)
    kept_feature, kept_way, kept_at = NONE, np.int64(-3), np.int64(0)
    if retained != NONE:
        kept_feature = state.node[retained].feature
    below, m = 0.0, np.int64(0)
    for k in range(len(rule.feature)):
        share = expected * state.shares[place, k]
        if share <= 0.0 or not (point < below + share or k == kept_feature):
            below += share
            continue
        n = fill_bins(model, state, node, k)
        log_rule = log(rule.feature[k].weight / n_ways_of(model, state, node, k, n))
        n_ways, inside = weigh_ways(model, state, node, k, n), below
        if k == kept_feature:
            kept_way, kept_at = way_of(model, state, node, retained, k, n)
        for way in range(-2, n_ways):
            if state.alike[way + 2] == 0:
                continue
            learned, gain = state.tilts[LEARNED, way + 2], state.tilts[GAIN, way + 2]
            log_p = log(expected) + _log_mixture(state, place, log_rule, learned, gain)
            length = exp(log_p)
            for i in range(state.alike[way + 2]):
                inside += length
                kept = k == kept_feature and way == kept_way and i == kept_at
                taken = kept
                while point < inside:
                    taken = True
                    point -= -1.0
                if taken and base + m == len(state.branch):
                    state.work[EXHAUSTED] = 1
                elif taken:
                    note_way(model, state, node, k, n, way)
                    cut, upper = state.way[CUT] + i, state.way[UPPER]
                    if state.way[CHOICES] > 1:
                        upper = cut + 1
                    log_r = log_rule - log(state.guide[place].weight)
                    question = Question(np.int64(k), cut, upper, state.way[CATEGORIES], log_r)
                    _note_branch(state, base + m, question, min(log_p, 0.0), kept)
                    for j in range(N_WAY_TERMS):
                        state.branch_terms[base + m, j] = state.way_terms[way + 2, j]
                    m += 1
        below += share
    return m


@jit
def _first_point(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, expected: float, retained: int, place: int
) -> float:
    """The first point, in [0, 1), of the lattice that chooses a systematic sample."""
    if retained == NONE:
        return rng.random()
    rule, kept, before = model.questions, state.node[retained].feature, 0.0
    for k in range(kept):
        before += expected * state.shares[place, k]
    n = fill_bins(model, state, node, kept)
    log_rule = log(rule.feature[kept].weight / n_ways_of(model, state, node, kept, n))
    n_ways, length = weigh_ways(model, state, node, kept, n), 0.0
    kept_way, kept_at = way_of(model, state, node, retained, kept, n)
    for way in range(-2, n_ways):
        if state.alike[way + 2] > 0:
            learned, gain = state.tilts[LEARNED, way + 2], state.tilts[GAIN, way + 2]
            length = expected * exp(_log_mixture(state, place, log_rule, learned, gain))
            if way == kept_way:
                before += kept_at * length
                break
            before += state.alike[way + 2] * length
    point = rng.random()
    if length >= 1.0:
        return point
    whole = np.floor(before)
    point = point * length - (whole - before)
    return point if point < 1.0 else point - 1.0


@jit
def _note_branch(state: ChainState, at: int, question: Question, log_p: float, kept: bool) -> None:
    branch = state.branch[at]
    branch.feature, branch.cut, branch.upper = question.feature, question.cut, question.upper
    branch.categories, branch.log_rule, branch.log_p, branch.kept = question.categories, question.log_rule, log_p, kept


@jit
def way_of(model: Lowered, state: ChainState, node: int, internal: int, k: int, n: int) -> tuple[int, int]:
    """Which way of feature ``k``, whose bins are filled, the question of ``internal`` is, and which of those alike.

    Way -3 is none of them.
    """
    rule, here, code_of = model.questions, state.node[internal], state.codes[0]
    first = np.int64(0)
    if here.categories >= 0:
        present = cell_bits(model, state, node, k)
        left = here.categories & present
        if left == 0 or left == present:
            return np.int64(-1 if left == present else -2), first
        if n > FEW_CATEGORIES:
            return _prefix_of(model, state, n, left, present), first
        pattern = np.int64(0)
        for j in range(n):
            if (left >> code_of[j]) & 1:
                pattern |= np.int64(1) << j
        if not pattern & 1:
            pattern = ((np.int64(1) << n) - 1) & ~pattern
        return (pattern - 1) >> 1, first
    if rule.kind == DYADIC or rule.kind == CYCLIC:
        return first, first
    below = np.int64(0)
    while below < n and code_of[below] <= here.cut:
        below += 1
    way = below - 1
    start = code_of[way] if below > 0 else first
    if below == 0 and (n > 0 or rule.kind == GRID):
        way = np.int64(-2)
        if rule.kind == GRID:
            start = span(model, state, node, k)[0]
    elif below == n:
        way = np.int64(-1)
    return way, (here.cut - start if rule.kind == GRID else first)


@jit
def _prefix_of(model: Lowered, state: ChainState, n: int, left: int, present: int) -> int:
    prefix, done = np.int64(0), np.int64(0)
    for way in range(n - 1):
        j = next_in_order(model, state, n, done)
        done |= np.int64(1) << j
        prefix |= np.int64(1) << state.codes[0, j]
        if prefix == left or present & ~prefix == left:
            return np.int64(way)
    return np.int64(-3)


@jit
def pick_cell(rng: np.random.Generator, model: Lowered, state: ChainState) -> int:
    """A node on the path of a row: so many levels, drawn uniformly, below the first whose cell is not too large.

    NONE where the path ends above. Redrawing the subtree at the node does not change how probable it is.
    """
    unit, levels = pick(rng, len(state.order)), pick(rng, N_TOPS)
    node, p = np.int64(0), len(model.questions.feature)
    while (state.node[node].stop - state.node[node].start) * p > MOST_VALUES or levels > 0:
        if is_leaf(state, node):
            return NONE
        if (state.node[node].stop - state.node[node].start) * p <= MOST_VALUES:
            levels -= 1
        here, code = state.node[node], np.int64(model.units.codes[state.node[node].feature, unit])
        goes_left = (here.categories >> code) & 1 == 1 if here.categories >= 0 else code <= here.cut
        node = here.left if goes_left else here.right
    if node != 0:
        enter_stratum(state, state.node[0].feature)
    return node
