"""Leaf model of overdispersed counts: negative binomial of known dispersion, its probability integrated out (formulas,
section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import lgamma
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from ...core.compile.address import by_address
from ...core.special import gammaln, loggamma, psi, zeta
from ...files.encoding import register_class
from .base import Target, Theta, refuse_rows
from .counts import ExposedLeaf
from .distributions import Distributions, count_bracket, draw_poisson
from .gamma import HALF_LOG_TWO_PI, SERIES_START, log_gamma_ratio, stirling_rest

MAX_SUMMED_COUNT = 128.0
"""Largest count up to which a tail probability is a sum of terms; an integral costs about as much as 128 terms."""
MIN_LOG_PROBABILITY = -600.0
"""Smallest log probability of the count 0 with which a sum starts, so that no term underflows."""
NODE_STEP, N_NODES = 0.12, 64
"""Step and number of nodes of the trapezoid rule: the error is exp(-pi^2 / 2 / 0.12) = 1e-18 for a normal density, and
less for one with poles. The last node is a thousand widths away.
"""
SADDLE_STEPS = 18
"""Number of bisection steps for the saddle point, from an interval of length 120 to one of 5e-4."""
INTEGRATION_BLOCK = 2048
"""Number of distributions that are integrated at a time, so that memory stays below 10 MB."""


@by_address
def negative_binomial_score(s: Any, n: int, params: Any) -> float:
    """Return the log marginal likelihood in nats of a cell under `NegativeBinomialBeta`, with p ~ Beta(a, b).

    ``s``, ``n`` = 3 sums: weight times exposure, y, log of the binomial coefficient C(y + r - 1, y), r dispersion times
    exposure; ``params``: a, b, dispersion.
    """
    a, b, total_r = params[0], params[1], params[2] * s[0]
    count_terms = lgamma(a + total_r) - lgamma(a) + lgamma(b + s[1]) - lgamma(b)
    return s[2] + count_terms - (lgamma(a + b + total_r + s[1]) - lgamma(a + b))


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class NegativeBinomialBeta(ExposedLeaf):
    """Counts of known dispersion r: negative binomial with ``p ~ Beta(a, b)`` integrated out.

    For overdispersed counts: at mean m their variance is ``m + m^2 / r``; as r grows they become Poisson. The
    probability of y is ``C(y + r - 1, y) p^r (1 - p)^y``, so with n rows, ``t`` the sum of y and ``c`` that of the log
    C (Fink 1997, section 2.3)

    ``score = c + log B(a + n r, b + t) - log B(a, b)``, B the beta function.

    Predicts the mean of a new y.

    Parameters
    ----------
    dispersion : float, default 1.0
        r, > 0; 1: geometric.
    a, b : float, optional
        ``a`` > 1, so that the mean is finite. By default set from the data: ``a = 3`` and ``b = (a - 1) * mean(y) /
        r``, so that the prior mean is the mean of y.
    exposure : array of shape (n,), optional
        Factor of the dispersion of each row, > 0, so that mean and variance of its count are proportional to it, as if
        the row were the sum of so many rows; its log is called the offset. Default: 1. Predictions are for exposure 1.

    Raises
    ------
    ValueError
        If a parameter is out of range, or y is not made of counts 0, 1, 2, ...

    Examples
    --------
    >>> NegativeBinomialBeta(dispersion=2.0, a=3.0, b=1.0)
    NegativeBinomialBeta(dispersion=2.0, a=3.0, b=1.0)
    """

    dispersion: float = 1.0
    a: float | None = None
    b: float | None = None
    exposure: Any = field(default=None, repr=False)
    positive_parameters = ("dispersion", "a", "b")
    score_parameters = ("a", "b", "dispersion")
    compiled_score = staticmethod(negative_binomial_score)

    def resolve(self, target: Target) -> Self:
        y = target.values
        refuse_rows((y < 0) | (y != np.floor(y)), "y", y, "NegativeBinomialBeta needs counts 0, 1, 2, ...")
        a = 3.0 if self.a is None else self.a
        if not a > 1.0:
            raise ValueError(f"a={a} makes the mean of y infinite; give a > 1.")
        self.check_exposure(target)
        mean = target.center if self.exposure is None else float(target.weights @ y / (target.weights @ self.exposure))
        mean = mean if mean > 0.0 else 1.0
        return self.with_defaults(a=a, b=(a - 1.0) * mean / self.dispersion)

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        if self.exposure is None:
            return np.ones(len(y)), y, gammaln(y + self.dispersion) - gammaln(self.dispersion) - gammaln(y + 1.0)
        exposure = self.exposures(target)
        r = self.dispersion * exposure
        return exposure, y, gammaln(y + r) - gammaln(r) - gammaln(y + 1.0)

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        n, total, log_choices = sums
        count_terms = log_gamma_ratio(np.array([self.a, self.b]), np.array([n * self.dispersion, total]))
        total_term = log_gamma_ratio(np.float64(self.a + self.b), np.float64(n * self.dispersion + total))
        return float(log_choices + count_terms.sum() - total_term)

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> BetaNegativeBinomial:
        r = np.full(len(stats), self.dispersion)
        return BetaNegativeBinomial(r, self.a + r * stats[:, 1], self.b + stats[:, 2])

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return self.predictive(stats, np.empty(0), target).mean_and_variance()[0][:, None]

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        r, a, b = self.predictive(stats, np.empty(0), target)
        # the odds (1 - p) / p have a beta prime distribution
        return [Distributions("betaprime", b, a, np.zeros(len(stats)), r)]

    def expectation_given(self, parameters: Theta, *regressors: Any) -> np.ndarray:
        return (self.dispersion * parameters[0])[:, None]

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Theta:
        """Draw the odds (1 - p) / p, one array (m,), in the leaves of one tree from their posterior.

        ``stats`` (m, 4): weight, sums of the exposure and of y, and a term of the score that is not used.
        """
        _, a, b = self.predictive(stats, np.empty(0), target)
        # gammas whose ratio has the distribution of (1 - p) / p: a probability p may round to 0 or 1
        return (rng.gamma(b) / rng.gamma(a),)

    def draw_given(self, rng: Generator, parameters: Theta, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        r = self.dispersion * (1.0 if rows is None else self.exposures(target)[rows])
        return draw_poisson(rng, rng.gamma(r, size=len(parameters[0])) * parameters[0])


class BetaNegativeBinomial(Distributions):
    """Beta negative binomial distributions: counts of dispersion r whose probability p is ``Beta(a, b)``.

    SciPy sums the probabilities of all counts up to y, which is slow if y is large.
    """

    def __init__(self, r: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
        super().__init__("betanbinom", r, a, b, is_whole=True)

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        r, a, b = self.parameters
        # the variance is infinite if a is at most 2
        mean = r * b / (a - 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = mean * (r + a - 1.0) * ((a + b - 1.0) / (a - 2.0)) / (a - 1.0)
        return mean, np.where(a > 2.0, variance, np.inf)

    def below(self, y: np.ndarray) -> np.ndarray:
        return self._tail_probabilities(y)[0]

    def above(self, y: np.ndarray) -> np.ndarray:
        return self._tail_probabilities(y)[1]

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        return count_bracket(self, q)

    def _tail_probabilities(self, y: np.ndarray) -> np.ndarray:
        """Return the probabilities (2, k) of a count of at most y (k,), and of more.

        They are sums over counts if y is small, otherwise integrals.
        """
        r, a, b = self.parameters
        count = np.floor(y)
        out = np.repeat([[0.0], [1.0]], len(count), axis=1)
        log_none = log_gamma_ratio(a, r) - log_gamma_ratio(a + b, r)
        is_sum = (count <= MAX_SUMMED_COUNT) & (log_none > MIN_LOG_PROBABILITY)
        small = np.flatnonzero((count >= 0.0) & is_sum)
        out[:, small] = self.take(small)._tails_by_sum(count[small], np.exp(log_none[small]))
        large = np.flatnonzero((count >= 0.0) & ~is_sum)
        for start in range(0, len(large), INTEGRATION_BLOCK):
            block = large[start : start + INTEGRATION_BLOCK]
            out[:, block] = self.take(block)._tails_by_integral(count[block])
        return out

    def _tails_by_sum(self, count: np.ndarray, probability: np.ndarray) -> np.ndarray:
        """Return the probabilities (2, k) of at most ``count`` (k,), and of more, by adding those of single counts.

        ``probability`` (k,) is the probability of the count 0.
        """
        r, a, b = self.parameters
        total = np.zeros(len(count))
        for j in range(int(count.max(initial=-1.0)) + 1):
            total += np.where(j <= count, probability, 0.0)
            probability = probability * ((j + r) / (j + 1.0)) * ((b + j) / (a + b + r + j))
        total = np.minimum(total, 1.0)
        return np.array([total, 1.0 - total])

    def _tails_by_integral(self, count: np.ndarray) -> np.ndarray:
        """Return the probabilities (2, k) of at most ``count`` (k,), and of more, as an integral in the complex plane.

        Let y be the count, and G(x) independent gamma variables of shape x. The probability of at most y is that of
        ``log G(a) + log G(y + 1) - log G(r) - log G(b) > 0``. The moment generating function of the left side is
        ``M(s) = G(a + s) G(y + 1 + s) G(r - s) G(b - s) / (G(a) G(y + 1) G(r) G(b))`` with the gamma function G. The
        probability that it lies on the other side of 0 than its mean is the integral of ``M(s) / (2 pi i s)`` along a
        vertical line on the right of 0, or downwards on the left. The line goes through the saddle point, so that the
        integrand does not oscillate near its maximum and the result has a small relative error.
        """
        r, a, b = self.parameters
        up, down = np.array([a, count + 1.0]), np.array([r, b])
        is_left = (psi(up) - psi(down)).sum(axis=0) > 0.0
        end = np.where(is_left, -up.min(axis=0), down.min(axis=0))
        low, high = np.full(len(end), -60.0), np.full(len(end), 60.0)
        for _ in range(SADDLE_STEPS):
            middle = (low + high) / 2.0
            s = end / (1.0 + np.exp(-middle))
            slope = (psi(up + s) - psi(down - s)).sum(axis=0) - 1.0 / s
            is_beyond = (slope > 0.0) != is_left
            low, high = np.where(is_beyond, low, middle), np.where(is_beyond, middle, high)
        saddle = end / (1.0 + np.exp(-(low + high) / 2.0))
        curvature = (zeta(2.0, up + saddle) + zeta(2.0, down - saddle)).sum(axis=0) + 1.0 / saddle**2
        tail = np.minimum(_contour_integral(up, down, saddle, 1.0 / np.sqrt(curvature)), 1.0)
        return np.where(is_left, [1.0 - tail, tail], [tail, 1.0 - tail])


def _contour_integral(up: np.ndarray, down: np.ndarray, saddle: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return the absolute value (k,) of the integral of M(s) / (2 pi i s) along s = saddle + i width sinh(u).

    M is the moment generating function in `_log_moment`, with ``up`` and ``down`` (2, k). The integral is over all real
    u, by the trapezoid rule. ``saddle`` and ``width`` (k,) place and scale its nodes.
    """
    u = NODE_STEP * np.arange(N_NODES)
    weight = np.where(u == 0.0, 0.5, np.cosh(u))
    s = saddle[:, None] + 1j * width[:, None] * np.sinh(u)
    terms = (np.exp(_log_moment(up[:, :, None], down[:, :, None], s)) / s).real
    return np.abs(terms @ weight) * width * (NODE_STEP / np.pi)


