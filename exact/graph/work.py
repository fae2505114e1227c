"""Arrays in which the graph of cells is built, and functions that sum the points of a cell.

A *point* is a distinct row of codes. The points of a cell are summed by the code of one feature. The sums of a child
are the sums over the codes on its side of the split.
"""

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import sort_first
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model import TreeModel

from ..limits.intractable import refuse_bytes

PARENT, FEATURE, SPLIT, SIDE = range(4)
"""Rows of `Cells.origin`."""
LEFT, RIGHT = range(2)
"""Sides of a split."""


class Points(NamedTuple):
    """The P distinct rows of codes, with the sums over the training rows that have them."""

    codes: np.ndarray  # (p, P) int64: code of each coordinate
    stats: np.ndarray  # (P, n_stats) float64: sufficient statistics
    rows: np.ndarray  # (P,) int64: number of training rows
    key: np.ndarray  # (2, P) uint64 random keys; the hash of a set is the exclusive or of its points' keys
    order: np.ndarray  # (p, P) int64: the points sorted by each feature


class Cells(NamedTuple):
    """Cells in order of discovery, so by the smallest depth at which they occur. ``cap`` is the length of arrays."""

    hash: np.ndarray  # (cap, 2) uint64: identifies the points or the box of the cell
    origin: np.ndarray  # (4, cap) int64: the parent, feature, split and side by which the cell was first reached
    rows: np.ndarray  # (cap,) int64: number of training rows
    size: np.ndarray  # (cap,) int64: rows or codes spanned; falls along every edge but those from a cell to itself
    depth: np.ndarray  # (cap,) int32: smallest depth
    open: np.ndarray  # (cap,) int64: bits of the groups that contain all features split on above, -1 in the root
    start: np.ndarray  # (cap,) int64: first split of the cell
    stop: np.ndarray  # (cap,) int64: end of its splits
    is_splittable: np.ndarray  # (cap,) bool: True if the cell has a split, even if the arrays do not hold it
    stats: np.ndarray  # (cap, n_stats) float64: sufficient statistics of the rows
    score: np.ndarray  # (cap,) float64: log score as a leaf
    table: np.ndarray  # (2^b,) int32: hash table of cells, -1 for a free place


class Edges(NamedTuple):
    """Splits of the cells; those of one cell are consecutive."""

    left: np.ndarray  # (cap,) int32: left child
    right: np.ndarray  # (cap,) int32: right child
    feature: np.ndarray  # (cap,) int32: coordinate
    # (cap,) int64: cut and next code, as `boxes.pack_cut` packs them, or the bits of the categories going left
    split: np.ndarray
    log_rule: np.ndarray  # (cap,) float64: log R(split | cell)


class Scratch(NamedTuple):
    """Working memory of the builder, most of it about the cell being expanded. C is the largest number of codes."""

    # (5,) int64: numbers of cells and edges, next cell to expand, mode, number of wanted splits; see `build`
    count: np.ndarray
    box: np.ndarray  # (p, 2) int64: box of the cell: first code and end of the codes, or bits of the categories and 0
    members: np.ndarray  # (P,) int64: points of the cell
    asked: np.ndarray  # (p,) int64: nominal coordinates, and those in which the box is not the whole range
    codes: np.ndarray  # (C,) int64: codes of one feature in the cell, ascending
    slot: np.ndarray  # (C,) int64: place of a code in ``codes``, -1 elsewhere
    rows: np.ndarray  # (C,) int64: rows of each code
    key: np.ndarray  # (2, C) uint64: hash of the points of each code
    stats: np.ndarray  # (C, n_stats) float64
    suffix: np.ndarray  # (C + 1, n_stats) float64: sums from each code on
    side_stats: np.ndarray  # (2, n_stats) float64: statistics of the two children of a split
    side_rows: np.ndarray  # (2,) int64: rows of the two children
    side_key: np.ndarray  # (2, 2) uint64: hash of the points of each child, (side, word)
    # (w, 4) int64: splits of the cell that given trees use: feature, split, mask of the bits that identify it, edge
    wanted: np.ndarray


class Work(NamedTuple):
    """All arrays of the builder."""

    points: Points
    cells: Cells
    edges: Edges
    scratch: Scratch


def distinct_points(model: TreeModel) -> Points:
    """Return the distinct rows of codes of a model. Its merged rows are merged further, whatever their labels."""
    units, leaf = model.units, model.lowered.leaf
    codes, where = np.unique(units.codes, axis=1, return_inverse=True)
    where = where.reshape(-1)
    n = codes.shape[1]
    each = np.arange(units.n_units)
    stats = np.zeros((n, leaf.n_stats))
    weight = units.weight[each & units.weight_all]
    if units.counts:
        np.add.at(stats, (where, units.label.astype(np.int64)), weight)
    else:
        for j, column in enumerate((weight, *units.moments)):
            stats[:, j] = np.bincount(where, weights=column, minlength=n)
    rows = np.bincount(where, weights=units.rows[each & units.rows_all], minlength=n).astype(np.int64)
    codes = np.ascontiguousarray(codes, dtype=np.int64)
    key = np.random.default_rng(20_261_120).integers(1, 1 << 63, size=(2, n), dtype=np.uint64)
    order = np.ascontiguousarray(np.argsort(codes, axis=1, kind="stable"))
    return Points(codes, stats, rows, key, order)


