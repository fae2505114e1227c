"""The graph whose cells also know how many leaves lie below, for priors on the number of leaves.

A cell with a number of leaves m is split by the splits of the cell, for each way of dividing m between the two sides.
Only the root has trees of every number of leaves, and its splits take the prior factor of the number. So the sum over
the trees of this graph, and all that follows from it, is that of the prior on the number of leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model import LeafPenalty, TreeModel

from ..graph.building import build_graph
from ..graph.cells import CellGraph, children, pack_graph
from ..limits.intractable import EDGES_PER_CELL, Intractable, Limit, refuse_bytes

ABSENT, POSSIBLE, NEEDED = -1, 0, 1
"""Marks of a number of leaves of a slot: no tree below has as many, some tree has, some tree of the graph has."""


def build_with_leaf_counts(model: TreeModel, max_cells: int, *, progress: bool) -> CellGraph:
    """Return the graph of a model whose prior is on the number of leaves, as `build_graph` does for other priors."""
    flat = LeafPenalty(0.0, max_depth=model.tree_prior.max_depth)
    base = TreeModel.from_parts(model.parts._replace(tree_prior=flat))
    graph = build_graph(base, max_cells, progress=progress)
    return with_leaf_counts(graph, model.prior_tables.by_leaves, Limit(max_cells))


def with_leaf_counts(graph: CellGraph, by_leaves: np.ndarray, limit: Limit) -> CellGraph:
    """Return the graph of pairs of a slot of ``graph`` and a number of leaves.

    ``by_leaves`` (most leaves + 1,) are the log factors of a tree by its number of leaves.

    Raises
    ------
    Intractable
        If it has more cells or splits than allowed.

    Notes
    -----
    Time O(splits times the square of the largest number of leaves). Only pairs that some tree has become cells.
    """
    refuse_bytes(4 * graph.n_slots * len(by_leaves), "numbers of leaves of cells")
    number = np.full((graph.n_slots, len(by_leaves)), ABSENT, dtype=np.int32)
    packed = pack_graph(graph)
    find_possible(packed, number)
    n_edges = find_needed(packed, number)
    needed = number == NEEDED
    needed[0] = False
    n_cells = 1 + int(needed.sum())
    if n_cells > limit.cells or n_edges > EDGES_PER_CELL * limit.cells:
        raise Intractable(
            *((n_cells, limit.cells) if n_cells > limit.cells else (n_edges, EDGES_PER_CELL * limit.cells)),
            "cells, each with a number of leaves," if n_cells > limit.cells else "splits, each with numbers of leaves,",
            advice="Give a prior with fewer leaves (a smaller max_leaves, a shorter pmf), fewer or coarser splits "
            "(max_cuts, GridCuts, a smaller max_depth), raise max_cells as far as memory goes, or sample.",
        )
    slot, leaves = np.nonzero(needed)
    number[:] = ABSENT
    number[slot, leaves] = 1 + np.arange(len(slot))
    number[0] = 0
    slot, leaves = np.append(0, slot), np.append(0, leaves)
    first_edge, log_rule = np.zeros(n_cells + 1, dtype=np.int64), np.empty(n_edges)
    left, right, edge = (np.empty(n_edges, dtype=kind) for kind in (np.int32, np.int32, np.int64))
    write_edges(packed, (first_edge, left, right, edge, log_rule), slot, leaves, number, by_leaves)
    cell = np.searchsorted(graph.first_slot, slot, side="right") - 1
    log_stop = np.where(leaves <= 1, graph.log_stop[slot], -np.inf)
    log_stop[0] += by_leaves[1]
    return graph._replace(
        first_edge=first_edge,
        left=left,
        right=right,
        feature=graph.feature[edge],
        split=graph.split[edge],
        log_rule=log_rule,
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
def find_possible(graph: Any, number: np.ndarray) -> None:
    """Mark the numbers of leaves (n_slots, most + 1) that the trees below each slot can have as POSSIBLE."""
    most, first_edge, first_slot, log_rule = number.shape[1] - 1, graph.first_edge, graph.first_slot, graph.log_rule
    for cell in range(len(first_edge) - 2, -1, -1):
        for slot in range(first_slot[cell + 1] - 1, first_slot[cell] - 1, -1):
            if graph.log_stop[slot] > -np.inf:
                number[slot, 1] = POSSIBLE
            if graph.log_split[slot] == -np.inf:
                continue
            below = graph.depth[cell] + slot - first_slot[cell] + 1
            for e in range(first_edge[cell], first_edge[cell + 1]):
                if log_rule[e] == -np.inf:
                    continue
                one, two = children(graph, e, below)
                for m in range(1, most):
                    if number[one, m] != ABSENT:
                        for k in range(1, most - m + 1):
                            if number[two, k] != ABSENT:
                                number[slot, m + k] = POSSIBLE


@jit
def find_needed(graph: Any, number: np.ndarray) -> int:
    """Mark the pairs of a slot and a number of leaves that trees of the whole graph have as NEEDED.

    Return the number of their splits.
    """
    n_edges, most = 0, number.shape[1] - 1
    first_edge, first_slot, log_rule = graph.first_edge, graph.first_slot, graph.log_rule
    for m in range(1, most + 1):
        if number[0, m] != ABSENT:
            number[0, m] = NEEDED
    for cell in range(len(first_edge) - 1):
        for slot in range(first_slot[cell], first_slot[cell + 1]):
            below = graph.depth[cell] + slot - first_slot[cell] + 1
            for m in range(2, most + 1):
                if number[slot, m] != NEEDED:
                    continue
                for e in range(first_edge[cell], first_edge[cell + 1]):
                    if log_rule[e] == -np.inf:
                        continue
                    one, two = children(graph, e, below)
                    for k in range(1, m):
                        if number[one, k] != ABSENT and number[two, m - k] != ABSENT:
                            number[one, k] = number[two, m - k] = NEEDED
                            n_edges += 1
    return n_edges


@jit
def write_edges(
    graph: Any,
    out: tuple[np.ndarray, ...],
    slots: np.ndarray,
    leaves: np.ndarray,
    number: np.ndarray,
    by_leaves: np.ndarray,
) -> None:
    """Write the splits of the new cells, which are pairs of ``slots`` and ``leaves`` (n_cells,)."""
    new_first, new_left, new_right, edge, new_rule = out
    first_edge, first_slot, log_rule, n, cell = graph.first_edge, graph.first_slot, graph.log_rule, 0, 0
    for i in range(len(slots)):
        slot = slots[i]
        while first_slot[cell + 1] <= slot:
            cell += 1
        # the root has trees of all numbers of leaves
        least, most = (np.int64(2), np.int64(len(by_leaves) - 1)) if i == 0 else (leaves[i], leaves[i])
        below = graph.depth[cell] + slot - first_slot[cell] + 1
        for e in range(first_edge[cell], first_edge[cell + 1]):
            if log_rule[e] == -np.inf or graph.log_split[slot] == -np.inf:
                continue
            one, two = children(graph, e, below)
            for m in range(least, most + 1):
                for k in range(1, m):
                    if number[one, k] != ABSENT and number[two, m - k] != ABSENT:
                        new_left[n], new_right[n], edge[n] = number[one, k], number[two, m - k], e
                        new_rule[n] = log_rule[e] + (by_leaves[m] if i == 0 else 0.0)
                        n += 1
        new_first[i + 1] = n
