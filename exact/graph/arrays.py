"""Arrays in which the graph of cells is built, and functions that sum the points of a cell.

A *point* is a distinct row of codes. The *builder* lists the splits of one cell after another. For each feature the
points of the cell are summed by code. The sums of a child are the sums over the codes on its side of the split. All
compiled functions take ``arrays``, a packed `BuilderArrays`, and ``scratch`` is its part about the current cell.
"""

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import sort_first
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model import TreeModel

from ..limits import refuse_bytes

PARENT, FEATURE, SPLIT, SIDE = range(4)  # rows of `BuilderCells.origin`
LEFT, RIGHT = range(2)  # sides of a split


class Points(NamedTuple):
    """The P distinct rows of codes (integers for the values of features), with sums over the rows that have them."""

    codes: np.ndarray  # (p, P) int64: code of each coordinate
    stats: np.ndarray  # (P, n_stats) float64: sufficient statistics
    rows: np.ndarray  # (P,) int64: number of training rows
    key: np.ndarray  # (2, P) uint64 random keys; the hash of a set is the exclusive or of its points' keys
    order: np.ndarray  # (p, P) int64: the points sorted by each feature


class BuilderCells(NamedTuple):
    """Cells in order of discovery, so by the smallest depth at which they occur. ``cap`` is the length of arrays."""

    hash: np.ndarray  # (cap, 2) uint64: identifies the points or the box of the cell
    origin: np.ndarray  # (4, cap) int64: the parent, feature, split and side by which the cell was first reached
    rows: np.ndarray  # (cap,) int64: number of training rows
    size: np.ndarray  # (cap,) int64: rows, or codes in the box; smaller in each child, unless the child is the cell
    depth: np.ndarray  # (cap,) int32: smallest depth
    start: np.ndarray  # (cap,) int64: first split of the cell
    stop: np.ndarray  # (cap,) int64: end of its splits
    is_splittable: np.ndarray  # (cap,) bool: True if the cell has a split, even if the arrays do not hold it
    stats: np.ndarray  # (cap, n_stats) float64: sufficient statistics of the rows
    score: np.ndarray  # (cap,) float64: log score as a leaf
    table: np.ndarray  # (2^b,) int32: hash table of cells, -1 for a free place


class BuilderEdges(NamedTuple):
    """Splits of the cells; those of one cell are consecutive."""

    left: np.ndarray  # (cap,) int32: left child
    right: np.ndarray  # (cap,) int32: right child
    feature: np.ndarray  # (cap,) int32: coordinate
    # (cap,) int64: cut and next code, as `boxes.pack_cut` packs them, or the bits of the categories going left
    split: np.ndarray
    log_rule: np.ndarray  # (cap,) float64: log R(split | cell)


class CellScratch(NamedTuple):
    """Working memory of the builder, most of it about the current cell. C: largest number of codes of a feature."""

    # (5,) int64: numbers of cells and edges, next cell to expand, mode, length of ``tree_splits``; see `build`
    counters: np.ndarray
    box: np.ndarray  # (p, 2) int64: box of the cell: first code and end of the codes, or bits of the categories and 0
    members: np.ndarray  # (P,) int64: points of the cell
    limited: np.ndarray  # (p,) int64: nominal coordinates, and those in which the box is not the whole range
    codes: np.ndarray  # (C,) int64: codes of one feature in the cell, ascending
    slot: np.ndarray  # (C,) int64: place of each code in ``rows``, ``key`` and ``stats``, -1 if not in the cell
    rows: np.ndarray  # (C,) int64: number of training rows with each code
    key: np.ndarray  # (2, C) uint64: hash of the points with each code
    stats: np.ndarray  # (C, n_stats) float64: statistics of the points with each code
    suffix: np.ndarray  # (C + 1, n_stats) float64: sums from each code on
    side_stats: np.ndarray  # (2, n_stats) float64: statistics of the two children of a split
    side_rows: np.ndarray  # (2,) int64: rows of the two children
    side_key: np.ndarray  # (2, 2) uint64: hash of the points of each child, (side, word)
    # (n, 4) int64: splits of the cell that given trees use: feature, split, mask of the bits that identify it, edge
    tree_splits: np.ndarray


class BuilderArrays(NamedTuple):
    """All arrays of the builder."""

    points: Points
    cells: BuilderCells
    edges: BuilderEdges
    scratch: CellScratch


