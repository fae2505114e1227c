"""Recursions on a graph of cells: sums over trees (inside), occurrences (outside), growing of trees.

The values of children are those of their slots one level deeper. Semirings are defined in `semirings`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import deposit_bits, full_mask
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.texts import with_short_repr
from pactree_mcmc.tree.arrays import LEAF

from ..graph.boxes import is_relative, pack_cut, unpack_cut
from ..graph.cells import CELL_COLUMNS, CellGraph, pack_graph, slot_at_depth
from ..limits import Bar, run_in_pieces
from .semirings import add_split, choose_split, exp_down, start_with_leaf, store


def compute_inside(graph: CellGraph, semiring: Any, bar: Bar | None = None) -> Any:
    """Compute the sum over all trees below each slot, and return the semiring with its arrays filled."""
    # In the semiring (formulas, section 6),
    #     inside_s  =  stop_s  +  sum over splits e of  split_s * R_e * inside_left(s, e) * inside_right(s, e) .
    # A tree below s is a leaf (stop_s, with its likelihood), or a split with a tree below each of its two sides, which
    # are chosen independently: the sum over all pairs of subtrees is the product of the two sums. Slot 0 is the root.
    packed, n = pack_graph(graph), graph.n_cells
    run_in_pieces(n, lambda first, last: compute_inside_of_cells(packed, semiring, n - last, n - first), bar)
    return semiring


@jit
def compute_inside_of_cells(graph: Any, semiring: Any, first: int, last: int) -> None:
    """Write the sums of `compute_inside` for cells ``last - 1`` down to ``first`` into the semiring's arrays."""
    # children have larger numbers than their parents, so that their sums are known
    first_edge, first_slot, depth, layered = graph.first_edge, graph.first_slot, graph.depth, graph.layered
    edge_left, edge_right, log_rule = graph.left, graph.right, graph.log_rule
    log_stop, log_split = graph.log_stop, graph.log_split
    for cell in range(last - 1, first - 1, -1):
        for slot in range(first_slot[cell + 1] - 1, first_slot[cell] - 1, -1):
            accumulator = start_with_leaf(semiring, cell, slot, log_stop[slot])
            split = log_split[slot]
            if split > -np.inf:
                child_depth = depth[cell] + slot - first_slot[cell] + 1
                for e in range(first_edge[cell], first_edge[cell + 1]):
                    left, right = np.int64(edge_left[e]), np.int64(edge_right[e])
                    if layered:
                        left = first_slot[left] + child_depth - depth[left]
                        right = first_slot[right] + child_depth - depth[right]
                    accumulator = add_split(semiring, accumulator, slot, e, split + log_rule[e], left, right)
            store(semiring, slot, accumulator)


@with_short_repr
class Occurrences(NamedTuple):
    """Expected numbers of occurrences of slots and splits in a tree of the posterior."""

    # probabilities for cells with rows
    # (n_slots,) float64: number of nodes that are this cell at this depth; times ``exp(log_stop - inside)``, of leaves
    slot: np.ndarray
    split: np.ndarray  # (n_edges,) float64: number of nodes, at any depth, that are the cell and have this split


def expected_occurrences(graph: CellGraph, log_inside: np.ndarray) -> Occurrences:
    """Return how often each slot (n_slots,) and each split is expected to occur in a tree of the posterior."""
    # The root occurs once. A split e at slot s occurs
    #     occurs_s * split_s * R_e * inside_left * inside_right / inside_s
    # times, and each of its two children occurs as often in addition; the slots of the cell are summed
    packed, out = pack_graph(graph), Occurrences(np.zeros(len(log_inside)), np.zeros(graph.n_edges))
    out.slot[0] = 1.0
    run_in_pieces(graph.n_cells, lambda first, last: add_occurrences_of_cells(packed, log_inside, *out, first, last))
    return out


