"""Predictive distributions of a new y in a leaf, parameters integrated out, and quantiles of their mixtures."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from ...core.special import betainc, betaincc, gammainc, gammaincc, ndtr, ndtri, stdtr, stdtrit

MOST_STEPS = 140
"""Steps of the search for a quantile: a little more than twice the 64 halvings of all floats to one."""
SLACK = 1 << 10
"""Floats by which a quantile of SciPy may be off before the search looks further: 2e-13 of its size."""
CLOSE = 2
"""Floats between the ends of a bracket that needs no further step: 4e-16 of its size."""
ROUNDING = 1e-15
"""Relative error of a probability that is due to rounding."""
LARGEST_RATE, LARGEST_COUNT = 1e12, 1e32
"""Rate up to which NumPy draws Poisson counts: at 1e15 five times as many as should be lie beyond the .0005-quantile.
Count from which the Poisson noise is below the rounding of floats, so that counts have the gamma distribution of their
rate.
"""
LARGEST = np.finfo(np.float64).max


class Distributions(Protocol):
    """Distributions of a new y, one for each of k places of a table."""

    is_whole: bool
    """True if y is an integer."""

    def take(self, place: np.ndarray) -> Any:
        """Return the distributions of some places."""

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (k,)."""

    def below(self, y: np.ndarray) -> np.ndarray:
        """Return the probabilities (k,) of at most y (k,)."""

    def above(self, y: np.ndarray) -> np.ndarray:
        """Return the probabilities (k,) of more than y (k,), accurate also if they are small."""

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        """Return two numbers (k,) between which the q-quantile of each distribution lies; good guesses suffice."""


