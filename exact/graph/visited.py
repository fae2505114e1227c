"""The graph of the cells and splits of given trees, and of their neighbours (formulas, 12.4).

Cells are processed by decreasing size, so that all trees that reach a cell are known when it is processed. All splits
of a cell are listed once, to compute their probabilities. The splits that the trees use are kept, and their children
are processed later.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import full_mask
from pactree_mcmc.core.compile.jit import jit, pack
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.base import parts_rows
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.coded import CodedTrees

from ..limits import Limit
from .boxes import (
    CUT_MASK,
    bound_n_splits,
    box_code_range,
    find_members,
    is_relative,
    pack_cut,
    pack_cuts,
    sends_left,
    translated_bits,
    unpack_cut,
)
from .build import (
    ADD,
    ADD_TREE_SPLITS,
    FIND,
    FINISHED,
    MODE,
    N_CELLS,
    N_TREE_SPLITS,
    Building,
    add_root,
    add_splits_between_cells,
    expand_some,
    storage_status,
)
from .cells import CellGraph, with_slots

NO_ITEM = -1  # end of a linked list, or no node, cell or edge
# columns of `CellScratch.tree_splits`, the splits of trees in the current cell; EDGE is NO_ITEM until listed
FEATURE, SPLIT, BITS, EDGE = range(4)


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
            while index < n and (tree_splits[index, FEATURE] != k or tree_splits[index, SPLIT] != split):
                index += 1
            if index == n:
                tree_splits[n, FEATURE], tree_splits[n, SPLIT] = k, split
                tree_splits[n, BITS], tree_splits[n, EDGE] = bits, NO_ITEM
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
        e = arrays.scratch.tree_splits[nodes.tree_split[node], EDGE] if nodes.feature[node] != LEAF else NO_ITEM
        if e != NO_ITEM:
            left, right = np.int64(arrays.edges.left[e]), np.int64(arrays.edges.right[e])
            if left != cell:
                _enter_cell(nodes, nodes.left[node], left)
            if right != cell:
                _enter_cell(nodes, nodes.right[node], right)
        node = nodes.next_node[node]
