"""Predictive distributions of a new y in a leaf, parameters integrated out, and mixtures of them, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from ...core.special import betainc, gammaln, ndtr, ndtri, stdtr, stdtrit

TOLERANCE = 1e-9
"""Of a quantile, relative to its magnitude and to the scale of its distributions."""
MOST_STEPS = 200
FAR = 2.0**1000
"""Beyond all counts."""


class Mixture(NamedTuple):
    """For each of m rows, the components of its mixture distribution, at least one."""

    place: np.ndarray
    """(k,) int64: numbers of distributions in a table, row after row."""
    weight: np.ndarray
    """(k,): their probabilities, which sum to one in each row."""
    first: np.ndarray
    """(m + 1,) int64: where the distributions of each row begin."""

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Means (m,) over the distributions of ``values`` (k,)."""
        return np.add.reduceat(self.weight * values, self.first[:-1])

    def by_distribution(self, values: np.ndarray) -> np.ndarray:
        """Values (m,) of rows, repeated for each of their distributions (k,)."""
        return np.repeat(values, np.diff(self.first))


class StudentT(NamedTuple):
    """Student t distributions, one for each place; normal where ``df`` is infinite, which is everywhere or nowhere."""

    df: np.ndarray
    location: np.ndarray
    scale: np.ndarray

    def take(self, place: np.ndarray) -> Self:
        """Those of some places."""
        return type(self)(*(part[place] for part in self))

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances; a variance is infinite where ``df`` is at most 2."""
        with np.errstate(divide="ignore", invalid="ignore"):
            widening = np.where(self.df > 2.0, self.df / (self.df - 2.0), np.inf)
        return self.location, self.scale**2 * np.where(np.isinf(self.df), 1.0, widening)

    def below(self, y: np.ndarray) -> np.ndarray:
        """Probability of at most y."""
        z = (y - self.location) / self.scale
        return ndtr(z) if np.isinf(self.df).all() else stdtr(self.df, z)

    def density(self, y: np.ndarray) -> np.ndarray:
        """Density at y."""
        z, df = (y - self.location) / self.scale, self.df
        if np.isinf(df).all():
            return np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * self.scale)
        log_constant = gammaln((df + 1.0) / 2.0) - gammaln(df / 2.0) - 0.5 * np.log(np.pi * df)
        return np.exp(log_constant - (df + 1.0) / 2.0 * np.log1p(z * z / df)) / self.scale

    def mixture_quantile(self, mix: Mixture, q: float) -> np.ndarray:
        """The q-quantile (m,) of mixtures of these distributions (k,): Newton's steps kept between bounds that close
        in.
        """
        each = self.location + self.scale * (ndtri(q) if np.isinf(self.df).all() else stdtrit(self.df, q))
        start = mix.first[:-1]
        low, high = np.minimum.reduceat(each, start), np.maximum.reduceat(each, start)
        y = np.clip(mix.mean(each), low, high)
        close = TOLERANCE * (np.minimum.reduceat(self.scale, start) + np.abs(y))
        for _ in range(MOST_STEPS):
            if np.all(high - low <= close):
                break
            at = mix.by_distribution(y)
            excess = mix.mean(self.below(at)) - q
            low, high = np.where(excess < 0.0, y, low), np.where(excess < 0.0, high, y)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = excess / mix.mean(self.density(at))
            moved = y - step
            done = np.abs(step) <= close
            low, high = np.where(done, y, low), np.where(done, y, high)
            y = np.where(done, y, np.where((moved > low) & (moved < high), moved, (low + high) / 2.0))
        return y


class NegativeBinomial(NamedTuple):
    """Counts at exposure 1 whose rate is ``Gamma(shape, rate)``, one distribution for each place."""

    shape: np.ndarray
    rate: np.ndarray

    def take(self, place: np.ndarray) -> Self:
        """Those of some places."""
        return type(self)(*(part[place] for part in self))

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances."""
        mean = self.shape / self.rate
        return mean, mean * (1.0 + 1.0 / self.rate)

    def below(self, y: np.ndarray) -> np.ndarray:
        """Probability of at most y."""
        k = np.floor(y)
        above = betainc(np.maximum(k, 0.0) + 1.0, self.shape, 1.0 / (1.0 + self.rate))
        return np.where(k < 0.0, 0.0, 1.0 - above)

    def mixture_quantile(self, mix: Mixture, q: float) -> np.ndarray:
        """The least count (m,) of which mixtures of these distributions (k,) are at most with probability q: by
        halving.
        """
        return least_whole_quantile(self.below, mix, q, np.ceil(mix.mean(self.shape / self.rate)))


def least_whole_quantile(
    below: Callable[[np.ndarray], np.ndarray], mix: Mixture, q: float, high: np.ndarray | None = None
) -> np.ndarray:
    """The least count (m,) of which mixtures of distributions (k,) are at most with probability q: by halving.

    ``below(y)`` (k,) are the probabilities of at most y (k,); ``high`` (m,) where to begin.
    """

    def enough(y: np.ndarray) -> np.ndarray:
        return mix.mean(below(mix.by_distribution(y))) >= q

    low = np.full(len(mix.first) - 1, -1.0)
    high = np.ones_like(low) if high is None else high
    while not np.all(reached := enough(high) | (high >= FAR)):
        low, high = np.where(reached, low, high), np.where(reached, high, 2.0 * high + 1.0)
    while True:
        middle = np.floor(low / 2.0 + high / 2.0)
        if not np.any(open_ := (middle > low) & (middle < high)):
            return high
        reached = enough(middle)
        low = np.where(open_ & ~reached, middle, low)
        high = np.where(open_ & reached, middle, high)


def quantile_by_halving(below: Callable[[np.ndarray], np.ndarray], mix: Mixture, q: float) -> np.ndarray:
    """The q-quantile (m,) of mixtures of distributions (k,) with the distribution functions ``below(y)`` (k,): by
    halving.
    """

    def enough(y: np.ndarray) -> np.ndarray:
        return mix.mean(below(mix.by_distribution(y))) >= q

    low, high = np.full(len(mix.first) - 1, -1.0), np.ones(len(mix.first) - 1)
    for _ in range(MOST_STEPS):
        above, below_all = ~enough(high), enough(low)
        if not np.any(above | below_all):
            break
        low, high = np.where(above, high, low), np.where(above, 2.0 * high, high)
        low, high = np.where(below_all, 2.0 * low, low), np.where(below_all, low, high)
    for _ in range(MOST_STEPS):
        if np.all(high - low <= TOLERANCE * np.maximum(np.abs(low), np.abs(high))):
            break
        middle = low / 2.0 + high / 2.0
        reached = enough(middle)
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return low / 2.0 + high / 2.0
