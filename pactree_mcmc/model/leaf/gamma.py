"""Differences of log gamma functions and related functions without cancellation, for arrays and compiled code."""

from __future__ import annotations

import math
from math import lgamma, log, log1p

import numpy as np

from ...core import portable
from ...core.compile.jit import jit

SERIES_START = 16.0  # smallest x for which the series in `stirling_rest` is exact to the last bit
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def stirling_rest(x: np.ndarray) -> np.ndarray:
    """Return the error of Stirling's formula, lgamma(x) - [(x - 1/2) log x - x + log(2 pi) / 2], for x > 0."""
    # differences of log gamma functions are computed with it, so that the large terms of the formula can be cancelled
    x = np.asarray(x, dtype=np.float64)
    large = np.maximum(x, SERIES_START)
    z = 1.0 / large**2
    series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z / 1188.0)))) / large
    if np.all(x >= SERIES_START):
        return series
    small = np.minimum(x, SERIES_START)
    stirling = (small - 0.5) * portable.log(small) - small + HALF_LOG_TWO_PI
    return np.where(x < SERIES_START, portable.log_gamma(small) - stirling, series)


def log_gamma_ratio(x: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return ``lgamma(x + step) - lgamma(x)`` for x > 0 and step >= 0, accurate for any size of x and step."""
    rest = stirling_rest(x + step) - stirling_rest(x)
    return (x - 0.5) * portable.log1p(step / x) + step * portable.log(x + step) - step + rest


def log_fractions(parts: np.ndarray) -> np.ndarray:
    """Return ``log(parts / parts.sum())`` for parts (K,) > 0, accurate for a fraction close to one."""
    others = parts.sum() - parts
    largest = int(np.argmax(parts))
    others[largest] = np.delete(parts, largest).sum()
    return -portable.log1p(others / parts)


def poisson_kl(s: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Return ``s log(s / m) - s + m``, for s >= 0 and m > 0."""
    # the log density of s events under a Poisson distribution of mean s minus that under mean m
    relative = (s - m) / m
    is_close = np.abs(relative) < 0.5
    close_terms = s * portable.log1p(np.where(is_close, relative, 0.0))
    other_terms = s * portable.log(np.where(s > 0.0, s / m, 1.0))
    return np.where(is_close, close_terms, other_terms) - (s - m)


@jit
def scalar_stirling_rest(x: float) -> float:
    """Return ``lgamma(x) - [(x - 1/2) log x - x + log(2 pi) / 2]`` for a number x > 0, in compiled code."""
    if x < SERIES_START:
        return lgamma(x) - (x - 0.5) * log(x) + x - HALF_LOG_TWO_PI
    z = 1.0 / (x * x)
    return (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z / 1188.0)))) / x


@jit
def scalar_poisson_kl(s: float, m: float) -> float:
    """Return ``s log(s / m) - s + m`` for two numbers s > 0 and m > 0, in compiled code."""
    relative = (s - m) / m
    return (s * log1p(relative) if abs(relative) < 0.5 else s * log(s / m)) - (s - m)
