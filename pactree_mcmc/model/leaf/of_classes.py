"""Leaf models for classes: their statistics are counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Leaf
from .target import Target


class ClassLeaf(Leaf):
    """Base class of leaf models for classes: the statistics are the weights by class."""

    is_classifier = True

    def n_stats(self, target: Target) -> int:
        return target.n_classes * (2 if self.splits_sample(target) else 1)

    def weight(self, stats: np.ndarray) -> np.ndarray:
        return stats.sum(axis=1)

    def splits_sample(self, target: Target) -> bool:
        """Whether the statistics keep E and S apart."""
        return self.uses_estimation and target.estimation is not None

    def labels(self, target: Target) -> np.ndarray:
        if not self.splits_sample(target):
            return target.values
        return target.values + target.n_classes * ~target.estimation

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        return weight * np.log(np.take_along_axis(self.value(stats, target), y[:, None], axis=1)[:, 0])

    @staticmethod
    def labelled(rng: np.random.Generator, probability: np.ndarray, leaf: np.ndarray) -> np.ndarray:
        """Class numbers (n,) drawn with the probabilities (m, K) of their ``leaf`` (n,)."""
        at_most = probability.cumsum(axis=1)
        at_most, chance = (at_most / at_most[:, -1:])[:, :-1], rng.random(len(leaf))
        out = np.zeros(len(leaf), dtype=np.int64)
        for of_class in at_most.T:
            out += chance >= of_class[leaf]
        return out
