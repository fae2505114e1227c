"""Terms of the posterior: prior and score of nodes and subtrees, and the noise variance that all leaves may share."""

from __future__ import annotations

from math import isfinite, lgamma, log, pi
from typing import Any

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.leaf.base import SHARED_NORMAL
from ...model.leaf.compiled import leaf_score
from ...model.leaf.normal import squares_about_mean
from .lists import is_leaf
from .records import NONE, STORED_VERSION, ChainState


@jit
def score_node(model: Lowered, state: ChainState, node: int) -> None:
    """Compute the log score of a node as a leaf, and the same at the guess of a variance that leaves share."""
    # FloatingPointError if they are not finite
    record = state.node[node]
    record.score = record.guess = leaf_score(model.leaf, state.stats, node)
    if model.leaf.kind == SHARED_NORMAL:
        record.guess = leaf_score(model.proposal_leaf, state.stats, node)
    if not isfinite(record.score + record.guess):
        raise_not_finite(state, node, False)


@jit
def raise_not_finite(state: ChainState, node: int, below: bool) -> None:
    """Raise FloatingPointError, since the score of a node, or with `below` of one side of a split, is not finite."""
    # both arguments are stored: `run.loop` names the cell
    state.scratch.failed_node[0], state.scratch.failed_node[1] = node, below
    raise FloatingPointError("the score of a cell is not finite")


@jit
def log_stop(model: Lowered, index: int, splittable: bool, rows: int) -> float:
    """Return the log prior factor of a leaf with `rows` rows; `splittable` is False if it had to be a leaf."""
    # a leaf without rows gets the prior's term for empty leaves as well
    factors = model.prior.table[index]
    out = factors.log_stop if splittable else factors.log_forced
    return out + model.prior.empty_bonus if rows == 0 else out


@jit
def prior_index(model: Lowered, depth: int, design: int) -> int:
    return design if model.prior.by_node else depth


@jit
def node_log_stop(model: Lowered, state: ChainState, node: int) -> float:
    index = prior_index(model, state.node[node].depth, state.node[node].design)
    return log_stop(model, index, state.node[node].splittable, state.node[node].rows)


@jit
def node_log_split(model: Lowered, state: ChainState, node: int) -> float:
    return model.prior.table[prior_index(model, state.node[node].depth, state.node[node].design)].log_split


@jit
def subtree_log_prior(model: Lowered, state: ChainState, root: int) -> float:
    """Return the log prior of the subtree at ``root``: that of stopping in leaves, of splitting and of each split."""
    total = 0.0
    node = root
    while node != NONE:
        if is_leaf(state, node):
            total += node_log_stop(model, state, node)
        else:
            total += node_log_split(model, state, node)
            total += state.node[node].log_rule
        node = next_node(state, node, root)
    return total


@jit
def subtree_log_score(state: ChainState, root: int) -> float:
    """Return the sum of the log scores, not tempered, of the leaves of the subtree at ``root``."""
    total = 0.0
    node = root
    while node != NONE:
        if is_leaf(state, node):
            total += state.node[node].score
        node = next_node(state, node, root)
    return total


@jit
def count_internal(state: ChainState, root: int) -> int:
    """Return the number of internal nodes at and below ``root``."""
    n, node = 0, root
    while node != NONE:
        n += not is_leaf(state, node)
        node = next_node(state, node, root)
    return n


@jit
def next_node(state: ChainState, node: int, root: int) -> int:
    """Return the node after ``node`` in a preorder walk of the subtree at ``root``, -1 after the last node."""
    if not is_leaf(state, node):
        return state.node[node].left
    while node != root:
        parent = state.node[node].parent
        if state.node[parent].left == node:
            return state.node[parent].right
        node = parent
    return NONE


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
