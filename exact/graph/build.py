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
    set_ends,
    weight_behind,
    weight_of_part,
)

from .boxes import (
    box_hash,
    find_members,
    is_relative,
    mix,
    narrow_box,
    pack_cut,
    relative_split,
    sends_left,
    span,
    widest_box,
    width,
)
from .work import (
    FEATURE,
    LEFT,
    PARENT,
    RIGHT,
    SIDE,
    SPLIT,
    add_code_to_side,
    add_to_side,
    clear_sides,
    forget_codes,
    move_to_left,
    sum_from_right,
    tabulate,
)

N_CELLS, N_EDGES, NEXT, MODE, N_WANTED = range(5)
"""Entries of `Scratch.count`: numbers of cells and edges, next cell to expand, mode, number of wanted splits."""
ADD, ADD_WANTED, FIND = range(3)
"""Modes: add every new child to the graph, only children of wanted splits, or none."""
UNKNOWN = -1
"""Number in place of a cell that the graph does not contain."""
FINISHED, MORE_CELLS, MORE_EDGES, TOO_MANY_SPLITS, PAUSED = range(5)
"""Results of a compiled step: done, longer arrays of cells or of edges needed, impossible, or the budget spent."""
MAX_NOMINAL_SPLITS = 1 << 20
"""Largest number of splits of one cell, exceeded by a nominal feature with more than 20 categories."""
NEVER = np.int64(1 << 62)
"""Number of rows larger than that of any table."""


@jit
def build(model: Any, work: Any, budget: int) -> int:
    """Expand cells in order of discovery, and return FINISHED when none is left.

    Return MORE_CELLS or MORE_EDGES if an array is full: the caller makes it longer and calls again. Return PAUSED after
    ``budget`` steps, which are codes of points read, and splits.
    """
    count, cells, p = work.scratch.count, work.cells, len(model.split_prior.feature)
    if count[N_CELLS] == 0:
        add_root(model, work)
    while count[NEXT] < count[N_CELLS]:
        if budget <= 0:
            return PAUSED
        cell = count[NEXT]
        cells.start[cell] = count[N_EDGES]
        n_members = np.int64(0)
        if cells.depth[cell] < model.prior.depth_limit:
            n_members = np.int64(find_members(model, work, cell))
            status = room(work, bound_n_splits(model, work, n_members, cell))
            if status != FINISHED:
                return status
            expand(model, work, cell, n_members)
        count[NEXT] += 1
        cells.stop[cell] = count[N_EDGES]
        cells.is_splittable[cell] = cells.stop[cell] > cells.start[cell]
        budget -= 1 + p * n_members + cells.stop[cell] - cells.start[cell]
    return FINISHED


@jit
def room(work: Any, n_splits: int) -> int:
    """Return FINISHED if the arrays have room for ``n_splits`` more splits with their children.

    Otherwise return MORE_CELLS or MORE_EDGES for the array that is full, or TOO_MANY_SPLITS if a cell may not have as
    many.
    """
    count, cells = work.scratch.count, work.cells
    if n_splits > MAX_NOMINAL_SPLITS:
        return TOO_MANY_SPLITS
    if count[N_CELLS] + 2 * n_splits + 2 > len(cells.rows) or 2 * (count[N_CELLS] + 2 * n_splits) > len(cells.table):
        return MORE_CELLS
    if count[N_EDGES] + n_splits > len(work.edges.left):
        return MORE_EDGES
    return FINISHED


@jit
def add_root(model: Any, work: Any) -> None:
    """Add the root, the cell of all points."""
    points, scratch = work.points, work.scratch
    clear_sides(work)
    for i in range(len(points.rows)):
        add_to_side(work, LEFT, i)
    widest_box(model, work)
    size = scratch.side_rows[LEFT]
    if not parts_rows(model.split_prior):
        size = 0
        for k in range(len(model.split_prior.feature)):
            size += width(model, work, k)
    find_or_add(model, work, np.uint64(1), np.uint64(0), LEFT, -1, 0, 0, size)


