"""The graph of cells in the form the recursions take it."""

from typing import Any

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.compile.pack import pack

from .cells import CellGraph


class WithPackedGraph:
    """Base of classes that also keep their ``graph`` packed, as ``_packed``; the pointer is recreated after
    unpickling.
    """

    graph: CellGraph
    _packed: Any

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_packed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._packed = pack_graph(self.graph)


def pack_graph(graph: CellGraph) -> Any:
    """The graph as one pointer, once it is known to be in order."""
    graph.check()
    return pack(graph)


@jit
def slot_below(graph: Any, cell: int, depth: int) -> int:
    """Slot of a child ``cell`` that lies at ``depth``."""
    return graph.first_slot[cell] + depth - graph.depth[cell] if graph.layered else cell


@jit
def children(graph: Any, e: int, below: int) -> tuple[int, int]:
    """Slots at depth ``below`` of the two children of split ``e``."""
    left, right = np.int64(graph.left[e]), np.int64(graph.right[e])
    return slot_below(graph, left, below), slot_below(graph, right, below)
