"""Predictive distributions of a new y in a leaf, quantiles of mixtures, log gamma functions without cancellation."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from math import lgamma, log, log1p
from typing import Any, NamedTuple, Self

import numpy as np

from ...core import portable
from ...core.compile.jit import jit
from ...core.special import betainc, betaincc, gammainc, gammaincc, gammaln
from ...table.coding import LARGEST_FLOAT

SERIES_START = 16.0  # smallest x for which the series in `stirling_rest` is exact to the last bit
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def stirling_rest(x: np.ndarray) -> np.ndarray:
    """Return the error of Stirling's formula, lgamma(x) - [(x - 1/2) log x - x + log(2 pi) / 2], for x > 0."""
    # differences of log gamma functions are computed with it, so that the large terms of the formula can be cancelled
    x = np.asarray(x, dtype=np.float64)
    large = np.maximum(x, SERIES_START)
    with np.errstate(over="ignore"):
        z = 1.0 / large**2
    series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z / 1188.0)))) / large
    if np.all(x >= SERIES_START):
        return series
    small = np.minimum(x, SERIES_START)
    stirling = (small - 0.5) * portable.log(small) - small + HALF_LOG_TWO_PI
    return np.where(x < SERIES_START, portable.log_gamma(small) - stirling, series)


def log_gamma_ratio(x: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return ``lgamma(x + step) - lgamma(x)`` for x > 0 and step >= 0, accurate for any size of x and step."""
    rest = stirling_rest(x + step) - stirling_rest(x)
    return (x - 0.5) * portable.log1p(step / x) + step * portable.log(x + step) - step + rest


def log_fractions(parts: np.ndarray) -> np.ndarray:
    """Return ``log(parts / parts.sum())`` for parts (K,) > 0, accurate for a fraction close to one."""
    others = parts.sum() - parts
    largest = int(np.argmax(parts))
    others[largest] = np.delete(parts, largest).sum()
    return -portable.log1p(others / parts)


def poisson_kl(s: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Return ``s log(s / m) - s + m``, for s >= 0 and m > 0."""
    # the log density of s events under a Poisson distribution of mean s minus that under mean m
    relative = (s - m) / m
    is_close = np.abs(relative) < 0.5
    close_terms = s * portable.log1p(np.where(is_close, relative, 0.0))
    return np.where(is_close, close_terms, s * portable.log(np.where(s > 0.0, s / m, 1.0))) - (s - m)


@jit
def scalar_stirling_rest(x: float) -> float:
    """Return ``lgamma(x) - [(x - 1/2) log x - x + log(2 pi) / 2]`` for a number x > 0, in compiled code."""
    if x < SERIES_START:
        return lgamma(x) - (x - 0.5) * log(x) + x - HALF_LOG_TWO_PI
    z = 1.0 / (x * x)
    return (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z / 1188.0)))) / x


@jit
def scalar_poisson_kl(s: float, m: float) -> float:
    """Return ``s log(s / m) - s + m`` for two numbers s > 0 and m > 0, in compiled code."""
    relative = (s - m) / m
    return (s * log1p(relative) if abs(relative) < 0.5 else s * log(s / m)) - (s - m)


# largest error of a quantile, relative to its size and to the range of the quantiles of the components
QUANTILE_ERROR = 1e-10
# largest number of steps of a bisection. Ten geometric ones cross all positive floats, 53 more reach the last bit.
MAX_BISECTIONS = 200
# smallest positive float, and bound of the numbers that count as 0, which have fewer digits
SMALLEST_FLOAT, SMALLEST_NORMAL = 5e-324, 2.3e-308
# ends of the support by the name of the family, (0, inf) for all others of the library's
ENDS_OF_SUPPORT = {"beta": (0.0, 1.0), "t": (-np.inf, np.inf), "norm": (-np.inf, np.inf)}
# rate from which Poisson counts are drawn from a normal distribution (at 1e15 NumPy draws five times too many beyond
# the .0005-quantile), and count from which Poisson noise is below the rounding of floats: counts are as their gamma
# rate
LARGEST_RATE, LARGEST_COUNT = 1e12, 1e32
# rate of the gamma distribution of the mean of counts from which they are Poisson counts to the last bit
POISSON_RATE = 1e17


