"""Arrays in which the graph of cells is built: points, sums by code, splits as integers, boxes and hashes of cells.

The builder lists the splits of one cell after another. For each feature the points of the cell are summed by code; the
sums of a child are the sums over the codes on its side of the split. A split of an ordered feature is one integer made
of the cut (the largest code going left) and the next code that occurs. A split of a nominal feature is an integer whose
bits are the categories going left. Only the functions of this file use the positions of the bits. All compiled
functions take ``arrays``, a packed `BuilderArrays`, whose scratch is about the current cell.
"""

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import full_mask, n_bits, sort_first
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.base import follows_design, halves_box, is_weighted, parts_rows

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
    ids = [np.empty(cap, dtype=np.int32) for _ in range(3)]
    return BuilderEdges(*ids, np.empty(cap, dtype=np.int64), np.empty(cap))


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


UPPER_BITS = 32  # number of low bits of an ordered split that hold the next code
UPPER_MASK = (1 << UPPER_BITS) - 1
CUT_MASK = ~UPPER_MASK  # the bits of an ordered split that hold the cut, which alone identifies it
# largest number of splits of one cell. A nominal feature with more than 20 categories is taken to exceed it.
MAX_SPLITS_OF_CELL = 1 << 20


@jit
def pack_cut(cut: int, next_code: int) -> int:
    """Return an ordered split as one integer: its cut (largest code going left, or -1) and the next code."""
    return (cut << UPPER_BITS) | next_code


@jit
def unpack_cut(split: int) -> int:
    """Return the cut of an ordered split (`pack_cut`), the largest code going left, or -1."""
    return split >> UPPER_BITS


def pack_cuts(cut: np.ndarray, next_code: np.ndarray) -> np.ndarray:
    """Return ordered splits as integers: `pack_cut` of arrays, outside compiled code."""
    return (cut << UPPER_BITS) | next_code


