"""The graph whose cells also know how many leaves lie below, for priors on the number of leaves.

A cell with a number of leaves m is split by the splits of the cell, for each way of dividing m between the two sides.
Only the root has trees of every number of leaves, and its splits take the prior factor of the number. So the sum over
the trees of this graph, and all that follows from it, is that of the prior on the number of leaves.
"""

from __future__ import annotations

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model import LeafPenalty, TreeModel

from ..graph.building import build_graph
from ..graph.cells import CellGraph
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
    edges = graph.first_edge, graph.first_slot, graph.depth, graph.left, graph.right, graph.log_rule, graph.layered
    find_possible(number, graph.log_stop, graph.log_split, *edges)
    n_edges = find_needed(number, *edges)
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
    first_edge = np.zeros(n_cells + 1, dtype=np.int64)
    out = (np.empty(n_edges, dtype=np.int32), np.empty(n_edges, dtype=np.int32), np.empty(n_edges, dtype=np.int64))
    log_rule = np.empty(n_edges)
    write_edges(first_edge, *out, log_rule, slot, leaves, number, graph.log_split, by_leaves, *edges)
    left, right, edge = out
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
def child_slot(first_slot: np.ndarray, depth: np.ndarray, layered: bool, child: int, below: int) -> int:
    """Return the slot of a child that lies at depth ``below``."""
    return first_slot[child] + below - depth[child] if layered else child


@jit
def find_possible(
    number: np.ndarray,
    log_stop: np.ndarray,
    log_split: np.ndarray,
    first_edge: np.ndarray,
    first_slot: np.ndarray,
    depth: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    log_rule: np.ndarray,
    layered: bool,
) -> None:
    """Mark the numbers of leaves (n_slots, most + 1) that the trees below each slot can have as POSSIBLE."""
    most = number.shape[1] - 1
    for cell in range(len(first_edge) - 2, -1, -1):
        for slot in range(first_slot[cell + 1] - 1, first_slot[cell] - 1, -1):
            if log_stop[slot] > -np.inf:
                number[slot, 1] = POSSIBLE
            if log_split[slot] == -np.inf:
                continue
            below = depth[cell] + slot - first_slot[cell] + 1
            for e in range(first_edge[cell], first_edge[cell + 1]):
                if log_rule[e] == -np.inf:
                    continue
                one = child_slot(first_slot, depth, layered, np.int64(left[e]), below)
                two = child_slot(first_slot, depth, layered, np.int64(right[e]), below)
                for m in range(1, most):
                    if number[one, m] != ABSENT:
                        for k in range(1, most - m + 1):
                            if number[two, k] != ABSENT:
                                number[slot, m + k] = POSSIBLE


@jit
def find_needed(
    number: np.ndarray,
    first_edge: np.ndarray,
    first_slot: np.ndarray,
    depth: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    log_rule: np.ndarray,
    layered: bool,
) -> int:
    """Mark the pairs of a slot and a number of leaves that trees of the whole graph have as NEEDED.

    Return the number of their splits.
    """
    n_edges, most = 0, number.shape[1] - 1
    for m in range(1, most + 1):
        if number[0, m] != ABSENT:
            number[0, m] = NEEDED
    for cell in range(len(first_edge) - 1):
        for slot in range(first_slot[cell], first_slot[cell + 1]):
            below = depth[cell] + slot - first_slot[cell] + 1
            for m in range(2, most + 1):
                if number[slot, m] != NEEDED:
                    continue
                for e in range(first_edge[cell], first_edge[cell + 1]):
                    if log_rule[e] == -np.inf:
                        continue
                    one = child_slot(first_slot, depth, layered, np.int64(left[e]), below)
                    two = child_slot(first_slot, depth, layered, np.int64(right[e]), below)
                    for k in range(1, m):
                        if number[one, k] != ABSENT and number[two, m - k] != ABSENT:
                            number[one, k] = number[two, m - k] = NEEDED
                            n_edges += 1
    return n_edges


@jit
def write_edges(
    new_first: np.ndarray,
    new_left: np.ndarray,
    new_right: np.ndarray,
    edge: np.ndarray,
    new_rule: np.ndarray,
    slots: np.ndarray,
    leaves: np.ndarray,
    number: np.ndarray,
    log_split: np.ndarray,
    by_leaves: np.ndarray,
    first_edge: np.ndarray,
    first_slot: np.ndarray,
    depth: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    log_rule: np.ndarray,
    layered: bool,
) -> None:
    """Write the splits of the new cells, which are pairs of ``slots`` and ``leaves`` (n_cells,)."""
    n, cell = 0, 0
    for i in range(len(slots)):
        slot = slots[i]
        while first_slot[cell + 1] <= slot:
            cell += 1
        # the root has trees of all numbers of leaves
        least, most = (np.int64(2), np.int64(len(by_leaves) - 1)) if i == 0 else (leaves[i], leaves[i])
        below = depth[cell] + slot - first_slot[cell] + 1
        for e in range(first_edge[cell], first_edge[cell + 1]):
            if log_rule[e] == -np.inf or log_split[slot] == -np.inf:
                continue
            one = child_slot(first_slot, depth, layered, np.int64(left[e]), below)
            two = child_slot(first_slot, depth, layered, np.int64(right[e]), below)
            for m in range(least, most + 1):
                for k in range(1, m):
                    if number[one, k] != ABSENT and number[two, m - k] != ABSENT:
                        new_left[n], new_right[n], edge[n] = number[one, k], number[two, m - k], e
                        new_rule[n] = log_rule[e] + (by_leaves[m] if i == 0 else 0.0)
                        n += 1
        new_first[i + 1] = n
