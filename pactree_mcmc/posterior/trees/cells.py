"""Number the cells and splits of drawn trees, find equal trees, and compute the divergence of draws from the prior.

The definitions are in the formulas, section 12.5.

A cell is the set of training rows of a node; a split is the unordered partition of a cell in two. So a nominal split
with its sides exchanged is the same split, and so is one with another threshold, or another feature, that divides the
rows in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.compile.jit import jit
from ...core.names import with_short_repr
from ...model.obstacles import unknown_constant
from ...model.split_prior.geometry import follows_design, parts_rows, told
from ...tree.arrays import LEAF
from ...tree.coded import CodedTrees

if TYPE_CHECKING:
    from ...model import TreeModel
    from ..draws import DrawnTrees

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

    def holders(self, which: np.ndarray, *, splits: bool = False) -> np.ndarray:
        """Return a (m, n_trees) bool array: True if a tree has cell ``which[i]``, or with ``splits`` that split."""
        of_node, n = (self.split_of_node, self.n_splits) if splits else (self.of_node, self.n_cells)
        place = np.full(n + 1, -1)
        place[which] = np.arange(len(which))
        out = np.zeros((len(which), len(self.offset) - 1), dtype=np.bool_)
        row = place[of_node]
        out[row[row >= 0], self.tree_of_node[row >= 0]] = True
        return out

    def frequencies(self, weight: np.ndarray, *, splits: bool = False) -> np.ndarray:
        """Return the total ``weight`` (..., n_trees) of the trees with each cell (or split), (..., n_cells)."""
        if splits:
            tree, member = self.tree_of_node, self.split_of_node
            tree, member = tree[member >= 0], member[member >= 0]
        else:
            tree, member = np.repeat(np.arange(len(self.offset) - 1), np.diff(self.offset)), self.member
        n = self.n_splits if splits else self.n_cells
        rows = weight.reshape(-1, weight.shape[-1])
        out = np.array([np.bincount(member, weights=row[tree], minlength=n) for row in rows]).reshape(len(rows), n)
        return out.reshape(*weight.shape[:-1], n)


def number_cells(model: TreeModel, trees: CodedTrees, max_rows: int = MAX_ROWS) -> Cells:
    """Number the cells and splits of distinct trees.

    At most ``max_rows`` distinct rows are used, evenly spaced. The hash of a cell is the exclusive or of 126 random
    bits for each of its rows, so two different cells of a posterior count as one with a probability below 1e-26.
    O(rows * depth) a tree.
    """
    units, key = rows_looked_at(model, max_rows)
    # Zobrist hashing: hash(A) = xor over i in A of key[i], so hash(A or B) = hash(A) ^ hash(B) for disjoint A and B
    word = hash_nodes(trees, model.units.codes, units, key)
    of_node, first = number_words(word)
    tree_of_node = np.repeat(np.arange(trees.n_trees), np.diff(trees.offset))
    inner = np.flatnonzero(trees.feature != LEAF)
    sides = of_node[np.column_stack([inner + 1, trees.offset[tree_of_node[inner]] + trees.right[inner]])]
    sides.sort(axis=1)
    # an empty side has number -1, which sorts first; such a node separates no rows and has no split
    parts = sides[:, 0] >= 0
    split_of_node = np.full(len(of_node), -1, dtype=np.int64)
    split_of_node[inner[parts]], first_split = number_words(sides[parts].astype(np.uint64) + np.uint64(1))
    offset, member = _by_tree(tree_of_node, of_node, trees.n_trees)
    key_of_cell, sides_of_split = word[first], sides[parts][first_split]
    n_rows, all_rows = len(units), model.units.n_units
    return Cells(of_node, split_of_node, tree_of_node, key_of_cell, sides_of_split, offset, member, n_rows, all_rows)


def rows_looked_at(model: TreeModel, max_rows: int = MAX_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Choose the distinct rows that identify cells: return unit numbers (m,), evenly spaced, and hash keys (m, 2).

    A unit is a group of merged equal rows. The keys are 126 random bits, the same in every posterior of the model.
    """
    n = model.units.n_units
    units = np.unique(np.linspace(0, n - 1, min(n, max_rows)).astype(np.int64))
    key = np.random.default_rng(20_261_123).integers(1, 1 << 63, size=(n, 2), dtype=np.uint64)
    return units, np.ascontiguousarray(key[units])