@jit
def find_or_add(
    model: Any,
    work: Any,
    word0: np.uint64,
    word1: np.uint64,
    side: int,
    parent: int,
    feature: int,
    split: int,
    size: int,
) -> int:
    """Return the number of the cell on one side of a split, found by its hash, and add the cell if it is new.

    The hash is ``word0, word1``, to which the depth and the groups of features are added here if they matter. A new
    cell takes its statistics from ``side`` of the scratch. In mode FIND no cell is added, and UNKNOWN is returned.
    """
    cells, scratch, count = work.cells, work.scratch, work.scratch.count
    # the groups of features that may still interact decide which features a cell can be split on
    is_open = cells.open[parent] & model.split_prior.feature[feature].groups if parent >= 0 else np.int64(-1)
    if is_open != -1:
        word0, word1 = mix(word0 ^ np.uint64(is_open)), mix(word1 + np.uint64(is_open))
    if model.split_prior.by_depth and parent >= 0:
        below = np.uint64(cells.depth[parent] + 1)
        word0, word1 = mix(word0 ^ below), mix(word1 + below)
    mask = len(cells.table) - 1
    at = np.int64(word0 & np.uint64(0x3FFFFFFFFFFFFFFF)) & mask
    while cells.table[at] >= 0:
        known = np.int64(cells.table[at])
        if cells.hash[known, 0] == word0 and cells.hash[known, 1] == word1:
            return known
        at = (at + 1) & mask
    if count[MODE] == FIND:
        return UNKNOWN
    new = count[N_CELLS]
    count[N_CELLS] += 1
    cells.table[at] = new
    cells.hash[new, 0], cells.hash[new, 1] = word0, word1
    cells.origin[PARENT, new], cells.origin[FEATURE, new] = parent, feature
    cells.origin[SPLIT, new], cells.origin[SIDE, new] = split, side
    cells.rows[new], cells.size[new], cells.open[new] = scratch.side_rows[side], size, is_open
    cells.depth[new] = cells.depth[parent] + 1 if parent >= 0 else 0
    for j in range(cells.stats.shape[1]):
        cells.stats[new, j] = scratch.side_stats[side, j]
    cells.score[new] = leaf_score(model.leaf, cells.stats, new)
    return new


@jit
def bound_n_splits(model: Any, work: Any, n_members: int, cell: int) -> int:
    """Return an upper bound on the number of splits of a cell, whose box is in the scratch."""
    rule = model.split_prior
    total = 0
    for k in range(len(rule.feature)):
        n_codes = width(model, work, k)
        if halves_box(rule):
            n_codes = 0
        elif parts_rows(rule):
            n_codes = min(n_codes, n_members)
        if rule.feature[k].nominal:
            if n_codes > 20:
                return MAX_NOMINAL_SPLITS + 1
            n_codes = 1 << max(n_codes - 1, 0)
        total += n_codes + 2
    return total


@jit
def expand(model: Any, work: Any, cell: int, n_members: int) -> None:
    """Add the splits of a cell with their probabilities ``log R(split | cell)``, and new children as the mode allows.

    R of a split on feature k is ``w_k / sum of w_j over the features j with a split  *  1 / number of splits on k``,
    or, with weights of splits, their fraction in place of the last factor (formulas, section 2).
    """
    rule, count = model.split_prior, work.scratch.count
    first, total = count[N_EDGES], 0.0
    for k in range(len(rule.feature)):
        weight, before = rule.feature[k].weight, count[N_EDGES]
        _list_splits_on(model, work, cell, n_members, k)
        n_splits = count[N_EDGES] - before
        if n_splits > 0 and is_weighted(rule):
            total += _fraction_weights(rule, work, weight, before, count[N_EDGES])
        elif n_splits > 0:
            total += weight
            for e in range(before, count[N_EDGES]):
                work.edges.log_rule[e] = log(weight) - log(float(n_splits))
    for e in range(first, count[N_EDGES]):
        work.edges.log_rule[e] -= log(total)


