"""Number the cells and splits of drawn trees, and find equal trees.

The definitions are in the formulas, section 12.5.

A cell is the set of training rows of a node; a split is the unordered partition of a cell in two. So a nominal split
with its sides exchanged is the same split, and so is one with another threshold, or another feature, that divides the
rows in the same way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.compile.jit import jit
from ...core.texts import with_short_repr
from ...model import TreeModel
from ...model.split_prior.base import call_uncompiled, follows_design, parts_rows
from ...tree.arrays import LEAF
from ...tree.coded import CodedTrees

MAX_ROWS = 2000
"""Default largest number of distinct training rows that are used to decide if two cells are equal."""


@with_short_repr
class Cells(NamedTuple):
    """The distinct cells and splits of the distinct trees of a posterior, numbered by first occurrence."""

    of_node: np.ndarray
    """(n_nodes,) int64: the cell of each node of ``coded_trees``; -1 for a node without rows, which is not a cell."""
    split_of_node: np.ndarray
    """(n_nodes,) int64: the split of each node; -1 for leaves and nodes whose rows all go to one side."""
    tree_of_node: np.ndarray
    """(n_nodes,) int64: the distinct tree that each node belongs to."""
    key: np.ndarray
    """(n_cells, 2) uint64: hash of the rows in each cell, the same in every posterior of the model."""
    sides: np.ndarray
    """(n_splits, 2) int64: the two cells into which each split divides its cell."""
    offset: np.ndarray
    """(n_trees + 1,) int64: tree t has the cells member[offset[t]:offset[t + 1]]."""
    member: np.ndarray
    """int64: the cell numbers of each tree, one tree after the other, ascending and without repetition in a tree."""
    n_rows: int
    """Number of distinct training rows that were used to decide if two cells are equal."""
    all_rows: int
    """Number of distinct rows of the model; if it exceeds ``n_rows``, cells that differ only in unused rows are one."""

    @property
    def n_cells(self) -> int:
        """Number of distinct cells."""
        return len(self.key)

    @property
    def n_splits(self) -> int:
        """Number of distinct splits."""
        return len(self.sides)

    def trees_with(self, numbers: np.ndarray, *, splits: bool = False) -> np.ndarray:
        """Return a (m, n_trees) bool array: True if a tree has cell ``numbers[i]``, or with ``splits`` that split."""
        of_node, n = (self.split_of_node, self.n_splits) if splits else (self.of_node, self.n_cells)
        position = np.full(n + 1, -1)
        position[numbers] = np.arange(len(numbers))
        out = np.zeros((len(numbers), len(self.offset) - 1), dtype=np.bool_)
        row = position[of_node]
        out[row[row >= 0], self.tree_of_node[row >= 0]] = True
        return out

    def frequencies(self, weight: np.ndarray, *, splits: bool = False) -> np.ndarray:
        """Return the total ``weight`` (..., n_trees) of the trees with each cell, (..., n_cells)."""
        if splits:
            tree, member = self.tree_of_node, self.split_of_node
            tree, member = tree[member >= 0], member[member >= 0]
        else:
            tree, member = np.repeat(np.arange(len(self.offset) - 1), np.diff(self.offset)), self.member
        n = self.n_splits if splits else self.n_cells
        rows = weight.reshape(-1, weight.shape[-1])
        out = np.array([np.bincount(member, weights=row[tree], minlength=n) for row in rows]).reshape(len(rows), n)
        return out.reshape(*weight.shape[:-1], n)


def number_cells(model: TreeModel, trees: CodedTrees) -> Cells:
    """Number the cells, sets of training rows of a node, and the splits, partitions of a cell, of distinct trees."""
    # at most `MAX_ROWS` distinct rows are used, evenly spaced. The hash of a cell is the exclusive or of 126
    # random bits for each of its rows, so two different cells of a posterior count as one with a probability below
    # 1e-26. O(rows * depth) a tree.
    merged_rows, key = identifying_rows(model)
    # Zobrist hashing: hash(A) = xor over i in A of key[i], so hash(A or B) = hash(A) ^ hash(B) for disjoint A and B
    hashes = hash_nodes(trees, model.units.codes, merged_rows, key)
    of_node, first_node = number_distinct_pairs(hashes)
    tree_of_node = np.repeat(np.arange(trees.n_trees), np.diff(trees.offset))
    inner = np.flatnonzero(trees.feature != LEAF)
    sides = of_node[np.column_stack([inner + 1, trees.offset[tree_of_node[inner]] + trees.right[inner]])]
    sides.sort(axis=1)
    # an empty side has number -1, which sorts first; such a node separates no rows and has no split
    has_two_sides = sides[:, 0] >= 0
    split_of_node = np.full(len(of_node), -1, dtype=np.int64)
    pairs = sides[has_two_sides].astype(np.uint64) + np.uint64(1)
    split_of_node[inner[has_two_sides]], first_split = number_distinct_pairs(pairs)
    offset, member = _cells_by_tree(tree_of_node, of_node, trees.n_trees)
    key_of_cell, sides_of_split = hashes[first_node], sides[has_two_sides][first_split]
    n_rows, all_rows = len(merged_rows), model.units.n_units
    return Cells(of_node, split_of_node, tree_of_node, key_of_cell, sides_of_split, offset, member, n_rows, all_rows)


def identifying_rows(model: TreeModel, max_rows: int = MAX_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Choose at most ``max_rows`` merged rows, evenly spaced, to identify cells."""
    # return numbers (m,) and keys (m, 2).
    # a merged row is a group of equal training rows. A key has 126 random bits, from which the hash of a cell is
    # computed. It is the same in every posterior of the model.
    n = model.units.n_units
    merged_rows = np.unique(np.linspace(0, n - 1, min(n, max_rows)).astype(np.int64))
    key = np.random.default_rng(20_261_123).integers(1, 1 << 63, size=(n, 2), dtype=np.uint64)
    return merged_rows, np.ascontiguousarray(key[merged_rows])


