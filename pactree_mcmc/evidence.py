"""The evidence from the levels of a tempered run, by stepping stones (Xie et al. 2011)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from .inference_data import ess


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
    The evidence is the mean over chains; its standard error the larger of that from effective sample sizes and that
    from the spread of the chains.
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
    )


def _log_evidence(report: Any, log_prior_of_stump: float | None) -> tuple[float, float] | None:
    if report.temperatures[-1] != 0.0:
        return None
    total, variance = 0.0, 0.0
    if log_prior_of_stump is not None:
        share = report.is_stump.mean()
        if share == 0.0:
            return None
        total = log_prior_of_stump - math.log(share)
        variance = (1.0 - share) / (share * max(ess(report.is_stump[None].astype(float)), 1.0))
    steps = -np.diff(report.temperatures)
    for i, step in enumerate(steps):
        ratio = step * report.scores[:, i + 1]
        largest = ratio.max()
        weight = np.exp(ratio - largest)
        total += largest + math.log(weight.mean())
        n = ess(weight[None])
        variance += (weight.std() / weight.mean()) ** 2 / max(n if np.isfinite(n) else 1.0, 1.0)
    return total, math.sqrt(variance)
