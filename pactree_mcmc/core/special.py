"""Sums of numbers that are given by their logs, and functions of scipy.special.

A log ``-inf`` represents the number 0, so that the log of an empty sum, or of a sum of zeros, is ``-inf``. Functions of
scipy.special are imported at the first call, since it takes longer to import than this library.
"""

from collections.abc import Callable
from math import exp, inf, log, log1p
from typing import Any

import numpy as np

from .compile.jit import jit


def _loaded_when_called(name: str) -> Callable[..., Any]:
    """Return a function that imports scipy.special when it is called, and calls its function ``name``."""

    def call(*args: Any, **more: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*args, **more)

    call.__name__ = call.__qualname__ = name
    return call


betainc = _loaded_when_called("betainc")
betaincc = _loaded_when_called("betaincc")
expit = _loaded_when_called("expit")
fdtrc = _loaded_when_called("fdtrc")
gammainc = _loaded_when_called("gammainc")
gammaincc = _loaded_when_called("gammaincc")
gammaln = _loaded_when_called("gammaln")
logsumexp = _loaded_when_called("logsumexp")
ndtri = _loaded_when_called("ndtri")
stdtrit = _loaded_when_called("stdtrit")


@jit
def log_add(a: float, b: float) -> float:
    low, high = (a, b) if a < b else (b, a)
    return low if high == -inf else high + log1p(exp(low - high))


@jit
def exp_sum(values: np.ndarray, n: int) -> tuple[float, float]:
    """Return the maximum m of the first ``n`` values, and the sum of ``exp(value - m)``; -inf and 0 if all are -inf."""
    # the log of the sum of exp(value) is m plus the log of the second number
    largest, total = -inf, 0.0
    for i in range(n):
        largest = max(largest, values[i])
    if largest > -inf:
        for i in range(n):
            total += exp(values[i] - largest)
    return largest, total


@jit
def log_sum_exp(values: np.ndarray, n: int) -> float:
    largest, total = exp_sum(values, n)
    return largest + log(total) if total > 0.0 else -inf


@jit
def exp_into(out: np.ndarray, values: np.ndarray, n: int) -> float:
    """Write ``exp(value - maximum)`` of the first ``n`` values to ``out``, and return the sum of these numbers."""
    largest, total = -inf, 0.0
    for i in range(n):
        largest = max(largest, values[i])
    for i in range(n):
        out[i] = exp(values[i] - largest) if largest > -inf else 0.0
        total += out[i]
    return total


def log_mean(values: np.ndarray, axis: int | None = None) -> Any:
    return logsumexp(values, axis=axis) - np.log(values.size if axis is None else values.shape[axis])
