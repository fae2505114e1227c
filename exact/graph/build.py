"""Construction of the graph of cells: all cells, breadth-first, with a bound on their number, or those of given trees.

The trees below a cell depend only on the set of its points (local cuts), or on its box (grid). A 128-bit hash of this
set or box identifies the cell. Of an empty box only the numbers of codes matter, unless cuts have weights. The depth is
part of the hash if weights depend on it. The rows of a cell are not stored: they follow from the splits on the path by
which the cell was first reached.

The lower bound of the number of cells, by which graphs that are far too large are refused: under grids and dyadic cuts
a cell is a box, and the boxes around one row are counted. Under local cuts a cell is the set of rows in a box, so boxes
count only if they contain different rows. Take a small *core*, a box around a row. The *arm* of a side of the core are
the rows beyond that side which are within the core in all other coordinates. A box that contains the core has, for each
side, a cut between two values of its arm, or none. Two such boxes that differ at a side contain different rows: those
of this arm between the two cuts, which lie in both boxes as regards all other sides. So an arm with m cuts makes m + 1
choices, independently of the others, and

    number of cells  >=  product over arms of (m + 1),

of which those with at most D cuts are reached within depth D. Cores of several sizes around several rows are tried.

**Cells of given trees**, and of their neighbours (formulas, 12.4), are processed by decreasing size, so that all trees
that reach a cell are known when it is processed. All splits of a cell are listed once, to compute their probabilities.
The splits that the trees use are kept, and their children are processed later.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import log
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import deposit_bits, full_mask, n_bits
from pactree_mcmc.core.checks import check_type
from pactree_mcmc.core.compile.jit import jit, pack
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.leaf.compiled import leaf_score
from pactree_mcmc.model.split_prior.base import (
    ROWS_LEFT,
    ROWS_RIGHT,
    call_uncompiled,
    follows_design,
    halves_box,
    has_empty_sides,
    is_weighted,
    least_rows,
    new_cut,
    nominal_split_weight,
    parts_box,
    parts_rows,
    set_cell_ends,
    takes_turns,
    weight_between_codes,
)
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.coded import CodedTrees

from ..limits import Bar, Intractable, Limit, check_cells, next_size, stage
from .boxes import (
    CUT_MASK,
    FEATURE,
    LEFT,
    MAX_SPLITS_OF_CELL,
    PARENT,
    RIGHT,
    SIDE,
    SPLIT,
    BuilderArrays,
    BuilderEdges,
    add_code_to_side,
    add_to_side,
    bound_n_splits,
    box_code_range,
    box_hash,
    clear_code_slots,
    clear_sides,
    distinct_points,
    find_members,
    is_relative,
    longer_cells,
    mix_hash,
    move_to_left,
    n_codes_in_box,
    narrow_box,
    new_cells,
    new_edges,
    new_scratch,
    pack_cut,
    pack_cuts,
    relative_split,
    sends_left,
    set_root_box,
    sum_by_code,
    sum_from_right,
    translated_bits,
    unpack_cut,
)
from .cells import CellGraph, with_slots
from .designs import build_dyadic, build_fixed

# entries of `CellScratch.counters`: cells, edges, next cell to expand, mode, splits of given trees in the cell
N_CELLS, N_EDGES, NEXT_CELL, MODE, N_TREE_SPLITS = range(5)
# modes: add every new child to the graph, only children of the splits that given trees use, or none
ADD, ADD_TREE_SPLITS, FIND = range(3)
NO_CELL = -1  # number in place of a child that the graph does not contain
# results of a compiled step: done, longer arrays of cells or of edges needed, impossible, or the budget is spent
FINISHED, MORE_CELLS, MORE_EDGES, TOO_MANY_SPLITS, PAUSED = range(5)
INFINITE_ROWS = np.int64(1 << 62)  # number of rows larger than that of any table


@jit
def build_cells(model: Any, arrays: Any, budget: int) -> int:
    """Add the root and expand cells in order of discovery; PAUSED after `budget` steps."""
    # if an array is full, MORE_CELLS or MORE_EDGES is returned: the caller makes it longer and calls again
    counters, cells, p = arrays.scratch.counters, arrays.cells, len(model.split_prior.feature)
    if counters[N_CELLS] == 0:
        add_root(model, arrays)
    while counters[NEXT_CELL] < counters[N_CELLS]:
        if budget <= 0:
            return PAUSED
        cell = counters[NEXT_CELL]
        cells.start[cell] = counters[N_EDGES]
        n_members = np.int64(0)
        if cells.depth[cell] < model.prior.depth_limit:
            n_members = np.int64(find_members(model, arrays, cell))
            status = storage_status(arrays, bound_n_splits(model, arrays, n_members))
            if status != FINISHED:
                return status
            expand(model, arrays, cell, n_members)
        counters[NEXT_CELL] += 1
        cells.stop[cell] = counters[N_EDGES]
        cells.is_splittable[cell] = cells.stop[cell] > cells.start[cell]
        budget -= 1 + p * n_members + cells.stop[cell] - cells.start[cell]
    return FINISHED


@jit
def storage_status(arrays: Any, n_splits: int) -> int:
    """Return FINISHED if the arrays can hold ``n_splits`` more splits, of one cell, with their children."""
    counters, cells = arrays.scratch.counters, arrays.cells
    if n_splits > MAX_SPLITS_OF_CELL:
        return TOO_MANY_SPLITS
    n_cells = counters[N_CELLS] + 2 * n_splits
    if n_cells + 2 > len(cells.rows) or 2 * n_cells > len(cells.table):
        return MORE_CELLS
    return MORE_EDGES if counters[N_EDGES] + n_splits > len(arrays.edges.left) else FINISHED


@jit
def add_root(model: Any, arrays: Any) -> None:
    """Add the root, the cell of all points (distinct rows), to the empty arrays of cells."""
    points, scratch = arrays.points, arrays.scratch
    clear_sides(arrays)
    for i in range(len(points.rows)):
        add_to_side(arrays, LEFT, i)
    set_root_box(model, arrays)
    size = scratch.side_rows[LEFT]
    if not parts_rows(model.split_prior):
        size = 0
        for k in range(len(model.split_prior.feature)):
            size += n_codes_in_box(model, arrays, k)
    find_or_add(model, arrays, np.uint64(1), np.uint64(0), LEFT, -1, 0, 0, size)


@jit
def find_or_add(
    model: Any,
    arrays: Any,
    word0: np.uint64,
    word1: np.uint64,
    side: int,
    parent: int,
    feature: int,
    split: int,
    size: int,
) -> int:
    """Return the number of the cell on one side of a split, found by its hash."""
    # a new cell is added, or NO_CELL in mode FIND
    # the depth enters the hash if it matters; `parent` (-1: none), `feature`, `split`, `side` say how it was reached
    cells, scratch, counters = arrays.cells, arrays.scratch, arrays.scratch.counters
    if model.split_prior.by_depth and parent >= 0:
        below = np.uint64(cells.depth[parent] + 1)
        word0, word1 = mix_hash(word0 ^ below), mix_hash(word1 + below)
    mask = len(cells.table) - 1
    place = np.int64(word0 & np.uint64(0x3FFFFFFFFFFFFFFF)) & mask
    while cells.table[place] >= 0:
        cell = np.int64(cells.table[place])
        if cells.hash[cell, 0] == word0 and cells.hash[cell, 1] == word1:
            return cell
        place = (place + 1) & mask
    if counters[MODE] == FIND:
        return NO_CELL
    new_cell = counters[N_CELLS]
    counters[N_CELLS] += 1
    cells.table[place] = new_cell
    cells.hash[new_cell, 0], cells.hash[new_cell, 1] = word0, word1
    cells.origin[PARENT, new_cell], cells.origin[FEATURE, new_cell] = parent, feature
    cells.origin[SPLIT, new_cell], cells.origin[SIDE, new_cell] = split, side
    cells.rows[new_cell], cells.size[new_cell] = scratch.side_rows[side], size
    cells.depth[new_cell] = cells.depth[parent] + 1 if parent >= 0 else 0
    for j in range(cells.stats.shape[1]):
        cells.stats[new_cell, j] = scratch.side_stats[side, j]
    cells.score[new_cell] = leaf_score(model.leaf, cells.stats, new_cell)
    return new_cell


@jit
def expand(model: Any, arrays: Any, cell: int, n_members: int) -> None:
    """Add the splits of the cell in the scratch, with log R, and children as the mode allows."""
    # R of a split on feature k is w_k / sum of w_j over the features j with a split * 1 / number of splits on k;
    # weights of splits replace the last factor by their fraction (formulas, section 2)
    rule, counters = model.split_prior, arrays.scratch.counters
    first, total = counters[N_EDGES], 0.0
    for k in range(len(rule.feature)):
        weight, first_of_feature = rule.feature[k].weight, counters[N_EDGES]
        _add_splits_on(model, arrays, cell, n_members, k)
        n_splits = counters[N_EDGES] - first_of_feature
        if n_splits > 0 and is_weighted(rule):
            total += _log_fractions_into(rule, arrays, weight, first_of_feature, counters[N_EDGES])
        elif n_splits > 0:
            total += weight
            for e in range(first_of_feature, counters[N_EDGES]):
                arrays.edges.log_rule[e] = log(weight) - log(float(n_splits))
    for e in range(first, counters[N_EDGES]):
        arrays.edges.log_rule[e] -= log(total)


@jit
def has_split(model: Any, arrays: Any, cell: int, n_members: int) -> bool:
    """Return True if a cell of ``n_members`` points in the scratch has a split. In mode FIND no child is added."""
    counters = arrays.scratch.counters
    before = counters[N_EDGES]
    for k in range(len(model.split_prior.feature)):
        _add_splits_on(model, arrays, cell, n_members, k)
        if counters[N_EDGES] > before:
            counters[N_EDGES] = before
            return True
    return False


@jit
def _add_splits_on(model: Any, arrays: Any, cell: int, n_members: int, k: int) -> None:
    """Add the splits on coordinate ``k``, whose weights `expand` turns into log R."""
    # none if its weight is 0 or it is not its turn
    rule = model.split_prior
    feature = rule.feature[k]
    if feature.weight <= 0.0:
        return
    if takes_turns(rule) and feature.turn != arrays.cells.depth[cell] % rule.n_turns:
        return
    if feature.nominal:
        _add_partitions(model, arrays, cell, n_members, k)
    else:
        _add_cuts(model, arrays, cell, n_members, k)


@jit
def add_splits_between_cells(model: Any, arrays: Any, cell: int, n_members: int, mode: int) -> None:
    """Add the splits of a cell whose two children are in the graph, after adding the children that ``mode`` adds."""
    # all splits are listed before those with a child outside are removed, so that R is that among all splits of the
    # cell
    cells, edges = arrays.cells, arrays.edges
    counters, tree_splits = arrays.scratch.counters, arrays.scratch.tree_splits
    first, counters[MODE] = counters[N_EDGES], mode
    expand(model, arrays, cell, n_members)
    cells.is_splittable[cell] = counters[N_EDGES] > first
    end = first
    for e in range(first, counters[N_EDGES]):
        if edges.left[e] != NO_CELL and edges.right[e] != NO_CELL:
            edges.left[end], edges.right[end], edges.feature[end] = edges.left[e], edges.right[e], edges.feature[e]
            edges.split[end], edges.log_rule[end] = edges.split[e], edges.log_rule[e]
            for i in range(counters[N_TREE_SPLITS]):
                if tree_splits[i, 3] == e:
                    tree_splits[i, 3] = end
            end += 1
    cells.start[cell], cells.stop[cell], counters[N_EDGES] = first, end, end


@jit
def expand_some(model: Any, arrays: Any, cells_to_expand: np.ndarray, mode: int) -> int:
    """Add the splits of ``cells_to_expand`` (m,): in mode FIND those between cells of the graph, in mode ADD all."""
    # a cell gets all its splits, or none if an array may lack room; `counters[NEXT_CELL]` counts the finished cells
    counters, cells, n_rows_to_split = arrays.scratch.counters, arrays.cells, rows_that_ensure_split(model, arrays)
    while counters[NEXT_CELL] < len(cells_to_expand):
        cell = cells_to_expand[counters[NEXT_CELL]]
        n_members = find_members(model, arrays, cell)
        # room for the splits of a child too, which are listed and removed
        status = storage_status(arrays, 2 * bound_n_splits(model, arrays, n_members))
        if status != FINISHED:
            return status
        n_before = counters[N_CELLS]
        add_splits_between_cells(model, arrays, cell, n_members, mode)
        counters[MODE] = FIND
        for new in range(n_before, counters[N_CELLS]):
            is_sure = cells.rows[new] >= n_rows_to_split
            cells.is_splittable[new] = is_sure or has_split(model, arrays, new, find_members(model, arrays, new))
        counters[NEXT_CELL] += 1
    return FINISHED


@jit
def rows_that_ensure_split(model: Any, arrays: Any) -> int:
    """Return a number of rows from which on a cell surely has a split, INFINITE_ROWS if there is none."""
    split_prior, rows = model.split_prior, arrays.points.rows
    if not parts_rows(split_prior) or is_weighted(split_prior) or least_rows(split_prior) > 1:
        return INFINITE_ROWS
    for k in range(len(split_prior.feature)):
        if split_prior.feature[k].weight <= 0.0:
            return INFINITE_ROWS
    max_rows = np.int64(0)
    for i in range(len(rows)):
        max_rows = max(max_rows, rows[i])
    return max_rows + 1


@jit
def _log_fractions_into(rule: Any, arrays: Any, weight: float, first: int, last: int) -> float:
    """Replace the weights of a cell's edges on one feature by logs of R, before R is divided over features."""
    # each split gets the part of the feature's weight that its own weight is of the sum; the returned number is the
    # weight, times the sum of the splits' weights if `rule` compares splits across features, and R is the part divided
    # by the sum of what is returned for all features
    edges, mass = arrays.edges, 0.0
    for e in range(first, last):
        mass += edges.log_rule[e]
    fraction = weight * mass if rule.over_cell else weight
    for e in range(first, last):
        edges.log_rule[e] = log(fraction) + log(edges.log_rule[e]) - log(mass)
    return fraction


