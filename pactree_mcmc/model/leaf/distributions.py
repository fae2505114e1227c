"""Predictive distributions of a new y in a leaf, with its parameters integrated out, and quantiles of mixtures."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from ...core.special import betainc, betaincc, gammainc, gammaincc
from ...table.coding import LARGEST_FLOAT

MAX_SEARCH_STEPS = 140
"""Largest number of steps of the search for a quantile. 64 halvings reduce all floats to one, two steps for each."""
BRACKET_MARGIN = 1 << 10
"""Number of floats by which the first bracket is wider than SciPy's quantiles, a relative error of 2e-13."""
MAX_FINAL_GAP = 2
"""Number of floats between the ends of a bracket at which the search ends, a relative error of 4e-16."""
PROBABILITY_ROUNDING = 1e-15
"""Relative error of a probability that is due to rounding."""
LARGEST_RATE, LARGEST_COUNT = 1e12, 1e32
"""Rate from which Poisson counts are drawn from a normal distribution: at rate 1e15 NumPy draws five times too many
counts beyond the .0005-quantile. Count from which Poisson noise is below the rounding of floats, so that counts have
the gamma distribution of their rate.
"""


class Distributions:
    """k distributions of one family, with parameters in arrays (k,).

    Parameters
    ----------
    family : str
        Name of a distribution in scipy.stats.
    parameters : arrays of shape (k,)
        Its parameters, as scipy.stats orders them.
    is_whole : bool
        True if y is an integer.
    """

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
        """Return the result (k,) of the method ``name``, such as "cdf", of the family in scipy.stats.

        ``arguments`` come before the parameters.
        """
        # scipy.stats takes longer to import than this library
        from scipy import stats

        with np.errstate(all="ignore"):
            return getattr(getattr(stats, self.family), name)(*arguments, *self.parameters)

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and the variance of each distribution, (k,) each."""
        return self._by_scipy("mean"), self._by_scipy("var")

    def below(self, y: np.ndarray) -> np.ndarray:
        """Return the probability (k,) of at most ``y[i]`` under each distribution i."""
        return self._by_scipy("cdf", y)

    def above(self, y: np.ndarray) -> np.ndarray:
        """Return the probability (k,) of more than ``y[i]`` under each distribution i, accurate also if it is small."""
        return self._by_scipy("sf", y)

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        """Return two arrays (k,) between which the q-quantile of each distribution lies, at least approximately.

        A search for quantiles begins with them. Here both are the quantile by SciPy.
        """
        y = self._by_scipy("ppf", q) if q <= 0.5 else self._by_scipy("isf", 1.0 - q)
        return y, y


class Mixture(NamedTuple):
    """Mixture distributions of m rows, of k components in all; each row has at least one component."""

    place: np.ndarray
    """(k,) int64: index of each component in a list of distributions, such as those of the leaves, row after row."""
    weight: np.ndarray
    """(k,): probability of each component; these sum to one in each row."""
    first: np.ndarray
    """(m + 1,) int64: index of the first component of each row; the last entry is k."""

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return the mean (m,) in each row of the ``values`` (k,) of its components, by their probabilities."""
        return np.add.reduceat(self.weight * values, self.first[:-1])

    def by_distribution(self, values: np.ndarray) -> np.ndarray:
        """Return an array (k,) that repeats the value of each row, of ``values`` (m,), for each of its components."""
        return np.repeat(values, np.diff(self.first))

    def quantile(self, distributions: Distributions, q: float) -> np.ndarray:
        """Return the q-quantiles (m,) of the mixtures. ``distributions`` (k,) are their components, row after row.

        The quantile of a mixture lies between the smallest and the largest quantile of its components. From there the
        search steps by regula falsi on the log of the smaller tail, and halves the number of floats between the ends
        if the last step has not done so. So it needs at most about 130 steps, and usually 10 to 25, whatever the size
        of y. It ends with two floats that are at most ``MAX_FINAL_GAP`` floats apart, or with two successive integers.
        """
        with np.errstate(all="ignore"):
            low, high = distributions.bracket(q)
            low = np.minimum.reduceat(low, self.first[:-1])
            high = np.maximum.reduceat(high, self.first[:-1])
            return _QuantileSearch(self, distributions, q).run(low, high)


