"""Leaf models: the score of a cell and what it predicts, from additive statistics (formula sheet, section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import gammaln

from . import _leaf_kernels as codes
from ._leaf_kernels import LeafRule


class Target(NamedTuple):
    """The checked y, as leaf models take it."""

    values: np.ndarray
    """(n,): class numbers int64, or y float64."""
    classes: np.ndarray | None
    """(K,) sorted labels; None for a regression."""
    weight: np.ndarray | None
    """(n,) float64 sample weights; None: all one."""
    estimation: np.ndarray | None
    """(n,) bool, True for the rows of E; None: no such split."""
    center: float
    """Weighted mean of y, subtracted before moments are summed; 0 for classes."""
    variance: float
    """Weighted variance of y; 1 where it is zero or y is a class."""

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for a regression."""
        return 0 if self.classes is None else len(self.classes)

    @property
    def weights(self) -> np.ndarray:
        """Sample weights (n,), ones when none were given."""
        return np.ones(len(self.values)) if self.weight is None else self.weight


class Leaf:
    """A leaf model: subclass it, give it a score code, and list it in ``docs`` and in the tests' table of leaves."""

    kind: ClassVar[int]
    is_classifier: ClassVar[bool]
    uses_estimation: ClassVar[bool] = False
    separates: ClassVar[bool] = True
    """Whether the score of a tree is the sum over its leaves; the exact engine needs it."""
    has_likelihood: ClassVar[bool] = True

    def resolve(self, target: Target) -> Self:
        """This model with every parameter set, those left out from the data."""
        return self

    def n_stats(self, target: Target) -> int:
        """How many numbers describe a cell."""
        return 3

    def labels(self, target: Target) -> np.ndarray:
        """Which statistic each row adds its weight to, (n,) int64, when the statistics are counts."""
        raise NotImplementedError

    def moments(self, target: Target) -> tuple[np.ndarray | None, np.ndarray]:
        """Weight (n,) of each row, None when all are 1, and its two moments (2, n), when they are not counts."""
        raise NotImplementedError

    def params(self, target: Target) -> np.ndarray:
        """Parameters in the layout of the compiled score."""
        raise NotImplementedError

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        """Score in nats of one cell, plainly."""
        raise NotImplementedError

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        """What cells with ``stats`` (m, n_stats) predict: class probabilities (m, K), or means (m, 1)."""
        raise NotImplementedError

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target) -> np.ndarray:
        """Log predictive density (m,) of ``y`` (m,) in cells with ``stats`` (m, n_stats)."""
        raise NotImplementedError

    def draw(self, rng: np.random.Generator, stats: np.ndarray, rows: np.ndarray, target: Target) -> np.ndarray:
        """New y for the ``rows`` of one cell: its parameters from their prior, then the data."""
        raise ValueError(f"{type(self).__name__} is not a model of y; there is nothing to simulate.")

    def rule(self, target: Target) -> LeafRule:
        """This model as compiled code takes it."""
        return LeafRule(self.kind, self.params(target), self.n_stats(target))


class _ClassLeaf(Leaf):
    is_classifier = True

    def n_stats(self, target: Target) -> int:
        return target.n_classes * (2 if self.splits_sample(target) else 1)

    def splits_sample(self, target: Target) -> bool:
        """Whether the statistics keep E and S apart."""
        return self.uses_estimation and target.estimation is not None

    def labels(self, target: Target) -> np.ndarray:
        if not self.splits_sample(target):
            return target.values
        return target.values + target.n_classes * ~target.estimation

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target) -> np.ndarray:
        return np.log(np.take_along_axis(self.value(stats, target), y[:, None], axis=1)[:, 0])


