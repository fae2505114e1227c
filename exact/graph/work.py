"""The arrays the builder of the graph works on, and the sums over the points of a cell that it keeps in them.

The points are summed by code of one feature; the codes of either side of a split add up to the sums of a child.
"""

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import sort_first
from pactree_mcmc.core.compile.jit import jit

PARENT, FEATURE, SPLIT, SIDE = range(4)
"""Rows of `Cells.origin`."""
LEFT, RIGHT = range(2)


class Points(NamedTuple):
    """Distinct rows of codes."""

    codes: np.ndarray
    """(p, P) int64."""
    stats: np.ndarray
    """(P, n_stats) float64."""
    rows: np.ndarray
    """(P,) int64 training rows."""
    key: np.ndarray
    """(2, P) uint64 random keys; the hash of a set is the exclusive or of its points' keys."""
    order: np.ndarray
    """(p, P) int64: the points sorted by each feature."""


class Cells(NamedTuple):
    """Cells in order of discovery, so by the smallest depth at which they occur."""

    hash: np.ndarray
    """(cap, 2) uint64."""
    origin: np.ndarray
    """(4, cap) int64: the cell, feature, split and side that first led here."""
    rows: np.ndarray
    """(cap,) int64 training rows."""
    size: np.ndarray
    """(cap,) int64: rows or codes spanned; falls along every edge but those from a cell to itself."""
    depth: np.ndarray
    """(cap,) int32: smallest depth."""
    first_edge: np.ndarray
    """(cap + 1,) int64."""
    stats: np.ndarray
    """(cap, n_stats) float64."""
    score: np.ndarray
    """(cap,) float64."""
    table: np.ndarray
    """(2^b,) int32: hash table of cells, -1 where free."""


class Edges(NamedTuple):
    """Splits of the cells, one cell's after another's."""

    left: np.ndarray
    """(cap,) int32."""
    right: np.ndarray
    """(cap,) int32."""
    feature: np.ndarray
    """(cap,) int32."""
    split: np.ndarray
    """(cap,) int64: cut and next code, as `boxes.pack_cut` packs them, or the bits of the categories going left."""
    log_rule: np.ndarray
    """(cap,) float64: log R(split | cell)."""


class Scratch(NamedTuple):
    """Working memory of the builder."""

    count: np.ndarray
    """(5,) int64: cells, edges, next cell to expand, what is added, wanted splits."""
    box: np.ndarray
    """(p, 2) int64: of the cell being expanded: low and high code, or categories and 0."""
    members: np.ndarray
    """(P,) int64: points of the cell being expanded."""
    codes: np.ndarray
    """(C,) int64: codes of one feature in the cell, ascending."""
    slot: np.ndarray
    """(C,) int64: place of a code in ``codes``, -1 elsewhere."""
    rows: np.ndarray
    """(C,) int64: rows of each code."""
    key: np.ndarray
    """(2, C) uint64: hash of the points of each code."""
    stats: np.ndarray
    """(C, n_stats) float64."""
    suffix: np.ndarray
    """(C + 1, n_stats) float64: sums from each code on."""
    side_stats: np.ndarray
    """(2, n_stats) float64: of the two children of a split."""
    side_rows: np.ndarray
    """(2,) int64."""
    side_key: np.ndarray
    """(2, 2) uint64: hash of the points of each child, (side, word)."""
    wanted: np.ndarray
    """(w, 4) int64: feature, split, the bits that tell, and edge, of the splits of a cell that are wanted."""


class Work(NamedTuple):
    """All the builder works on."""

    points: Points
    cells: Cells
    edges: Edges
    scratch: Scratch


@jit
def clear_sides(work: Any) -> None:
    """Sets the sums of both sides to zero."""
    scratch = work.scratch
    for side in range(2):
        scratch.side_rows[side] = 0
        for word in range(2):
            scratch.side_key[side, word] = 0
        for j in range(scratch.side_stats.shape[1]):
            scratch.side_stats[side, j] = 0.0


@jit
def add_to_side(work: Any, side: int, i: int) -> None:
    """Adds point ``i`` to one side."""
    points, scratch = work.points, work.scratch
    scratch.side_rows[side] += points.rows[i]
    for word in range(2):
        scratch.side_key[side, word] ^= points.key[word, i]
    for j in range(points.stats.shape[1]):
        scratch.side_stats[side, j] += points.stats[i, j]


@jit
def tabulate(work: Any, n_members: int, k: int) -> int:
    """Sums the cell's points by code of feature ``k``, codes ascending, and returns the number of codes."""
    # local names keep the arrays in registers: the loop below is most of the builder's time
    points, scratch = work.points, work.scratch
    codes, point_rows, point_key, point_stats = points.codes, points.rows, points.key, points.stats
    members, slot, found = scratch.members, scratch.slot, scratch.codes
    rows, key, stats = scratch.rows, scratch.key, scratch.stats
    n, n_stats = 0, stats.shape[1]
    for j in range(n_members):
        # unsigned indices need no check for counting from the end
        i = np.uint64(members[j])
        code = np.uint64(codes[k, i])
        if slot[code] < 0:
            slot[code], found[n], rows[n] = n, codes[k, i], 0
            key[0, n] = key[1, n] = 0
            for a in range(n_stats):
                stats[n, a] = 0.0
            n += 1
        s = np.uint64(slot[code])
        rows[s] += point_rows[i]
        key[0, s] ^= point_key[0, i]
        key[1, s] ^= point_key[1, i]
        for a in range(n_stats):
            stats[s, a] += point_stats[i, a]
    sort_first(scratch.codes, n)
    return n


@jit
def forget_codes(work: Any, n: int) -> None:
    """Empties the slots of the ``n`` codes that `tabulate` found."""
    for j in range(n):
        work.scratch.slot[work.scratch.codes[j]] = -1


@jit
def add_code_to_side(work: Any, side: int, code: int) -> None:
    """Adds all points of one code to a side."""
    scratch = work.scratch
    s = scratch.slot[code]
    scratch.side_rows[side] += scratch.rows[s]
    for word in range(2):
        scratch.side_key[side, word] ^= scratch.key[word, s]
    for a in range(scratch.stats.shape[1]):
        scratch.side_stats[side, a] += scratch.stats[s, a]


@jit
def sum_from_right(work: Any, n: int) -> None:
    """Puts all codes on the right, and sums (not subtracts) the statistics from each code on into ``suffix``."""
    scratch = work.scratch
    clear_sides(work)
    for j in range(n):
        add_code_to_side(work, RIGHT, scratch.codes[j])
    for a in range(scratch.suffix.shape[1]):
        scratch.suffix[n, a] = 0.0
        for j in range(n - 1, -1, -1):
            scratch.suffix[j, a] = scratch.suffix[j + 1, a] + scratch.stats[scratch.slot[scratch.codes[j]], a]


@jit
def move_to_left(work: Any, code: int) -> None:
    """Takes the rows and the hash of a code from the right to the left, and adds its statistics there."""
    scratch, s = work.scratch, work.scratch.slot[code]
    add_code_to_side(work, LEFT, code)
    scratch.side_rows[RIGHT] -= scratch.rows[s]
    for word in range(2):
        scratch.side_key[RIGHT, word] ^= scratch.key[word, s]
