"""Codes of leaf scores, leaf models in the form that compiled code uses, and scores that are called by address."""

from typing import NamedTuple

import numpy as np

from ...core.compile.address import call_at, call_at_with_params
from ...core.compile.jit import jit

# size of a difference, as a fraction of its terms, up to which the difference is rounding error
ROUNDING_FRACTION = 2.0**-48
# codes of leaf scores: class counts, Laplace on E, mean and variance unknown, variance known, counts, loss, variance
# shared by the leaves, and a function called by its address
DIRICHLET, LAPLACE, NORMAL, KNOWN_NORMAL, POISSON, LOSS, SHARED_NORMAL, BY_ADDRESS = range(8)


class LeafRule(NamedTuple):
    """Parameters of a leaf model in the form that compiled code uses."""

    kind: int  # one of the codes of this module
    params: np.ndarray  # float64, in the layout of the score function of the kind
    n_stats: int  # number of statistics of a cell
    # (r, m) float64: r functions of 0, ..., m - 1, tables for a score with integer weights; (1, 1) if unused
    lookup: np.ndarray

    @property
    def is_fixed(self) -> bool:
        """True if the parameters do not change during a run; False if the shared variance is drawn with the trees."""
        return self.kind != SHARED_NORMAL


@jit
def addressed_score(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Return the score in nats of the cell `stats[row]` by the function at an address; 0 if the cell has no weight."""
    # `params`: the address, the index of the first statistic that the function reads (1 after the weight of the cell, 0
    # if all statistics are weights), 1 if it has parameters, the parameters
    first, weight = np.int64(params[1]), stats[row, 0]
    if first == 0:
        for j in range(1, stats.shape[1]):
            weight += stats[row, j]
    if weight <= 0.0:
        return 0.0
    address, n = np.int64(params[0]), stats.shape[1] - first
    if params[2] > 0.0:
        return call_at_with_params(address, stats, row, first, n, params, np.int64(3))
    return call_at(address, stats, row, first, n)


@jit
def add_addressed_scores_into(out: np.ndarray, params: np.ndarray, stats: np.ndarray, n: int) -> None:
    """Add the score by the function whose address is ``params[0]`` of the first ``n`` cells to `out` (at least n,)."""
    for row in range(n):
        out[row] += addressed_score(params, stats, row)