class Distributions:
    """k distributions of one family of scipy.stats, with parameters in arrays (k,), in SciPy's order."""

    has_exact_brackets = True
    quantile_error = QUANTILE_ERROR

    def __init__(self, family: str, *parameters: np.ndarray, is_whole: bool = False) -> None:
        self.family, self.parameters, self.is_whole = family, parameters, is_whole

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.parameters)

    def take(self, indices: np.ndarray) -> Self:
        """Return the distributions with these indices, which may repeat."""
        out = copy.copy(self)
        out.parameters = tuple(part[indices] for part in self.parameters)
        return out

    def _by_scipy(self, name: str, *arguments: Any) -> np.ndarray:
        """Return the result (k,) of the method ``name``, such as "cdf", of the family in scipy.stats."""
        # scipy.stats takes longer to import than this library
        from scipy import stats

        with np.errstate(all="ignore"), warnings.catch_warnings():
            # a search of a quantile that fails returns NaN
            warnings.simplefilter("ignore", RuntimeWarning)
            return getattr(getattr(stats, self.family), name)(*arguments, *self.parameters)

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        return self._by_scipy("mean"), self._by_scipy("var")

    def below(self, y: np.ndarray) -> np.ndarray:
        """Return the probability (k,) of at most ``y[i]`` under each distribution i."""
        return self._by_scipy("cdf", y)

    def above(self, y: np.ndarray) -> np.ndarray:
        """Return the probability (k,) of more than ``y[i]`` under each distribution i, accurate also if it is small."""
        return self._by_scipy("sf", y)

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        """Return two arrays (k,) between which the q-quantile of each distribution lies."""
        # exact here; a first guess only if `has_exact_brackets` is False
        y = self._by_scipy("ppf", q) if q <= 0.5 else self._by_scipy("isf", 1.0 - q)
        bottom, top = self.ends
        return np.where(np.isnan(y), bottom, y), np.where(np.isnan(y), top, y)

    @property
    def ends(self) -> tuple[float, float]:
        return ENDS_OF_SUPPORT.get(self.family, (0.0, np.inf))


class Mixture(NamedTuple):
    """Mixture distributions of m rows, of k components in all; each row has at least one component."""

    # (k,) int64: index of each component in a list of distributions, such as those of the leaves, row after row
    place: np.ndarray
    weight: np.ndarray  # (k,): probability of each component; these sum to one in each row
    first: np.ndarray  # (m + 1,) int64: index of the first component of each row; the last entry is k

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return the mean (m,) in each row of the ``values`` (k,) of its components, by their probabilities."""
        return np.add.reduceat(self.weight * values, self.first[:-1])

    def by_distribution(self, values: np.ndarray) -> np.ndarray:
        return np.repeat(values, np.diff(self.first))

    def quantile(self, distributions: Distributions, q: float) -> np.ndarray:
        """Return the q-quantiles (m,) of the mixtures. ``distributions`` (k,) are their components, row after row."""
        # The quantile of a mixture lies between the smallest and the largest quantile of its components. Bisection goes
        # on from there, geometric so that the size of y does not matter. A quantile beyond all floats is infinite
        with np.errstate(all="ignore"):
            low, high = distributions.bracket(q)
            low = np.minimum.reduceat(low, self.first[:-1])
            high = np.maximum.reduceat(high, self.first[:-1])
            width = high - low
            low, high = np.clip(low, -LARGEST_FLOAT, LARGEST_FLOAT), np.clip(high, -LARGEST_FLOAT, LARGEST_FLOAT)
            if not distributions.has_exact_brackets:
                low, high = self._widen(distributions, q, low, high)
            is_below_all = self._excess(distributions, q, low) >= 0.0
            high = np.where(is_below_all, low, high)
            relative_error = 0.0 if distributions.is_whole else distributions.quantile_error
            for _ in range(MAX_BISECTIONS):
                y = _middle(low, high)
                if distributions.is_whole:
                    y = np.clip(np.floor(y), np.floor(low) + 1.0, np.ceil(high) - 1.0)
                error = relative_error * np.minimum(width, np.maximum(np.abs(low), np.abs(high)))
                is_open = (low < y) & (y < high) & (high - low > error)
                if not is_open.any():
                    break
                is_reached = self._excess(distributions, q, np.where(is_open, y, high)) >= 0.0
                low, high = np.where(is_open & ~is_reached, y, low), np.where(is_open & is_reached, y, high)
            # the largest and the smallest float are not quantiles
            excess = self._excess(distributions, q, high)
            high = np.where(np.abs(high) <= SMALLEST_NORMAL, 0.0, high)
            high = np.where((high >= LARGEST_FLOAT) & (excess < 0.0), np.inf, high)
            high = np.where((high <= -LARGEST_FLOAT) & is_below_all, -np.inf, high)
            return np.where(np.isnan(excess), np.nan, high)

    def _excess(self, distributions: Distributions, q: float, y: np.ndarray) -> np.ndarray:
        """Return P(Y <= y) - q (m,) at ``y`` (m,), by the smaller tail. It is at least 0 from the quantile on."""
        y = self.by_distribution(np.floor(y) if distributions.is_whole else y)
        return self.mean(distributions.below(y)) - q if q <= 0.5 else 1.0 - q - self.mean(distributions.above(y))

    def _widen(
        self, distributions: Distributions, q: float, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds (m,) of the quantiles: ``low`` and ``high``, moved outwards as far as necessary."""
        if distributions.is_whole:
            low, high = np.floor(low) - 1.0, np.ceil(high) + 1.0
        bottom, top = np.clip(distributions.ends, -LARGEST_FLOAT, LARGEST_FLOAT)
        reach = np.maximum(high - low, np.maximum(1e-9 * np.maximum(np.abs(low), np.abs(high)), SMALLEST_FLOAT))
        factor = 2.0
        while True:
            is_too_high = (self._excess(distributions, q, low) >= 0.0) & (low > bottom)
            is_too_low = (self._excess(distributions, q, high) < 0.0) & (high < top)
            if not np.any(is_too_high | is_too_low):
                return low, high
            # the steps grow as the square of the last ones, so that ten of them cross all floats
            reach, factor = reach * factor, min(factor, 1e150) ** 2
            low = np.where(is_too_high, np.maximum(low - reach, bottom), low)
            high = np.where(is_too_low, np.minimum(high + reach, top), high)


