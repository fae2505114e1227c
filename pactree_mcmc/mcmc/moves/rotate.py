"""Rotate: an internal node v and its parent u exchange places (Pratola 2016).

    u(v(X, Y), Z) -> v(u(X, Z'), u(Y, Z''))

*Cut*: the split of v is applied first, and divides the rest of u's subtree. Z' and Z'' are the parts of Z on the left
and on the right of v, without splits that send a whole cell to one side. An u with such a split is left out as well.
Under local cuts the split of v in the larger cell of u is drawn uniformly from the ``n_wider`` ones that separate v's
cell alike. *Merge* is the reverse: the split of a child w is placed above that of its parent v, and the two parts of Z
are merged into one, uniformly among all possible merges (see `merge`), of which ``n_merge_options`` counts those of the
node and the child. If both nodes cut the same ordered feature nothing is cut or merged. The edge is rotated in place,
the pair is picked as often in the new tree as in the old one, and only the prior changes.

A cut or a merge is tried with equal probability, at one of the ``E`` internal nodes other than the root. With ``both``
1 if u stays on both sides of v, so that either of the two can be merged, else 0,

    log_proposal_ratio = [log n_wider + both log 2 + log E] - [log E' + log n_options']        for a cut

and for a merge its negative, with old and new trees exchanged. The move is off if the split of a cell follows from its
depth or its node (cyclic dyadic cuts, fixed trees), and under trivial splits.
"""

from math import log

import numpy as np

from ...core.bits import n_bits
from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.base import follows_design, halves_box, has_empty_sides, parts_rows, takes_turns
from ..edits.carry_over import LOG_2, cell_categories
from ..edits.merge import (
    can_join_roots,
    is_too_large_to_merge,
    n_merges,
    plan_merge,
    plan_root,
    plan_split_above,
    undivided_sides,
)
from ..edits.proposal import ROTATE, Proposal, nothing, refused, withdrawn
from ..edits.replace_subtree import begin, build, plan_copy, plan_node, replacement
from ..edits.rotate_in_place import can_rotate_in_place, rotate_in_place
from ..state.lists import sibling
from ..state.random import flip, pick, pick_subset
from ..state.records import N_INTERNAL, NONE, ChainState
from ..state.splits import collect_codes_between
from ..state.terms import count_internal, next_node
from .base import Move
from .swap import pick_internal_child


@jit
def rotate_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose to rotate a random edge between internal nodes, by moving, cutting in two or merging subtrees."""
    if state.count[N_INTERNAL] < 2:
        return nothing()
    child = pick_internal_child(rng, state)
    rule = model.split_prior
    if follows_design(rule) or takes_turns(rule) or has_empty_sides(rule):
        return refused(0)
    if can_rotate_in_place(model, state, child):
        log_prior_ratio = rotate_in_place(model, state, child)
        return Proposal(np.int64(ROTATE), 0, child, np.int64(NONE), log_prior_ratio, 0.0, 0.0, 0.0)
    if flip(rng, 0.5):
        return propose_cut(rng, model, state, child)
    return propose_merge(rng, model, state, child)


@jit
def propose_cut(rng: np.random.Generator, model: Lowered, state: ChainState, v: int) -> Proposal:
    """Propose to put the split of v above that of its parent u, and to divide the subtree of v's sibling by it."""
    u = state.node[v].parent
    v_is_left = state.node[u].left == v
    z = state.node[u].right if v_is_left else state.node[u].left
    if halves_box(model.split_prior) and state.node[u].feature == state.node[v].feature:
        return refused(0)
    log_wider = plan_wider_split(rng, model, state, u, v)
    state.plan[0].left = np.int64(1)
    z_left, at_right = plan_half(state, 1, u, state.node[v].left, z, v_is_left)
    state.plan[0].right = at_right
    z_right, n_planned = plan_half(state, at_right, u, state.node[v].right, z, v_is_left)
    top = begin(state, u)
    possible = build(model, state, top, n_planned, True)
    is_on_both, on_left = state.plan[1].side == NONE and state.plan[at_right].side == NONE, state.plan[1].side == NONE
    possible = possible and not loses_split(state, z, z_left, z_right, state.node[v].feature)
    if possible and is_on_both:
        on_left = flip(rng, 0.5)
        possible = not is_too_large_to_merge(state, state.plan[z_left].node, state.plan[z_right].node)
    if not possible:
        return withdrawn(0, u, top)
    a, b = state.plan[1].node, state.plan[at_right].node
    n_options = n_merge_options(model, state, a, b) if on_left else n_merge_options(model, state, b, a)
    # there: 1/E for the edge, 1/n_wider, and 1/2 for the child if both were possible; back: 1/E' and 1/n_options'
    n_edges = state.count[N_INTERNAL] - 1
    n_edges_after = n_edges + count_internal(state, top) - count_internal(state, u)
    ratio = log_wider + is_on_both * LOG_2 + log(n_edges) - log(n_edges_after) - log(n_options)
    return replacement(model, state, 0, u, top, ratio)


