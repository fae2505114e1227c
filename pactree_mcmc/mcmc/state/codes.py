"""Codes of a feature that the rows of a cell have, compiled."""

import numpy as np

from ...core.bits import sort_first
from ...core.compile.jit import jit
from ...model import Lowered
from .tree import ChainState


@jit
def collect_codes(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Write the distinct codes of feature `k` in a node, ascending, into `codes.distinct`; return their number."""
    codes, order, scratch = model.units.codes[k], state.order, state.scratch.codes
    out, is_present = scratch.distinct, scratch.is_present
    start, stop = state.node[node].start, state.node[node].stop
    lowest, highest, n = np.int64(1) << 40, np.int64(-1), np.int64(0)
    for i in range(start, stop):
        c = np.int64(codes[order[i]])
        is_present[c] = 1
        lowest, highest = min(lowest, c), max(highest, c)
    if highest - lowest < 16 * (stop - start):
        for c in range(lowest, highest + 1):
            out[n] = c
            n += is_present[c]
            is_present[c] = 0
        return n
    for i in range(start, stop):
        c = np.int64(codes[order[i]])
        out[n] = c
        n += is_present[c]
        is_present[c] = 0
    sort_first(out, n)
    return n


@jit
def count_codes(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Return the number of distinct codes of feature ``k`` in the rows of a node."""
    codes, order, is_present = model.units.codes, state.order, state.scratch.codes.is_present
    start, stop, n = state.node[node].start, state.node[node].stop, np.int64(0)
    for i in range(start, stop):
        c = codes[k, order[i]]
        n += 1 - is_present[c]
        is_present[c] = 1
    for i in range(start, stop):
        is_present[codes[k, order[i]]] = 0
    return n


@jit
def has_two_codes(model: Lowered, state: ChainState, node: int, k: int) -> bool:
    """Return True if the rows of a node have more than one code of feature ``k``."""
    codes, order = model.units.codes, state.order
    start, stop = state.node[node].start, state.node[node].stop
    for i in range(start + 1, stop):
        if codes[k, order[i]] != codes[k, order[start]]:
            return True
    return False


@jit
def neighbouring_codes(model: Lowered, state: ChainState, node: int, k: int, cut: int) -> tuple[int, int]:
    """Return the largest code of `k` in a node's rows that is at most `cut`, and the smallest one above it."""
    # -1 and the number of codes if there are none; all cuts from the first to the one before the second separate the
    # rows alike
    codes, order = model.units.codes, state.order
    low, high = np.int64(-1), np.int64(model.split_prior.feature[k].n_codes)
    for i in range(state.node[node].start, state.node[node].stop):
        c = np.int64(codes[k, order[i]])
        if c <= cut:
            low = max(low, c)
        else:
            high = min(high, c)
    return low, high


@jit
def collect_codes_between(model: Lowered, state: ChainState, node: int, k: int, low: int, high: int) -> int:
    """Write the distinct codes of `k` in a node between `low` and `high`, exclusive, into `codes.distinct`."""
    # ascending; their number is returned
    codes, order, n = model.units.codes, state.order, np.int64(0)
    out, is_present = state.scratch.codes.distinct, state.scratch.codes.is_present
    for i in range(state.node[node].start, state.node[node].stop):
        c = np.int64(codes[k, order[i]])
        if low < c < high and is_present[c] == 0:
            is_present[c] = 1
            out[n] = c
            n += 1
    sort_first(out, n)
    for j in range(n):
        is_present[out[j]] = 0
    return n


@jit
def count_rows_by_code(model: Lowered, state: ChainState, node: int, k: int, n: int) -> np.ndarray:
    """Return the number of rows of a node with each of the `n` codes of `k` that `collect_codes` has just written."""
    merged_rows, rows, distinct = model.units, state.scratch.codes.rows, state.scratch.codes.distinct
    for i in range(state.node[node].start, state.node[node].stop):
        u = state.order[i]
        rows[merged_rows.codes[k, u]] += merged_rows.rows[u & merged_rows.rows_all]
    out = np.empty(n, dtype=np.int64)
    for j in range(n):
        out[j] = rows[distinct[j]]
        rows[distinct[j]] = 0
    return out
