"""Chipman, George and McCulloch's prior (formula sheet, section 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.checks import BELOW_ONE, check_number, settle
from ...files.encoding import kept
from .base import FixedShape, check_depth


@kept
@dataclass(frozen=True)
class ChipmanPrior:
    """Split probability ``alpha (1 + depth)^(-beta)`` (Chipman, George and McCulloch 1998).

    A node at ``max_depth``, or in a cell without admissible split, is a leaf with probability one.

    Parameters
    ----------
    alpha : float, default 0.95
        Split probability of the root, in [0, 1).
    beta : float, default 2.0
        How fast the split probability decreases with depth, >= 0.
    max_depth : int or None, default None
        Largest depth of a leaf; None: limited only by the splits.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> ChipmanPrior(alpha=0.95, beta=1.0)
    ChipmanPrior(alpha=0.95, beta=1.0, max_depth=None)
    """

    alpha: float = 0.95
    beta: float = 2.0
    max_depth: int | None = None

    def __post_init__(self) -> None:
        settle(self, "alpha", check_number("alpha", self.alpha, "0 <= alpha < 1", 0.0, BELOW_ONE))
        settle(self, "beta", check_number("beta", self.beta, "a finite beta >= 0", 0.0))
        check_depth(self.max_depth)

    def log_split(self, depth: Any, node: Any) -> Any:
        """Log probability that a node that can be split is split."""
        return (math.log(self.alpha) if self.alpha > 0.0 else -math.inf) - self.beta * np.log1p(depth)

    def log_stop(self, depth: Any, node: Any, *, forced: bool, empty: bool) -> Any:
        """Log probability of a leaf; ``forced`` when it cannot be split or lies at ``max_depth``."""
        return np.zeros(np.shape(depth)) if forced else np.log1p(-self.alpha * (1.0 + depth) ** -self.beta)

    def log_constant(self, shape: FixedShape | None) -> float:
        """Zero: the prior is normalised."""
        return 0.0

    def log_mass(self, n_splits: int, shape: FixedShape | None) -> float | None:
        """Zero: the prior sums to one, whatever the splits."""
        return 0.0
