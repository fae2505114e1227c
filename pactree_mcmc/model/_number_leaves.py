"""Leaf models of numbers: normal and Poisson y, from weight and two moments (formula sheet, section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import gammaln

from . import _leaf_kernels as codes
from ._leaves import Leaf, Target, check_finite, check_positive, settle_parameters


class StudentT(NamedTuple):
    """Predictive laws of a new y, one for each node; normal where ``df`` is infinite."""

    df: np.ndarray
    location: np.ndarray
    scale: np.ndarray


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

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> StudentT:
        """Law of a new y of weight 1 in the nodes ``stats`` (m, 3); ``tree`` (m,) is that of a leaf, -1 inside."""
        raise ValueError(
            f"{type(self).__name__} has no normal or Student predictive law; give NormalInverseGamma, "
            "NormalSharedVariance or NormalKnownVariance."
        )

    @staticmethod
    def spread(stats: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weight, mean (from the centre) and sum of squares about the mean, of cells with ``stats`` (..., 3)."""
        n = stats[..., 0]
        mean = np.divide(stats[..., 1], n, out=np.zeros_like(n), where=n > 0)
        return n, mean, np.maximum(stats[..., 2] - stats[..., 1] * mean, 0.0)


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
        n = target.whole_weights(2)
        if n is None:
            return super().lookup(target)
        constant = self.a0 * math.log(self.b0) - math.lgamma(self.a0)
        shrinkage = np.log(self.k0 / (self.k0 + n)) / 2.0
        rest = constant + gammaln(self.a0 + n / 2.0) + shrinkage - n / 2.0 * math.log(2.0 * math.pi)
        return np.array([rest, 1.0 / (self.k0 + n)])

    def _posterior(self, stats: np.ndarray, target: Target) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        n, mean, scatter = self.spread(stats)
        m0 = self.m0 - target.center
        kn = self.k0 + n
        bn = self.b0 + scatter / 2.0 + self.k0 * n * (mean - m0) ** 2 / (2.0 * kn)
        return (self.k0 * m0 + n * mean) / kn, kn, self.a0 + n / 2.0, bn

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        _, kn, an, bn = self._posterior(stats, target)
        return float(
            gammaln(an)
            - gammaln(self.a0)
            + self.a0 * np.log(self.b0)
            - an * np.log(bn)
            + (np.log(self.k0) - np.log(kn)) / 2.0
            - stats[0] / 2.0 * np.log(2.0 * np.pi)
        )

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return target.center + self._posterior(stats, target)[0][:, None]

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> StudentT:
        mn, kn, an, bn = self._posterior(stats, target)
        return StudentT(2.0 * an, target.center + mn, np.sqrt(bn * (kn + 1.0) / (an * kn)))

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target) -> np.ndarray:
        law = self.predictive(stats, np.zeros(len(stats), dtype=np.int64), target)
        an = law.df / 2.0
        return (
            gammaln(an + 0.5)
            - gammaln(an)
            - 0.5 * np.log(2.0 * np.pi * an * law.scale**2)
            - (an + 0.5) * np.log1p(((y - law.location) / law.scale) ** 2 / law.df)
        )

    def draw(self, rng: np.random.Generator, stats: np.ndarray, rows: np.ndarray, target: Target) -> np.ndarray:
        sigma2 = self.b0 / rng.gamma(self.a0)
        return rng.normal(rng.normal(self.m0, math.sqrt(sigma2 / self.k0)), math.sqrt(sigma2), size=len(rows))


def known_normal_params(sigma2: float, m0: float, k0: float, a0: float = 0.0, b0: float = 0.0) -> np.ndarray:
    """Parameters of the compiled score given the variance, ``m0`` from the centre; the last two are its prior's."""
    return np.array([sigma2, m0, k0, a0, b0, math.log(2.0 * math.pi * sigma2), 0.5 / sigma2])


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
        n = target.whole_weights(2)
        return (
            super().lookup(target)
            if n is None
            else np.array([np.log(self.k0 / (self.k0 + n)) / 2.0, 1.0 / (self.k0 + n)])
        )

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        n, mean, scatter = self.spread(stats)
        misfit = scatter + self.k0 * n * (mean + target.center - self.m0) ** 2 / (self.k0 + n)
        return float(
            (np.log(self.k0) - np.log(self.k0 + n)) / 2.0
            - n / 2.0 * np.log(2.0 * np.pi * self.sigma2)
            - misfit / (2.0 * self.sigma2)
        )

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        mean = (self.k0 * (self.m0 - target.center) + stats[:, 1]) / (self.k0 + stats[:, 0])
        return target.center + mean[:, None]

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> StudentT:
        scale = np.sqrt(self.sigma2 * (1.0 + 1.0 / (self.k0 + stats[:, 0])))
        return StudentT(np.full(len(stats), np.inf), self.value(stats, target)[:, 0], scale)

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target) -> np.ndarray:
        spread = self.sigma2 * (1.0 + 1.0 / (self.k0 + stats[:, 0]))
        return -0.5 * np.log(2.0 * np.pi * spread) - (y - self.value(stats, target)[:, 0]) ** 2 / (2.0 * spread)

    def draw(self, rng: np.random.Generator, stats: np.ndarray, rows: np.ndarray, target: Target) -> np.ndarray:
        return rng.normal(rng.normal(self.m0, math.sqrt(self.sigma2 / self.k0)), math.sqrt(self.sigma2), size=len(rows))


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

    def moments(self, target: Target) -> tuple[np.ndarray | None, np.ndarray]:
        y, w, e = target.values, target.weights, self._exposure(target)
        plain = target.weight is None and self.exposure is None
        return None if plain else w * e, np.array([w * y, w * (y * np.log(e) - gammaln(y + 1.0))])

    def params(self, target: Target) -> np.ndarray:
        return np.array([self.shape, self.rate, self.shape * math.log(self.rate) - math.lgamma(self.shape)])

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        exposed, count, constant = stats
        return float(
            constant
            + self.shape * np.log(self.rate)
            - gammaln(self.shape)
            + gammaln(self.shape + count)
            - (self.shape + count) * np.log(self.rate + exposed)
        )

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return ((self.shape + stats[:, 1]) / (self.rate + stats[:, 0]))[:, None]

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target) -> np.ndarray:
        shape, rate, e = self.shape + stats[:, 1], self.rate + stats[:, 0], self._exposure(target)
        return (
            gammaln(shape + y)
            - gammaln(shape)
            - gammaln(y + 1.0)
            + shape * np.log(rate / (rate + e))
            + y * np.log(e / (rate + e))
        )

    def draw(self, rng: np.random.Generator, stats: np.ndarray, rows: np.ndarray, target: Target) -> np.ndarray:
        return rng.poisson(rng.gamma(self.shape) / self.rate * self._exposure(target)[rows]).astype(np.float64)
