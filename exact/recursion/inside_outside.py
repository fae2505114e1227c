"""The recursions on a graph of cells: sums over trees (inside), occurrences (outside), and growing of trees."""

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import deposit_bits, full_mask
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.names import short_repr
from pactree_mcmc.tree.arrays import LEAF

from ..graph.boxes import cut_of, is_relative, pack_cut
from ..graph.cells import CellGraph, pack_graph, slot_below
from ..graph.progress import Bar, in_pieces
from .semirings import add_split, choose, exp_down, leaf, store


def inside(graph: CellGraph, semiring: Any, bar: Bar | None = None) -> Any:
    """Compute the sum over all trees below each slot, and return the semiring with its arrays filled.

    The sum over the trees below slot s is, in the semiring (formulas, section 6),

        inside_s  =  stop_s  +  sum over splits e of  split_s * R_e * inside_left(s, e) * inside_right(s, e) .

    A tree below s is a leaf, or a split with a tree below each of its two sides, which are chosen independently. So the
    sum over all pairs of subtrees is the product of the two sums. Entry 0 is the root. Time O(edges times depths)
    semiring operations.
    """
    packed, n = pack_graph(graph), graph.n_cells
    in_pieces(n, lambda first, last: inside_cells(packed, semiring, n - last, n - first), bar)
    return semiring


@jit
def inside_cells(graph: Any, semiring: Any, first: int, last: int) -> None:
    """Compute the sums of `inside` for cells ``first`` to ``last - 1``, given those of the later cells."""
    first_edge, first_slot, depth, layered = graph.first_edge, graph.first_slot, graph.depth, graph.layered
    edge_left, edge_right, log_rule = graph.left, graph.right, graph.log_rule
    log_stop, log_split = graph.log_stop, graph.log_split
    for cell in range(last - 1, first - 1, -1):
        for slot in range(first_slot[cell + 1] - 1, first_slot[cell] - 1, -1):
            so_far = leaf(semiring, cell, slot, log_stop[slot])
            split = log_split[slot]
            if split > -np.inf:
                below = depth[cell] + slot - first_slot[cell] + 1
                for e in range(first_edge[cell], first_edge[cell + 1]):
                    left, right = np.int64(edge_left[e]), np.int64(edge_right[e])
                    if layered:
                        left = first_slot[left] + below - depth[left]
                        right = first_slot[right] + below - depth[right]
                    so_far = add_split(semiring, so_far, slot, e, split + log_rule[e], left, right)
            store(semiring, slot, so_far)


class Occurrences(NamedTuple):
    """Expected numbers of occurrences in a tree of the posterior. For a cell with rows they are probabilities."""

    def __repr__(self) -> str:
        return short_repr(self)

    # (n_slots,) float64: number of nodes that are this cell at this depth; times ``exp(log_stop - inside)``, of leaves
    slot: np.ndarray
    split: np.ndarray  # (n_edges,) float64: number of nodes, at any depth, that are the cell and have this split


def outside(graph: CellGraph, log_inside: np.ndarray) -> Occurrences:
    """Return how often each slot and each split is expected to occur in a tree. Takes as long as `inside`.

    The root occurs once. A split e at slot s occurs

        occurs_s * split_s * R_e * inside_left * inside_right / inside_s

    times, and each of its two children occurs as often in addition. ``log_inside`` (n_slots,) are the values of
    `LogSum`.
    """
    packed, out = pack_graph(graph), Occurrences(np.zeros(len(log_inside)), np.zeros(graph.n_edges))
    out.slot[0] = 1.0
    in_pieces(graph.n_cells, lambda first, last: outside_cells(packed, log_inside, *out, first, last))
    return out


@jit
def outside_cells(
    graph: Any, log_inside: np.ndarray, occurs: np.ndarray, asked: np.ndarray, first: int, last: int
) -> None:
    """Add the occurrences of the splits of cells ``first`` to ``last - 1`` and of their children.

    The occurrences of the slots of these cells must be complete, so that cells are processed in order.
    """
    first_edge, first_slot, depth, layered = graph.first_edge, graph.first_slot, graph.depth, graph.layered
    edge_left, edge_right, log_rule, log_split = graph.left, graph.right, graph.log_rule, graph.log_split
    for cell in range(first, last):
        for slot in range(first_slot[cell], first_slot[cell + 1]):
            here, offset = occurs[slot], log_split[slot] - log_inside[slot]
            if here == 0.0 or log_split[slot] == -np.inf:
                continue
            below = depth[cell] + slot - first_slot[cell] + 1
            for e in range(first_edge[cell], first_edge[cell + 1]):
                left, right = np.int64(edge_left[e]), np.int64(edge_right[e])
                if layered:
                    left = first_slot[left] + below - depth[left]
                    right = first_slot[right] + below - depth[right]
                part = here * exp_down(offset + log_rule[e] + log_inside[left] + log_inside[right])
                asked[e] += part
                occurs[left] += part
                occurs[right] += part


