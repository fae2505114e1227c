"""Draw the question of a prunable node afresh, in proportion to its term of W: the last split, given the rest.

A prunable node is picked uniformly; there are as many after the move. With ``gain`` the gain in score of a question,

    log_proposal_ratio = log R(old) + gain(old) - log R(new) - gain(new)

so only the children's prior factors decide, and most proposals are accepted.
"""

from typing import Any

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ..edits.grow import guessed_score_ratio, hang_children
from ..edits.replace_subtree import begin, decide_subtree, has_room, replacement
from ..state.arrays import PROPOSED, REDRAW, ChainState
from ..state.random import pick
from ..state.records import N_PRUNABLE
from ..sums.split_sums import draw_scanned, is_candidate


@jit
def run(walk: Any, n: int) -> int:
    """Make ``n`` steps, or as many as there is room for; how many were made."""
    for i in range(n):
        if not has_room(walk.state):
            return i
        redraw_step(walk.rng, walk.model, walk.state)
    return n


@jit
def redraw_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> None:
    """One proposal and its decision."""
    if state.count[N_PRUNABLE] == 0:
        return
    node = state.node[pick(rng, state.count[N_PRUNABLE])].prunable
    if not is_candidate(model, state, node):
        state.moves[PROPOSED, REDRAW] += 1
        return
    top = begin(state, node)
    hang_children(model, state, top, draw_scanned(rng, model, state, top))
    way_back = state.node[node].log_rule + guessed_score_ratio(state, node)
    way_there = state.node[top].log_rule + guessed_score_ratio(state, top)
    proposal = replacement(model, state, REDRAW, node, top, way_back - way_there)
    decide_subtree(rng, model, state, True, proposal, top)
