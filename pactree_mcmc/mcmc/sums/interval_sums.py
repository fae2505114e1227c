"""Sums over all subtrees of a *line*, a cell of n codes in which only one ordered feature is admissible.

Every cell below is a run i..j of the codes, with cuts k behind code k. With d the levels between it and the top,

    Z(i, j, d) = stop e^(beta score(i..j)) + split(d) / cuts(i..j) sum_k Z(i, k, d + 1) Z(k + 1, j, d + 1)

is the sum over all subtrees on the run of prior times likelihood, computed from the short runs to the long, in O(n^3)
per level (formulas, section 4, with a lookahead over all levels). The table contains the log of the largest Z of each
run over the levels, log M(i, j), and the fractions z(i, j, d) = Z(i, j, d) / M(i, j), so that products of a level need
no exponential. All numbers are there twice, by the first and by the last code of a run, so that the factors of a
product are next to each other. The table belongs to one cell at one depth, until sums of another one are needed. Its
sums are those over the subtrees all of whose nodes have a fraction in the table. Subtrees with more levels have none,
and neither have those with a run whose Z is far below its largest one.
"""

from math import exp, inf, log

import numpy as np

from ...core.bits import sort_first
from ...core.compile.jit import jit
from ...core.special import exp_into, log_add
from ...model import Lowered
from ...model.leaf.compiled import add_scores_into
from ...model.rows import scatter_units
from ...model.split_prior.base import has_free_cuts, is_weighted, least_rows, parts_box
from ..state.records import NONE, STORED_VERSION, n_line_levels
from ..state.splits import box_range, collect_codes, is_admissible
from ..state.terms import log_stop, raise_not_finite
from ..state.tree import ChainState

# log of the smallest fraction z of the largest Z of a run. Smaller fractions count as 0.
LOG_SMALLEST_FRACTION = -690.0
MIN_SUM = 1e-250  # smallest sum of products of fractions. Smaller sums are computed again from logs.


@jit
def line_feature(model: Lowered, state: ChainState, node: int) -> int:
    """Return the only feature that is admissible in a cell, if the cell is a line, else -1."""
    # ordered, without missing values, with cuts that are equally likely: the descendants have the same feature
    rule, only_feature = model.split_prior, np.int64(NONE)
    if not has_free_cuts(rule) or is_weighted(rule):
        return only_feature
    for k in range(len(rule.feature)):
        feature = rule.feature[k]
        if feature.weight > 0.0 and is_admissible(model, state, node, k):
            if only_feature != NONE or feature.nominal or feature.other_coordinate != k:
                return np.int64(NONE)
            only_feature = np.int64(k)
    return only_feature