class GrownTrees(NamedTuple):
    """Trees grown from the root down, with nodes in preorder, one tree after another."""

    # (n_nodes, 7) int64: columns CELL, FEATURE (LEAF in a leaf), SPLIT, RIGHT and PARENT (nodes counted from the start
    # of the tree), IS_LEFT, and WANTED, which tree of the slot the semiring chose
    nodes: np.ndarray
    offset: np.ndarray  # (n_trees + 1,) int64: first node of each tree
    log_prior: np.ndarray  # (n_trees,) float64, without the constant
    log_score: np.ndarray  # (n_trees,) float64


CELL, FEATURE, SPLIT, RIGHT, PARENT, IS_LEFT, WANTED = range(7)
"""Columns of `GrownTrees.nodes`."""


@jit
def grow_trees(rng: np.random.Generator, graph: Any, semiring: Any, wanted: np.ndarray, model: Any) -> GrownTrees:
    """Return trees grown from the root down as the semiring chooses, one for each entry of ``wanted`` (n_trees,).

    With `LogSum` the trees are independent draws from the posterior. With `Best` each is the best tree. With
    `BestBySize` it is the tree of the coefficient ``wanted`` of the root, with `Hull` that of this vertex, and with
    `Ranked` that of this rank. Time of a tree: the number of splits of its cells.
    """
    n_trees = len(wanted)
    nodes = np.empty((64, 7), dtype=np.int64)
    todo = np.empty((64, 5), dtype=np.int64)
    offset = np.zeros(n_trees + 1, dtype=np.int64)
    log_prior, log_score = np.zeros(n_trees), np.zeros(n_trees)
    n = 0
    for t in range(n_trees):
        base = n
        _put(todo, 0, 0, 0, -1, 0, wanted[t])
        n_todo = 1
        while n_todo > 0:
            n_todo -= 1
            cell, depth, parent, is_left = todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3]
            if n == len(nodes):
                nodes = _double_rows(nodes)
            if n_todo + 2 > len(todo):
                todo = _double_rows(todo)
            nodes[n, CELL], nodes[n, FEATURE], nodes[n, SPLIT], nodes[n, RIGHT] = cell, LEAF, 0, 0
            nodes[n, PARENT], nodes[n, IS_LEFT], nodes[n, WANTED] = parent, is_left, todo[n_todo, 4]
            if parent >= 0 and is_left == 0:
                nodes[base + parent, RIGHT] = n - base
            slot = slot_below(graph, cell, depth)
            e, on_left, on_right = choose(semiring, rng, graph, cell, slot, depth + 1, todo[n_todo, 4])
            if e < 0:
                log_score[t] += graph.score[cell]
                log_prior[t] += graph.log_stop[slot] - graph.score[cell]
            else:
                log_prior[t] += graph.log_split[slot] + graph.log_rule[e]
                nodes[n, FEATURE], nodes[n, SPLIT] = graph.feature[e], graph.split[e]
                if graph.rows[cell] == 0:
                    nodes[n, SPLIT] = _absolute_split(model, nodes, base, n)
                _put(todo, n_todo, graph.right[e], depth + 1, n - base, 0, on_right)
                _put(todo, n_todo + 1, graph.left[e], depth + 1, n - base, 1, on_left)
                n_todo += 2
            n += 1
        offset[t + 1] = n
    return GrownTrees(nodes[:n].copy(), offset, log_prior, log_score)


@jit
def _put(todo: np.ndarray, at: int, cell: int, depth: int, parent: int, is_left: int, wanted: int) -> None:
    """Write a node that is still to be grown into row ``at`` of the stack."""
    todo[at, 0], todo[at, 1], todo[at, 2], todo[at, 3], todo[at, 4] = cell, depth, parent, is_left, wanted


@jit
def _double_rows(a: np.ndarray) -> np.ndarray:
    """Return an array with twice as many rows that begins with those of ``a``."""
    out = np.empty((2 * a.shape[0], a.shape[1]), dtype=a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j]
    return out


@jit
def _absolute_split(model: Any, nodes: np.ndarray, base: int, n: int) -> int:
    """Return the split of node ``n``, whose cell is empty, in codes of the feature.

    If the graph stores it relative to the box of the cell, the box is found from the splits above the node. ``base`` is
    the number of the root of the tree, from which parents are counted.
    """
    k, split = nodes[n, FEATURE], nodes[n, SPLIT]
    if not is_relative(model.split_prior, 0):
        return split
    nominal, twin = model.split_prior.feature[k].nominal, model.split_prior.feature[k].twin
    low, here = np.int64(0), n
    if nominal:
        low = full_mask(model.split_prior.feature[k].n_codes)
    while nodes[here, PARENT] >= 0:
        parent = base + nodes[here, PARENT]
        if nodes[parent, FEATURE] == k or nodes[parent, FEATURE] == twin:
            if nominal:
                low &= nodes[parent, SPLIT] if nodes[here, IS_LEFT] else ~nodes[parent, SPLIT]
            elif nodes[here, IS_LEFT] == 0:
                low = max(low, cut_of(nodes[parent, SPLIT]) + 1)
        here = parent
    if nominal:
        return deposit_bits(low, split)
    cut = cut_of(split) + low
    return pack_cut(cut, cut + 1)
