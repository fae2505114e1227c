"""Weights of trees that make a bound on their vote small.

Every bound here is a function of three numbers: the risk R of a tree drawn with the weights q, its tandem loss T and
the divergence of q from the prior. Their gradients in q are the errors of each tree, twice its tandem loss with the
others, and ``log(q / prior) + 1``, so that one descent serves all bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..core.compile.jit import jit
from .bound import Bound
from .pac_bayes_bounds import optimal_lambda

BoundOf = Callable[[float, float, float], Bound]
"""A bound as a function of risk, tandem loss and divergence."""
ROUNDS = 200
"""Largest number of steps of a descent."""
TRIES = 40
"""Largest number of times that a step is halved."""
DIFFERENCE = 1e-6
"""Difference of risk, or of tandem loss, by which slopes are estimated."""
LEAST_GAIN = 1e-7
"""Gain below which a descent ends."""


class Weighed(NamedTuple):
    """Weights of trees, with the three numbers on which bounds depend."""

    weight: np.ndarray
    """(n_trees,) float64, sum 1."""
    risk: float
    tandem: float
    kl: float


def weigh(weight: np.ndarray, prior: np.ndarray, wrong: np.ndarray) -> Weighed:
    """Return weights (n_trees,) with their risk, tandem loss and divergence.

    ``wrong`` (n_trees, n) uint8 is 1 if the tree errs on the row.
    """
    some = weight > 0.0
    kl = float((weight[some] * np.log(weight[some] / prior[some])).sum())
    mean = np.minimum(_mean_wrong(weight, wrong), 1.0)
    return Weighed(weight, float(mean.mean()), float((mean * mean).mean()), max(kl, 0.0))


def gibbs_weights(prior: np.ndarray, wrong: np.ndarray, delta: float) -> Weighed:
    """Return ``q`` proportional to ``prior exp(-lambda n risk)`` at the lambda that makes the bound smallest.

    Alternates between the two until the relaxed bound falls no more (Thiemann et al. 2017, section 4).
    """
    n, errors = wrong.shape[1], wrong.sum(axis=1).astype(np.float64)
    now = weigh(prior, prior, wrong)
    for _ in range(ROUNDS):
        lam = optimal_lambda(now.risk, now.kl, n, delta)
        new = weigh(_normalised(np.log(prior) - lam * errors), prior, wrong)
        settled = np.abs(new.weight - now.weight).max() < LEAST_GAIN
        now = new
        if settled:
            break
    return now


def descend_weights(bound: BoundOf, prior: np.ndarray, wrong: np.ndarray, starts: list[Weighed]) -> Weighed:
    """Descend by exponentiated gradients from the best of ``starts`` to the weights with the smallest ``bound``."""
    now = min(starts, key=lambda w: bound(w.risk, w.tandem, w.kl).raw)
    value, step = bound(now.risk, now.tandem, now.kl).raw, 1.0
    own = wrong.mean(axis=1)
    for _ in range(ROUNDS):
        by_risk, by_tandem, by_kl = _slopes(bound, now)
        together = _tandem_of_trees(_mean_wrong(now.weight, wrong), wrong)
        gradient = by_risk * own + 2.0 * by_tandem * together
        log_ratio = np.log(np.maximum(now.weight, 1e-300)) - np.log(prior)
        gradient += by_kl * log_ratio
        log_weight = np.log(np.maximum(now.weight, 1e-300))
        for _ in range(TRIES):
            tried = weigh(_normalised(log_weight - step * gradient), prior, wrong)
            lower = bound(tried.risk, tried.tandem, tried.kl).raw
            if lower < value:
                break
            step /= 2.0
        else:
            break
        gain, now, value, step = value - lower, tried, lower, 2.0 * step
        if gain < LEAST_GAIN:
            break
    return now


def _slopes(bound: BoundOf, at: Weighed) -> tuple[float, float, float]:
    """Return the partial derivatives of a bound in risk, tandem loss and divergence.

    Differences stay within the range of the tandem loss, from the square of the risk to the risk.
    """
    here = bound(at.risk, at.tandem, at.kl).raw
    up = DIFFERENCE if at.risk * at.risk + 2.0 * DIFFERENCE < at.tandem else 0.0
    by_risk = (bound(at.risk + up, at.tandem, at.kl).raw - here) / up if up else 0.0
    up = DIFFERENCE if at.tandem + DIFFERENCE < at.risk else 0.0
    by_tandem = (bound(at.risk, at.tandem + up, at.kl).raw - here) / up if up else 0.0
    by_kl = (bound(at.risk, at.tandem, at.kl + 1e-4).raw - here) / 1e-4
    return by_risk, by_tandem, by_kl


def _normalised(log_weight: np.ndarray) -> np.ndarray:
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(weight / weight.sum())


@jit
def _mean_wrong(weight: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Return the weight (n,) of the trees that err on each row."""
    out = np.zeros(wrong.shape[1])
    for t in range(len(weight)):
        if weight[t] > 0.0:
            for i in range(len(out)):
                out[i] += weight[t] * wrong[t, i]
    return out


@jit
def _tandem_of_trees(mean: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Return the mean over rows (n_trees,) of a tree's error times the weight of the trees that err with it."""
    out = np.zeros(len(wrong))
    for t in range(len(wrong)):
        total = 0.0
        for i in range(len(mean)):
            total += wrong[t, i] * mean[i]
        out[t] = total / len(mean)
    return out
