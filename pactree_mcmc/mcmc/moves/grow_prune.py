"""Uniform grow and prune (Chipman, George and McCulloch 1998).

Grow with probability ``g(T)``: 1/2, or 1 if no node can be pruned (the stump). A growth picks a growable leaf uniformly
and draws its split from the split prior R; a pruning picks a prunable node uniformly. For a growth from T to T', with
``G`` growable leaves in T and ``N'`` prunable nodes in T',

    log_proposal_ratio = log[1 / (2 N')] - log[g(T) / G * R(split)]

A tree without growable leaves stays with probability 1/2. If all trees always moved, every step would change the parity
of the number of leaves, and a chain would have period two: the largest trees break it.
"""

from math import log

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ..edits.grow import attach_children, growth, pruning
from ..edits.proposal import Proposal, nothing
from ..state.lists import is_leaf, sibling
from ..state.random import flip, pick
from ..state.records import N_GROWABLE, N_PRUNABLE, NONE, ChainState
from ..state.splits import draw_split
from .base import Move

GROW_COUNT, PRUNE_COUNT = range(2)
"""Values of ``Proposal.which``, the index of a count: growths are counted first, prunings second."""


@jit
def grow_prune_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose to grow a growable leaf or to prune a prunable node."""
    n_growable, n_prunable = state.count[N_GROWABLE], state.count[N_PRUNABLE]
    if n_growable + n_prunable == 0:
        return nothing()
    if flip(rng, grow_probability(n_prunable)):
        return propose_growth(rng, model, state) if n_growable > 0 else nothing()
    return propose_pruning(rng, model, state)


@jit
def grow_probability(n_prunable: int) -> float:
    """Return the probability g that a step chooses to grow: 1/2, or 1 at the stump."""
    return 0.5 if n_prunable > 0 else 1.0


@jit
def propose_growth(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose to grow a growable leaf, picked uniformly, with a split drawn from the split prior."""
    node = state.node[pick(rng, state.count[N_GROWABLE])].growable
    attach_children(model, state, node, draw_split(rng, model, state, node))
    ratio = log_growth_proposal_ratio(state, node, state.count[N_GROWABLE], state.count[N_PRUNABLE])
    return growth(model, state, GROW_COUNT, node, ratio)


@jit
def propose_pruning(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose to prune a prunable node, picked uniformly."""
    node = state.node[pick(rng, state.count[N_PRUNABLE])].prunable
    n_growable, n_prunable = counts_after_pruning(state, node)
    return pruning(model, state, PRUNE_COUNT, node, -log_growth_proposal_ratio(state, node, n_growable, n_prunable))


@jit
def log_growth_proposal_ratio(state: ChainState, node: int, n_growable: int, n_prunable: int) -> float:
    """Return the log proposal ratio of growing ``node`` by its attached split, drawn from the split prior."""
    # The two counts are those of the tree in which ``node`` is a leaf. A pruning has the negative ratio.
    n_prunable_after = n_prunable + 1 - has_leaf_sibling(state, node)
    log_reverse = log((1.0 - grow_probability(n_prunable_after)) / n_prunable_after)
    return log_reverse - log(grow_probability(n_prunable) / n_growable) - state.node[node].log_rule


@jit
def counts_after_pruning(state: ChainState, node: int) -> tuple[int, int]:
    """Return the numbers of growable leaves and of prunable nodes of the tree after pruning the prunable ``node``."""
    left, right = state.node[node].left, state.node[node].right
    n_growable = state.count[N_GROWABLE] + 1 - state.node[left].splittable - state.node[right].splittable
    return n_growable, state.count[N_PRUNABLE] - 1 + has_leaf_sibling(state, node)


@jit
def has_leaf_sibling(state: ChainState, node: int) -> int:
    """Return 1 if the sibling of ``node`` is a leaf, so that the parent is prunable if ``node`` is a leaf, else 0."""
    sibling_node = sibling(state, node)
    return 1 if sibling_node != NONE and is_leaf(state, sibling_node) else 0


MOVE = Move("grow-prune", grow_prune_step, counts=("grow", "prune"), scratch=())
