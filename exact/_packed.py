"""The graph of cells in the form the recursions take it."""

from typing import Any

import numpy as np

from pactree_mcmc._numba import jit, struct

from .graph import CellGraph

_graph = struct(CellGraph)


def pack_graph(graph: CellGraph) -> Any:
    """The graph as one pointer, once it is known to be in order."""
    graph.check()
    return _pack(graph)


@jit
def _pack(g: CellGraph) -> Any:
    return _graph(
        g.first_edge,
        g.left,
        g.right,
        g.feature,
        g.question,
        g.log_rule,
        g.rows,
        g.stats,
        g.score,
        g.design,
        g.depth,
        g.first_slot,
        g.log_stop,
        g.log_split,
        g.layered,
    )


@jit
def slot_below(graph: Any, cell: int, depth: int) -> int:
    """Slot of a child ``cell`` that lies at ``depth``."""
    return graph.first_slot[cell] + depth - graph.depth[cell] if graph.layered else cell


@jit
def children(graph: Any, e: int, below: int) -> tuple[int, int]:
    """Slots at depth ``below`` of the two children of question ``e``."""
    left, right = np.int64(graph.left[e]), np.int64(graph.right[e])
    return slot_below(graph, left, below), slot_below(graph, right, below)
