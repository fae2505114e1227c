"""Sums of numbers that are given by their logs, without overflow: the one place that takes such sums.

Compiled code and Python call the compiled functions; `log_mean` is for arrays outside compiled code. A number of log
``-inf`` counts as 0, so an empty sum, or a sum of zeros, has log ``-inf``.
"""

from math import exp, inf, log, log1p
from typing import Any

import numpy as np

from .compile.jit import jit
from .special import logsumexp


@jit
def log_add(a: float, b: float) -> float:
    """Return the log of the sum of two numbers given by their logs, NaN if one of these is NaN."""
    low, high = (a, b) if a < b else (b, a)
    return low if high == -inf else high + log1p(exp(low - high))


@jit
def exp_sum(values: np.ndarray, n: int) -> tuple[float, float]:
    """Return the largest of the first ``n`` values, and the sum of the exponentials of their differences from it."""
    largest, total = -inf, 0.0
    for i in range(n):
        largest = max(largest, values[i])
    if largest > -inf:
        for i in range(n):
            total += exp(values[i] - largest)
    return largest, total


@jit
def log_sum(values: np.ndarray, n: int) -> float:
    """Return the log of the sum of the exponentials of the first ``n`` values."""
    largest, total = exp_sum(values, n)
    return largest + log(total) if total > 0.0 else -inf


@jit
def exp_into(out: np.ndarray, values: np.ndarray, n: int) -> float:
    """Write exponentials of the first ``n`` values, up to one factor, into ``out``, and return their sum.

    The largest becomes 1. If all values are ``-inf``, all become 0. ``out`` may be ``values``.
    """
    largest, total = -inf, 0.0
    for i in range(n):
        largest = max(largest, values[i])
    for i in range(n):
        out[i] = exp(values[i] - largest) if largest > -inf else 0.0
        total += out[i]
    return total


def log_mean(values: np.ndarray, axis: int | None = None) -> Any:
    """Return the log of the mean of the exponentials of an array, over one axis or over the whole array."""
    return logsumexp(values, axis=axis) - np.log(values.size if axis is None else values.shape[axis])
