"""A chain's state: flat arrays in one NamedTuple, and the bookkeeping that keeps them consistent.

Every node owns a contiguous range of ``order``; growing parts the range of a leaf in place, pruning joins two ranges.
Nodes come from a pool with a free list. Growable leaves and prunable nodes are kept in lists for a uniform choice.
"""

from typing import NamedTuple

import numpy as np

from .._numba import jit
from ..model import Lowered

NONE = -1
N_GROWABLE, N_PRUNABLE, N_FREE, N_NODES, CHANGED = range(5)


class ChainState(NamedTuple):
    """Arrays of one chain; ``cap`` nodes of room. Entries of free nodes are dirty."""

    order: np.ndarray
    """(U,) int32: the units, those of a node side by side."""
    parent: np.ndarray
    """(cap,) int32: parent, -1 for the root (node 0)."""
    left: np.ndarray
    """(cap,) int32: left child, -1 in a leaf."""
    right: np.ndarray
    """(cap,) int32: right child, -1 in a leaf."""
    feature: np.ndarray
    """(cap,) int32: feature asked about, -1 in a leaf."""
    cut: np.ndarray
    """(cap,) int64: largest code going left."""
    upper: np.ndarray
    """(cap,) int64: next code on the right, in the cell under local questions."""
    categories: np.ndarray
    """(cap,) int64: bits of the categories going left, -1 if ordered."""
    default_left: np.ndarray
    """(cap,) bool: more training rows go left, or as many."""
    log_rule: np.ndarray
    """(cap,) float64: log R of the question; 0 in a leaf."""
    depth: np.ndarray
    """(cap,) int32."""
    design: np.ndarray
    """(cap,) int32: node of the fixed tree; 0 for other questions."""
    start: np.ndarray
    """(cap,) int32: first entry of ``order`` in the node."""
    stop: np.ndarray
    """(cap,) int32: one behind the last."""
    rows: np.ndarray
    """(cap,) int64: training rows in the node."""
    stats: np.ndarray
    """(cap, n_stats) float64: leaf statistics, kept for internal nodes too."""
    score: np.ndarray
    """(cap,) float64: leaf score, kept for internal nodes too."""
    splittable: np.ndarray
    """(cap,) bool: above the depth limit and with an admissible question."""
    box: np.ndarray
    """(cap, p, 2) int64: low and high code, or categories and 0; (cap, 0, 2) when questions ignore the box."""
    growable: np.ndarray
    """(cap,) int32: the list of splittable leaves."""
    growable_at: np.ndarray
    """(cap,) int32: a node's place in that list, -1 if not in it."""
    prunable: np.ndarray
    """(cap,) int32: the list of nodes whose children are both leaves."""
    prunable_at: np.ndarray
    """(cap,) int32: a node's place in that list, -1 if not in it."""
    free: np.ndarray
    """(cap,) int32: stack of free nodes."""
    saved_at: np.ndarray
    """(cap,) int32 scratch: place of each node in the draw being saved."""
    count: np.ndarray
    """(5,) int64: entries of the lists, nodes in use, and whether the tree changed since it was last saved."""
    proposed: np.ndarray
    """(n_moves,) int64 proposals by move since the last saved draw."""
    accepted: np.ndarray
    """(n_moves,) int64 likewise."""
    side_order: np.ndarray
    """(U,) int32 scratch: units going right while a range is parted."""
    side_stats: np.ndarray
    """(2, n_stats) float64 scratch: statistics of the two sides of a proposal."""
    code_rows: np.ndarray
    """(largest n_codes,) int64 scratch, all 0 between uses: rows by code."""
    codes: np.ndarray
    """(largest n_codes,) int64 scratch: the codes in a cell."""
    feature_weight: np.ndarray
    """(p,) float64 scratch: weights of the admissible features."""


def new_state(model: Lowered, uses_box: bool, n_moves: int, cap: int) -> ChainState:
    """State of a chain with room for ``cap`` nodes; ``plant_root`` makes it a tree."""
    units, p = model.units, len(model.questions.weight)
    ints = {"parent", "left", "right", "feature", "depth", "design", "start", "stop"}
    ints |= {"growable", "growable_at", "prunable", "prunable_at", "free", "saved_at"}
    arrays = {name: np.zeros(cap, dtype=np.int32) for name in ints}
    arrays |= {name: np.zeros(cap, dtype=np.int64) for name in ("cut", "upper", "categories", "rows")}
    arrays |= {name: np.zeros(cap, dtype=np.bool_) for name in ("default_left", "splittable")}
    arrays |= {name: np.zeros(cap) for name in ("log_rule", "score")}
    widest = int(model.questions.n_codes.max()) if not uses_box else 1
    return ChainState(
        order=np.arange(units.n_units, dtype=np.int32),
        stats=np.zeros((cap, model.leaf.n_stats)),
        box=np.zeros((cap, p if uses_box else 0, 2), dtype=np.int64),
        count=np.zeros(5, dtype=np.int64),
        proposed=np.zeros(n_moves, dtype=np.int64),
        accepted=np.zeros(n_moves, dtype=np.int64),
        side_order=np.empty(units.n_units, dtype=np.int32),
        side_stats=np.zeros((2, model.leaf.n_stats)),
        code_rows=np.zeros(widest, dtype=np.int64),
        codes=np.zeros(widest, dtype=np.int64),
        feature_weight=np.zeros(p),
        **arrays,
    )


