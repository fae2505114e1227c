"""What the learned density looks at: terms of a cell and of each way of parting it, and their weighted sums.

Log likelihood ratios that a split opens further down are known for a few splits of a cell, its *anchors*
(`anchors`); between two of an ordered feature they are interpolated, and where a feature has none they are the cell's
mean.
"""

from math import exp, inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from ....core.compile.jit import jit
from ....model import Lowered
from ....model.leaf.codes import BY_ADDRESS, LAPLACE, LOSS, NORMAL, POISSON
from ....model.leaf.of_numbers import squares_about_mean
from ....model.split_prior.geometry import least_rows, parts_box
from ...state.arrays import ChainState
from ...state.records import DENSITY_LEVELS, N_CELL_TERMS, N_STRATA, N_WAY_TERMS, NONE
from ...sums.split_sums import gains_into, trivial_ways

GAIN, LEARNED, EVEN = range(3)
ODDS, NATS, ROWS_TERM = 1, 3, 6
"""Places of terms of a cell: log odds of splitting by lookahead, impurity, log(1 + rows)."""
LOST = -30.0
"""Terms smaller by this, in nats, do not count in the sums of a proposal."""
WAY_BITS = 32


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
    if not model.units.counts:
        return _impurity_of_numbers(model.guess.kind, model.guess.params, stats, row)
    rule = model.guess
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
def _impurity_of_numbers(kind: int, params: np.ndarray, stats: np.ndarray, row: int) -> Impurity:
    n = stats[row, 0]
    if n <= 0.0:
        return Impurity(0.0, 0.0)
    if kind == POISSON:
        return Impurity(stats[row, 1], stats[row, 1])
    if kind == BY_ADDRESS:
        # what the statistics mean is known to the score alone; a cell of more weight may gain more
        return Impurity(n, n)
    squares = squares_about_mean(stats[row, 1], stats[row, 2], stats[row, 1] / n)
    if kind == NORMAL:
        nats = (params[2] + 0.5 * n) * log1p(squares / (2.0 * params[3]))
    else:
        nats = squares / (2.0 * params[0])
    return Impurity(nats, nats)


@jit
def _impurities_into(
    nats: np.ndarray, minority: np.ndarray, model: Lowered, logs: np.ndarray, stats: np.ndarray, n: int
) -> None:
    """`impurity` of the cells with the first ``n`` rows of statistics; loops of their own for the commonest leaves."""
    if logs.shape[1] > 1 and stats.shape[1] == 2:
        x_log_x = logs[0]
        for row in range(n):
            one, other = np.int64(stats[row, 0]), np.int64(stats[row, 1])
            nats[row] = max(-x_log_x[one] - x_log_x[other] + x_log_x[one + other], 0.0)
            minority[row] = min(one, other)
    elif logs.shape[1] > 1:
        for row in range(n):
            nats[row], minority[row] = _impurity_of_counts(logs, stats, row)
    elif not model.units.counts:
        kind, params = model.guess.kind, model.guess.params
        for row in range(n):
            nats[row], minority[row] = _impurity_of_numbers(kind, params, stats, row)
    else:
        for row in range(n):
            nats[row], minority[row] = impurity(model, logs, stats, row)


@jit
def _log1p(logs: np.ndarray, x: float) -> float:
    return logs[1, np.int64(x)] if logs.shape[1] > 1 else log1p(x)


@jit
def way_terms_into(
    out: np.ndarray, at: int, logs: np.ndarray, gain: float, left: Impurity, right: Impurity, n_left: int, n: int
) -> None:
    """The terms f of a way to part a cell of ``n`` rows, ``n_left`` of them going left, into ``out[:, at]``."""
    out[0, at] = gain
    out[1, at], out[2, at], out[3, at], out[4, at] = left.nats, right.nats, left.minority, right.minority
    _combine(out[:, at : at + 1], logs, np.full(1, n_left), n)


