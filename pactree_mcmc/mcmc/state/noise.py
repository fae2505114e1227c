"""Noise variance that all leaves share: draws given the tree, and the score with the variance integrated out."""

from __future__ import annotations

from math import lgamma, log, pi
from typing import Any

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.leaf.codes import SHARED_NORMAL
from ...model.leaf.normal import squares_about_mean
from .lists import is_leaf
from .records import NONE, STORED_VERSION
from .terms import next_node, score_node, subtree_log_score
from .tree import ChainState

# difference between the logs of the variance and of its guess from which on a tuning chain sets the guess anew
MAX_LOG_GUESS_ERROR = 0.2
# parameters of the normal leaf with a shared variance: it, prior mean of a leaf mean and its weight in rows, shape and
# scale of its inverse gamma prior, log(2 pi sigma2) and 1 / (2 sigma2)
SIGMA2, M0, K0, A0, B0, LOG_SCALE, HALF_PRECISION = range(7)


@jit
def redraw_noise(chain: Any) -> None:
    """Draw the noise variance sigma2 given the tree, and compute the scores of all nodes."""
    # sigma2 ~ InverseGamma(a0 + beta n / 2, b0 + beta misfit / 2), with the sums of `noise_sums` and the inverse
    # temperature beta
    model, state = chain.model, chain.state
    params, beta = model.leaf.params, state.beta[0]
    n, misfit, _ = noise_sums(model, state)
    set_variance(params, (params[B0] + beta * misfit / 2.0) / chain.rng.gamma(params[A0] + beta * n / 2.0))
    rescore_nodes(model, state)


@jit
def set_variance(params: np.ndarray, sigma2: float) -> None:
    """Write a variance, ``log(2 pi sigma2)`` and ``1 / (2 sigma2)`` into the parameters ``params`` of a leaf."""
    params[SIGMA2], params[LOG_SCALE], params[HALF_PRECISION] = sigma2, log(2.0 * pi * sigma2), 0.5 / sigma2


@jit
def update_noise_guess(model: Any, state: Any) -> None:
    """Set the guess of the variance to the variance if their logs differ by `MAX_LOG_GUESS_ERROR` or more."""
    # The scores in stored sums over splits are computed at the guess. It is renewed in tuning only, since later it
    # would carry the past of the chain into its next steps
    sigma2 = model.leaf.params[SIGMA2]
    if abs(log(sigma2 / model.proposal_leaf.params[SIGMA2])) >= MAX_LOG_GUESS_ERROR:
        set_noise_guess(model, state, sigma2)


@jit
def set_noise_guess(model: Any, state: Any, sigma2: float) -> None:
    """Set the guess of the variance, for which sums over splits are stored, to ``sigma2``. Make old sums invalid."""
    set_variance(model.proposal_leaf.params, sigma2)
    rescore_nodes(model, state)
    state.count[STORED_VERSION] += 1


@jit
def noise_sums(model: Lowered, state: ChainState) -> tuple[float, float, float]:
    """Return three sums over the leaves: n, misfit and log(k0 / (k0 + n)) / 2."""
    # n is the weight of the rows of a leaf, misfit the squares of y about the leaf mean plus k0 n (mean - m0)^2 / (k0 +
    # n)
    params, node = model.leaf.params, np.int64(0)
    weight, misfit, shrinkage = 0.0, 0.0, 0.0
    while node != NONE:
        n = state.stats[node, 0]
        if is_leaf(state, node) and n > 0.0:
            mean = state.stats[node, 1] / n
            shift = mean - params[M0]
            weight += n
            # with the mean of the leaf integrated out: sum (y - mean)^2 + k0 n (mean - m0)^2 / (k0 + n)
            misfit += squares_about_mean(state.stats[node, 1], state.stats[node, 2], mean)
            misfit += params[K0] * n * shift * shift / (params[K0] + n)
            shrinkage += 0.5 * log(params[K0] / (params[K0] + n))
        node = next_node(state, node, np.int64(0))
    return weight, misfit, shrinkage


@jit
def rescore_nodes(model: Any, state: Any) -> None:
    """Compute the scores of all nodes, internal ones too, after the variance or its guess has changed."""
    node = np.int64(0)
    while node != NONE:
        score_node(model, state, node)
        node = next_node(state, node, np.int64(0))


@jit
def log_score_given_noise(state: Any) -> float:
    """Return the sum of the log scores of the leaves, not tempered, given the variance if they share one."""
    return subtree_log_score(state, np.int64(0))


@jit
def tree_log_score(model: Lowered, state: ChainState) -> float:
    """Return the log score (log likelihood, not tempered) of the tree, with a shared noise variance integrated out."""
    if model.leaf.kind != SHARED_NORMAL:
        return subtree_log_score(state, np.int64(0))
    params = model.leaf.params
    n, misfit, shrinkage = noise_sums(model, state)
    # shrinkage + log[b0^a0 Gamma(an) / (Gamma(a0) bn^an)] - n / 2 log(2 pi)
    an, bn = params[A0] + 0.5 * n, params[B0] + 0.5 * misfit
    prior = params[A0] * log(params[B0]) - lgamma(params[A0])
    return shrinkage + prior + lgamma(an) - an * log(bn) - 0.5 * n * log(2.0 * pi)
