"""Regrow a subtree from its top, each node looking one level ahead (formulas, section 4).

A node v is picked uniformly among internal nodes and growable leaves, and its subtree is drawn again, top down. With

    Z(u) = stop(u) exp(score(u)) + split(u) sum_q R(q) exp(score(u0) + score(u1))

u becomes a leaf or takes the split q in proportion to the terms of ``Z(u)``. With ``log_draw(T)`` the log probability
of drawing the subtree that T has at v, and ``n(T)`` the number of nodes that may be picked in T,

    log_proposal_ratio = log_draw(T) - log n(T') - log_draw(T') + log n(T)

The cost is bounded. v keeps its subtree if the old or the new one has more than ``MOST_INTERNAL`` internal nodes, or if
the cell of v has more than ``MOST_VALUES`` values.
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
from ..state.terms import count_internal, next_node, node_log_split, node_log_stop
from ..state.tree import ChainState
from ..sums.split_sums import draw_scanned, is_candidate, log_lookahead
from .base import Move

MOST_VALUES = 20_000
"""Largest number of merged rows times features in the cell of a node that is regrown."""


@jit
def regrow_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose a new subtree, drawn top down, at a random internal node or growable leaf."""
    n_internal = state.count[N_INTERNAL]
    choices = n_internal + state.count[N_GROWABLE]
    if choices == 0:
        return nothing()
    at = pick(rng, choices)
    node = state.node[at].internal if at < n_internal else state.node[at - n_internal].growable
    if not may_regrow(model, state, node):
        return refused(0)
    way_back = log_draw(model, state, node)
    top = begin(state, node)
    way_there = regrow(rng, model, state, top) if way_back > -inf else inf
    if way_there == inf:
        return withdrawn(0, node, top)
    n_new = choices + n_choices(state, top) - n_choices(state, node)
    return replacement(model, state, 0, node, top, way_back - log(n_new) - way_there + log(choices))


@jit
def may_regrow(model: Lowered, state: ChainState, node: int) -> bool:
    """Return True if the cell of a node has at most MOST_VALUES values and its subtree at most MOST_INTERNAL internal
    nodes.
    """
    if (state.node[node].stop - state.node[node].start) * len(model.split_prior.feature) > MOST_VALUES:
        return False
    return count_internal(state, node) <= MOST_INTERNAL


@jit
def n_choices(state: ChainState, top: int) -> int:
    """Return the number of nodes at and below ``top`` that the move may pick: internal nodes and splittable leaves."""
    n, node = 0, np.int64(top)
    while node != NONE:
        n += state.node[node].splittable
        node = next_node(state, node, top)
    return n


@jit
def regrow(rng: np.random.Generator, model: Lowered, state: ChainState, top: int) -> float:
    """Grow a random subtree at the leaf ``top``. Return its log probability, inf if the subtree gets too large."""
    total, n_internal, node = 0.0, 0, np.int64(top)
    while node != NONE:
        if state.node[node].splittable:
            z = log_lookahead(model, state, node)
            stop = node_log_stop(model, state, node) - z
            if flip(rng, exp(min(stop, 0.0))):
                total += stop
            else:
                n_internal += 1
                if n_internal > MOST_INTERNAL:
                    return inf
                attach_children(model, state, node, draw_scanned(rng, model, state, node))
                total += log_split_term(model, state, node) - z
        node = next_node(state, node, top)
    return total


@jit
def log_draw(model: Lowered, state: ChainState, top: int) -> float:
    """Return the log probability that `regrow` grows the subtree that the tree has at ``top``, -inf if it cannot."""
    total, node = 0.0, np.int64(top)
    while node != NONE:
        if state.node[node].splittable:
            z = log_lookahead(model, state, node)
            if is_leaf(state, node):
                total += node_log_stop(model, state, node) - z
            elif not is_candidate(model, state, node):
                return -inf
            else:
                total += log_split_term(model, state, node) - z
        node = next_node(state, node, top)
    return total


@jit
def log_split_term(model: Lowered, state: ChainState, node: int) -> float:
    """Return the log term of an internal node's split in the sum Z of its cell, relative to the score of the cell."""
    return node_log_split(model, state, node) + state.node[node].log_rule + guessed_score_ratio(state, node)


MOVE = Move("regrow-1", regrow_step, scratch=("scan", "replace"))
