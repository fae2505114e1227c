"""Terms (covariates) of a cell and of its splits in the learned density, and the logits of the splits.

The terms x of a cell are a constant, the lookahead log odds, their negative part, impurity, its root, log weight
outside the largest class, log rows and depth. The terms f of a split are its gain in tempered score, sum, maximum and
sum of roots of its sides' impurities, and two log products of their weights and rows.
"""

from math import exp, inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from ....core.compile.jit import jit
from ....model import Lowered
from ....model.leaf.base import BY_ADDRESS, LAPLACE, LOSS, NORMAL, POISSON
from ....model.leaf.normal import squares_about_mean
from ....model.split_prior.base import least_rows, parts_box
from ...state.records import N_CELL_TERMS, N_DEPTH_CLASSES, N_SPLIT_TERMS, ChainState, Density
from ...sums.split_sums import empty_sided_splits, gains_into

# rows of the scratch arrays ``density.exponent`` and ``density.log_sum``: gain in score of a split, and its logit b . f
GAIN, LEARNED = range(2)
ROWS_TERM = 6  # index of log(1 + rows) among the terms of a cell
LOG_NEGLIGIBLE = -30.0  # log of a summand, relative to the largest one, below which sums leave it out


class Impurity(NamedTuple):
    """Impurity of a cell, which bounds the gain in score that its splits can make under the leaf model."""

    nats: float  # bound of the gain, for classes ``n log n - sum_k n_k log n_k`` with n_k the weight of class k
    minority: float  # weight outside the largest class. For numbers the same as ``nats``.


@jit
def impurity(model: Lowered, logs: np.ndarray, stats: np.ndarray, stats_row: int) -> Impurity:
    """Return the `Impurity` of the cell with statistics ``stats[stats_row]``, 0 if the cell has no weight."""
    rule = model.proposal_leaf
    if not model.units.counts:
        return _impurity_of_numbers(rule.kind, rule.params, stats, stats_row)
    if logs.shape[1] > 1:
        return _impurity_of_counts(logs, stats, stats_row)
    n_classes = stats.shape[1]
    if rule.kind == LAPLACE or rule.kind == LOSS:
        n_classes = stats.shape[1] // 2 if rule.kind == LAPLACE else np.int64(rule.params[2])
    total, nats, largest = 0.0, 0.0, 0.0
    for i in range(n_classes):
        n = 0.0
        for j in range(i, stats.shape[1], n_classes):
            n += stats[stats_row, j]
        total += n
        largest = max(largest, n)
        if n > 0.0:
            nats -= n * log(n)
    if total > 0.0:
        nats += total * log(total)
    return Impurity(max(nats, 0.0), max(total - largest, 0.0))


@jit
def _impurity_of_counts(logs: np.ndarray, stats: np.ndarray, stats_row: int) -> Impurity:
    """Return n log n - sum_k n_k log n_k of a cell with whole counts n_k, by class; logs[0] is x log x."""
    total, largest, nats = np.int64(0), np.int64(0), 0.0
    for i in range(stats.shape[1]):
        n = np.int64(stats[stats_row, i])
        total += n
        largest = max(largest, n)
        nats -= logs[0, n]
    return Impurity(max(nats + logs[0, total], 0.0), float(total - largest))


@jit
def _impurity_of_numbers(kind: int, params: np.ndarray, stats: np.ndarray, stats_row: int) -> Impurity:
    """Return the impurity of a cell of numbers, the scale of the gain that its splits can make, in both fields."""
    # by the `kind` of the leaf a function of the squares about the mean, the sum (Poisson) or the weight (BY_ADDRESS)
    n = stats[stats_row, 0]
    if n <= 0.0:
        return Impurity(0.0, 0.0)
    if kind == POISSON:
        nats = stats[stats_row, 1]
    elif kind == BY_ADDRESS:
        # the meaning of the statistics is private to the score, and a cell of more weight may gain more
        nats = n
    else:
        squares = squares_about_mean(stats[stats_row, 1], stats[stats_row, 2], stats[stats_row, 1] / n)
        if kind == NORMAL:
            # faster than log1p, whose further digits a covariate does not need
            nats = (params[2] + 0.5 * n) * log(1.0 + squares / (2.0 * params[3]))
        else:
            nats = squares / (2.0 * params[0])
    return Impurity(nats, nats)


