"""Functions of arrays that give the same numbers on every processor: whatever a draw depends on uses them.

NumPy, SciPy and BLAS have variants for each kind of processor, which differ in the last digit. Here the C library is
called for one number after the other, and numbers are added without rounding errors.
"""

import math
from math import exp as scalar_exp
from math import inf, pow
from math import log as scalar_log
from math import log1p as scalar_log1p
from typing import Any

import numpy as np

from .compile.jit import jit
from .special import gammaln

EXP, LOG, LOG1P, POWER = range(4)
MAX_EXPONENT = 709.0  # argument from which on exp counts as infinite


def exp(x: Any) -> Any:
    return _apply(EXP, x)


def log(x: Any) -> Any:
    return _apply(LOG, x)


def log1p(x: Any) -> Any:
    return _apply(LOG1P, x)


def log_gamma(x: Any) -> Any:
    """Return the log of the gamma function at x > 0. SciPy has one variant of it, which works number by number."""
    return gammaln(x)


def power(x: Any, exponent: float) -> Any:
    return x if exponent == 1.0 else _apply(POWER, x, exponent)


def weighted_sum(weights: np.ndarray, values: np.ndarray) -> float:
    """Return the sum of ``weights * values`` (n,), rounded once."""
    terms = weights * values
    try:
        return math.fsum(terms.tolist())
    except (OverflowError, ValueError):  # an infinite partial sum, or inf - inf
        return float(terms.sum())


def round_fitted(x: np.ndarray) -> np.ndarray:
    """Return the numbers rounded to six significant digits, so that their last digits cannot reach a decision."""
    return np.array([float(f"{number:.6g}") for number in x.ravel().tolist()]).reshape(x.shape)


def _apply(function: int, x: Any, exponent: float = 1.0) -> Any:
    x = np.asarray(x, dtype=np.float64)
    out = np.empty(x.size)
    _apply_into(out, np.ascontiguousarray(x).ravel(), np.int64(function), float(exponent))
    return out.reshape(x.shape)[()]


@jit
def _apply_into(out: np.ndarray, x: np.ndarray, function: int, exponent: float) -> None:
    """Write a function of each number of ``x`` (n,) into ``out`` (n,). Python raises where C returns infinity."""
    for i in range(len(x)):
        value = x[i]
        if function == EXP:
            out[i] = scalar_exp(value) if not value > MAX_EXPONENT else inf
        elif function == LOG:
            out[i] = scalar_log(value) if value != 0.0 else -inf
        elif function == LOG1P:
            out[i] = scalar_log1p(value) if value != -1.0 else -inf
        else:
            out[i] = pow(value, exponent)
