"""Positive y with a gamma distribution of known shape, its rate integrated out (formula sheet, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import lgamma, log, log1p
from typing import Any, NamedTuple, Self

import numpy as np

from ...core.compile.address import by_address
from ...core.special import betainc, betaincc, betaincinv, gammaln
from ...files.encoding import kept
from .base import check_positive, settle_parameters
from .by_address import AddressedLeaf
from .gamma import log_gamma_ratio
from .target import Target


@kept
@dataclass(frozen=True, eq=False)
class GammaGamma(AddressedLeaf):
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

    def __post_init__(self) -> None:
        check_positive("k", self.k)
        settle_parameters(self, "k", "shape", "rate")

    def resolve(self, target: Target) -> Self:
        y = target.values
        if np.any(~(y > 0.0)):
            row = int(np.argmax(~(y > 0.0)))
            raise ValueError(f"y is {y[row]} in row {row}; GammaGamma needs y > 0.")
        shape = 3.0 if self.shape is None else self.shape
        if not shape > 1.0:
            raise ValueError(f"shape={shape} makes the mean of y infinite; give shape > 1.")
        return replace(
            self, shape=shape, rate=(shape - 1.0) * target.center / self.k if self.rate is None else self.rate
        )

    @property
    def score_function(self) -> Callable[..., float]:
        return gamma_score

    def score_params(self, target: Target) -> np.ndarray:
        return np.array([self.shape, self.rate, self.k])

    def statistics(self, y: np.ndarray, regressors: np.ndarray | None) -> np.ndarray:
        return np.column_stack([np.ones(len(y)), y, np.log(y)])

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        n, total, logs = sums
        ratio = log_gamma_ratio(np.float64(self.shape), np.float64(n * self.k))
        rest = self.shape * np.log1p(total / self.rate) + n * self.k * np.log(self.rate + total)
        return float((self.k - 1.0) * logs - n * gammaln(self.k) + ratio - rest)

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> CompoundGamma:
        return CompoundGamma(np.full(len(stats), self.k), self.shape + self.k * stats[:, 1], self.rate + stats[:, 2])

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
        *regressors: np.ndarray,
    ) -> np.ndarray:
        distribution = self.predictive(stats, np.empty(0), target)
        return rng.gamma(self.k, size=len(leaf)) / (rng.gamma(distribution.shape) / distribution.rate)[leaf]


@by_address
def gamma_score(s: Any, n: int, params: Any) -> float:
    """Compiled score. ``s``: weight, sum of y, sum of log y; ``params``: shape, rate, k."""
    shape, rate, k = params[0], params[1], params[2]
    gamma = lgamma(shape + k * s[0]) - lgamma(shape) - shape * log1p(s[1] / rate) - k * s[0] * log(rate + s[1])
    return gamma + (k - 1.0) * s[2] - s[0] * lgamma(k)


class CompoundGamma(NamedTuple):
    """``Gamma(k, lambda)`` where ``lambda ~ Gamma(shape, rate)``, one distribution for each place."""

    k: np.ndarray
    shape: np.ndarray
    rate: np.ndarray
    is_whole = False

    def take(self, place: np.ndarray) -> Self:
        """Return the distributions of some places."""
        return type(self)(*(part[place] for part in self))

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances; a variance is infinite if ``shape`` is at most 2."""
        mean = self.k * self.rate / (self.shape - 1.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            variance = mean**2 * (self.k + self.shape - 1.0) / (self.k * (self.shape - 2.0))
        return mean, np.where(self.shape > 2.0, variance, np.inf)

    def below(self, y: np.ndarray) -> np.ndarray:
        """Return the probability of at most y."""
        return self._tail(y, (betainc, betaincc))

    def above(self, y: np.ndarray) -> np.ndarray:
        """Return the probability of more than y."""
        return self._tail(y, (betaincc, betainc))

    def _tail(self, y: np.ndarray, tails: tuple[Callable[..., np.ndarray], ...]) -> np.ndarray:
        """Return a tail of the beta distribution of ``y / (y + rate)`` if this is small, else of the rest to one."""
        with np.errstate(divide="ignore", over="ignore"):
            unit = np.maximum(y, 0.0) / self.rate
            small, rest = 1.0 / (1.0 + 1.0 / unit), 1.0 / (1.0 + unit)
        return np.where(small < 0.5, tails[0](self.k, self.shape, small), tails[1](self.shape, self.k, rest))

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the quantiles, twice: ``y / (y + rate)`` has a beta distribution."""
        fraction, rest = betaincinv(self.k, self.shape, q), betaincinv(self.shape, self.k, 1.0 - q)
        y = self.rate * np.where(fraction < 0.5, fraction / (1.0 - fraction), (1.0 - rest) / rest)
        return y, y