def _log_moment(up: np.ndarray, down: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Return log M(s), complex, for ``up`` = (a, y + 1) and ``down`` = (r, b), arrays that are broadcast with s.

    ``M(s) = G(a + s) G(y + 1 + s) G(r - s) G(b - s) / (G(a) G(y + 1) G(r) G(b))``, G the gamma function. By Stirling's
    formula, with the terms proportional to s log x added up first, so that large ones cancel.
    """
    total = s * np.log(up[0] / down[0] * (up[1] / down[1]))
    for x, t in ((up[0], s), (up[1], s), (down[0], -s), (down[1], -s)):
        total = total + (x - 0.5 + t) * _complex_log1p(t / x) + _complex_stirling_rest(x + t) - stirling_rest(x)
    return total


def _complex_log1p(z: np.ndarray) -> np.ndarray:
    """Return log(1 + z) of complex z. NumPy's function loses digits if z is small."""
    return 0.5 * np.log1p(z.real * (2.0 + z.real) + z.imag**2) + 1j * np.arctan2(z.imag, 1.0 + z.real)


def _complex_stirling_rest(z: np.ndarray) -> np.ndarray:
    """Return the error of Stirling's formula for log gamma, `stirling_rest`, at complex z with a positive real part.

    For small |z| the result is a difference of log gamma and Stirling's formula, otherwise a series.
    """
    w = 1.0 / z**2
    out = (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * (1.0 / 1680.0 - w / 1188.0)))) / z
    is_small = np.abs(z) < SERIES_START
    if is_small.any():
        small = z[is_small]
        out[is_small] = loggamma(small) - (small - 0.5) * np.log(small) + small - HALF_LOG_TWO_PI
    return out