@jit
def add_occurrences_of_cells(
    graph: Any,
    log_inside: np.ndarray,
    slot_occurrences: np.ndarray,
    split_occurrences: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Add the expected occurrences of the splits of cells ``first`` to `last - 1`, and of their children, in place."""
    # cells are processed from the root on, so that the slots of these cells are complete
    first_edge, first_slot, depth, layered = graph.first_edge, graph.first_slot, graph.depth, graph.layered
    edge_left, edge_right, log_rule, log_split = graph.left, graph.right, graph.log_rule, graph.log_split
    for cell in range(first, last):
        for slot in range(first_slot[cell], first_slot[cell + 1]):
            parent_occurrences, offset = slot_occurrences[slot], log_split[slot] - log_inside[slot]
            if parent_occurrences == 0.0 or log_split[slot] == -np.inf:
                continue
            child_depth = depth[cell] + slot - first_slot[cell] + 1
            for e in range(first_edge[cell], first_edge[cell + 1]):
                left, right = np.int64(edge_left[e]), np.int64(edge_right[e])
                if layered:
                    left = first_slot[left] + child_depth - depth[left]
                    right = first_slot[right] + child_depth - depth[right]
                occurrence = parent_occurrences * exp_down(offset + log_rule[e] + log_inside[left] + log_inside[right])
                split_occurrences[e] += occurrence
                slot_occurrences[left] += occurrence
                slot_occurrences[right] += occurrence


class GrownTrees(NamedTuple):
    """Trees grown from the root down, with nodes in preorder, one tree after another."""

    # (n_nodes, 7) int64: columns CELL, FEATURE (LEAF in a leaf), SPLIT, RIGHT and PARENT (nodes counted from the start
    # of the tree), IS_LEFT, and TREE_NUMBER: which tree of the slot the subtree is, if the semiring has several
    nodes: np.ndarray
    offset: np.ndarray  # (n_trees + 1,) int64: first node of each tree
    log_prior: np.ndarray  # (n_trees,) float64, without the constant
    log_score: np.ndarray  # (n_trees,) float64


CELL, FEATURE, SPLIT, RIGHT, PARENT, IS_LEFT, TREE_NUMBER = range(7)  # columns of `GrownTrees.nodes`


@jit
def grow_trees(rng: np.random.Generator, graph: Any, semiring: Any, tree_numbers: np.ndarray, model: Any) -> GrownTrees:
    """Return trees grown from the root down as the semiring chooses, one for each entry of `tree_numbers`."""
    # An entry says which tree: for `BestBySize` number t * n_sizes + m - 1 has m leaves and count t, for `Hull` it is a
    # vertex of the root, for `Ranked` a rank, 0 the best. `LogSum` draws independently, `Best` has one tree
    n_trees = len(tree_numbers)
    nodes = np.empty((64, 7), dtype=np.int64)
    stack = np.empty((64, 5), dtype=np.int64)
    offset = np.zeros(n_trees + 1, dtype=np.int64)
    log_prior, log_score = np.zeros(n_trees), np.zeros(n_trees)
    node = 0
    for t in range(n_trees):
        root = node
        _push_node(stack, 0, 0, 0, -1, 0, tree_numbers[t])
        n_stacked = 1
        while n_stacked > 0:
            n_stacked -= 1
            cell, depth, parent = stack[n_stacked, 0], stack[n_stacked, 1], stack[n_stacked, 2]
            is_left, tree_number = stack[n_stacked, 3], stack[n_stacked, 4]
            if node == len(nodes):
                nodes = _double_rows(nodes)
            if n_stacked + 2 > len(stack):
                stack = _double_rows(stack)
            nodes[node, CELL], nodes[node, FEATURE], nodes[node, SPLIT], nodes[node, RIGHT] = cell, LEAF, 0, 0
            nodes[node, PARENT], nodes[node, IS_LEFT], nodes[node, TREE_NUMBER] = parent, is_left, tree_number
            if parent >= 0 and is_left == 0:
                nodes[root + parent, RIGHT] = node - root
            slot = slot_at_depth(graph, cell, depth)
            e, left_number, right_number = choose_split(semiring, rng, graph, cell, slot, depth + 1, tree_number)
            if e < 0:
                log_score[t] += graph.score[cell]
                log_prior[t] += graph.log_stop[slot] - graph.score[cell]
            else:
                log_prior[t] += graph.log_split[slot] + graph.log_rule[e]
                nodes[node, FEATURE], nodes[node, SPLIT] = graph.feature[e], graph.split[e]
                if graph.rows[cell] == 0:
                    nodes[node, SPLIT] = _absolute_split(model, nodes, root, node)
                _push_node(stack, n_stacked, graph.right[e], depth + 1, node - root, 0, right_number)
                _push_node(stack, n_stacked + 1, graph.left[e], depth + 1, node - root, 1, left_number)
                n_stacked += 2
            node += 1
        offset[t + 1] = node
    return GrownTrees(nodes[:node].copy(), offset, log_prior, log_score)


@jit
def _push_node(
    stack: np.ndarray, index: int, cell: int, depth: int, parent: int, is_left: int, tree_number: int
) -> None:
    stack[index, 0], stack[index, 1], stack[index, 2] = cell, depth, parent
    stack[index, 3], stack[index, 4] = is_left, tree_number


@jit
def _double_rows(a: np.ndarray) -> np.ndarray:
    """Return an array with twice as many rows that begins with those of ``a``; the others are not initialised."""
    out = np.empty((2 * a.shape[0], a.shape[1]), dtype=a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j]
    return out


@jit
def _absolute_split(model: Any, nodes: np.ndarray, root: int, node: int) -> int:
    """Return the split of a node without training rows in codes of the feature; the box follows from its ancestors."""
    # if only the widths of the box matter, the graph stores the split relative to the box (`boxes.relative_split`)
    feature, split = nodes[node, FEATURE], nodes[node, SPLIT]
    if not is_relative(model.split_prior, 0):
        return split
    record = model.split_prior.feature[feature]
    nominal, paired_feature = record.nominal, record.other_coordinate
    low, descendant = np.int64(0), node
    if nominal:
        low = full_mask(model.split_prior.feature[feature].n_codes)
    while nodes[descendant, PARENT] >= 0:
        parent = root + nodes[descendant, PARENT]
        if nodes[parent, FEATURE] == feature or nodes[parent, FEATURE] == paired_feature:
            if nominal:
                low &= nodes[parent, SPLIT] if nodes[descendant, IS_LEFT] else ~nodes[parent, SPLIT]
            elif nodes[descendant, IS_LEFT] == 0:
                low = max(low, unpack_cut(nodes[parent, SPLIT]) + 1)
        descendant = parent
    if nominal:
        return deposit_bits(low, split)
    cut = unpack_cut(split) + low
    return pack_cut(cut, cut + 1)


NEGLIGIBLE_MASS = 1e-14  # posterior mass that expectations of bounded functions may neglect


def with_unit_weights(graph: CellGraph) -> CellGraph:
    """Return the graph in which every tree of positive weight has weight one, so that sums are numbers of trees."""
    terms = (graph.log_stop, graph.log_split, graph.log_rule)
    ones = (np.where(term > -np.inf, 0.0, -np.inf) for term in terms)
    return graph._replace(**dict(zip(("log_stop", "log_split", "log_rule"), ones, strict=True)))


class LikelyPart(NamedTuple):
    """A graph without the cells and splits that hardly any tree of the posterior has."""

    graph: CellGraph
    slots: np.ndarray  # (n_slots of the whole graph,) bool: True for the slots (cells at a depth) that this part has


def likely_part(graph: CellGraph, occurrences: Occurrences, loss: float = NEGLIGIBLE_MASS) -> LikelyPart:
    """Return the graph without the least likely splits and the cells below, and a mask of its slots."""
    # The expected numbers of the omitted splits in a tree sum to at most `loss`, which bounds P(a tree has one of
    # them). So the mean of a function with values in [0, 1], taken over this part with the inside values of the whole
    # graph, is too small by at most `loss`
    split_occurrences = occurrences.split
    _, exponent = np.frexp(split_occurrences)
    lowest = int(exponent.min(initial=0))
    mass = np.cumsum(np.bincount(exponent - lowest, weights=split_occurrences, minlength=1))
    keep = split_occurrences >= np.ldexp(0.5, int(np.searchsorted(mass, loss, side="right")) + lowest)
    keep &= split_occurrences > 0.0
    left, right = graph.left[keep], graph.right[keep]
    n_kept = np.concatenate([[0], np.cumsum(keep)])
    cells = np.diff(n_kept[graph.first_edge]) > 0
    cells[0] = cells[left] = cells[right] = True
    rank = (np.cumsum(cells) - 1).astype(np.int32)
    slots = graph.by_slot(cells)
    columns = {name: getattr(graph, name)[keep] for name in ("feature", "split", "log_rule")}
    by_cell = {name: getattr(graph, name)[cells] for name in CELL_COLUMNS}
    first_edge = np.append(n_kept[graph.first_edge[:-1][cells]], n_kept[-1])
    return LikelyPart(
        CellGraph(
            first_edge=first_edge,
            left=rank[left],
            right=rank[right],
            first_slot=np.concatenate([[0], np.cumsum(np.diff(graph.first_slot)[cells])]),
            log_stop=graph.log_stop[slots],
            log_split=graph.log_split[slots],
            layered=graph.layered,
            **columns,
            **by_cell,
        ),
        slots,
    )
