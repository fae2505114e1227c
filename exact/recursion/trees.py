"""Trees grown from a graph from the root down, the k most probable trees, and conversion of grown trees to draws.

The k best trees are found lazily: only the slots on the best trees get a list of trees (Huang and Chiang 2005, Better
k-best parsing, algorithm 3, over the values of the `Best` semiring).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from pactree_mcmc.core.checks import read_generator
from pactree_mcmc.core.compile.jit import pack
from pactree_mcmc.model import TreeModel
from pactree_mcmc.posterior.draws import Draws
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.coded import CodedTrees

from ..graph.boxes import unpack_cuts
from ..graph.cells import CellGraph, pack_graph
from .inside_outside import CELL, FEATURE, RIGHT, SPLIT, GrownTrees, grow_trees
from .semirings import Ranked


def grow_chosen_trees(
    model: TreeModel, graph: CellGraph, semiring: Any, tree_numbers: Any, rng: Any = None
) -> GrownTrees:
    """Return trees grown from the root down as the semiring chooses, one for each entry of ``tree_numbers``."""
    numbers = np.asarray(tree_numbers, dtype=np.int64)
    return grow_trees(read_generator(rng), pack_graph(graph), semiring, numbers, pack(model.lowered))


def as_draws(model: TreeModel, graph: CellGraph, grown_trees: GrownTrees, **facts: Any) -> Draws:
    """Return grown trees, each a draw, as draws of one chain, with ``facts``, further arguments of `Draws`."""
    nodes, offset = grown_trees.nodes, grown_trees.offset
    cell, feature, split = nodes[:, CELL], nodes[:, FEATURE], nodes[:, SPLIT]
    nominal = (feature != LEAF) & model.columns.is_nominal[model.columns.source[feature]]
    cut, upper = np.where((feature != LEAF) & ~nominal, unpack_cuts(split), 0)
    rows = graph.rows[cell]
    rows_left = np.append(rows[1:], 0)
    trees = CodedTrees(
        offset.astype(np.int64),
        feature.astype(np.int32),
        cut,
        upper,
        nodes[:, RIGHT].astype(np.int32),
        np.where(nominal, split, -1),
        (feature != LEAF) & (2 * rows_left >= rows),
    )
    log_prior = grown_trees.log_prior + model.prior_tables.log_constant
    return Draws.independent(model, trees, graph.stats[cell], log_prior, grown_trees.log_score, **facts)


TIE_TOLERANCE = 1e-10
"""Difference of log weights, relative to the largest, that counts as a tie."""


class _SlotTrees:
    """The best trees below one slot (a cell at a depth) found so far, and a heap of candidates for the next one."""

    def __init__(self, graph: CellGraph, best: np.ndarray, slot: int, k: int) -> None:
        cell = int(np.searchsorted(graph.first_slot, slot, side="right")) - 1
        first, last = int(graph.first_edge[cell]), int(graph.first_edge[cell + 1])
        left, right = (side[first:last].astype(np.int64) for side in (graph.left, graph.right))
        if graph.layered:
            below = int(graph.depth[cell] + slot - graph.first_slot[cell] + 1)
            left, right = (graph.first_slot[child] + below - graph.depth[child] for child in (left, right))
        self.first, self.left, self.right = first, left, right
        self.weight = graph.log_split[slot] + graph.log_rule[first:last]
        terms = np.full(0, -np.inf) if graph.log_split[slot] == -np.inf else self.weight + best[left] + best[right]
        likeliest = np.argsort(-terms, kind="stable")[:k]
        self.trees: list[tuple[float, int, int, int]] = []
        self.heap = [(-float(terms[e]), int(e), 0, 0) for e in likeliest if terms[e] > -np.inf]
        if graph.log_stop[slot] > -np.inf:
            self.heap.append((-float(graph.log_stop[slot]), -1, 0, 0))
        heapify(self.heap)
        self.waiting: list[tuple[int, int, int]] = []
        """Candidates (split, left rank, right rank) to be added to the heap when their subtrees have been found."""
        self.complete = False

    def has_rank(self, rank: int) -> bool:
        """Return True if the tree of this rank (0 is the best) has been found, or there are fewer trees in all."""
        return self.complete or len(self.trees) > rank

    def take_best(self) -> tuple[int, int, int]:
        """Move the best candidate to ``trees``, and return its split (-1: a leaf) and the ranks of its subtrees."""
        # a split is its number within the cell. The trees with the next rank on one side become waiting candidates,
        # each from one predecessor only.
        negative, e, i, j = heappop(self.heap)
        self.trees.append((-negative, e, i, j))
        if e >= 0:
            self.waiting = [(e, i, j + 1), (e, i + 1, j)] if j == 0 else [(e, i, j + 1)]
        return e, i, j


def rank_trees(graph: CellGraph, best: np.ndarray, k: int, epsilon: float = np.inf) -> tuple[np.ndarray, Ranked]:
    """Return the log weights of the ``k`` best trees, best first, and the semiring `Ranked` from which to grow them."""
    # return fewer trees if fewer have log weights at most ``epsilon`` below the best, up to rounding. ``best``
    # (n_slots,) is the largest log weight of a tree below each slot (a cell at a depth), the values of `Best`. Time
    # O(k leaves log k), and a pass over the splits of each slot used.
    lowest = best[0] - epsilon - TIE_TOLERANCE * (1.0 + abs(best[0]))
    slots: dict[int, _SlotTrees] = {0: _SlotTrees(graph, best, 0, k)}
    requests = [(0, k - 1)]
    while requests:
        slot, rank = requests[-1]
        if slot not in slots:
            slots[slot] = _SlotTrees(graph, best, slot, k)
        current = slots[slot]
        if current.has_rank(rank) or (slot == 0 and current.trees and current.trees[-1][0] < lowest):
            requests.pop()
        elif current.waiting:
            e, i, j = current.waiting[-1]
            subtrees = (int(current.left[e]), i), (int(current.right[e]), j)
            missing = [side for side in subtrees if side[0] not in slots or not slots[side[0]].has_rank(side[1])]
            if missing:
                requests += missing
                continue
            current.waiting.pop()
            lefts, rights = (slots[child].trees for child, _ in subtrees)
            if len(lefts) > i and len(rights) > j:
                heappush(current.heap, (-float(current.weight[e] + lefts[i][0] + rights[j][0]), e, i, j))
        elif current.heap:
            e, i, j = current.take_best()
            if e >= 0:
                requests += [(int(current.left[e]), i), (int(current.right[e]), j)]
        else:
            current.complete = True
    values = np.array([tree[0] for tree in slots[0].trees[:k]])
    return values[values >= lowest], _as_ranked(slots, graph.n_slots)


def _as_ranked(slots: dict[int, _SlotTrees], n_slots: int) -> Ranked:
    """Return the lists of trees of all ``slots`` (by number), found by `rank_trees`, as arrays of `Ranked`."""
    first = np.full(n_slots, -1, dtype=np.int64)
    rows: list[tuple[int, int, int]] = []
    for slot, current in slots.items():
        first[slot] = len(rows)
        rows += [(current.first + e if e >= 0 else -1, i, j) for _, e, i, j in current.trees]
    split, left, right = (np.ascontiguousarray(c) for c in np.array(rows, dtype=np.int64).reshape(-1, 3).T)
    return Ranked(first, split, left, right)
