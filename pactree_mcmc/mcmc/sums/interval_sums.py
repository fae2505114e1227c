"""Sums over all subtrees of a *line*, a cell of n codes in which only one ordered feature is admissible.

Every cell below is a run i..j of the codes, and with d the levels between it and the top of the line,

    Z(i, j, d) = stop e^(beta score(i..j)) + split(d) / cuts(i..j) sum_k Z(i, k, d + 1) Z(k + 1, j, d + 1)

is computed from the short runs to the long, in O(n^3) per level (formulas, section 4, with a lookahead over all
levels). For each run the table contains the log of its largest Z over the levels, and each Z as a fraction of that, so
that products of a level need no exponential. All numbers are there twice, by the first and by the last code of a run,
so that the factors of a product are next to each other. The table belongs to one cell at one depth, until sums of
another one are needed. Its sums are those over the subtrees all of whose nodes have a fraction in the table. Subtrees
with more levels have none, and neither have those with a run whose Z is far below its largest one.
"""

from math import exp, inf, log

import numpy as np

from ...core.bits import sort_first
from ...core.compile.jit import jit
from ...core.logsum import exp_into, log_add
from ...model import Lowered
from ...model.data import scatter_units
from ...model.leaf.compiled import add_scores_into
from ...model.split_prior.geometry import has_free_cuts, is_weighted, least_rows, parts_box
from ..state.codes import collect_codes
from ..state.records import NONE, STORED_VERSION
from ..state.splits import box_range, is_admissible
from ..state.stored import n_line_levels
from ..state.terms import log_stop, raise_not_finite
from ..state.tree import ChainState

LOG_SMALLEST_FRACTION = -690.0
"""Log of the smallest fraction of the largest Z of a run. Smaller fractions count as 0."""
MIN_SUM = 1e-250
"""Smallest sum of products. Smaller sums are computed again from logs."""


@jit
def line_feature(model: Lowered, state: ChainState, node: int) -> int:
    """Return the only feature that is admissible in a cell, if it is ordered, else -1.

    The cells below then have the same feature. Return -1 if cuts have weights, too, since the sums take cuts to be
    equally likely.
    """
    rule, found = model.split_prior, np.int64(NONE)
    if not has_free_cuts(rule) or is_weighted(rule):
        return found
    for k in range(len(rule.feature)):
        feature = rule.feature[k]
        if feature.weight > 0.0 and is_admissible(model, state, node, k):
            if found != NONE or feature.nominal or feature.twin != k:
                return np.int64(NONE)
            found = np.int64(k)
    return found