@jit
def _add_cuts(model: Any, arrays: Any, cell: int, n_members: int, k: int) -> None:
    """Add every cut of a cell of ``n_members`` points on ordered coordinate ``k``, with its weight in ``log_rule``."""
    # cuts are those between codes in the cell (local), inside the box (grid), or its middle (dyadic); with empty sides
    # allowed also those that send all rows to one side; too few rows on a side, or weight 0, exclude a cut
    rule, scratch = model.split_prior, arrays.scratch
    n, n_codes = sum_by_code(arrays, n_members, k), rule.feature[k].n_codes
    first, last = 1, n
    low, high = box_code_range(model, arrays, k)
    if parts_box(rule):
        first, last = low + 1, high
    elif halves_box(rule):
        first = (low + high) // 2
        last = first + 1 if high - low >= 2 else first
    elif has_empty_sides(rule):
        first, last = 0, n + 1 if n > 0 else 1
    sum_from_right(arrays, n)
    # without weights the array is not used
    cut_inputs = _new_cut_inputs(model, arrays, cell, k, n, first, last) if is_weighted(rule) else scratch.suffix
    n_moved, n_listed = 0, 0
    for place in range(first, last):
        cut, next_code = place - 1, place
        if parts_rows(rule):
            cut = scratch.codes[place - 1] if place > 0 else -1
            next_code = scratch.codes[place] if place < n else n_codes
            if place == n:
                cut = n_codes - 1
        while n_moved < n and scratch.codes[n_moved] <= cut:
            move_to_left(arrays, scratch.codes[n_moved])
            n_moved += 1
        for a in range(scratch.suffix.shape[1]):
            scratch.side_stats[RIGHT, a] = scratch.suffix[n_moved, a]
        if min(scratch.side_rows[LEFT], scratch.side_rows[RIGHT]) < least_rows(rule):
            continue
        weight = 1.0
        if is_weighted(rule):
            if parts_rows(rule):
                cut_inputs[0, ROWS_LEFT], cut_inputs[0, ROWS_RIGHT] = scratch.side_rows[LEFT], scratch.side_rows[RIGHT]
            weight = weight_between_codes(rule, cut_inputs, k, cut, next_code, n_listed)
            n_listed += 1
        if weight > 0.0:
            _add_edge(model, arrays, cell, k, pack_cut(cut, next_code), weight)
    clear_code_slots(arrays, n)


