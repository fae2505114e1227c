"""Ranks of a value among draws, and a test that they are uniform."""

import numpy as np
from scipy import stats

TIE = 1e-9
"""Numbers no further apart, relative to their size, count as equal, since two programs compute one score."""


def rank_of(value, draws, rng):
    """Return the number of draws below the value, 0, ..., len(draws). Among ties the place is random."""
    gap = np.asarray(draws, dtype=float) - value
    near = TIE * max(1.0, abs(value))
    return int(np.sum(gap < -near) + rng.integers(0, np.sum(np.abs(gap) <= near) + 1))


def uniformity(ranks, n_ranks, n_bins):
    """Return the chi-square p value for uniform ``ranks`` in 0, ..., n_ranks - 1, joined into ``n_bins`` bins."""
    counts = np.bincount(np.asarray(ranks) * n_bins // n_ranks, minlength=n_bins)
    return float(stats.chisquare(counts).pvalue)


def band(n, n_bins, level):
    """Return an interval that has all ``n_bins`` counts of ``n`` uniform ranks with probability ``level`` or more."""
    return stats.binom.interval(1.0 - (1.0 - level) / n_bins, n, 1.0 / n_bins)
