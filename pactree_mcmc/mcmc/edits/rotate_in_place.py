"""Rotation of an edge whose two splits cut the same ordered feature: ``u(v(X, Y), Z) -> v(X, u(Y, Z))``, or mirrored.

No row changes its leaf, and X, Y, Z change nothing but their depths. So nothing is built: two splits exchange places,
and only the cell of the lower node is new.
"""

from math import inf

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.base import has_free_cuts, is_weighted, parts_box
from ..state.lists import is_leaf, list_growable, relist_prunable, unlist_growable
from ..state.records import NONE, TREE_CHANGED, ChainState
from ..state.splits import is_splittable, log_rule_of
from ..state.terms import next_node, node_log_stop, score_node
from .grow import box_hash_term, set_default_side


@jit
def can_rotate_in_place(model: Lowered, state: ChainState, v: int) -> bool:
    """Return True if an internal node v, not the root, and its parent cut the same ordered feature."""
    # only in geometries with free cuts, not one cut per cell or trivial ones
    record, parent_record = state.node[v], state.node[state.node[v].parent]
    return has_free_cuts(model.split_prior) and record.categories < 0 and record.feature == parent_record.feature


@jit
def rotate_in_place(model: Lowered, state: ChainState, v: int) -> float:
    """Exchange the places of v's split and its parent's."""
    # return the log prior ratio, ``-inf`` if the tree gets invalid
    # rotating the same node again undoes the change, invalid or not; `update_lists_of_rotation` updates the lists
    u = state.node[v].parent
    upper, lower = state.node[u], state.node[v]
    v_is_left = upper.left == v
    x = lower.left if v_is_left else lower.right
    y = lower.right if v_is_left else lower.left
    z = upper.right if v_is_left else upper.left
    old_lower_rule = lower.log_rule
    # u keeps its cell, depth and R, unless cuts have weights; the factors of the old v make room for those of the new v
    ratio = -old_lower_rule - log_split_factor(model, lower.depth)
    ratio += move_subtree_down(model, state, x, -1) + move_subtree_down(model, state, z, 1)
    _exchange_splits(model, state, u, v, x, y, z, v_is_left)
    if is_weighted(model.split_prior):
        # the upper cell has another cut than before, and cuts have different weights
        old_rule = upper.log_rule
        upper.log_rule = log_rule_of(model, state, u, upper.feature, upper.cut)
        ratio += upper.log_rule - old_rule
    lower.log_rule = log_rule_of(model, state, v, lower.feature, lower.cut)
    if lower.depth >= model.prior.depth_limit or lower.log_rule == -inf:
        return -inf
    return ratio + lower.log_rule + log_split_factor(model, lower.depth)


@jit
def _exchange_splits(
    model: Lowered, state: ChainState, u: int, v: int, x: int, y: int, z: int, v_is_left: bool
) -> None:
    """Exchange the splits of u and its child v, whose outer child is x and inner child y; z is the other child of u."""
    upper, lower = state.node[u], state.node[v]
    upper.cut, lower.cut = lower.cut, upper.cut
    upper.upper, lower.upper = lower.upper, upper.upper
    if v_is_left:
        upper.left, upper.right, lower.left, lower.right = x, v, y, z
    else:
        upper.left, upper.right, lower.left, lower.right = v, x, z, y
    state.node[x].parent, state.node[z].parent = u, v
    lower.start = state.node[lower.left].start
    lower.stop = state.node[lower.right].stop
    lower.rows = state.node[y].rows + state.node[z].rows
    for j in range(state.stats.shape[1]):
        state.stats[v, j] = state.stats[lower.left, j] + state.stats[lower.right, j]
    score_node(model, state, v)
    if parts_box(model.split_prior):
        k = lower.feature
        lower.hash -= box_hash_term(state, v, k)
        state.box[v, k, 0] = state.box[lower.left, k, 0]
        state.box[v, k, 1] = state.box[lower.right, k, 1]
        lower.hash += box_hash_term(state, v, k)
    else:
        lower.hash = state.node[y].hash + state.node[z].hash
    set_default_side(model, state, u)
    set_default_side(model, state, v)


@jit
def log_split_factor(model: Lowered, depth: int) -> float:
    """Return the log prior factor of splitting a node at a depth, without the split prior R of its split."""
    return model.prior.table[depth].log_split


@jit
def move_subtree_down(model: Lowered, state: ChainState, top: int, n_levels: int) -> float:
    """Add `n_levels` to the depths of the subtree at `top`; return the change of its log prior, or -inf."""
    # -inf if the prior of the subtree is 0 before or after; R counts only if it depends on the depth
    total, node = 0.0, np.int64(top)
    while node != NONE:
        log_before, log_after = log_prior_factor(model, state, node), move_node_down(model, state, node, n_levels)
        total = total + log_after - log_before if log_after > -inf and log_before > -inf else -inf
        node = next_node(state, node, top)
    return total


@jit
def move_node_down(model: Lowered, state: ChainState, node: int, n_levels: int) -> float:
    """Add ``n_levels`` to a node's depth. Update ``splittable``, ``log_rule``. Return the new `log_prior_factor`."""
    record = state.node[node]
    was_at_limit = record.depth >= model.prior.depth_limit
    record.depth += n_levels
    if record.depth >= model.prior.depth_limit:
        record.splittable = False
    elif model.split_prior.by_depth:
        record.splittable = is_splittable(model, state, node)
        if not is_leaf(state, node):
            record.log_rule = log_rule_of(model, state, node, record.feature, record.cut)
    elif was_at_limit:
        record.splittable = is_splittable(model, state, node)
    return log_prior_factor(model, state, node)


@jit
def log_prior_factor(model: Lowered, state: ChainState, node: int) -> float:
    """Return the log prior factor of a node as leaf or split; -inf if the depth limit excludes it."""
    # R is included only if it depends on the depth
    depth, limit = state.node[node].depth, model.prior.depth_limit
    if is_leaf(state, node):
        return node_log_stop(model, state, node) if depth <= limit else -inf
    factor = log_split_factor(model, depth) if depth < limit else -inf
    return factor + state.node[node].log_rule if model.split_prior.by_depth else factor


@jit
def update_lists_of_rotation(state: ChainState, v: int) -> None:
    """Update the lists after the rotation of v was accepted."""
    relist_prunable(state, v)
    top = np.int64(state.node[v].parent)
    node = top
    while node != NONE:
        if is_leaf(state, node) and state.node[node].splittable != (state.node[node].growable_at != NONE):
            unlist_growable(state, node)
            list_growable(state, node)
        node = next_node(state, node, top)
    state.count[TREE_CHANGED] = 1
