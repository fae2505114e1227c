"""The distribution of negative binomial counts whose probability has a beta distribution."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ...core.special import loggamma, psi, zeta
from .distributions import count_bracket
from .gamma import FAR, HALF_LOG_TWO_PI, log_gamma_ratio, stirling_rest

MOST_SUMMED = 128.0
"""Largest count to which probabilities are summed one by one; an integral costs as much as about so many terms."""
LEAST_LOG = -600.0
"""Log probability of the count 0 from which a sum can begin without underflow."""
STEP, NODES = 0.12, 64
"""Trapezoid rule along the line: its error is exp(-pi^2 / 2 / 0.12) = 1e-18 for an integrand like a normal density, and
less for one with poles. The last node is a thousand widths away.
"""
HALVINGS = 18
"""Halvings of an interval of length 120 to one of 5e-4."""
BLOCK = 2048
"""Distributions integrated at a time, so that memory stays below 10 MB."""


class BetaNegativeBinomial(NamedTuple):
    """Counts of dispersion r whose probability is ``Beta(a, b)``, one distribution for each place."""

    r: np.ndarray
    a: np.ndarray
    b: np.ndarray
    is_whole = True

    def take(self, place: np.ndarray) -> Self:
        """Return the distributions of some places."""
        return type(self)(*(part[place] for part in self))

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances; a variance is infinite if ``a`` is at most 2."""
        mean = self.r * self.b / (self.a - 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = mean * (self.r + self.a - 1.0) * ((self.a + self.b - 1.0) / (self.a - 2.0)) / (self.a - 1.0)
        return mean, np.where(self.a > 2.0, variance, np.inf)

    def below(self, y: np.ndarray) -> np.ndarray:
        """Return the probability of at most y."""
        return self._both(y)[0]

    def above(self, y: np.ndarray) -> np.ndarray:
        """Return the probability of more than y."""
        return self._both(y)[1]

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of the quantiles."""
        return count_bracket(self, q)

    def _both(self, y: np.ndarray) -> np.ndarray:
        """Return the probabilities (2, k) of at most y and of more."""
        count = np.floor(y)
        out = np.repeat([[0.0], [1.0]], len(count), axis=1)
        log_none = log_gamma_ratio(self.a, self.r) - log_gamma_ratio(self.a + self.b, self.r)
        is_sum = (count <= MOST_SUMMED) & (log_none > LEAST_LOG)
        some = np.flatnonzero((count >= 0.0) & is_sum)
        out[:, some] = self.take(some)._summed(count[some], np.exp(log_none[some]))
        rest = np.flatnonzero((count >= 0.0) & ~is_sum)
        for start in range(0, len(rest), BLOCK):
            block = rest[start : start + BLOCK]
            out[:, block] = self.take(block)._integrated(count[block])
        return out

    def _summed(self, count: np.ndarray, chance: np.ndarray) -> np.ndarray:
        """Return both probabilities (2, k) as a sum; ``chance`` (k,) is the probability of the count 0."""
        total = np.zeros(len(count))
        for j in range(int(count.max(initial=-1.0)) + 1):
            total += np.where(j <= count, chance, 0.0)
            chance = chance * ((j + self.r) / (j + 1.0)) * ((self.b + j) / (self.a + self.b + self.r + j))
        total = np.minimum(total, 1.0)
        return np.array([total, 1.0 - total])

    def _integrated(self, count: np.ndarray) -> np.ndarray:
        """Return both probabilities (2, k) as an integral along a line in the complex plane.

        With independent gamma variables G of these shapes, the count is at most y exactly if
        ``log G(a) + log G(y + 1) - log G(r) - log G(b)`` is positive. The moment generating function of this number is
        ``M(s) = G(a + s) G(y + 1 + s) G(r - s) G(b - s) / (G(a) G(y + 1) G(r) G(b))`` with the gamma function G. Its
        probability to be on the far side of 0 from its mean is the integral of ``M(s) / (2 pi i s)`` upwards along a
        vertical line on the right of 0, or downwards on the left. The line goes through the saddle point, so that the
        integrand does not oscillate near its maximum and the result has a small relative error.
        """
        up, down = np.array([self.a, count + 1.0]), np.array([self.r, self.b])
        is_left = (psi(up) - psi(down)).sum(axis=0) > 0.0
        end = np.where(is_left, -up.min(axis=0), down.min(axis=0))
        low, high = np.full(len(end), -60.0), np.full(len(end), 60.0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            s = end / (1.0 + np.exp(-middle))
            slope = (psi(up + s) - psi(down - s)).sum(axis=0) - 1.0 / s
            is_beyond = (slope > 0.0) != is_left
            low, high = np.where(is_beyond, low, middle), np.where(is_beyond, middle, high)
        saddle = end / (1.0 + np.exp(-(low + high) / 2.0))
        curvature = (zeta(2.0, up + saddle) + zeta(2.0, down - saddle)).sum(axis=0) + 1.0 / saddle**2
        tail = np.minimum(_integral(up, down, saddle, 1.0 / np.sqrt(curvature)), 1.0)
        return np.where(is_left, [1.0 - tail, tail], [tail, 1.0 - tail])


def _integral(up: np.ndarray, down: np.ndarray, saddle: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return the absolute value (k,) of the integral of M(s) / (2 pi i s) for s = saddle + i width sinh(u)."""
    u = STEP * np.arange(NODES)
    weight = np.where(u == 0.0, 0.5, np.cosh(u))
    s = saddle[:, None] + 1j * width[:, None] * np.sinh(u)
    terms = (np.exp(_log_moment(up[:, :, None], down[:, :, None], s)) / s).real
    return np.abs(terms @ weight) * width * (STEP / np.pi)


def _log_moment(up: np.ndarray, down: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Return log M(s) by Stirling's formula, in which the terms proportional to s log x are added up first."""
    found = s * np.log(up[0] / down[0] * (up[1] / down[1]))
    for x, moved in ((up[0], s), (up[1], s), (down[0], -s), (down[1], -s)):
        found = found + (x - 0.5 + moved) * _log1p(moved / x) + _complex_rest(x + moved) - stirling_rest(x)
    return found


def _log1p(z: np.ndarray) -> np.ndarray:
    """Return log(1 + z) of complex z; NumPy's own loses digits if z is small."""
    return 0.5 * np.log1p(z.real * (2.0 + z.real) + z.imag**2) + 1j * np.arctan2(z.imag, 1.0 + z.real)


def _complex_rest(z: np.ndarray) -> np.ndarray:
    """Return what Stirling's formula leaves of log gamma, as `stirling_rest`, of complex z with a positive real part.

    Near 0 or for small |z| the function itself is computed.
    """
    w = 1.0 / z**2
    out = (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * (1.0 / 1680.0 - w / 1188.0)))) / z
    near = np.abs(z) < FAR
    if near.any():
        some = z[near]
        out[near] = loggamma(some) - (some - 0.5) * np.log(some) + some - HALF_LOG_TWO_PI
    return out
