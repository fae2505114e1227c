"""Swap the questions of an internal node and its parent (Chipman, George and McCulloch 1998).

An internal node other than the root is picked uniformly; there are as many after the move. Where its sibling asks the
same question, both children take the parent's. All questions below the parent are carried over raw (`carry_over`):

    log_proposal_ratio = log_freedom(old) - log_freedom(new)
"""

from math import inf
from typing import Any

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ..edits.carry_over import freedom, log_freedom
from ..edits.grow import Proposal
from ..edits.replace_subtree import begin, build, decide_subtree, has_room, loosen_plan, plan_copy, replacement
from ..state.arrays import PROPOSED, SWAP, ChainState
from ..state.random import pick
from ..state.records import N_INTERNAL, NONE
from .change import freedom_below


@jit
def run(walk: Any, n: int) -> int:
    """Make ``n`` steps, or as many as there is room for; how many were made."""
    for i in range(n):
        if not has_room(walk.state):
            return i
        swap_step(walk.rng, walk.model, walk.state)
    return n


@jit
def swap_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> None:
    """One proposal and its decision."""
    if state.count[N_INTERNAL] < 2:
        return
    child = pick_inner_child(rng, state)
    node = state.node[child].parent
    n_planned = plan_copy(state, node, 0)
    free = loosen_plan(rng, model, state, node, NONE)
    if not exchange(state, state.node[child].saved_at):
        state.moves[PROPOSED, SWAP] += 1
        return
    top = begin(state, node)
    if build(model, state, top, n_planned, False):
        now_free = log_freedom(freedom(model, state, top)) + freedom_below(model, state, top)
        proposal = replacement(model, state, SWAP, node, top, free - now_free)
        decide_subtree(rng, model, state, True, proposal, top)
    else:
        decide_subtree(rng, model, state, False, Proposal(SWAP, node, -inf, 0.0, 0.0), top)


@jit
def pick_inner_child(rng: np.random.Generator, state: ChainState) -> int:
    """An internal node other than the root, uniformly; there must be one."""
    at = pick(rng, state.count[N_INTERNAL] - 1)
    if at >= state.node[0].internal_at:
        at += 1
    return state.node[at].internal


@jit
def exchange(state: ChainState, child: int) -> bool:
    """Exchange the planned questions of the root and its child; False where the way back would be another exchange."""
    other = state.plan[0].right if state.plan[0].left == child else state.plan[0].left
    both = same_question(state, child, other)
    if not both and same_question(state, 0, other):
        return False
    top, below = state.plan[0], state.plan[child]
    feature, cut, categories = top.feature, top.cut, top.categories
    top.feature, top.cut, top.categories = below.feature, below.cut, below.categories
    below.feature, below.cut, below.categories = feature, cut, categories
    if both:
        state.plan[other].feature, state.plan[other].cut, state.plan[other].categories = feature, cut, categories
    return True


@jit
def same_question(state: ChainState, a: int, b: int) -> bool:
    """Whether two planned nodes ask the same."""
    one, other = state.plan[a], state.plan[b]
    return one.feature == other.feature and one.cut == other.cut and one.categories == other.categories
