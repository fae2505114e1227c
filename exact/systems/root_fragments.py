"""The best tree and root fragment of a graph, under penalties that add over the leaves of the fragment."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..answers import best_sums
from ..graph.cells import CellGraph
from ..recursion.terms import with_terms
from ..semirings.fragments import Fragments
from ..semirings.hulls import Hull


def best_fragments(graph: CellGraph, hull: Hull, penalty: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Fragments:
    """Return the trees and root fragments with the largest weight minus penalty below all slots.

    ``penalty(slot, leaves)`` is that of a slot at which the fragment ends, with a tree of ``leaves`` leaves below it.
    It must be concave in the number of leaves. Then one of the vertices of the hull of (leaves, weight) is the best
    tree below the slot. Above the leaves of the fragment, weights and penalties add.
    """
    slot = np.repeat(np.arange(len(hull.length)), hull.length)
    first = np.cumsum(hull.length) - hull.length
    vertex = np.arange(len(slot)) - first[slot]
    at = hull.start[slot] + vertex
    value = hull.weight[at] - penalty(slot, hull.leaves[at])
    # a slot without trees has no vertices
    stop, best_vertex = np.full(len(hull.length), -np.inf), np.zeros(len(hull.length), dtype=np.int64)
    some = hull.length > 0
    stop[some] = np.maximum.reduceat(value, first[some])
    is_best = np.flatnonzero(value == stop[slot])
    place, one = np.unique(slot[is_best], return_index=True)
    best_vertex[place] = vertex[is_best[one]]
    return Fragments(hull, best_sums(with_terms(graph, log_stop=stop)), stop, best_vertex)
