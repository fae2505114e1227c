"""Differences of log gamma functions and related functions without cancellation, for arrays and compiled code."""

from __future__ import annotations

import math
from math import lgamma, log, log1p

import numpy as np

from ...core.compile.jit import jit
from ...core.special import gammaln, xlogy

FAR = 16.0
"""Least x for which the series below is exact to the last bit."""
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def stirling_rest(x: np.ndarray) -> np.ndarray:
    """Return the error of Stirling's formula, ``lgamma(x) - [(x - 1/2) log x - x + log(2 pi) / 2]``, for x > 0."""
    x = np.asarray(x, dtype=np.float64)
    far = np.maximum(x, FAR)
    z = 1.0 / far**2
    series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z / 1188.0)))) / far
    if np.all(x >= FAR):
        return series
    near = np.minimum(x, FAR)
    return np.where(x < FAR, gammaln(near) - (near - 0.5) * np.log(near) + near - HALF_LOG_TWO_PI, series)


def log_gamma_ratio(x: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return ``lgamma(x + step) - lgamma(x)`` for x > 0 and step >= 0, accurate for any size of x and step."""
    rest = stirling_rest(x + step) - stirling_rest(x)
    return (x - 0.5) * np.log1p(step / x) + step * np.log(x + step) - step + rest


def log_fractions(parts: np.ndarray) -> np.ndarray:
    """Return ``log(parts / parts.sum())`` for parts (K,) > 0, accurate for a fraction close to one."""
    others = parts.sum() - parts
    largest = int(np.argmax(parts))
    others[largest] = np.delete(parts, largest).sum()
    return -np.log1p(others / parts)


def divergence(s: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Return ``s log(s / m) - s + m``, for s >= 0 and m > 0.

    This is the log density of s events under a Poisson distribution of mean s minus that under mean m.
    """
    apart = (s - m) / m
    near = np.abs(apart) < 0.5
    return np.where(near, s * np.log1p(np.where(near, apart, 0.0)), xlogy(s, s / m)) - (s - m)


@jit
def scalar_stirling_rest(x: float) -> float:
    """Return `stirling_rest` of a number, in compiled code."""
    if x < FAR:
        return lgamma(x) - (x - 0.5) * log(x) + x - HALF_LOG_TWO_PI
    z = 1.0 / (x * x)
    return (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z / 1188.0)))) / x


@jit
def scalar_divergence(s: float, m: float) -> float:
    """Return `divergence` of two numbers, in compiled code."""
    apart = (s - m) / m
    return (s * log1p(apart) if abs(apart) < 0.5 else s * log(s / m)) - (s - m)