def enlarged(state: ChainState) -> ChainState:
    """The same chain with twice the room for nodes."""
    cap = len(state.parent)
    wider = {name: np.concatenate([a, a]) for name, a in state._asdict().items() if name not in _NOT_NODES}
    n_free = int(state.count[N_FREE])
    wider["free"][:n_free] = state.free[:n_free]
    wider["free"][n_free : n_free + cap] = np.arange(2 * cap - 1, cap - 1, -1)
    out = state._replace(**wider)
    out.count[N_FREE] += cap
    return out


_NOT_NODES = {
    "order",
    "count",
    "proposed",
    "accepted",
    "side_order",
    "side_stats",
    "code_rows",
    "codes",
    "feature_weight",
}


@jit
def list_growable(state: ChainState, node: int) -> None:
    """Put a leaf on the list of growable leaves, if it is splittable."""
    if state.splittable[node]:
        state.growable_at[node] = state.count[N_GROWABLE]
        state.growable[state.count[N_GROWABLE]] = node
        state.count[N_GROWABLE] += 1
    else:
        state.growable_at[node] = NONE


@jit
def unlist_growable(state: ChainState, node: int) -> None:
    """Take a node off the list of growable leaves, if it is there."""
    at = state.growable_at[node]
    if at != NONE:
        state.count[N_GROWABLE] -= 1
        last = state.growable[state.count[N_GROWABLE]]
        state.growable[at] = last
        state.growable_at[last] = at
        state.growable_at[node] = NONE


@jit
def list_prunable(state: ChainState, node: int) -> None:
    """Put a node whose children are both leaves on the list of prunable nodes."""
    state.prunable_at[node] = state.count[N_PRUNABLE]
    state.prunable[state.count[N_PRUNABLE]] = node
    state.count[N_PRUNABLE] += 1


@jit
def unlist_prunable(state: ChainState, node: int) -> None:
    """Take a node off the list of prunable nodes, if it is there."""
    at = state.prunable_at[node]
    if at != NONE:
        state.count[N_PRUNABLE] -= 1
        last = state.prunable[state.count[N_PRUNABLE]]
        state.prunable[at] = last
        state.prunable_at[last] = at
        state.prunable_at[node] = NONE


@jit
def is_leaf(state: ChainState, node: int) -> bool:
    """Whether the node has no children."""
    return state.left[node] == NONE


@jit
def sibling(state: ChainState, node: int) -> int:
    """The other child of the node's parent; -1 for the root."""
    parent = state.parent[node]
    if parent == NONE:
        return NONE
    return state.right[parent] if state.left[parent] == node else state.left[parent]


@jit
def log_stop(model: Lowered, index: int, splittable: bool, rows: int) -> float:
    """Log prior factor of a leaf at depth (or fixed node) ``index``."""
    out = model.prior.log_stop[index] if splittable else model.prior.log_forced[index]
    return out + model.prior.empty_bonus if rows == 0 else out


@jit
def prior_index(model: Lowered, depth: int, design: int) -> int:
    """Where the prior's tables hold a node."""
    return design if model.prior.by_node else depth


@jit
def node_log_stop(model: Lowered, state: ChainState, node: int) -> float:
    """Log prior factor the node pays, or would pay, as a leaf."""
    index = prior_index(model, state.depth[node], state.design[node])
    return log_stop(model, index, state.splittable[node], state.rows[node])


@jit
def log_prior_of(model: Lowered, state: ChainState) -> float:
    """Log prior of the whole tree, summed afresh."""
    total = model.prior.log_constant
    node = 0
    while node != NONE:
        if is_leaf(state, node):
            total += node_log_stop(model, state, node)
        else:
            total += model.prior.log_split[prior_index(model, state.depth[node], state.design[node])]
            total += state.log_rule[node]
        node = next_node(state, node)
    return total


@jit
def log_score_of(state: ChainState) -> float:
    """Sum of the leaf scores, summed afresh."""
    total = 0.0
    node = 0
    while node != NONE:
        if is_leaf(state, node):
            total += state.score[node]
        node = next_node(state, node)
    return total


@jit
def next_node(state: ChainState, node: int) -> int:
    """The node after ``node`` in preorder, -1 behind the last."""
    if not is_leaf(state, node):
        return state.left[node]
    while state.parent[node] != NONE:
        parent = state.parent[node]
        if state.left[parent] == node:
            return state.right[parent]
        node = parent
    return NONE
