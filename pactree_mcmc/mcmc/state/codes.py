"""Codes of a feature that the rows of a cell have, compiled."""

import numpy as np

from ...core.bits import sort_first
from ...core.compile.jit import jit
from ...model import Lowered
from .arrays import ChainState


@jit
def collect_codes(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Distinct codes of feature ``k`` in a node, ascending, into ``state.codes``; their number is returned.

    That of each unit is left in ``state.side``.
    """
    codes, order, out, marks, of_unit = model.units.codes[k], state.order, state.codes[0], state.marks, state.side
    start, stop = state.node[node].start, state.node[node].stop
    lowest, highest, n = np.int64(1) << 40, np.int64(-1), np.int64(0)
    for i in range(start, stop):
        c = np.int64(codes[order[i]])
        of_unit[i - start] = c
        marks[c] = 1
        lowest, highest = min(lowest, c), max(highest, c)
    if highest - lowest < 16 * (stop - start):
        for c in range(lowest, highest + 1):
            out[n] = c
            n += marks[c]
            marks[c] = 0
        return n
    for i in range(stop - start):
        c = np.int64(of_unit[i])
        out[n] = c
        n += marks[c]
        marks[c] = 0
    sort_first(out, n)
    return n


@jit
def count_codes(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Number of distinct codes of feature ``k`` in a node."""
    codes, order, seen = model.units.codes, state.order, state.codes[1]
    start, stop, n = state.node[node].start, state.node[node].stop, np.int64(0)
    for i in range(start, stop):
        c = codes[k, order[i]]
        n += 1 - seen[c]
        seen[c] = 1
    for i in range(start, stop):
        seen[codes[k, order[i]]] = 0
    return n


@jit
def has_two_codes(model: Lowered, state: ChainState, node: int, k: int) -> bool:
    """Whether the rows of a node differ in feature ``k``."""
    codes, order = model.units.codes, state.order
    start, stop = state.node[node].start, state.node[node].stop
    for i in range(start + 1, stop):
        if codes[k, order[i]] != codes[k, order[start]]:
            return True
    return False


@jit
def codes_about(model: Lowered, state: ChainState, node: int, k: int, cut: int) -> tuple[int, int]:
    """Largest code of feature ``k`` in a node that is at most ``cut``, -1 without one, and the smallest above.

    The latter is the number of codes without one.
    """
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
    """Distinct codes of feature ``k`` in a node, above ``low`` and below ``high``, as `collect_codes`."""
    codes, order, out, seen = model.units.codes, state.order, state.codes[0], state.codes[1]
    n = np.int64(0)
    for i in range(state.node[node].start, state.node[node].stop):
        c = np.int64(codes[k, order[i]])
        if low < c < high and seen[c] == 0:
            seen[c] = 1
            out[n] = c
            n += 1
    sort_first(out, n)
    for j in range(n):
        seen[out[j]] = 0
    return n


@jit
def rows_of_codes(model: Lowered, state: ChainState, node: int, k: int, n: int) -> np.ndarray:
    """Rows of the node that have each of the ``n`` codes just collected, (n,) int64."""
    units, total = model.units, state.codes[1]
    for i in range(state.node[node].start, state.node[node].stop):
        u = state.order[i]
        total[units.codes[k, u]] += units.rows[u & units.rows_all]
    out = np.empty(n, dtype=np.int64)
    for j in range(n):
        out[j] = total[state.codes[0, j]]
        total[state.codes[0, j]] = 0
    return out
