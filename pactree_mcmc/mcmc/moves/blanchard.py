"""Kernel of Blanchard (1999), section 6.

Walk from the root, each child with probability 1/2, to a leaf f at depth j (reached with probability ``2^-j``).
If f's sibling is a leaf too: with probability 1/2 propose to delete both, with probability ``r/2`` to grow f. If it is
an internal node, or f is the root: with probability ``r/2`` propose to grow f. Otherwise stay. A growth draws its
split from R. For constant rho, ``r = rho (1 - rho)``, and the prior and proposal terms cancel. In general
``r = rho_u (1 - rho_u0) (1 - rho_u1) / (1 - rho_u)``, cut at 1, and the terms below keep the balance:

    log_proposal_ratio = log[2 * 2^-(j+1) * 1/2] - log[2^-j * r/2 * R(split)] = -log r - log R
"""

from math import exp

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.base import follows_design
from ..edits.grow import attach_children, growth, pruning
from ..edits.proposal import Proposal, nothing
from ..state.lists import is_leaf, sibling
from ..state.random import flip
from ..state.records import NONE, ChainState
from ..state.splits import draw_split
from ..state.terms import log_stop, prior_index
from .base import Move
from .grow_prune import GROW_COUNT, PRUNE_COUNT


@jit
def blanchard_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose to grow a leaf that a random walk from the root ends in, to prune its parent, or to change nothing."""
    leaf = 0
    while not is_leaf(state, leaf):
        leaf = state.node[leaf].left if flip(rng, 0.5) else state.node[leaf].right
    sibling_node = sibling(state, leaf)
    log_r = log_growth_rate(model, state, leaf)
    if flip(rng, 0.5):
        if state.node[leaf].splittable and flip(rng, exp(log_r)):
            attach_children(model, state, leaf, draw_split(rng, model, state, leaf))
            return growth(model, state, GROW_COUNT, leaf, -log_r - state.node[leaf].log_rule)
    elif sibling_node != NONE and is_leaf(state, sibling_node):
        node = state.node[leaf].parent
        log_r = log_growth_rate(model, state, node)
        return pruning(model, state, PRUNE_COUNT, node, log_r + state.node[node].log_rule)
    return nothing()


@jit
def log_growth_rate(model: Lowered, state: ChainState, node: int) -> float:
    """Return log r of node u, the probability of trying to grow it, or -inf if it cannot be split."""
    # ``r = min(1, rho_u (1 - rho_u0) (1 - rho_u1) / (1 - rho_u))``, with rho the prior probability that a node with an
    # admissible split is split, and u0, u1 the children. `blanchard_step` grows a leaf that it visits with chance r / 2
    depth, design = state.node[node].depth, state.node[node].design
    if not state.node[node].splittable:
        return -np.inf
    log_leaf = log_stop(model, prior_index(model, depth, design), True, 1)
    left = right = model.split_prior.design[design].right if follows_design(model.split_prior) else 0
    if follows_design(model.split_prior):
        left = design + 1
    log_leaves = log_stop(model, prior_index(model, depth + 1, left), True, 1)
    log_leaves += log_stop(model, prior_index(model, depth + 1, right), True, 1)
    return min(model.prior.table[prior_index(model, depth, design)].log_split + log_leaves - log_leaf, 0.0)


MOVE = Move("blanchard", blanchard_step, counts=("grow", "prune"), scratch=())
