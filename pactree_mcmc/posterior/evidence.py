"""Estimates of the log evidence, from the levels of a tempered run, or by combining several teams of chains.

The ratio of normalisers of two neighbouring levels of a tempered run is estimated by Bennett's acceptance ratio. The
product of these ratios, the stepping stones, is the evidence. A team is a group of chains that tuned together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.logsum import log_mean
from ..core.names import with_short_repr
from ..core.special import expit, fdtrc, stdtrit
from ..core.warn import warn
from ..files.encoding import register_class
from ..tree.arrays import LEAF
from ..tree.tree import Tree
from .ess import FEWEST_PER_CHAIN, ConvergenceWarning, autocorrelation_times

if TYPE_CHECKING:
    from ..model import TreeModel

BLOCK_TIMES = 2.0
"""Smallest length of a block of draws, in autocorrelation times."""
FEWEST_BLOCKS = 10
"""Number of blocks of all chains below which no error is reported."""
MOST_BLOCKS = 100
"""Largest number of blocks of all chains. In longer blocks an underestimated autocorrelation time matters less."""
FEWEST_STUMPS = 10.0
"""Effective number of stumps among draws at inverse temperature 0 below which no error is reported."""
APART = 0.05
"""Level of the F test for a difference between chains, given the errors within chains."""
COVERED = 0.95
"""Coverage that an interval of plus or minus two reported standard errors is to have."""
LEAST_ERROR = 1e-6
"""Smallest standard error of the log evidence of a team, in nats."""
DIFFERENCE_ERRORS, SMALLEST_DIFFERENCE = 4.0, 0.1
"""Number of standard errors, and of nats, by which the log evidences of two teams must differ to be reported."""


@register_class
@with_short_repr
class Tempering(NamedTuple):
    """Diagnostics of the ladders of inverse temperatures of tempered chains, and the evidence."""

    betas: np.ndarray
    """(chains, n): inverse temperature of each level, decreasing from 1: level b draws from prior * likelihood^b."""
    scores: np.ndarray
    """(chains, draws, n): log likelihood score of the tree at each level, nats."""
    swap_rates: np.ndarray
    """(chains, n - 1): mean acceptance probability of exchanges between neighbouring levels."""
    round_trips: np.ndarray
    """(chains,): number of arrivals at the first level, of replicas that were at the last one in between."""
    log_evidence: float | None
    """Log evidence, nats; None if the ladder does not reach 0, or the mass of the prior cannot be estimated."""
    log_evidence_se: float | None
    """Standard error of ``log_evidence``; None if the draws are too few to estimate it.

    Plus or minus two standard errors cover 95 %, because a quantile of Student's t is included."""
    is_stump: np.ndarray
    """(chains, draws) bool: True if the tree at the last level has one leaf."""


class PriorMass(NamedTuple):
    """The mass of a prior, its sum over all trees, or what is needed to estimate the mass from draws of the prior."""

    log_mass: float | None
    """Log of the sum; None if the fraction of stumps among draws of the prior must estimate it."""
    log_stump: float
    """Log prior of the stump, the tree of one leaf."""

    def log_from(self, stump_fraction: float) -> float | None:
        """Return the log mass. If it is unknown, estimate it by log prior(stump) - log(fraction of stumps).

        ``stump_fraction`` is the fraction of stumps among draws of the prior. None if it is needed and 0.
        """
        if self.log_mass is not None:
            return self.log_mass
        return self.log_stump - math.log(stump_fraction) if stump_fraction > 0.0 else None


def prior_mass(model: TreeModel) -> PriorMass:
    """Return the mass of the model's tree prior, unknown if it depends on which splits each cell has."""
    fewest = model.split_prior.fewest_splits(model.columns)
    log_stump = model.log_prior(Tree([LEAF], [0.0], [0], [0]))
    return PriorMass(model.tree_prior.log_mass(fewest, model.shape), log_stump)


def evidence_constant(model: TreeModel) -> float:
    """Return the log evidence minus the log of the sum over trees of the weights that compiled code computes, nats.

    The compiled weights omit constants of the prior and do not divide by its mass. An unknown mass counts as 1.
    """
    return float(model.lowered.prior.log_constant) - (prior_mass(model).log_mass or 0.0)


