"""The codes of the leaf scores, and a leaf model as compiled code takes it."""

from typing import NamedTuple

import numpy as np

ROUNDING = 2.0**-48
"""Differences smaller than this fraction of their terms are rounding."""
DIRICHLET, LAPLACE, NORMAL, KNOWN_NORMAL, POISSON, LOSS, SHARED_NORMAL, BY_ADDRESS = range(8)


class LeafRule(NamedTuple):
    """A leaf model, lowered."""

    kind: int
    """One of the codes of this module."""
    params: np.ndarray
    """float64, the layout is that of the kind's score function below."""
    n_stats: int
    """How many numbers describe a cell."""
    lookup: np.ndarray
    """(r, m) float64: functions of 0, ..., m - 1 that the score needs, for whole weights; (1, 1) if unused."""

    @property
    def is_fixed(self) -> bool:
        """Whether the parameters stay as they are throughout a run."""
        return self.kind != SHARED_NORMAL
