"""Swap the splits of an internal node and its parent (Chipman, George and McCulloch 1998).

An internal node other than the root is picked uniformly. The new tree has as many. If its sibling has the same split,
both children take the parent's. All splits below the parent are carried over in raw form (`carry_over`):

    log_proposal_ratio = log_raw_forms(old) - log_raw_forms(new)
"""

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ..edits.carry_over import log_raw_forms, raw_forms
from ..edits.proposal import Proposal, nothing, refused, withdrawn
from ..edits.replace_subtree import begin, build, make_plan_raw, plan_copy, replacement
from ..state.random import pick
from ..state.records import N_INTERNAL, NONE, ChainState
from .base import Move
from .change import log_raw_forms_below


@jit
def swap_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose to exchange the splits of a random internal node, other than the root, and its parent."""
    if state.count[N_INTERNAL] < 2:
        return nothing()
    child = pick_internal_child(rng, state)
    node = state.node[child].parent
    n_planned = plan_copy(state, node, 0)
    log_forms_before = make_plan_raw(rng, model, state, node, NONE)
    if not exchange_planned_splits(state, state.scratch.note[child].planned_at):
        return refused(0)
    top = begin(state, node)
    if not build(model, state, top, n_planned, False):
        return withdrawn(0, node, top)
    log_forms_after = log_raw_forms(raw_forms(model, state, top)) + log_raw_forms_below(model, state, top)
    return replacement(model, state, 0, node, top, log_forms_before - log_forms_after)


@jit
def pick_internal_child(rng: np.random.Generator, state: ChainState) -> int:
    """Draw an internal node other than the root uniformly. The tree must have at least two internal nodes."""
    i = pick(rng, state.count[N_INTERNAL] - 1)
    if i >= state.node[0].internal_at:
        i += 1
    return state.node[i].internal


@jit
def exchange_planned_splits(state: ChainState, child: int) -> bool:
    """Exchange the splits of plan record 0, the parent, and plan record ``child``."""
    # if both children have the same split, both get the parent's. Return False, with nothing exchanged, if the reverse
    # move would not lead back
    other_child = state.plan[0].right if state.plan[0].left == child else state.plan[0].left
    is_same = has_same_split(state, child, other_child)
    if not is_same and has_same_split(state, 0, other_child):
        return False
    upper, lower = state.plan[0], state.plan[child]
    feature, cut, categories = upper.feature, upper.cut, upper.categories
    upper.feature, upper.cut, upper.categories = lower.feature, lower.cut, lower.categories
    lower.feature, lower.cut, lower.categories = feature, cut, categories
    if is_same:
        lower = state.plan[other_child]
        lower.feature, lower.cut, lower.categories = feature, cut, categories
    return True


@jit
def has_same_split(state: ChainState, a: int, b: int) -> bool:
    """Return True if ``state.plan[a]`` and ``state.plan[b]``, nodes of a planned subtree, have the same split."""
    x, y = state.plan[a], state.plan[b]
    return x.feature == y.feature and x.cut == y.cut and x.categories == y.categories


MOVE = Move("swap", swap_step, scratch=("replace",))
