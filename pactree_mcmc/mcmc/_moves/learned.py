"""Draw the whole tree, or a subtree, from a learned density (formula sheet, section 12.3).

A row is drawn uniformly and a depth; v is the node of that depth on the row's path, below the cells that are too large
(`pick_cell`). The pick is as probable after as before, so with g the density of the subtree at v, given its cell,

    log_proposal_ratio = log g(T) - log g(T')

v keeps its subtree where that has, or would get, more than ``MOST_INTERNAL`` internal nodes, or asks what g does not.
"""

from math import exp, inf
from typing import Any

import numpy as np

from ..._numba import jit
from ...model import Lowered
from .._density import draw_way, known, log_density, pick_cell
from .._random import flip
from .._scan import is_candidate
from .._state import LEARNED_REDRAW, NONE, PROPOSED, ChainState, is_leaf, next_node
from .._subtree import begin, decide_subtree, has_room, replacement
from .._terms import enter_stratum
from ._growth import Proposal, hang_children
from .regrow import MOST_INTERNAL


@jit
def run(walk: Any, n: int) -> int:
    """Make ``n`` steps, or as many as there is room for; how many were made."""
    for i in range(n):
        if not has_room(walk.state):
            return i
        learned_step(walk.rng, walk.model, walk.state)
    return n


@jit
def learned_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> None:
    """One proposal and its decision."""
    node = pick_cell(rng, model, state)
    if node == NONE or not state.node[node].splittable:
        return
    if not is_drawable(model, state, node):
        state.moves[PROPOSED, LEARNED_REDRAW] += 1
        return
    way_back = log_density(model, state, node)
    top = begin(state, node)
    way_there = draw_tree(rng, model, state, top)
    if way_there < inf:
        proposal = replacement(model, state, LEARNED_REDRAW, node, top, way_back - way_there)
    else:
        proposal = Proposal(LEARNED_REDRAW, node, -inf, 0.0, 0.0)
    decide_subtree(rng, model, state, way_there < inf, proposal, top)


@jit
def is_drawable(model: Lowered, state: ChainState, top: int) -> bool:
    """Whether the density can draw the subtree at ``top``."""
    n_internal, node = 0, np.int64(top)
    while node != NONE:
        if not is_leaf(state, node):
            n_internal += 1
            if n_internal > MOST_INTERNAL or not is_candidate(model, state, node):
                return False
        node = next_node(state, node, top)
    return True


@jit
def draw_tree(rng: np.random.Generator, model: Lowered, state: ChainState, top: int) -> float:
    """Grow a subtree at the leaf ``top``; the log of its density, infinite, part grown, if it gets too large."""
    total, n_internal, node = 0.0, 0, np.int64(top)
    while node != NONE:
        if state.node[node].splittable:
            guide = state.guide[known(model, state, node)]
            if flip(rng, exp(guide.log_split)):
                n_internal += 1
                if n_internal > MOST_INTERNAL:
                    return inf
                total += guide.log_split
                question, log_g = draw_way(rng, model, state, node)
                hang_children(model, state, node, question)
                total += log_g
                if state.node[node].depth == 0:
                    enter_stratum(state, question.feature)
            else:
                total += guide.log_stop
        node = next_node(state, node, top)
    return total
