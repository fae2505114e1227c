"""Normal y, mean and variance of each leaf integrated out (formula sheet, section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import lgamma, log, pi
from typing import Any, Self

import numpy as np

from ...core.compile.jit import jit
from ...core.special import gammaln
from ...files.encoding import kept
from . import codes
from .base import check_finite, settle_parameters
from .distributions import StudentT
from .gamma import (
    log_gamma_ratio,
)
from .of_numbers import MomentLeaf, drawn_normal, misfit, with_normal_defaults
from .target import Target


@kept
@dataclass(frozen=True, eq=False)
class NormalInverseGamma(MomentLeaf):
    """Normal y, mean and variance of each leaf integrated out (Chipman et al. 1998, mean-variance shift).

    ``sigma2 ~ InverseGamma(a0, b0)``, ``mu ~ Normal(m0, sigma2 / k0)``. Predicts the posterior mean.

    Parameters
    ----------
    m0, k0, a0, b0 : float, optional
        By default set from the data: ``m0`` the mean of y; ``k0 = 1/4`` and ``a0 = 3/2``; ``b0 = a0 * var(y) / 4``.
        This assumes that the tree explains about three quarters of the variance of y, and that leaf means differ from
        ``m0`` by about one standard deviation of y.

    Raises
    ------
    ValueError
        If k0, a0 or b0 is not positive and finite, or m0 is not finite; in a model, if ``b0`` is left
        out and the variance of y is below 1e-290.

    Examples
    --------
    >>> NormalInverseGamma(m0=0.0, k0=1.0, a0=2.0, b0=1.0).k0
    1.0
    """

    m0: float | None = None
    k0: float | None = None
    a0: float | None = None
    b0: float | None = None
    kind = codes.NORMAL

    def __post_init__(self) -> None:
        check_finite("m0", self.m0)
        settle_parameters(self, "k0", "a0", "b0")

    def resolve(self, target: Target) -> Self:
        return with_normal_defaults(self, target)

    def params(self, target: Target) -> np.ndarray:
        constant = self.a0 * math.log(self.b0) - math.lgamma(self.a0)
        return np.array([self.m0 - target.center, self.k0, self.a0, self.b0, constant])

    def lookup(self, target: Target) -> np.ndarray:
        n = target.whole_weights(3)
        if n is None:
            return super().lookup(target)
        constant = self.a0 * math.log(self.b0) - math.lgamma(self.a0)
        shrinkage = np.log(self.k0 / (self.k0 + n)) / 2.0
        rest = constant + gammaln(self.a0 + n / 2.0) + shrinkage - n / 2.0 * math.log(2.0 * math.pi)
        return np.array([rest, *self.mean_lookup(n, self.k0)])

    def _posterior(self, stats: np.ndarray, target: Target) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        n, mean, scatter = self.spread(stats)
        m0 = self.m0 - target.center
        kn = self.k0 + n
        bn = self.b0 + scatter / 2.0 + self.k0 * n * (mean - m0) ** 2 / (2.0 * kn)
        return (self.k0 * m0 + n * mean) / kn, kn, self.a0 + n / 2.0, bn

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        _, kn, _, bn = self._posterior(stats, target)
        half = stats[0] / 2.0
        return float(
            log_gamma_ratio(self.a0, half)
            - self.a0 * np.log1p((bn - self.b0) / self.b0)
            - half * np.log(bn)
            + np.log(self.k0 / kn) / 2.0
            - half * np.log(2.0 * np.pi)
        )

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return self.shrunk(stats, self.m0, self.k0, target)[:, None]

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> StudentT:
        _, kn, an, bn = self._posterior(stats, target)
        return StudentT(2.0 * an, self.value(stats, target)[:, 0], np.sqrt(bn * (kn + 1.0) / (an * kn)))

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        mn, kn, an, bn = self._posterior(stats, target)
        return log_student_density(y - target.center - mn, weight, kn, an, bn)

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
    ) -> np.ndarray:
        _, kn, an, bn = self._posterior(stats, target)
        return drawn_normal(rng, self.value(stats, target)[:, 0], kn, bn / rng.gamma(an), leaf)


def log_student_density(apart: np.ndarray, weight: Any, kn: np.ndarray, an: np.ndarray, bn: np.ndarray) -> np.ndarray:
    """Log density of a y observed ``weight`` times, ``apart`` from the posterior mean; mean, variance integrated out.

    The variance is ``InverseGamma(an, bn)``, the mean has ``kn`` rows' worth of precision; of weight 1 a Student t
    distribution.
    """
    spread, half = (kn + weight) / kn, np.asarray(weight) / 2.0
    return (
        log_gamma_ratio(an, half)
        - half * np.log(2.0 * np.pi * bn)
        - 0.5 * np.log(spread)
        - (an + half) * np.log1p(half * apart**2 / (bn * spread))
    )


@jit
def normal_score(params: np.ndarray, lookup: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Compiled score.

    ``params``: m0 (from the centre), k0, a0, b0, a0 log b0 - lgamma(a0); ``lookup``: all terms but that of bn, then
    what `misfit` needs.
    """
    n, k0 = stats[row, 0], params[1]
    if n <= 0.0:
        return 0.0
    an = params[2] + 0.5 * n
    score = -an * log(params[3] + 0.5 * misfit(params[0], k0, lookup, stats, row))
    if lookup.shape[1] > 1:
        return score + lookup[0, np.int64(n)]
    return score + params[4] + lgamma(an) + 0.5 * log(k0 / (k0 + n)) - 0.5 * n * log(2.0 * pi)
