"""Replacement of a subtree. The new subtree is built beside the old one on the same rows, then one of them is dropped.

The order of the rows is stored before the new subtree sorts them. Dropping the new subtree restores the order.
"""

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ..state.lists import (
    is_leaf,
    list_growable,
    list_internal,
    list_prunable,
    relist_prunable,
    sibling,
    unlist_growable,
    unlist_internal,
    unlist_prunable,
)
from ..state.records import N_FREE, N_NODES, NONE, TREE_CHANGED, ChainState
from ..state.terms import next_node, subtree_log_prior, subtree_log_score
from .carry_over import draw_raw, fit_split, undivided_side
from .grow import attach_children, init_leaf, set_default_side
from .proposal import REPLACE, Proposal

# largest number of internal nodes of a subtree that a move draws anew, and of one that it replaces
MAX_DRAWN_INTERNAL = 128
# free nodes that a proposal may need beside twice those in use: it builds at most two subtrees, and one is refused at 2
# * (MAX_DRAWN_INTERNAL + 1) + 1 nodes; compiled code does not check them
MAX_NEW_NODES = 4 * (MAX_DRAWN_INTERNAL + 2)


@jit
def has_room(state: ChainState) -> bool:
    """Return True if there are enough free nodes for any proposal."""
    return state.count[N_FREE] >= 2 * state.count[N_NODES] + MAX_NEW_NODES


@jit
def begin(state: ChainState, node: int) -> int:
    """Return a new leaf outside the tree that has the cell of ``node``, and store the order of the rows.

    A move builds the subtree that is to replace that of ``node`` at this leaf.
    """
    record = state.node[node]
    state.count[N_FREE] -= 1
    top = state.node[state.count[N_FREE]].free
    init_leaf(state, top, np.int64(NONE), record.depth, record.start, record.stop)
    new = state.node[top]
    new.design, new.hash, new.rows = record.design, record.hash, record.rows
    new.score, new.guess, new.splittable = record.score, record.guess, record.splittable
    for j in range(state.stats.shape[1]):
        state.stats[top, j] = state.stats[node, j]
    for j in range(state.box.shape[1]):
        state.box[top, j, 0], state.box[top, j, 1] = state.box[node, j, 0], state.box[node, j, 1]
    order, order_before = state.order, state.scratch.replace.order
    for i in range(record.start, record.stop):
        order_before[i] = order[i]
    return top


@jit
def drop_subtree(state: ChainState, node: int, top: int) -> None:
    """Remove the subtree built at ``top`` beside ``node``, and restore the order of the rows."""
    order, order_before = state.order, state.scratch.replace.order
    for i in range(state.node[node].start, state.node[node].stop):
        order[i] = order_before[i]
    _free_subtree(state, top)


@jit
def insert_subtree(model: Lowered, state: ChainState, node: int, top: int) -> None:
    """Replace the subtree at ``node`` by that built at ``top``, whose record is freed, and update the lists."""
    record, new = state.node[node], state.node[top]
    was_leaf = is_leaf(state, node)
    current = np.int64(node)
    while current != NONE:
        next_in_order = next_node(state, current, node)
        unlist_growable(state, current)
        unlist_prunable(state, current)
        if not is_leaf(state, current):
            unlist_internal(state, current)
        if current != node:
            _free_node(state, current)
            state.count[N_NODES] -= 1
        current = next_in_order
    record.left, record.right, record.feature, record.cut = new.left, new.right, new.feature, new.cut
    record.upper, record.categories, record.log_rule = new.upper, new.categories, new.log_rule
    _free_node(state, top)
    if not is_leaf(state, node):
        state.node[record.left].parent = state.node[record.right].parent = node
    state.count[N_NODES] -= 1
    current = np.int64(node)
    while current != NONE:
        state.count[N_NODES] += 1
        if is_leaf(state, current):
            list_growable(state, current)
        else:
            list_internal(state, current)
            set_default_side(model, state, current)
            relist_prunable(state, current)
        current = next_node(state, current, node)
    sibling_node = sibling(state, node)
    if sibling_node != NONE and is_leaf(state, sibling_node):
        if was_leaf and not is_leaf(state, node):
            unlist_prunable(state, record.parent)
        elif is_leaf(state, node) and not was_leaf:
            list_prunable(state, record.parent)
    state.count[TREE_CHANGED] = 1


