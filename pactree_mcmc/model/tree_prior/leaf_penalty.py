"""A penalty on each leaf (formula sheet, section 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.checks import check_number, settle
from ...files.encoding import kept
from .base import FixedShape, check_depth


@kept
@dataclass(frozen=True)
class LeafPenalty:
    """Prior weight ``exp(-cost * n_leaves)`` of a tree (Nguyen and Kpotufe 2018); not normalised.

    Parameters
    ----------
    cost : float, default 1.0
        Penalty per leaf in nats, >= 0. The paper's theory takes three times the depth of the fixed tree.
    max_depth : int or None, default None
        Largest depth of a leaf; None: limited only by the splits.
    empty_cost : float or None, default None
        Penalty of a leaf whose cell has no rows; None: ``cost``. The paper uses 0 in practice.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> LeafPenalty(cost=2.0)
    LeafPenalty(cost=2.0, max_depth=None, empty_cost=None)
    """

    cost: float = 1.0
    max_depth: int | None = None
    empty_cost: float | None = None

    def __post_init__(self) -> None:
        for name in ("cost", "empty_cost"):
            value = getattr(self, name)
            if value is not None or name == "cost":
                settle(self, name, check_number(name, value, "a finite number >= 0", 0.0))
        check_depth(self.max_depth)

    def log_split(self, depth: Any, node: Any) -> Any:
        """Zero: splits have no factor, only leaves do."""
        return np.zeros(np.shape(depth))

    def log_stop(self, depth: Any, node: Any, *, forced: bool, empty: bool) -> Any:
        """Minus the penalty of the leaf, forced or not."""
        cost = self.empty_cost if empty and self.empty_cost is not None else self.cost
        return np.full(np.shape(depth), -float(cost))

    def log_constant(self, shape: FixedShape | None) -> float:
        """Zero: evidences are relative to the sum of the weights."""
        return 0.0

    def log_mass(self, n_splits: int, shape: FixedShape | None) -> float | None:
        """None: the sum of the weights depends on the cells."""
        return None
