"""The evidence from the levels of a tempered run: stepping stones, each by Bennett's acceptance ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ._special import expit, logsumexp

BLOCKS = 20
"""Blocks of draws left out in turn; each should be longer than draws depend on each other."""


class Tempering(NamedTuple):
    """What tempered chains found out about their ladders, and the evidence."""

    temperatures: np.ndarray
    """(chains, n): powers of the score, decreasing from 1."""
    scores: np.ndarray
    """(chains, draws, n): log score at each level, nats."""
    swap_rates: np.ndarray
    """(chains, n - 1): share of exchanges accepted between neighbours."""
    round_trips: np.ndarray
    """(chains,): trips of a replica from the last level to the first and back."""
    log_evidence: float | None
    """None where the ladder does not reach 0, or the prior's own constant is out of reach."""
    log_evidence_se: float | None
    is_stump: np.ndarray
    """(chains, draws) bool: whether the tree at the last level had one leaf."""


def gather(reports: Sequence[Any], log_prior_of_stump: float | None) -> Tempering:
    """Join the reports of chains.

    Parameters
    ----------
    reports : sequence of LadderReport
        One a chain, with equal numbers of draws and levels.
    log_prior_of_stump : float or None
        Under a prior that is not normalised, log prior of the tree of one leaf: its share of the draws at power 0
        tells the constant. None: the prior is normalised.

    Notes
    -----
    The evidence is the mean over chains; its standard error the larger of that within chains (a jackknife over blocks
    of draws) and that from the spread of the chains.
    """
    found = [_log_evidence(report, log_prior_of_stump) for report in reports]
    log_evidence = se = None
    if all(one is not None for one in found):
        each, errors = np.array(found).T
        log_evidence = float(logsumexp(each) - math.log(len(each)))
        within = math.sqrt((errors**2).sum()) / len(each)
        between = float(each.std(ddof=1)) / math.sqrt(len(each)) if len(each) > 1 else 0.0
        se = max(within, between)
    return Tempering(
        np.array([report.temperatures for report in reports]),
        np.array([report.scores for report in reports]),
        np.array([report.swap_rates for report in reports]),
        np.array([report.round_trips for report in reports]),
        log_evidence,
        se,
        np.array([report.is_stump for report in reports]),
    )


def _log_evidence(report: Any, log_prior_of_stump: float | None) -> tuple[float, float] | None:
    """Log evidence by one chain and its standard error, by leaving out one block of draws after another."""
    is_stump = report.is_stump.astype(float)
    if report.temperatures[-1] != 0.0 or (log_prior_of_stump is not None and not is_stump.any()):
        return None
    steps = -np.diff(report.temperatures)

    def estimate(kept: np.ndarray) -> float:
        scores = report.scores[kept]
        total = sum(log_ratio(d * scores[:, i], d * scores[:, i + 1]) for i, d in enumerate(steps))
        if log_prior_of_stump is not None:
            # a block may hold all the stumps there are
            total += log_prior_of_stump - math.log(max(is_stump[kept].mean(), 0.5 / len(scores)))
        return total

    n = len(report.scores)
    n_blocks = min(BLOCKS, n)
    block = np.arange(n) * n_blocks // n
    if n_blocks < 2:
        return estimate(block == 0), math.inf
    without = np.array([estimate(block != b) for b in range(n_blocks)])
    return estimate(block >= 0), math.sqrt((n_blocks - 1) * without.var())


def log_ratio(high: np.ndarray, low: np.ndarray) -> float:
    """Log ratio of the normalisers of two laws, from draws of both (Bennett 1976, equal numbers of draws).

    Parameters
    ----------
    high, low : ndarray of shape (n,)
        Log density of the first law relative to the second, at draws of the first and of the second.

    Examples
    --------
    >>> log_ratio(np.array([1.0, 1.0]), np.array([1.0, 1.0]))
    1.0
    """
    ends = min(high.min(), low.min()), max(high.max(), low.max())
    if ends[0] == ends[1]:
        return float(ends[0])
    from scipy.optimize import brentq

    return float(brentq(lambda c: expit(low - c).sum() - expit(c - high).sum(), *ends, xtol=1e-9))