class Mixture(NamedTuple):
    """For each of m rows, the components of its mixture distribution, at least one."""

    place: np.ndarray
    """(k,) int64: numbers of distributions in a table, row after row."""
    weight: np.ndarray
    """(k,): their probabilities, which sum to one in each row."""
    first: np.ndarray
    """(m + 1,) int64: where the distributions of each row begin."""

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return means (m,) over the distributions of ``values`` (k,)."""
        return np.add.reduceat(self.weight * values, self.first[:-1])

    def by_distribution(self, values: np.ndarray) -> np.ndarray:
        """Return values (m,) of rows, repeated for each of their distributions (k,)."""
        return np.repeat(values, np.diff(self.first))

    def quantile(self, distributions: Distributions, q: float) -> np.ndarray:
        """Return the least y (m,) that mixtures of ``distributions`` (k,) do not exceed with probability q.

        The quantile of a mixture lies between the smallest and the largest quantile of its components. From there the
        search steps by regula falsi on the log of the smaller tail, and halves the number of floats between the ends
        if the last step has not done so. So it needs at most about 130 steps, and usually 10 to 25, whatever the size
        of y. It ends with two floats that are at most ``CLOSE`` floats apart, or with two successive integers.
        """
        with np.errstate(all="ignore"):
            low, high = distributions.bracket(q)
            low = np.minimum.reduceat(low, self.first[:-1])
            high = np.maximum.reduceat(high, self.first[:-1])
            return _Search(self, distributions, q).run(low, high)


class _Search:
    """Search for the q-quantiles of mixtures between two numbers."""

    def __init__(self, mix: Mixture, distributions: Distributions, q: float) -> None:
        self._mix, self._distributions, self._q = mix, distributions, q

    def excess(self, y: np.ndarray) -> np.ndarray:
        """Return a number (m,) that increases with y (m,) and is at least 0 from the quantile on."""
        at = self._mix.by_distribution(np.floor(y) if self._distributions.is_whole else y)
        if self._q <= 0.5:
            return np.log(self._mix.mean(self._distributions.below(at)) / self._q)
        return -np.log(self._mix.mean(self._distributions.above(at)) / (1.0 - self._q))

    def run(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the quantiles (m,); the numbers ``low`` and ``high`` (m,) are where the search begins."""
        low, high, below, above = self._widened(low, high)
        width, side = _distance(low, high), np.zeros(len(low))
        for step in range(MOST_STEPS):
            middle = self._inside(_middle(low, high), low, high)
            is_open = (middle > low) & (middle < high)
            if not self._distributions.is_whole:
                is_open &= _distance(low, high) > CLOSE
            if not is_open.any():
                break
            y = self._inside(_interpolated(low, high, below, above), low, high)
            is_slow = False
            if step % 2 == 1:
                is_slow, width = _distance(low, high) > width / 2.0, _distance(low, high)
            y = np.where(is_slow | ~((y > low) & (y < high)), middle, y)
            found = self.excess(y)
            reached = found >= 0.0
            # the value at an end that stays twice is halved, so that both ends move (the Illinois rule)
            above = np.where(reached, found, np.where(side == -1, above / 2.0, above))
            below = np.where(reached, np.where(side == 1, below / 2.0, below), found)
            side = np.where(reached, 1, -1)
            low, high = np.where(is_open & ~reached, y, low), np.where(is_open & reached, y, high)
            if not self._distributions.is_whole:
                # in a gap between components every number is a quantile
                low = np.where(is_open & reached & (found <= ROUNDING), high, low)
        return high

    def _inside(self, y: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return y (m,) as integers if they must be, and so far inside the bracket that it ends by two steps."""
        if self._distributions.is_whole:
            return np.clip(np.floor(y), np.floor(low) + 1.0, np.ceil(high) - 1.0)
        return np.clip(y, _moved(low, CLOSE // 2), _moved(high, -(CLOSE // 2)))

    def _widened(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return ends (m,) on both sides of the quantile, and the excess at both."""
        if self._distributions.is_whole:
            low, high = np.floor(low) - 1.0, np.ceil(high) + 1.0
        else:
            low, high = _moved(low, -SLACK), _moved(high, SLACK)
        factor = 2.0
        while True:
            below, above = self.excess(low), self.excess(high)
            down, up = (below >= 0.0) & (low > -LARGEST), ~(above >= 0.0) & (high < LARGEST)
            if not np.any(down | up):
                return low, high, below, above
            # the steps grow as the square of the last ones, so that ten of them cross all floats
            reach = factor * np.maximum(high - low, 1e-9 * np.maximum(np.abs(low), np.abs(high)))
            reach, factor = np.where(reach > 0.0, reach, 5e-324), min(factor, 1e150) ** 2
            low = np.where(down, np.maximum(low - reach, -LARGEST), low)
            high = np.where(up, np.minimum(high + reach, LARGEST), high)


def _number(y: np.ndarray) -> np.ndarray:
    """Return numbers (m,) int64 that count the floats up to y (m,) from zero, so that their order is that of y."""
    bits = np.ascontiguousarray(y, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _float(number: np.ndarray) -> np.ndarray:
    """Return the floats (m,) that `_number` counts."""
    return np.where(number < 0, np.int64(-(2**63)) - number, number).view(np.float64)


def _moved(y: np.ndarray, floats: int) -> np.ndarray:
    """Return the float (m,) that is so many floats above y (m,)."""
    limit = int(_number(np.array([LARGEST]))[0])
    return _float(np.clip(np.clip(_number(y), -limit, limit) + floats, -limit, limit))


def _middle(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the float (m,) with as many floats to ``low`` as to ``high``."""
    a, b = _number(low), _number(high)
    return _float((a >> 1) + (b >> 1) + (a & b & 1))


def _distance(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the number of floats (m,) between two floats, exactly if it is below 2^53."""
    a, b = _number(low), _number(high)
    # halves, since the difference of two integers of 64 bits need not fit, and float64 would round each of them
    return 2.0 * ((b >> 1) - (a >> 1)) + ((b & 1) - (a & 1))


def _interpolated(low: np.ndarray, high: np.ndarray, below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Return the zero (m,) of a line through two points, by log |y| unless it crosses y = 0; NaN if there is none."""
    part = -below / (above - below)
    ratio = high / low
    return np.where(ratio > 0.0, low * ratio**part, low + part * (high - low))


def count_bracket(distributions: Distributions, q: float) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds (k,) of the q-quantiles of counts by their moments: the inequalities of Cantelli and Markov."""
    mean, variance = distributions.mean_and_variance()
    std = np.sqrt(variance)
    low = np.maximum(mean - std * np.sqrt((1.0 - q) / q), -1.0)
    high = np.minimum(mean + std * np.sqrt(q / (1.0 - q)), mean / (1.0 - q))
    return np.where(low < LARGEST, low, -1.0), np.where(high < LARGEST, high, LARGEST)


def draw_poisson(rng: np.random.Generator, rate: np.ndarray) -> np.ndarray:
    """Draw Poisson counts (n,) float64; beyond rates of 1e12 from the normal distribution, which is close to 1e-6."""
    if np.all(rate < LARGEST_RATE):
        return rng.poisson(rate).astype(np.float64)
    counts = rng.poisson(np.minimum(rate, LARGEST_RATE)).astype(np.float64)
    return np.where(rate < LARGEST_RATE, counts, np.rint(rng.normal(rate, np.sqrt(rate))))


class StudentT(NamedTuple):
    """Student t distributions, one for each place; normal if ``df`` is infinite, which is everywhere or nowhere."""

    df: np.ndarray
    location: np.ndarray
    scale: np.ndarray
    is_whole = False

    def take(self, place: np.ndarray) -> Self:
        """Return the distributions of some places."""
        return type(self)(*(part[place] for part in self))

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances; a variance is infinite if ``df`` is at most 2."""
        with np.errstate(divide="ignore", invalid="ignore"):
            widening = np.where(self.df > 2.0, self.df / (self.df - 2.0), np.inf)
        return self.location, self.scale**2 * np.where(np.isinf(self.df), 1.0, widening)

    def below(self, y: np.ndarray) -> np.ndarray:
        """Return the probability of at most y."""
        with np.errstate(over="ignore"):
            z = (y - self.location) / self.scale
        return ndtr(z) if np.isinf(self.df).all() else stdtr(self.df, z)

    def above(self, y: np.ndarray) -> np.ndarray:
        """Return the probability of more than y."""
        return self._replace(location=-self.location).below(-y)

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the quantiles, twice."""
        tail = min(q, 1.0 - q)
        z = ndtri(tail) if np.isinf(self.df).all() else stdtrit(self.df, tail)
        y = self.location + self.scale * (z if q <= 0.5 else -z)
        return y, y


class NegativeBinomial(NamedTuple):
    """Counts at exposure 1 whose rate is ``Gamma(shape, rate)``, one distribution for each place."""

    shape: np.ndarray
    rate: np.ndarray
    is_whole = True

    def take(self, place: np.ndarray) -> Self:
        """Return the distributions of some places."""
        return type(self)(*(part[place] for part in self))

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances."""
        mean = self.shape / self.rate
        return mean, mean * (1.0 + 1.0 / self.rate)

    def below(self, y: np.ndarray) -> np.ndarray:
        """Return the probability of at most y."""
        more, fraction = np.maximum(np.floor(y), 0.0) + 1.0, self.rate / (1.0 + self.rate)
        found = np.where(
            more < LARGEST_COUNT, betainc(self.shape, more, fraction), gammainc(self.shape, self.rate * more)
        )
        return np.where(y < 0.0, 0.0, found)

    def above(self, y: np.ndarray) -> np.ndarray:
        """Return the probability of more than y."""
        more, fraction = np.maximum(np.floor(y), 0.0) + 1.0, self.rate / (1.0 + self.rate)
        of_few = betainc(more, self.shape, 1.0 / (1.0 + self.rate))
        found = np.where(self.rate > 1.0, of_few, betaincc(self.shape, more, fraction))
        found = np.where(more < LARGEST_COUNT, found, gammaincc(self.shape, self.rate * more))
        return np.where(y < 0.0, 1.0, found)

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of the quantiles."""
        return count_bracket(self, q)