@jit
def _new_cut_inputs(model: Any, arrays: Any, cell: int, k: int, n: int, first: int, last: int) -> np.ndarray:
    """Return what the weight function of a split prior is given about all cuts of a cell on `k`."""
    rule, scratch, depth = model.split_prior, arrays.scratch, np.int64(arrays.cells.depth[cell])
    low, high = box_code_range(model, arrays, k)
    n_cuts = last - first
    if parts_rows(rule):
        n_cuts, below = 0, 0
        low, high = scratch.codes[0], scratch.codes[n - 1] + 1
        for j in range(n - 1):
            below += scratch.rows[scratch.slot[scratch.codes[j]]]
            n_cuts += min(below, arrays.cells.rows[cell] - below) >= least_rows(rule)
    out = new_cut(rule, k, float(n_cuts), depth)
    set_cell_ends(rule, out, k, low, high - 1)
    return out


@jit
def _add_partitions(model: Any, arrays: Any, cell: int, n_members: int, k: int) -> None:
    """Add every partition of the categories of `k` in the cell (local) or the box (grid) into two sides."""
    # the smallest category goes left
    rule, scratch = model.split_prior, arrays.scratch
    n, everything = sum_by_code(arrays, n_members, k), full_mask(rule.feature[k].n_codes)
    present = np.int64(0)
    for j in range(n):
        present |= np.int64(1) << scratch.codes[j]
    parted = scratch.box[k, 0] if parts_box(rule) else present
    n_partitions = (np.int64(1) << max(n_bits(parted) - 1, 0)) - 1
    trivial = (2 if n > 0 else 1) if has_empty_sides(rule) else 0
    weight = 1.0
    if is_weighted(rule):
        weight = nominal_split_weight(rule, k, float(n_partitions), np.int64(arrays.cells.depth[cell]))
    for number in range(-trivial, n_partitions if weight > 0.0 else 0):
        if number < 0:
            split = everything if number == -trivial else np.int64(0)
        else:
            split = deposit_bits(parted, 1 + 2 * number)
        clear_sides(arrays)
        for j in range(n):
            add_code_to_side(arrays, LEFT if sends_left(split, scratch.codes[j], True) else RIGHT, scratch.codes[j])
        rows_left, rows_right = scratch.side_rows[LEFT], scratch.side_rows[RIGHT]
        if min(rows_left, rows_right) < least_rows(rule):
            continue
        if not parts_box(rule) and rows_left >= rows_right:
            split |= everything & ~present
        _add_edge(model, arrays, cell, k, split, weight)
    clear_code_slots(arrays, n)