@jit
def compute_line(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Compute the sums over all subtrees of a line unless stored; return its number of codes, 0 without room."""
    # sums of prior times tempered likelihood; `state.stored.line` has room for one cell
    line, here = state.stored.line.header[0], state.node[node]
    if line.hash != here.hash or line.depth != here.depth or line.scan != state.count[STORED_VERSION]:
        line.hash, line.depth, line.scan = here.hash, here.depth, state.count[STORED_VERSION]
        n_codes = _write_codes(model, state, node, k)
        line.n_levels = n_line_levels(n_codes, model.prior.depth_limit - here.depth, len(state.stored.line.sums))
        line.n_codes = n_codes if line.n_levels > 0 else 0
        _fill_table(model, state, node)
    return line.n_codes


@jit
def _write_codes(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Write the codes of a node's line, the number of rows before each and its statistics; return their number."""
    # those in the rows, or under grid cuts all of the box; merged rows are added in the order of their numbers, since
    # rounding must not depend on the history of the chain
    here, merged_rows, line, work = state.node[node], model.units, state.stored.line, state.scratch.line
    code, rows_before = line.code, line.rows_before
    if parts_box(model.split_prior):
        low, high = box_range(model, state, node, k)
        n_codes = high - low
        for i in range(n_codes):
            code[i] = low + i
    else:
        n_codes = collect_codes(model, state, node, k)
        for i in range(n_codes):
            code[i] = state.scratch.codes.distinct[i]
    n_rows, rows, index_of_row = here.stop - here.start, work.unit, work.place
    for i in range(n_codes):
        work.place_of_code[code[i]] = i
        rows_before[i + 1] = 0
        for s in range(work.stats.shape[1]):
            work.stats[i, s] = 0.0
    for i in range(n_rows):
        rows[i] = state.order[here.start + i]
    sort_first(rows, n_rows)
    for i in range(n_rows):
        row = rows[i]
        j = work.place_of_code[merged_rows.codes[k, row]]
        rows_before[j + 1] += merged_rows.rows[row & merged_rows.rows_all]
        index_of_row[i] = j
    scatter_units(work.stats, index_of_row, merged_rows, rows, np.int64(0), n_rows)
    rows_before[0] = 0
    for i in range(n_codes):
        rows_before[i + 1] += rows_before[i]
    return n_codes


@jit
def _fill_table(model: Lowered, state: ChainState, node: int) -> None:
    """Write Z of all runs of neighbouring codes at all levels into the table, by last code, the shortest first."""
    n_codes, work, beta = state.stored.line.header[0].n_codes, state.scratch.line, state.beta[0]
    stats, scores = work.run_stats, work.run_score
    for j in range(n_codes):
        # stats(i..j) = stats(i) + stats(i+1..j), for the runs that end with code j, the shortest first
        for i in range(j, -1, -1):
            scores[j - i] = 0.0
            for s in range(stats.shape[1]):
                stats[j - i, s] = work.stats[i, s] + (stats[j - i - 1, s] if i < j else 0.0)
        add_scores_into(scores, model.proposal_leaf, stats, j + 1)
        for i in range(j, -1, -1):
            log_leaf = beta * scores[j - i]
            if log_leaf != log_leaf:
                raise_not_finite(state, node, True)
            _write_run(model, state, i, j, log_leaf)


@jit
def table_start(state: ChainState, level: int, by_last: bool) -> int:
    """Return the index in `line.sums` at which the (n, n) entries of all runs at a level begin."""
    # axes are first and last code, or last and first if `by_last`. The level after the last one has log M, the log of
    # the largest Z of a run, instead of fractions
    n_codes = state.stored.line.header[0].n_codes
    return (2 * level + by_last) * n_codes * n_codes


@jit
def _write_entry(state: ChainState, i: int, j: int, level: int, value: float) -> None:
    """Write ``value`` as the entry of codes i to j at a level (see `table_start`) into both halves of the table."""
    n_codes, sums = state.stored.line.header[0].n_codes, state.stored.line.sums
    sums[table_start(state, level, False) + i * n_codes + j] = value
    sums[table_start(state, level, True) + j * n_codes + i] = value


@jit
def z_fraction(state: ChainState, i: int, j: int, level: int) -> float:
    """Return Z(i, j) at a level divided by the largest of all levels; at the level after the last, its log."""
    return state.stored.line.sums[table_start(state, level, False) + i * state.stored.line.header[0].n_codes + j]


@jit
def log_z(state: ChainState, i: int, j: int, level: int) -> float:
    """Return log Z(i, j) at a level; -inf if its fraction in the table counts as 0."""
    fraction = z_fraction(state, i, j, level)
    if fraction <= 0.0:
        return -inf
    return z_fraction(state, i, j, state.stored.line.header[0].n_levels) + log(fraction)


@jit
def rows_of_run(state: ChainState, i: int, j: int) -> int:
    """Return the number of training rows with the i-th to j-th code (both included) of the line (`compute_line`)."""
    return state.stored.line.rows_before[j + 1] - state.stored.line.rows_before[i]


@jit
def cuts_of_run(model: Lowered, state: ChainState, i: int, j: int) -> tuple[int, int]:
    """Return `first` and `last`: the cuts behind codes first to last - 1 of codes i to j leave enough rows."""
    # equal if there is no such cut
    first, last, min_rows = i, j, least_rows(model.split_prior)
    if min_rows > 1:
        while first < j and rows_of_run(state, i, first) < min_rows:
            first += 1
        while last > first and rows_of_run(state, last, j) < min_rows:
            last -= 1
    return first, last


@jit
def _write_run(model: Lowered, state: ChainState, i: int, j: int, log_leaf: float) -> None:
    """Write Z of codes i to j at all levels that they can have into the table."""
    # `log_leaf` is beta times their score as a leaf; the entries of all shorter runs within must be in the table
    line, highest = state.stored.line.header[0], -inf
    levels = min(line.n_levels, line.n_codes - (j - i))
    first, last = cuts_of_run(model, state, i, j)
    largest = products_into(state, i, j, first, last)
    for level in range(levels):
        depth = line.depth + level
        splittable = last > first and depth < model.prior.depth_limit
        z = log_leaf + log_stop(model, depth, splittable, rows_of_run(state, i, j))
        split = model.prior.table[depth].log_split
        if splittable and split > -inf and level + 1 < line.n_levels:
            log_splits = split - log(float(last - first)) + _log_sum_below(state, i, j, first, last, level, largest)
            z = log_add(z, log_splits)
        _write_entry(state, i, j, level, z)
        highest = max(highest, z)
    _write_entry(state, i, j, line.n_levels, highest)
    for level in range(levels):
        z = z_fraction(state, i, j, level)
        _write_entry(state, i, j, level, exp(z - highest) if z > -inf and z - highest >= LOG_SMALLEST_FRACTION else 0.0)


@jit
def left_runs(state: ChainState, i: int, first: int, last: int, level: int) -> np.ndarray:
    """Return a view of the `z_fraction` of the left side, codes i to k, for each cut k of first:last."""
    start = table_start(state, level, False) + i * state.stored.line.header[0].n_codes
    return state.stored.line.sums[start + first : start + last]


@jit
def right_runs(state: ChainState, j: int, first: int, last: int, level: int) -> np.ndarray:
    """Return a view of the `z_fraction` of the right side, codes k + 1 to j, for each cut k of first:last."""
    start = table_start(state, level, True) + j * state.stored.line.header[0].n_codes + 1
    return state.stored.line.sums[start + first : start + last]


@jit
def products_into(state: ChainState, i: int, j: int, first: int, last: int) -> float:
    """Write M(i, k) M(k + 1, j) of each cut of first:last, divided by the largest, into `line.weight`."""
    # M is the largest Z over the levels; the log of the largest product is returned
    product, largest, max_level = state.scratch.line.weight, -inf, state.stored.line.header[0].n_levels
    left_max, right_max = left_runs(state, i, first, last, max_level), right_runs(state, j, first, last, max_level)
    for k in range(len(left_max)):
        largest = max(largest, left_max[k] + right_max[k])
    for k in range(len(left_max)):
        product[k] = exp(left_max[k] + right_max[k] - largest)
    return largest


@jit
def _log_sum_below(state: ChainState, i: int, j: int, first: int, last: int, level: int, largest: float) -> float:
    """Return the log of the sum, over cuts first:last of codes i to j, of both sides' Z at level + 1."""
    # `products_into` was called before, which returned `largest` and left the products in `line.weight`
    left_z, right_z = left_runs(state, i, first, last, level + 1), right_runs(state, j, first, last, level + 1)
    product, total = state.scratch.line.weight, 0.0
    for k in range(len(left_z)):
        total += product[k] * left_z[k] * right_z[k]
    # sum_k Z(i, k) Z(k + 1, j) = sum_k M(i, k) M(k + 1, j) z(i, k) z(k + 1, j) = e^largest sum_k product_k z z
    if total > MIN_SUM:
        return largest + log(total)
    # the fractions underflow although the sum does not
    below = -inf
    for k in range(first, last):
        below = log_add(below, log_term_of_cut(state, i, j, k, level))
    return below


@jit
def cut_weights_into(state: ChainState, i: int, j: int, first: int, last: int, level: int) -> float:
    """Write the unnormalised probabilities of the cuts first:last of codes i to j, given a split at `level`."""
    # into `line.weight` from entry 0 on; their sum is returned
    products_into(state, i, j, first, last)
    weight, total = state.scratch.line.weight, 0.0
    left_z, right_z = left_runs(state, i, first, last, level + 1), right_runs(state, j, first, last, level + 1)
    for k in range(len(left_z)):
        weight[k] *= left_z[k] * right_z[k]
        total += weight[k]
    if total > MIN_SUM:
        return total
    for k in range(first, last):
        weight[k - first] = log_term_of_cut(state, i, j, k, level)
    return exp_into(weight, weight, last - first)


@jit
def log_term_of_cut(state: ChainState, i: int, j: int, k: int, level: int) -> float:
    """Return the log of the product of Z of both sides, one level below, of the cut behind code k of i to j."""
    return log_z(state, i, k, level + 1) + log_z(state, k + 1, j, level + 1)
