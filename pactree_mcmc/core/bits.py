"""Small compiled helpers both engines use, and which way a code goes at a split.

Sets of categories are bits of an int64; there are at most 63 categories, so the sign bit stays clear.
"""

import numpy as np

from .compile.jit import jit


@jit
def mixed(x: int) -> int:
    """Returns a pseudo-random number, a bijection of the given one (the last steps of SplitMix64)."""
    z = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


@jit
def goes_left(code: int, cut: int, categories: int) -> int:
    """Whether a code goes left, 1 or 0: if its bit is in ``categories``, or, where these are -1, up to ``cut``."""
    return (categories >> code) & 1 if categories >= 0 else np.int64(code <= cut)


@jit
def n_bits(mask: int) -> int:
    """Returns the number of bits set."""
    n = 0
    while mask:
        mask &= mask - 1
        n += 1
    return n


@jit
def spread_bits(mask: int, pattern: int) -> int:
    """The bits set in ``mask`` that ``pattern`` selects, whose bit j stands for the j-th of them."""
    out = np.int64(0)
    while mask:
        lowest = mask & -mask
        if pattern & 1:
            out |= lowest
        pattern >>= 1
        mask &= mask - 1
    return out


@jit
def all_bits(n: int) -> int:
    """The lowest ``n`` bits, 1 <= n <= 63."""
    half = np.int64(1) << (n - 1)
    return (half - 1) + half


@jit
def low_sums(rows: np.ndarray, least: int) -> np.ndarray:
    """Returns an array whose entry (j, t) is the number of subsets of the categories j, j + 1, ... with fewer than t
    rows.
    """
    n = len(rows)
    out = np.zeros((n + 1, least + 1), dtype=np.int64)
    for j in range(n, -1, -1):
        for t in range(1, least + 1):
            if j == n:
                out[j, t] = 1
                continue
            out[j, t] = out[j + 1, t] + (out[j + 1, t - rows[j]] if t > rows[j] else 0)
    return out


@jit
def sort_first(values: np.ndarray, n: int) -> None:
    """Sort the first ``n`` values in place (Shell's method; compiles in no time)."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            value, j = values[i], i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap //= 3
