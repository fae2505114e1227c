"""Grow and prune with the split summed out of the decision (formulas, section 4).

A growth picks a growable leaf u uniformly and draws its split in proportion to its term of
``W(u) = sum_q R(q) exp(gain(q))``; a pruning picks a prunable node uniformly. The gain in score then cancels:

    log_proposal_ratio = log[(1 - g(T')) / N'] - log[g(T) / G] - log R(split) - gain(split) + log W(u)

The ratio of a growth depends on the split only through the children, which may or may not be splittable. The decision
has two stages (delayed acceptance). The first one comes before a split is drawn, and takes the *hopeful* ratio, as if
both children were splittable. The second one takes the rest of the ratio, usually 1. So a proposal that the first stage
refuses visits no rows if the cell was scanned before.
"""

from math import log

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.geometry import follows_design
from ..edits.grow import attach_children, growth, guessed_score_ratio, pruning
from ..edits.proposal import Proposal, nothing, refused
from ..state.random import flip, flip_log, pick
from ..state.records import N_GROWABLE, N_PRUNABLE
from ..state.terms import log_stop, node_log_stop, prior_index
from ..state.tree import ChainState
from ..sums.split_sums import draw_scanned, is_candidate, scan
from .base import Move
from .grow_prune import (
    GROWN,
    PRUNED,
    counts_without,
    grow_probability,
    growth_proposal_ratio,
    parent_is_prunable_without,
)


@jit
def collapsed_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose to grow or to prune, unless the first stage of the decision refuses."""
    n_growable, n_prunable = state.count[N_GROWABLE], state.count[N_PRUNABLE]
    if n_growable + n_prunable == 0:
        return nothing()
    if flip(rng, grow_probability(n_growable, n_prunable)):
        node = state.node[pick(rng, n_growable)].growable
        hope = hopeful_ratio(model, state, node, n_growable, n_prunable)
        if not flip_log(rng, hope):
            return refused(GROWN)
        attach_children(model, state, node, draw_scanned(rng, model, state, node))
        ratio = collapsed_proposal_ratio(model, state, node, n_growable, n_prunable)
        return passed(growth(model, state, GROWN, node, ratio), hope)
    node = state.node[pick(rng, n_prunable)].prunable
    if not is_candidate(model, state, node):
        return refused(PRUNED)
    growable, prunable = counts_without(state, node)
    hope = hopeful_ratio(model, state, node, growable, prunable)
    if not flip_log(rng, -hope):
        return refused(PRUNED)
    ratio = collapsed_proposal_ratio(model, state, node, growable, prunable)
    return passed(pruning(model, state, PRUNED, node, -ratio), -hope)


@jit
def passed(proposal: Proposal, hope: float) -> Proposal:
    """Return the proposal with ``log_decided = hope``, the log ratio by which the first stage has accepted it."""
    return Proposal(
        proposal.edit,
        proposal.which,
        proposal.node,
        proposal.top,
        proposal.log_prior_ratio,
        proposal.log_score_ratio,
        proposal.log_proposal_ratio,
        hope,
    )


@jit
def collapsed_proposal_ratio(model: Lowered, state: ChainState, node: int, n_growable: int, n_prunable: int) -> float:
    """Return the log proposal ratio of growing ``node``, to which the children are attached already.

    The two counts are those of the tree in which ``node`` is a leaf.
    """
    uniform = growth_proposal_ratio(state, node, n_growable, n_prunable)
    return uniform - guessed_score_ratio(state, node) + scan(model, state, node)


@jit
def hopeful_ratio(model: Lowered, state: ChainState, node: int, n_growable: int, n_prunable: int) -> float:
    """Return the log acceptance ratio of growing ``node`` if both children can be split, whatever the split.

    The two counts are those of the tree in which ``node`` is a leaf.
    """
    depth, design = state.node[node].depth, state.node[node].design
    left = right = np.int64(0)
    can_split = depth + 1 < model.prior.depth_limit
    can_left = can_right = can_split
    if follows_design(model.split_prior):
        left, right = design + 1, model.split_prior.design[design].right
        can_left = can_split and model.split_prior.design[left].feature >= 0
        can_right = can_split and model.split_prior.design[right].feature >= 0
    stops = log_stop(model, prior_index(model, depth + 1, left), can_left, 1)
    stops += log_stop(model, prior_index(model, depth + 1, right), can_right, 1)
    prior = model.prior.table[prior_index(model, depth, design)].log_split + stops - node_log_stop(model, state, node)
    grown_growable = n_growable - 1 + can_left + can_right
    grown_prunable = n_prunable + 1 - parent_is_prunable_without(state, node)
    way_back = log((1.0 - grow_probability(grown_growable, grown_prunable)) / grown_prunable)
    way_there = log(grow_probability(n_growable, n_prunable) / n_growable)
    return prior + way_back - way_there + scan(model, state, node)


MOVE = Move("collapsed", collapsed_step, counts=("collapsed grow", "collapsed prune"), scratch=("scan",))
