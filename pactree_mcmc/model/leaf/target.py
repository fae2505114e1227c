"""The checked y, as leaf models take it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...files.encoding import kept

MOST_LOOKED_UP = 4_000_000
"""Largest number of entries of a table of functions of the weight."""
LEAST_VARIANCE = 1e-290
"""Least variance of y of which fractions are accurate."""


def check_variance(variance: float) -> float:
    """Refuse a variance of y so small that its rounding would change the size of a prior that is set by it."""
    if variance < LEAST_VARIANCE:
        raise ValueError(f"y is too small: its variance is {variance:.1g}; rescale y.")
    return variance


@kept
class Target(NamedTuple):
    """The checked y, as leaf models take it."""

    values: np.ndarray
    """(n,): class numbers int32, or y float64, which may have columns, (n, d)."""
    classes: np.ndarray | None
    """(K,) sorted labels; None for a regression."""
    weight: np.ndarray | None
    """(n,) float64 sample weights; None: all one."""
    estimation: np.ndarray | None
    """(n,) bool, True for the rows of E; None: no such split."""
    center: float
    """Weighted mean of y, subtracted before moments are summed; 0 for classes, and if y has columns."""
    variance: float
    """Weighted variance of y; 1 if y is constant or a class."""
    regressors: np.ndarray | None = None
    """(n, c) float64: the columns of X that the leaf uses, or None."""

    @property
    def prior_variance(self) -> float:
        """`variance`, for priors that are set by it. A variance that is too small for this raises a ValueError."""
        return check_variance(self.variance)

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for a regression."""
        return 0 if self.classes is None else len(self.classes)

    def whole_weights(self, n_functions: int) -> np.ndarray | None:
        """Return 0, 1, ... up to the sum of the weights, or None if they are not integers or too large to tabulate."""
        weight = self.weights
        if np.any(weight != np.floor(weight)) or (weight.sum() + 1.0) * n_functions > MOST_LOOKED_UP:
            return None
        return np.arange(weight.sum() + 1.0)

    @property
    def weights(self) -> np.ndarray:
        """Sample weights (n,); ones if there are none."""
        return np.ones(len(self.values)) if self.weight is None else self.weight
