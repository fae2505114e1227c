"""State of a chain: arrays in nested NamedTuples, which compiled code takes as one pointer.

Every node owns a contiguous range of ``order``. Growing splits the range of a leaf in place, and pruning joins two
ranges. Nodes come from a pool with a free list. Growable leaves, prunable nodes and internal nodes are kept in lists,
from which moves choose uniformly.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ...model import Lowered
from ...model.split_prior.geometry import has_box, told
from .pieces import Graph, new_graph
from .records import N_CELL_TERMS, N_DENSITY_ROWS, N_FREE, N_WAY_TERMS, NODE, PLAN
from .scratch import Scratch, new_scratch
from .stored import Stored, new_stored

PROPOSED, ACCEPTED = range(2)
FEWEST_TOPS = 3
"""Smallest number of depths from which the top of a redrawn subtree is chosen."""


class ChainState(NamedTuple):
    """Arrays of one chain, with room for ``cap`` nodes. Records of free nodes may contain anything."""

    order: np.ndarray
    """(U,) int32: the units, those of a node side by side."""
    node: np.recarray
    """(cap,) records of dtype NODE."""
    stats: np.ndarray
    """(cap, n_stats) float64: leaf statistics, of internal nodes as well."""
    box: np.ndarray
    """(cap, p, 2) int64: first code and one behind the last, or categories and 0. (cap, 0, 2) if splits ignore the box.
    """
    count: np.ndarray
    """(8,) int64: lengths of the four lists, number of nodes, 1 if the tree changed since it was last saved, the number
    that stored values must bear to be valid, and number of rows visited.
    """
    beta: np.ndarray
    """(1,) float64: power of the score, 1 unless tempered."""
    moves: np.ndarray
    """(2, m) int64: proposals since the last saved draw, and accepted ones, by the counts of the kernel's moves."""
    weights: np.ndarray
    """(p + 1,) float64: logs of the normalised feature weights, and the concentration of their prior. (0,) if the user
    gave the weights.
    """
    tilt: np.ndarray
    """(cap,) float64: log R of the split of an internal node by these weights, minus log R by equal ones, which is its
    ``log_rule``. Unused if the user gave the weights.
    """
    density: np.ndarray
    """(N_DENSITY_ROWS, N_CELL_TERMS + N_WAY_TERMS) float64: parameters of the learned density by depth class. The first
    entry of the last row is the number of depths from which the top of a redrawn subtree is chosen. (1, 1) if no move
    draws from the density.
    """
    graph: Graph
    """Graph of visited cells, empty if no move draws from the density."""
    plan: np.recarray
    """(cap,) records of dtype PLAN: a subtree that a move is to build, parents before children."""
    stored: Stored
    """Stored values of cells."""
    scratch: Scratch
    """Arrays that a function fills and reads before it returns."""


def first_density() -> np.ndarray:
    """Return the parameters before any fit: splitting by the lookahead odds, splits by half of their gain in nats."""
    out = np.zeros((N_DENSITY_ROWS, N_CELL_TERMS + N_WAY_TERMS))
    out[-1, 0] = FEWEST_TOPS
    out[:-1, 1], out[:-1, N_CELL_TERMS] = 1.0, 0.5
    return out


def first_weights(model: Lowered) -> np.ndarray:
    """Return logs of equal feature weights, and a concentration, or (0,) if the user gave the weights."""
    rule = model.split_prior
    if rule.is_fixed:
        return np.empty(0)
    return np.append(np.full(rule.n_turns, -np.log(rule.n_turns)), rule.dirichlet[0] or 1.0)


def new_state(model: Lowered, cap: int, n_counts: int, scratch: Collection[str]) -> ChainState:
    """Return the state of a chain with room for ``cap`` nodes and ``n_counts`` counts, before `plant_root`.

    ``scratch`` contains the names, of `scratch.NAMES`, of the arrays that the moves of the chain need.
    """
    p = len(model.split_prior.feature)
    return ChainState(
        order=np.arange(model.units.n_units, dtype=np.int32),
        node=np.zeros(cap, dtype=NODE).view(np.recarray),
        stats=np.zeros((cap, model.leaf.n_stats)),
        box=np.zeros((cap, p if told(has_box, model.split_prior) else 0, 2), dtype=np.int64),
        count=np.zeros(8, dtype=np.int64),
        beta=np.ones(1),
        moves=np.zeros((2, n_counts), dtype=np.int64),
        weights=first_weights(model),
        tilt=np.zeros(1 if model.split_prior.is_fixed else cap),
        density=first_density() if "density" in scratch else np.zeros((1, 1)),
        graph=new_graph(),
        plan=np.zeros(cap, dtype=PLAN).view(np.recarray),
        stored=new_stored(model, scratch),
        scratch=new_scratch(model, cap, scratch),
    )


def enlarged(state: ChainState) -> ChainState:
    """Return the same chain with twice the room for nodes."""
    cap, n_free = len(state.node), int(state.count[N_FREE])
    by_node = {name: _doubled(getattr(state, name)) for name in ("node", "stats", "box", "tilt", "plan")}
    out = state._replace(**by_node, scratch=state.scratch._replace(note=_doubled(state.scratch.note)))
    out.node.free[n_free : n_free + cap] = np.arange(2 * cap - 1, cap - 1, -1)
    out.count[N_FREE] += cap
    return out


def _doubled(array: np.ndarray) -> np.ndarray:
    """Return an array, followed by as many zeros."""
    return np.concatenate([array, np.zeros_like(array)]).view(type(array))
