"""The leaf scores as compiled code takes them: an integer code, parameters, additive statistics."""

from math import lgamma, log, log1p, nan, pi, sqrt
from typing import NamedTuple

import numpy as np

from ...core.compile.jit import jit
from .gamma import FAR, HALF_LOG_TWO_PI

ROUNDING = 2.0**-48
"""Differences smaller than this share of what they are taken of say nothing."""
DIRICHLET, LAPLACE, NORMAL, KNOWN_NORMAL, POISSON, LOSS, SHARED_NORMAL = range(7)


class LeafRule(NamedTuple):
    """A leaf model, lowered."""

    kind: int
    """One of the codes of this module."""
    params: np.ndarray
    """float64, the layout is that of the kind's score function below."""
    n_stats: int
    """How many numbers describe a cell."""
    lookup: np.ndarray
    """(r, m) float64: functions of 0, ..., m - 1 that the score needs, for whole weights; (1, 1) if unused."""

    @property
    def is_fixed(self) -> bool:
        """Whether the parameters stay as they are throughout a run."""
        return self.kind != SHARED_NORMAL


@jit
def leaf_score(rule: LeafRule, stats: np.ndarray, row: int) -> float:
    """Log score in nats of the cell with statistics ``stats[row]``, of ``stats`` (m, n_stats)."""
    return _score(rule.kind, rule.params, rule.lookup, stats, row)


@jit
def add_scores_into(out: np.ndarray, rule: LeafRule, stats: np.ndarray, n: int) -> None:
    """Add to ``out`` the log scores of the cells with the first ``n`` rows of statistics."""
    kind, params, lookup = rule.kind, rule.params, rule.lookup
    # loops of their own for the commonest scores: choosing the kind cell by cell costs ten times as much
    if kind == DIRICHLET and lookup.shape[1] > 1:
        for row in range(n):
            out[row] += _dirichlet_counts(lookup, stats, row)
    elif kind == LOSS:
        for row in range(n):
            out[row] += _loss(params, stats, row)
    else:
        for row in range(n):
            out[row] += _score(kind, params, lookup, stats, row)


@jit
def _score(kind: int, params: np.ndarray, lookup: np.ndarray, stats: np.ndarray, row: int) -> float:
    if kind == DIRICHLET:
        if lookup.shape[1] > 1:
            score = _dirichlet_counts(lookup, stats, row)
        else:
            score = _dirichlet(params, stats, row)
    elif kind == LAPLACE:
        score = _laplace(params, stats, row)
    elif kind == NORMAL:
        score = _normal(params, lookup, stats, row)
    elif kind == KNOWN_NORMAL or kind == SHARED_NORMAL:
        score = _known_normal(params, lookup, stats, row)
    elif kind == POISSON:
        score = _poisson(params, stats, row)
    elif kind == LOSS:
        score = _loss(params, stats, row)
    else:
        # no code of a score: what is not finite is refused where it is met
        score = nan
    return score


@jit
def stirling_rest(x: float) -> float:
    """What Stirling's formula leaves of log gamma, as `_gamma.stirling_rest`."""
    if x < FAR:
        return lgamma(x) - (x - 0.5) * log(x) + x - HALF_LOG_TWO_PI
    z = 1.0 / (x * x)
    return (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z / 1188.0)))) / x