@jit
def _impurities_into(
    nats: np.ndarray, minority: np.ndarray, model: Lowered, logs: np.ndarray, stats: np.ndarray, n_cells: int
) -> None:
    """Write both fields of the `impurity` of cells 0 to n_cells - 1 into `nats` and `minority`."""
    # the commonest leaf models have their own, faster loops
    if logs.shape[1] > 1 and stats.shape[1] == 2:
        x_log_x = logs[0]
        for row in range(n_cells):
            first, second = np.int64(stats[row, 0]), np.int64(stats[row, 1])
            nats[row] = max(-x_log_x[first] - x_log_x[second] + x_log_x[first + second], 0.0)
            minority[row] = min(first, second)
    elif model.units.counts:
        for row in range(n_cells):
            nats[row], minority[row] = impurity(model, logs, stats, row)
    else:
        kind, params = model.proposal_leaf.kind, model.proposal_leaf.params
        for row in range(n_cells):
            nats[row], minority[row] = _impurity_of_numbers(kind, params, stats, row)


@jit
def _stored_log1p(logs: np.ndarray, x: float) -> float:
    """Return log(1 + x), from the stored values ``logs[1]`` if weights are whole numbers."""
    return logs[1, np.int64(x)] if logs.shape[1] > 1 else log1p(x)


@jit
def split_terms_into(work: Density, column: int, gain: float, left: Impurity, right: Impurity, n_left: int) -> None:
    """Write what `finish_split_terms` needs of a split, `n_left` of whose rows go left, into a column."""
    # `left` and `right` are the impurities of its sides, and `gain` is its gain in tempered score
    terms = work.split_terms
    terms[0, column], terms[5, column] = gain, n_left
    terms[1, column], terms[2, column] = left.nats, right.nats
    terms[3, column], terms[4, column] = left.minority, right.minority


@jit
def finish_split_terms(work: Density, first: int, stop: int, rows: int) -> None:
    """Replace entries 1 to 5 of the splits first:stop of a cell with `rows` rows by the density's terms."""
    # Before: impurities in nats of the left and right side, their minorities, number of rows that go left. After: sum,
    # maximum and sum of roots of the impurities, log of the product of the minorities plus 1, and of the product of
    # both sides' fractions of the rows, with 1 added to the rows of each
    logs, log_rows, terms = work.logs, work.log_rows, work.split_terms
    total, largest, roots = terms[1, first:stop], terms[2, first:stop], terms[3, first:stop]
    minorities, balance, twice = terms[4, first:stop], terms[5, first:stop], 2.0 * log_rows[rows + 1]
    # a loop for each term: processors compute several roots at a time in a loop of roots alone
    for i in range(stop - first):
        n_left = np.int64(balance[i])
        balance[i] = log_rows[n_left] + log_rows[rows - n_left] - twice
    for i in range(stop - first):
        minorities[i] = _stored_log1p(logs, roots[i]) + _stored_log1p(logs, minorities[i])
    for i in range(stop - first):
        roots[i] = sqrt(total[i]) + sqrt(largest[i])
    for i in range(stop - first):
        left, right = total[i], largest[i]
        total[i], largest[i] = left + right, max(left, right)


@jit
def cell_terms_into(model: Lowered, state: ChainState, node: int, log_odds: float) -> None:
    """Write the terms x of a node's cell into `density.cell_terms`."""
    # 1, its lookahead log odds and their negative part, the impurity, its root, the logs of 1 + weight outside the
    # largest class and of 1 + rows, and the depth
    work = state.scratch.density
    terms, cell_impurity = work.cell_terms, impurity(model, work.logs, state.stats, node)
    log_odds = min(max(log_odds, -1e6), 1e6)
    terms[0], terms[1], terms[2] = 1.0, log_odds, min(log_odds, 0.0)
    terms[3], terms[4], terms[5] = cell_impurity.nats, sqrt(cell_impurity.nats), log1p(cell_impurity.minority)
    terms[6], terms[7] = log1p(float(state.node[node].rows)), float(state.node[node].depth)


