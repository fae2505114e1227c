"""New rows sent down a graph of cells, many at once: the cells that each may reach, and how probably it ends there."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import n_bits
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.table.coding import LARGEST

from ..graph.boxes import cut_of, upper_of
from ..graph.cells import children
from ..graph.progress import in_pieces
from ..limits.intractable import memory_bytes
from ..semirings.algebras import fraction
from .inside_outside import count_cells

ROWS_AT_ONCE = 62
"""Rows sent down together: those in a cell are the bits of one integer, without its sign."""


class Router(NamedTuple):
    """The data that determine to which side of a split a new row of numbers goes."""

    local: bool
    """Thresholds lie midway between neighbouring values in the cell; else a row's codes decide."""
    low: np.ndarray
    """Smallest value of each code, features end to end; one dummy unless local."""
    high: np.ndarray
    """Largest value of each code."""
    offset: np.ndarray
    """(p,) int64: where a feature's codes begin in ``low`` and ``high``."""
    n_codes: np.ndarray
    """(p,) int64."""
    nominal: np.ndarray
    """(p,) bool."""


@jit
def row_goes_left(graph: Any, router: Router, e: int, cell: int, row: np.ndarray, code: np.ndarray) -> bool:
    """Return True if a row (p,) of numbers, with codes (p,) unless local, goes left at split ``e`` of ``cell``."""
    k, split = graph.feature[e], graph.split[e]
    if router.nominal[k]:
        if row[k] < 0.0:
            return 2 * graph.rows[graph.left[e]] >= graph.rows[cell]
        return (split >> np.int64(row[k])) & 1 == 1
    cut, upper = cut_of(split), upper_of(split)
    if row[k] != row[k]:
        return 2 * graph.rows[graph.left[e]] >= graph.rows[cell]
    if not router.local:
        return code[k] <= cut
    if cut < 0 or upper == router.n_codes[k]:
        return cut >= 0
    a, b = router.high[router.offset[k] + cut], router.low[router.offset[k] + upper]
    if b == np.inf or a == -np.inf:
        return row[k] <= (LARGEST if b == np.inf else -LARGEST)
    middle = a / 2.0 + b / 2.0
    return row[k] <= (middle if a <= middle < b else a)


class Ends(NamedTuple):
    """Cells in which rows may end."""

    cell: np.ndarray
    """(k,) int64."""
    row: np.ndarray
    """(k,) int64."""
    weight: np.ndarray
    """(k,) probability that the row ends in this cell, > 0."""


def average_rows(
    graph: Any, log_inside: np.ndarray, router: Router, rows: np.ndarray, codes: np.ndarray, value: np.ndarray
) -> np.ndarray:
    """Return the posterior means (n, d) of the leaf values (n_cells, d) that new rows (n, p) reach."""
    out = np.zeros((len(rows), value.shape[1]))
    for first, ends in ends_of_rows(graph, log_inside, router, rows, codes):
        for j in range(value.shape[1]):
            mean = np.bincount(ends.row, ends.weight * value[ends.cell, j], len(rows) - first)
            out[first : first + ROWS_AT_ONCE, j] += mean[:ROWS_AT_ONCE]
    return out


