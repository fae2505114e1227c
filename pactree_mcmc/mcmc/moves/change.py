"""Change the split of an internal node and send the rows below it down again (Chipman, George, McCulloch 1998).

An internal node is picked uniformly. *Change* draws its new split from the split prior R. *Shift* moves its cut by up
to ``FARTHEST`` of the cell's cuts, up or down, uniformly. The splits below are carried over in raw form (`carry_over`):

    log_proposal_ratio = [log R(old) - log R(new), for a change] + log_raw_forms(old) - log_raw_forms(new)

where ``log_raw_forms`` adds the log numbers of raw forms of the splits below the node.
"""

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.geometry import has_one_way, parts_box
from ..edits.carry_over import log_raw_forms, raw_forms
from ..edits.proposal import Proposal, nothing, refused, withdrawn
from ..edits.replace_subtree import begin, build, make_plan_raw, plan_copy, plan_node, replacement
from ..state.codes import collect_codes
from ..state.lists import is_leaf
from ..state.random import flip, pick
from ..state.records import N_INTERNAL, NONE
from ..state.splits import draw_split, span
from ..state.terms import next_node
from ..state.tree import ChainState
from .base import Move

FARTHEST = 6
"""Largest number of cuts by which a cut is shifted."""


@jit
def change_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose another split of an internal node, drawn from the split prior."""
    if state.count[N_INTERNAL] == 0:
        return nothing()
    node = state.node[pick(rng, state.count[N_INTERNAL])].internal
    new = draw_split(rng, model, state, node)
    return replace_split(rng, model, state, node, new.feature, new.cut, new.categories, True)


@jit
def shift_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose another cut of an internal node, a few codes away."""
    if state.count[N_INTERNAL] == 0:
        return nothing()
    node = state.node[pick(rng, state.count[N_INTERNAL])].internal
    here = state.node[node]
    if here.categories >= 0 or has_one_way(model.split_prior):
        return refused(0)
    by = 1 + pick(rng, FARTHEST)
    if flip(rng, 0.5):
        by = -by
    cut = shifted_cut(model, state, node, by)
    if cut == here.cut:
        return refused(0)
    return replace_split(rng, model, state, node, here.feature, cut, NONE, False)


@jit
def shifted_cut(model: Lowered, state: ChainState, node: int, by: int) -> int:
    """Return the cut of a node's cell that is ``by`` cuts above that of its split, or the same cut if there is none."""
    here = state.node[node]
    if parts_box(model.split_prior):
        low, high = span(model, state, node, here.feature)
        return here.cut + by if low <= here.cut + by < high - 1 else here.cut
    n = collect_codes(model, state, node, here.feature)
    below = 0
    while below < n and state.scratch.codes.distinct[below] <= here.cut:
        below += 1
    below += by
    if below < 0 or below > n:
        return here.cut
    if below == n:
        return model.split_prior.feature[here.feature].n_codes - 1
    return state.scratch.codes.distinct[below - 1] if below > 0 else np.int64(-1)


@jit
def replace_split(
    rng: np.random.Generator,
    model: Lowered,
    state: ChainState,
    node: int,
    feature: int,
    cut: int,
    categories: int,
    is_drawn: bool,
) -> Proposal:
    """Propose another split of an internal node, with the splits below carried over.

    ``is_drawn`` is True if the split was drawn from R.
    """
    n_planned = plan_copy(state, node, 0)
    free = make_plan_raw(rng, model, state, node, node)
    left, right = state.plan[0].left, state.plan[0].right
    plan_node(state, 0, feature, cut, categories)
    state.plan[0].left, state.plan[0].right = left, right
    top = begin(state, node)
    if not build(model, state, top, n_planned, False):
        return withdrawn(0, node, top)
    log_proposal_ratio = free - log_raw_forms_below(model, state, top)
    if is_drawn:
        log_proposal_ratio += state.node[node].log_rule - state.node[top].log_rule
    return replacement(model, state, 0, node, top, log_proposal_ratio)


@jit
def log_raw_forms_below(model: Lowered, state: ChainState, top: int) -> float:
    """Return the sum, over the splits below ``top``, of the log number of raw forms (`carry_over`)."""
    total, node = 0.0, next_node(state, top, top)
    while node != NONE:
        if not is_leaf(state, node):
            total += log_raw_forms(raw_forms(model, state, node))
        node = next_node(state, node, top)
    return total


MOVE = Move("change", change_step, scratch=("replace",))
SHIFT = Move("shift", shift_step, scratch=("replace",))
