"""Independent trees that one chain draws from the learned density."""

from __future__ import annotations

import numpy as np

from ..chain.chain import Chain
from ..moves.learned import sample_trees
from ..run.stop import Signal, is_set
from ..state.pieces import Graph, new_graph
from ..state.records import GROWING, N_LINKS, N_PIECES, NONE
from .density.graph import with_capacity

TREES_PER_CALL = 8
"""Number of trees drawn between two looks at the signal. One tree takes up to 50 ms."""


def set_density(chain: Chain, density: np.ndarray | None, beta: float) -> None:
    """Let a chain draw from a density, with its score to the power ``beta``; None keeps the density it has."""
    state = chain.state
    if density is not None:
        state.density[...] = density
        chain.take(new_graph())
    state.beta[0] = beta
    # the stored values of cells depend on the power and on the density
    state.stored.guide.hash[:] = NONE
    state.stored.cell.scan[:] = NONE
    state.stored.cell.ahead[:] = NONE


def set_growing(chain: Chain, graph: Graph, room: int) -> Graph:
    """Let the chain add trees to a copy of ``graph`` with room for ``room`` more pieces and links; return the copy."""
    n_pieces, n_links = (int(graph.used[i]) + room for i in (N_PIECES, N_LINKS))
    copy = with_capacity(graph, n_pieces, n_links)
    copy.used[GROWING] = 1
    chain.take(copy)
    return copy


def sample_independent(chain: Chain, n: int, stopped: Signal = None) -> np.ndarray:
    """Draw ``n`` trees from the density and return their log weights ``log pi(T) - log g(T)``.

    A growing graph gets the trees. Trees that a signal leaves undrawn have the log weight ``-inf``.
    """
    out = np.full(n, -np.inf)
    for i in range(0, n, TREES_PER_CALL):
        if is_set(stopped):
            break
        part, done = out[i : i + TREES_PER_CALL], 0
        while (done := int(sample_trees(chain.walk, part, done))) < len(part):
            chain.enlarge()
    return out