def ends_of_rows(
    graph: Any, log_inside: np.ndarray, router: Router, rows: np.ndarray, codes: np.ndarray
) -> Iterator[tuple[int, Ends]]:
    """Yield the cells in which rows (n, p) of numbers may end, some rows at a time, with the number of the first row.

    The numbers in `Ends` count from that row. Two passes over the graph for at most `ROWS_AT_ONCE` rows: one finds the
    cells that each row may reach, the other sends the probability mass of the trees in which a row passes through a
    cell down the splits, to the side of the row. Time: the splits of the cells that any of the rows may reach, and a
    few operations for each row, split and depth.
    """
    first, at_once = 0, ROWS_AT_ONCE
    n_cells = count_cells(graph)
    while first < len(rows):
        some = slice(first, min(first + at_once, len(rows)))
        held, to_left = np.zeros(n_cells, dtype=np.int64), np.zeros(count_edges(graph), dtype=np.int64)
        held[0] = (1 << (some.stop - first)) - 1
        these = router, rows[some], codes[some], held, to_left
        in_pieces(n_cells, lambda i, j, these=these: reach_cells(graph, *these, i, j))
        first_mass, first_row = places_of_rows(graph, held)
        if 8 * first_mass[-1] > memory_bytes() // 8 and some.stop - first > 1:
            at_once = (some.stop - first) // 2
            continue
        mass, weight = np.zeros(first_mass[-1]), np.zeros(first_row[-1])
        mass[: some.stop - first] = 1.0
        down = Carried(held, to_left, first_mass, first_row, mass, weight)
        in_pieces(n_cells, lambda i, j, down=down: carry_mass(graph, log_inside, down, i, j))
        yield first, list_ends(held, first_row, weight)
        first = some.stop


@jit
def count_edges(graph: Any) -> int:
    """Return the number of splits."""
    return len(graph.left)