@jit
def has_split(model: Any, work: Any, cell: int, n_members: int) -> bool:
    """Return True if a cell can be split. Adds no edge."""
    count = work.scratch.count
    before = count[N_EDGES]
    for k in range(len(model.split_prior.feature)):
        _list_splits_on(model, work, cell, n_members, k)
        if count[N_EDGES] > before:
            count[N_EDGES] = before
            return True
    return False


@jit
def _list_splits_on(model: Any, work: Any, cell: int, n_members: int, k: int) -> None:
    """Add the splits of a cell on coordinate ``k``. Their weights are stored in ``log_rule``, for `expand` to replace.

    No splits are added if the coordinate has weight zero, if the features split on above exclude it, or if the features
    take turns and it is not its turn.
    """
    rule = model.split_prior
    feature = rule.feature[k]
    if feature.weight <= 0.0 or work.cells.open[cell] & feature.groups == 0:
        return
    if takes_turns(rule) and feature.turn != work.cells.depth[cell] % rule.n_turns:
        return
    if feature.nominal:
        _list_partitions(model, work, cell, n_members, k)
    else:
        _list_cuts(model, work, cell, n_members, k)


@jit
def list_known_splits(model: Any, work: Any, cell: int, n_members: int, mode: int) -> None:
    """Add the splits of a cell whose two children are both in the graph, after adding the children that ``mode`` adds.

    R of these splits is their probability among all splits of the cell.
    """
    count, cells, edges, wanted = work.scratch.count, work.cells, work.edges, work.scratch.wanted
    first, count[MODE] = count[N_EDGES], mode
    expand(model, work, cell, n_members)
    cells.is_splittable[cell] = count[N_EDGES] > first
    stop = first
    for e in range(first, count[N_EDGES]):
        if edges.left[e] != UNKNOWN and edges.right[e] != UNKNOWN:
            edges.left[stop], edges.right[stop], edges.feature[stop] = edges.left[e], edges.right[e], edges.feature[e]
            edges.split[stop], edges.log_rule[stop] = edges.split[e], edges.log_rule[e]
            for i in range(count[N_WANTED]):
                if wanted[i, 3] == e:
                    wanted[i, 3] = stop
            stop += 1
    cells.start[cell], cells.stop[cell], count[N_EDGES] = first, stop, stop


@jit
def expand_some(model: Any, work: Any, which: np.ndarray, most: int, mode: int) -> int:
    """Add the splits of the cells ``which`` (m,) one cell after another, until the graph has ``most`` cells.

    In mode FIND only splits between cells of the graph are added, in mode ADD all splits, with their children.
    ``count[NEXT]`` is the number of cells of ``which`` that are finished. Return FINISHED, or the array that is full.
    """
    count, cells, enough = work.scratch.count, work.cells, rows_to_split(model, work)
    if count[N_CELLS] == 0:
        count[MODE] = ADD
        add_root(model, work)
        count[MODE] = FIND
        cells.is_splittable[0] = has_split(model, work, np.int64(0), find_members(model, work, np.int64(0)))
    while count[NEXT] < len(which) and count[N_CELLS] < most:
        cell = which[count[NEXT]]
        n_members = find_members(model, work, cell)
        # room for the splits of a child too, which are listed and removed
        status = room(work, 2 * bound_n_splits(model, work, n_members, cell))
        if status != FINISHED:
            return status
        n_known = count[N_CELLS]
        list_known_splits(model, work, cell, n_members, mode)
        count[MODE] = FIND
        for new in range(n_known, count[N_CELLS]):
            is_sure = cells.rows[new] >= enough
            cells.is_splittable[new] = is_sure or has_split(model, work, new, find_members(model, work, new))
        count[NEXT] += 1
    return FINISHED


@jit
def rows_to_split(model: Any, work: Any) -> int:
    """Return a number of rows such that every cell with as many can be split, because it has two distinct points.

    Return NEVER if the split prior may exclude such a split.
    """
    rule, rows = model.split_prior, work.points.rows
    if not parts_rows(rule) or is_weighted(rule) or least_rows(rule) > 1:
        return NEVER
    for k in range(len(rule.feature)):
        if rule.feature[k].weight <= 0.0:
            return NEVER
    most = np.int64(0)
    for i in range(len(rows)):
        most = max(most, rows[i])
    return most + 1