@jit
def _free_subtree(state: ChainState, top: int) -> None:
    """Free the records of a node outside the tree and of all nodes below it."""
    current = np.int64(top)
    while current != NONE:
        next_in_order = next_node(state, current, top)
        _free_node(state, current)
        current = next_in_order


@jit
def _free_node(state: ChainState, node: int) -> None:
    """Push the record of a node on the stack of free nodes."""
    state.node[state.count[N_FREE]].free = node
    state.count[N_FREE] += 1


@jit
def replacement(
    model: Lowered, state: ChainState, which: int, node: int, top: int, log_proposal_ratio: float
) -> Proposal:
    """Return the proposal to put the subtree built at ``top`` in the place of ``node``. See `growth` for ``which``.

    ``log_proposal_ratio`` is the log probability of proposing the old tree from the new one, minus that of the reverse.
    """
    return Proposal(
        np.int64(REPLACE),
        which,
        node,
        top,
        subtree_log_prior(model, state, top) - subtree_log_prior(model, state, node),
        state.beta[0] * (subtree_log_score(state, top) - subtree_log_score(state, node)),
        log_proposal_ratio,
        0.0,
    )


@jit
def plan_node(state: ChainState, at: int, feature: int, cut: int, categories: int) -> None:
    """Write a split, or a leaf if ``feature`` is -1, into plan record ``at``. The caller sets the children."""
    # ``cut`` is the largest code going left, ``categories`` the bits of those going left, -1 if ordered
    record = state.plan[at]
    record.feature, record.cut, record.categories = feature, cut, categories
    record.left = record.right = record.node = record.side = NONE
    record.origin = at


@jit
def plan_copy(state: ChainState, node: int, at: int) -> int:
    """Plan the subtree of ``node`` as it is, from plan record ``at`` on, and return the first free record."""
    current, note = np.int64(node), state.scratch.note
    while current != NONE:
        record = state.node[current]
        plan_node(state, at, record.feature, record.cut, record.categories)
        note[current].planned_at = at
        if current != node and state.node[record.parent].right == current:
            state.plan[note[record.parent].planned_at].right = at
        if record.left != NONE:
            state.plan[at].left = at + 1
        at += 1
        current = next_node(state, current, node)
    return at


@jit
def make_plan_raw(rng: np.random.Generator, model: Lowered, state: ChainState, node: int, but: int) -> float:
    """Make the splits that `plan_copy` planned raw, except that of ``but``. Return the log number of forms."""
    # each split at and below ``node`` is replaced by a random raw form (`carry_over`): a cut, or a set of categories,
    # that divides the cell alike. ``but`` is a node, or -1
    total, current = 0.0, np.int64(node)
    while current != NONE:
        if not is_leaf(state, current) and current != but:
            planned, raw = state.plan[state.scratch.note[current].planned_at], draw_raw(rng, model, state, current)
            planned.cut, planned.categories = raw.cut, raw.categories
            if raw.swapped:
                planned.left, planned.right = planned.right, planned.left
            total += raw.log_raw_forms
        current = next_node(state, current, node)
    return total


@jit
def build(model: Lowered, state: ChainState, top: int, n_planned: int, simplify: bool) -> bool:
    """Grow the leaf ``top`` into the planned subtree. Return False, with a part built, if a split is not admissible."""
    # the plan is ``state.plan[:n_planned]``. With ``simplify`` each split that sends a whole cell to one side is left
    # out, with the subtree on its empty side
    state.plan[0].node = top
    for i in range(n_planned):
        planned = state.plan[i]
        while planned.node != NONE and planned.feature != NONE:
            if simplify:
                side = undivided_side(model, state, planned.node, planned.feature, planned.cut, planned.categories)
                if side != NONE:
                    state.plan[planned.origin].side = side
                    _copy_plan(state, planned.left if side == 0 else planned.right, i)
                    continue
            split, swapped = fit_split(model, state, planned.node, planned.feature, planned.cut, planned.categories)
            if split.log_rule == -np.inf:
                return False
            attach_children(model, state, planned.node, split)
            left, right = state.node[planned.node].left, state.node[planned.node].right
            state.plan[planned.left].node = right if swapped else left
            state.plan[planned.right].node = left if swapped else right
            break
    return True


@jit
def _copy_plan(state: ChainState, source: int, target: int) -> None:
    """Overwrite plan record ``target`` by record ``source``, with its split and the indices of its children."""
    old, new = state.plan[target], state.plan[source]
    old.feature, old.cut, old.categories = new.feature, new.cut, new.categories
    old.left, old.right, old.origin = new.left, new.right, new.origin
