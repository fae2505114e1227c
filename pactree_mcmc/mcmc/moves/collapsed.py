"""Grow and prune with the split summed out of the decision (formulas, section 4).

A growth picks a growable leaf u uniformly and draws its split in proportion to its term of
``W(u) = sum_q R(q) exp(gain(q))``; a pruning picks a prunable node uniformly. The gain in score then cancels:

    log_proposal_ratio = log[1 / (2 N')] - log[g(T) / G] - log R(split) - gain(split) + log W(u)

The ratio of a growth depends on the split only through the children, which may or may not be splittable. The decision
has two stages (delayed acceptance). The first one comes before a split is drawn, and takes the *hopeful* ratio, as if
both children were splittable. The second one takes the rest of the ratio, usually 1. So a proposal that the first stage
refuses visits no rows if the cell was scanned before.
"""

from math import log

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.base import follows_design
from ..edits.grow import attach_children, growth, pruning, split_gain
from ..edits.proposal import Proposal, nothing, refused
from ..state.random import flip, flip_log, pick
from ..state.records import N_GROWABLE, N_PRUNABLE, ChainState
from ..state.terms import log_stop, node_log_stop, prior_index
from ..sums.split_sums import draw_scanned, is_candidate, scan
from .base import Move
from .grow_prune import (
    GROW_COUNT,
    PRUNE_COUNT,
    counts_after_pruning,
    grow_probability,
    has_leaf_sibling,
    log_growth_proposal_ratio,
)


@jit
def collapsed_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose to grow a random leaf or to prune a random node, unless a first stage, which needs no split, refuses."""
    # the split of a leaf is drawn in proportion to split prior times exp(gain)
    n_growable, n_prunable = state.count[N_GROWABLE], state.count[N_PRUNABLE]
    if n_growable + n_prunable == 0:
        return nothing()
    if flip(rng, grow_probability(n_prunable)):
        if n_growable == 0:
            return nothing()
        node = state.node[pick(rng, n_growable)].growable
        log_first_stage = log_first_stage_ratio(model, state, node, n_growable, n_prunable)
        if not flip_log(rng, log_first_stage):
            return refused(GROW_COUNT)
        attach_children(model, state, node, draw_scanned(rng, model, state, node))
        ratio = log_collapsed_proposal_ratio(model, state, node, n_growable, n_prunable)
        return with_log_decided(growth(model, state, GROW_COUNT, node, ratio), log_first_stage)
    node = state.node[pick(rng, n_prunable)].prunable
    if not is_candidate(model, state, node):
        return refused(PRUNE_COUNT)
    n_growable_before, n_prunable_before = counts_after_pruning(state, node)
    log_first_stage = log_first_stage_ratio(model, state, node, n_growable_before, n_prunable_before)
    if not flip_log(rng, -log_first_stage):
        return refused(PRUNE_COUNT)
    ratio = log_collapsed_proposal_ratio(model, state, node, n_growable_before, n_prunable_before)
    return with_log_decided(pruning(model, state, PRUNE_COUNT, node, -ratio), -log_first_stage)


@jit
def with_log_decided(proposal: Proposal, log_decided: float) -> Proposal:
    """Return the proposal with ``log_decided``, the log ratio by which the first stage has accepted it."""
    return Proposal(
        proposal.edit,
        proposal.which,
        proposal.node,
        proposal.top,
        proposal.log_prior_ratio,
        proposal.log_score_ratio,
        proposal.log_proposal_ratio,
        log_decided,
    )


@jit
def log_collapsed_proposal_ratio(
    model: Lowered, state: ChainState, node: int, n_growable: int, n_prunable: int
) -> float:
    """Return the log proposal ratio of growing ``node`` by its split, drawn by split prior times exp(tempered gain)."""
    # The two counts are those of the tree in which ``node`` is a leaf. A pruning has the negative ratio.
    uniform = log_growth_proposal_ratio(state, node, n_growable, n_prunable)
    return uniform - split_gain(state, node) + scan(model, state, node)


@jit
def log_first_stage_ratio(model: Lowered, state: ChainState, node: int, n_growable: int, n_prunable: int) -> float:
    """Return the log acceptance ratio of growing ``node`` as if both children could be split, whatever the split."""
    # The two counts are those of the tree in which ``node`` is a leaf. A pruning has the negative ratio.
    depth, design = state.node[node].depth, state.node[node].design
    left_design = right_design = np.int64(0)
    can_split = depth + 1 < model.prior.depth_limit
    can_left = can_right = can_split
    if follows_design(model.split_prior):
        left_design, right_design = design + 1, model.split_prior.design[design].right
        can_left = can_split and model.split_prior.design[left_design].feature >= 0
        can_right = can_split and model.split_prior.design[right_design].feature >= 0
    stops = log_stop(model, prior_index(model, depth + 1, left_design), can_left, 1)
    stops += log_stop(model, prior_index(model, depth + 1, right_design), can_right, 1)
    prior = model.prior.table[prior_index(model, depth, design)].log_split + stops - node_log_stop(model, state, node)
    n_prunable_after = n_prunable + 1 - has_leaf_sibling(state, node)
    log_reverse = log((1.0 - grow_probability(n_prunable_after)) / n_prunable_after)
    log_forward = log(grow_probability(n_prunable) / n_growable)
    # log R and the gain of the split cancel between prior and score ratios and the proposal ratio, which leaves log W
    return prior + log_reverse - log_forward + scan(model, state, node)


MOVE = Move("collapsed", collapsed_step, counts=("collapsed grow", "collapsed prune"), scratch=("scan",))
