"""Positive y with a gamma distribution of known shape, its rate integrated out (formulas, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log, log1p
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from ...core.compile.address import by_address
from ...core.special import gammaln
from ...files.encoding import kept
from .base import Draws, Leaf, refuse_rows
from .distributions import Distributions
from .gamma import log_gamma_ratio
from .target import Target


@by_address
def gamma_score(s: Any, n: int, params: Any) -> float:
    """Return the score. ``s``: weight, sum of y, sum of log y; ``params``: shape, rate, k."""
    shape, rate, k = params[0], params[1], params[2]
    gamma = lgamma(shape + k * s[0]) - lgamma(shape) - shape * log1p(s[1] / rate) - k * s[0] * log(rate + s[1])
    return gamma + (k - 1.0) * s[2] - s[0] * lgamma(k)


@kept
@dataclass(frozen=True, eq=False)
class GammaGamma(Leaf):
    """Positive y with distribution ``Gamma(k, lambda)``, k known, and ``lambda ~ Gamma(shape, rate)`` integrated out.

    For amounts whose standard deviation is proportional to their mean, such as costs or rainfall: within a leaf it is
    ``mean / sqrt(k)``. The density of y is ``lambda^k y^(k - 1) exp(-lambda y) / Gamma(k)``, so with n rows, ``t`` the
    sum of y and ``l`` that of log y (Fink 1997, section 3.2)

    ``score = (k - 1) l - n log Gamma(k) + log Gamma(shape + n k) - log Gamma(shape) + shape log(rate)
    - (shape + n k) log(rate + t)``.

    Predicts the mean of a new y.

    Parameters
    ----------
    k : float, default 1.0
        The shape of y, > 0; 1: exponential.
    shape, rate : float, optional
        ``shape`` > 1, so that the mean is finite. By default set from the data: ``shape = 3`` and ``rate = (shape - 1)
        * mean(y) / k``, so that the prior mean is the mean of y.

    Raises
    ------
    ValueError
        If a parameter is out of range, or a y is not positive.

    Examples
    --------
    >>> GammaGamma(k=2.0, shape=3.0, rate=1.0)
    GammaGamma(k=2.0, shape=3.0, rate=1.0)
    """

    k: float = 1.0
    shape: float | None = None
    rate: float | None = None
    needs_variance = False
    positive = ("k", "shape", "rate")
    score_parameters = ("shape", "rate", "k")
    compiled_score = staticmethod(gamma_score)

    def resolve(self, target: Target) -> Self:
        refuse_rows(~(target.values > 0.0), "y", target.values, "GammaGamma needs y > 0.")
        shape = 3.0 if self.shape is None else self.shape
        if not shape > 1.0:
            raise ValueError(f"shape={shape} makes the mean of y infinite; give shape > 1.")
        return self.with_defaults(shape=shape, rate=(shape - 1.0) * target.center / self.k)

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        return np.ones(len(y)), y, np.log(y)

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        n, total, logs = sums
        ratio = log_gamma_ratio(np.float64(self.shape), np.float64(n * self.k))
        rest = self.shape * np.log1p(total / self.rate) + n * self.k * np.log(self.rate + total)
        return float((self.k - 1.0) * logs - n * gammaln(self.k) + ratio - rest)

    def _posterior(self, stats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return shape and rate (m,) of the gamma distribution of lambda in cells with ``stats``."""
        return self.shape + self.k * stats[:, 1], self.rate + stats[:, 2]

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        shape, rate = self._posterior(stats)
        return (self.k * rate / (shape - 1.0))[:, None]

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> Distributions:
        shape, rate = self._posterior(stats)
        return Distributions("betaprime", np.full(len(stats), self.k), shape, np.zeros(len(stats)), rate)

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        shape, rate = self._posterior(stats)
        return [Distributions("invgamma", shape, np.zeros(len(stats)), self.k * rate)]

    def expectation_given(self, parameters: Draws, *regressors: Any) -> np.ndarray:
        return (self.k / parameters[0])[:, None]

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Draws:
        shape, rate = self._posterior(stats)
        return (rng.gamma(shape) / rate,)

    def draw_given(self, rng: Generator, parameters: Draws, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        return rng.gamma(self.k, size=len(parameters[0])) / parameters[0]
