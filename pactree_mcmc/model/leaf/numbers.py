"""Leaf models of numbers: normal and Poisson y, from weight and two moments (formula sheet, section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ...core.special import gammaln
from ...files.encoding import kept
from . import compiled as codes
from .classes import Leaf, Target, check_finite, check_positive, settle_parameters
from .distributions import NegativeBinomial, StudentT
from .gamma import HALF_LOG_TWO_PI, divergence, log_gamma_ratio, stirling_rest


class MomentLeaf(Leaf):
    """Leaf models of numbers: the statistics are weight and two moments about the centre."""

    is_classifier = False

    def moments(self, target: Target) -> tuple[np.ndarray | None, np.ndarray]:
        out = np.empty((2, len(target.values)))
        np.subtract(target.values, target.center, out=out[0])
        np.square(out[0], out=out[1])
        if target.weight is not None:
            out *= target.weight
        return target.weight, out

    @staticmethod
    def spread(stats: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weight, mean (from the centre) and sum of squares about the mean, of cells with ``stats`` (..., 3)."""
        n = stats[..., 0]
        mean = np.divide(stats[..., 1], n, out=np.zeros_like(n), where=n > 0)
        scatter = stats[..., 2] - stats[..., 1] * mean
        return n, mean, np.where(scatter > codes.ROUNDING * stats[..., 2], scatter, 0.0)

    @staticmethod
    def shrunk(stats: np.ndarray, m0: float, k0: float, target: Target) -> np.ndarray:
        """Posterior means (m,) of cells, from whichever of m0 and the centre weighs more."""
        n, mean, _ = MomentLeaf.spread(stats)
        apart = m0 - target.center
        return np.where(
            n >= k0,
            target.center + (k0 * apart + n * mean) / (k0 + n),
            m0 + n * (mean - apart) / (k0 + n),
        )

    @staticmethod
    def mean_lookup(n: np.ndarray, k0: float) -> list[np.ndarray]:
        """For the weights ``n``: 1 / n, and how much the mean's distance from its prior weighs."""
        return [np.divide(1.0, n, out=np.zeros_like(n), where=n > 0), n * (k0 / (k0 + n))]


@kept
@dataclass(frozen=True, eq=False)
class NormalInverseGamma(MomentLeaf):
    """Normal y, mean and variance of each leaf integrated out (Chipman et al. 1998, mean-variance shift).

    ``sigma2 ~ InverseGamma(a0, b0)``, ``mu ~ Normal(m0, sigma2 / k0)``. Predicts the posterior mean.

    Parameters
    ----------
    m0, k0, a0, b0 : float, optional
        Left out, they are set from the data: ``m0`` the mean of y; ``k0 = 1/4`` and ``a0 = 3/2``;
        ``b0 = a0 * var(y) / 4``: a leaf explains about three quarters of the variance of y, and its mean lies
        about one standard deviation of y around ``m0``.

    Raises
    ------
    ValueError
        If k0, a0 or b0 is not positive and finite, or m0 is not finite.

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
        a0 = 1.5 if self.a0 is None else self.a0
        return replace(
            self,
            m0=target.center if self.m0 is None else self.m0,
            k0=0.25 if self.k0 is None else self.k0,
            a0=a0,
            b0=a0 * target.variance / 4.0 if self.b0 is None else self.b0,
        )

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

    The variance is ``InverseGamma(an, bn)``, the mean has ``kn`` rows' worth of precision; of weight 1 a Student law.
    """
    spread, half = (kn + weight) / kn, np.asarray(weight) / 2.0
    return (
        log_gamma_ratio(an, half)
        - half * np.log(2.0 * np.pi * bn)
        - 0.5 * np.log(spread)
        - (an + half) * np.log1p(half * apart**2 / (bn * spread))
    )


def drawn_normal(
    rng: np.random.Generator, mean: np.ndarray, kn: np.ndarray, sigma2: np.ndarray, leaf: np.ndarray
) -> np.ndarray:
    """Normal y (n,) given the variances ``sigma2`` (m,) of the leaves, whose means have the posterior given."""
    drawn, sigma = rng.normal(mean, np.sqrt(sigma2 / kn)), np.sqrt(sigma2)
    return rng.normal(drawn[leaf], sigma[leaf])


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
        Left out, they are set from the data: ``sigma2 = var(y) / 4``, ``m0`` the mean of y, ``k0 = 1/4``.

    Raises
    ------
    ValueError
        If sigma2 or k0 is not positive and finite, or m0 is not finite.

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
            sigma2=target.variance / 4.0 if self.sigma2 is None else self.sigma2,
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
        """Posterior means (m,) less the centre: y is compared with them without the digits both share."""
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