@dataclass(frozen=True, eq=False)
class DirichletMultinomial(_ClassLeaf):
    """Classes with a Dirichlet prior on their probabilities, integrated out (Chipman et al. 1998).

    Predicts ``(n_i + alpha) / (n + K alpha)``.

    Parameters
    ----------
    alpha : float or array of shape (K,), default 1.0
        Prior counts, > 0; an array follows the sorted classes.

    Raises
    ------
    ValueError
        If an entry is not positive and finite, or their number is not K.

    Examples
    --------
    >>> DirichletMultinomial(2.5)
    DirichletMultinomial(alpha=2.5)
    """

    alpha: Any = 1.0
    kind = codes.DIRICHLET

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha, entries=True)

    def resolve(self, target: Target) -> Self:
        if np.ndim(self.alpha) and np.shape(self.alpha) != (target.n_classes,):
            raise ValueError(f"alpha has shape {np.shape(self.alpha)}; y has {target.n_classes} classes: one entry each.")
        return self

    def _alpha(self, target: Target) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), target.n_classes)

    def params(self, target: Target) -> np.ndarray:
        alpha = self._alpha(target)
        return np.concatenate([[alpha.sum(), gammaln(alpha.sum()) - gammaln(alpha).sum()], alpha])

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        alpha = self._alpha(target)
        return float(
            gammaln(alpha.sum())
            - gammaln(stats.sum() + alpha.sum())
            + (gammaln(stats + alpha) - gammaln(alpha)).sum()
        )

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        counts = stats + self._alpha(target)
        return counts / counts.sum(axis=1, keepdims=True)

    def draw(self, rng: np.random.Generator, stats: np.ndarray, rows: np.ndarray, target: Target) -> np.ndarray:
        return rng.choice(target.n_classes, size=len(rows), p=rng.dirichlet(self._alpha(target)))


@dataclass(frozen=True, eq=False)
class FrozenLaplace(_ClassLeaf):
    """Class probabilities frozen on the estimation rows E, scored on the rest S (Blanchard 1999, section 3).

    Predicts ``(n_i + a) / (n + K a)`` with the counts of E. Needs ``estimation=`` in the model.

    Parameters
    ----------
    pseudocount : float, default 1.0
        The a above, > 0.

    Raises
    ------
    ValueError
        If the pseudocount is not positive and finite.

    Examples
    --------
    >>> FrozenLaplace()
    FrozenLaplace(pseudocount=1.0)
    """

    pseudocount: float = 1.0
    kind = codes.LAPLACE
    uses_estimation = True

    def __post_init__(self) -> None:
        check_positive("pseudocount", self.pseudocount)

    def resolve(self, target: Target) -> Self:
        if target.estimation is None:
            raise ValueError("FrozenLaplace needs estimation=: a boolean mask (n,) of the rows that freeze the leaves.")
        if not target.estimation.any():
            raise ValueError("the estimation mask selects no row; FrozenLaplace would learn nothing: mark some as True.")
        return self

    def params(self, target: Target) -> np.ndarray:
        return np.array([float(self.pseudocount)])

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        tested = stats[target.n_classes :]
        return float((tested * np.log(self.value(stats[None], target)[0])).sum())

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        counts = stats[:, : target.n_classes] + self.pseudocount
        return counts / counts.sum(axis=1, keepdims=True)

    def draw(self, rng: np.random.Generator, stats: np.ndarray, rows: np.ndarray, target: Target) -> np.ndarray:
        return rng.choice(target.n_classes, size=len(rows), p=self.value(stats[None], target)[0])


@dataclass(frozen=True, eq=False)
class PacBayesLoss(_ClassLeaf):
    """Gibbs score ``-lambda1 * errors - lambda2 * sqrt(n)`` of a fixed label (Nguyen and Kpotufe 2018).

    The label of a cell is the majority of its rows (of its rows in E when ``estimation=`` is given; errors and n are
    then those of S); ties and empty cells take the smallest class. Predicts the label, so averages are votes.

    Parameters
    ----------
    lambda1 : float
        Price of an error in nats, >= 0.
    lambda2 : float, default 0.0
        Price of the square root of a cell's size, >= 0.

    Raises
    ------
    ValueError
        If a price is negative or not finite.

    Examples
    --------
    >>> PacBayesLoss(1.0)
    PacBayesLoss(lambda1=1.0, lambda2=0.0)
    """

    lambda1: float
    lambda2: float = 0.0
    kind = codes.LOSS
    uses_estimation = True
    has_likelihood = False

    def __post_init__(self) -> None:
        for name in ("lambda1", "lambda2"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise ValueError(f"{name}={value} is out of range; give a finite price >= 0.")

    def resolve(self, target: Target) -> Self:
        if target.estimation is not None and not target.estimation.any():
            raise ValueError("the estimation mask selects no row; PacBayesLoss would have no labels: mark some as True.")
        return self

    def params(self, target: Target) -> np.ndarray:
        return np.array([self.lambda1, self.lambda2, target.n_classes], dtype=np.float64)

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        label = int(np.argmax(stats[: target.n_classes]))
        counted = stats[-target.n_classes :]
        return float(-self.lambda1 * (counted.sum() - counted[label]) - self.lambda2 * np.sqrt(counted.sum()))

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return np.eye(target.n_classes)[np.argmax(stats[:, : target.n_classes], axis=1)]

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target) -> np.ndarray:
        raise ValueError("PacBayesLoss is a loss, not a likelihood; there is no log_likelihood.")


