"""Growing a leaf and pruning a pair of leaves: the proposal as a value, the decision, the change of state.

Both ways of choosing where to grow or prune (`grow_prune`, `blanchard`) share what stands here.
"""

from math import exp
from typing import NamedTuple

import numpy as np

from ..._numba import jit
from ...model import Lowered
from ...model._leaf_kernels import leaf_score
from ...model._questions import CYCLIC, DYADIC, FIXED, GRID
from .._questions import Question, absent_categories, is_splittable
from .._random import flip
from .._state import (
    CHANGED,
    N_FREE,
    N_NODES,
    NONE,
    ChainState,
    is_leaf,
    list_growable,
    list_prunable,
    log_stop,
    node_log_stop,
    prior_index,
    sibling,
    unlist_growable,
    unlist_prunable,
)

GROW, PRUNE = range(2)
MOVES = ("grow", "prune")


class Proposal(NamedTuple):
    """A move that may be made: the node it concerns and the three terms of its log acceptance ratio."""

    kind: int
    """GROW or PRUNE."""
    node: int
    """The leaf to grow, or the parent of the leaves to prune."""
    log_prior_ratio: float
    """Log prior of the new tree minus that of the old, question prior included."""
    log_score_ratio: float
    log_proposal_ratio: float
    """Log probability of proposing the way back minus that of proposing the way there."""


@jit
def growth_prior_ratio(model: Lowered, state: ChainState, node: int) -> float:
    """Log prior ratio of the tree in which ``node`` has its two children as leaves to that in which it is a leaf."""
    split = model.prior.log_split[prior_index(model, state.depth[node], state.design[node])] + state.log_rule[node]
    stops = node_log_stop(model, state, state.left[node]) + node_log_stop(model, state, state.right[node])
    return split + stops - node_log_stop(model, state, node)


@jit
def growth_score_ratio(state: ChainState, node: int) -> float:
    """Log score ratio of the same two trees."""
    return state.score[state.left[node]] + state.score[state.right[node]] - state.score[node]


@jit
def accept(rng: np.random.Generator, proposal: Proposal) -> bool:
    """The Metropolis-Hastings decision."""
    log_ratio = proposal.log_prior_ratio + proposal.log_score_ratio + proposal.log_proposal_ratio
    return log_ratio >= 0.0 or flip(rng, exp(log_ratio))


@jit
def decide(rng: np.random.Generator, model: Lowered, state: ChainState, proposal: Proposal) -> None:
    """Accept or refuse a proposal whose growth, if it is one, hangs in the state already; count it."""
    accepted = accept(rng, proposal)
    state.proposed[proposal.kind] += 1
    state.accepted[proposal.kind] += accepted
    if proposal.kind == GROW:
        if accepted:
            keep_growth(model, state, proposal.node)
        else:
            drop_children(state, proposal.node)
    elif accepted:
        prune(state, proposal.node)


@jit
def hang_children(model: Lowered, state: ChainState, node: int, question: Question) -> None:
    """Give a leaf two children as ``question`` parts it, with their statistics and scores; lists stay untouched."""
    left = state.free[state.count[N_FREE] - 1]
    right = state.free[state.count[N_FREE] - 2]
    state.count[N_FREE] -= 2
    state.left[node], state.right[node] = left, right
    state.feature[node], state.cut[node], state.upper[node] = question.feature, question.cut, question.upper
    state.categories[node], state.log_rule[node] = question.categories, question.log_rule
    middle = part_range(model, state, node)
    _place_child(model, state, node, left, state.start[node], middle)
    _place_child(model, state, node, right, middle, state.stop[node])
    state.rows[right] = state.rows[node] - state.rows[left]
    for j in range(state.stats.shape[1]):
        state.stats[left, j] = state.side_stats[0, j]
        state.stats[right, j] = state.side_stats[1, j]
    if model.questions.kind == FIXED:
        state.design[left] = state.design[node] + 1
        state.design[right] = model.questions.fixed_right[state.design[node]]
    _narrow_boxes(model, state, node)
    for child in (left, right):
        state.score[child] = leaf_score(model.leaf, state.stats[child])
        state.splittable[child] = is_splittable(model, state, child)