@jit
def _fraction_weights(rule: Any, work: Any, weight: float, first: int, last: int) -> float:
    """Replace the weights of edges ``first`` to ``last - 1``, all on one feature, by the logs of parts of its weight.

    Return the weight of the feature, times the sum of the weights of its splits if the prior is ``joint``. Divided by
    the sum of these weights over the features, the parts are R.
    """
    edges, mass = work.edges, 0.0
    for e in range(first, last):
        mass += edges.log_rule[e]
    fraction = weight * mass if rule.joint else weight
    for e in range(first, last):
        edges.log_rule[e] = log(fraction) + log(edges.log_rule[e]) - log(mass)
    return fraction


@jit
def _list_cuts(model: Any, work: Any, cell: int, n_members: int, k: int) -> None:
    """Add every cut of a cell on ordered coordinate ``k``.

    The cuts are those between codes that occur in the cell (local), inside the box (grid), or its middle (dyadic). If
    sides may be empty, the cuts that send all rows to one side are added too.
    """
    rule, scratch = model.split_prior, work.scratch
    n, n_codes = tabulate(work, n_members, k), rule.feature[k].n_codes
    first, last = 1, n
    low, high = span(model, work, k)
    if parts_box(rule):
        first, last = low + 1, high
    elif halves_box(rule):
        first = (low + high) // 2
        last = first + 1 if high - low >= 2 else first
    elif has_empty_sides(rule):
        first, last = 0, n + 1 if n > 0 else 1
    sum_from_right(work, n)
    # without weights the array is not used
    weighed = _cut_to_weigh(model, work, cell, k, n, first, last) if is_weighted(rule) else scratch.suffix
    taken, number = 0, 0
    for place in range(first, last):
        cut, upper = place - 1, place
        if parts_rows(rule):
            cut = scratch.codes[place - 1] if place > 0 else -1
            upper = scratch.codes[place] if place < n else n_codes
            if place == n:
                cut = n_codes - 1
        while taken < n and scratch.codes[taken] <= cut:
            move_to_left(work, scratch.codes[taken])
            taken += 1
        for a in range(scratch.suffix.shape[1]):
            scratch.side_stats[RIGHT, a] = scratch.suffix[taken, a]
        if min(scratch.side_rows[LEFT], scratch.side_rows[RIGHT]) < least_rows(rule):
            continue
        weight = 1.0
        if is_weighted(rule):
            if parts_rows(rule):
                weighed[0, ROWS_LEFT], weighed[0, ROWS_RIGHT] = scratch.side_rows[LEFT], scratch.side_rows[RIGHT]
            weight = weight_behind(rule, weighed, k, cut, upper, number)
            number += 1
        if weight > 0.0:
            _add_edge(model, work, cell, k, pack_cut(cut, upper), weight)
    forget_codes(work, n)


@jit
def _cut_to_weigh(model: Any, work: Any, cell: int, k: int, n: int, first: int, last: int) -> np.ndarray:
    """Return the inputs of the weight function that all cuts of a cell on coordinate ``k`` have in common.

    These are the number of cuts, the depth, and the smallest and largest code.
    """
    rule, scratch, depth = model.split_prior, work.scratch, np.int64(work.cells.depth[cell])
    low, high = span(model, work, k)
    n_cuts = last - first
    if parts_rows(rule):
        n_cuts, below = 0, 0
        low, high = scratch.codes[0], scratch.codes[n - 1] + 1
        for j in range(n - 1):
            below += scratch.rows[scratch.slot[scratch.codes[j]]]
            n_cuts += min(below, work.cells.rows[cell] - below) >= least_rows(rule)
    out = new_cut(rule, k, float(n_cuts), depth)
    set_ends(rule, out, k, low, high - 1)
    return out


