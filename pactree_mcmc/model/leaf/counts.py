"""Leaf models with exposures, and that of counts with a gamma prior on their rate (formulas, section 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log, log1p
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from ...core import portable
from ...core.checks import read_numbers
from ...core.compile.jit import jit
from ...files.encoding import register_class
from ...table.words import count_text, rounded_text, rounded_texts
from .base import POISSON, Leaf, Target, Theta, check_positive, refuse_rows
from .distributions import (
    HALF_LOG_TWO_PI,
    Distributions,
    NegativeBinomial,
    draw_poisson,
    poisson_kl,
    scalar_poisson_kl,
    scalar_stirling_rest,
    stirling_rest,
)


class ExposedLeaf(Leaf):
    """Base class of leaf models in which each row has an exposure e, a known factor of its rate (log e: its offset)."""

    exposure: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exposure is not None:
            check_positive("exposure", self.exposure, entries=True)

    def check_exposure(self, target: Target) -> None:
        """Raise a ValueError if there are exposures, but not one for each row."""
        n = len(target.values)
        if self.exposure is not None and np.shape(self.exposure) != (n,):
            raise ValueError(f"exposure has shape {np.shape(self.exposure)}; y has {n} rows: one each.")

    def exposures(self, target: Target) -> np.ndarray:
        """Return the exposures (n,) of the training rows; ones if there are none."""
        return np.ones(len(target.values)) if self.exposure is None else np.asarray(self.exposure, dtype=np.float64)

    def at_exposure(self, values: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        """Return the means (n, 1) of y at ``exposure`` (n,), given the means ``values`` (n, 1) at exposure 1."""
        return values * exposure[:, None]


def read_exposures(leaf: Leaf, exposure: Any, n: int) -> np.ndarray:
    """Return the exposures (n,) of n new rows, given as a number or an array."""
    if not isinstance(leaf, ExposedLeaf):
        raise ValueError(f"{type(leaf).__name__} has no exposure; drop exposure=, or give a leaf of counts or times.")
    check_positive("exposure", exposure, entries=True)
    exposures = read_numbers("exposure", exposure)
    if exposures.ndim and exposures.shape != (n,):
        raise ValueError(f"exposure has shape {exposures.shape}; X has {n} rows: give a number, or one each.")
    return np.array(np.broadcast_to(exposures, n))


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class PoissonGamma(ExposedLeaf):
    """Counts y with rate ``lambda ~ Gamma(shape, rate)`` times the exposure, integrated out.

    Predicts the posterior mean rate per unit of exposure.

    Parameters
    ----------
    shape, rate : float, optional
        By default set from the data: ``shape = 1`` and ``rate = shape / (mean of y per exposure)``.
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
    kind = POISSON

    positive_parameters = ("shape", "rate")

    def resolve(self, target: Target) -> Self:
        y = target.values
        refuse_rows((y < 0) | (y != np.floor(y)), "y", y, "PoissonGamma needs counts 0, 1, 2, ...")
        self.check_exposure(target)
        total, exposed = float((target.weights * y).sum()), float((target.weights * self.exposures(target)).sum())
        shape = 1.0 if self.shape is None else self.shape
        return self.with_defaults(shape=shape, rate=shape * exposed / total if total > 0 and exposed > 0 else shape)

    @property
    def weighs_rows(self) -> bool:  # type: ignore[override]
        return self.exposure is None

    def words(self, stats: np.ndarray, target: Target) -> list[str] | None:
        if self.exposure is None:
            return None
        return [
            f"rate {rate}, {count_text(count, 'event')}, exposure {rounded_text(exposed, 4)}"
            for rate, (exposed, count) in zip(
                rounded_texts(self.value(stats, target)[:, 0].tolist(), 4), stats[:, :2].tolist(), strict=True
            )
        ]

    def _reference(self, target: Target) -> float:
        """Return the mean rate r if the rates of rows have a standard deviation below r / 10, otherwise 0."""
        # Large counts have scores much smaller than their log factorials. If r > 0, statistics hold the log likelihoods
        # of rows at rate r instead, which avoids cancellation
        y, e = target.values, self.exposures(target)
        fraction = target.weights * e
        if not fraction.sum() > 0.0:
            return 0.0
        fraction = fraction / fraction.sum()
        with np.errstate(over="ignore", invalid="ignore"):
            mean = portable.weighted_sum(fraction, y / e)
            variance = portable.weighted_sum(fraction, (y / e - mean) ** 2)
            return mean if mean > 0.0 and variance < 0.01 * np.float64(mean) ** 2 else 0.0

    def n_stats(self, target: Target) -> int:
        return 3

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        e, reference = self.exposures(target), self._reference(target)
        if reference > 0.0:
            some = np.maximum(y, 1.0)
            peak = np.where(y > 0.0, -HALF_LOG_TWO_PI - 0.5 * portable.log(some) - stirling_rest(some), 0.0)
            return y, peak - poisson_kl(y, e * reference)
        return y, y * portable.log(e) - portable.log_gamma(y + 1.0)

    def moments(self, target: Target) -> tuple[np.ndarray | None, np.ndarray]:
        weight, sums = super().moments(target)
        return weight if self.exposure is None else target.weights * self.exposures(target), sums

    def params(self, target: Target) -> np.ndarray:
        """Return shape, rate, a constant, reference rate or 0, `stirling_rest` of the shape, for `poisson_score`."""
        reference = self._reference(target)
        if reference > 0.0:
            constant = -float(poisson_kl(self.shape, self.rate * reference))
        else:
            constant = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        return np.array([self.shape, self.rate, constant, reference, float(stirling_rest(self.shape))])

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        exposed, count, constant = sums
        shape, rate, reference = self.shape + count, self.rate + exposed, self._reference(target)
        # let D(s, m) = s log(s / m) - s + m. A count y has at mean m the density exp(-D(y, m)) / sqrt(2 pi y) times the
        # exponential of minus Stirling's rest. At a reference rate r close to all y / e the large terms s log s of the
        # gamma functions cancel: score = constant + D(shape', rate' r) - D(shape, rate r) + rests - log(shape'/shape)/2
        if reference > 0.0:
            difference = poisson_kl(shape, rate * reference) - poisson_kl(self.shape, self.rate * reference)
            rest = stirling_rest(shape) - stirling_rest(self.shape)
            return float(constant + difference + rest - 0.5 * portable.log1p(count / self.shape))
        prior = self.shape * portable.log(self.rate) - portable.log_gamma(self.shape)
        return float(constant + prior + portable.log_gamma(shape) - shape * portable.log(rate))

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return ((self.shape + stats[:, 1]) / (self.rate + stats[:, 0]))[:, None]

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        shape, rate, e = self.shape + stats[:, 1], self.rate + stats[:, 0], self.exposures(target)
        count = weight * y
        per_rate, some = (shape + count) / (rate + weight * e), np.maximum(y, 1.0)
        peak = np.where(y > 0.0, HALF_LOG_TWO_PI + 0.5 * np.log(some) + stirling_rest(some), 0.0)
        rest = stirling_rest(shape + count) - stirling_rest(shape) - 0.5 * np.log1p(count / shape)
        return rest - weight * (peak + poisson_kl(y, e * per_rate)) - poisson_kl(shape, rate * per_rate)

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> NegativeBinomial:
        return NegativeBinomial(self.shape + stats[:, 1], self.rate + stats[:, 0])

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        scale = 1.0 / (self.rate + stats[:, 0])
        return [Distributions("gamma", self.shape + stats[:, 1], np.zeros(len(stats)), scale)]

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Theta:
        """Draw the rate at exposure 1, one array (m,), in the leaves of one tree from its posterior."""
        # ``stats`` (m, 3): sums of weight times exposure and of y, and a term of the score that is not used
        return (rng.gamma(self.shape + stats[:, 1]) / (self.rate + stats[:, 0]),)

    def draw_given(self, rng: Generator, parameters: Theta, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        return draw_poisson(rng, parameters[0] * (1.0 if rows is None else self.exposures(target)[rows]))


@jit
def poisson_score(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Return the log marginal likelihood of Poisson counts with a gamma rate in the cell `stats[row]`, nats."""
    # `params`: shape, rate, a constant of the prior, reference rate or 0, `stirling_rest` of the shape. `stats[row]`:
    # sums over rows with weight w and exposure e of w e, w y, and w (y log e - lgamma(y + 1)); with a reference rate
    # the last is w times the log density at it
    if stats[row, 0] <= 0.0:
        return 0.0
    shape, rate = params[0] + stats[row, 1], params[1] + stats[row, 0]
    if params[3] > 0.0:
        gamma = scalar_stirling_rest(shape) - params[4] - 0.5 * log1p(stats[row, 1] / params[0])
        return stats[row, 2] + scalar_poisson_kl(shape, rate * params[3]) + params[2] + gamma
    return params[2] + stats[row, 2] + lgamma(shape) - shape * log(rate)
