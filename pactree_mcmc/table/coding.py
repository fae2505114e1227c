"""Coding of the values of features as small unsigned integers, by the cut points of each feature.

A value of an ordered feature has code ``c`` if it is above cut ``c - 1`` and not above cut ``c``, so that
``x <= cuts[a]`` and ``code <= a`` are equivalent. The code of a nominal feature is the index of its category.

A *coordinate* is a feature as splits use it. A feature with missing values has two coordinates (see `Columns`): missing
values are -inf in one, +inf in the other. Under local cuts they have a code of their own there, so that a cut may
separate them from all other values; otherwise they have the outermost code. A *cut* is given as the largest code that
goes left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.compile.jit import jit
from ..files.encoding import register_class
from .columns import Columns, category_codes, nominal_labels
from .reader import Table
from .words import shortest_between

MANY_ROWS = 500_000  # number of rows from which codes may have one byte
LARGEST_FLOAT = float(np.finfo(np.float64).max)  # largest finite float64


@register_class
class Scale(NamedTuple):
    """Cut points of one coordinate, which define the codes of its values."""

    cuts: np.ndarray  # (n_codes - 1,) increasing thresholds; empty for a nominal feature
    # (n_codes,) smallest training value of each code under local cuts, whose thresholds depend on the values in the
    # cell; else empty
    low: np.ndarray
    high: np.ndarray  # (n_codes,) largest training value of each code under local cuts; else empty
    n_codes: int  # number of codes

    def threshold(self, cut: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Return the thresholds (m,) of m splits, each of which sends codes up to ``cut[i]`` left."""
        # NaN if the split separates missing from known values, infinite if it sends all values to one side
        out = np.full(len(cut), np.inf)
        out[cut < 0] = -np.inf
        inner = (cut >= 0) & (upper < self.n_codes)
        if len(self.low):
            low, high = self.high[cut[inner]], self.low[upper[inner]]
            out[inner] = np.where(np.isinf(low) | np.isinf(high), np.nan, midpoint(low, high))
        else:
            out[inner] = self.cuts[cut[inner]]
        return out

    def between(self, cut: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Return the training values (m, 2) beside the cuts between codes ``cut``, ``upper`` (m,); NaN if unknown."""
        out = np.full((len(cut), 2), np.nan)
        inner = (cut >= 0) & (upper < self.n_codes)
        if len(self.low):
            out[inner] = np.column_stack([self.high[cut[inner]], self.low[upper[inner]]])
            out[np.isinf(out).any(axis=1)] = np.nan
        return out

    def encode(self, x: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.cuts, x, side="left")

    def numbers(self, codes: np.ndarray) -> np.ndarray:
        """Return for each of the ``codes`` (m,) a value of this coordinate with the code, float64 (m,), maybe inf."""
        return (self.low if len(self.low) else np.append(self.cuts, np.inf))[codes]

    def cut_of(self, threshold: float) -> int | None:
        """Return the largest code that goes left under ``threshold``, -1 if no code does."""
        # NaN is the split of missing from known values
        if np.isnan(threshold):
            lacks_below, lacks_above = (len(self.low) > 0 and self.low[i] == s for i, s in ((0, -np.inf), (-1, np.inf)))
            return 0 if lacks_below else self.n_codes - 2 if lacks_above else None
        if threshold == -np.inf:
            return -1
        if threshold == np.inf:
            return self.n_codes - 1
        if len(self.low):
            cut = int(np.searchsorted(self.high, threshold, side="right")) - 1
            return cut if cut + 1 == self.n_codes or self.low[cut + 1] > threshold else None
        cut = int(np.searchsorted(self.cuts, threshold))
        return cut if cut < len(self.cuts) and self.cuts[cut] == threshold else None


@register_class
@dataclass(frozen=True, eq=False)
class DyadicScale:
    """Cut points of a coordinate that divide ``[lower, upper]`` into ``2 ** levels`` equal parts, not stored."""

    lower: float
    upper: float
    levels: int

    @property
    def n_codes(self) -> int:
        return 1 << self.levels

    def threshold(self, cut: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Return the thresholds (m,) of splits that send codes up to ``cut`` (m,) left; ``upper`` is not used."""
        fraction = (np.asarray(cut, dtype=np.float64) + 1.0) / self.n_codes
        return self.lower * (1.0 - fraction) + self.upper * fraction

    def between(self, cut: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Return NaN (m, 2): the training values on either side of the thresholds are not stored."""
        return np.full((len(cut), 2), np.nan)

    def numbers(self, codes: np.ndarray) -> np.ndarray:
        """Return for each of the ``codes`` (m,) a value of this coordinate that has the code, float64 (m,)."""
        return self.threshold(codes, codes)

    def cut_of(self, threshold: float) -> int | None:
        """Return the largest code that goes left under ``threshold``; None if that is not a cut, as NaN and inf."""
        low, high = 0, self.n_codes
        while high - low >= 2:
            middle = (low + high) // 2
            cut_value = float(self.threshold(np.array([middle - 1]), np.array([middle]))[0])
            if threshold == cut_value:
                return middle - 1
            low, high = (low, middle) if threshold < cut_value else (middle, high)
        return None

    def encode(self, x: np.ndarray) -> np.ndarray:
        """Return the codes (n,) of values `x`, outside the bounds those of the outermost cells."""
        # each value is compared with one midpoint after another, as in a tree, so that codes and thresholds agree even
        # if rounding makes thresholds equal
        return dyadic_codes(x, self.lower, self.upper, self.levels)


@jit
def dyadic_codes(x: np.ndarray, lower: float, upper: float, levels: int) -> np.ndarray:
    """Return the codes (n,) int64 of values ``x`` (n,): indices among ``2**levels`` equal parts of [lower, upper]."""
    # by bisection, the highest bit first
    out = np.empty(len(x), dtype=np.int64)
    n_codes = np.int64(1) << levels
    for i in range(len(x)):
        code, half = np.int64(0), n_codes >> 1
        for _ in range(levels):
            fraction = float(code + half) / n_codes
            if x[i] > lower * (1.0 - fraction) + upper * fraction:
                code += half
            half >>= 1
        out[i] = code
    return out


AnyScale = Scale | DyadicScale


def nominal_scale(n_categories: int) -> Scale:
    return Scale(np.empty(0), np.empty(0), np.empty(0), n_categories)


def scale_from_cuts(cuts: np.ndarray) -> Scale:
    """Return the scale with the increasing thresholds ``cuts`` (m,), thus m + 1 codes, without values of the data."""
    return Scale(np.array(cuts, dtype=np.float64), np.empty(0), np.empty(0), len(cuts) + 1)


def local_scale(x: np.ndarray, max_cuts: int | None) -> Scale:
    """Return the scale of a coordinate with training values `x` under local cuts, cuts between values of a cell."""
    # an infinite value, which stands for a missing one, has a code of its own
    bins = quantile_bins(x[np.isfinite(x)], max_cuts)
    values = bins.values
    low, high = values[bins.starts], values[np.append(bins.starts[1:], len(values)) - 1]
    if np.any(x == -np.inf):
        low, high = np.append(-np.inf, low), np.append(-np.inf, high)
    if np.any(x == np.inf):
        low, high = np.append(low, np.inf), np.append(high, np.inf)
    return Scale(midpoint(high[:-1], low[1:]), low, high, len(low))


def quantile_scale(x: np.ndarray, max_cuts: int) -> Scale:
    """Return the scale with at most ``max_cuts`` cuts, at quantiles of the finite values of ``x`` (n,)."""
    # a cut is the shortest decimal number between two neighbouring values (`shortest_between`)
    bins = quantile_bins(x[np.isfinite(x)], max_cuts)
    starts = bins.starts[1:]
    low, high = bins.values[starts - 1], bins.values[starts]
    # the smallest number above `low`: a cut at a value itself would be far from the midpoint
    ends = np.nextafter(low, np.inf).tolist(), high.tolist(), midpoint(low, high).tolist()
    return scale_from_cuts(np.array([float(shortest_between(*three)) for three in zip(*ends, strict=True)]))


class _Bins(NamedTuple):
    """Distinct values of a sample, in bins of neighbouring values."""

    values: np.ndarray  # (m,): the distinct values, ascending
    starts: np.ndarray  # (n_bins,) int64: index in ``values`` of the smallest value of each bin, ascending from 0


def quantile_bins(x: np.ndarray, max_cuts: int | None) -> _Bins:
    """Return at most ``max_cuts + 1`` bins of the values ``x`` (n,) of rows, with about equal numbers of rows."""
    values, counts = np.unique(x, return_counts=True)
    if max_cuts is None or len(values) <= max_cuts + 1:
        return _Bins(values, np.arange(len(values)))
    ends = np.cumsum(counts)
    ranks = np.arange(1, max_cuts + 1) * len(x) / (max_cuts + 1)
    starts = np.unique(np.searchsorted(ends, ranks, side="left") + 1)
    return _Bins(values, np.concatenate([[0], starts[starts < len(values)]]))


def midpoint(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the midpoints m (n,) of ``a < b``, (n,) each, with ``a <= m < b``; ``a`` if rounding leaves none."""
    middle = a / 2.0 + b / 2.0
    return np.where((middle < b) & (middle >= a), middle, a)


def code_type(n_codes: int, n_rows: int) -> type:
    """Return the smallest NumPy type of unsigned integers that holds codes 0 to ``n_codes - 1``."""
    # functions are compiled for each type, which costs more time than one byte saves in a small table
    if n_codes <= 1 << 8 and n_rows >= MANY_ROWS:
        return np.uint8
    return np.uint16 if n_codes <= 1 << 16 else np.uint32


def encode(table: Table, columns: Columns, scales: list[AnyScale]) -> np.ndarray:
    """Return the codes (q, n), of `code_type`, of the n rows of the training ``table`` in q coordinates."""
    kind = code_type(max(s.n_codes for s in scales), table.n_rows)
    codes: np.ndarray = np.empty((len(scales), table.n_rows), dtype=kind)
    for c, (k, scale) in enumerate(zip(columns.source, scales, strict=True)):
        raw, categories = table.column(k), columns.categories[k]
        if categories is not None:
            codes[c] = category_codes(nominal_labels(raw, columns.names[k], columns.branches), categories)
        else:
            codes[c] = scale.encode(columns.ordered_coordinate(raw, c))
    return codes
