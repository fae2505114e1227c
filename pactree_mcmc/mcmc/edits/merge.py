"""Merges of two subtrees ``a`` and ``b`` that a split v separates.

A tree on the union of the cells of a and b is a merge of them if the split v cuts it into a and b, without splits that
send a whole cell to one side. Its root is v itself, above both, or the root of one of them, with the cell of the other
one on one side, or a split of which the roots of a and b are the two halves. If a and b are leaves it can also be a
leaf. So with 0 and 1 for left and right children, the number of merges is

    M(a, b) = 1 + 1[a and b are leaves] + sum_i M(a_i, b) + sum_i M(a, b_i)
              + M(a_0, b_0) M(a_1, b_1) + M(a_0, b_1) M(a_1, b_0)

without the terms whose root split does not exist.
"""

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.base import parts_box, parts_rows
from ..state.lists import is_leaf
from ..state.records import NONE, ChainState
from ..state.terms import count_internal
from .carry_over import cell_categories, code_range
from .replace_subtree import plan_copy, plan_node

MAX_MERGED_LEAVES = 10  # largest number of leaves that two subtrees to be merged may have in all


@jit
def undivided_sides(model: Lowered, state: ChainState, a: int, b: int) -> tuple[bool, bool]:
    """Return True twice if the root split of a, placed above a and b, can send b's cell left; and right."""
    # both are False for cuts in the middle of a box
    record = state.node[a]
    if record.categories >= 0:
        present = cell_categories(model, state, a, record.feature)
        other_categories = cell_categories(model, state, b, record.feature)
        return other_categories & present & ~record.categories == 0, other_categories & present & record.categories == 0
    if parts_rows(model.split_prior):
        low, high = code_range(model, state, b, record.feature)
        return high < record.upper, low > record.cut
    if parts_box(model.split_prior):
        low, high = state.box[b, record.feature, 0], state.box[b, record.feature, 1]
        return high - 1 <= record.cut, low > record.cut
    return False, False


@jit
def can_join_roots(model: Lowered, state: ChainState, a: int, b: int) -> tuple[bool, bool]:
    """Return two flags: a split whose halves are the root splits of a and b sends their left sides alike; apart."""
    # both are False if a or b is a leaf
    if is_leaf(state, a) or is_leaf(state, b):
        return False, False
    node_a, node_b = state.node[a], state.node[b]
    if node_a.feature != node_b.feature:
        return False, False
    if node_a.categories < 0:
        return max(node_a.cut, node_b.cut) < min(node_a.upper, node_b.upper), False
    shared = cell_categories(model, state, a, node_a.feature) & cell_categories(model, state, b, node_a.feature)
    opposite = (node_a.categories ^ node_b.categories) & shared
    return opposite == 0, opposite == shared


@jit
def plan_root(
    model: Lowered, state: ChainState, at: int, a: int, b: int, b_goes_left: bool, b_goes_right: bool, swapped: bool
) -> None:
    """Write the root split of a, to be placed above a and b, into plan record ``at``, without its children."""
    # the flags say if the whole cell of b goes left or right; if neither, the root split of b is the other half of the
    # split, with its sides exchanged if `swapped`
    node_a, node_b = state.node[a], state.node[b]
    k, cut, categories = node_a.feature, node_a.cut, np.int64(-1)
    if node_a.categories >= 0:
        categories = node_a.categories & cell_categories(model, state, a, k)
        of_b = cell_categories(model, state, b, k)
        if not (b_goes_left or b_goes_right):
            of_b &= ~node_b.categories if swapped else node_b.categories
        if not b_goes_right:
            categories |= of_b
    elif b_goes_left and parts_rows(model.split_prior):
        cut = max(cut, code_range(model, state, b, k)[1])
    elif not (b_goes_left or b_goes_right):
        cut = max(cut, node_b.cut)
    plan_node(state, at, k, cut, categories)


@jit
def is_too_large_to_merge(state: ChainState, a: int, b: int) -> bool:
    """Return True if two subtrees have more than `MAX_MERGED_LEAVES` leaves in all."""
    return count_internal(state, a) + count_internal(state, b) + 2 > MAX_MERGED_LEAVES


