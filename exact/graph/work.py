"""The arrays of the builder of the graph, and the sums over the points of a cell in them.

The points are summed by code of one feature; the codes of either side of a split add up to the sums of a child.
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


class Points(NamedTuple):
    """Distinct rows of codes."""

    codes: np.ndarray  # (p, P) int64
    stats: np.ndarray  # (P, n_stats) float64
    rows: np.ndarray  # (P,) int64 training rows
    key: np.ndarray  # (2, P) uint64 random keys; the hash of a set is the exclusive or of its points' keys
    order: np.ndarray  # (p, P) int64: the points sorted by each feature


class Cells(NamedTuple):
    """Cells in order of discovery, so by the smallest depth at which they occur."""

    hash: np.ndarray  # (cap, 2) uint64
    origin: np.ndarray  # (4, cap) int64: the cell, feature, split and side that first led here
    rows: np.ndarray  # (cap,) int64 training rows
    size: np.ndarray  # (cap,) int64: rows or codes spanned; falls along every edge but those from a cell to itself
    depth: np.ndarray  # (cap,) int32: smallest depth
    open: np.ndarray  # (cap,) int64: bits of the groups that contain all features split on above, -1 in the root
    start: np.ndarray  # (cap,) int64: first split of the cell
    stop: np.ndarray  # (cap,) int64: end of its splits
    is_splittable: np.ndarray  # (cap,) bool: True if the cell has a split, be it listed or not
    stats: np.ndarray  # (cap, n_stats) float64
    score: np.ndarray  # (cap,) float64
    table: np.ndarray  # (2^b,) int32: hash table of cells, -1 for a free place


class Edges(NamedTuple):
    """Splits of the cells, one cell's after another's."""

    left: np.ndarray  # (cap,) int32
    right: np.ndarray  # (cap,) int32
    feature: np.ndarray  # (cap,) int32
    # (cap,) int64: cut and next code, as `boxes.pack_cut` packs them, or the bits of the categories going left
    split: np.ndarray
    log_rule: np.ndarray  # (cap,) float64: log R(split | cell)


class Scratch(NamedTuple):
    """Working memory of the builder."""

    count: np.ndarray  # (5,) int64: cells, edges, next cell to expand, what is added, wanted splits
    box: np.ndarray  # (p, 2) int64: of the cell being expanded: low and high code, or categories and 0
    members: np.ndarray  # (P,) int64: points of the cell being expanded
    asked: np.ndarray  # (p,) int64: coordinates in which the box of the cell is not the whole range
    codes: np.ndarray  # (C,) int64: codes of one feature in the cell, ascending
    slot: np.ndarray  # (C,) int64: place of a code in ``codes``, -1 elsewhere
    rows: np.ndarray  # (C,) int64: rows of each code
    key: np.ndarray  # (2, C) uint64: hash of the points of each code
    stats: np.ndarray  # (C, n_stats) float64
    suffix: np.ndarray  # (C + 1, n_stats) float64: sums from each code on
    side_stats: np.ndarray  # (2, n_stats) float64: of the two children of a split
    side_rows: np.ndarray  # (2,) int64
    side_key: np.ndarray  # (2, 2) uint64: hash of the points of each child, (side, word)
    # (w, 4) int64: feature, split, the bits that identify it, and edge, of the splits of a cell that are wanted
    wanted: np.ndarray


class Work(NamedTuple):
    """All arrays of the builder."""

    points: Points
    cells: Cells
    edges: Edges
    scratch: Scratch


def distinct_points(model: TreeModel) -> Points:
    """Return the distinct rows of codes of a model, its units merged further, since labels do not matter here."""
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
    """Return the working memory of a builder."""
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
    """Return arrays of twice the length with the first ``n`` cells, and enter these into a new hash table."""
    out = new_cells(2 * len(cells.rows), cells.stats.shape[1])
    for name in ("rows", "size", "depth", "open", "start", "stop", "is_splittable", "score", "hash", "stats"):
        getattr(out, name)[:n] = getattr(cells, name)[:n]
    out.origin[:, :n] = cells.origin[:, :n]
    refill(out.table, out.hash, n)
    return out


@jit
def refill(table: np.ndarray, hashes: np.ndarray, n: int) -> None:
    """Enter the first ``n`` cells into an empty hash table."""
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
    """Return arrays of twice the length, with the same splits first."""
    return Edges(*(np.concatenate([column, np.empty_like(column)]) for column in edges))


@jit
def clear_sides(work: Any) -> None:
    """Set the sums of both sides to zero."""
    scratch = work.scratch
    for side in range(2):
        scratch.side_rows[side] = 0
        for word in range(2):
            scratch.side_key[side, word] = 0
        for j in range(scratch.side_stats.shape[1]):
            scratch.side_stats[side, j] = 0.0


@jit
def add_to_side(work: Any, side: int, i: int) -> None:
    """Add point ``i`` to one side."""
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
    """Empty the slots of the ``n`` codes that `tabulate` found."""
    for j in range(n):
        work.scratch.slot[work.scratch.codes[j]] = -1


@jit
def add_code_to_side(work: Any, side: int, code: int) -> None:
    """Add all points of one code to a side."""
    scratch = work.scratch
    s = scratch.slot[code]
    scratch.side_rows[side] += scratch.rows[s]
    for word in range(2):
        scratch.side_key[side, word] ^= scratch.key[word, s]
    for a in range(scratch.stats.shape[1]):
        scratch.side_stats[side, a] += scratch.stats[s, a]


@jit
def sum_from_right(work: Any, n: int) -> None:
    """Put all codes on the right, and sum the statistics from each code on into ``suffix``."""
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
    """Move the rows and the hash of a code from the right to the left, and add its statistics there."""
    scratch, s = work.scratch, work.scratch.slot[code]
    add_code_to_side(work, LEFT, code)
    scratch.side_rows[RIGHT] -= scratch.rows[s]
    for word in range(2):
        scratch.side_key[RIGHT, word] ^= scratch.key[word, s]