@jit
def _add_edge(model: Any, arrays: Any, cell: int, k: int, split: int, weight: float) -> None:
    """Add a split on ``k``, with its weight in `log_rule`, whose sides are summed in the scratch, and its children."""
    # in mode ADD_TREE_SPLITS the children of a split that no given tree uses are NO_CELL
    edges, counters = arrays.edges, arrays.scratch.counters
    e = counters[N_EDGES]
    edges.left[e] = edges.right[e] = NO_CELL
    if counters[MODE] != ADD_TREE_SPLITS or _mark_tree_split(arrays, k, split):
        edges.left[e] = _child(model, arrays, cell, k, split, LEFT)
        edges.right[e] = _child(model, arrays, cell, k, split, RIGHT)
    edges.feature[e], edges.log_rule[e] = k, weight
    if is_relative(model.split_prior, arrays.cells.rows[cell]):
        split = relative_split(model, arrays, k, split)
    edges.split[e] = split
    counters[N_EDGES] += 1


@jit
def _mark_tree_split(arrays: Any, k: int, split: int) -> bool:
    """Return True if given trees use a split of the current cell, and note the number of its edge, the next one."""
    tree_splits, counters = arrays.scratch.tree_splits, arrays.scratch.counters
    for i in range(counters[N_TREE_SPLITS]):
        if tree_splits[i, 0] == k and (split & tree_splits[i, 2]) == tree_splits[i, 1]:
            tree_splits[i, 3] = counters[N_EDGES]
            return True
    return False


@jit
def _child(model: Any, arrays: Any, cell: int, k: int, split: int, side: int) -> int:
    """Return the number of the child on one side of a split, and add the child if it is new and the mode allows."""
    # if cells are sets of rows, a side with all of them is the cell itself
    rule, scratch, cells = model.split_prior, arrays.scratch, arrays.cells
    if parts_rows(rule):
        if scratch.side_rows[side] == cells.rows[cell]:
            return cell
        word0, word1 = scratch.side_key[side, 0], scratch.side_key[side, 1]
        return find_or_add(model, arrays, word0, word1, side, cell, k, split, scratch.side_rows[side])
    old_low, old_high = scratch.box[k, 0], scratch.box[k, 1]
    n_coordinates = 2 if rule.feature[k].other_coordinate != k else 1
    old_width = n_codes_in_box(model, arrays, k)
    narrow_box(model, arrays, k, split, side)
    size = cells.size[cell] - n_coordinates * (old_width - n_codes_in_box(model, arrays, k))
    word0, word1 = box_hash(model, arrays, is_relative(rule, scratch.side_rows[side]))
    child = find_or_add(model, arrays, word0, word1, side, cell, k, split, size)
    scratch.box[k, 0], scratch.box[k, 1] = old_low, old_high
    return child


N_CENTRES = 32  # number of rows around which boxes of grids and dyadic cuts are counted
N_CORES = 4  # number of rows around which cores are tried under local cuts
# fractions of the rows within a core in each coordinate; 0: the rows with the value of the middle row
CORE_FRACTIONS = (0.0, 0.5, 0.8, 0.9, 0.96)
# numbers of coordinates that cores have, besides all; the others do not limit them
NUMBERS_OF_COORDINATES = (3, 6, 12, 24)


def least_boxes(model: TreeModel, codes: np.ndarray) -> int:
    """Return the number of boxes around one of the rows with ``codes`` (q, P), under grids and dyadic cuts."""
    # weights may rule splits out, and splits that take turns are not counted
    rule, best = model.split_prior, 1
    if not rule.has_equal_weights or call_uncompiled(takes_turns, rule):
        return 1
    for i in np.linspace(0, codes.shape[1] - 1, min(codes.shape[1], N_CENTRES)).astype(int):
        sides = []
        for k in np.flatnonzero(rule.weights(model.n_features) > 0):
            c, n = int(codes[k, i]), int(model.n_codes[k])
            if call_uncompiled(halves_box, rule):
                sides.append([1] * (int(rule.levels) + 1))
            elif model.columns.categories[k] is not None:
                sides.append([1, (1 << (n - 1)) - 1])
            else:
                sides.append([1, n - 1, c * (n - 1 - c)])
        best = max(best, _count_boxes(sides, int(model.prior_tables.depth_limit)))
    return best


