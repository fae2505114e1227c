"""The anchors of a cell: a few of its splits, whose children are looked at one level further.

Most lie at even steps of a mixture, half and half, of R and of what the learned density says of the splits without
looking further; the likeliest split of each of the cell's best features is one too. Each keeps
``log Z_1(u0) + log Z_1(u1)``, relative to the scores of the children, less the mean over the anchors; between two of
them `terms.ahead_into` interpolates. The sums are those of a *sketch*: the best features alone, their codes in bins,
the statistics of a child counted in one pass over its rows.
"""

from math import exp, inf, log

import numpy as np

from ....core.bits import goes_left
from ....core.compile.jit import jit
from ....core.logsum import log_add, log_sum
from ....model import Lowered
from ....model.leaf.compiled import add_scores_into
from ....model.split_prior.geometry import has_one_way
from ....model.unit_stats import scatter_units
from ...state.arrays import MOST_VALUES, N_SKETCH_BINS, N_SKETCHED, ChainState
from ...state.records import DENSITY_LEVELS, MOST_ANCHORS
from ...state.splits import n_splits_of
from ...state.terms import log_stop, prior_index
from ...sums.split_sums import CATEGORIES, CUT, feature_weight, fill_bins, next_in_order, note_way
from .terms import EVEN, LEARNED, WAY_BITS

LEAST_ODDS, LEAST_DEEP_ODDS = -4.0, 4.0
"""Cells with lower log odds of splitting have none: the root and its children, and deeper ones."""
MOST_DEEP_CODES, MOST_DEEP_UNITS = 512, 1000
"""Values of all features together, and merged rows, of tables in whose deeper cells anchors pay."""


@jit
def n_steps(model: Lowered, state: ChainState, node: int, odds: float) -> int:
    """Returns the number of anchors that a cell may have at even steps, 0 where nothing is learned from them."""
    here = state.node[node]
    if has_one_way(model.split_prior) or here.depth + 1 >= model.prior.depth_limit or not odds > LEAST_ODDS:
        return 0
    if here.depth > 1 and not (odds > LEAST_DEEP_ODDS and _is_small(model)):
        return 0
    if (here.stop - here.start) * len(model.split_prior.feature) > MOST_VALUES:
        return 0
    level = min(here.depth, np.int64(DENSITY_LEVELS - 1))
    return min(np.int64(state.density[len(state.density) - 1, level]), np.int64(MOST_ANCHORS - N_SKETCHED))


@jit
def _is_small(model: Lowered) -> bool:
    """Whether the table has so few rows and values that anchors of many cells cost little."""
    n_codes = np.int64(0)
    for k in range(len(model.split_prior.feature)):
        n_codes += model.split_prior.feature[k].n_codes
    return n_codes <= MOST_DEEP_CODES and model.units.codes.shape[1] <= MOST_DEEP_UNITS


@jit
def place_anchors(model: Lowered, state: ChainState, node: int, place: int, n: int) -> float:
    """Gives the cell of ``node`` its anchors, up to ``n`` at even steps, and returns the mean of their lookahead sums.

    ``state.sums`` holds the log sums of the features, the cell's guide those of all, and what the ways weigh is kept
    (`terms.keep_ways`).
    """
    n_features = _sketch(model, state, node, place)
    _choose(model, state, node, place, n, n_features)
    m, mean = state.guide[place].n_anchors, 0.0
    for j in range(m):
        state.ahead[place, j] = _look(model, state, node, place, j, n_features)
        mean += state.ahead[place, j] / m
    for j in range(m):
        state.ahead[place, j] -= mean
    return mean


@jit
def _mixture(state: ChainState, place: int, learned: float, even: float) -> float:
    """Part of the mixture that has these logs before they are normalised."""
    guide = state.guide[place]
    return 0.5 * exp(learned - guide.log_learned) + 0.5 * exp(even - guide.log_even)


