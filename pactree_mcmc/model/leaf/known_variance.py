"""Normal y of known variance, the mean of each leaf integrated out (formula sheet, section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from math import log
from typing import Any, Self

import numpy as np

from ...core.compile.jit import jit
from ...files.encoding import kept
from . import codes
from .base import check_finite, settle_parameters
from .distributions import StudentT
from .of_numbers import MomentLeaf, drawn_normal, misfit
from .target import Target


def known_normal_params(sigma2: float, m0: float, k0: float, a0: float = 0.0, b0: float = 0.0) -> np.ndarray:
    """Parameters of the compiled score given the variance, ``m0`` from the centre; the last two are its prior's."""
    return np.array([sigma2, m0, k0, a0, b0, math.log(2.0 * math.pi * sigma2), 0.5 / sigma2])


@kept
@dataclass(frozen=True, eq=False)
class NormalKnownVariance(MomentLeaf):
    """Normal y with known variance ``sigma2`` and ``mu ~ Normal(m0, sigma2 / k0)`` integrated out.

    Predicts the posterior mean.

    Parameters
    ----------
    sigma2, m0, k0 : float, optional
        By default set from the data: ``sigma2 = var(y) / 4``, ``m0`` the mean of y, ``k0 = 1/4``.

    Raises
    ------
    ValueError
        If sigma2 or k0 is not positive and finite, or m0 is not finite; in a model, if ``sigma2`` is left
        out and the variance of y is below 1e-290.

    Examples
    --------
    >>> NormalKnownVariance(sigma2=1.0, m0=0.0, k0=0.5)
    NormalKnownVariance(sigma2=1.0, m0=0.0, k0=0.5)
    """

    sigma2: float | None = None
    m0: float | None = None
    k0: float | None = None
    kind = codes.KNOWN_NORMAL

    def __post_init__(self) -> None:
        check_finite("m0", self.m0)
        settle_parameters(self, "sigma2", "k0")

    def resolve(self, target: Target) -> Self:
        return replace(
            self,
            sigma2=target.prior_variance / 4.0 if self.sigma2 is None else self.sigma2,
            m0=target.center if self.m0 is None else self.m0,
            k0=0.25 if self.k0 is None else self.k0,
        )

    def params(self, target: Target) -> np.ndarray:
        return known_normal_params(self.sigma2, self.m0 - target.center, self.k0)

    def lookup(self, target: Target) -> np.ndarray:
        n = target.whole_weights(3)
        if n is None:
            return super().lookup(target)
        return np.array([np.log(self.k0 / (self.k0 + n)) / 2.0, *self.mean_lookup(n, self.k0)])

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        n, mean, scatter = self.spread(stats)
        misfit = scatter + self.k0 * n * (mean - (self.m0 - target.center)) ** 2 / (self.k0 + n)
        return float(
            np.log(self.k0 / (self.k0 + n)) / 2.0
            - n / 2.0 * np.log(2.0 * np.pi * self.sigma2)
            - misfit / (2.0 * self.sigma2)
        )

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return self.shrunk(stats, self.m0, self.k0, target)[:, None]

    def mean_from_center(self, stats: np.ndarray, target: Target) -> np.ndarray:
        """Posterior means (m,) less the centre: y is compared with them without the leading digits in common."""
        return (self.k0 * (self.m0 - target.center) + stats[:, 1]) / (self.k0 + stats[:, 0])

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> StudentT:
        scale = np.sqrt(self.sigma2 * (1.0 + 1.0 / (self.k0 + stats[:, 0])))
        return StudentT(np.full(len(stats), np.inf), self.value(stats, target)[:, 0], scale)

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        spread, half = 1.0 + weight / (self.k0 + stats[:, 0]), np.asarray(weight) / 2.0
        apart = y - target.center - self.mean_from_center(stats, target)
        misfit = half * apart**2 / (self.sigma2 * spread)
        return -half * np.log(2.0 * np.pi * self.sigma2) - 0.5 * np.log(spread) - misfit

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
    ) -> np.ndarray:
        sigma2 = np.full(len(stats), self.sigma2)
        return drawn_normal(rng, self.value(stats, target)[:, 0], self.k0 + stats[:, 0], sigma2, leaf)


@jit
def known_normal_score(params: np.ndarray, lookup: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Compiled score.

    ``params``: sigma2, m0 (from the centre), k0, and at 5 log(2 pi sigma2), 1 / (2 sigma2); ``lookup``:
    0.5 log(k0 / (k0 + n)), then what `misfit` needs.
    """
    n, k0 = stats[row, 0], params[2]
    if n <= 0.0:
        return 0.0
    shrinkage = lookup[0, np.int64(n)] if lookup.shape[1] > 1 else 0.5 * log(k0 / (k0 + n))
    return shrinkage - 0.5 * n * params[5] - params[6] * misfit(params[1], k0, lookup, stats, row)