def least_row_sets(model: TreeModel, codes: np.ndarray, rows: np.ndarray) -> int:
    """Return a lower bound on the number of sets of rows that are cells under local cuts."""
    if not model.split_prior.has_equal_weights:
        return 1
    limit, least = int(model.prior_tables.depth_limit), int(model.split_prior.min_leaf)
    # the second coordinate of a feature with missing values would empty its arms
    usable = np.flatnonzero(model.split_prior.coordinate_weights(model.columns)[: model.n_features] > 0.0)
    usable = usable[np.argsort([-len(np.unique(codes[k])) for k in usable], kind="stable")]
    ordered = np.sort(codes, axis=1)
    n, best = codes.shape[1], 1
    for i in np.linspace(0, n - 1, N_CORES + 2).astype(int)[1:-1]:
        for fraction in CORE_FRACTIONS:
            for n_used in sorted({min(m, len(usable)) for m in (*NUMBERS_OF_COORDINATES, len(usable))} - {0}):
                core = _Core(model, codes, rows, usable[:n_used])
                best = max(best, _count_boxes(core.sides(ordered, int(i), fraction, least), limit))
    return best


class _Core:
    """Cores over the points with ``codes`` (q, P), each with a number of ``rows`` (P,), in ``coordinates``."""

    def __init__(self, model: TreeModel, codes: np.ndarray, rows: np.ndarray, coordinates: np.ndarray) -> None:
        self.codes, self.rows, self.coordinates = codes, rows, coordinates
        self.is_nominal = [model.columns.categories[k] is not None for k in coordinates.tolist()]

    def sides(self, ordered: np.ndarray, centre: int, fraction: float, least: int) -> list[list[int]]:
        """Return for each coordinate the numbers of boxes around the core by the number of their cuts in it."""
        n = len(self.rows)
        half = int(0.5 * fraction * n)
        low, high = np.empty(len(self.coordinates), dtype=np.int64), np.empty(len(self.coordinates), dtype=np.int64)
        for j, k in enumerate(self.coordinates.tolist()):
            code = self.codes[k, centre]
            low[j] = high[j] = code
            if not self.is_nominal[j]:
                place = int(np.searchsorted(ordered[k], code))
                low[j] = min(code, ordered[k, max(place - half, 0)])
                high[j] = max(code, ordered[k, min(place + half, n - 1)])
        codes = self.codes[self.coordinates]
        is_outside = (codes < low[:, None]) | (codes > high[:, None])
        n_outside = is_outside.sum(axis=0)
        if self.rows[n_outside == 0].sum() < least:
            return []
        out = []
        for j in range(len(self.coordinates)):
            arm = is_outside[j] & (n_outside == 1)
            values, place = np.unique(codes[j, arm], return_inverse=True)
            counts = np.bincount(place.reshape(-1), weights=self.rows[arm], minlength=len(values))
            if self.is_nominal[j]:
                out.append([1, (1 << int((counts >= least).sum())) - 1])
                continue
            below = values < low[j]
            left = int((np.cumsum(counts[below]) >= least).sum())
            right = int((np.cumsum(counts[~below][::-1]) >= least).sum())
            out.append([1, left + right, left * right])
        return out


def _count_boxes(sides: list[list[int]], depth: int) -> int:
    """Return the number of boxes with at most ``depth`` cuts, given their numbers by cuts in each coordinate."""
    boxes = [1]
    for side in sides:
        # integers of any size
        boxes = np.convolve(np.array(boxes, dtype=object), np.array(side, dtype=object))[: depth + 1].tolist()
    return sum(boxes)


FIRST_BUDGET = 1 << 18  # number of steps of the first call of the compiled builder, which takes some ten milliseconds


def refuse_shared_leaves(model: TreeModel) -> None:
    """Raise ValueError if the score of the leaf model is not a sum over leaves, because leaves share a parameter."""
    if not model.leaf.has_additive_score:
        raise ValueError(
            f"the score of {type(model.leaf).__name__} is not a sum over leaves; the exact engine cannot use it: "
            "give what the leaves share (NormalKnownVariance(sigma2, m0, k0)), or sample."
        )


def build_graph(model: TreeModel, max_cells: int = 20_000_000, *, progress: bool = False) -> CellGraph:
    """Build the graph of all cells that the trees of a model can have.

    If ``progress`` is True, a bar is shown once building takes more than a second. Cells that were built before Ctrl-C
    are kept until the graph of another model is built, and used if this function is called again with the same model.

    Raises
    ------
    Intractable
        If there are more than ``max_cells`` cells, or more than fit into the memory of the machine, or more than 32
        splits for each cell allowed. The message names two settings to lower. Cells are counted while they are built;
        a lower bound refuses graphs that are far too large before.
    """
    check_type("model", model, TreeModel, "a TreeModel")
    limit = Limit(check_cells(max_cells))
    try:
        return _build(model, limit, progress)
    except Intractable as refusal:
        raise refusal.with_advice(f"Lower {_settings_to_lower(model)}, or sample.") from None


def _settings_to_lower(model: TreeModel) -> str:
    rule, depth = model.split_prior, f"max_depth of {type(model.tree_prior).__name__}"
    if call_uncompiled(follows_design, rule):
        return f"{depth} or the depth of the given tree"
    names = {True: "the number of cuts of GridCuts", False: "max_cuts of LocalCuts"}
    first = "levels of DyadicCuts" if call_uncompiled(halves_box, rule) else names[call_uncompiled(parts_box, rule)]
    return f"{first} or {depth}, raise max_cells as far as memory allows"