def gather(reports: Sequence[Any], mass: PriorMass) -> Tempering:
    """Join the reports of tempered chains, ``LadderReport`` each, with equal numbers of draws and levels.

    ``mass`` is that of the prior, the distribution at inverse temperature 0. Warn if the evidence is known but the
    draws are too few to estimate its error.

    The evidence is the mean over chains. To first order its log is a mean over draws of a number, the sum of the
    effects of the draw on the ratios of all levels. The error of that mean comes from blocks of draws, each at least
    twice as long as the longest autocorrelation time of that number and of the scores at each level. If an F test finds
    the chains further apart than their blocks explain, the error comes from the variance between chains instead. It is
    multiplied by half the quantile of Student's t for the number of blocks or chains, so that plus or minus two
    standard errors cover 95 %.
    """
    scores = np.array([report.scores for report in reports])
    is_stump = np.array([report.is_stump for report in reports])
    log_evidence = se = None
    log_mass = mass.log_from(float(is_stump.mean())) if is_stump.size else None
    if log_mass is not None and all(report.betas[-1] == 0.0 for report in reports):
        by_chain = [_ratio_and_gain(report) for report in reports]
        each, gain, overlap = (np.array(part) for part in zip(*by_chain, strict=True))
        log_evidence = float(log_mean(each)) + log_mass
        if mass.log_mass is None:
            away = is_stump / is_stump.mean() - 1.0
            each, gain = each - away.mean(axis=1), gain - away
        se = _error(each, gain, overlap.mean(), scores, is_stump if mass.log_mass is None else None)
    return Tempering(
        np.array([report.betas for report in reports]),
        scores,
        np.array([report.swap_rates for report in reports]),
        np.array([report.round_trips for report in reports]),
        log_evidence,
        se,
        is_stump,
    )


def _ratio_and_gain(report: Any) -> tuple[float, np.ndarray, float]:
    """Return the log evidence of a chain less the log mass of the prior, the effect of each draw on it, and an overlap.

    The effects (draws,) are the derivatives of the estimate by the weight of each draw. The overlap is the smallest one
    of two neighbouring levels, in [0, 1]: 1 if both have the same distribution.
    """
    total, gain, least = 0.0, np.zeros(len(report.scores)), 1.0
    for i, step in enumerate(-np.diff(report.betas)):
        high, low = step * report.scores[:, i], step * report.scores[:, i + 1]
        # the ratio r solves sum expit(low - r) = sum expit(r - high); a draw changes it by its term over the slope
        ratio = log_ratio(high, low)
        up, down = expit(low - ratio), expit(ratio - high)
        total += ratio
        slope = float((up * (1.0 - up) + down * (1.0 - down)).mean())
        gain += (up - down) / max(slope, 1e-300)
        least = min(least, 2.0 * slope)
    return total, gain, least


