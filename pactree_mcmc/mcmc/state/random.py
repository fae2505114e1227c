"""Random choices of the moves. No move draws from the generator itself, so that tests can follow every outcome."""

from math import exp

import numpy as np

from ...core.compile.jit import jit


@jit
def flip(rng: np.random.Generator, probability: float) -> bool:
    """Return True with the given probability."""
    return rng.random() < probability


@jit
def flip_log(rng: np.random.Generator, log_ratio: float) -> bool:
    """Return True with probability ``min(1, exp(log_ratio))``, and False if that is NaN.

    The function always draws a number, so that later draws do not depend on the last bit of a ratio of 1.
    """
    return flip(rng, 1.0 if log_ratio >= 0.0 else exp(log_ratio))


@jit
def pick(rng: np.random.Generator, n: int) -> int:
    """Return one of 0, ..., n - 1, with equal probabilities."""
    return rng.integers(0, n)


@jit
def pick_subset(rng: np.random.Generator, bits: int) -> int:
    """Return a random subset of the 1 bits of the integer ``bits``. Keep each with probability 1/2, lowest first."""
    subset = np.int64(0)
    while bits:
        if flip(rng, 0.5):
            subset |= bits & -bits
        bits &= bits - 1
    return subset


@jit
def pick_weighted(rng: np.random.Generator, weight: np.ndarray, total: float) -> int:
    """Return an index drawn in proportion to ``weight``, whose sum is ``total``, or -1 if no weight is positive."""
    u = rng.random() * total
    last = -1
    for k in range(len(weight)):
        if weight[k] > 0.0:
            last = k
            if u < weight[k]:
                return k
            u = u - weight[k]
    return last