@jit
def reach_cells(
    graph: Any,
    router: Router,
    rows: np.ndarray,
    codes: np.ndarray,
    held: np.ndarray,
    to_left: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Add the rows in cells ``first`` to ``last - 1``, the bits of ``held`` (n_cells,), to their children; write those
    that each split sends to the left into ``to_left`` (n_edges,).
    """
    for cell in range(first, last):
        here = held[cell]
        if here == 0 or graph.rows[cell] == 0:
            continue
        for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
            # what is never asked may lead back
            if graph.log_rule[e] == -np.inf:
                continue
            left = np.int64(0)
            for i in range(len(rows)):
                if (here >> i) & 1 and row_goes_left(graph, router, e, cell, rows[i], codes[i]):
                    left |= np.int64(1) << i
            to_left[e] = left
            held[graph.left[e]] |= left
            held[graph.right[e]] |= here & ~left


@jit
def places_of_rows(graph: Any, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the masses of each cell begin, by depth and row, and where its rows begin: two (n_cells + 1,)."""
    first_mass, first_row = np.zeros(len(held) + 1, dtype=np.int64), np.zeros(len(held) + 1, dtype=np.int64)
    for cell in range(len(held)):
        n = n_bits(held[cell])
        first_row[cell + 1] = first_row[cell] + n
        first_mass[cell + 1] = first_mass[cell] + n * (graph.first_slot[cell + 1] - graph.first_slot[cell])
    return first_mass, first_row


class Carried(NamedTuple):
    """Rows on their way down a graph."""

    held: np.ndarray
    """(n_cells,) int64: the rows that may reach each cell, as bits."""
    to_left: np.ndarray
    """(n_edges,) int64: those of them that each split sends to the left."""
    first_mass: np.ndarray
    """(n_cells + 1,) int64: the masses of a cell, by depth and row, begin here in ``mass``."""
    first_row: np.ndarray
    """(n_cells + 1,) int64: the rows of a cell begin here in ``weight``."""
    mass: np.ndarray
    """Probability of the trees in which the row passes through the cell at this depth."""
    weight: np.ndarray
    """Probability of the trees in which the cell is the leaf of the row."""


@jit
def carry_mass(graph: Any, log_inside: np.ndarray, rows: Carried, first: int, last: int) -> None:
    """Send the masses of the rows in cells ``first`` to ``last - 1`` on to their children, or to ``weight``.

    Splits that lead from a cell to itself, one level deeper, come before the others, depth by depth.
    """
    pairs = np.empty((2, ROWS_AT_ONCE), dtype=np.int64)
    for cell in range(first, last):
        start, n = rows.first_mass[cell], rows.first_row[cell + 1] - rows.first_row[cell]
        if n == 0:
            continue
        begin, end = graph.first_edge[cell], graph.first_edge[cell + 1]
        goes_on = graph.rows[cell] > 0
        for slot in range(graph.first_slot[cell], graph.first_slot[cell + 1]):
            for e in range(begin, end if goes_on else begin):
                if graph.left[e] == cell or graph.right[e] == cell:
                    _send(graph, log_inside, rows, cell, e, slot, slot + 1, pairs)
            at, stop = start + n * (slot - graph.first_slot[cell]), 1.0
            if goes_on and graph.log_split[slot] > -np.inf:
                stop = fraction(graph.log_stop[slot], log_inside[slot])
            for j in range(n):
                rows.weight[rows.first_row[cell] + j] += stop * rows.mass[at + j]
        for e in range(begin, end if goes_on else begin):
            if graph.left[e] != cell and graph.right[e] != cell:
                slots = graph.first_slot[cell], graph.first_slot[cell + 1]
                _send(graph, log_inside, rows, cell, e, *slots, pairs)


@jit
def _send(
    graph: Any, log_inside: np.ndarray, rows: Carried, cell: int, e: int, first: int, last: int, pairs: np.ndarray
) -> None:
    """Send the masses in slots ``first`` to ``last - 1`` of a cell down split ``e``."""
    if graph.log_rule[e] == -np.inf:
        return
    a, b, n = np.int64(graph.left[e]), np.int64(graph.right[e]), rows.first_row[cell + 1] - rows.first_row[cell]
    n_a, n_b = rows.first_row[a + 1] - rows.first_row[a], rows.first_row[b + 1] - rows.first_row[b]
    n_left = _pair_rows(rows.held[cell], rows.to_left[e], rows.held[a], rows.held[b], pairs)
    mass = rows.mass
    for slot in range(first, last):
        split = graph.log_split[slot]
        if split == -np.inf:
            continue
        layer = slot - graph.first_slot[cell]
        left, right = children(graph, e, graph.depth[cell] + layer + 1)
        log_term = split + graph.log_rule[e] + log_inside[left] + log_inside[right]
        part, at = fraction(log_term, log_inside[slot]), rows.first_mass[cell] + n * layer
        into_left = rows.first_mass[a] + (left - graph.first_slot[a]) * n_a
        into_right = rows.first_mass[b] + (right - graph.first_slot[b]) * n_b
        for j in range(n_left):
            mass[into_left + pairs[1, j]] += part * mass[at + pairs[0, j]]
        for j in range(n_left, n):
            mass[into_right + pairs[1, j]] += part * mass[at + pairs[0, j]]


@jit
def _pair_rows(here: int, to_left: int, in_left: int, in_right: int, pairs: np.ndarray) -> int:
    """Write the places of the rows ``here`` among those of their cell and of the child that they are sent to, the rows
    that go left first, and return the number of these.
    """
    n_left, n_right, j, at_left, at_right = 0, n_bits(to_left), 0, 0, 0
    for i in range(ROWS_AT_ONCE):
        bit = np.int64(1) << i
        if here & bit:
            if to_left & bit:
                pairs[0, n_left], pairs[1, n_left] = j, at_left
                n_left += 1
            else:
                pairs[0, n_right], pairs[1, n_right] = j, at_right
                n_right += 1
            j += 1
        at_left += (in_left >> i) & 1
        at_right += (in_right >> i) & 1
    return n_left


def list_ends(held: np.ndarray, first_row: np.ndarray, weight: np.ndarray) -> Ends:
    """Return the cells and rows with a positive weight."""
    row = rows_of_bits(held, first_row)
    cell = np.repeat(np.arange(len(held)), np.diff(first_row))
    keep = weight > 0.0
    return Ends(cell[keep], row[keep], weight[keep])


@jit
def rows_of_bits(held: np.ndarray, first_row: np.ndarray) -> np.ndarray:
    """Return the numbers of the rows of all cells, one cell's after another's."""
    out = np.empty(first_row[-1], dtype=np.int64)
    for cell in range(len(held)):
        at = first_row[cell]
        for i in range(ROWS_AT_ONCE if held[cell] else 0):
            if (held[cell] >> i) & 1:
                out[at] = i
                at += 1
    return out