def new_scratch(model: TreeModel, points: Points, n_wanted: int) -> Scratch:
    """Return the working memory of a builder, with room for ``n_wanted`` wanted splits of a cell."""
    p, n_points = points.codes.shape
    n_stats = points.stats.shape[1]
    widest = int(model.n_codes.max())
    refuse_bytes(8 * widest * (6 + 2 * n_stats), "sums by code of a feature")
    return Scratch(
        count=np.zeros(5, dtype=np.int64),
        box=np.zeros((p, 2), dtype=np.int64),
        members=np.empty(n_points, dtype=np.int64),
        asked=np.empty(p, dtype=np.int64),
        codes=np.empty(widest, dtype=np.int64),
        slot=np.full(widest, -1, dtype=np.int64),
        rows=np.empty(widest, dtype=np.int64),
        key=np.empty((2, widest), dtype=np.uint64),
        stats=np.empty((widest, n_stats)),
        suffix=np.empty((widest + 1, n_stats)),
        side_stats=np.zeros((2, n_stats)),
        side_rows=np.zeros(2, dtype=np.int64),
        side_key=np.zeros((2, 2), dtype=np.uint64),
        wanted=np.zeros((n_wanted, 4), dtype=np.int64),
    )


def new_cells(cap: int, n_stats: int) -> Cells:
    """Return arrays for ``cap`` cells."""
    return Cells(
        hash=np.zeros((cap, 2), dtype=np.uint64),
        origin=np.zeros((4, cap), dtype=np.int64),
        rows=np.zeros(cap, dtype=np.int64),
        size=np.zeros(cap, dtype=np.int64),
        depth=np.zeros(cap, dtype=np.int32),
        open=np.full(cap, -1),
        start=np.zeros(cap, dtype=np.int64),
        stop=np.zeros(cap, dtype=np.int64),
        is_splittable=np.zeros(cap, dtype=np.bool_),
        stats=np.zeros((cap, n_stats)),
        score=np.zeros(cap),
        table=np.full(4 * cap, -1, dtype=np.int32),
    )


def longer_cells(cells: Cells, n: int) -> Cells:
    """Return arrays of twice the length that hold the first ``n`` cells, with a new hash table of these cells."""
    out = new_cells(2 * len(cells.rows), cells.stats.shape[1])
    for name in ("rows", "size", "depth", "open", "start", "stop", "is_splittable", "score", "hash", "stats"):
        getattr(out, name)[:n] = getattr(cells, name)[:n]
    out.origin[:, :n] = cells.origin[:, :n]
    refill(out.table, out.hash, n)
    return out


@jit
def refill(table: np.ndarray, hashes: np.ndarray, n: int) -> None:
    """Enter the numbers of the first ``n`` cells into an empty hash table, by open addressing."""
    mask = len(table) - 1
    for cell in range(n):
        at = np.int64(hashes[cell, 0] & np.uint64(0x3FFFFFFFFFFFFFFF)) & mask
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = cell


def new_edges(cap: int) -> Edges:
    """Return arrays for ``cap`` splits."""
    ids = [np.empty(cap, dtype=np.int32) for _ in range(3)]
    return Edges(*ids, np.empty(cap, dtype=np.int64), np.empty(cap))


def longer_edges(edges: Edges) -> Edges:
    """Return arrays of twice the length that begin with the same splits."""
    return Edges(*(np.concatenate([column, np.empty_like(column)]) for column in edges))


@jit
def clear_sides(work: Any) -> None:
    """Set the sums of both sides of a split to zero."""
    scratch = work.scratch
    for side in range(2):
        scratch.side_rows[side] = 0
        for word in range(2):
            scratch.side_key[side, word] = 0
        for j in range(scratch.side_stats.shape[1]):
            scratch.side_stats[side, j] = 0.0


@jit
def add_to_side(work: Any, side: int, i: int) -> None:
    """Add point ``i`` to the sums of one side of a split."""
    points, scratch = work.points, work.scratch
    scratch.side_rows[side] += points.rows[i]
    for word in range(2):
        scratch.side_key[side, word] ^= points.key[word, i]
    for j in range(points.stats.shape[1]):
        scratch.side_stats[side, j] += points.stats[i, j]


@jit
def tabulate(work: Any, n_members: int, k: int) -> int:
    """Sum the points of the cell by code of feature ``k``, codes ascending, and return the number of codes."""
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
    """Undo `tabulate`: set ``slot`` to -1 for the ``n`` codes that it found."""
    for j in range(n):
        work.scratch.slot[work.scratch.codes[j]] = -1


@jit
def add_code_to_side(work: Any, side: int, code: int) -> None:
    """Add the sums of all points with one code, as tabulated, to one side of a split."""
    scratch = work.scratch
    s = scratch.slot[code]
    scratch.side_rows[side] += scratch.rows[s]
    for word in range(2):
        scratch.side_key[side, word] ^= scratch.key[word, s]
    for a in range(scratch.stats.shape[1]):
        scratch.side_stats[side, a] += scratch.stats[s, a]


@jit
def sum_from_right(work: Any, n: int) -> None:
    """Add all ``n`` tabulated codes to the right side, and write the sums of statistics from each code on."""
    scratch = work.scratch
    clear_sides(work)
    for j in range(n):
        add_code_to_side(work, RIGHT, scratch.codes[j])
    for a in range(scratch.suffix.shape[1]):
        scratch.suffix[n, a] = 0.0
        # sums, not differences of the total: these would lose digits
        for j in range(n - 1, -1, -1):
            scratch.suffix[j, a] = scratch.suffix[j + 1, a] + scratch.stats[scratch.slot[scratch.codes[j]], a]


@jit
def move_to_left(work: Any, code: int) -> None:
    """Move the rows and the hash of a code from the right side to the left, and add its statistics to the left.

    The statistics of the right side are not changed: they are read from ``suffix``.
    """
    scratch, s = work.scratch, work.scratch.slot[code]
    add_code_to_side(work, LEFT, code)
    scratch.side_rows[RIGHT] -= scratch.rows[s]
    for word in range(2):
        scratch.side_key[RIGHT, word] ^= scratch.key[word, s]