def distinguishable_rows(model: TreeModel, max_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers (m,) of at most ``max_rows`` distinguishable training rows, and those of their merged rows."""
    # a merged row is a group of equal training rows. Two rows are alike if no split separates them and they have
    # the same regressors of the leaf, if any. The first of several rows that are alike is returned. If more than
    # ``max_rows`` rows remain, evenly spaced ones are chosen, including the first and the last.
    merged_rows = np.arange(model.n_rows) if model.unit_of_row is None else model.unit_of_row
    regressors = model.target.regressors
    if regressors is None:
        candidates, regressor_columns = np.sort(np.unique(merged_rows, return_index=True)[1]), []
    else:
        candidates, regressor_columns = np.arange(model.n_rows), [*regressors.T]
    number = np.zeros(len(candidates), dtype=np.int64)
    for key in [*model.units.codes[:, merged_rows[candidates]], *regressor_columns]:
        if number.max() + 1 == len(number):
            break
        # number the pairs of the columns so far and the next column
        codes = np.unique(key, return_inverse=True)[1]
        number = np.unique(number * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    rows = candidates[np.sort(np.unique(number, return_index=True)[1])]
    if len(rows) > max_rows:
        rows = rows[np.linspace(0, len(rows) - 1, max_rows).astype(np.int64)]
    return rows, merged_rows[rows]


def _cells_by_tree(tree: np.ndarray, cell: np.ndarray, n_trees: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``offset`` and ``member`` of `Cells`, given the ``tree`` and the ``cell`` (n_nodes,) of each node."""
    has_rows = cell >= 0
    n = int(cell.max(initial=0)) + 1
    pairs = tree[has_rows] * n + cell[has_rows]
    pairs.sort()
    # np.unique hashes, which takes ten times as long for the millions of cells of large trees
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])] if len(pairs) else pairs
    return np.searchsorted(pairs, np.arange(n_trees + 1) * n), pairs % n


