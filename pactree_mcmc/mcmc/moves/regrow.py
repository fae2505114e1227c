"""Regrow a subtree from its top, each node looking one or two levels ahead (formula sheet, section 4).

A node v is picked uniformly among internal nodes and growable leaves, and its subtree is drawn again, top down. With

    Z_0(u) = exp(score),  Z_k(u) = stop(u) exp(score(u)) + split(u) sum_q R(q) Z_{k-1}(u0) Z_{k-1}(u1)

u becomes a leaf or takes the split q in proportion to the terms of ``Z_k(u)``. With ``log_draw(T)`` the log
probability of drawing the subtree that T has at v, and ``n(T)`` the number of nodes that may be picked in T,

    log_proposal_ratio = log_draw(T) - log n(T') - log_draw(T') + log n(T)

The cost is bounded. v keeps its subtree if that has, or would get, more than ``MOST_INTERNAL`` internal nodes, or if
the cell of v has more than a given number of units.
"""

from math import exp, inf, log

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ..edits.grow import attach_children, guessed_score_ratio
from ..edits.proposal import Proposal, nothing, refused, withdrawn
from ..edits.replace_subtree import MOST_INTERNAL, begin, replacement
from ..state.lists import is_leaf
from ..state.random import flip, pick
from ..state.records import N_GROWABLE, N_INTERNAL, NONE
from ..state.scratch import MOST_WAYS
from ..state.terms import next_node, node_log_split, node_log_stop
from ..state.tree import ChainState
from ..sums.lookahead import asks, draw_ahead, log_z, n_tries
from ..sums.split_sums import is_candidate
from .base import Move

MOST_VALUES = 20_000
"""Largest number of units times features of a node that is regrown with lookahead 1."""
MOST_WORK = 400_000
"""Largest number of units times features times splits with lookahead 2."""


@jit
def regrow_1_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose another subtree with lookahead 1."""
    return regrow_step(rng, model, state, 1)


@jit
def regrow_2_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose another subtree with lookahead 2."""
    return regrow_step(rng, model, state, 2)


@jit
def regrow_step(rng: np.random.Generator, model: Lowered, state: ChainState, ahead: int) -> Proposal:
    """Propose another subtree of an internal node or a growable leaf."""
    n_internal = state.count[N_INTERNAL]
    choices = n_internal + state.count[N_GROWABLE]
    if choices == 0:
        return nothing()
    at = pick(rng, choices)
    node = state.node[at].internal if at < n_internal else state.node[at - n_internal].growable
    if not may_regrow(model, state, node, ahead):
        return refused(0)
    way_back = log_draw(model, state, node, ahead)
    top = begin(state, node)
    way_there = regrow(rng, model, state, top, ahead) if way_back > -inf else inf
    if way_there == inf:
        return withdrawn(0, node, top)
    n_new = choices + n_choices(state, top) - n_choices(state, node)
    return replacement(model, state, 0, node, top, way_back - log(n_new) - way_there + log(choices))


@jit
def may_regrow(model: Lowered, state: ChainState, node: int, ahead: int) -> bool:
    """Return True if the subtree of a node is small enough, and its cell as well."""
    p = len(model.split_prior.feature)
    values = (state.node[node].stop - state.node[node].start) * p
    if values > MOST_VALUES:
        return False
    n_internal, at = 0, np.int64(node)
    while at != NONE and n_internal <= MOST_INTERNAL:
        n_internal += not is_leaf(state, at)
        at = next_node(state, at, node)
    if n_internal > MOST_INTERNAL:
        return False
    if ahead == 1:
        return True
    ways = 0.0
    for k in range(p):
        if asks(model, state, node, k):
            ways += n_tries(model, state, node, k)
    return ways <= MOST_WAYS and ways * values <= MOST_WORK


@jit
def n_choices(state: ChainState, top: int) -> int:
    """Return the number of internal nodes and splittable leaves at and below ``top``."""
    n, node = 0, np.int64(top)
    while node != NONE:
        n += state.node[node].splittable
        node = next_node(state, node, top)
    return n


@jit
def regrow(rng: np.random.Generator, model: Lowered, state: ChainState, top: int, ahead: int) -> float:
    """Grow a subtree at the leaf ``top``. Return the log of its probability, infinite if it gets too large."""
    total, n_internal, node = 0.0, 0, np.int64(top)
    while node != NONE:
        if state.node[node].splittable:
            z = log_z(model, state, node, ahead)
            stop = node_log_stop(model, state, node) - z
            if flip(rng, exp(min(stop, 0.0))):
                total += stop
            else:
                n_internal += 1
                if n_internal > MOST_INTERNAL:
                    return inf
                attach_children(model, state, node, draw_ahead(rng, model, state, node, ahead))
                total += log_split_term(model, state, node, ahead) - z
        node = next_node(state, node, top)
    return total


@jit
def log_draw(model: Lowered, state: ChainState, top: int, ahead: int) -> float:
    """Return the log probability that `regrow` grows the subtree that the tree has at ``top``."""
    total, node = 0.0, np.int64(top)
    while node != NONE:
        if state.node[node].splittable:
            z = log_z(model, state, node, ahead)
            if is_leaf(state, node):
                total += node_log_stop(model, state, node) - z
            elif ahead == 1 and not is_candidate(model, state, node):
                return -inf
            else:
                total += log_split_term(model, state, node, ahead) - z
        node = next_node(state, node, top)
    return total


@jit
def log_split_term(model: Lowered, state: ChainState, node: int, ahead: int) -> float:
    """Return the log term of an internal node's split in its lookahead sum."""
    here = state.node[node]
    children = log_z(model, state, here.left, ahead - 1) + log_z(model, state, here.right, ahead - 1)
    return node_log_split(model, state, node) + here.log_rule + guessed_score_ratio(state, node) + children


MOVE = Move("regrow-1", regrow_1_step, scratch=("scan", "replace"))
FURTHER = Move("regrow-2", regrow_2_step, scratch=("scan", "replace", "lookahead"))
