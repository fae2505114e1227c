"""Terms of a cell and of each of its splits in the learned density, and their weighted sums."""

from math import exp, inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from ....core.compile.jit import jit
from ....model import Lowered
from ....model.leaf.codes import BY_ADDRESS, LAPLACE, LOSS, NORMAL, POISSON
from ....model.leaf.normal import squares_about_mean
from ....model.split_prior.geometry import least_rows, parts_box
from ...state.records import DENSITY_LEVELS, N_CELL_TERMS, N_WAY_TERMS
from ...state.tree import ChainState
from ...sums.split_sums import gains_into, trivial_ways

GAIN, LEARNED = range(2)
ROWS_TERM = 6
"""Index of log(1 + rows) among the terms of a cell."""
LOST = -30.0
"""Log of the smallest summand relative to the largest one that counts in the sums of a proposal."""


class Impurity(NamedTuple):
    """Bounds, by leaf model, of what splits of a cell may gain."""

    nats: float
    minority: float
    """Weight outside the largest class. For numbers the same as ``nats``."""


@jit
def impurity(model: Lowered, logs: np.ndarray, stats: np.ndarray, row: int) -> Impurity:
    """Return the impurity of the cell with statistics ``stats[row]``, 0 without weight."""
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
    """Write `impurity` of ``n`` cells; the commonest leaves have loops of their own, for speed."""
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
    """Write the terms f of a split of ``n`` rows, ``n_left`` of them to the left, into ``out[:, at]``."""
    out[0, at] = gain
    out[1, at], out[2, at], out[3, at], out[4, at] = left.nats, right.nats, left.minority, right.minority
    _combine(out[:, at : at + 1], logs, np.full(1, n_left), n)


@jit
def _combine(out: np.ndarray, logs: np.ndarray, rows_left: np.ndarray, n: int) -> None:
    """Compute the terms of splits from their gain and impurities, which are in ``out``, and the rows to the left."""
    apart = 2.0 * _log1p(logs, n + 1.0)
    for at in range(out.shape[1]):
        left, right, minority, other = out[1, at], out[2, at], out[3, at], out[4, at]
        out[1, at] = left + right
        out[2, at] = max(left, right)
        out[3, at] = sqrt(left) + sqrt(right)
        out[4, at] = _log1p(logs, minority) + _log1p(logs, other)
        out[5, at] = _log1p(logs, float(rows_left[at])) + _log1p(logs, float(n - rows_left[at])) - apart


@jit
def cell_terms_into(model: Lowered, state: ChainState, node: int, odds: float) -> None:
    """Write the terms x of a cell, with log odds ``odds`` of splitting by lookahead, into ``density.cell_terms``."""
    work = state.scratch.density
    out, here = work.cell_terms, impurity(model, work.logs, state.stats, node)
    odds = min(max(odds, -1e6), 1e6)
    out[0], out[1], out[2] = 1.0, odds, min(odds, 0.0)
    out[3], out[4], out[5] = here.nats, sqrt(here.nats), log1p(here.minority)
    out[6], out[7] = log1p(float(state.node[node].rows)), float(state.node[node].depth)


@jit
def row_of(state: ChainState, node: int) -> int:
    """Return the row of the density with the parameters of a node, its depth class."""
    return min(state.node[node].depth, np.int64(DENSITY_LEVELS - 1))


@jit
def logit(density: np.ndarray, row: int, terms: np.ndarray, at: int) -> float:
    """Return ``b . f`` of the split with the terms ``terms[:, at]``."""
    total = 0.0
    for j in range(N_WAY_TERMS):
        total += density[row, N_CELL_TERMS + j] * terms[j, at]
    return total


@jit
def weigh_ways(model: Lowered, state: ChainState, node: int, k: int, n: int) -> int:
    """Compute the terms and logits of the splits of feature ``k``, in ``n`` bins; return one more than the last way.

    Entry ``w + 2`` belongs to way w, from -2 on: the number of splits alike in ``n_alike``, its gain and its logit in
    ``exponent``, its terms f in ``way_terms``.
    """
    n_splits, row, rule = gains_into(model, state, node, k, n), row_of(state, node), model.split_prior
    work, scan, codes = state.scratch.density, state.scratch.scan, state.scratch.codes.distinct
    terms, alike, logs, end = work.way_terms, work.n_alike, work.logs, n_splits + 2
    rows, whole, nothing = state.node[node].rows, impurity(model, logs, state.stats, node), Impurity(0.0, 0.0)
    for way in range(-2, 0):
        alike[way + 2] = trivial_ways(model, state, node, k, n, way)[0]
        if alike[way + 2] > 0 and way == -2:
            way_terms_into(terms, 0, logs, 0.0, nothing, whole, np.int64(0), rows)
        elif alike[way + 2] > 0:
            way_terms_into(terms, 1, logs, 0.0, whole, nothing, rows, rows)
    least, beta = least_rows(rule), state.beta[0]
    gaps = parts_box(rule) and not rule.feature[k].nominal
    for way in range(n_splits):
        n_left = scan.rows_left[way]
        count = codes[way + 1] - codes[way] if gaps else np.int64(1)
        alike[way + 2] = count if n_left >= least and rows - n_left >= least else np.int64(0)
        terms[0, way + 2] = beta * scan.gain[way]
    _impurities_into(terms[1, 2:end], terms[3, 2:end], model, logs, scan.left, n_splits)
    _impurities_into(terms[2, 2:end], terms[4, 2:end], model, logs, scan.right, n_splits)
    _combine(terms[:, 2:end], logs, scan.rows_left[:], rows)
    _logits_into(work.exponent, terms, state.density, row, end)
    return n_splits


@jit
def _logits_into(exponent: np.ndarray, terms: np.ndarray, density: np.ndarray, row: int, n: int) -> None:
    """Write the gain and the `logit` of the first ``n`` entries."""
    gains, out = exponent[GAIN], exponent[LEARNED]
    for at in range(n):
        gains[at] = terms[0, at]
        out[at] = 0.0
    for j in range(N_WAY_TERMS):
        b, f = density[row, N_CELL_TERMS + j], terms[j]
        for at in range(n):
            out[at] += b * f[at]


@jit
def log_sum_ways(exponent: np.ndarray, alike: np.ndarray, first: int, last: int, power: float) -> float:
    """Return the log of the sum of ``exp(power * exponent)`` over the splits of entries ``first`` to ``last - 1``."""
    largest, total = -inf, 0.0
    for at in range(first, last):
        if alike[at] > 0:
            largest = max(largest, exponent[at])
    if largest == -inf:
        return -inf
    for at in range(first, last):
        apart = power * (exponent[at] - largest)
        if alike[at] > 0 and apart > LOST:
            total += alike[at] * exp(apart)
    return power * largest + log(total)
