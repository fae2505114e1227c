"""Change the question of an internal node and send the rows below it down again (Chipman, George, McCulloch 1998).

An internal node is picked uniformly. *Change* draws its new question from the question prior R; *shift* moves its cut
by a few of the cell's cuts, up or down, uniformly. The questions below are carried over raw (see `carry_over`), so

    log_proposal_ratio = [log R(old) - log R(new), for a change] + log_freedom(old) - log_freedom(new)

where ``log_freedom`` adds the log numbers of raw forms of the questions below the node.
"""

from math import inf
from typing import Any

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.base import CYCLIC, DYADIC, FIXED, GRID
from ..edits.carry_over import freedom, log_freedom
from ..edits.grow import Proposal
from ..edits.replace_subtree import (
    begin,
    build,
    decide_subtree,
    has_room,
    loosen_plan,
    plan_copy,
    plan_node,
    replacement,
)
from ..state.arrays import CHANGE, PROPOSED, SHIFT, ChainState
from ..state.lists import is_leaf
from ..state.random import flip, pick
from ..state.records import N_INTERNAL, NONE
from ..state.splits import collect_codes, draw_question, span
from ..state.terms import next_node

FARTHEST = 6


@jit
def run_change(walk: Any, n: int) -> int:
    """Make ``n`` steps, or as many as there is room for; how many were made."""
    for i in range(n):
        if not has_room(walk.state):
            return i
        change_step(walk.rng, walk.model, walk.state)
    return n


@jit
def run_shift(walk: Any, n: int) -> int:
    """As `run_change`."""
    for i in range(n):
        if not has_room(walk.state):
            return i
        shift_step(walk.rng, walk.model, walk.state)
    return n


@jit
def change_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> None:
    """One proposal of a change and its decision."""
    if state.count[N_INTERNAL] == 0:
        return
    node = state.node[pick(rng, state.count[N_INTERNAL])].internal
    new = draw_question(rng, model, state, node)
    ask_instead(rng, model, state, CHANGE, node, new.feature, new.cut, new.categories)


@jit
def shift_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> None:
    """One proposal of a shift and its decision."""
    if state.count[N_INTERNAL] == 0:
        return
    node = state.node[pick(rng, state.count[N_INTERNAL])].internal
    here, kind = state.node[node], model.split_prior.kind
    if here.categories >= 0 or kind == DYADIC or kind == CYCLIC or kind == FIXED:
        state.moves[PROPOSED, SHIFT] += 1
        return
    by = 1 + pick(rng, FARTHEST)
    if flip(rng, 0.5):
        by = -by
    cut = shifted_cut(model, state, node, by)
    if cut == here.cut:
        state.moves[PROPOSED, SHIFT] += 1
        return
    ask_instead(rng, model, state, SHIFT, node, here.feature, cut, NONE)


@jit
def shifted_cut(model: Lowered, state: ChainState, node: int, by: int) -> int:
    """The cut ``by`` places from that of an internal node; the same cut if there is none."""
    here = state.node[node]
    if model.split_prior.kind == GRID:
        low, high = span(model, state, node, here.feature)
        return here.cut + by if low <= here.cut + by < high - 1 else here.cut
    n = collect_codes(model, state, node, here.feature)
    below = 0
    while below < n and state.codes[0, below] <= here.cut:
        below += 1
    below += by
    if below < 0 or below > n:
        return here.cut
    if below == n:
        return model.split_prior.feature[here.feature].n_codes - 1
    return state.codes[0, below - 1] if below > 0 else np.int64(-1)


@jit
def ask_instead(
    rng: np.random.Generator,
    model: Lowered,
    state: ChainState,
    kind: int,
    node: int,
    feature: int,
    cut: int,
    categories: int,
) -> None:
    """Propose another question for an internal node, the questions below staying as they are, and decide."""
    n_planned = plan_copy(state, node, 0)
    free = loosen_plan(rng, model, state, node, node)
    left, right = state.plan[0].left, state.plan[0].right
    plan_node(state, 0, feature, cut, categories)
    state.plan[0].left, state.plan[0].right = left, right
    top = begin(state, node)
    possible = build(model, state, top, n_planned, False)
    log_proposal_ratio = -inf
    if possible:
        log_proposal_ratio = free - freedom_below(model, state, top)
        if kind == CHANGE:
            log_proposal_ratio += state.node[node].log_rule - state.node[top].log_rule
        proposal = replacement(model, state, kind, node, top, log_proposal_ratio)
    else:
        proposal = Proposal(kind, node, -inf, 0.0, 0.0)
    decide_subtree(rng, model, state, possible, proposal, top)


@jit
def freedom_below(model: Lowered, state: ChainState, top: int) -> float:
    """Log numbers of raw forms of the questions below ``top``, added up."""
    total, node = 0.0, next_node(state, top, top)
    while node != NONE:
        if not is_leaf(state, node):
            total += log_freedom(freedom(model, state, node))
        node = next_node(state, node, top)
    return total