@jit
def propose_merge(rng: np.random.Generator, model: Lowered, state: ChainState, w: int) -> Proposal:
    """Propose to put w's split above that of its parent v, and to merge what v separated: reverse of `propose_cut`."""
    v, b = state.node[w].parent, sibling(state, w)
    n_options = n_merge_options(model, state, w, b)
    if n_options == 0:
        return refused(0)
    w_is_left = state.node[v].left == w
    n_planned, at_v, is_on_both = plan_merge_option(model, state, v, w, b, w_is_left, pick(rng, n_options))
    top = begin(state, v)
    if not build(model, state, top, n_planned, False):
        return withdrawn(0, v, top)
    log_wider = log_n_wider(model, state, top, state.plan[at_v].node)
    n_edges = state.count[N_INTERNAL] - 1
    n_edges_after = n_edges + count_internal(state, top) - count_internal(state, v)
    ratio = log(n_edges) + log(n_options) - log_wider - is_on_both * LOG_2 - log(n_edges_after)
    return replacement(model, state, 0, v, top, ratio)


@jit
def loses_split(state: ChainState, z: int, z_left: int, z_right: int, feature: int) -> bool:
    """Return True if a split of z's subtree, not on v's split feature ``feature``, is left out on both sides of v."""
    # that split then separates its cell as v does, and no merge would bring it back. The plans of both sides have
    # copies of z's subtree from records ``z_left`` and ``z_right`` on
    i, node = np.int64(0), np.int64(z)
    while node != NONE:
        left_out = state.plan[z_left + i].side != NONE and state.plan[z_right + i].side != NONE
        if left_out and state.node[node].feature != feature:
            return True
        i += 1
        node = next_node(state, node, z)
    return False


@jit
def plan_half(state: ChainState, at: int, u: int, x: int, z: int, x_is_left: bool) -> tuple[int, int]:
    """Plan one side of v's split: the split of u above copies of the subtrees x and z, from plan record ``at`` on."""
    # return the plan record (index in ``state.plan``) of z, and the first free one. ``x_is_left`` is True if x is the
    # left child
    record = state.node[u]
    plan_node(state, at, record.feature, record.cut, record.categories)
    at_z = plan_copy(state, x, at + 1)
    state.plan[at].left, state.plan[at].right = (at + 1, at_z) if x_is_left else (at_z, at + 1)
    return at_z, plan_copy(state, z, at_z)


@jit
def categories_outside(model: Lowered, state: ChainState, u: int, v: int) -> int:
    """Return the bits of the categories of v's split feature that u's cell has and the cell of its child v has not."""
    k = state.node[v].feature
    return cell_categories(model, state, u, k) & ~cell_categories(model, state, v, k)


@jit
def collect_wider_cuts(model: Lowered, state: ChainState, u: int, v: int) -> int:
    """Return the number of local cuts of u's cell, but for v's, that separate the cell of its child v as v's does."""
    # write the codes of these cuts, ascending, into ``codes.distinct``
    record = state.node[v]
    return collect_codes_between(model, state, u, record.feature, record.cut, record.upper)


@jit
def log_n_wider(model: Lowered, state: ChainState, u: int, v: int) -> float:
    """Return the log number of splits of u's cell that separate the cell of v, below u, as v's split does."""
    if state.node[v].categories >= 0:
        return LOG_2 * n_bits(categories_outside(model, state, u, v))
    return log(1.0 + collect_wider_cuts(model, state, u, v)) if parts_rows(model.split_prior) else 0.0


