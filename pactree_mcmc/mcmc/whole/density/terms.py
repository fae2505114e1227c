"""Terms of a cell and of its splits in the learned density, and the logits of the splits."""

from math import exp, inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from ....core.compile.jit import jit
from ....model import Lowered
from ....model.leaf.codes import BY_ADDRESS, LAPLACE, LOSS, NORMAL, POISSON
from ....model.leaf.normal import squares_about_mean
from ....model.split_prior.geometry import least_rows, parts_box
from ...state.records import N_CELL_TERMS, N_DEPTH_CLASSES, N_SPLIT_TERMS
from ...state.tree import ChainState
from ...sums.split_sums import empty_sided_splits, gains_into

GAIN, LEARNED = range(2)
"""Rows of `Density.exponent` and of `Density.log_sum`: gain in score of a split, and logit of its learned part."""
ROWS_TERM = 6
"""Index of log(1 + rows) among the terms of a cell."""
LOG_NEGLIGIBLE = -30.0
"""Log of a summand, relative to the largest one, below which sums leave it out."""


class Impurity(NamedTuple):
    """Impurity of a cell, which bounds the gain in score that its splits can make under the leaf model."""

    nats: float
    """Bound of the gain, for classes ``n log n - sum_k n_k log n_k`` with n_k the weight of class k."""
    minority: float
    """Weight outside the largest class. For numbers the same as ``nats``."""


@jit
def impurity(model: Lowered, logs: np.ndarray, stats: np.ndarray, row: int) -> Impurity:
    """Return the impurity of the cell with statistics ``stats[row]``, 0 if the cell has no weight.

    ``logs`` is `Density.logs`.
    """
    rule = model.guess
    if not model.units.counts:
        return _impurity_of_numbers(rule.kind, rule.params, stats, row)
    if logs.shape[1] > 1:
        return _impurity_of_counts(logs, stats, row)
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
    """Return the impurity of whole counts, ``sum n log n - sum_k n_k log n_k``, from stored values of x log x."""
    total, most, nats = np.int64(0), np.int64(0), 0.0
    for i in range(stats.shape[1]):
        n = np.int64(stats[row, i])
        total += n
        most = max(most, n)
        nats -= logs[0, n]
    return Impurity(max(nats + logs[0, total], 0.0), float(total - most))


@jit
def _impurity_of_numbers(kind: int, params: np.ndarray, stats: np.ndarray, row: int) -> Impurity:
    """Return the impurity of a cell of numbers, the scale of the gain that its splits can make; both fields are equal.

    By leaf model it is a function of the squares about the mean, the sum (Poisson) or the weight (`BY_ADDRESS`).
    """
    n = stats[row, 0]
    if n <= 0.0:
        return Impurity(0.0, 0.0)
    if kind == POISSON:
        nats = stats[row, 1]
    elif kind == BY_ADDRESS:
        # the meaning of the statistics is private to the score, and a cell of more weight may gain more
        nats = n
    else:
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
    """Write `impurity` of ``n`` cells. The commonest leaf models have their own loops, a sixth faster."""
    if logs.shape[1] > 1 and stats.shape[1] == 2:
        x_log_x = logs[0]
        for row in range(n):
            first, second = np.int64(stats[row, 0]), np.int64(stats[row, 1])
            nats[row] = max(-x_log_x[first] - x_log_x[second] + x_log_x[first + second], 0.0)
            minority[row] = min(first, second)
    elif model.units.counts:
        for row in range(n):
            nats[row], minority[row] = impurity(model, logs, stats, row)
    else:
        kind, params = model.guess.kind, model.guess.params
        for row in range(n):
            nats[row], minority[row] = _impurity_of_numbers(kind, params, stats, row)


@jit
def _stored_log1p(logs: np.ndarray, x: float) -> float:
    """Return log(1 + x), from the stored values if weights are whole numbers."""
    return logs[1, np.int64(x)] if logs.shape[1] > 1 else log1p(x)


@jit
def split_terms_into(
    out: np.ndarray, at: int, logs: np.ndarray, gain: float, left: Impurity, right: Impurity, n_left: int, n: int
) -> None:
    """Write the terms f of a split of ``n`` rows, ``n_left`` of them to the left, into ``out[:, at]``."""
    out[0, at] = gain
    out[1, at], out[2, at], out[3, at], out[4, at] = left.nats, right.nats, left.minority, right.minority
    _finish_split_terms(out, at, logs, n_left, n, 2.0 * _stored_log1p(logs, n + 1.0))