class _QuantileSearch:
    """Search for the q-quantiles of mixtures between two numbers."""

    def __init__(self, mix: Mixture, distributions: Distributions, q: float) -> None:
        self._mix, self._distributions, self._q = mix, distributions, q

    def excess(self, y: np.ndarray) -> np.ndarray:
        """Return a measure (m,) of how far ``y`` (m,) is above the quantiles: at least 0 if and only if y reaches them.

        It is ``log(P(Y <= y) / q)`` if q <= 1/2, otherwise ``-log(P(Y > y) / (1 - q))``. It does not decrease in y.
        """
        y_of_component = self._mix.by_distribution(np.floor(y) if self._distributions.is_whole else y)
        if self._q <= 0.5:
            return np.log(self._mix.mean(self._distributions.below(y_of_component)) / self._q)
        return -np.log(self._mix.mean(self._distributions.above(y_of_component)) / (1.0 - self._q))

    def run(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the quantiles (m,). The search begins with the bracket from ``low`` (m,) to ``high`` (m,)."""
        low, high, below, above = self._widen_bracket(low, high)
        width, side = _floats_between(low, high), np.zeros(len(low))
        for step in range(MAX_SEARCH_STEPS):
            middle = self._clip_to_bracket(_median_float(low, high), low, high)
            is_open = (middle > low) & (middle < high)
            if not self._distributions.is_whole:
                is_open &= _floats_between(low, high) > MAX_FINAL_GAP
            if not is_open.any():
                break
            y = self._clip_to_bracket(_interpolate_zero(low, high, below, above), low, high)
            is_slow = False
            if step % 2 == 1:
                is_slow, width = _floats_between(low, high) > width / 2.0, _floats_between(low, high)
            y = np.where(is_slow | ~((y > low) & (y < high)), middle, y)
            excess = self.excess(y)
            is_reached = excess >= 0.0
            # if an end stays twice its function value is halved, so that both ends move (the Illinois rule)
            above = np.where(is_reached, excess, np.where(side == -1, above / 2.0, above))
            below = np.where(is_reached, np.where(side == 1, below / 2.0, below), excess)
            side = np.where(is_reached, 1, -1)
            low, high = np.where(is_open & ~is_reached, y, low), np.where(is_open & is_reached, y, high)
            if not self._distributions.is_whole:
                # in a gap between components every number is a quantile
                low = np.where(is_open & is_reached & (excess <= PROBABILITY_ROUNDING), high, low)
        return high

    def _clip_to_bracket(self, y: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return y (m,) moved between ``low`` and ``high``: an integer for counts, else a float or more from both."""
        if self._distributions.is_whole:
            return np.clip(np.floor(y), np.floor(low) + 1.0, np.ceil(high) - 1.0)
        return np.clip(y, _shift_floats(low, MAX_FINAL_GAP // 2), _shift_floats(high, -(MAX_FINAL_GAP // 2)))

    def _widen_bracket(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return a lower and an upper bound of the quantiles and the `excess` of each, (m,) each.

        The bounds are ``low`` and ``high`` with a margin, moved outwards until they enclose the quantiles.
        """
        if self._distributions.is_whole:
            low, high = np.floor(low) - 1.0, np.ceil(high) + 1.0
        else:
            low, high = _shift_floats(low, -BRACKET_MARGIN), _shift_floats(high, BRACKET_MARGIN)
        factor = 2.0
        while True:
            below, above = self.excess(low), self.excess(high)
            is_too_high, is_too_low = (below >= 0.0) & (low > -LARGEST_FLOAT), ~(above >= 0.0) & (high < LARGEST_FLOAT)
            if not np.any(is_too_high | is_too_low):
                return low, high, below, above
            # the steps grow as the square of the last ones, so that ten of them cross all floats
            reach = factor * np.maximum(high - low, 1e-9 * np.maximum(np.abs(low), np.abs(high)))
            reach, factor = np.where(reach > 0.0, reach, 5e-324), min(factor, 1e150) ** 2
            low = np.where(is_too_high, np.maximum(low - reach, -LARGEST_FLOAT), low)
            high = np.where(is_too_low, np.minimum(high + reach, LARGEST_FLOAT), high)


def _float_index(y: np.ndarray) -> np.ndarray:
    """Return the index (m,) int64 of each float y (m,) among all floats in ascending order; 0 has the index 0."""
    bits = np.ascontiguousarray(y, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _float_at(number: np.ndarray) -> np.ndarray:
    """Return the floats (m,) with the indices ``number`` (m,): the inverse of `_float_index`."""
    return np.where(number < 0, np.int64(-(2**63)) - number, number).view(np.float64)


def _shift_floats(y: np.ndarray, n_floats: int) -> np.ndarray:
    """Return the floats (m,) that are ``n_floats`` places above y (m,) in the order of all finite floats."""
    limit = int(_float_index(np.array([LARGEST_FLOAT]))[0])
    return _float_at(np.clip(np.clip(_float_index(y), -limit, limit) + n_floats, -limit, limit))


def _median_float(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the median (m,) of all float64 from ``low`` to ``high``, which halves their number, not the width."""
    a, b = _float_index(low), _float_index(high)
    return _float_at((a >> 1) + (b >> 1) + (a & b & 1))


def _floats_between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the number of float64 (m,) above ``low`` and up to ``high``, exact if it is below 2^53."""
    a, b = _float_index(low), _float_index(high)
    # halves, since the difference of two integers of 64 bits need not fit, and float64 would round each of them
    return 2.0 * ((b >> 1) - (a >> 1)) + ((b & 1) - (a & 1))


def _interpolate_zero(low: np.ndarray, high: np.ndarray, below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Return the zero (m,) of the line with the value ``below`` at ``low`` and ``above`` at ``high``, (m,) each.

    The line is in log |y| if low and high have the same sign, else in y. The result may be NaN.
    """
    fraction = -below / (above - below)
    ratio = high / low
    return np.where(ratio > 0.0, low * ratio**fraction, low + fraction * (high - low))


def draw_poisson(rng: np.random.Generator, rate: np.ndarray) -> np.ndarray:
    """Draw Poisson counts (n,) float64. Means ``rate`` from 1e12 on use the normal distribution: error about 1e-6."""
    if np.all(rate < LARGEST_RATE):
        return rng.poisson(rate).astype(np.float64)
    counts = rng.poisson(np.minimum(rate, LARGEST_RATE)).astype(np.float64)
    return np.where(rate < LARGEST_RATE, counts, np.rint(rng.normal(rate, np.sqrt(rate))))


class Constant(Distributions):
    """Point masses: each distribution has one value."""

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


class StudentT(Distributions):
    """Student t distributions, or normal ones if ``df`` is infinite for all of them."""

    def __init__(self, df: np.ndarray, location: np.ndarray, scale: np.ndarray) -> None:
        super().__init__("t", df, location, scale)

    def _by_scipy(self, name: str, *arguments: Any) -> np.ndarray:
        if np.isinf(self.parameters[0]).all():
            return Distributions("norm", *self.parameters[1:])._by_scipy(name, *arguments)
        return super()._by_scipy(name, *arguments)

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        # with at most one degree of freedom there is no mean, and SciPy's variance is NaN: return the location as mean
        variance = self._by_scipy("var")
        return self.parameters[1], np.where(np.isnan(variance), np.inf, variance)


class NegativeBinomial(Distributions):
    """Negative binomial distributions: Poisson counts whose rate has the distribution ``Gamma(shape, rate)``.

    SciPy takes the probability ``rate / (1 + rate)`` instead of the rate, so that the digits of a large rate are lost.
    """

    def __init__(self, shape: np.ndarray, rate: np.ndarray) -> None:
        super().__init__("nbinom", shape, rate, is_whole=True)

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        shape, rate = self.parameters
        return shape / rate, shape / rate * (1.0 + 1.0 / rate)

    def below(self, y: np.ndarray) -> np.ndarray:
        shape, rate = self.parameters
        n = np.maximum(np.floor(y), 0.0) + 1.0
        tail = np.where(n < LARGEST_COUNT, betainc(shape, n, rate / (1.0 + rate)), gammainc(shape, rate * n))
        return np.where(y < 0.0, 0.0, tail)

    def above(self, y: np.ndarray) -> np.ndarray:
        shape, rate = self.parameters
        n = np.maximum(np.floor(y), 0.0) + 1.0
        tail_of_few = betainc(n, shape, 1.0 / (1.0 + rate))
        tail = np.where(rate > 1.0, tail_of_few, betaincc(shape, n, rate / (1.0 + rate)))
        tail = np.where(n < LARGEST_COUNT, tail, gammaincc(shape, rate * n))
        return np.where(y < 0.0, 1.0, tail)

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        """Return a lower and an upper bound (k,) of the q-quantiles by the inequalities of Cantelli and Markov."""
        mean, variance = self.mean_and_variance()
        std = np.sqrt(variance)
        low = np.maximum(mean - std * np.sqrt((1.0 - q) / q), -1.0)
        high = np.minimum(mean + std * np.sqrt(q / (1.0 - q)), mean / (1.0 - q))
        return np.where(low < LARGEST_FLOAT, low, -1.0), np.where(high < LARGEST_FLOAT, high, LARGEST_FLOAT)