@jit
def _combine(out: np.ndarray, logs: np.ndarray, rows_left: np.ndarray, n: int) -> None:
    """The terms of ways whose gain and impurities, left and right, stand in ``out``, by the rows going left of each."""
    apart = 2.0 * _log1p(logs, n + 1.0)
    for at in range(out.shape[1]):
        left, right, minority, other = out[1, at], out[2, at], out[3, at], out[4, at]
        out[1, at] = left + right
        out[2, at] = max(left, right)
        out[3, at] = sqrt(left) + sqrt(right)
        out[4, at] = _log1p(logs, minority) + _log1p(logs, other)
        out[5, at] = _log1p(logs, float(rows_left[at])) + _log1p(logs, float(n - rows_left[at])) - apart
        out[6, at] = 0.0


@jit
def ahead_into(model: Lowered, state: ChainState, place: int, k: int, n: int) -> None:
    """What anchors kept at ``place`` say of the first ``n`` entries of feature ``k``: term 6 of ``way_terms``."""
    anchors, ahead, terms = state.anchors[place], state.ahead[place], state.way_terms
    m, j = state.guide[place].n_anchors, np.int64(0)
    while j < m and anchors[j] >> WAY_BITS < k:
        j += 1
    if j == m or anchors[j] >> WAY_BITS > k:
        return
    mask, ordered = (np.int64(1) << WAY_BITS) - 1, not model.split_prior.feature[k].nominal
    for at in range(n):
        while j + 1 < m and anchors[j + 1] >> WAY_BITS == k and anchors[j + 1] & mask <= at:
            j += 1
        here, value = anchors[j] & mask, ahead[j]
        if ordered and here < at and j + 1 < m and anchors[j + 1] >> WAY_BITS == k:
            value += (ahead[j + 1] - value) * (at - here) / ((anchors[j + 1] & mask) - here)
        terms[6, at] = value


@jit
def cell_terms_into(model: Lowered, state: ChainState, node: int, odds: float, ahead: float) -> None:
    """The terms x of a cell into ``state.cell_terms``.

    ``odds``, ``ahead``: its log odds of splitting by lookahead over one level, and over two.
    """
    out, here = state.cell_terms, impurity(model, state.logs, state.stats, node)
    odds, ahead = min(max(odds, -1e6), 1e6), min(max(ahead, -1e6), 1e6)
    out[0], out[1], out[2] = 1.0, odds, min(odds, 0.0)
    out[3], out[4], out[5] = here.nats, sqrt(here.nats), log1p(here.minority)
    out[6], out[7] = log1p(float(state.node[node].rows)), float(state.node[node].depth)
    out[8], out[9] = ahead, min(ahead, 0.0)


@jit
def row_of(state: ChainState, node: int) -> int:
    """Where the density has the parameters of a node, given the stratum of its tree."""
    level = min(state.node[node].depth, np.int64(DENSITY_LEVELS - 1))
    return level if level == 0 else 1 + state.stratum[0] * (DENSITY_LEVELS - 1) + level - 1


@jit
def enter_stratum(state: ChainState, feature: int) -> None:
    """Look from now on at trees whose root splits on ``feature``."""
    last = len(state.density) - 1
    stratum = np.int64(state.density[last, N_CELL_TERMS + N_WAY_TERMS + feature])
    state.stratum[0] = min(max(stratum, np.int64(0)), np.int64(N_STRATA - 1))


@jit
def logit(density: np.ndarray, row: int, terms: np.ndarray, at: int, k: int) -> float:
    """``b . f + c[feature]`` of the way with the terms ``terms[:, at]``."""
    total = density[row, N_CELL_TERMS + N_WAY_TERMS + k]
    for j in range(N_WAY_TERMS):
        total += density[row, N_CELL_TERMS + j] * terms[j, at]
    return total