@jit
def compute_line(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Compute the sums of a cell in which only feature ``k`` is admissible, unless they are stored.

    Return the number of codes of the cell, or 0 if there is no room for the sums.
    """
    line, here = state.stored.line.header[0], state.node[node]
    if line.hash != here.hash or line.depth != here.depth or line.scan != state.count[STORED_VERSION]:
        line.hash, line.depth, line.scan = here.hash, here.depth, state.count[STORED_VERSION]
        n = _write_codes(model, state, node, k)
        line.n_levels = n_line_levels(n, model.prior.depth_limit - here.depth, len(state.stored.line.sums))
        line.n_codes = n if line.n_levels > 0 else 0
        _fill_table(model, state, node)
    return line.n_codes


@jit
def _write_codes(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Write the codes of a line, the rows before each, and the statistics of each. Return the number of codes.

    Units (merged rows) are added in the order of their numbers, since rounding must not depend on the history of the
    chain.
    """
    here, units, line, work = state.node[node], model.units, state.stored.line, state.scratch.line
    code, rows_before = line.code, line.rows_before
    if parts_box(model.split_prior):
        low, high = box_range(model, state, node, k)
        n = high - low
        for i in range(n):
            code[i] = low + i
    else:
        n = collect_codes(model, state, node, k)
        for i in range(n):
            code[i] = state.scratch.codes.distinct[i]
    n_units, unit, place = here.stop - here.start, work.unit, work.place
    for i in range(n):
        work.place_of_code[code[i]] = i
        rows_before[i + 1] = 0
        for s in range(work.stats.shape[1]):
            work.stats[i, s] = 0.0
    for i in range(n_units):
        unit[i] = state.order[here.start + i]
    sort_first(unit, n_units)
    for i in range(n_units):
        u = unit[i]
        j = work.place_of_code[units.codes[k, u]]
        rows_before[j + 1] += units.rows[u & units.rows_all]
        place[i] = j
    scatter_units(work.stats, place, units, unit, np.int64(0), n_units)
    rows_before[0] = 0
    for i in range(n):
        rows_before[i + 1] += rows_before[i]
    return n


@jit
def _fill_table(model: Lowered, state: ChainState, node: int) -> None:
    """Compute Z of all runs of codes, ordered by last code, and short runs before long ones with the same last code."""
    n, work, beta = state.stored.line.header[0].n_codes, state.scratch.line, state.beta[0]
    stats, scores = work.run_stats, work.run_score
    for j in range(n):
        # stats(i..j) = stats(i) + stats(i+1..j), for the runs that end with code j, the shortest first
        for i in range(j, -1, -1):
            scores[j - i] = 0.0
            for s in range(stats.shape[1]):
                stats[j - i, s] = work.stats[i, s] + (stats[j - i - 1, s] if i < j else 0.0)
        add_scores_into(scores, model.guess, stats, j + 1)
        for i in range(j, -1, -1):
            log_leaf = beta * scores[j - i]
            if log_leaf != log_leaf:
                raise_not_finite(state, node, True)
            _write_run(model, state, i, j, log_leaf)


@jit
def table_start(state: ChainState, d: int, back: bool) -> int:
    """Return the index in ``line.sums`` at which the (n, n) fractions of all runs at level ``d`` begin.

    Their axes are first and last code, or last and first if ``back``. The level after the last holds the log of the
    largest Z of each run.
    """
    n = state.stored.line.header[0].n_codes
    return (2 * d + back) * n * n


@jit
def _write_entry(state: ChainState, i: int, j: int, d: int, value: float) -> None:
    """Write the entry of run i..j at level ``d`` into both tables, by first and by last code."""
    n, sums = state.stored.line.header[0].n_codes, state.stored.line.sums
    sums[table_start(state, d, False) + i * n + j] = sums[table_start(state, d, True) + j * n + i] = value


@jit
def z_fraction(state: ChainState, i: int, j: int, d: int) -> float:
    """Return Z(i, j, d), the sum over all subtrees on run i..j at level d, as a fraction of the largest over d."""
    return state.stored.line.sums[table_start(state, d, False) + i * state.stored.line.header[0].n_codes + j]


@jit
def log_z(state: ChainState, i: int, j: int, d: int) -> float:
    """Return log Z(i, j, d), the log sum over all subtrees on run i..j at level d, -inf if its fraction counts as 0."""
    fraction = z_fraction(state, i, j, d)
    if fraction <= 0.0:
        return -inf
    return z_fraction(state, i, j, state.stored.line.header[0].n_levels) + log(fraction)


@jit
def rows_of_run(state: ChainState, i: int, j: int) -> int:
    """Return the number of training rows with codes i to j of the line."""
    return state.stored.line.rows_before[j + 1] - state.stored.line.rows_before[i]


@jit
def cuts_of_run(model: Lowered, state: ChainState, i: int, j: int) -> tuple[int, int]:
    """Return ``first`` and ``last``. The admissible cuts of run i..j are behind codes ``first`` to ``last - 1``."""
    first, last, least = i, j, least_rows(model.split_prior)
    if least > 1:
        while first < j and rows_of_run(state, i, first) < least:
            first += 1
        while last > first and rows_of_run(state, last, j) < least:
            last -= 1
    return first, last


@jit
def _write_run(model: Lowered, state: ChainState, i: int, j: int, log_leaf: float) -> None:
    """Compute Z of run i..j at all levels that it can have, given beta times its score as a leaf."""
    line, highest = state.stored.line.header[0], -inf
    levels = min(line.n_levels, line.n_codes - (j - i))
    first, last = cuts_of_run(model, state, i, j)
    largest = products_into(state, i, j, first, last)
    for d in range(levels):
        depth = line.depth + d
        splittable = last > first and depth < model.prior.depth_limit
        z = log_leaf + log_stop(model, depth, splittable, rows_of_run(state, i, j))
        split = model.prior.table[depth].log_split
        if splittable and split > -inf and d + 1 < line.n_levels:
            below = split - log(float(last - first)) + _log_sum_below(state, i, j, first, last, d, largest)
            z = log_add(z, below)
        _write_entry(state, i, j, d, z)
        highest = max(highest, z)
    _write_entry(state, i, j, line.n_levels, highest)
    for d in range(levels):
        z = z_fraction(state, i, j, d)
        _write_entry(state, i, j, d, exp(z - highest) if z > -inf and z - highest >= LOG_SMALLEST_FRACTION else 0.0)


@jit
def left_runs(state: ChainState, i: int, first: int, last: int, d: int) -> np.ndarray:
    """Return the table entries at level ``d`` of the runs i..k for the cuts k = ``first``, ..., ``last - 1``."""
    begin = table_start(state, d, False) + i * state.stored.line.header[0].n_codes
    return state.stored.line.sums[begin + first : begin + last]


@jit
def right_runs(state: ChainState, j: int, first: int, last: int, d: int) -> np.ndarray:
    """Return the table entries at level ``d`` of the runs k + 1..j for the cuts k = ``first``, ..., ``last - 1``."""
    begin = table_start(state, d, True) + j * state.stored.line.header[0].n_codes + 1
    return state.stored.line.sums[begin + first : begin + last]


@jit
def products_into(state: ChainState, i: int, j: int, first: int, last: int) -> float:
    """Write, for each cut of run i..j, the product of the largest Z on both sides into ``line.weight``, divided by the
    largest of these products. Return the log of the largest product.
    """
    fraction, largest, top = state.scratch.line.weight, -inf, state.stored.line.header[0].n_levels
    left, right = left_runs(state, i, first, last, top), right_runs(state, j, first, last, top)
    for k in range(len(left)):
        largest = max(largest, left[k] + right[k])
    for k in range(len(left)):
        fraction[k] = exp(left[k] + right[k] - largest)
    return largest


@jit
def _log_sum_below(state: ChainState, i: int, j: int, first: int, last: int, d: int, largest: float) -> float:
    """Return ``log sum_k Z(i, k, d + 1) Z(k + 1, j, d + 1)``, after `products_into`, which returned ``largest``."""
    left, right = left_runs(state, i, first, last, d + 1), right_runs(state, j, first, last, d + 1)
    fraction, total = state.scratch.line.weight, 0.0
    for k in range(len(left)):
        total += fraction[k] * left[k] * right[k]
    # with M(i, j) the largest Z(i, j, d) over the levels d and z = Z / M the stored fractions,
    # sum_k Z(i, k) Z(k + 1, j) = sum_k M(i, k) M(k + 1, j) z(i, k) z(k + 1, j) = e^largest sum_k fraction_k z z
    if total > MIN_SUM:
        return largest + log(total)
    # the fractions underflow although the sum does not
    below = -inf
    for k in range(first, last):
        below = log_add(below, log_term_of_cut(state, i, j, k, d))
    return below


@jit
def cut_weights_into(state: ChainState, i: int, j: int, first: int, last: int, d: int) -> float:
    """Write the weights by which the cut of run i..j at level ``d`` is drawn into ``line.weight``. Return their sum."""
    products_into(state, i, j, first, last)
    weight, total = state.scratch.line.weight, 0.0
    left, right = left_runs(state, i, first, last, d + 1), right_runs(state, j, first, last, d + 1)
    for k in range(len(left)):
        weight[k] *= left[k] * right[k]
        total += weight[k]
    if total > MIN_SUM:
        return total
    for k in range(first, last):
        weight[k - first] = log_term_of_cut(state, i, j, k, d)
    return exp_into(weight, weight, last - first)


@jit
def log_term_of_cut(state: ChainState, i: int, j: int, k: int, d: int) -> float:
    """Return ``log Z(i, k, d + 1) + log Z(k + 1, j, d + 1)``, the term of the cut behind code k."""
    return log_z(state, i, k, d + 1) + log_z(state, k + 1, j, d + 1)