def distinct_points(model: TreeModel) -> Points:
    """Return the distinct rows of codes (integers for feature values) of a model, with sums over its training rows."""
    merged_rows, leaf = model.units, model.lowered.leaf
    codes, point_of_unit = np.unique(merged_rows.codes, axis=1, return_inverse=True)
    point_of_unit = point_of_unit.reshape(-1)
    n = codes.shape[1]
    unit = np.arange(merged_rows.n_units)
    stats = np.zeros((n, leaf.n_stats))
    weight = merged_rows.weight[unit & merged_rows.weight_all]
    if merged_rows.counts:
        np.add.at(stats, (point_of_unit, merged_rows.label.astype(np.int64)), weight)
    else:
        for j, column in enumerate((weight, *merged_rows.moments)):
            stats[:, j] = np.bincount(point_of_unit, weights=column, minlength=n)
    n_rows = merged_rows.rows[unit & merged_rows.rows_all]
    rows = np.bincount(point_of_unit, weights=n_rows, minlength=n).astype(np.int64)
    codes = np.ascontiguousarray(codes, dtype=np.int64)
    key = np.random.default_rng(20_261_120).integers(1, 1 << 63, size=(2, n), dtype=np.uint64)
    order = np.ascontiguousarray(np.argsort(codes, axis=1, kind="stable"))
    return Points(codes, stats, rows, key, order)


def new_scratch(model: TreeModel, points: Points, n_tree_splits: int) -> CellScratch:
    """Return the working memory of a builder, for up to ``n_tree_splits`` splits of a cell that given trees use."""
    p, n_points = points.codes.shape
    n_stats = points.stats.shape[1]
    widest = int(model.n_codes.max())
    refuse_bytes(8 * widest * (6 + 2 * n_stats), "sums by code of a feature")
    return CellScratch(
        counters=np.zeros(5, dtype=np.int64),
        box=np.zeros((p, 2), dtype=np.int64),
        members=np.empty(n_points, dtype=np.int64),
        limited=np.empty(p, dtype=np.int64),
        codes=np.empty(widest, dtype=np.int64),
        slot=np.full(widest, -1, dtype=np.int64),
        rows=np.empty(widest, dtype=np.int64),
        key=np.empty((2, widest), dtype=np.uint64),
        stats=np.empty((widest, n_stats)),
        suffix=np.empty((widest + 1, n_stats)),
        side_stats=np.zeros((2, n_stats)),
        side_rows=np.zeros(2, dtype=np.int64),
        side_key=np.zeros((2, 2), dtype=np.uint64),
        tree_splits=np.zeros((n_tree_splits, 4), dtype=np.int64),
    )


def new_cells(cap: int, n_stats: int) -> BuilderCells:
    """Return arrays for ``cap`` cells with ``n_stats`` statistics each, none added yet. ``cap`` is a power of 2."""
    return BuilderCells(
        hash=np.zeros((cap, 2), dtype=np.uint64),
        origin=np.zeros((4, cap), dtype=np.int64),
        rows=np.zeros(cap, dtype=np.int64),
        size=np.zeros(cap, dtype=np.int64),
        depth=np.zeros(cap, dtype=np.int32),
        start=np.zeros(cap, dtype=np.int64),
        stop=np.zeros(cap, dtype=np.int64),
        is_splittable=np.zeros(cap, dtype=np.bool_),
        stats=np.zeros((cap, n_stats)),
        score=np.zeros(cap),
        table=np.full(4 * cap, -1, dtype=np.int32),
    )


def longer_cells(cells: BuilderCells, n: int) -> BuilderCells:
    """Return arrays of twice the length that hold the first ``n`` cells, with a new hash table of these cells."""
    out = new_cells(2 * len(cells.rows), cells.stats.shape[1])
    for name in ("rows", "size", "depth", "start", "stop", "is_splittable", "score", "hash", "stats"):
        getattr(out, name)[:n] = getattr(cells, name)[:n]
    out.origin[:, :n] = cells.origin[:, :n]
    fill_hash_table(out.table, out.hash, n)
    return out


@jit
def fill_hash_table(table: np.ndarray, hashes: np.ndarray, n: int) -> None:
    """Enter the cells 0 to n - 1, with ``hashes`` (n, 2), into an empty table (all -1)."""
    # open addressing, a power of 2 entries
    mask = len(table) - 1
    for cell in range(n):
        place = np.int64(hashes[cell, 0] & np.uint64(0x3FFFFFFFFFFFFFFF)) & mask
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = cell


