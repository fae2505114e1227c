"""The Gibbs score of a fixed label (formula sheet, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Self

import numpy as np

from ...core.checks import check_number, settle
from ...core.compile.jit import jit
from ...files.encoding import kept
from . import codes
from .of_classes import ClassLeaf
from .target import Target


@kept
@dataclass(frozen=True, eq=False)
class PacBayesLoss(ClassLeaf):
    """Gibbs score ``-lambda1 * errors - lambda2 * sqrt(n)`` of a fixed label (Nguyen and Kpotufe 2018).

    The label of a cell is the majority class of its rows (of its rows in E if ``estimation=`` is given; errors and n
    are then counted on S); ties and empty cells get the smallest class. Predicts the label, so that averages over trees
    are votes.

    Parameters
    ----------
    lambda1 : float
        Cost of an error in nats, >= 0.
    lambda2 : float, default 0.0
        Coefficient of the square root of the number of rows of a leaf, nats, >= 0.

    Raises
    ------
    ValueError
        If a parameter is negative or not finite.

    Examples
    --------
    >>> PacBayesLoss(1.0)
    PacBayesLoss(lambda1=1.0, lambda2=0.0)
    """

    lambda1: float
    lambda2: float = 0.0
    kind = codes.LOSS
    uses_estimation = True
    depends_on_n_classes = False
    has_likelihood = False

    def __post_init__(self) -> None:
        for name in ("lambda1", "lambda2"):
            settle(self, name, check_number(name, getattr(self, name), "a finite number >= 0", 0.0))

    def resolve(self, target: Target) -> Self:
        if target.estimation is not None and not target.estimation.any():
            raise ValueError(
                "the estimation mask selects no row; PacBayesLoss would have no labels: mark some as True."
            )
        return self

    def params(self, target: Target) -> np.ndarray:
        return np.array([self.lambda1, self.lambda2, target.n_classes], dtype=np.float64)

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        label = int(np.argmax(stats[: target.n_classes]))
        counted = stats[-target.n_classes :]
        return float(-self.lambda1 * np.delete(counted, label).sum() - self.lambda2 * np.sqrt(counted.sum()))

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return np.eye(target.n_classes)[np.argmax(stats[:, : target.n_classes], axis=1)]

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        raise ValueError("PacBayesLoss is a loss, not a likelihood; there is no log_likelihood.")


@jit
def loss_score(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Compiled score.

    ``params``: lambda1, lambda2, number of classes; ``stats``: weights by class, those of E before those of S if apart.
    """
    n_classes = np.int64(params[2])
    label, best = 0, stats[row, 0]
    for i in range(1, n_classes):
        if stats[row, i] > best:
            label, best = i, stats[row, i]
    counted = stats.shape[1] - n_classes
    errors = 0.0
    for i in range(n_classes):
        errors += stats[row, counted + i] if i != label else 0.0
    return -params[0] * errors - params[1] * sqrt(errors + stats[row, counted + label])
