"""Scouts: a search for root features that the chains of a team may have missed.

With a split q of the root on feature k, drawn from the split prior given k, each side is grown by a *rollout*: a cell
that is worth a look is split by a draw in proportion to split prior times likelihood, one level ahead (`draw_scanned`).
With lo the log odds of splitting a cell u once against stopping (`split_sums.scan`) and q' that split,

    V(u) = stop e^score (1 + e^(lo + G(u0) + G(u1))),      G(u) = log V(u) - log(stop e^score),

the children u0 and u1 of q', and G = log(1 + e^lo) of a cell that is not split. As q' is drawn by the weights whose sum
is e^lo, V estimates the sum of prior times likelihood over the subtrees of u without bias but for the cells that are
not split. So ``split R V(u0) V(u1)``, with the cells u0 and u1 of the root split, estimates
the log sum over the trees with feature k at the root, and trees of a feature that no single split shows are among those
of large estimates. They are added to the growing graph of the team, which then draws further trees like them.
"""

from __future__ import annotations

from collections.abc import Generator
from math import inf, log
from typing import Any

import numpy as np

from ....core.compile.jit import jit
from ....core.special import log_add
from ....model.split_prior.base import follows_design
from ...edits.grow import accept_growth, attach_children, prune_all
from ...edits.replace_subtree import MAX_DRAWN_INTERNAL
from ...state.lists import is_leaf
from ...state.records import N_FREE, NONE
from ...state.splits import draw_split_of, fill_feature_weights
from ...state.terms import next_node, node_log_split, node_log_stop
from ...sums.split_sums import draw_scanned, scan
from .density import lookahead_odds
from .graph import add_tree, is_drawable

N_ROLLOUTS = 30
"""Number of rollouts of each root feature, and of further ones of each feature that the first ones call plausible."""
MAX_ROLLOUTS = 500
"""Largest number of first rollouts of a chain, each of some four passes over the table. With more features, none."""
MAX_BEHIND = 6.0
"""Nats behind the best log estimate up to which a feature is plausible, and a tree is added to the graph."""
MIN_ODDS = -2.0
"""Log odds of splitting below which a rollout does not split a cell. Below it, G is at most .13 nats."""


def scout_roots(chain: Any, features: np.ndarray) -> Generator[None, bool | None, bool | None]:
    """Add plausible trees with the features at the root to a chain's growing graph. Return True at a signal to end."""
    if len(features) > MAX_ROLLOUTS or follows_design(chain.lowered.split_prior):
        return None
    chain.enlarge(2 * MAX_DRAWN_INTERNAL + 3)
    log_sums, best = np.zeros(len(features)), np.array([-inf])
    for n in (min(N_ROLLOUTS, MAX_ROLLOUTS // len(features)), N_ROLLOUTS):
        for i in np.flatnonzero(log_sums >= log_sums.max(initial=-inf) - MAX_BEHIND).tolist():
            log_sums[i] = roll_out(chain.packed_chain, features[i], n, best)
            if (yield):
                return True
    return None


@jit
def roll_out(chain: Any, k: int, n: int, best: np.ndarray) -> float:
    """Return the log mean estimate of ``n`` rollouts with feature ``k`` at the root; good trees enter the graph."""
    # good are estimates that are not far behind `best[0]`, the largest so far
    model, state, root, total = chain.model, chain.state, np.int64(0), -inf
    prune_all(state)
    log_split = node_log_split(model, state, root)
    if not state.node[root].splittable or log_split == -inf:
        return -inf
    total_weight = fill_feature_weights(model, state, root)
    weight = state.scratch.feature_weight[k]
    for _ in range(n if weight > 0.0 else 0):
        prune_all(state)
        attach_children(model, state, root, draw_split_of(chain.rng, model, state, root, np.int64(k)))
        accept_growth(model, state, root)
        value = log_split + log(weight / total_weight)
        for child in (state.node[root].left, state.node[root].right):
            value += node_log_stop(model, state, child) + state.node[child].score + grow_out(chain, child)
        total, best[0] = log_add(total, value), max(best[0], value)
        if value >= best[0] - MAX_BEHIND and is_drawable(model, state, root):
            add_tree(model, state, root)
    return total - log(max(n, 1))


@jit
def grow_out(chain: Any, top: int) -> float:
    """Grow leaf ``top`` by a rollout, and return its G."""
    model, state, node, n = chain.model, chain.state, np.int64(top), np.int64(0)
    # G of each cell, without the part of its children on the way down
    excess, order = np.empty(len(state.node)), np.empty(len(state.node), dtype=np.int64)
    while node != NONE:
        excess[node] = -inf
        if state.node[node].splittable:
            excess[node] = lookahead_odds(model, state, node, scan(model, state, node))
            if excess[node] > MIN_ODDS and state.count[N_FREE] >= 2:
                attach_children(model, state, node, draw_scanned(chain.rng, model, state, node))
                accept_growth(model, state, node)
        order[n] = node
        n += 1
        node = next_node(state, node, np.int64(top))
    for i in range(n - 1, -1, -1):
        node = order[i]
        if not is_leaf(state, node):
            for child in (state.node[node].left, state.node[node].right):
                excess[node] += node_log_stop(model, state, child) + excess[child]
        excess[node] = log_add(0.0, excess[node])
    return excess[top]