@kept
@dataclass(frozen=True, eq=False)
class PoissonGamma(MomentLeaf):
    """Counts y with rate ``lambda ~ Gamma(shape, rate)`` times the exposure, integrated out.

    Predicts the posterior mean rate per unit of exposure.

    Parameters
    ----------
    shape, rate : float, optional
        Left out, they are set from the data: ``shape = 1`` and ``rate = shape / (mean of y per exposure)``.
    exposure : array of shape (n,), optional
        Exposure of each row, > 0. Default: 1.

    Raises
    ------
    ValueError
        If shape, rate or an exposure is not positive and finite, or y is not made of counts 0, 1, 2, ...

    Examples
    --------
    >>> PoissonGamma(shape=2.0, rate=1.0).shape
    2.0
    """

    shape: float | None = None
    rate: float | None = None
    exposure: Any = None
    kind = codes.POISSON

    def __post_init__(self) -> None:
        settle_parameters(self, "shape", "rate")
        if self.exposure is not None:
            check_positive("exposure", self.exposure, entries=True)

    def resolve(self, target: Target) -> Self:
        y = target.values
        if np.any((y < 0) | (y != np.floor(y))):
            row = int(np.argmax((y < 0) | (y != np.floor(y))))
            raise ValueError(f"y is {y[row]} in row {row}; PoissonGamma needs counts 0, 1, 2, ...")
        if self.exposure is not None and np.shape(self.exposure) != (len(y),):
            raise ValueError(f"exposure has shape {np.shape(self.exposure)}; y has {len(y)} rows: one each.")
        total, exposed = float((target.weights * y).sum()), float((target.weights * self._exposure(target)).sum())
        shape = 1.0 if self.shape is None else self.shape
        rate = self.rate if self.rate is not None else (shape * exposed / total if total > 0 and exposed > 0 else shape)
        return replace(self, shape=shape, rate=rate)

    def _exposure(self, target: Target) -> np.ndarray:
        return np.ones(len(target.values)) if self.exposure is None else np.asarray(self.exposure, dtype=np.float64)

    def _reference(self, target: Target) -> float:
        """A rate close to all counts, at which their densities are taken; 0 if counts are not close to each other.

        Large counts have scores much smaller than the log factorials in them.
        """
        y, e = target.values, self._exposure(target)
        share = target.weights * e
        if not share.sum() > 0.0:
            return 0.0
        share = share / share.sum()
        mean = float(share @ (y / e))
        return mean if mean > 0.0 and float(share @ (y / e - mean) ** 2) < 0.01 * mean**2 else 0.0

    def moments(self, target: Target) -> tuple[np.ndarray | None, np.ndarray]:
        y, w, e, reference = target.values, target.weights, self._exposure(target), self._reference(target)
        plain = target.weight is None and self.exposure is None
        if reference > 0.0:
            some = np.maximum(y, 1.0)
            peak = np.where(y > 0.0, -HALF_LOG_TWO_PI - 0.5 * np.log(some) - stirling_rest(some), 0.0)
            constant = peak - divergence(y, e * reference)
        else:
            constant = y * np.log(e) - gammaln(y + 1.0)
        return None if plain else w * e, np.array([w * y, w * constant])

    def params(self, target: Target) -> np.ndarray:
        reference = self._reference(target)
        if reference > 0.0:
            constant = -float(divergence(self.shape, self.rate * reference))
        else:
            constant = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        return np.array([self.shape, self.rate, constant, reference, float(stirling_rest(self.shape))])

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        exposed, count, constant = stats
        shape, rate, reference = self.shape + count, self.rate + exposed, self._reference(target)
        if reference > 0.0:
            apart = divergence(shape, rate * reference) - divergence(self.shape, self.rate * reference)
            rest = stirling_rest(shape) - stirling_rest(self.shape)
            return float(constant + apart + rest - 0.5 * np.log1p(count / self.shape))
        prior = self.shape * np.log(self.rate) - gammaln(self.shape)
        return float(constant + prior + gammaln(shape) - shape * np.log(rate))

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return ((self.shape + stats[:, 1]) / (self.rate + stats[:, 0]))[:, None]

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        shape, rate, e = self.shape + stats[:, 1], self.rate + stats[:, 0], self._exposure(target)
        count = weight * y
        per_rate, some = (shape + count) / (rate + weight * e), np.maximum(y, 1.0)
        peak = np.where(y > 0.0, HALF_LOG_TWO_PI + 0.5 * np.log(some) + stirling_rest(some), 0.0)
        rest = stirling_rest(shape + count) - stirling_rest(shape) - 0.5 * np.log1p(count / shape)
        return rest - weight * (peak + divergence(y, e * per_rate)) - divergence(shape, rate * per_rate)

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> NegativeBinomial:
        return NegativeBinomial(self.shape + stats[:, 1], self.rate + stats[:, 0])

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
    ) -> np.ndarray:
        rate = rng.gamma(self.shape + stats[:, 1]) / (self.rate + stats[:, 0])
        exposure = 1.0 if rows is None else self._exposure(target)[rows]
        return rng.poisson(rate[leaf] * exposure).astype(np.float64)
