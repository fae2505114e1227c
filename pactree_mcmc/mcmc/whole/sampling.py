"""What one chain draws from the learned density: whole trees, trees of a stratum, subtrees below a root split."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ...model import Lowered
from ...model.split_prior.geometry import follows_design
from ..chain.chain import Chain
from ..moves.learned import sample_trees
from ..run.stop import Signal, is_set
from ..state.arrays import MOST_VALUES
from ..state.pieces import Graph, new_graph
from ..state.records import EXPLORING, GROWING, N_LINKS, N_PIECES, NONE
from .density.graph import roomy

TREES_PER_CALL = 8
"""Number of trees drawn between two looks at the signal. One tree takes up to 50 ms."""
EXPLORATION_TEMPERATURE, NEGLIGIBLE = 4.0, -18.0
"""Temperature that flattens the evidences of strata, so that rare ones are explored as well, and the log evidence
relative to the largest, in nats, below which a stratum is left out."""


def has_strata(model: Lowered) -> bool:
    """Return True if the density draws whole trees given the feature at their root."""
    cells = model.units.codes.shape[1] * len(model.split_prior.feature)
    return not follows_design(model.split_prior) and cells <= MOST_VALUES


def set_density(chain: Chain, density: np.ndarray | None, beta: float) -> None:
    """Let a chain draw from a density, with its score to the power ``beta``; None keeps the density it has."""
    state = chain.state
    if density is not None:
        state.density[...] = density
        chain.take(new_graph())
    state.beta[0] = beta
    # the stored values of cells depend on the power and on the density
    state.guide.hash[:] = NONE
    state.cell.scan[:] = NONE
    state.cell.ahead[:] = NONE


def set_growing(chain: Chain, graph: Graph, room: int) -> Graph:
    """Let the chain add trees to a copy of ``graph`` with room for ``room`` more pieces and links; return the copy."""
    n_pieces, n_links = (int(graph.used[i]) + room for i in (N_PIECES, N_LINKS))
    copy = roomy(graph, n_pieces, n_links)
    copy.used[GROWING] = 1
    chain.take(copy)
    return copy


def sample_independent(chain: Chain, n: int, stopped: Signal = None, feature: int = NONE) -> np.ndarray:
    """Draw ``n`` trees from the density and return their log weights ``log pi(T) - log g(T)``.

    With a ``feature`` all trees have it at the root, and g is conditional on it. A growing graph gets the trees. Trees
    that a signal leaves undrawn have the log weight ``-inf``.
    """
    out = np.full(n, -np.inf)
    for i in range(0, n, TREES_PER_CALL):
        if is_set(stopped):
            break
        part, done = out[i : i + TREES_PER_CALL], 0
        while (done := int(sample_trees(chain.walk, feature, part, done))) < len(part):
            chain.enlarge()
    return out


def sample_and_grow(chain: Chain, n: int, stopped: Signal = None) -> np.ndarray:
    """Add ``n`` independent trees and ``n`` exploring ones to the growing graph, and return the former's log weights.

    The exploring trees are drawn by stratum if the density has strata, rare ones more often than by their evidence.
    """
    weights, graph = sample_independent(chain, n, stopped), chain.state.graph
    graph.used[GROWING] = EXPLORING
    explored = exploration_weights(root_evidences(graph, len(chain.lowered.split_prior.feature)))
    if explored.any() and has_strata(chain.lowered):
        for feature, times in Counter(systematic_indices(explored, n, chain.rng.random())).items():
            sample_independent(chain, times, stopped, feature)
    else:
        sample_independent(chain, n, stopped)
    graph.used[GROWING] = 1
    return weights


def root_evidences(graph: Graph, p: int) -> np.ndarray:
    """Return the log sum (p,) over the trees with each feature at the root, by the splits in the graph."""
    out, links = np.full(p, -np.inf), graph.link[_root_links(graph)]
    np.logaddexp.at(out, links.feature, links.weight)
    return out


def exploration_weights(log_evidences: np.ndarray) -> np.ndarray:
    """Return the weight (p,) of each stratum in exploration. Strata with little evidence get more than their part."""
    if not log_evidences.max() > -np.inf:
        return np.zeros(len(log_evidences))
    above = log_evidences - log_evidences.max()
    return np.where(above > NEGLIGIBLE, np.exp(above / EXPLORATION_TEMPERATURE), 0.0)


def systematic_indices(weights: np.ndarray, n: int, start: float) -> list[int]:
    """Return a systematic sample of ``n`` indices in proportion to ``weights``; ``start`` in [0, 1) is its offset."""
    ends = np.cumsum(weights)
    points = (np.arange(n) + start) / n * ends[-1]
    return np.minimum(np.searchsorted(ends, points, side="right"), len(ends) - 1).tolist()


def _root_links(graph: Graph) -> np.ndarray:
    """Return the indices of the links of the root's piece."""
    out, root = list[int](), np.flatnonzero(graph.piece.depth[: graph.used[N_PIECES]] == 0)
    at = int(graph.piece.first[root[0]]) if len(root) else NONE
    while at >= 0:
        out.append(at)
        at = int(graph.link.next[at])
    return np.array(out, dtype=np.int64)
