"""Regrow a subtree from its top, each node looking one level ahead (formulas, section 4).

A node v is picked uniformly among internal nodes and growable leaves, and its subtree is drawn again, top down. With

    Z(u) = stop(u) exp(score(u)) + split(u) sum_q R(q) exp(score(u0) + score(u1))

u becomes a leaf or takes the split q in proportion to the terms of ``Z(u)``. With ``log_draw(T)`` the log probability
of drawing the subtree that T has at v, and ``n(T)`` the number of nodes that may be picked in T,

    log_proposal_ratio = log_draw(T) - log n(T') - log_draw(T') + log n(T)

The cost is bounded. v keeps its subtree if the old or the new one has more than ``MAX_DRAWN_INTERNAL`` internal nodes,
or if the cell of v has more than ``MAX_REGROW_VALUES`` values.
"""

from math import exp, inf, log

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ..edits.grow import attach_children, split_gain
from ..edits.proposal import Proposal, nothing, refused, withdrawn
from ..edits.replace_subtree import MAX_DRAWN_INTERNAL, begin, replacement
from ..state.lists import is_leaf
from ..state.random import flip, pick
from ..state.records import N_GROWABLE, N_INTERNAL, NONE
from ..state.terms import count_internal, next_node, node_log_split, node_log_stop
from ..state.tree import ChainState
from ..sums.split_sums import draw_scanned, is_candidate, log_lookahead
from .base import Move

MAX_REGROW_VALUES = 20_000
"""Largest number of merged rows times features in the cell of a node that is regrown."""


@jit
def regrow_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose a new subtree, drawn top down, at a random internal node or growable leaf."""
    n_internal = state.count[N_INTERNAL]
    n_before = n_internal + state.count[N_GROWABLE]
    if n_before == 0:
        return nothing()
    i = pick(rng, n_before)
    node = state.node[i].internal if i < n_internal else state.node[i - n_internal].growable
    if not is_regrowable(model, state, node):
        return refused(0)
    log_reverse = log_draw_probability(model, state, node)
    top = begin(state, node)
    log_forward = regrow(rng, model, state, top) if log_reverse > -inf else inf
    if log_forward == inf:
        return withdrawn(0, node, top)
    # P(back) / P(there) = [draw(T) / n(T')] / [draw(T') / n(T)]
    n_after = n_before + n_choices(state, top) - n_choices(state, node)
    return replacement(model, state, 0, node, top, log_reverse - log(n_after) - log_forward + log(n_before))


@jit
def is_regrowable(model: Lowered, state: ChainState, node: int) -> bool:
    """Return True if the move can regrow a node: its cell and its present subtree are not too large."""
    if (state.node[node].stop - state.node[node].start) * len(model.split_prior.feature) > MAX_REGROW_VALUES:
        return False
    return count_internal(state, node) <= MAX_DRAWN_INTERNAL


@jit
def n_choices(state: ChainState, top: int) -> int:
    """Return the number of nodes at and below ``top`` that the move can pick: internal nodes and growable leaves."""
    n, node = 0, np.int64(top)
    while node != NONE:
        n += state.node[node].splittable
        node = next_node(state, node, top)
    return n


@jit
def regrow(rng: np.random.Generator, model: Lowered, state: ChainState, top: int) -> float:
    """Grow the leaf ``top`` into a random subtree, drawn node by node with a lookahead of one level (`log_lookahead`).

    Return the log probability of drawing it, or +inf if it gets too large.
    """
    total, n_internal, node = 0.0, 0, np.int64(top)
    while node != NONE:
        if state.node[node].splittable:
            z = log_lookahead(model, state, node)
            stop = node_log_stop(model, state, node) - z
            if flip(rng, exp(min(stop, 0.0))):
                total += stop
            else:
                n_internal += 1
                if n_internal > MAX_DRAWN_INTERNAL:
                    return inf
                attach_children(model, state, node, draw_scanned(rng, model, state, node))
                total += log_split_term(model, state, node) - z
        node = next_node(state, node, top)
    return total


@jit
def log_draw_probability(model: Lowered, state: ChainState, top: int) -> float:
    """Return the log probability that `regrow` draws the subtree that the tree has at ``top``, -inf if it cannot."""
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
    """Return the log term of an internal node's split in the sum that `log_lookahead` returns: log split factor, log
    split prior and tempered gain in score. Stop factors of the children are not in it.
    """
    return node_log_split(model, state, node) + state.node[node].log_rule + split_gain(state, node)


MOVE = Move("regrow-1", regrow_step, scratch=("scan", "replace"))
