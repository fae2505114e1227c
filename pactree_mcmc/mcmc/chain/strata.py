"""Strata: the trees that split on one feature at the root, and their evidence by draws from the learned density.

With g the density, a tree drawn from it given its root feature f has the weight ``w = pi(T) / g(T | f)``, whose mean is
the evidence of the stratum. A density whose root features have the probabilities of their strata leaves no mode where
chains hardly come, and none where they hardly get away.
"""

from __future__ import annotations

from math import exp, inf, log
from typing import Any

import numpy as np

from ...core.compile.jit import jit
from ...core.logsum import log_add, log_mean
from ...core.special import logsumexp
from ...model import Lowered
from ...model.split_prior.geometry import follows_design
from ..edits.grow import attach_children
from ..edits.replace_subtree import adopt, begin, drop, has_room
from ..learned.density import asked, draw_split_of
from ..learned.graph import add_tree
from ..learned.terms import LEARNED, enter_stratum
from ..moves.learned import draw_tree
from ..state.arrays import MOST_VALUES, ChainState
from ..state.random import flip_log
from ..state.records import N_CELL_TERMS, N_WAY_TERMS, NONE
from ..state.terms import subtree_log_prior, subtree_log_score

MOST_SHIFT = 12.0
"""Nats by which the parameter of a feature at the root is moved, at most."""
FLATTENED = 0.8
"""Power of the evidences: rare strata, which are known less well, have more than their fraction."""
LEAST = 1e-4
"""Probability of a stratum at the root, at least."""


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


@jit
def visit(walk: Any, feature: int, out: np.ndarray, done: int) -> int:
    """Bring the chain to one of ``len(out)`` trees drawn with ``feature`` at the root, by their weights.

    Their log weights come into ``out[done:]``; how many were drawn when room ran out.
    """
    rng, model, state = walk.rng, walk.model, walk.state
    root, total = np.int64(0), -inf
    for i in range(done):
        total = log_add(total, out[i])
    for i in range(done, len(out)):
        if not has_room(state):
            return i
        top = begin(state, root)
        weight = draw_about(rng, model, state, top, np.int64(feature))
        out[i] = weight
        total = log_add(total, weight)
        if weight > -inf:
            add_tree(model, state, top)
        if weight > -inf and flip_log(rng, weight - total):
            adopt(model, state, root, top)
        else:
            drop(state, root, top)
    return len(out)


@jit
def root_fractions_into(out: np.ndarray, walk: Any) -> bool:
    """Probability of each feature at the root, given a split, by the learned part of the density alone.

    False where the density does not draw whole trees.
    """
    model, state = walk.model, walk.state
    root = state.node[0]
    if follows_design(model.split_prior) or not root.splittable:
        return False
    if (root.stop - root.start) * len(model.split_prior.feature) > MOST_VALUES:
        return False
    # found afresh, which leaves the sums of the features in scratch
    state.guide[asked(model, state, np.int64(0))].hash = NONE
    guide = state.guide[asked(model, state, np.int64(0))]
    for k in range(len(out)):
        out[k] = exp(state.sums[LEARNED, k] - guide.log_learned)
    return True


def log_evidences(weights: dict[int, np.ndarray]) -> dict[int, float]:
    """Log mean of the weights of each stratum, given by their logs."""
    return {feature: float(log_mean(w)) for feature, w in weights.items()}


def balanced(
    density: np.ndarray, fractions: np.ndarray, weights: dict[int, np.ndarray], noted: np.ndarray
) -> np.ndarray:
    """The density whose root splits on each feature as its stratum's evidence says, to the power ``FLATTENED``.

    ``fractions``: by the learned part of ``density``, which alone can be moved, the probability of each. ``noted``
    (p,): how often the trees of the last rounds split on each there. A few weights say too little of a stratum that the
    density draws badly, and draws of chains too little of one they have not met: the larger of the two counts.
    """
    out, column = density.copy(), N_CELL_TERMS + N_WAY_TERMS
    log_z = log_evidences(weights)
    features = np.array(sorted(log_z))
    if not max(log_z.values()) > -inf:
        return out
    wanted = fractions_of(np.array([log_z[f] for f in features]), noted[features]) ** FLATTENED
    for feature, want in zip(features, wanted / wanted.sum(), strict=True):
        shift = log(max(want, LEAST)) - log(fractions[feature])
        out[0, column + feature] += np.clip(shift, -MOST_SHIFT, MOST_SHIFT)
    return out


def fractions_of(log_z: np.ndarray, noted: np.ndarray) -> np.ndarray:
    """Probability of each stratum, about: by its log evidence, or by how often chains were in it, if that is more."""
    return np.maximum(np.exp(log_z - logsumexp(log_z)), noted / max(noted.sum(), 1))
