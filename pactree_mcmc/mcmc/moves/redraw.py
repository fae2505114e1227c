"""Draw the split of a prunable node afresh, in proportion to its term of W: the last split, given the rest.

A prunable node is picked uniformly; there are as many after the move. With ``gain`` the gain in score of a split,

    log_proposal_ratio = log R(old) + gain(old) - log R(new) - gain(new)

so only the children's prior factors decide, and most proposals are accepted.
"""

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ..edits.grow import attach_children, guessed_score_ratio
from ..edits.proposal import Proposal, nothing, refused
from ..edits.replace_subtree import begin, replacement
from ..state.random import pick
from ..state.records import N_PRUNABLE
from ..state.tree import ChainState
from ..sums.split_sums import draw_scanned, is_candidate
from .base import Move


@jit
def redraw_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose another split of a prunable node."""
    if state.count[N_PRUNABLE] == 0:
        return nothing()
    node = state.node[pick(rng, state.count[N_PRUNABLE])].prunable
    if not is_candidate(model, state, node):
        return refused(0)
    top = begin(state, node)
    attach_children(model, state, top, draw_scanned(rng, model, state, top))
    way_back = state.node[node].log_rule + guessed_score_ratio(state, node)
    way_there = state.node[top].log_rule + guessed_score_ratio(state, top)
    return replacement(model, state, 0, node, top, way_back - way_there)


MOVE = Move("redraw", redraw_step, scratch=("scan", "replace"))