@jit
def weigh_ways(model: Lowered, state: ChainState, node: int, k: int, n: int, place: int) -> int:
    """Computes the weight of every way of feature ``k``, in ``n`` bins, and returns one more than the last way.

    Way w, from -2 on, stands in entry ``w + 2``: how many are alike in ``alike`` (0: none), its gain and its logit in
    ``tilts``, its terms f in ``way_terms``. ``place`` has the anchors of the cell, NONE: without.
    """
    n_splits, row, rule = gains_into(model, state, node, k, n), row_of(state, node), model.split_prior
    terms, tilts, alike, logs, density = state.way_terms, state.tilts, state.alike, state.logs, state.density
    rows, whole, nothing = state.node[node].rows, impurity(model, logs, state.stats, node), Impurity(0.0, 0.0)
    for way in range(-2, 0):
        alike[way + 2] = trivial_ways(model, state, node, k, n, way)[0]
        if alike[way + 2] > 0 and way == -2:
            way_terms_into(terms, 0, logs, 0.0, nothing, whole, np.int64(0), rows)
        elif alike[way + 2] > 0:
            way_terms_into(terms, 1, logs, 0.0, whole, nothing, rows, rows)
    least, beta = least_rows(rule), state.beta[0]
    gaps = parts_box(rule) and not rule.feature[k].nominal
    codes, gains, rows_left, end = state.codes, state.gains, state.codes[3], n_splits + 2
    for way in range(n_splits):
        n_left = rows_left[way]
        count = codes[0, way + 1] - codes[0, way] if gaps else np.int64(1)
        alike[way + 2] = count if n_left >= least and rows - n_left >= least else np.int64(0)
        terms[0, way + 2] = beta * gains[way]
    _impurities_into(terms[1, 2:end], terms[3, 2:end], model, logs, state.lefts, n_splits)
    _impurities_into(terms[2, 2:end], terms[4, 2:end], model, logs, state.rights, n_splits)
    _combine(terms[:, 2:end], logs, rows_left, rows)
    if place != NONE:
        ahead_into(model, state, place, k, end)
    _logits_into(tilts, terms, density, row, k, end)
    return n_splits


@jit
def _logits_into(tilts: np.ndarray, terms: np.ndarray, density: np.ndarray, row: int, k: int, n: int) -> None:
    """Gain and `logit` of the first ``n`` entries."""
    gains, out, first = tilts[GAIN], tilts[LEARNED], density[row, N_CELL_TERMS + N_WAY_TERMS + k]
    for at in range(n):
        gains[at] = terms[0, at]
        out[at] = first
    for j in range(N_WAY_TERMS):
        b, f = density[row, N_CELL_TERMS + j], terms[j]
        for at in range(n):
            out[at] += b * f[at]


@jit
def keep_ways(state: ChainState, k: int, n_splits: int) -> None:
    """Keep what the ways of feature ``k`` weigh, in scratch, behind those of the feature before."""
    first = state.kept_from[k]
    for at in range(n_splits + 2):
        state.kept_alike[first + at] = state.alike[at]
        for part in range(2):
            state.kept_tilts[part, first + at] = state.tilts[part, at]
    state.kept_from[k + 1] = first + n_splits + 2


@jit
def log_sum_ways(tilts: np.ndarray, alike: np.ndarray, first: int, last: int, power: float) -> float:
    """Log of the sum over entries ``first`` to ``last - 1`` of exponentials of the tilts times ``power``."""
    largest, total = -inf, 0.0
    for at in range(first, last):
        if alike[at] > 0:
            largest = max(largest, tilts[at])
    if largest == -inf:
        return -inf
    for at in range(first, last):
        apart = power * (tilts[at] - largest)
        if alike[at] > 0 and apart > LOST:
            total += alike[at] * exp(apart)
    return power * largest + log(total)


@jit
def log_n_alike(alike: np.ndarray, first: int, last: int) -> float:
    """Returns the log of the number of ways that entries ``first`` to ``last - 1`` represent."""
    total = np.int64(0)
    for at in range(first, last):
        total += alike[at]
    return log(total) if total > 0 else -inf