def _middle(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return a number (m,) between ``low`` and ``high`` (m,): 0 if their signs differ, else their geometric mean."""
    size = np.sqrt(np.maximum(np.abs(low), SMALLEST_FLOAT)) * np.sqrt(np.maximum(np.abs(high), SMALLEST_FLOAT))
    # the geometric mean of numbers within a factor of two is rounded too coarsely
    is_near = (low * high > 0.0) & (low / 2.0 <= high) & (high / 2.0 <= low)
    mean = np.where(is_near, low + (high - low) / 2.0, np.copysign(size, low + high))
    return np.where((low < 0.0) & (high > 0.0), 0.0, mean)


def draw_poisson(rng: np.random.Generator, rate: np.ndarray) -> np.ndarray:
    """Draw Poisson counts (n,) float64. Means ``rate`` from 1e12 on use the normal distribution: error about 1e-6."""
    if np.all(rate < LARGEST_RATE):
        return rng.poisson(rate).astype(np.float64)
    counts = rng.poisson(np.minimum(rate, LARGEST_RATE)).astype(np.float64)
    return np.where(rate < LARGEST_RATE, counts, np.rint(rng.normal(rate, np.sqrt(rate))))


class Constant(Distributions):
    """Point masses: each distribution has one value."""

    quantile_error = 0.0

    def __init__(self, value: np.ndarray) -> None:
        super().__init__("constant", value)

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        return self.parameters[0], np.zeros(len(self.parameters[0]))

    def below(self, y: np.ndarray) -> np.ndarray:
        return (y >= self.parameters[0]).astype(np.float64)

    def above(self, y: np.ndarray) -> np.ndarray:
        return (y < self.parameters[0]).astype(np.float64)

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        return self.parameters[0], self.parameters[0]


FAR_TAIL = 1e8
"""Distance from the location, in units of sqrt(df) times the scale, from which one term is the tail of Student's t."""


class StudentT(Distributions):
    """Student t distributions, or normal ones if ``df`` is infinite for all of them."""

    def __init__(self, df: np.ndarray, location: np.ndarray, scale: np.ndarray) -> None:
        # a scale that underflows or overflows is the nearest one that floats can hold
        super().__init__("t", df, location, np.clip(scale, SMALLEST_NORMAL, LARGEST_FLOAT))

    def _log_tail(self, log_distance: np.ndarray) -> np.ndarray:
        """Return the log (k,) of the probability beyond a distance from `FAR_TAIL` on, given its log (k,)."""
        # P(T > r sqrt(df)) = I_x(a, 1/2) / 2 with a = df / 2, x = 1 / (1 + r^2), and I_x(a, b) = x^a / (a B(a, b)) up
        # to a factor 1 + O(x); SciPy squares r, which overflows
        a = np.minimum(self.parameters[0], 1.0 / SMALLEST_NORMAL**0.5) / 2.0
        return -2.0 * a * log_distance - math.log(2.0) - gammaln(a + 1.0) - 0.5 * math.log(math.pi) + gammaln(a + 0.5)

    def _tail(self, y: np.ndarray, sign: float) -> np.ndarray:
        """Return P(Y > y) (k,), or with ``sign`` -1 P(Y <= y)."""
        df, location, scale = self.parameters
        by_scipy = self._by_scipy("sf" if sign > 0.0 else "cdf", y)
        with np.errstate(all="ignore"):
            log_distance = np.log(np.abs(y - location)) - np.log(scale) - 0.5 * np.log(df)
            tail = np.exp(self._log_tail(log_distance))
        return np.where(
            log_distance < math.log(FAR_TAIL), by_scipy, np.where(sign * (y - location) > 0.0, tail, 1.0 - tail)
        )

    def below(self, y: np.ndarray) -> np.ndarray:
        return self._tail(y, -1.0)

    def above(self, y: np.ndarray) -> np.ndarray:
        return self._tail(y, 1.0)

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        df, location, scale = self.parameters
        by_scipy, _ = super().bracket(q)
        # the distance r with `_log_tail` equal to the log of the smaller tail
        with np.errstate(all="ignore"):
            log_distance = (self._log_tail(np.zeros(len(df))) - math.log(min(q, 1.0 - q))) / df
            tail = location + math.copysign(1.0, q - 0.5) * scale * np.sqrt(df) * np.exp(log_distance)
        y = np.where(log_distance < math.log(FAR_TAIL), by_scipy, tail)
        return y, y

    def _by_scipy(self, name: str, *arguments: Any) -> np.ndarray:
        if np.isinf(self.parameters[0]).all():
            return Distributions("norm", *self.parameters[1:])._by_scipy(name, *arguments)
        return super()._by_scipy(name, *arguments)

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        # with at most one degree of freedom there is no mean, and SciPy's variance is NaN: return the location as mean
        variance = self._by_scipy("var")
        return self.parameters[1], np.where(np.isnan(variance), np.inf, variance)


class Burr(Distributions):
    """Burr distributions of type XII: ``P(Y > y) = (1 + (y / scale)^c)^-d``, by logs, as the power may overflow."""

    def __init__(self, c: np.ndarray, d: np.ndarray, scale: np.ndarray) -> None:
        super().__init__("burr12", c, d, np.zeros(len(c)), scale)

    def _log_tail(self, y: np.ndarray) -> np.ndarray:
        """Return log P(Y > y) (k,)."""
        c, d, _, scale = self.parameters
        with np.errstate(all="ignore"):
            return -d * np.logaddexp(0.0, c * (np.log(np.maximum(y, 0.0)) - np.log(scale)))

    def below(self, y: np.ndarray) -> np.ndarray:
        return -np.expm1(self._log_tail(y))

    def above(self, y: np.ndarray) -> np.ndarray:
        return np.exp(self._log_tail(y))

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        c, d, _, scale = self.parameters
        with np.errstate(all="ignore"):
            # log(1 + power) = z
            z = -(math.log1p(-q) if q <= 0.5 else math.log(1.0 - q)) / d
            log_power = np.where(z > 1.0, z + np.log1p(-np.exp(-z)), np.log(np.expm1(z)))
            y = np.exp(np.log(scale) + log_power / c)
        return y, y


class NegativeBinomial(Distributions):
    """Negative binomial distributions: Poisson counts whose rate has the distribution ``Gamma(shape, rate)``."""

    # SciPy takes the probability rate / (1 + rate) instead of the rate, so that the digits of a large rate are lost
    has_exact_brackets = False

    def __init__(self, shape: np.ndarray, rate: np.ndarray) -> None:
        super().__init__("nbinom", shape, rate, is_whole=True)

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        shape, rate = self.parameters
        return shape / rate, shape / rate * (1.0 + 1.0 / rate)

    def at_exposure(self, exposure: np.ndarray) -> NegativeBinomial:
        """Return the distributions of counts at ``exposure`` (k,), given those at exposure 1."""
        shape, rate = self.parameters
        return NegativeBinomial(shape, rate / exposure)

    def below(self, y: np.ndarray) -> np.ndarray:
        shape, rate = self.parameters
        n = np.maximum(np.floor(y), 0.0) + 1.0
        tail = np.where(n < LARGEST_COUNT, betainc(shape, n, rate / (1.0 + rate)), gammainc(shape, rate * n))
        tail = np.where(rate > POISSON_RATE, gammaincc(n, shape / rate), tail)
        return np.where(y < 0.0, 0.0, tail)

    def above(self, y: np.ndarray) -> np.ndarray:
        shape, rate = self.parameters
        n = np.maximum(np.floor(y), 0.0) + 1.0
        tail = np.where(rate > 1.0, betainc(n, shape, 1.0 / (1.0 + rate)), betaincc(shape, n, rate / (1.0 + rate)))
        tail = np.where(n < LARGEST_COUNT, tail, gammaincc(shape, rate * n))
        tail = np.where(rate > POISSON_RATE, gammainc(n, shape / rate), tail)
        return np.where(y < 0.0, 1.0, tail)

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        """Return a lower and an upper bound (k,) of the q-quantiles by the inequalities of Cantelli and Markov."""
        mean, variance = self.mean_and_variance()
        std = np.sqrt(variance)
        low = np.maximum(mean - std * np.sqrt((1.0 - q) / q), -1.0)
        high = np.minimum(mean + std * np.sqrt(q / (1.0 - q)), mean / (1.0 - q))
        return np.where(low < LARGEST_FLOAT, low, -1.0), np.where(high < LARGEST_FLOAT, high, LARGEST_FLOAT)
