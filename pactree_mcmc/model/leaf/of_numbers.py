"""Leaf models for numbers: their statistics are the weight and two moments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...core.compile.jit import jit
from . import codes
from .base import Leaf
from .codes import ROUNDING
from .target import Target


def with_normal_defaults(leaf: Any, target: Target) -> Any:
    """A leaf with a normal-inverse-gamma prior, the parameters that were left out set from the data."""
    a0 = 1.5 if leaf.a0 is None else leaf.a0
    m0, k0 = target.center if leaf.m0 is None else leaf.m0, 0.25 if leaf.k0 is None else leaf.k0
    return replace(leaf, m0=m0, k0=k0, a0=a0, b0=a0 * target.prior_variance / 4.0 if leaf.b0 is None else leaf.b0)


class MomentLeaf(Leaf):
    """Base class of leaf models for numbers: the statistics are the weight and two moments about the centre."""

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


def drawn_normal(
    rng: np.random.Generator, mean: np.ndarray, kn: np.ndarray, sigma2: np.ndarray, leaf: np.ndarray
) -> np.ndarray:
    """Normal y (n,) given the variances ``sigma2`` (m,) of the leaves, whose means have the posterior given."""
    drawn, sigma = rng.normal(mean, np.sqrt(sigma2 / kn)), np.sqrt(sigma2)
    return rng.normal(drawn[leaf], sigma[leaf])


@jit
def squares_about_mean(total: float, squares: float, mean: float) -> float:
    """Squares about the mean from the sums of y and of its squares; rounding alone is none, as in a cell of one y."""
    scatter = squares - total * mean
    return scatter if scatter > ROUNDING * squares else 0.0


@jit
def misfit(m0: float, k0: float, lookup: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Squares about the mean, and of the mean about m0 as far as k0 weighs it.

    Last rows of ``lookup``: 1 / n, n k0 / (k0 + n).
    """
    n, total = stats[row, 0], stats[row, 1]
    if lookup.shape[1] > 1:
        mean, weight = total * lookup[1, np.int64(n)], lookup[2, np.int64(n)]
    else:
        mean, weight = total / n, n * (k0 / (k0 + n))
    return squares_about_mean(total, stats[row, 2], mean) + weight * (mean - m0) * (mean - m0)
