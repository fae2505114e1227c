"""The graph of the cells and splits of given trees, and of their neighbours (formulas, 12.4).

Cells are processed by decreasing size, so that all trees that reach a cell are known when it is processed. All splits
of a cell are listed once, to compute their probabilities. The splits that the trees use are kept, and their children
are processed later.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import full_mask
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.compile.pack import pack
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.geometry import parts_rows
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.coded import CodedTrees

from ..limits.intractable import Limit
from .boxes import CUT_MASK, cut_of, find_members, is_relative, moved_bits, pack_cut, pack_cuts, sends_left, span
from .build import (
    ADD,
    ADD_WANTED,
    FIND,
    FINISHED,
    MODE,
    N_CELLS,
    N_WANTED,
    add_root,
    bound_n_splits,
    expand_some,
    list_known_splits,
    room,
)
from .building import Building
from .cells import CellGraph, with_slots

NONE = -1
"""End of a linked list, or no node, cell or edge."""
FEATURE, SPLIT, BITS, EDGE = range(4)
"""Columns of ``wanted`` in the scratch of the builder: the splits of the current cell that trees use."""


class TreeNodes(NamedTuple):
    """The nodes of all trees, one tree after another, with linked lists of the nodes in each cell."""

    feature: np.ndarray  # (n_nodes,) int64, LEAF in a leaf
    split: np.ndarray  # (n_nodes,) int64: packed cut, or categories going left
    parent: np.ndarray  # (n_nodes,) int64: node, counted over all trees; NONE for a root
    left: np.ndarray  # (n_nodes,) int64: left child, likewise
    right: np.ndarray  # (n_nodes,) int64
    next_node: np.ndarray  # (n_nodes,) int64: next node in the list of the nodes of the same cell, or NONE
    want: np.ndarray  # (n_nodes,) int64: number of the node's split among the wanted splits of its cell
    first_node: np.ndarray  # (most cells,) int64: first node in the list of the nodes of this cell, or NONE
    next_cell: np.ndarray  # (most cells,) int64: next cell in the list of the cells of the same size, or NONE
    of_size: np.ndarray  # (largest size + 1,) int64: first cell of each size that is still to be processed, or NONE
    size: np.ndarray  # (1,) int64: size of the cells that are processed now


def build_visited(model: TreeModel, trees: CodedTrees, grow: int, limit: Limit) -> CellGraph:
    """Return the graph of the cells and splits of ``trees``, with log R as in the whole graph.

    If ``grow`` is 1, add every split of these cells whose two children are both among these cells. If it is 2, add
    every split of these cells, with new children as leaves.
    """
    nodes = _tree_nodes(model, trees)
    building = Building(model, limit, len(nodes.feature) + 1)
    building.run(send_trees_down, pack(nodes))
    if grow > 0:
        building.forget_splits()
        no_limit, mode = np.iinfo(np.int64).max, FIND if grow == 1 else ADD
        building.run(expand_some, np.arange(building.n_cells), no_limit, mode)
    return with_slots(model, building.parts()[0])


def _tree_nodes(model: TreeModel, trees: CodedTrees) -> TreeNodes:
    """Return the nodes of ``trees``, none of them assigned to a cell yet."""
    offset, n_nodes = trees.offset, np.diff(trees.offset)
    first = np.repeat(offset[:-1], n_nodes)
    inner, number = trees.feature != LEAF, np.arange(len(trees.feature))
    none = np.full(len(number), NONE, dtype=np.int64)
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
        want=none,
        first_node=np.full(most_cells, NONE, dtype=np.int64),
        next_cell=np.full(most_cells, NONE, dtype=np.int64),
        of_size=np.full(largest + 1, NONE, dtype=np.int64),
        size=np.full(1, largest, dtype=np.int64),
    )


@jit
def send_trees_down(model: Any, work: Any, nodes: Any) -> int:
    """Assign the nodes of all trees to cells, from the root down, and add these cells and their splits to the graph.

    Return FINISHED, or the array that is full: the caller makes it longer and calls again.
    """
    count, cells, of_size = work.scratch.count, work.cells, nodes.of_size
    if count[N_CELLS] == 0:
        count[MODE] = ADD
        add_root(model, work)
        of_size[cells.size[0]] = 0
        for node in range(len(nodes.parent)):
            if nodes.parent[node] == NONE:
                _enter_cell(nodes, np.int64(node), np.int64(0))
    while nodes.size[0] >= 0:
        cell = of_size[nodes.size[0]]
        if cell == NONE:
            nodes.size[0] -= 1
            continue
        n_members = find_members(model, work, cell)
        status = room(work, bound_n_splits(model, work, n_members, cell))
        if status != FINISHED:
            return status
        of_size[nodes.size[0]] = nodes.next_cell[cell]
        _write_wanted(model, work, nodes, cell, n_members)
        n_known = count[N_CELLS]
        list_known_splits(model, work, cell, n_members, ADD_WANTED)
        for new in range(n_known, count[N_CELLS]):
            nodes.next_cell[new] = of_size[cells.size[new]]
            of_size[cells.size[new]] = new
        _move_to_children(work, nodes, cell)
    return FINISHED


@jit
def _enter_cell(nodes: Any, node: int, cell: int) -> None:
    """Add a node to the list of the nodes of a cell."""
    nodes.next_node[node] = nodes.first_node[cell]
    nodes.first_node[cell] = node


@jit
def _write_wanted(model: Any, work: Any, nodes: Any, cell: int, n_members: int) -> None:
    """Write the distinct splits of a cell in trees into ``wanted``, and the row of each node's split into ``want``.

    The node of a tree below a split that sends all rows to one side is in the same cell, and is added to its list.
    """
    wanted, n = work.scratch.wanted, np.int64(0)
    node = nodes.first_node[cell]
    while node != NONE:
        k = nodes.feature[node]
        if k != LEAF:
            split, bits = _split_in_cell(model, work, nodes, cell, node, n_members)
            at = np.int64(0)
            while at < n and (wanted[at, FEATURE] != k or wanted[at, SPLIT] != split):
                at += 1
            if at == n:
                wanted[n, FEATURE], wanted[n, SPLIT], wanted[n, BITS], wanted[n, EDGE] = k, split, bits, NONE
                n += 1
            nodes.want[node] = at
            if parts_rows(model.split_prior):
                n_left = _n_left(model, work, k, split, n_members)
                if n_left == n_members:
                    _stay_in_cell(nodes, node, nodes.left[node])
                if n_left == 0:
                    _stay_in_cell(nodes, node, nodes.right[node])
        node = nodes.next_node[node]
    work.scratch.count[N_WANTED] = n


@jit
def _stay_in_cell(nodes: Any, node: int, child: int) -> None:
    """Insert a child into the list of the nodes of a cell behind its parent: it is the same cell, with all rows."""
    nodes.next_node[child], nodes.next_node[node] = nodes.next_node[node], child


@jit
def _n_left(model: Any, work: Any, k: int, split: int, n_members: int) -> int:
    """Return the number of points of a cell that a split sends left."""
    nominal, n = model.split_prior.feature[k].nominal, 0
    for j in range(n_members):
        n += sends_left(split, work.points.codes[k, work.scratch.members[j]], nominal)
    return n


@jit
def _split_in_cell(model: Any, work: Any, nodes: Any, cell: int, node: int, n_members: int) -> tuple[int, int]:
    """Return the split of a node in the form in which its cell lists splits, and a mask of the bits that identify it.

    If the cell lists a nominal split with its sides exchanged, the children of the node are exchanged.
    """
    rule, box, k = model.split_prior, work.scratch.box, nodes.feature[node]
    split, rows, local = nodes.split[node], work.cells.rows[cell], parts_rows(rule)
    if rows == 0 and local:
        return np.int64(0), np.int64(0)
    if not rule.feature[k].nominal:
        cut = cut_of(split)
        if is_relative(rule, rows):
            cut += span(model, work, k)[0] - _box_of_node(rule, nodes, node, k)
        elif local:
            n_left = _n_left(model, work, k, split, n_members)
            cut = np.int64(-1) if n_left == 0 else rule.feature[k].n_codes - 1 if n_left == n_members else cut
        return pack_cut(cut, np.int64(0)), np.int64(CUT_MASK)
    present = box[k, 0]
    if local:
        present = np.int64(0)
        for j in range(n_members):
            present |= np.int64(1) << work.points.codes[k, work.scratch.members[j]]
    elif is_relative(rule, rows):
        split = moved_bits(split, _box_of_node(rule, nodes, node, k), present)
    split &= present
    if split != 0 and split != present and split & (present & -present) == 0:
        nodes.left[node], nodes.right[node] = nodes.right[node], nodes.left[node]
        split = present & ~split
    return split, present


@jit
def _box_of_node(rule: Any, nodes: Any, node: int, k: int) -> int:
    """Return the first code of ordered coordinate ``k`` in the box of a node, or the categories of a nominal one.

    The box follows from the splits above the node in its tree.
    """
    nominal, twin = rule.feature[k].nominal, rule.feature[k].twin
    box, here = full_mask(rule.feature[k].n_codes) if nominal else np.int64(0), node
    while nodes.parent[here] != NONE:
        up = nodes.parent[here]
        if nodes.feature[up] == k or nodes.feature[up] == twin:
            if nominal:
                box &= nodes.split[up] if here == up + 1 else ~nodes.split[up]
            elif nodes.right[up] == here:
                box = max(box, cut_of(nodes.split[up]) + 1)
        here = up
    return box


@jit
def _move_to_children(work: Any, nodes: Any, cell: int) -> None:
    """Assign the children of the tree nodes in a cell to the cells to which the splits of these nodes lead."""
    node = nodes.first_node[cell]
    while node != NONE:
        e = work.scratch.wanted[nodes.want[node], EDGE] if nodes.feature[node] != LEAF else NONE
        if e != NONE:
            left, right = np.int64(work.edges.left[e]), np.int64(work.edges.right[e])
            if left != cell:
                _enter_cell(nodes, nodes.left[node], left)
            if right != cell:
                _enter_cell(nodes, nodes.right[node], right)
        node = nodes.next_node[node]
