"""Breadth-first construction of the graph of cells, compiled, for all split priors.

The trees below a cell depend only on the set of its points (local cuts), or on its box (grid). A 128-bit hash of this
set or box identifies the cell. Of an empty box only the numbers of codes matter, unless cuts have weights. The depth is
part of the hash if weights depend on it, and so are the groups of features that may still interact. The rows of a cell
are not stored: they follow from the splits on the path by which the cell was first reached.
"""

from math import log
from typing import Any

import numpy as np

from pactree_mcmc.core.bits import deposit_bits, full_mask, n_bits
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model.leaf.compiled import leaf_score
from pactree_mcmc.model.split_prior.geometry import (
    halves_box,
    has_empty_sides,
    is_weighted,
    least_rows,
    parts_box,
    parts_rows,
    takes_turns,
)
from pactree_mcmc.model.split_prior.weights import (
    ROWS_LEFT,
    ROWS_RIGHT,
    new_cut,
    nominal_split_weight,
    set_cell_ends,
    weight_between_codes,
)

from .arrays import (
    FEATURE,
    LEFT,
    PARENT,
    RIGHT,
    SIDE,
    SPLIT,
    add_code_to_side,
    add_to_side,
    clear_code_slots,
    clear_sides,
    move_to_left,
    sum_by_code,
    sum_from_right,
)
from .boxes import (
    MAX_SPLITS_OF_CELL,
    bound_n_splits,
    box_code_range,
    box_hash,
    find_members,
    is_relative,
    mix_hash,
    n_codes_in_box,
    narrow_box,
    pack_cut,
    relative_split,
    sends_left,
    set_root_box,
)

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
    if counters[N_EDGES] + n_splits > len(arrays.edges.left):
        return MORE_EDGES
    return FINISHED


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
    trivial = 0
    if has_empty_sides(rule):
        trivial = 2 if n > 0 else 1
    weight = (
        nominal_split_weight(rule, k, float(n_partitions), np.int64(arrays.cells.depth[cell]))
        if is_weighted(rule)
        else 1.0
    )
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