def hash_nodes(trees: CodedTrees, codes: np.ndarray, merged_rows: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return the hash (n_nodes, 2) of the rows in each node: the exclusive or of the keys of these rows."""
    hashes, max_nodes = np.zeros((len(trees.feature), 2), dtype=np.uint64), int(np.diff(trees.offset).max(initial=1))
    order, start, stop = (np.empty(size, dtype=np.int64) for size in (len(merged_rows), max_nodes, max_nodes))
    _hash_nodes_into(hashes, trees, codes, merged_rows, key, order, start, stop)
    return hashes


@jit
def _hash_nodes_into(
    hashes: np.ndarray,
    trees: CodedTrees,
    codes: np.ndarray,
    merged_rows: np.ndarray,
    key: np.ndarray,
    order: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
) -> None:
    """Write the hash of the rows in each node to ``hashes`` (n_nodes, 2), which contains zeros; see `hash_nodes`."""
    n = len(merged_rows)
    for t in range(len(trees.offset) - 1):
        base, end = trees.offset[t], trees.offset[t + 1]
        for i in range(n):
            order[i] = i
        start[0], stop[0] = 0, n
        for node in range(end - base):
            index = base + node
            if trees.feature[index] == LEAF:
                for i in range(start[node], stop[node]):
                    hashes[index, 0] ^= key[order[i], 0]
                    hashes[index, 1] ^= key[order[i], 1]
                continue
            k, cut, mask = trees.feature[index], trees.cut[index], trees.categories[index]
            middle = start[node]
            for i in range(start[node], stop[node]):
                row = order[i]
                code = np.int64(codes[k, merged_rows[row]])
                goes_left = code <= cut if mask < 0 else (mask >> code) & 1 == 1
                order[i] = order[middle]
                order[middle] = row
                middle += 1 if goes_left else 0
            right = trees.right[index]
            start[node + 1], stop[node + 1] = start[node], middle
            start[right], stop[right] = middle, stop[node]
        for node in range(end - base - 1, -1, -1):
            index = base + node
            if trees.feature[index] != LEAF:
                for j in range(2):
                    hashes[index, j] = hashes[index + 1, j] ^ hashes[base + trees.right[index], j]


def number_distinct_pairs(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct rows of ``pairs`` (m, 2) uint64 in the order of first occurrence, by a hash table."""
    size = 16
    while size < 2 * len(pairs):
        size *= 2
    number, first_row = np.full(len(pairs), -1, dtype=np.int64), np.empty(len(pairs), dtype=np.int64)
    n_distinct = _number_pairs_into(number, first_row, np.full(size, -1, dtype=np.int64), pairs)
    return number, first_row[:n_distinct].copy()


@jit
def _number_pairs_into(number: np.ndarray, first_row: np.ndarray, table: np.ndarray, pairs: np.ndarray) -> int:
    """Number the distinct rows of ``pairs`` (m, 2) by first occurrence, and return how many there are."""
    size, n_distinct = np.int64(len(table)), 0
    for i in range(len(pairs)):
        if pairs[i, 0] == 0 and pairs[i, 1] == 0:
            continue
        hash_value = pairs[i, 0] * np.uint64(0x9E3779B97F4A7C15) + pairs[i, 1] * np.uint64(0xC2B2AE3D27D4EB4F)
        slot = np.int64(hash_value >> np.uint64(20)) & (size - 1)
        while table[slot] >= 0:
            known_row = first_row[table[slot]]
            if pairs[known_row, 0] == pairs[i, 0] and pairs[known_row, 1] == pairs[i, 1]:
                break
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            table[slot], first_row[n_distinct] = n_distinct, i
            n_distinct += 1
        number[i] = table[slot]
    return n_distinct


def checked_divergence(difference: float, size: float) -> float:
    """Return ``difference``, a Kullback-Leibler divergence in nats, or 0 if rounding has made it negative."""
    # the terms of the difference, of ``size`` nats, consist of probabilities with a relative error of size * 1e-15
    if 1e-15 * size**2 > 1.0:
        raise ValueError(
            f"the divergence from the prior is a difference of terms of {size:.1e} nats, whose rounding errors may "
            "exceed one nat; rescale sample_weight or y, or give a larger variance."
        )
    if not difference >= -1e-9 * max(1.0, size):
        raise RuntimeError(
            f"the divergence from the prior came out as {difference} nats, but divergences are not negative: unless "
            "the tree prior is your own and its probabilities add up to more than 1, this is an error in pactree_mcmc; "
            "please report it."
        )
    return max(difference, 0.0)


def label_equal_trees(model: TreeModel, trees: CodedTrees) -> np.ndarray:
    """Return a label (n_trees,) int64 for each tree, such that equal trees have equal labels, by first occurrence."""
    # under local cuts, which depend on the rows in a cell, two splits of a cell are equal if they are on the same
    # feature and divide its rows in the same way; otherwise if they have the same cut, or the same set of
    # categories. The two sides of a nominal split may be exchanged.
    root, n = np.repeat(trees.offset[:-1], np.diff(trees.offset)), len(trees.feature)
    split, is_exchanged = _number_splits(model, trees, root)
    sides = np.column_stack([np.arange(1, n + 1), root + trees.right])
    sides[is_exchanged] = sides[is_exchanged, ::-1]
    levels, nodes = [], trees.offset[:-1]
    while len(nodes):
        levels.append(nodes[trees.feature[nodes] != LEAF])
        nodes = sides[levels[-1]].ravel()
    # equal subtrees of equal trees begin at the same depth: number those of each depth, from the deepest to the roots
    number = np.zeros(n, dtype=np.int64)
    for nodes in reversed(levels):
        below = number[sides[nodes]]
        number[nodes] = 1 + number_distinct_pairs(_pair_columns(split[nodes], below[:, 0] * n + below[:, 1]))[0]
    roots = number[trees.offset[:-1]]
    return number_distinct_pairs(_pair_columns(roots, np.zeros_like(roots)))[0]


def _pair_columns(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return two arrays (m,) of integers >= 0, plus one, as the columns of an array (m, 2) uint64 without zeros."""
    return np.column_stack([first, second]).astype(np.uint64) + np.uint64(1)


def _number_splits(model: TreeModel, trees: CodedTrees, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the splits of nodes so that equal splits of the same cell have equal numbers (n_nodes,), leaves too."""
    is_inner = trees.feature != LEAF
    is_nominal = is_inner & model.columns.is_nominal[model.columns.source][trees.feature]
    if call_uncompiled(parts_rows, model.split_prior):
        # the rows of the sides determine a split of a cell; an empty side has number -1
        merged_rows, key = identifying_rows(model, model.units.n_units)
        cell = number_distinct_pairs(hash_nodes(trees, model.units.codes, merged_rows, key))[0]
        left, right = cell[np.arange(len(cell)) + is_inner], cell[root + trees.right]
        is_exchanged = is_nominal & (left >= 0) & (right >= 0) & (left > right)
        low, high = np.where(is_exchanged, right, left), np.where(is_exchanged, left, right)
        partition = (low + 1) * (len(cell) + 1) + high + 1
    else:
        box = _categories_in_box(model, trees, root)
        partition = trees.categories & box
        may_exchange = not call_uncompiled(follows_design, model.split_prior)
        lowest_right = (partition != 0) & (partition != box) & (partition & (box & -box) == 0)
        is_exchanged = is_nominal & may_exchange & lowest_right
        partition = np.where(is_nominal, np.where(is_exchanged, box & ~partition, partition), trees.cut)
    return number_distinct_pairs(_pair_columns(trees.feature + 1, partition))[0], is_exchanged


def _categories_in_box(model: TreeModel, trees: CodedTrees, root: np.ndarray) -> np.ndarray:
    """Return for each node the categories (n_nodes,), as bits, of the feature it splits on that its ancestors admit."""
    all_categories = np.array([(1 << min(n, 63)) - 1 for n in model.n_codes.tolist()], dtype=np.int64)
    box, admitted = [all_categories] * len(root), np.zeros(len(root), dtype=np.int64)
    # parents have smaller numbers than their children
    for node in np.flatnonzero(trees.feature != LEAF).tolist():
        k, mask = int(trees.feature[node]), trees.categories[node]
        left = right = box[node]
        admitted[node] = left[k]
        if mask >= 0:
            left, right = left.copy(), right.copy()
            left[k], right[k] = left[k] & mask, right[k] & ~mask
        box[node + 1], box[int(root[node] + trees.right[node])] = left, right
    return admitted
