"""Lists of the nodes that a move chooses from: growable leaves, prunable nodes and internal nodes.

A leaf is growable if it is splittable. A node is prunable if both children are leaves. A list occupies one field of the
first records of ``state.node``, and each node stores its place in the list, so that adding and removing cost O(1).
"""

from ...core.compile.jit import jit
from .records import N_GROWABLE, N_INTERNAL, N_PRUNABLE, NONE, ChainState


@jit
def list_growable(state: ChainState, node: int) -> None:
    """Add a leaf to the list of growable leaves if it is splittable."""
    if state.node[node].splittable:
        state.node[node].growable_at = state.count[N_GROWABLE]
        state.node[state.count[N_GROWABLE]].growable = node
        state.count[N_GROWABLE] += 1
    else:
        state.node[node].growable_at = NONE


@jit
def unlist_growable(state: ChainState, node: int) -> None:
    """Remove a node from the list of growable leaves, if it is there. The last entry takes its place."""
    at = state.node[node].growable_at
    if at != NONE:
        state.count[N_GROWABLE] -= 1
        last = state.node[state.count[N_GROWABLE]].growable
        state.node[at].growable = last
        state.node[last].growable_at = at
        state.node[node].growable_at = NONE


@jit
def list_prunable(state: ChainState, node: int) -> None:
    """Add a node whose children are both leaves to the list of prunable nodes."""
    state.node[node].prunable_at = state.count[N_PRUNABLE]
    state.node[state.count[N_PRUNABLE]].prunable = node
    state.count[N_PRUNABLE] += 1


@jit
def relist_prunable(state: ChainState, node: int) -> None:
    """Add an internal node to the list of prunable nodes if both children are leaves, else remove it."""
    unlist_prunable(state, node)
    if is_leaf(state, state.node[node].left) and is_leaf(state, state.node[node].right):
        list_prunable(state, node)


@jit
def unlist_prunable(state: ChainState, node: int) -> None:
    """Remove a node from the list of prunable nodes, if it is there."""
    at = state.node[node].prunable_at
    if at != NONE:
        state.count[N_PRUNABLE] -= 1
        last = state.node[state.count[N_PRUNABLE]].prunable
        state.node[at].prunable = last
        state.node[last].prunable_at = at
        state.node[node].prunable_at = NONE


@jit
def n_growable(state: ChainState) -> int:
    """Return the number of leaves that can be split."""
    return state.count[N_GROWABLE]


@jit
def growable(state: ChainState, i: int) -> int:
    """Return the i-th leaf that can be split, for i from 0, in the arbitrary order of the list."""
    return state.node[i].growable


@jit
def n_prunable(state: ChainState) -> int:
    """Return the number of nodes whose children are both leaves."""
    return state.count[N_PRUNABLE]


@jit
def prunable(state: ChainState, i: int) -> int:
    """Return the i-th node whose children are both leaves, for i from 0, in the arbitrary order of the list."""
    return state.node[i].prunable


@jit
def n_internal(state: ChainState) -> int:
    """Return the number of internal nodes."""
    return state.count[N_INTERNAL]


@jit
def internal(state: ChainState, i: int) -> int:
    """Return the i-th internal node, for i from 0, in the arbitrary order of the list."""
    return state.node[i].internal


@jit
def is_leaf(state: ChainState, node: int) -> bool:
    """Return True if the node has no children."""
    return state.node[node].left == NONE


@jit
def list_internal(state: ChainState, node: int) -> None:
    """Add a node to the list of internal nodes."""
    state.node[node].internal_at = state.count[N_INTERNAL]
    state.node[state.count[N_INTERNAL]].internal = node
    state.count[N_INTERNAL] += 1


@jit
def unlist_internal(state: ChainState, node: int) -> None:
    """Remove a node, which must be there, from the list of internal nodes. The last entry takes its place."""
    at = state.node[node].internal_at
    state.count[N_INTERNAL] -= 1
    last = state.node[state.count[N_INTERNAL]].internal
    state.node[at].internal = last
    state.node[last].internal_at = at
    state.node[node].internal_at = NONE


@jit
def sibling(state: ChainState, node: int) -> int:
    """Return the other child of the node's parent, or -1 for the root."""
    parent = state.node[node].parent
    if parent == NONE:
        return NONE
    return state.node[parent].right if state.node[parent].left == node else state.node[parent].left