def distinct_rows(model: TreeModel, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the row numbers (m,) and units (m,) of at most ``most`` training rows that the model can distinguish.

    A unit is a group of merged equal rows. Two rows are alike if no split separates them and they have the same
    regressors of the leaf, if any. The first of several rows that are alike is returned. If more than ``most`` rows
    remain, evenly spaced ones are chosen, including the first and the last.
    """
    units = np.arange(model.n_rows) if model.unit_of_row is None else model.unit_of_row
    regressors = model.target.regressors
    if regressors is None:
        candidates, more = np.sort(np.unique(units, return_index=True)[1]), []
    else:
        candidates, more = np.arange(model.n_rows), [*regressors.T]
    keys, number = [*model.units.codes[:, units[candidates]], *more], np.zeros(len(candidates), dtype=np.int64)
    for key in keys:
        if number.max() + 1 == len(number):
            break
        # number the pairs of the columns so far and the next column
        codes = np.unique(key, return_inverse=True)[1]
        number = np.unique(number * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    rows = candidates[np.sort(np.unique(number, return_index=True)[1])]
    if len(rows) > most:
        rows = rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
    return rows, units[rows]


def training_points(model: TreeModel, max_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers (m,) of some training rows, and values X (m, p) that every tree routes like these rows.

    At most ``max_points`` rows are taken, evenly spaced; of rows with equal codes, which no split separates, only the
    first is kept. The value of a code is its smallest training value under local cuts, otherwise the cut above it.
    """
    rows = np.unique(np.linspace(0, model.n_rows - 1, min(max_points, model.n_rows)).astype(np.int64))
    units = rows if model.unit_of_row is None else model.unit_of_row[rows]
    first = np.sort(np.unique(model.units.codes[:, units], axis=1, return_index=True)[1])
    return rows[first], model.unit_numbers(units[first])


def _by_tree(tree: np.ndarray, cell: np.ndarray, n_trees: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``offset`` and ``member`` of `Cells`, given the ``tree`` and the ``cell`` (n_nodes,) of each node."""
    has_rows = cell >= 0
    n = int(cell.max(initial=0)) + 1
    both = tree[has_rows] * n + cell[has_rows]
    both.sort()
    # np.unique hashes, which takes ten times as long for the millions of cells of large trees
    both = both[np.append(True, both[1:] != both[:-1])] if len(both) else both
    return np.searchsorted(both, np.arange(n_trees + 1) * n), both % n


@jit
def hash_nodes(trees: CodedTrees, codes: np.ndarray, units: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return the hash (n_nodes, 2) of the rows in each node: the exclusive or of the ``key`` (m, 2) of its ``units``.

    ``codes`` (p, n_units) are the coded values and ``units`` (m,) the distinct rows used. Empty nodes have hash (0, 0).
    """
    n = len(units)
    word = np.zeros((len(trees.feature), 2), dtype=np.uint64)
    order, start, stop = np.empty(n, dtype=np.int64), np.empty(1, dtype=np.int64), np.empty(1, dtype=np.int64)
    for t in range(len(trees.offset) - 1):
        base, end = trees.offset[t], trees.offset[t + 1]
        if end - base > len(start):
            start, stop = np.empty(end - base, dtype=np.int64), np.empty(end - base, dtype=np.int64)
        for i in range(n):
            order[i] = i
        start[0], stop[0] = 0, n
        for node in range(end - base):
            here = base + node
            if trees.feature[here] == LEAF:
                for i in range(start[node], stop[node]):
                    word[here, 0] ^= key[order[i], 0]
                    word[here, 1] ^= key[order[i], 1]
                continue
            k, cut, mask = trees.feature[here], trees.cut[here], trees.categories[here]
            middle = start[node]
            for i in range(start[node], stop[node]):
                moved = order[i]
                code = np.int64(codes[k, units[moved]])
                left = code <= cut if mask < 0 else (mask >> code) & 1 == 1
                order[i] = order[middle]
                order[middle] = moved
                middle += 1 if left else 0
            right = trees.right[here]
            start[node + 1], stop[node + 1] = start[node], middle
            start[right], stop[right] = middle, stop[node]
        for node in range(end - base - 1, -1, -1):
            here = base + node
            if trees.feature[here] != LEAF:
                for j in range(2):
                    word[here, j] = word[here + 1, j] ^ word[base + trees.right[here], j]
    return word


@jit
def number_words(word: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct rows of ``word`` (m, 2) in the order of first occurrence, by a hash table.

    Returns the number (m,) of each row, -1 for a row of two zeros, and the position of each number's first occurrence.
    """
    room = 16
    while room < 2 * len(word):
        room *= 2
    table, first = np.full(room, -1, dtype=np.int64), np.empty(len(word), dtype=np.int64)
    number, n = np.full(len(word), -1, dtype=np.int64), 0
    for i in range(len(word)):
        if word[i, 0] == 0 and word[i, 1] == 0:
            continue
        mixed = word[i, 0] * np.uint64(0x9E3779B97F4A7C15) + word[i, 1] * np.uint64(0xC2B2AE3D27D4EB4F)
        at = np.int64(mixed >> np.uint64(20)) & (room - 1)
        while table[at] >= 0:
            other = first[table[at]]
            if word[other, 0] == word[i, 0] and word[other, 1] == word[i, 1]:
                break
            at = (at + 1) & (room - 1)
        if table[at] < 0:
            table[at], first[n] = n, i
            n += 1
        number[i] = table[at]
    return number, first[:n].copy()


def kl_of_draws(post: DrawnTrees) -> float:
    """Return sum_t w_t log(w_t / prior(t)), nats, over the distinct trees t with fraction w_t of the draws.

    Implementation of `SampledPosterior.kl_to_prior`.
    """
    reason = unknown_constant(post.model)
    if reason is not None:
        raise ValueError(f"the divergence from the prior is unknown: {reason}.")
    number = same_trees(post.model, post.coded_trees)
    first, which = np.unique(number, return_index=True, return_inverse=True)[1:]
    weight = np.bincount(which, weights=post.weight_of_tree)
    drawn = weight > 0.0
    weight, log_prior = weight[drawn], post.log_prior_of_tree[first[drawn]]
    return as_divergence(float(weight @ (np.log(weight) - log_prior)), float(weight @ np.abs(log_prior)))


def as_divergence(difference: float, size: float) -> float:
    """Return ``difference``, a divergence in nats, or 0 if rounding has made it negative.

    ``size`` is the order of the terms whose difference it is.

    Raises
    ------
    RuntimeError
        If the difference is negative beyond rounding, since no divergence is negative.
    """
    if not difference >= -1e-9 * max(1.0, size):
        raise RuntimeError(
            f"the divergence from the prior came out as {difference} nats, but divergences are not negative: unless "
            "the tree prior is your own and its probabilities add up to more than 1, this is an error in pactree_mcmc; "
            "please report it."
        )
    return max(difference, 0.0)


def same_trees(model: TreeModel, trees: CodedTrees) -> np.ndarray:
    """Return a label (n_trees,) int64 for each tree, such that equal trees have equal labels, by first occurrence.

    Under local cuts two splits of a cell are equal if they are on the same feature and divide its rows in the same way;
    otherwise if they have the same cut, or the same set of categories. The two sides of a nominal split may be
    exchanged.
    """
    first, n = np.repeat(trees.offset[:-1], np.diff(trees.offset)), len(trees.feature)
    split, is_turned = _number_splits(model, trees, first)
    sides = np.column_stack([np.arange(1, n + 1), first + trees.right])
    sides[is_turned] = sides[is_turned, ::-1]
    levels, here = [], trees.offset[:-1]
    while len(here):
        levels.append(here[trees.feature[here] != LEAF])
        here = sides[levels[-1]].ravel()
    # equal subtrees of equal trees begin at the same depth: number those of each depth, from the deepest to the roots
    number = np.zeros(n, dtype=np.int64)
    for here in reversed(levels):
        below = number[sides[here]]
        number[here] = 1 + number_words(_pairs(split[here], below[:, 0] * n + below[:, 1]))[0]
    roots = number[trees.offset[:-1]]
    return number_words(_pairs(roots, np.zeros_like(roots)))[0]


def _pairs(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return numbers >= 0, two arrays (m,), plus one as the columns of a (m, 2) uint64 array for `number_words`."""
    return np.column_stack([one, other]).astype(np.uint64) + np.uint64(1)


def _number_splits(model: TreeModel, trees: CodedTrees, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the splits of nodes so that equal splits of the same cell have equal numbers (n_nodes,).

    Also returns a bool array (n_nodes,): True if the two sides of a nominal split must be exchanged, so that equal
    splits have the same left side. ``first`` (n_nodes,) is the root of the tree of each node.
    """
    is_inner = trees.feature != LEAF
    is_nominal = is_inner & model.columns.is_nominal[model.columns.source][trees.feature]
    if told(parts_rows, model.split_prior):
        # the rows of the sides determine a split of a cell; an empty side has number -1
        units, key = rows_looked_at(model, model.units.n_units)
        cell = number_words(hash_nodes(trees, model.units.codes, units, key))[0]
        left, right = cell[np.arange(len(cell)) + is_inner], cell[first + trees.right]
        is_turned = is_nominal & (left >= 0) & (right >= 0) & (left > right)
        low, high = np.where(is_turned, right, left), np.where(is_turned, left, right)
        partition = (low + 1) * (len(cell) + 1) + high + 1
    else:
        box = _categories_in_box(model, trees, first)
        partition = trees.categories & box
        turns = not told(follows_design, model.split_prior)
        lowest_right = (partition != 0) & (partition != box) & (partition & (box & -box) == 0)
        is_turned = is_nominal & turns & lowest_right
        partition = np.where(is_nominal, np.where(is_turned, box & ~partition, partition), trees.cut)
    return number_words(_pairs(trees.feature + 1, partition))[0], is_turned


def _categories_in_box(model: TreeModel, trees: CodedTrees, first: np.ndarray) -> np.ndarray:
    """Return the categories (n_nodes,), as bits, that the splits above a node admit, of the feature it splits on.

    0 for leaves. ``first`` (n_nodes,) is the root of the tree of each node.
    """
    whole = np.array([(1 << min(n, 63)) - 1 for n in model.n_codes.tolist()], dtype=np.int64)
    box, out = [whole] * len(first), np.zeros(len(first), dtype=np.int64)
    # parents have smaller numbers than their children
    for node in np.flatnonzero(trees.feature != LEAF).tolist():
        k, mask = int(trees.feature[node]), trees.categories[node]
        left = right = box[node]
        out[node] = left[k]
        if mask >= 0:
            left, right = left.copy(), right.copy()
            left[k], right[k] = left[k] & mask, right[k] & ~mask
        box[node + 1], box[int(first[node] + trees.right[node])] = left, right
    return out
