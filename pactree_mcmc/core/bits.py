"""Bit operations of both engines: hashes, sets of categories, and the side of a split to which a code goes.

A set of categories is an int64 in which bit j is set if category j is in the set. There are at most 63 categories, so
that the number is never negative.
"""

import numpy as np

from .compile.jit import jit


@jit
def hash_integer(x: int) -> int:
    """Return a hash of ``x``: a pseudo-random bijection of int64 (one step of SplitMix64)."""
    # sums of such hashes identify sets of rows, and other hashes are keys of tables
    z = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


@jit
def goes_left(code: int, cut: int, categories: int) -> int:
    """Return 1 if rows with this code go to the left child of a split, else 0."""
    # at a nominal split the categories whose bits are set go left; at an ordered one `categories` is -1
    return (categories >> code) & 1 if categories >= 0 else np.int64(code <= cut)


def codes_go_left(codes: np.ndarray, cut: int, categories: int) -> np.ndarray:
    """Return for codes (n,) a boolean array (n,), True if a code goes to the left child, without compiled code."""
    return (categories >> codes.astype(np.int64, copy=False)) & 1 == 1 if categories >= 0 else codes <= cut


@jit
def n_bits(mask: int) -> int:
    """Return the number of bits that are set in ``mask``, such as the number of categories in a set."""
    n = 0
    while mask:
        mask &= mask - 1
        n += 1
    return n


@jit
def deposit_bits(mask: int, pattern: int) -> int:
    """Return a subset of the bits set in ``mask``: the j-th lowest of them is in it if bit j of ``pattern`` is set."""
    # patterns 0, 1, ... number all subsets of a set of categories
    out = np.int64(0)
    while mask:
        lowest = mask & -mask
        if pattern & 1:
            out |= lowest
        pattern >>= 1
        mask &= mask - 1
    return out


@jit
def full_mask(n: int) -> int:
    half = np.int64(1) << (n - 1)
    return (half - 1) + half


@jit
def count_light_subsets(rows: np.ndarray, least: int) -> np.ndarray:
    """Return numbers of subsets of categories with few rows, to count splits that leave too few on a side."""
    # entry (j, t) of (n + 1, least + 1): subsets of the categories j, ..., n - 1 with fewer than t rows in all
    n = len(rows)
    out = np.zeros((n + 1, least + 1), dtype=np.int64)
    for j in range(n, -1, -1):
        for t in range(1, least + 1):
            if j == n:
                out[j, t] = 1
                continue
            # subsets without category j, and subsets with it, whose other categories have fewer than t - rows[j] rows
            out[j, t] = out[j + 1, t] + (out[j + 1, t - rows[j]] if t > rows[j] else 0)
    return out


@jit
def sort_first(values: np.ndarray, n: int) -> None:
    """Sort the first ``n`` values in place by Shell's method, which compiles fast."""
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