@jit
def _sketch(model: Lowered, state: ChainState, node: int, place: int) -> int:
    """Chooses the features of the sketch, bins the cell's units by them, and returns the number of features."""
    p, m, here = len(model.split_prior.feature), np.int64(0), state.node[node]
    for k in range(p):
        fraction = _mixture(state, place, state.sums[LEARNED, k], state.sums[EVEN, k])
        state.feature_weight[k] = fraction
    while m < min(p, N_SKETCHED):
        best = np.int64(0)
        for k in range(p):
            if state.feature_weight[k] > state.feature_weight[best]:
                best = np.int64(k)
        if state.feature_weight[best] <= 0.0:
            break
        state.feature_weight[best] = 0.0
        state.sketched[m] = best
        m += 1
    for f in range(m):
        k = state.sketched[f]
        n = fill_bins(model, state, node, k)
        _bin_codes(model, state, f, k, n, here.rows)
        codes, order, bin_of, sketch = model.units.codes, state.order, state.bin_of, state.sketch
        # codes of missing values may lie on either side of the box, and then count with its ends
        lowest, highest = np.int64(0), np.int64(model.split_prior.feature[k].n_codes - 1)
        if not model.split_prior.feature[k].nominal and n > 0:
            lowest, highest = state.codes[0, 0], state.codes[0, n - 1]
        for i in range(here.stop - here.start):
            code = np.int64(codes[k, order[here.start + i]])
            sketch[i, f] = bin_of[f, min(max(code, lowest), highest)]
    return m


@jit
def _bin_codes(model: Lowered, state: ChainState, f: int, k: int, n: int, rows: int) -> None:
    """Bins of about equally many rows for the ``n`` codes of feature ``k`` just filled; nominal ones by their means."""
    below, done, number, step = np.int64(0), np.int64(0), np.int64(-1), np.int64(-1)
    for i in range(n):
        j = np.int64(i)
        if model.split_prior.feature[k].nominal:
            j = next_in_order(model, state, n, done)
            done |= np.int64(1) << j
        here = state.codes[2, j]
        reached = (2 * below + here) * N_SKETCH_BINS // max(2 * rows, np.int64(1))
        if (reached > step or number < 0) and number < N_SKETCH_BINS - 1:
            number += 1
            step = reached
        state.bin_of[f, state.codes[0, j]] = number
        below += here
    state.n_bins[f] = number + 1


@jit
def _choose(model: Lowered, state: ChainState, node: int, place: int, n: int, n_features: int) -> None:
    """Write the anchors, sorted, and where their splits cut."""
    point, below, m, rule = 0.5, 0.0, np.int64(0), model.split_prior
    for k in range(len(rule.feature)):
        if state.sums[EVEN, k] == -inf:
            continue
        fraction = n * _mixture(state, place, state.sums[LEARNED, k], state.sums[EVEN, k])
        is_sketched = False
        for f in range(n_features):
            is_sketched = is_sketched or state.sketched[f] == k
        if point >= below + fraction and not is_sketched:
            below += fraction
            continue
        bins, base = fill_bins(model, state, node, k), state.kept_from[k]
        log_rule = log(rule.feature[k].weight / n_splits_of(model, state, node, k, bins))
        n_entries, inside, best, highest = state.kept_from[k + 1] - base, below, np.int64(-1), -inf
        for at in range(n_entries if is_sketched else 0):
            if state.kept_alike[base + at] > 0 and state.kept_tilts[LEARNED, base + at] > highest:
                best, highest = np.int64(at), state.kept_tilts[LEARNED, base + at]
        for at in range(n_entries):
            alike = state.kept_alike[base + at]
            if alike == 0:
                continue
            one = _mixture(state, place, log_rule + state.kept_tilts[LEARNED, base + at], log_rule)
            inside += alike * n * one
            if at == best or (point < inside and point < n):
                note_way(model, state, node, k, bins, np.int64(at) - 2)
                state.anchors[place, m] = (np.int64(k) << WAY_BITS) + at
                state.anchor_cut[m], state.anchor_categories[m] = state.way[CUT], state.way[CATEGORIES]
                m += 1
                while point < inside and point < n:
                    point += 1.0
        below += fraction
    state.guide[place].n_anchors = m


