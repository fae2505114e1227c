"""The codes of the leaf scores, a leaf model as compiled code takes it, and scores that are called by address."""

from typing import NamedTuple

import numpy as np

from ...core.compile.address import call_at, call_at_with
from ...core.compile.jit import jit

ROUNDING = 2.0**-48
"""Differences smaller than this fraction of their terms are rounding."""
DIRICHLET, LAPLACE, NORMAL, KNOWN_NORMAL, POISSON, LOSS, SHARED_NORMAL, BY_ADDRESS = range(8)


class LeafRule(NamedTuple):
    """A leaf model as compiled code takes it."""

    kind: int
    """One of the codes of this module."""
    params: np.ndarray
    """float64, in the layout of the score function of the kind."""
    n_stats: int
    """Number of statistics of a cell."""
    lookup: np.ndarray
    """(r, m) float64: functions of 0, ..., m - 1 that the score needs for whole weights; (1, 1) if unused."""

    @property
    def is_fixed(self) -> bool:
        """True if the parameters do not change during a run."""
        return self.kind != SHARED_NORMAL


@jit
def addressed_score(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Return the score by a function that is called by its address; 0 if the cell has no weight.

    ``params``: the address, the number of the first statistic that the function sees, 1 if it has parameters, the
    parameters. The function does not see the weight if this is a statistic by itself. If it sees all statistics, these
    are weights.
    """
    first, weight = np.int64(params[1]), stats[row, 0]
    if first == 0:
        for j in range(1, stats.shape[1]):
            weight += stats[row, j]
    if weight <= 0.0:
        return 0.0
    address, n = np.int64(params[0]), stats.shape[1] - first
    if params[2] > 0.0:
        return call_at_with(address, stats, row, first, n, params, np.int64(3))
    return call_at(address, stats, row, first, n)


@jit
def add_addressed_scores_into(out: np.ndarray, params: np.ndarray, stats: np.ndarray, n: int) -> None:
    """Add `addressed_score` of the first ``n`` rows of ``stats`` to ``out``."""
    for row in range(n):
        out[row] += addressed_score(params, stats, row)