@jit
def part_range(model: Lowered, state: ChainState, node: int) -> int:
    """Bring the units going left to the front of the node's range; sum both sides into ``side_stats``.

    Returns the first place of the right side; the rows of the left side go to ``rows[left child]``.
    """
    units, order, side, stats = model.units, state.order, state.side_order, state.side_stats
    k, cut, categories = state.feature[node], state.cut[node], state.categories[node]
    stats[:] = 0.0
    n_left, n_right, rows_left = 0, 0, 0
    start = state.start[node]
    for i in range(start, state.stop[node]):
        u = order[i]
        code = np.int64(units.codes[k, u])
        right = 1 - ((categories >> code) & 1) if categories >= 0 else np.int64(code > cut)
        order[start + n_left] = u
        side[n_right] = u
        n_left += 1 - right
        n_right += right
        rows_left += (1 - right) * units.rows[u & units.rows_all]
        weight = units.weight[u & units.weight_all]
        if units.counts:
            stats[right, units.label[u]] += weight
        else:
            stats[right, 0] += weight
            stats[right, 1] += units.moments[0, u]
            stats[right, 2] += units.moments[1, u]
    for i in range(n_right):
        order[start + n_left + i] = side[i]
    state.rows[state.left[node]] = rows_left
    return start + n_left


@jit
def _place_child(model: Lowered, state: ChainState, node: int, child: int, start: int, stop: int) -> None:
    state.parent[child], state.depth[child] = node, state.depth[node] + 1
    state.left[child] = state.right[child] = state.feature[child] = NONE
    state.categories[child], state.log_rule[child], state.design[child] = NONE, 0.0, 0
    state.start[child], state.stop[child] = start, stop
    state.growable_at[child] = state.prunable_at[child] = NONE


@jit
def _narrow_boxes(model: Lowered, state: ChainState, node: int) -> None:
    kind = model.questions.kind
    if kind == GRID or kind == DYADIC or kind == CYCLIC:
        left, right, k = state.left[node], state.right[node], state.feature[node]
        state.box[left] = state.box[node]
        state.box[right] = state.box[node]
        if state.categories[node] >= 0:
            state.box[left, k, 0] &= state.categories[node]
            state.box[right, k, 0] &= ~state.categories[node]
        else:
            state.box[left, k, 1] = state.cut[node] + 1
            state.box[right, k, 0] = state.cut[node] + 1


@jit
def keep_growth(model: Lowered, state: ChainState, node: int) -> None:
    """Make a hung pair of children part of the tree: bring the lists up to date."""
    unlist_growable(state, node)
    if state.parent[node] != NONE:
        unlist_prunable(state, state.parent[node])
    list_prunable(state, node)
    list_growable(state, state.left[node])
    list_growable(state, state.right[node])
    state.default_left[node] = 2 * state.rows[state.left[node]] >= state.rows[node]
    if state.categories[node] >= 0 and state.default_left[node]:
        state.categories[node] |= absent_categories(model, state, node, state.feature[node])
    state.count[N_NODES] += 2
    state.count[CHANGED] = 1


@jit
def drop_children(state: ChainState, node: int) -> None:
    """Take two leaves off their parent and return them to the pool; lists stay untouched."""
    state.free[state.count[N_FREE]] = state.right[node]
    state.free[state.count[N_FREE] + 1] = state.left[node]
    state.count[N_FREE] += 2
    state.left[node] = state.right[node] = state.feature[node] = NONE
    state.categories[node], state.log_rule[node] = NONE, 0.0


@jit
def prune(state: ChainState, node: int) -> None:
    """Turn a prunable node into a leaf."""
    unlist_growable(state, state.left[node])
    unlist_growable(state, state.right[node])
    unlist_prunable(state, node)
    drop_children(state, node)
    list_growable(state, node)
    other = sibling(state, node)
    if other != NONE and is_leaf(state, other):
        list_prunable(state, state.parent[node])
    state.count[N_NODES] -= 2
    state.count[CHANGED] = 1