class _MomentLeaf(Leaf):
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
        return n, mean, np.maximum(stats[..., 2] - stats[..., 1] * mean, 0.0)


@dataclass(frozen=True, eq=False)
class NormalInverseGamma(_MomentLeaf):
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
        for name in ("k0", "a0", "b0"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))

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

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target) -> np.ndarray:
        mn, kn, an, bn = self._posterior(stats, target)
        scale2 = bn * (kn + 1.0) / (an * kn)
        t2 = (y - target.center - mn) ** 2 / scale2
        return (
            gammaln(an + 0.5)
            - gammaln(an)
            - 0.5 * np.log(2.0 * np.pi * an * scale2)
            - (an + 0.5) * np.log1p(t2 / (2.0 * an))
        )

    def draw(self, rng: np.random.Generator, stats: np.ndarray, rows: np.ndarray, target: Target) -> np.ndarray:
        sigma2 = self.b0 / rng.gamma(self.a0)
        return rng.normal(rng.normal(self.m0, math.sqrt(sigma2 / self.k0)), math.sqrt(sigma2), size=len(rows))


@dataclass(frozen=True, eq=False)
class NormalKnownVariance(_MomentLeaf):
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
        for name in ("sigma2", "k0"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))

    def resolve(self, target: Target) -> Self:
        return replace(
            self,
            sigma2=target.variance / 4.0 if self.sigma2 is None else self.sigma2,
            m0=target.center if self.m0 is None else self.m0,
            k0=0.25 if self.k0 is None else self.k0,
        )

    def params(self, target: Target) -> np.ndarray:
        return np.array([self.sigma2, self.m0 - target.center, self.k0])

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

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target) -> np.ndarray:
        spread = self.sigma2 * (1.0 + 1.0 / (self.k0 + stats[:, 0]))
        return -0.5 * np.log(2.0 * np.pi * spread) - (y - self.value(stats, target)[:, 0]) ** 2 / (2.0 * spread)

    def draw(self, rng: np.random.Generator, stats: np.ndarray, rows: np.ndarray, target: Target) -> np.ndarray:
        return rng.normal(rng.normal(self.m0, math.sqrt(self.sigma2 / self.k0)), math.sqrt(self.sigma2), size=len(rows))


@dataclass(frozen=True, eq=False)
class PoissonGamma(_MomentLeaf):
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
        for name in ("shape", "rate", "exposure"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name), entries=name == "exposure")

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


def check_positive(name: str, value: Any, *, entries: bool = False) -> None:
    """Refuse a parameter that is not positive and finite; it may be an array when it has ``entries``."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim and not entries:
        raise ValueError(f"{name} has shape {array.shape}; give one number.")
    bad = ~((array > 0.0) & np.isfinite(array))
    if bad.any():
        raise ValueError(f"{name}={np.atleast_1d(array)[np.atleast_1d(bad)][0]} is out of range; give finite {name} > 0.")


def check_finite(name: str, value: float | None) -> None:
    """Refuse a parameter that is given but not finite."""
    if value is not None and not math.isfinite(value):
        raise ValueError(f"{name}={value} is out of range; give a finite number.")