def new_edges(cap: int) -> BuilderEdges:
    """Return uninitialised arrays for ``cap`` splits."""
    ids = [np.empty(cap, dtype=np.int32) for _ in range(3)]
    return BuilderEdges(*ids, np.empty(cap, dtype=np.int64), np.empty(cap))


def longer_edges(edges: BuilderEdges) -> BuilderEdges:
    """Return arrays of twice the length that begin with the same splits."""
    return BuilderEdges(*(np.concatenate([column, np.empty_like(column)]) for column in edges))


@jit
def clear_sides(arrays: Any) -> None:
    """Set the sums of both sides of a split in the builder's scratch (numbers of rows, hashes, statistics) to zero."""
    scratch = arrays.scratch
    for side in range(2):
        scratch.side_rows[side] = 0
        for word in range(2):
            scratch.side_key[side, word] = 0
        for j in range(scratch.side_stats.shape[1]):
            scratch.side_stats[side, j] = 0.0


@jit
def add_to_side(arrays: Any, side: int, i: int) -> None:
    """Add point ``i`` (a distinct row) to the sums in the builder's scratch of one side, LEFT or RIGHT, of a split."""
    points, scratch = arrays.points, arrays.scratch
    scratch.side_rows[side] += points.rows[i]
    for word in range(2):
        scratch.side_key[side, word] ^= points.key[word, i]
    for j in range(points.stats.shape[1]):
        scratch.side_stats[side, j] += points.stats[i, j]


@jit
def sum_by_code(arrays: Any, n_members: int, k: int) -> int:
    """Sum the `n_members` points by code of coordinate `k`; return the number of codes, written in ascending order."""
    # local names keep the arrays in registers: the loop below is most of the builder's time
    points, scratch = arrays.points, arrays.scratch
    codes, point_rows, point_key, point_stats = points.codes, points.rows, points.key, points.stats
    members, slot, codes_in_cell = scratch.members, scratch.slot, scratch.codes
    rows, key, stats = scratch.rows, scratch.key, scratch.stats
    n, n_stats = 0, stats.shape[1]
    for j in range(n_members):
        # unsigned indices need no check for counting from the end
        i = np.uint64(members[j])
        code = np.uint64(codes[k, i])
        if slot[code] < 0:
            slot[code], codes_in_cell[n], rows[n] = n, codes[k, i], 0
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
def clear_code_slots(arrays: Any, n: int) -> None:
    """Undo `sum_by_code`, which found ``n`` codes: set their entries of ``slot`` in the builder's scratch to -1."""
    for j in range(n):
        arrays.scratch.slot[arrays.scratch.codes[j]] = -1


@jit
def add_code_to_side(arrays: Any, side: int, code: int) -> None:
    """Add the sums of all points with one code, as `sum_by_code` computed them, to one side of a split."""
    scratch = arrays.scratch
    s = scratch.slot[code]
    scratch.side_rows[side] += scratch.rows[s]
    for word in range(2):
        scratch.side_key[side, word] ^= scratch.key[word, s]
    for a in range(scratch.stats.shape[1]):
        scratch.side_stats[side, a] += scratch.stats[s, a]


@jit
def sum_from_right(arrays: Any, n: int) -> None:
    """Add all ``n`` codes of the cell to the right side."""
    # entry j of ``suffix`` is the sum of their statistics from the j-th on
    scratch = arrays.scratch
    clear_sides(arrays)
    for j in range(n):
        add_code_to_side(arrays, RIGHT, scratch.codes[j])
    for a in range(scratch.suffix.shape[1]):
        scratch.suffix[n, a] = 0.0
        # sums, not differences of the total: these would lose digits
        for j in range(n - 1, -1, -1):
            scratch.suffix[j, a] = scratch.suffix[j + 1, a] + scratch.stats[scratch.slot[scratch.codes[j]], a]


@jit
def move_to_left(arrays: Any, code: int) -> None:
    """Move the rows and the hash of a code from the right side to the left, and add its statistics to the left."""
    # the statistics of the right side stay: the caller reads them from `suffix`
    scratch, s = arrays.scratch, arrays.scratch.slot[code]
    add_code_to_side(arrays, LEFT, code)
    scratch.side_rows[RIGHT] -= scratch.rows[s]
    for word in range(2):
        scratch.side_key[RIGHT, word] ^= scratch.key[word, s]