def _build(model: TreeModel, limit: Limit, progress: bool) -> CellGraph:
    """Build the graph by the method for its split prior: a fixed tree, dyadic cuts, or search with a hash table."""
    if call_uncompiled(follows_design, model.split_prior):
        limit.refuse_above(int(np.sum(model.shape.depth <= model.prior_tables.depth_limit)))
        return with_slots(model, build_fixed(model))
    if call_uncompiled(halves_box, model.split_prior) and not model.columns.twins:
        limit.refuse_above(least_boxes(model, model.units.codes))
        with stage(progress, "building", None) as bar:
            return with_slots(model, build_dyadic(model, limit, bar))
    # a graph that an earlier call left at Ctrl-C, if it is that of this model
    entry = _interrupted.pop() if _interrupted else None
    building = entry[1] if entry is not None and entry[0] is model else None
    if isinstance(building, CellGraph):
        return building
    if building is None:
        building = Building(model, limit)
        codes, is_local = building.points.codes, call_uncompiled(parts_rows, model.split_prior)
        least = least_row_sets(model, codes, building.points.rows) if is_local else least_boxes(model, codes)
        limit.refuse_above(least)
    building.limit = limit
    with stage(progress, "building", None) as bar:
        building.build_all(bar)
    columns = building.graph_columns()
    # free the builder's arrays before the slots are made
    del building
    return with_slots(model, columns)