@jit
def _look(model: Lowered, state: ChainState, node: int, place: int, j: int, n_features: int) -> float:
    """Returns the sum of the lookahead sums of both children of anchor ``j``, by the sketch."""
    k, cut, categories = state.anchors[place, j] >> WAY_BITS, state.anchor_cut[j], state.anchor_categories[j]
    sides, sketch, order, to = state.sketch_sides, state.sketch, state.order, state.side
    right = np.int64(N_SKETCHED * N_SKETCH_BINS)
    for b in range(n_features * N_SKETCH_BINS):
        for s in range(sides.shape[1]):
            sides[b, s] = sides[right + b, s] = 0.0
    here, rows_left = state.node[node], np.int64(0)
    units = model.units
    codes, rows, rows_all = units.codes, units.rows, units.rows_all
    for i in range(here.stop - here.start):
        u = order[here.start + i]
        is_left = goes_left(np.int64(codes[k, u]), cut, categories)
        rows_left += rows[u & rows_all] if is_left else 0
        to[i] = 0 if is_left else right
    for f in range(n_features):
        for i in range(here.stop - here.start):
            to[i] = (right if to[i] >= right else 0) + f * N_SKETCH_BINS + sketch[i, f]
        scatter_units(sides, to, units, order, here.start, here.stop)
    depth = here.depth + 1
    total = _log_z1(model, state, node, np.int64(0), n_features, rows_left, depth)
    return total + _log_z1(model, state, node, right, n_features, here.rows - rows_left, depth)


@jit
def _log_z1(model: Lowered, state: ChainState, node: int, side: int, n_features: int, rows: int, depth: int) -> float:
    """`lookahead.log_z1` of a child by its sketch."""
    index, least = prior_index(model, depth, np.int64(0)), 2 * max(model.split_prior.min_leaf, 1)
    if rows < least:
        return log_stop(model, index, False, rows)
    sums, n = state.sketch_gains, np.int64(0)
    below, above = state.sketch_below, state.sketch_above
    weights, beta = 0.0, state.beta[0]
    for f in range(n_features):
        bins, k = state.n_bins[f], state.sketched[f]
        used = _sum_bins(state, side + f * N_SKETCH_BINS, bins)
        if used > 1:
            gains = state.gains
            for b in range(used):
                gains[b] = 0.0
            add_scores_into(gains, model.guess, below, used)
            whole = gains[used - 1]
            add_scores_into(gains, model.guess, above, used - 1)
            log_rule = log(feature_weight(model, state, node, k) / (used - 1))
            for b in range(used - 1):
                sums[n] = log_rule + beta * (gains[b] - whole)
                n += 1
    for k in range(len(model.split_prior.feature)):
        if state.sums[EVEN, k] > -inf:
            weights += feature_weight(model, state, node, k)
    stop = log_stop(model, index, True, rows)
    return log_add(stop, model.prior.table[index].log_split + log_sum(sums, n) - log(weights)) if n > 0 else stop


@jit
def _sum_bins(state: ChainState, first: int, bins: int) -> int:
    """Sums the bins of a child up to each that is not empty, and those after it; returns the number of these bins."""
    below, above, used, side = state.sketch_below, state.sketch_above, np.int64(0), state.sketch_sides
    n_stats = side.shape[1]
    for b in range(bins):
        is_empty = True
        for s in range(n_stats):
            is_empty = is_empty and side[first + b, s] == 0.0
        if not is_empty:
            for s in range(n_stats):
                below[used, s] = side[first + b, s] + (below[used - 1, s] if used > 0 else 0.0)
            used += 1
    for b in range(used - 1):
        for s in range(n_stats):
            above[b, s] = below[used - 1, s] - below[b, s]
    return used
