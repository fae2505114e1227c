"""Strata: the trees that split on one feature at the root, and their evidence by draws from the learned density.

With g the density, a tree drawn from it given its root feature f has the weight ``w = pi(T) / g(T | f)``, whose mean is
the evidence of the stratum. A density whose root features have the probabilities of their strata leaves no mode where
chains hardly come, and none where they hardly get away.
"""

from __future__ import annotations

from math import inf, log
from typing import Any

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ..edits.grow import attach_children
from ..edits.replace_subtree import begin, drop, has_room
from ..learned.density import asked, draw_split_of
from ..learned.graph import add_tree
from ..learned.terms import enter_stratum
from ..moves.learned import draw_tree
from ..state.arrays import ChainState
from ..state.terms import subtree_log_prior, subtree_log_score


@jit
def draw_weights(walk: Any, feature: int, out: np.ndarray, done: int) -> int:
    """Writes log weights of trees with ``feature`` at the root into ``out[done:]``; returns how many are done."""
    model, state = walk.model, walk.state
    root = np.int64(0)
    for i in range(done, len(out)):
        if not has_room(state):
            return i
        top = begin(state, root)
        out[i] = draw_about(walk.rng, model, state, top, np.int64(feature))
        if out[i] > -inf:
            add_tree(model, state, top)
        drop(state, root, top)
    return len(out)


@jit
def draw_about(rng: np.random.Generator, model: Lowered, state: ChainState, top: int, feature: int) -> float:
    """Grows a tree with ``feature`` at its root from the leaf ``top``; returns its log weight, -inf if too large."""
    place = asked(model, state, np.int64(0))
    split, log_g = draw_split_of(rng, model, state, top, place, feature)
    log_g -= log(state.fractions[place, feature])
    attach_children(model, state, top, split)
    enter_stratum(state, feature)
    log_g += draw_tree(rng, model, state, state.node[top].left)
    log_g += draw_tree(rng, model, state, state.node[top].right)
    if log_g == inf:
        return -inf
    return subtree_log_prior(model, state, top) + state.beta[0] * subtree_log_score(state, top) - log_g