@jit
def n_merges(model: Lowered, state: ChainState, a: int, b: int) -> int:
    """Return M(a, b): trees on both cells that the split between a and b cuts into the subtrees at a and b."""
    if is_leaf(state, a) and is_leaf(state, b):
        return np.int64(2)
    total = np.int64(1)
    if not is_leaf(state, a):
        left, right = undivided_sides(model, state, a, b)
        if left:
            total += n_merges(model, state, state.node[a].left, b)
        if right:
            total += n_merges(model, state, state.node[a].right, b)
    if not is_leaf(state, b):
        left, right = undivided_sides(model, state, b, a)
        if left:
            total += n_merges(model, state, a, state.node[b].left)
        if right:
            total += n_merges(model, state, a, state.node[b].right)
    is_straight, is_crossed = can_join_roots(model, state, a, b)
    node_a, node_b = state.node[a], state.node[b]
    if is_straight:
        total += n_merges(model, state, node_a.left, node_b.left) * n_merges(model, state, node_a.right, node_b.right)
    if is_crossed:
        total += n_merges(model, state, node_a.left, node_b.right) * n_merges(model, state, node_a.right, node_b.left)
    return total


@jit
def plan_split_above(state: ChainState, at: int, v: int, a: int, b: int, a_is_left: bool) -> int:
    """Plan the split of node v above copies of the subtrees a and b, from plan record ``at`` on (`plan_node`)."""
    record = state.node[v]
    plan_node(state, at, record.feature, record.cut, record.categories)
    at_b = plan_copy(state, a, at + 1)
    free_record = plan_copy(state, b, at_b)
    state.plan[at].left, state.plan[at].right = (at + 1, at_b) if a_is_left else (at_b, at + 1)
    return free_record


@jit
def plan_merge(model: Lowered, state: ChainState, at: int, v: int, a: int, b: int, a_is_left: bool, number: int) -> int:
    """Plan merge ``number`` of a and b, which the split of v separates, from plan record ``at`` on."""
    # the first free record is returned; `number` is 0, with v's split on top, to n_merges - 1, in the order of its
    # terms
    if number == 0:
        return plan_split_above(state, at, v, a, b, a_is_left)
    if is_leaf(state, a) and is_leaf(state, b):
        plan_node(state, at, np.int64(NONE), np.int64(0), np.int64(NONE))
        return at + 1
    number -= 1
    for side in range(2):
        x, y = (a, b) if side == 0 else (b, a)
        if is_leaf(state, x):
            continue
        left, right = undivided_sides(model, state, x, y)
        for goes_right in range(2):
            if not (right if goes_right else left):
                continue
            inner = state.node[x].right if goes_right else state.node[x].left
            n_below = n_merges(model, state, inner, y) if side == 0 else n_merges(model, state, y, inner)
            if number < n_below:
                plan_root(model, state, at, x, y, goes_right == 0, goes_right == 1, False)
                if goes_right:
                    next_record = plan_copy(state, state.node[x].left, at + 1)
                    state.plan[at].left, state.plan[at].right = at + 1, next_record
                else:
                    next_record = at + 1
                    state.plan[at].left = next_record
                if side == 0:
                    free_record = plan_merge(model, state, next_record, v, inner, y, a_is_left, number)
                else:
                    free_record = plan_merge(model, state, next_record, v, y, inner, a_is_left, number)
                if goes_right:
                    return free_record
                state.plan[at].right = free_record
                return plan_copy(state, state.node[x].right, free_record)
            number -= n_below
    is_straight = can_join_roots(model, state, a, b)[0]
    node_a, node_b = state.node[a], state.node[b]
    for crossed in range(2):
        if crossed == 0 and not is_straight:
            continue
        to_left, to_right = (node_b.right, node_b.left) if crossed else (node_b.left, node_b.right)
        n_left = n_merges(model, state, node_a.left, to_left)
        n_below = n_left * n_merges(model, state, node_a.right, to_right)
        if number < n_below or crossed == 1:
            plan_root(model, state, at, a, b, False, False, crossed == 1)
            next_record = plan_merge(model, state, at + 1, v, node_a.left, to_left, a_is_left, number % n_left)
            state.plan[at].left, state.plan[at].right = at + 1, next_record
            return plan_merge(model, state, next_record, v, node_a.right, to_right, a_is_left, number // n_left)
        number -= n_below
    return at
