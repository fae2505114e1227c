"""Leaf models whose compiled score is called by its address, so that a new one needs no recompilation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.compile.address import address_of
from . import codes
from .base import Leaf
from .compiled import add_scores_into
from .target import Target

EXACT_INTEGERS = 1 << 53


class AddressedLeaf(Leaf):
    """Leaf models whose statistics are columns that a subclass names, summed over the rows of a cell.

    A cell has its weight first, then these sums, each row as often as it weighs. The score sees the sums alone.
    """

    kind = codes.BY_ADDRESS
    is_classifier: Any = False

    @abstractmethod
    def statistics(self, y: np.ndarray, regressors: np.ndarray | None) -> np.ndarray:
        """What rows add to the statistics of their cell, (n, k), of ``y`` (n,) or (n, d)."""

    @property
    @abstractmethod
    def score_function(self) -> Callable[..., float]:
        """The score in nats of the statistics of a cell, how many they are, and the parameters, to be compiled."""

    def score_params(self, target: Target) -> np.ndarray:
        """Parameters of the score; none, and it takes only the statistics and their number."""
        return np.empty(0)

    @abstractmethod
    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        """Score in nats of the statistics (k,) of a cell that has weight, without compiled code."""

    def n_stats(self, target: Target) -> int:
        some = None if target.regressors is None else target.regressors[:1]
        return 1 + self.statistics(target.values[:1], some).shape[1]

    def moments(self, target: Target) -> tuple[np.ndarray | None, np.ndarray]:
        own = np.asarray(self.statistics(target.values, target.regressors), dtype=np.float64)
        moments = np.ascontiguousarray(own.T)
        return (None, moments) if target.weight is None else (target.weight, moments * target.weight)

    def params(self, target: Target) -> np.ndarray:
        own = np.asarray(self.score_params(target), dtype=np.float64)
        address = address_of(self.score_function, len(own) > 0)
        if not 0 < address < EXACT_INTEGERS:
            raise RuntimeError(f"the compiled score lies at address {address}, which a float64 does not hold exactly.")
        return np.array([address, 0.0 if self.is_classifier else 1.0, len(own) > 0, *own], dtype=np.float64)

    def scores(self, stats: np.ndarray, target: Target) -> np.ndarray:
        """Compiled scores (m,) of cells with ``stats`` (m, n_stats)."""
        out = np.zeros(len(stats))
        add_scores_into(out, self.rule(target), np.ascontiguousarray(stats, dtype=np.float64), len(stats))
        return out

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        if not self.weight(stats[None])[0] > 0.0:
            return 0.0
        return float(self.plain_score(stats if self.is_classifier else stats[1:], target))

    def added(self, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        """What ``y`` in place of those of the rows, observed ``weight`` times, add to their cells, (n, n_stats)."""
        weight = np.broadcast_to(np.asarray(weight, dtype=np.float64), len(y))
        own = np.asarray(self.statistics(y, target.regressors), dtype=np.float64)
        return weight[:, None] * np.column_stack([np.ones(len(y)), own])

    def value(self, stats: np.ndarray, target: Target, *regressors: np.ndarray) -> np.ndarray:
        """The means of the distributions of a new y, where these are of numbers."""
        return self.predictive(stats, np.empty(0), target).mean_and_variance()[0][:, None]

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        return self.scores(stats + self.added(y, target, weight), target) - self.scores(stats, target)