@jit
def plan_wider_split(rng: np.random.Generator, model: Lowered, state: ChainState, u: int, v: int) -> float:
    """Write a random split of u's cell that separates the cell of its child v as v's split does into plan record 0."""
    # return the log number of such splits
    record = state.node[v]
    cut, categories, log_wider = record.cut, record.categories, 0.0
    if categories >= 0:
        other_bits = categories_outside(model, state, u, v)
        categories &= cell_categories(model, state, v, record.feature)
        log_wider = LOG_2 * n_bits(other_bits)
        categories |= pick_subset(rng, other_bits)
    elif parts_rows(model.split_prior):
        n_cuts = collect_wider_cuts(model, state, u, v)
        log_wider = log(1.0 + n_cuts)
        i = pick(rng, n_cuts + 1) if n_cuts > 0 else np.int64(0)
        if i > 0:
            cut = state.scratch.codes.distinct[i - 1]
    plan_node(state, 0, record.feature, cut, categories)
    return log_wider


@jit
def n_merge_options(model: Lowered, state: ChainState, a: int, b: int) -> int:
    """Return the number of trees that put the root split of a above its parent's and merge a with its sibling b."""
    # `propose_cut`, at a child that then has the parent's split, leads back from each of them
    left, right = undivided_sides(model, state, a, b)
    total = np.int64(left) + np.int64(right)
    is_straight, is_crossed = can_join_roots(model, state, a, b)
    node_a, node_b = state.node[a], state.node[b]
    if is_straight:
        total += n_allowed_merges(model, state, node_a.left, node_b.left)
        total += n_allowed_merges(model, state, node_a.right, node_b.right)
    if is_crossed:
        total += n_allowed_merges(model, state, node_a.left, node_b.right)
        total += n_allowed_merges(model, state, node_a.right, node_b.left)
    return total


@jit
def n_allowed_merges(model: Lowered, state: ChainState, a: int, b: int) -> int:
    """Return the number of merges of the subtrees a and b (`n_merges`), or 0 if they are too large to be merged."""
    return np.int64(0) if is_too_large_to_merge(state, a, b) else n_merges(model, state, a, b)


@jit
def plan_merge_option(
    model: Lowered, state: ChainState, v: int, a: int, b: int, a_is_left: bool, number: int
) -> tuple[int, int, bool]:
    """Plan tree ``number``, from 0, of those that `n_merge_options` counts for v's children a and b."""
    # in it the split of v is below that of a. Return the number of planned nodes, the plan record of v's split, and
    # True if the root splits of a and b are halves of the new top split
    node_a, node_b = state.node[a], state.node[b]
    left, right = undivided_sides(model, state, a, b)
    if number < np.int64(left) + np.int64(right):
        goes_left = left and number == 0
        plan_root(model, state, 0, a, b, goes_left, not goes_left, False)
        state.plan[0].left = np.int64(1)
        if goes_left:
            at_right = plan_split_above(state, 1, v, node_a.left, b, a_is_left)
            state.plan[0].right = at_right
            return plan_copy(state, node_a.right, at_right), np.int64(1), False
        at_right = plan_copy(state, node_a.left, 1)
        state.plan[0].right = at_right
        return plan_split_above(state, at_right, v, node_a.right, b, a_is_left), at_right, False
    number -= np.int64(left) + np.int64(right)
    is_straight = can_join_roots(model, state, a, b)[0]
    for crossed in range(2):
        if crossed == 0 and not is_straight:
            continue
        to_left, to_right = (node_b.right, node_b.left) if crossed else (node_b.left, node_b.right)
        n_merged = n_allowed_merges(model, state, node_a.left, to_left)
        if number < n_merged:
            plan_root(model, state, 0, a, b, False, False, crossed == 1)
            at_right = plan_merge(model, state, 1, v, node_a.left, to_left, a_is_left, number)
            state.plan[0].left, state.plan[0].right = np.int64(1), at_right
            return plan_split_above(state, at_right, v, node_a.right, to_right, a_is_left), at_right, True
        number -= n_merged
        n_merged = n_allowed_merges(model, state, node_a.right, to_right)
        if number < n_merged:
            plan_root(model, state, 0, a, b, False, False, crossed == 1)
            at_right = plan_split_above(state, 1, v, node_a.left, to_left, a_is_left)
            state.plan[0].left, state.plan[0].right = np.int64(1), at_right
            return plan_merge(model, state, at_right, v, node_a.right, to_right, a_is_left, number), np.int64(1), True
        number -= n_merged
    return np.int64(0), np.int64(0), False


MOVE = Move("rotate", rotate_step, scratch=("replace",))
