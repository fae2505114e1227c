"""The noise variance all leaves share: its draw given the tree, and the score of a tree without it."""

from __future__ import annotations

from math import lgamma, log, pi
from typing import TYPE_CHECKING, Any

import numpy as np

from .._numba import jit
from ..model import Lowered
from ..model._leaf_kernels import SHARED_NORMAL, leaf_score
from ._state import NONE, ChainState, is_leaf, next_node, subtree_log_score

if TYPE_CHECKING:
    from ._chain import Chain

SIGMA2, M0, K0, A0, B0, LOG_SCALE, HALF_PRECISION = range(7)


def redraw_noise(chain: Chain) -> None:
    """Draw sigma2 given the tree, the score tempered as the chain's is; the scores of all nodes follow.

    ``sigma2 ~ InverseGamma(a0 + beta n / 2, b0 + beta misfit / 2)``.
    """
    params, beta = chain.lowered.leaf.params, float(chain.state.beta[0])
    n, misfit, _ = misfit_of(chain.model, chain.packed)
    params[SIGMA2] = (params[B0] + beta * misfit / 2.0) / chain.rng.gamma(params[A0] + beta * n / 2.0)
    params[LOG_SCALE], params[HALF_PRECISION] = log(2.0 * pi * params[SIGMA2]), 0.5 / params[SIGMA2]
    rescore(chain.model, chain.packed)
    chain.forget_scores()


@jit
def misfit_of(model: Lowered, state: ChainState) -> tuple[float, float, float]:
    """Weight of all rows, their squares about the means of their leaves, and the log factors of the means."""
    params, node = model.leaf.params, np.int64(0)
    weight, misfit, shrinkage = 0.0, 0.0, 0.0
    while node != NONE:
        n = state.stats[node, 0]
        if is_leaf(state, node) and n > 0.0:
            mean = state.stats[node, 1] / n
            shift = mean - params[M0]
            weight += n
            misfit += max(state.stats[node, 2] - state.stats[node, 1] * mean, 0.0)
            misfit += params[K0] * n * shift * shift / (params[K0] + n)
            shrinkage += 0.5 * log(params[K0] / (params[K0] + n))
        node = next_node(state, node, np.int64(0))
    return weight, misfit, shrinkage


@jit
def rescore(model: Any, state: Any) -> None:
    """Compute the scores of all nodes afresh."""
    node = np.int64(0)
    while node != NONE:
        state.node[node].score = leaf_score(model.leaf, state.stats, node)
        node = next_node(state, node, np.int64(0))


@jit
def conditional_score(state: Any) -> float:
    """Sum of the leaf scores of the tree: given the variance, where there is one."""
    return subtree_log_score(state, np.int64(0))


@jit
def log_score_of(model: Lowered, state: ChainState) -> float:
    """Log score of the tree: the sum over its leaves, or with the shared variance integrated out."""
    if model.leaf.kind != SHARED_NORMAL:
        return subtree_log_score(state, np.int64(0))
    params = model.leaf.params
    n, misfit, shrinkage = misfit_of(model, state)
    an, bn = params[A0] + 0.5 * n, params[B0] + 0.5 * misfit
    prior = params[A0] * log(params[B0]) - lgamma(params[A0])
    return shrinkage + prior + lgamma(an) - an * log(bn) - 0.5 * n * log(2.0 * pi)
