"""Bins of a cell on one feature: the statistics and rows of the cell for each code (value) of the feature.

The scratch arrays ``scan.stats`` (leaf statistics), ``scan.rows`` (numbers of rows) and ``codes.distinct`` (codes) have
an entry for each bin. Sums by code, in ``scan.by_code`` and ``codes.rows``, are 0 between two uses.
"""

import numpy as np

from ...core.bits import goes_left
from ...core.compile.jit import jit
from ...model import Lowered
from ...model.data import scatter_units
from ...model.split_prior.geometry import follows_design, has_one_way, parts_box
from ..state.codes import collect_codes
from ..state.records import N_VISITED_ROWS
from ..state.splits import box_range, middle_cut
from ..state.tree import ChainState

ROWS_PER_CODE = 10
"""Cost of a code of a feature in a cell, beside the rows of the cell, in rows."""


@jit
def fill_bins(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Compute the bins (statistics and rows by code) of a node on feature ``k``, codes ascending. Return their number.

    Under dyadic and fixed splits the bins are the two sides of the only split. Under grid cuts a nominal feature has a
    bin for each category of the box, empty ones included. Add the cost to the number of rows visited.
    """
    rule, n_bins = model.split_prior, np.int64(2)
    if has_one_way(rule):
        _sides_into(model, state, node, k)
    else:
        n_bins = collect_codes(model, state, node, k)
    _sum_by_code(model, state, node)
    if not has_one_way(rule) and parts_box(rule) and rule.feature[k].nominal:
        n_bins = np.int64(0)
        for c in range(rule.feature[k].n_codes):
            if (state.box[node, k, 0] >> c) & 1:
                state.scratch.codes.distinct[n_bins] = c
                n_bins += 1
    state.count[N_VISITED_ROWS] += state.node[node].stop - state.node[node].start + ROWS_PER_CODE * n_bins
    _move_sums_to_bins(state, n_bins)
    if not has_one_way(rule) and parts_box(rule) and rule.feature[k].twin != k and n_bins > 0:
        n_bins = _clip_codes(model, state, node, k, n_bins)
    return n_bins


@jit
def _sides_into(model: Lowered, state: ChainState, node: int, k: int) -> None:
    """Write the side, 0 (left) or 1, of merged rows at a node's only split on feature ``k`` in place of the code."""
    rule, cut, categories = model.split_prior, np.int64(0), np.int64(-1)
    if follows_design(rule):
        design = rule.design[state.node[node].design]
        cut, categories = design.cut, design.categories
    else:
        cut = middle_cut(model, state, node, k)
    codes, order, side_of_row = model.units.codes[k], state.order, state.scratch.codes.of_unit
    start = state.node[node].start
    for i in range(start, state.node[node].stop):
        side_of_row[i - start] = 1 - goes_left(np.int64(codes[order[i]]), cut, categories)
    state.scratch.codes.distinct[0], state.scratch.codes.distinct[1] = 0, 1


@jit
def _sum_by_code(model: Lowered, state: ChainState, node: int) -> None:
    """Add the statistics and rows of a node to the sums by code. ``codes.of_unit`` has the code of each merged row."""
    merged_rows, order = model.units, state.order
    rows_by_code, code_of_row = state.scratch.codes.rows, state.scratch.codes.of_unit
    start, stop = state.node[node].start, state.node[node].stop
    n_rows, rows_all = merged_rows.rows, merged_rows.rows_all
    for i in range(start, stop):
        rows_by_code[code_of_row[i - start]] += n_rows[order[i] & rows_all]
    scatter_units(state.scratch.scan.by_code, code_of_row, merged_rows, order, start, stop)


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
    """Clip the codes of bins to the node's box on feature ``k``. Return the number of bins.

    Codes of missing values may be outside. Two bins that get the same code become one.
    """
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
    """Add the rows and statistics of bin ``source`` to bin ``target``."""
    bins = state.scratch.scan
    bins.rows[target] += bins.rows[source]
    for i in range(bins.stats.shape[1]):
        bins.stats[target, i] += bins.stats[source, i]
