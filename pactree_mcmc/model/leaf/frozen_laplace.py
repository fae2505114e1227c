"""Class probabilities frozen on the rows of E (formula sheet, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p
from typing import Self

import numpy as np

from ...core.compile.jit import jit
from ...files.encoding import kept
from . import codes
from .base import check_positive, settle_parameters
from .gamma import log_fractions
from .of_classes import ClassLeaf
from .target import Target


@kept
@dataclass(frozen=True, eq=False)
class FrozenLaplace(ClassLeaf):
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
        settle_parameters(self, "pseudocount")

    def resolve(self, target: Target) -> Self:
        if target.estimation is None:
            raise ValueError("FrozenLaplace needs estimation=: a boolean mask (n,) of the rows that freeze the leaves.")
        if not target.estimation.any():
            raise ValueError(
                "the estimation mask selects no row; FrozenLaplace would learn nothing: mark some as True."
            )
        return self

    def params(self, target: Target) -> np.ndarray:
        return np.array([float(self.pseudocount)])

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        tested = stats[target.n_classes :]
        return float((tested * log_fractions(stats[: target.n_classes] + self.pseudocount)).sum())

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        counts = stats[:, : target.n_classes] + self.pseudocount
        return counts / counts.sum(axis=1, keepdims=True)

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
    ) -> np.ndarray:
        return self.labelled(rng, self.value(stats, target), leaf)


@jit
def laplace_score(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Compiled score; ``params``: pseudocount; ``stats``: weights of E by class, then of S by class."""
    n_classes = stats.shape[1] // 2
    total, score = 0.0, 0.0
    for i in range(n_classes):
        total += stats[row, i] + params[0]
    for i in range(n_classes):
        b, part = stats[row, n_classes + i], stats[row, i] + params[0]
        if b > 0.0:
            others = total - part
            if others < part:
                others = 0.0
                for j in range(n_classes):
                    if j != i:
                        others += stats[row, j] + params[0]
            score -= b * log1p(others / part)
    return score