@jit
def _list_partitions(model: Any, work: Any, cell: int, n_members: int, k: int) -> None:
    """Add every partition of the categories in the cell (local) or in the box (grid) into a left and a right set.

    The smallest category goes left. If sides may be empty, the splits that send all rows to one side are added too.
    """
    rule, scratch = model.split_prior, work.scratch
    n, everything = tabulate(work, n_members, k), full_mask(rule.feature[k].n_codes)
    present = np.int64(0)
    for j in range(n):
        present |= np.int64(1) << scratch.codes[j]
    parted = scratch.box[k, 0] if parts_box(rule) else present
    n_partitions = (np.int64(1) << max(n_bits(parted) - 1, 0)) - 1
    trivial = 0
    if has_empty_sides(rule):
        trivial = 2 if n > 0 else 1
    weight = (
        weight_of_part(rule, k, float(n_partitions), np.int64(work.cells.depth[cell])) if is_weighted(rule) else 1.0
    )
    for number in range(-trivial, n_partitions if weight > 0.0 else 0):
        if number < 0:
            split = everything if number == -trivial else np.int64(0)
        else:
            split = deposit_bits(parted, 1 + 2 * number)
        clear_sides(work)
        for j in range(n):
            add_code_to_side(work, LEFT if sends_left(split, scratch.codes[j], True) else RIGHT, scratch.codes[j])
        rows_left, rows_right = scratch.side_rows[LEFT], scratch.side_rows[RIGHT]
        if min(rows_left, rows_right) < least_rows(rule):
            continue
        if not parts_box(rule) and rows_left >= rows_right:
            split |= everything & ~present
        _add_edge(model, work, cell, k, split, weight)
    forget_codes(work, n)


@jit
def _add_edge(model: Any, work: Any, cell: int, k: int, split: int, weight: float) -> None:
    """Add a split of a cell whose two sides are summed in the scratch. Store its weight in ``log_rule`` for now."""
    edges, count = work.edges, work.scratch.count
    e = count[N_EDGES]
    edges.left[e] = edges.right[e] = UNKNOWN
    if count[MODE] != ADD_WANTED or _is_wanted(work, k, split):
        edges.left[e] = _child(model, work, cell, k, split, LEFT)
        edges.right[e] = _child(model, work, cell, k, split, RIGHT)
    edges.feature[e], edges.log_rule[e] = k, weight
    if is_relative(model.split_prior, work.cells.rows[cell]):
        split = relative_split(model, work, k, split)
    edges.split[e] = split
    count[N_EDGES] += 1


@jit
def _is_wanted(work: Any, k: int, split: int) -> bool:
    """Return True if a split is among the wanted ones, and write the number of the edge that it will be there."""
    wanted, count = work.scratch.wanted, work.scratch.count
    for i in range(count[N_WANTED]):
        if wanted[i, 0] == k and (split & wanted[i, 2]) == wanted[i, 1]:
            wanted[i, 3] = count[N_EDGES]
            return True
    return False


@jit
def _child(model: Any, work: Any, cell: int, k: int, split: int, side: int) -> int:
    """Return the number of the cell on one side of a split, and add the cell if it is new and the mode allows.

    Under local cuts a side with all rows is the cell itself.
    """
    rule, scratch, cells = model.split_prior, work.scratch, work.cells
    if parts_rows(rule):
        if scratch.side_rows[side] == cells.rows[cell]:
            return cell
        word0, word1 = scratch.side_key[side, 0], scratch.side_key[side, 1]
        return find_or_add(model, work, word0, word1, side, cell, k, split, scratch.side_rows[side])
    old_low, old_high = scratch.box[k, 0], scratch.box[k, 1]
    n_coordinates = 2 if rule.feature[k].twin != k else 1
    before = width(model, work, k)
    narrow_box(model, work, k, split, side)
    size = cells.size[cell] - n_coordinates * (before - width(model, work, k))
    word0, word1 = box_hash(model, work, is_relative(rule, scratch.side_rows[side]))
    child = find_or_add(model, work, word0, word1, side, cell, k, split, size)
    scratch.box[k, 0], scratch.box[k, 1] = old_low, old_high
    return child
