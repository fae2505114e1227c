"""Bins of a cell on one feature: the statistics and rows of the cell for each code (value) of the feature.

The scratch arrays ``scan.stats`` (leaf statistics), ``scan.rows`` (numbers of rows) and ``codes.distinct`` (codes) have
an entry for each bin. Sums by code, in ``scan.by_code`` and ``codes.rows``, are 0 between two uses.
"""

import numpy as np

from ...core.bits import goes_left
from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.geometry import follows_design, has_one_split_per_feature, parts_box
from ...model.units import add_units_by_code, scatter_units
from ..state.codes import collect_codes
from ..state.records import N_VISITED_ROWS
from ..state.splits import box_range, middle_cut
from ..state.tree import ChainState

ROWS_PER_CODE = 10  # cost of a code of a feature in a cell, beside the rows of the cell, in rows


@jit
def fill_bins(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Sum the statistics and the rows of a node by code of `k`, one bin a code, ascending; return their number."""
    # Under dyadic and fixed splits the bins are the two sides of the only split, with codes 0 and 1, else the codes in
    # the rows. Under grid cuts a nominal feature has a bin for each category of the box, empty ones included. The cost,
    # in rows, is added to the state's count of rows visited
    rule, n_bins = model.split_prior, np.int64(2)
    if has_one_split_per_feature(rule):
        _sum_by_side(model, state, node, k)
    else:
        n_bins = _sum_by_code(model, state, node, k)
    if not has_one_split_per_feature(rule) and parts_box(rule) and rule.feature[k].nominal:
        n_bins = np.int64(0)
        for c in range(rule.feature[k].n_codes):
            if (state.box[node, k, 0] >> c) & 1:
                state.scratch.codes.distinct[n_bins] = c
                n_bins += 1
    state.count[N_VISITED_ROWS] += state.node[node].stop - state.node[node].start + ROWS_PER_CODE * n_bins
    _move_sums_to_bins(state, n_bins)
    if not has_one_split_per_feature(rule) and parts_box(rule) and rule.feature[k].other_coordinate != k and n_bins > 0:
        n_bins = _clip_codes(model, state, node, k, n_bins)
    return n_bins


@jit
def _sum_by_side(model: Lowered, state: ChainState, node: int, k: int) -> None:
    """Add the statistics and rows of a node's units to those of their side at the only split on `k`."""
    # in `scan.by_code` and `codes.rows`; the codes of the bins are then 0 (left) and 1
    rule, cut, categories = model.split_prior, np.int64(0), np.int64(-1)
    if follows_design(rule):
        design = rule.design[state.node[node].design]
        cut, categories = design.cut, design.categories
    else:
        cut = middle_cut(model, state, node, k)
    merged_rows, order, start, stop = model.units, state.order, state.node[node].start, state.node[node].stop
    codes, rows_by_side, side_of_row = merged_rows.codes[k], state.scratch.codes.rows, state.scratch.codes.side
    for i in range(start, stop):
        side = 1 - goes_left(np.int64(codes[order[i]]), cut, categories)
        side_of_row[i - start] = side
        rows_by_side[side] += merged_rows.rows[order[i] & merged_rows.rows_all]
    scatter_units(state.scratch.scan.by_code, side_of_row, merged_rows, order, start, stop)
    state.scratch.codes.distinct[0], state.scratch.codes.distinct[1] = 0, 1


@jit
def _sum_by_code(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Add the statistics and rows of a node's units to those of their code of `k`; return the number of codes."""
    # in `scan.by_code` and `codes.rows`; the codes are written, ascending, into `codes.distinct`
    codes, rows_by_code, distinct = model.units.codes[k], state.scratch.codes.rows, state.scratch.codes.distinct
    start, stop = state.node[node].start, state.node[node].stop
    low, high = add_units_by_code(
        state.scratch.scan.by_code, rows_by_code, codes, model.units, state.order, start, stop
    )
    if high - low >= 16 * (stop - start):
        return collect_codes(model, state, node, k)
    n_codes = np.int64(0)
    for c in range(low, high + 1):
        distinct[n_codes] = c
        n_codes += rows_by_code[c] > 0
    return n_codes


@jit
def _move_sums_to_bins(state: ChainState, n_bins: int) -> None:
    """Move the sums of the ``n_bins`` codes in ``codes.distinct`` to bins, in this order, and set the sums to 0."""
    codes, bins = state.scratch.codes, state.scratch.scan
    stats, rows, by_code, code_of, rows_by_code = bins.stats, bins.rows, bins.by_code, codes.distinct, codes.rows
    for j in range(n_bins):
        c = code_of[j]
        rows[j] = rows_by_code[c]
        rows_by_code[c] = 0
        for i in range(stats.shape[1]):
            stats[j, i] = by_code[c, i]
            by_code[c, i] = 0.0


@jit
def _clip_codes(model: Lowered, state: ChainState, node: int, k: int, n_bins: int) -> int:
    """Clip the codes of bins to the node's box on feature ``k``. Return the number of bins."""
    # codes of missing values may be outside; two bins that get the same code become one
    codes, bins = state.scratch.codes.distinct, state.scratch.scan
    low, high = box_range(model, state, node, k)
    if codes[0] < low:
        codes[0] = low
        if n_bins > 1 and codes[1] == low:
            n_bins -= 1
            _add_bin(state, np.int64(0), np.int64(1))
            for j in range(1, n_bins):
                codes[j], bins.rows[j] = codes[j + 1], bins.rows[j + 1]
                for i in range(bins.stats.shape[1]):
                    bins.stats[j, i] = bins.stats[j + 1, i]
    if codes[n_bins - 1] >= high:
        codes[n_bins - 1] = high - 1
        if n_bins > 1 and codes[n_bins - 2] == high - 1:
            n_bins -= 1
            _add_bin(state, n_bins - 1, n_bins)
    return n_bins


@jit
def _add_bin(state: ChainState, target: int, source: int) -> None:
    """Add the rows and statistics of bin ``source`` to those of bin ``target``. Leave ``source`` as it is."""
    bins = state.scratch.scan
    bins.rows[target] += bins.rows[source]
    for i in range(bins.stats.shape[1]):
        bins.stats[target, i] += bins.stats[source, i]