@jit
def _finish_split_terms(out: np.ndarray, at: int, logs: np.ndarray, n_left: int, n: int, log_square: float) -> None:
    """Compute terms 1 to 5 of a split in place, from the impurities of its sides, which are in ``out[1:5, at]``.

    The split sends ``n_left`` of ``n`` rows left, and ``log_square`` is ``2 log(2 + n)``.
    """
    left, right, minority, other = out[1, at], out[2, at], out[3, at], out[4, at]
    out[1, at] = left + right
    out[2, at] = max(left, right)
    out[3, at] = sqrt(left) + sqrt(right)
    out[4, at] = _stored_log1p(logs, minority) + _stored_log1p(logs, other)
    out[5, at] = _stored_log1p(logs, float(n_left)) + _stored_log1p(logs, float(n - n_left)) - log_square


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
def depth_class(state: ChainState, node: int) -> int:
    """Return the depth class of a node, which is its row in ``state.density``."""
    return min(state.node[node].depth, np.int64(N_DEPTH_CLASSES - 1))


@jit
def logit(density: np.ndarray, row: int, terms: np.ndarray, at: int) -> float:
    """Return the logit ``b . f`` of the split with the terms f = ``terms[:, at]``, by the parameters b of a depth
    class.
    """
    total = 0.0
    for j in range(N_SPLIT_TERMS):
        total += density[row, N_CELL_TERMS + j] * terms[j, at]
    return total


@jit
def evaluate_splits(model: Lowered, state: ChainState, node: int, k: int, n: int) -> int:
    """Compute the terms and logits of the splits of feature ``k``, in ``n`` bins, and return the number of splits.

    Entry ``i + 2`` belongs to split i, and entries 0 and 1 to splits with an empty side. ``n_alike`` gets the number of
    splits that separate the rows alike, ``exponent`` the gain and the logit, ``split_terms`` the terms f.
    """
    n_splits, row, rule = gains_into(model, state, node, k, n), depth_class(state, node), model.split_prior
    work, scan, codes = state.scratch.density, state.scratch.scan, state.scratch.codes.distinct
    terms, alike, logs, exponent = work.split_terms, work.n_alike, work.logs, work.exponent
    rows, whole, empty = state.node[node].rows, impurity(model, logs, state.stats, node), Impurity(0.0, 0.0)
    for i in range(-2, 0):
        alike[i + 2] = empty_sided_splits(model, state, node, k, n, i)[0]
    if alike[0] > 0:
        split_terms_into(terms, 0, logs, 0.0, empty, whole, np.int64(0), rows)
    if alike[1] > 0:
        split_terms_into(terms, 1, logs, 0.0, whole, empty, rows, rows)
    least, beta, end = least_rows(rule), state.beta[0], n_splits + 2
    has_gaps = parts_box(rule) and not rule.feature[k].nominal
    for i in range(n_splits):
        n_left = scan.rows_left[i]
        count = codes[i + 1] - codes[i] if has_gaps else np.int64(1)
        alike[i + 2] = count if n_left >= least and rows - n_left >= least else np.int64(0)
        terms[0, i + 2] = beta * scan.gain[i]
    _impurities_into(terms[1, 2:end], terms[3, 2:end], model, logs, scan.left, n_splits)
    _impurities_into(terms[2, 2:end], terms[4, 2:end], model, logs, scan.right, n_splits)
    log_square = 2.0 * _stored_log1p(logs, rows + 1.0)
    for at in range(2, end):
        _finish_split_terms(terms, at, logs, scan.rows_left[at - 2], rows, log_square)
    # the `logit` of each entry, term by term, since this runs through the memory in order
    gains, logits = exponent[GAIN], exponent[LEARNED]
    for at in range(end):
        gains[at], logits[at] = terms[0, at], 0.0
    for j in range(N_SPLIT_TERMS):
        b, f = state.density[row, N_CELL_TERMS + j], terms[j]
        for at in range(end):
            logits[at] += b * f[at]
    return n_splits


@jit
def log_sum_of_splits(exponent: np.ndarray, n_alike: np.ndarray, n: int) -> float:
    """Return the log of the sum of ``n_alike * exp(exponent)`` over the first ``n`` entries."""
    largest, total = -inf, 0.0
    for at in range(n):
        if n_alike[at] > 0:
            largest = max(largest, exponent[at])
    if largest == -inf:
        return -inf
    for at in range(n):
        apart = exponent[at] - largest
        if n_alike[at] > 0 and apart > LOG_NEGLIGIBLE:
            total += n_alike[at] * exp(apart)
    return largest + log(total)