def _error(
    each: np.ndarray, gain: np.ndarray, overlap: float, scores: np.ndarray, is_stump: np.ndarray | None
) -> float | None:
    """Return the standard error of the mean of ``each`` (chains,), or warn and return None if draws are too few.

    ``each`` is the estimate of each chain, ``gain`` (chains, draws) the effect of each draw on it, ``overlap`` in
    [0, 1] that of neighbouring levels. ``is_stump`` (chains, draws) is None if the mass of the prior is known.
    """
    chains, draws = gain.shape
    if draws < FEWEST_PER_CHAIN:
        _not_stated(draws, f"{draws} draws a chain are too few to see how they depend on each other", 10.0)
        return None
    times = autocorrelation_times(np.concatenate([gain[None], np.moveaxis(scores, 2, 0)]))
    slowest = int(np.argmax(times))
    time = float(times[slowest])
    length = math.ceil(BLOCK_TIMES * time)
    n_blocks = min(draws // length, math.ceil(MOST_BLOCKS / chains))
    if chains * n_blocks < FEWEST_BLOCKS:
        dependent = "their terms of the evidence depend" if slowest == 0 else f"scores at level {slowest - 1} depend"
        why = f"{dependent} on each other over {time:.0f} of {draws} draws a chain"
        _not_stated(draws, why, FEWEST_BLOCKS * length / (chains * draws))
        return None
    if gain.size * overlap < FEWEST_BLOCKS * time:
        why = f"two neighbouring levels overlap by {overlap:.1g} only, and draws depend on each other over {time:.0f}"
        _not_stated(draws, f"{why} draws; more betas= help most", FEWEST_BLOCKS * time / (gain.size * overlap))
        return None
    if is_stump is not None:
        time_of_stumps = float(autocorrelation_times(is_stump[None].astype(float))[0])
        worth = is_stump.sum() / time_of_stumps
        if worth < FEWEST_STUMPS:
            n_stumps = f"{is_stump.sum()} stumps at the last level, worth {worth:.1f} independent ones"
            why = f"{n_stumps}, are too few to estimate the mass of the prior"
            _not_stated(draws, why, FEWEST_STUMPS / worth)
            return None
    means = np.add.reduceat(gain, np.arange(n_blocks) * draws // n_blocks, axis=1)
    means /= np.diff(np.append(np.arange(n_blocks) * draws // n_blocks, draws))
    # covariance of neighbouring blocks if the autocorrelation decays geometrically
    shared = (time - 1.0 / time) * n_blocks / (2.0 * draws)
    within = float(((means - means.mean(axis=1, keepdims=True)) ** 2).sum()) / (1.0 - max(shared, 0.0))
    return pooled_error(each, within, n_blocks)


def pooled_error(each: np.ndarray, within: float, n_blocks: int) -> float:
    """Return the standard error of the mean of ``each`` (chains,), such that plus or minus two of it cover 95 %.

    Each estimate is the mean of ``n_blocks`` >= 1 blocks; with one block there must be two chains. ``within`` is the
    sum of squares of the blocks about the mean of their chain.
    """
    chains, n = len(each), len(each) * n_blocks
    # analysis of variance: F = (between / (chains - 1)) / (within / (n - chains))
    between = n_blocks * float(((each - each.mean()) ** 2).sum())
    alone = chains > 1 and n_blocks == 1
    if chains > 1 and not alone and between > 0.0:
        ratio = math.inf if within == 0.0 else (between / (chains - 1)) / (within / (n - chains))
        alone = ratio == math.inf or float(fdtrc(chains - 1, n - chains, ratio)) < APART
    degrees = chains - 1 if alone else n - 1
    variance = (between if alone else within + between) / degrees / n
    return math.sqrt(variance) * float(stdtrit(degrees, (1.0 + COVERED) / 2.0)) / 2.0


def _not_stated(draws: int, why: str, times: float) -> None:
    """Warn that the evidence has no standard error because of ``why``, and advise 1.5 * ``times`` as many draws."""
    more = max(math.ceil(1.5 * times * draws), draws + 1)
    warn(
        f"log_evidence has no standard error: {why}; give about draws={more}, or a larger proposals=.",
        ConvergenceWarning,
    )


def log_ratio(high: np.ndarray, low: np.ndarray) -> float:
    """Return the log ratio of the normalisers of two distributions, from equal numbers of draws (Bennett 1976).

    Both arguments (n,) are log densities of the first distribution relative to the second: ``high`` at draws of the
    first, ``low`` at draws of the second.
    """
    ends = min(high.min(), low.min()), max(high.max(), low.max())
    if ends[0] == ends[1]:
        return float(ends[0])
    from scipy.optimize import brentq

    return float(brentq(lambda c: expit(low - c).sum() - expit(c - high).sum(), *ends, xtol=1e-9))


def combined_evidence(evidences: np.ndarray) -> tuple[float, float | None]:
    """Return the mean of the log evidences of several teams of chains, and its standard error.

    A random-effects mean (DerSimonian and Laird 1986): if the teams differ by more than their errors explain, the
    weights become more equal and the error covers the difference, |difference| / 2 for two teams far apart.
    ``evidences`` (teams, 2) has the log evidence of each team, and its standard error or NaN. If one of these is NaN
    the standard error returned is None.
    """
    values, errors = evidences.T
    if len(values) == 1:
        return float(values[0]), float(errors[0]) if np.isfinite(errors[0]) else None
    if not np.isfinite(errors).all():
        return float(values.mean()), None
    # the error of a team is 0 if all its importance weights are equal, for instance if its density has all trees
    errors = np.maximum(errors, LEAST_ERROR)
    weights = errors**-2.0
    mean = (weights * values).sum() / weights.sum()
    # variance between teams: (Q - (k - 1)) / (sum w - sum w^2 / sum w) if Q, their weighted squares, exceeds k - 1
    excess = (weights * (values - mean) ** 2).sum() - (len(values) - 1)
    between = 0.0
    if excess > 0.0:
        between = excess / (weights.sum() - (weights**2).sum() / weights.sum())
    weights = 1.0 / (errors**2 + between)
    mean, se = (weights * values).sum() / weights.sum(), weights.sum() ** -0.5
    return round(float(mean), 12), round(float(se), 12)


def evidences_differ(evidences: np.ndarray | None) -> list[str]:
    """Return a line of a warning if the evidences of two teams differ by more than their errors explain, else []."""
    if evidences is None or len(evidences) < 2 or not np.isfinite(evidences).all():
        return []
    low, high = evidences[[np.argmin(evidences[:, 0]), np.argmax(evidences[:, 0])]]
    if high[0] - low[0] <= max(DIFFERENCE_ERRORS * math.hypot(low[1], high[1]), SMALLEST_DIFFERENCE):
        return []
    return [
        f"the log evidence is {low[0]:.2f} +- {low[1]:.2f} by one half of the chains and {high[0]:.2f} +- "
        f"{high[1]:.2f} by the other half, which tuned separately: one half has lost part of the posterior"
    ]