class Building:
    """Cells and splits of a graph that is being built, in arrays that are made longer as they fill."""

    def __init__(self, model: TreeModel, limit: Limit, max_tree_splits: int = 1) -> None:
        self.model, self.limit, self.points = model, limit, distinct_points(model)
        self._lowered = pack(model.lowered)
        self._scratch = new_scratch(model, self.points, max_tree_splits)
        self._cells, self._edges = new_cells(1 << 12, self.points.stats.shape[1]), new_edges(1 << 14)

    @property
    def n_cells(self) -> int:
        return int(self._scratch.counters[N_CELLS])

    @property
    def n_edges(self) -> int:
        return int(self._scratch.counters[N_EDGES])

    @property
    def n_expanded(self) -> int:
        return int(self._scratch.counters[NEXT_CELL])

    def remove_splits(self) -> None:
        self._scratch.counters[[NEXT_CELL, N_EDGES, N_TREE_SPLITS]] = 0

    def run(self, step: Callable[..., int], *arguments: Any) -> None:
        """Call ``step(model, arrays, *arguments)`` until it returns FINISHED, making arrays longer."""
        # intractable above the limit
        status = PAUSED
        while status != FINISHED:
            arrays = BuilderArrays(self.points, self._cells, self._edges, self._scratch)
            status = step(self._lowered, pack(arrays), *arguments)
            if status == TOO_MANY_SPLITS:
                most = MAX_SPLITS_OF_CELL
                reason = ", on a nominal feature with over 20 categories" if self.model.columns.is_nominal.any() else ""
                raise Intractable(most, most >> 1, f"splits in one cell{reason}")
            self.limit.refuse_above(self.n_cells, self.n_edges)
            self.limit.refuse_memory(self.n_cells, self.n_edges, self.points.stats.shape[1])
            if status == MORE_CELLS:
                self._cells = longer_cells(self._cells, self.n_cells)
            elif status == MORE_EDGES:
                # twice the length
                self._edges = BuilderEdges(*(np.concatenate([column, np.empty_like(column)]) for column in self._edges))

    def build_all(self, bar: Bar) -> None:
        """Add all cells and splits. On Ctrl-C keep those built so far for the next call of `build_graph`."""
        budget = FIRST_BUDGET

        def step(lowered: Any, arrays: Any) -> int:
            nonlocal budget
            start, n_expanded = time.monotonic(), self.n_expanded
            status = build_cells(lowered, arrays, budget)
            if status == PAUSED:
                budget = next_size(budget, time.monotonic() - start)
            bar.show(self.n_cells, f"{self.n_edges:,} splits")
            bar.add(self.n_expanded - n_expanded)
            return status

        try:
            self.run(step)
        except KeyboardInterrupt:
            store_interrupted(self.model, self)
            raise

    def graph_columns(self) -> dict[str, np.ndarray]:
        """Return the columns that `with_slots` takes."""
        # cells that trees within the depth limit can have, parents first
        n, cells, edges = self.n_cells, self._cells, self._edges
        limit = int(self.model.prior_tables.depth_limit)
        order = np.argsort(-cells.size[:n], kind="stable")
        depth, deepest = np.full(n, limit + 1, dtype=np.int64), np.zeros(n, dtype=np.int64)
        find_depths_into(depth, deepest, order, cells.start, cells.stop, edges.left, edges.right, limit)
        order = order[depth[order] <= limit]
        rank = np.full(n, NO_CELL, dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        is_splittable = cells.is_splittable[order] & (depth[order] < limit)
        size = np.where(is_splittable, cells.stop[order] - cells.start[order], 0)
        first_edge = np.concatenate([[0], np.cumsum(size)])
        # place in the builder's arrays of each split of the graph
        kind = np.int32 if len(edges.left) < 1 << 31 else np.int64
        place = np.repeat((cells.start[order] - first_edge[:-1]).astype(kind), size)
        place += np.arange(len(place), dtype=kind)
        out = {}
        for name, column in edges._asdict().items():
            values = column[place]
            out[name] = rank[values] if name in ("left", "right") else values
        del place, values
        out |= {name: getattr(cells, name)[order] for name in ("rows", "stats", "score")}
        out |= {"first_edge": first_edge, "design": np.zeros(len(order), dtype=np.int32)}
        return out | {"depth": depth[order], "deepest": deepest[order], "is_splittable": is_splittable}


# the model that Ctrl-C interrupted last, with its partly built or complete graph; empty if there is none
_interrupted: list[tuple[TreeModel, Building | CellGraph]] = []


def store_interrupted(model: TreeModel, graph: Building | CellGraph) -> None:
    """Keep the graph of a model, complete or not, that Ctrl-C interrupted for the next call of `build_graph`."""
    _interrupted[:] = [(model, graph)]


@jit
def find_depths_into(
    depth: np.ndarray,
    deepest: np.ndarray,
    order: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    limit: int,
) -> None:
    """Write the smallest and the largest depth (n_cells,) at which each cell occurs in trees of depth up to `limit`."""
    # `depth` is `limit + 1` before, which remains if no tree has the cell, and `deepest` is 0; parents come first in
    # `order`
    depth[0] = 0
    for cell in order:
        if depth[cell] >= limit:
            continue
        for e in range(start[cell], stop[cell]):
            # a split that leads back to its cell: the cell occurs at all larger depths
            if left[e] == cell or right[e] == cell:
                deepest[cell] = limit
        below = min(deepest[cell] + 1, limit)
        for e in range(start[cell], stop[cell]):
            for child in (np.int64(left[e]), np.int64(right[e])):
                depth[child] = min(depth[child], depth[cell] + 1)
                deepest[child] = max(deepest[child], below)


NO_ITEM = -1  # end of a linked list, or no node, cell or edge
# columns of `CellScratch.tree_splits`, the splits of trees in the current cell; TREE_EDGE is NO_ITEM until listed
TREE_FEATURE, TREE_SPLIT, TREE_BITS, TREE_EDGE = range(4)


class TreeNodes(NamedTuple):
    """The nodes of all trees, one tree after another, with linked lists of the nodes in each cell."""

    feature: np.ndarray  # (n_nodes,) int64, LEAF in a leaf
    split: np.ndarray  # (n_nodes,) int64: packed cut, or categories going left
    parent: np.ndarray  # (n_nodes,) int64: node, counted over all trees; NO_ITEM for a root
    left: np.ndarray  # (n_nodes,) int64: left child, likewise
    right: np.ndarray  # (n_nodes,) int64
    next_node: np.ndarray  # (n_nodes,) int64: next node in the list of the nodes of the same cell, or NO_ITEM
    tree_split: np.ndarray  # (n_nodes,) int64: row of the node's split in `CellScratch.tree_splits`
    first_node: np.ndarray  # (most cells,) int64: first node in the list of the nodes of this cell, or NO_ITEM
    next_cell: np.ndarray  # (most cells,) int64: next cell in the list of the cells of the same size, or NO_ITEM
    of_size: np.ndarray  # (largest size + 1,) int64: first cell of each size that is still to be processed, or NO_ITEM
    size: np.ndarray  # (1,) int64: size of the cells that are processed now


def build_visited(model: TreeModel, trees: CodedTrees, grow: int, limit: Limit) -> CellGraph:
    """Return the graph of the cells and splits of ``trees``, with log R(split | cell) as in the whole graph."""
    # grow 1 adds every split of these cells between them, 2 every split of these cells, with new children as leaves
    nodes = _tree_nodes(model, trees)
    building = Building(model, limit, len(nodes.feature) + 1)
    building.run(assign_nodes_to_cells, pack(nodes))
    if grow > 0:
        building.remove_splits()
        building.run(expand_some, np.arange(building.n_cells), FIND if grow == 1 else ADD)
    return with_slots(model, building.graph_columns())


def _tree_nodes(model: TreeModel, trees: CodedTrees) -> TreeNodes:
    """Return the nodes of ``trees``, none of them assigned to a cell yet."""
    offset, n_nodes = trees.offset, np.diff(trees.offset)
    first = np.repeat(offset[:-1], n_nodes)
    inner, number = trees.feature != LEAF, np.arange(len(trees.feature))
    none = np.full(len(number), NO_ITEM, dtype=np.int64)
    parent, left, right = none.copy(), number + 1, first + trees.right
    parent[left[inner]] = parent[right[inner]] = number[inner]
    # a cell is a node of some tree; the root is a cell without any
    most_cells, largest = len(number) + 1, max(model.n_rows, int(model.n_codes.sum()))
    return TreeNodes(
        feature=trees.feature.astype(np.int64),
        split=np.where(trees.categories >= 0, trees.categories, pack_cuts(trees.cut, trees.upper)),
        parent=parent,
        left=left,
        right=right,
        next_node=none.copy(),
        tree_split=none,
        first_node=np.full(most_cells, NO_ITEM, dtype=np.int64),
        next_cell=np.full(most_cells, NO_ITEM, dtype=np.int64),
        of_size=np.full(largest + 1, NO_ITEM, dtype=np.int64),
        size=np.full(1, largest, dtype=np.int64),
    )


@jit
def assign_nodes_to_cells(model: Any, arrays: Any, nodes: Any) -> int:
    """Assign the nodes of all trees to cells, from the root down, and add these cells and their splits to the graph."""
    # if an array is full, MORE_CELLS or MORE_EDGES is returned: the caller makes it longer and calls again
    counters, cells, of_size = arrays.scratch.counters, arrays.cells, nodes.of_size
    if counters[N_CELLS] == 0:
        counters[MODE] = ADD
        add_root(model, arrays)
        of_size[cells.size[0]] = 0
        for node in range(len(nodes.parent)):
            if nodes.parent[node] == NO_ITEM:
                _enter_cell(nodes, np.int64(node), np.int64(0))
    while nodes.size[0] >= 0:
        cell = of_size[nodes.size[0]]
        if cell == NO_ITEM:
            nodes.size[0] -= 1
            continue
        n_members = find_members(model, arrays, cell)
        status = storage_status(arrays, bound_n_splits(model, arrays, n_members))
        if status != FINISHED:
            return status
        of_size[nodes.size[0]] = nodes.next_cell[cell]
        _list_tree_splits(model, arrays, nodes, cell, n_members)
        n_before = counters[N_CELLS]
        add_splits_between_cells(model, arrays, cell, n_members, ADD_TREE_SPLITS)
        for new in range(n_before, counters[N_CELLS]):
            nodes.next_cell[new] = of_size[cells.size[new]]
            of_size[cells.size[new]] = new
        _move_to_children(arrays, nodes, cell)
    return FINISHED


@jit
def _enter_cell(nodes: Any, node: int, cell: int) -> None:
    """Put a node of a tree at the front of the linked list, in ``nodes`` (`TreeNodes`), of the nodes of a cell."""
    nodes.next_node[node] = nodes.first_node[cell]
    nodes.first_node[cell] = node


@jit
def _list_tree_splits(model: Any, arrays: Any, nodes: Any, cell: int, n_members: int) -> None:
    """Write the distinct splits that trees have in a cell into `tree_splits`, and each node's row there."""
    # the child that a split sends all rows to is in the same cell, and is added to the list of its nodes
    tree_splits, n = arrays.scratch.tree_splits, np.int64(0)
    node = nodes.first_node[cell]
    while node != NO_ITEM:
        k = nodes.feature[node]
        if k != LEAF:
            split, bits = _split_in_cell(model, arrays, nodes, cell, node, n_members)
            index = np.int64(0)
            while index < n and (tree_splits[index, TREE_FEATURE] != k or tree_splits[index, TREE_SPLIT] != split):
                index += 1
            if index == n:
                tree_splits[n, TREE_FEATURE], tree_splits[n, TREE_SPLIT] = k, split
                tree_splits[n, TREE_BITS], tree_splits[n, TREE_EDGE] = bits, NO_ITEM
                n += 1
            nodes.tree_split[node] = index
            if parts_rows(model.split_prior):
                n_left = _n_left(model, arrays, k, split, n_members)
                if n_left == n_members:
                    _insert_behind_parent(nodes, node, nodes.left[node])
                if n_left == 0:
                    _insert_behind_parent(nodes, node, nodes.right[node])
        node = nodes.next_node[node]
    arrays.scratch.counters[N_TREE_SPLITS] = n


@jit
def _insert_behind_parent(nodes: Any, node: int, child: int) -> None:
    """Insert ``child``, which has the cell of its parent ``node``, behind the parent in the list of the cell."""
    nodes.next_node[child], nodes.next_node[node] = nodes.next_node[node], child


@jit
def _n_left(model: Any, arrays: Any, k: int, split: int, n_members: int) -> int:
    """Return how many of the ``n_members`` points (distinct rows) of the current cell a split on ``k`` sends left."""
    nominal, n = model.split_prior.feature[k].nominal, 0
    for j in range(n_members):
        n += sends_left(split, arrays.points.codes[k, arrays.scratch.members[j]], nominal)
    return n


@jit
def _split_in_cell(model: Any, arrays: Any, nodes: Any, cell: int, node: int, n_members: int) -> tuple[int, int]:
    """Return the split of a node in the form in which its cell lists splits, and a mask of its bits."""
    # Trees with other cuts or boxes can divide the rows of the cell alike. If the cell lists a nominal split with its
    # sides exchanged, the children of the node are exchanged. Both are 0 for a cell without rows if cells are sets of
    # rows
    rule, box, k = model.split_prior, arrays.scratch.box, nodes.feature[node]
    split, rows, local = nodes.split[node], arrays.cells.rows[cell], parts_rows(rule)
    if rows == 0 and local:
        return np.int64(0), np.int64(0)
    if not rule.feature[k].nominal:
        cut = unpack_cut(split)
        if is_relative(rule, rows):
            cut += box_code_range(model, arrays, k)[0] - _box_of_node(rule, nodes, node, k)
        elif local:
            n_left = _n_left(model, arrays, k, split, n_members)
            cut = np.int64(-1) if n_left == 0 else rule.feature[k].n_codes - 1 if n_left == n_members else cut
        return pack_cut(cut, np.int64(0)), np.int64(CUT_MASK)
    present = box[k, 0]
    if local:
        present = np.int64(0)
        for j in range(n_members):
            present |= np.int64(1) << arrays.points.codes[k, arrays.scratch.members[j]]
    elif is_relative(rule, rows):
        split = translated_bits(split, _box_of_node(rule, nodes, node, k), present)
    split &= present
    if split != 0 and split != present and split & (present & -present) == 0:
        nodes.left[node], nodes.right[node] = nodes.right[node], nodes.left[node]
        split = present & ~split
    return split, present


@jit
def _box_of_node(rule: Any, nodes: Any, node: int, k: int) -> int:
    """Return the first code of ordered coordinate ``k`` in the box of a node, or the categories of a nominal one."""
    nominal, paired = rule.feature[k].nominal, rule.feature[k].other_coordinate
    box, descendant = full_mask(rule.feature[k].n_codes) if nominal else np.int64(0), node
    while nodes.parent[descendant] != NO_ITEM:
        parent = nodes.parent[descendant]
        if nodes.feature[parent] == k or nodes.feature[parent] == paired:
            if nominal:
                box &= nodes.split[parent] if descendant == parent + 1 else ~nodes.split[parent]
            elif nodes.right[parent] == descendant:
                box = max(box, unpack_cut(nodes.split[parent]) + 1)
        descendant = parent
    return box


@jit
def _move_to_children(arrays: Any, nodes: Any, cell: int) -> None:
    """Assign the children of the tree nodes in a cell to the cells to which the splits of these nodes lead."""
    node = nodes.first_node[cell]
    while node != NO_ITEM:
        e = arrays.scratch.tree_splits[nodes.tree_split[node], TREE_EDGE] if nodes.feature[node] != LEAF else NO_ITEM
        if e != NO_ITEM:
            left, right = np.int64(arrays.edges.left[e]), np.int64(arrays.edges.right[e])
            if left != cell:
                _enter_cell(nodes, nodes.left[node], left)
            if right != cell:
                _enter_cell(nodes, nodes.right[node], right)
        node = nodes.next_node[node]