@jit
def _dirichlet(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    # params: sum of alpha, its Stirling rest, alpha of each class, their Stirling rests
    n_classes, total = stats.shape[1], 0.0
    for i in range(n_classes):
        total += stats[row, i]
    if total <= 0.0:
        return 0.0
    whole = params[0] + total
    score = params[1] - stirling_rest(whole) - (params[0] - 0.5) * log1p(total / params[0])
    for i in range(n_classes):
        n, alpha = stats[row, i], params[2 + i]
        if n > 0.0:
            others = whole - (alpha + n)
            if others < alpha + n:
                others = 0.0
                for j in range(n_classes):
                    if j != i:
                        others += params[2 + j] + stats[row, j]
            score += (alpha - 0.5) * log1p(n / alpha) - n * log1p(others / (alpha + n))
            score += stirling_rest(alpha + n) - params[2 + n_classes + i]
    return score


@jit
def _dirichlet_counts(log_rising: np.ndarray, stats: np.ndarray, row: int) -> float:
    # as `_dirichlet`, for statistics that are whole numbers; rows by class, then of the total
    total, score = np.int64(0), 0.0
    for i in range(stats.shape[1]):
        count = np.int64(stats[row, i])
        total += count
        score += log_rising[i, count]
    return score - log_rising[stats.shape[1], total]


@jit
def _laplace(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    # params: pseudocount; stats: weights of E by class, then of S by class
    n_classes = stats.shape[1] // 2
    total, score = 0.0, 0.0
    for i in range(n_classes):
        total += stats[row, i] + params[0]
    for i in range(n_classes):
        b, part = stats[row, n_classes + i], stats[row, i] + params[0]
        if b > 0.0:
            others = total - part
            if others < part:
                others = 0.0
                for j in range(n_classes):
                    if j != i:
                        others += stats[row, j] + params[0]
            score -= b * log1p(others / part)
    return score


@jit
def squares_about_mean(total: float, squares: float, mean: float) -> float:
    """Squares about the mean from the sums of y and of its squares; rounding alone is none, as in a cell of one y."""
    scatter = squares - total * mean
    return scatter if scatter > ROUNDING * squares else 0.0


@jit
def _misfit(m0: float, k0: float, lookup: np.ndarray, stats: np.ndarray, row: int) -> float:
    # squares about the mean, and of the mean about m0 as far as k0 weighs it
    # last rows of lookup: 1 / n, n k0 / (k0 + n)
    n, total = stats[row, 0], stats[row, 1]
    if lookup.shape[1] > 1:
        mean, weight = total * lookup[1, np.int64(n)], lookup[2, np.int64(n)]
    else:
        mean, weight = total / n, n * (k0 / (k0 + n))
    return squares_about_mean(total, stats[row, 2], mean) + weight * (mean - m0) * (mean - m0)


@jit
def _normal(params: np.ndarray, lookup: np.ndarray, stats: np.ndarray, row: int) -> float:
    # params: m0 (from the centre), k0, a0, b0, a0 log b0 - lgamma(a0); lookup: all terms but that of bn, `_misfit`'s
    n, k0 = stats[row, 0], params[1]
    if n <= 0.0:
        return 0.0
    an = params[2] + 0.5 * n
    score = -an * log(params[3] + 0.5 * _misfit(params[0], k0, lookup, stats, row))
    if lookup.shape[1] > 1:
        return score + lookup[0, np.int64(n)]
    return score + params[4] + lgamma(an) + 0.5 * log(k0 / (k0 + n)) - 0.5 * n * log(2.0 * pi)


@jit
def _known_normal(params: np.ndarray, lookup: np.ndarray, stats: np.ndarray, row: int) -> float:
    # params: sigma2, m0 (from the centre), k0, and at 5 log(2 pi sigma2), 1 / (2 sigma2)
    # lookup: 0.5 log(k0 / (k0 + n)), `_misfit`'s
    n, k0 = stats[row, 0], params[2]
    if n <= 0.0:
        return 0.0
    shrinkage = lookup[0, np.int64(n)] if lookup.shape[1] > 1 else 0.5 * log(k0 / (k0 + n))
    return shrinkage - 0.5 * n * params[5] - params[6] * _misfit(params[1], k0, lookup, stats, row)


@jit
def _divergence(s: float, m: float) -> float:
    # s log(s / m) - s + m
    apart = (s - m) / m
    return (s * log1p(apart) if abs(apart) < 0.5 else s * log(s / m)) - (s - m)


@jit
def _poisson(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    # params: shape, rate, constant, reference rate or 0, Stirling rest of the shape
    # stats: exposure, count, sum of w (y log e - lgamma(y + 1)), or of the log densities at the reference rate
    if stats[row, 0] <= 0.0:
        return 0.0
    shape, rate = params[0] + stats[row, 1], params[1] + stats[row, 0]
    if params[3] > 0.0:
        gamma = stirling_rest(shape) - params[4] - 0.5 * log1p(stats[row, 1] / params[0])
        return stats[row, 2] + _divergence(shape, rate * params[3]) + params[2] + gamma
    return params[2] + stats[row, 2] + lgamma(shape) - shape * log(rate)


@jit
def _loss(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    # params: lambda1, lambda2, number of classes; stats: weights by class, those of E before those of S if apart
    n_classes = np.int64(params[2])
    label, best = 0, stats[row, 0]
    for i in range(1, n_classes):
        if stats[row, i] > best:
            label, best = i, stats[row, i]
    counted = stats.shape[1] - n_classes
    errors = 0.0
    for i in range(n_classes):
        errors += stats[row, counted + i] if i != label else 0.0
    return -params[0] * errors - params[1] * sqrt(errors + stats[row, counted + label])
