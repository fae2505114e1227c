"""Classes with a Dirichlet prior, integrated out (formula sheet, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p
from typing import Any, Self

import numpy as np

from ...core.compile.jit import jit
from ...files.encoding import kept
from . import codes
from .base import check_positive
from .gamma import log_fractions, log_gamma_ratio, scalar_stirling_rest, stirling_rest
from .of_classes import ClassLeaf
from .target import Target

TABLE_BLOCK = 1 << 15
"""Entries of the table of scores that are computed at once."""


@kept
@dataclass(frozen=True, eq=False)
class DirichletMultinomial(ClassLeaf):
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
            raise ValueError(
                f"alpha has shape {np.shape(self.alpha)}; y has {target.n_classes} classes: one entry each."
            )
        return self

    def _alpha(self, target: Target) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), target.n_classes)

    def params(self, target: Target) -> np.ndarray:
        alpha = self._alpha(target)
        return np.concatenate([[alpha.sum(), stirling_rest(alpha.sum())], alpha, stirling_rest(alpha)])

    def lookup(self, target: Target) -> np.ndarray:
        alpha = self._alpha(target)
        n = target.whole_weights(len(alpha) + 1)
        if n is None:
            return super().lookup(target)
        # what is linear in n cancels between classes and total; without it the entries are small, so their errors are
        x = np.append(alpha, alpha.sum())[:, None]
        before, out = stirling_rest(x), np.empty((len(x), len(n)))
        for first in range(0, len(n), TABLE_BLOCK):
            some = n[first : first + TABLE_BLOCK]
            rest = stirling_rest(x + some) - before
            part = (x - 0.5) * np.log1p(some / x) + some * np.log((x + some) / (n[-1] + alpha.sum())) + rest
            out[:, first : first + TABLE_BLOCK] = part
        return out

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        alpha = self._alpha(target)
        total = alpha.sum()
        each = (alpha - 0.5) * np.log1p(stats / alpha) + stirling_rest(alpha + stats) - stirling_rest(alpha)
        rest = stirling_rest(total + stats.sum()) - stirling_rest(total)
        whole = (total - 0.5) * np.log1p(stats.sum() / total) + rest
        return float((stats * log_fractions(alpha + stats) + each).sum() - whole)

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        counts = stats + self._alpha(target)
        return counts / counts.sum(axis=1, keepdims=True)

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        weight = np.broadcast_to(weight, len(y))
        once = super().log_density(stats, y, target)
        counts = stats + self._alpha(target)
        of_class = log_gamma_ratio(np.take_along_axis(counts, y[:, None], axis=1)[:, 0], weight)
        return np.where(weight == 1.0, once, of_class - log_gamma_ratio(counts.sum(axis=1), weight))

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
    ) -> np.ndarray:
        alpha = self._alpha(target)
        return self.labelled(rng, np.array([rng.dirichlet(counts + alpha) for counts in stats]), leaf)


@jit
def dirichlet_score(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Compiled score; ``params``: sum of alpha, its Stirling rest, alpha of each class, their Stirling rests."""
    n_classes, total = stats.shape[1], 0.0
    for i in range(n_classes):
        total += stats[row, i]
    if total <= 0.0:
        return 0.0
    whole = params[0] + total
    score = params[1] - scalar_stirling_rest(whole) - (params[0] - 0.5) * log1p(total / params[0])
    for i in range(n_classes):
        n, alpha = stats[row, i], params[2 + i]
        if n > 0.0:
            others = whole - (alpha + n)
            if others < alpha + n:
                others = 0.0
                for j in range(n_classes):
                    if j != i:
                        others += params[2 + j] + stats[row, j]
            score += (alpha - 0.5) * log1p(n / alpha) - n * log1p(others / (alpha + n))
            score += scalar_stirling_rest(alpha + n) - params[2 + n_classes + i]
    return score


@jit
def counts_score(log_rising: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Compiled score by ``lookup``, for whole numbers; rows by class, then of the total."""
    total, score = np.int64(0), 0.0
    for i in range(stats.shape[1]):
        count = np.int64(stats[row, i])
        total += count
        score += log_rising[i, count]
    return score - log_rising[stats.shape[1], total]


@jit
def add_counts_scores_into(out: np.ndarray, log_rising: np.ndarray, stats: np.ndarray, n: int) -> None:
    """Add `counts_score` of the first ``n`` rows of ``stats`` to ``out``."""
    if stats.shape[1] != 2:
        for row in range(n):
            out[row] += counts_score(log_rising, stats, row)
        return
    first, second, whole = log_rising[0], log_rising[1], log_rising[2]
    for row in range(n):
        a, b = np.int64(stats[row, 0]), np.int64(stats[row, 1])
        out[row] += first[a] + second[b] - whole[a + b]