@jit
def depth_class(state: ChainState, node: int) -> int:
    """Return the depth class of a node (its depth, or the last class), its row in the parameters ``state.density``."""
    return min(state.node[node].depth, np.int64(N_DEPTH_CLASSES - 1))


@jit
def logit(density: np.ndarray, density_row: int, terms: np.ndarray, column: int) -> float:
    """Return b . f, the log weight of a split in the learned density before R, of its terms and a row's parameters."""
    total = 0.0
    for j in range(N_SPLIT_TERMS):
        total += density[density_row, N_CELL_TERMS + j] * terms[j, column]
    return total


@jit
def evaluate_splits(model: Lowered, state: ChainState, node: int, k: int, n_bins: int) -> int:
    """Compute gain, terms f and `logit` of the splits of a node on `k`, after `fill_bins`; return their number."""
    # Split i has entry i + 2 in `density.exponent`, `split_terms` and `n_alike`, the splits that separate the rows
    # alike, 0 if too few rows are on a side. Entries 0 and 1, all rows right or left, are not counted
    n_splits, row, rule = gains_into(model, state, node, k, n_bins), depth_class(state, node), model.split_prior
    work, scan, codes = state.scratch.density, state.scratch.scan, state.scratch.codes.distinct
    terms, n_alike, logs, exponent = work.split_terms, work.n_alike, work.logs, work.exponent
    cell_impurity, empty = impurity(model, logs, state.stats, node), Impurity(0.0, 0.0)
    rows = state.node[node].rows
    for i in range(-2, 0):
        n_alike[i + 2] = empty_sided_splits(model, state, node, k, n_bins, i)[0]
    split_terms_into(work, 0, 0.0, empty, cell_impurity, np.int64(0))
    split_terms_into(work, 1, 0.0, cell_impurity, empty, rows)
    min_rows, beta, end = least_rows(rule), state.beta[0], n_splits + 2
    has_gaps = parts_box(rule) and not rule.feature[k].nominal
    for i in range(n_splits):
        n_left = scan.rows_left[i]
        count = codes[i + 1] - codes[i] if has_gaps else np.int64(1)
        n_alike[i + 2] = count if n_left >= min_rows and rows - n_left >= min_rows else np.int64(0)
        terms[0, i + 2], terms[5, i + 2] = beta * scan.gain[i], n_left
    _impurities_into(terms[1, 2:end], terms[3, 2:end], model, logs, scan.left, n_splits)
    _impurities_into(terms[2, 2:end], terms[4, 2:end], model, logs, scan.right, n_splits)
    finish_split_terms(work, np.int64(0), end, rows)
    # the `logit` of each entry, term by term, since this runs through the memory in order
    gains, logits = exponent[GAIN], exponent[LEARNED]
    for column in range(end):
        gains[column], logits[column] = terms[0, column], 0.0
    for j in range(N_SPLIT_TERMS):
        b, f = state.density[row, N_CELL_TERMS + j], terms[j]
        for column in range(end):
            logits[column] += b * f[column]
    return n_splits


@jit
def log_sum_of_splits(exponent: np.ndarray, n_alike: np.ndarray, n_entries: int) -> float:
    """Return the log of the sum of ``n_alike * exp(exponent)`` over the first ``n_entries`` entries, ``-inf`` for 0."""
    largest, total = -inf, 0.0
    for i in range(n_entries):
        if n_alike[i] > 0:
            largest = max(largest, exponent[i])
    if largest == -inf:
        return -inf
    for i in range(n_entries):
        difference = exponent[i] - largest
        if n_alike[i] > 0 and difference > LOG_NEGLIGIBLE:
            total += n_alike[i] * exp(difference)
    return largest + log(total)
