"""The graph whose cells are pairs of a cell and a number of leaves below it, for priors on the number of leaves.

A pair of a cell and m leaves is split by the splits of the cell, for each division of m = k + (m - k) between the two
sides:

    inside_(s, m)  =  sum over splits e and k of  split_s * R_e * inside_(left, k) * inside_(right, m - k) .

Only the root has trees of every number of leaves. Its splits take the prior factor f(m) of the number, so that the sum
over the trees of this graph is ``sum over m of f(m) inside_(root, m)``, that of the prior on the number of leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model import LeafPenalty, TreeModel

from ..graph.building import build_graph
from ..graph.cells import CellGraph, child_slots, pack_graph
from ..limits.intractable import EDGES_PER_CELL, Intractable, Limit, refuse_bytes

ABSENT, POSSIBLE, REACHABLE = -1, 0, 1
"""Marks of a number m of leaves at a slot (a cell at a depth): no tree below the slot has m leaves, some tree has, or
some tree has and is the subtree of a tree from the root.
"""


def build_with_leaf_counts(model: TreeModel, max_cells: int, *, progress: bool) -> CellGraph:
    """Build the graph of a model whose tree prior is on the number of leaves.

    The graph without this prior is built first. Then its cells are divided by the number of leaves below. Either graph
    may have ``max_cells`` cells. ``progress`` is True if a bar may be shown.
    """
    flat = LeafPenalty(0.0, max_depth=model.tree_prior.max_depth)
    base = TreeModel.from_parts(model.parts._replace(tree_prior=flat))
    graph = build_graph(base, max_cells, progress=progress)
    return with_leaf_counts(graph, model.prior_tables.by_leaves, Limit(max_cells))


def with_leaf_counts(graph: CellGraph, by_leaves: np.ndarray, limit: Limit) -> CellGraph:
    """Return the graph whose cells are pairs of a slot (a cell at a depth) of ``graph`` and a number of leaves.

    ``by_leaves`` (most leaves + 1,) are the log prior factors of a tree by its number of leaves. The root is one cell,
    0, for all numbers. Its leaf and its splits get these factors in addition to those of ``graph``.

    Raises
    ------
    Intractable
        If the new graph has more cells or splits than allowed.

    Notes
    -----
    Time O(splits times the square of the largest number of leaves). Only pairs that some tree has become cells.
    """
    width = len(by_leaves)
    refuse_bytes(4 * graph.n_slots * width, "numbers of leaves of cells")
    marks = np.full((graph.n_slots, width), ABSENT, dtype=np.int8)
    packed = pack_graph(graph)
    mark_possible(packed, marks)
    n_edges = list_edges_into(packed, marks, *np.empty((5, 0), dtype=np.int64))
    marks[0] = ABSENT
    marks[0, 0] = REACHABLE
    reachable = marks.reshape(-1) == REACHABLE
    pairs, number = np.flatnonzero(reachable), np.cumsum(reachable, dtype=np.int32) - np.int32(1)
    n_cells = len(pairs)
    if n_cells > limit.cells or n_edges > EDGES_PER_CELL * limit.cells:
        raise Intractable(
            *((n_cells, limit.cells) if n_cells > limit.cells else (n_edges, EDGES_PER_CELL * limit.cells)),
            "cells, each with a number of leaves," if n_cells > limit.cells else "splits, each with numbers of leaves,",
            advice="Give a prior with fewer leaves (a smaller max_leaves, a shorter pmf), fewer or coarser splits "
            "(max_cuts, GridCuts, a smaller max_depth), raise max_cells as far as memory allows, or sample.",
        )
    owner, left, right, edge, n_leaves = np.empty((5, n_edges), dtype=np.int64)
    list_edges_into(packed, marks, owner, left, right, edge, n_leaves)
    slot, leaves = np.divmod(pairs, width)
    cell = np.searchsorted(graph.first_slot, slot, side="right") - 1
    first_edge = np.searchsorted(owner, np.append(pairs, graph.n_slots * width))
    log_stop = np.where(leaves <= 1, graph.log_stop[slot], -np.inf)
    log_stop[0] += by_leaves[1]
    return graph._replace(
        first_edge=first_edge,
        left=number[left],
        right=number[right],
        feature=graph.feature[edge],
        split=graph.split[edge],
        log_rule=graph.log_rule[edge] + np.where(owner == 0, by_leaves[n_leaves], 0.0),
        rows=graph.rows[cell],
        stats=graph.stats[cell],
        score=graph.score[cell],
        design=graph.design[cell],
        depth=graph.depth[cell] + slot - graph.first_slot[cell],
        first_slot=np.arange(n_cells + 1),
        log_stop=log_stop,
        log_split=np.where(np.diff(first_edge) > 0, graph.log_split[slot], -np.inf),
        layered=False,
    )


@jit
def mark_possible(graph: Any, marks: np.ndarray) -> None:
    """Set ``marks`` (n_slots, max_leaves + 1) to POSSIBLE for each slot and number of leaves of some tree below it.

    A slot is a cell at a depth. The caller sets all marks to ABSENT before.
    """
    max_leaves, log_rule = marks.shape[1] - 1, graph.log_rule
    first_edge, first_slot = graph.first_edge, graph.first_slot
    for cell in range(len(first_edge) - 2, -1, -1):
        for slot in range(first_slot[cell + 1] - 1, first_slot[cell] - 1, -1):
            if graph.log_stop[slot] > -np.inf:
                marks[slot, 1] = POSSIBLE
            if graph.log_split[slot] == -np.inf:
                continue
            child_depth = graph.depth[cell] + slot - first_slot[cell] + 1
            for e in range(first_edge[cell], first_edge[cell + 1]):
                if log_rule[e] == -np.inf:
                    continue
                left_child, right_child = child_slots(graph, e, child_depth)
                for m in range(1, max_leaves):
                    if marks[left_child, m] != ABSENT:
                        for k in range(1, max_leaves - m + 1):
                            if marks[right_child, k] != ABSENT:
                                marks[slot, m + k] = POSSIBLE


@jit
def list_edges_into(
    graph: Any,
    marks: np.ndarray,
    owner: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    edge: np.ndarray,
    n_leaves: np.ndarray,
) -> int:
    """List the splits of all pairs of a slot and a number of leaves that trees from the root have; return their number.

    A slot is a cell at a depth. Mark the pairs as REACHABLE in ``marks`` (n_slots, width), from `mark_possible`. For
    each split write the pair that is split (``owner``), the pairs on both sides (``left``, ``right``), the split of the
    old graph (``edge``) and the leaves of the two sides together (``n_leaves``), as far as the arrays have room: empty
    ones only count. A pair is the number ``slot * width + leaves``. The root is the single pair 0, with all numbers of
    leaves. Owners ascend.
    """
    n, max_leaves = 0, marks.shape[1] - 1
    first_edge, first_slot = graph.first_edge, graph.first_slot
    for cell in range(len(first_edge) - 1):
        for slot in range(first_slot[cell], first_slot[cell + 1]):
            if graph.log_split[slot] == -np.inf:
                continue
            child_depth = graph.depth[cell] + slot - first_slot[cell] + 1
            # one pass over the numbers of leaves, but for the root, whose splits come first
            for first_m in range(2, 3 if slot == 0 else max_leaves + 1):
                if slot > 0 and marks[slot, first_m] != REACHABLE:
                    continue
                pair = slot * (max_leaves + 1) + first_m if slot > 0 else 0
                for e in range(first_edge[cell], first_edge[cell + 1]):
                    if graph.log_rule[e] == -np.inf:
                        continue
                    left_child, right_child = child_slots(graph, e, child_depth)
                    for m in range(first_m, max_leaves + 1 if slot == 0 else first_m + 1):
                        for k in range(1, m):
                            if marks[left_child, k] == ABSENT or marks[right_child, m - k] == ABSENT:
                                continue
                            marks[left_child, k] = marks[right_child, m - k] = REACHABLE
                            if n < len(owner):
                                owner[n], edge[n], n_leaves[n] = pair, e, m
                                left[n] = left_child * (max_leaves + 1) + k
                                right[n] = right_child * (max_leaves + 1) + m - k
                            n += 1
    return n
