"""Change the split of an internal node and send the rows below it down again (Chipman, George, McCulloch 1998).

An internal node is picked uniformly. *Change* draws its new split from the split prior R. *Shift* moves its cut by up
to ``MAX_SHIFT`` of the cell's cuts, up or down, uniformly. The splits below are carried over in raw form
(`carry_over`):

    log_proposal_ratio = [log R(old) - log R(new), for a change] + log_raw_forms(old) - log_raw_forms(new)

where ``log_raw_forms`` adds the log numbers of raw forms of the splits below the node.
"""

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.base import has_one_split_per_feature, parts_box
from ..edits.carry_over import log_raw_forms, raw_forms
from ..edits.proposal import Proposal, nothing, refused, withdrawn
from ..edits.replace_subtree import begin, build, make_plan_raw, plan_copy, plan_node, replacement
from ..state.lists import is_leaf
from ..state.random import flip, pick
from ..state.records import N_INTERNAL, NONE, ChainState
from ..state.splits import box_range, collect_codes, draw_split
from ..state.terms import next_node
from .base import Move

MAX_SHIFT = 6
"""Largest number of cuts by which a cut is shifted."""


@jit
def change_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose another split of a random internal node, drawn from the split prior."""
    if state.count[N_INTERNAL] == 0:
        return nothing()
    node = state.node[pick(rng, state.count[N_INTERNAL])].internal
    split = draw_split(rng, model, state, node)
    return replace_split(rng, model, state, node, split.feature, split.cut, split.categories, True)


@jit
def shift_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose another cut of a random internal node, 1 to ``MAX_SHIFT`` possible cuts above or below, uniformly."""
    if state.count[N_INTERNAL] == 0:
        return nothing()
    node = state.node[pick(rng, state.count[N_INTERNAL])].internal
    record = state.node[node]
    if record.categories >= 0 or has_one_split_per_feature(model.split_prior):
        return refused(0)
    n_cuts = 1 + pick(rng, MAX_SHIFT)
    if flip(rng, 0.5):
        n_cuts = -n_cuts
    cut = shifted_cut(model, state, node, n_cuts)
    if cut == record.cut:
        return refused(0)
    return replace_split(rng, model, state, node, record.feature, cut, NONE, False)


@jit
def shifted_cut(model: Lowered, state: ChainState, node: int, n_cuts: int) -> int:
    """Return the cut ``n_cuts`` possible cuts above that of a node's split, or that cut if its cell has none there."""
    # below it if ``n_cuts`` is negative. Under local cuts those that send all rows to one side count too
    record = state.node[node]
    if parts_box(model.split_prior):
        low, high = box_range(model, state, node, record.feature)
        return record.cut + n_cuts if low <= record.cut + n_cuts < high - 1 else record.cut
    n = collect_codes(model, state, node, record.feature)
    n_below = 0
    while n_below < n and state.scratch.codes.distinct[n_below] <= record.cut:
        n_below += 1
    n_below += n_cuts
    if n_below < 0 or n_below > n:
        return record.cut
    if n_below == n:
        return model.split_prior.feature[record.feature].n_codes - 1
    return state.scratch.codes.distinct[n_below - 1] if n_below > 0 else np.int64(-1)


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
    """Propose another split of an internal node, and build the same splits below it again, or refuse if impossible."""
    # The new split has the given ``feature``, ``cut`` (largest code going left) and ``categories`` (bits going left, -1
    # if ordered). ``is_drawn`` is True if it was drawn from the split prior R, whose ratio then enters the log proposal
    # ratio. Otherwise it must be proposed with the same probability as the reverse change.
    n_planned = plan_copy(state, node, 0)
    log_forms_before = make_plan_raw(rng, model, state, node, node)
    left, right = state.plan[0].left, state.plan[0].right
    plan_node(state, 0, feature, cut, categories)
    state.plan[0].left, state.plan[0].right = left, right
    top = begin(state, node)
    if not build(model, state, top, n_planned, False):
        return withdrawn(0, node, top)
    # one of m raw forms is drawn for each split below: q(old | new) / q(new | old) = prod m(old) / prod m(new)
    log_proposal_ratio = log_forms_before - log_raw_forms_below(model, state, top)
    if is_drawn:
        log_proposal_ratio += state.node[node].log_rule - state.node[top].log_rule
    return replacement(model, state, 0, node, top, log_proposal_ratio)


@jit
def log_raw_forms_below(model: Lowered, state: ChainState, top: int) -> float:
    """Return the sum, over the splits below node ``top``, of the log number of raw forms (`carry_over`)."""
    total, node = 0.0, next_node(state, top, top)
    while node != NONE:
        if not is_leaf(state, node):
            total += log_raw_forms(raw_forms(model, state, node))
        node = next_node(state, node, top)
    return total


MOVE = Move("change", change_step, scratch=("replace",))
SHIFT = Move("shift", shift_step, scratch=("replace",))
