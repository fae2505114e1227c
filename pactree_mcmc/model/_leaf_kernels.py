"""The leaf scores as compiled code takes them: an integer code, parameters, additive statistics."""

from math import lgamma, log, pi, sqrt
from typing import NamedTuple

import numpy as np

from .._numba import jit

DIRICHLET, LAPLACE, NORMAL, KNOWN_NORMAL, POISSON, LOSS, SHARED_NORMAL = range(7)


class LeafRule(NamedTuple):
    """A leaf model, lowered."""

    kind: int
    """One of the codes of this module."""
    params: np.ndarray
    """float64, the layout is that of the kind's score function below."""
    n_stats: int
    """How many numbers describe a cell."""
    log_gamma: np.ndarray
    """(K + 1, m) float64: log gamma of 0, ..., m - 1 plus alpha of each class, plus their sum; (1, 1) if unused."""

    @property
    def is_fixed(self) -> bool:
        """Whether the parameters stay as they are throughout a run."""
        return self.kind != SHARED_NORMAL


@jit
def leaf_score(rule: LeafRule, stats: np.ndarray) -> float:
    """Log score in nats of a cell with statistics ``stats`` (n_stats,)."""
    if rule.kind == DIRICHLET:
        if rule.log_gamma.shape[1] > 1:
            return _dirichlet_counts(rule.params, rule.log_gamma, stats)
        return _dirichlet(rule.params, stats)
    if rule.kind == LAPLACE:
        return _laplace(rule.params, stats)
    if rule.kind == NORMAL:
        return _normal(rule.params, stats)
    if rule.kind == KNOWN_NORMAL or rule.kind == SHARED_NORMAL:
        return _known_normal(rule.params, stats)
    if rule.kind == POISSON:
        return _poisson(rule.params, stats)
    return _loss(rule.params, stats)


@jit
def _dirichlet(params: np.ndarray, stats: np.ndarray) -> float:
    # params: sum of alpha, log normaliser of the prior, alpha of each class
    total, score = 0.0, params[1]
    for i in range(len(stats)):
        total += stats[i]
        score += lgamma(stats[i] + params[2 + i])
    return score - lgamma(total + params[0]) if total > 0.0 else 0.0


@jit
def _dirichlet_counts(params: np.ndarray, log_gamma: np.ndarray, stats: np.ndarray) -> float:
    # as `_dirichlet`, for statistics that are whole numbers
    total, score = np.int64(0), params[1]
    for i in range(len(stats)):
        count = np.int64(stats[i])
        total += count
        score += log_gamma[i, count]
    return score - log_gamma[len(stats), total] if total > 0 else 0.0


@jit
def _laplace(params: np.ndarray, stats: np.ndarray) -> float:
    # params: pseudocount; stats: weights of E by class, then of S by class
    n_classes = len(stats) // 2
    total, score, tested = 0.0, 0.0, 0.0
    for i in range(n_classes):
        total += stats[i] + params[0]
        b = stats[n_classes + i]
        if b > 0.0:
            score += b * log(stats[i] + params[0])
            tested += b
    return score - tested * log(total) if tested > 0.0 else 0.0


@jit
def _normal(params: np.ndarray, stats: np.ndarray) -> float:
    # params: m0 (from the centre), k0, a0, b0, a0 log b0 - lgamma(a0)
    n = stats[0]
    if n <= 0.0:
        return 0.0
    m0, k0, a0, b0, constant = params[0], params[1], params[2], params[3], params[4]
    mean = stats[1] / n
    scatter = max(stats[2] - stats[1] * mean, 0.0)
    shift = mean - m0
    kn, an = k0 + n, a0 + 0.5 * n
    bn = b0 + 0.5 * scatter + 0.5 * k0 * n * shift * shift / kn
    return constant + lgamma(an) - an * log(bn) + 0.5 * log(k0 / kn) - 0.5 * n * log(2.0 * pi)


@jit
def _known_normal(params: np.ndarray, stats: np.ndarray) -> float:
    # params: sigma2, m0 (from the centre), k0
    n = stats[0]
    if n <= 0.0:
        return 0.0
    sigma2, m0, k0 = params[0], params[1], params[2]
    mean = stats[1] / n
    scatter = max(stats[2] - stats[1] * mean, 0.0)
    shift = mean - m0
    misfit = scatter + k0 * n * shift * shift / (k0 + n)
    return 0.5 * log(k0 / (k0 + n)) - 0.5 * n * log(2.0 * pi * sigma2) - 0.5 * misfit / sigma2


@jit
def _poisson(params: np.ndarray, stats: np.ndarray) -> float:
    # params: shape, rate, shape log rate - lgamma(shape); stats: exposure, count, sum of w (y log e - lgamma(y + 1))
    if stats[0] <= 0.0:
        return 0.0
    shape = params[0] + stats[1]
    return params[2] + stats[2] + lgamma(shape) - shape * log(params[1] + stats[0])


@jit
def _loss(params: np.ndarray, stats: np.ndarray) -> float:
    # params: lambda1, lambda2, number of classes; stats: weights by class, those of E before those of S if apart
    n_classes = np.int64(params[2])
    label, best = 0, stats[0]
    for i in range(1, n_classes):
        if stats[i] > best:
            label, best = i, stats[i]
    counted = len(stats) - n_classes
    n = 0.0
    for i in range(n_classes):
        n += stats[counted + i]
    return -params[0] * (n - stats[counted + label]) - params[1] * sqrt(n)