def unpack_cuts(split: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the cuts and next codes of one ordered split or of an array, as arrays, outside compiled code."""
    split = np.atleast_1d(split)
    return split >> UPPER_BITS, split & UPPER_MASK


@jit
def sends_left(split: int, code: int, nominal: bool) -> bool:
    """Return True if a split of an ordered (or ``nominal``) coordinate sends a code to the left."""
    # a nominal split has bit 1 for each category that goes left
    return (split >> code) & 1 == 1 if nominal else code <= unpack_cut(split)


@jit
def is_relative(rule: Any, rows: int) -> bool:
    """Return True if the splits of a cell with ``rows`` rows are stored relative to the low end of its box."""
    # of empty cells of grid and dyadic cuts without a weight function only the widths of the box matter
    return rows == 0 and not parts_rows(rule) and not follows_design(rule) and not is_weighted(rule)


@jit
def relative_split(model: Any, arrays: Any, k: int, split: int) -> int:
    """Return a split on ``k`` of an empty cell relative to its box, so that boxes of the same widths share one cell."""
    # a cut is counted from the first code of the box, a category by its place among those of the box
    box = arrays.scratch.box
    if not model.split_prior.feature[k].nominal:
        cut = unpack_cut(split) - box_code_range(model, arrays, k)[0]
        return pack_cut(cut, cut + 1)
    out, place, mask = np.int64(0), 0, box[k, 0]
    while mask:
        lowest = mask & -mask
        if split & lowest:
            out |= np.int64(1) << place
        place += 1
        mask &= mask - 1
    return out


@jit
def translated_bits(split: int, source: int, target: int) -> int:
    """Translate a set of categories, as bits, from one box to another: the j-th of `source` to the j-th of `target`."""
    out = np.int64(0)
    while source:
        if split & source & -source:
            out |= target & -target
        source &= source - 1
        target &= target - 1
    return out


@jit
def box_code_range(model: Any, arrays: Any, k: int) -> tuple[int, int]:
    """Return the first code and the end of the codes of ordered coordinate `k` in the current cell's box."""
    # a feature with missing values has two coordinates (missing first, missing last); both limit its range
    box, paired = arrays.scratch.box, model.split_prior.feature[k].other_coordinate
    return max(box[k, 0], box[paired, 0]), min(box[k, 1], box[paired, 1])


@jit
def n_codes_in_box(model: Any, arrays: Any, k: int) -> int:
    """Return the number of codes, or of categories, of coordinate ``k`` in the box in the scratch."""
    if model.split_prior.feature[k].nominal:
        return n_bits(arrays.scratch.box[k, 0])
    low, high = box_code_range(model, arrays, k)
    return high - low


@jit
def bound_n_splits(model: Any, arrays: Any, n_members: int) -> int:
    """Return an upper bound on the splits of the cell, MAX_SPLITS_OF_CELL + 1 if a feature has over 20 categories."""
    split_prior = model.split_prior
    total = 0
    for k in range(len(split_prior.feature)):
        n_codes = n_codes_in_box(model, arrays, k)
        if halves_box(split_prior):
            n_codes = 0
        elif parts_rows(split_prior):
            n_codes = min(n_codes, n_members)
        if split_prior.feature[k].nominal:
            if n_codes > 20:
                return MAX_SPLITS_OF_CELL + 1
            n_codes = 1 << max(n_codes - 1, 0)
        total += n_codes + 2
    return total


@jit
def set_root_box(model: Any, arrays: Any) -> None:
    """Set the box in the builder's scratch to that of the root, all codes of all coordinates."""
    box, feature = arrays.scratch.box, model.split_prior.feature
    for k in range(len(feature)):
        box[k, 0] = full_mask(feature[k].n_codes) if feature[k].nominal else 0
        box[k, 1] = 0 if feature[k].nominal else feature[k].n_codes


@jit
def narrow_box(model: Any, arrays: Any, k: int, split: int, side: int) -> None:
    """Narrow the box in the builder's scratch to one side, LEFT or RIGHT, of a split on coordinate ``k``."""
    box = arrays.scratch.box
    if model.split_prior.feature[k].nominal:
        box[k, 0] &= split if side == LEFT else ~split
    elif side == LEFT:
        box[k, 1] = min(box[k, 1], unpack_cut(split) + 1)
    else:
        box[k, 0] = max(box[k, 0], unpack_cut(split) + 1)


@jit
def find_members(model: Any, arrays: Any, cell: int) -> int:
    """Write box and points of a cell, which follow from the path by which it was first reached."""
    # return the number of points
    # only points in the range of the most selective ordered coordinate are examined
    points, cells, box, members = arrays.points, arrays.cells, arrays.scratch.box, arrays.scratch.members
    feature, ancestor = model.split_prior.feature, cell
    set_root_box(model, arrays)
    while cells.origin[PARENT, ancestor] >= 0:
        k, split, side = cells.origin[FEATURE, ancestor], cells.origin[SPLIT, ancestor], cells.origin[SIDE, ancestor]
        narrow_box(model, arrays, k, split, side)
        ancestor = cells.origin[PARENT, ancestor]
    if cells.rows[cell] == 0:
        return 0
    best_feature, begin, end = 0, 0, len(points.rows)
    limited, n_limited = arrays.scratch.limited, 0
    for k in range(len(feature)):
        if feature[k].nominal or box[k, 0] > 0 or box[k, 1] < feature[k].n_codes:
            limited[n_limited] = k
            n_limited += 1
        if not feature[k].nominal and (box[k, 0] > 0 or box[k, 1] < feature[k].n_codes):
            first, last = _first_with_code(points, k, box[k, 0]), _first_with_code(points, k, box[k, 1])
            if last - first < end - begin:
                best_feature, begin, end = k, first, last
    n = 0
    for j in range(begin, end):
        i = points.order[best_feature, j]
        in_box = True
        for i_limited in range(n_limited):
            k = limited[i_limited]
            code = points.codes[k, i]
            in_box &= (box[k, 0] >> code) & 1 == 1 if feature[k].nominal else box[k, 0] <= code < box[k, 1]
            if not in_box:
                break
        if in_box:
            members[n] = i
            n += 1
    return n


@jit
def _first_with_code(points: Any, k: int, code: int) -> int:
    """Return the first place, among the points sorted by coordinate ``k``, with a code of at least ``code``."""
    low, high = 0, points.order.shape[1]
    while low < high:
        middle = (low + high) // 2
        if points.codes[k, points.order[k, middle]] < code:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def box_hash(model: Any, arrays: Any, is_empty: bool) -> tuple[np.uint64, np.uint64]:
    """Return the two words of the hash of the box, of its widths alone if the cell ``is_empty``."""
    box, feature = arrays.scratch.box, model.split_prior.feature
    word0, word1 = np.uint64(2) + np.uint64(is_empty), np.uint64(3)
    for k in range(box.shape[0]):
        first = n_codes_in_box(model, arrays, k) if is_empty else box[k, 0]
        second = 0 if is_empty else box[k, 1]
        if not is_empty and feature[k].other_coordinate < k:
            # missing values have the lowest code of one coordinate and the highest of the other: of the second
            # coordinate only this matters, whether the box still contains them
            first = np.int64(box[feature[k].other_coordinate, 0] == 0 and box[k, 1] == feature[k].n_codes)
            second = 0
        elif not is_empty and feature[k].other_coordinate > k:
            first, second = box_code_range(model, arrays, k)
        word0 = mix_hash(mix_hash(word0 ^ np.uint64(first)) ^ np.uint64(second))
        word1 = mix_hash(mix_hash(word1 + np.uint64(first)) + np.uint64(second))
    return word0, word1


@jit
def mix_hash(h: np.uint64) -> np.uint64:
    """Return a pseudo-random 64-bit function of ``h``, for hashes."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (h ^ (h >> np.uint64(31))) + np.uint64(0x9E3779B97F4A7C15)
