"""Estimates of the log evidence, from the levels of a tempered run, or by combining several teams of chains.

The ratio of normalisers of two neighbouring levels of a tempered run is estimated by Bennett's acceptance ratio. The
product of these ratios, the stepping stones, is the evidence. A team is a group of chains that tuned together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.special import expit, fdtrc, log_mean, stdtrit
from ..core.texts import warn, with_short_repr
from ..files.encoding import register_class
from ..model.model import log_prior_mass
from ..tree.arrays import LEAF
from ..tree.tree import Tree
from .ess import MIN_DRAWS_PER_CHAIN, ConvergenceWarning, autocorrelation_times

if TYPE_CHECKING:
    from ..model import TreeModel

BLOCK_TIMES = 2.0
"""Smallest length of a block of draws, in autocorrelation times."""
MIN_BLOCKS = 10
"""Number of blocks of draws, in all chains, below which no error is reported."""
MAX_BLOCKS = 100
"""Largest number of blocks of all chains. In longer blocks an underestimated autocorrelation time matters less."""
MIN_EFFECTIVE_STUMPS = 10.0
"""Effective number of stumps among draws at inverse temperature 0 below which no error is reported."""
CHAIN_TEST_LEVEL = 0.05
"""Level of the F test for a difference between chains, given the errors within chains."""
ERROR_COVERAGE = 0.95
"""Coverage that an interval of plus or minus two reported standard errors is to have."""
MIN_TEAM_ERROR = 1e-6
"""Smallest standard error of the log evidence of a team, in nats."""
MIN_ERRORS_APART, MIN_NATS_APART = 4.0, 0.1
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

    def log_mass_from(self, stump_fraction: float) -> float | None:
        """Return the log mass, nats. If it is unknown, estimate it by log prior(stump) - log(fraction of stumps)."""
        # ``stump_fraction`` is the fraction of stumps among draws of the prior. Return None if it is needed and is 0
        if self.log_mass is not None:
            return self.log_mass
        return self.log_stump - math.log(stump_fraction) if stump_fraction > 0.0 else None


def prior_mass(model: TreeModel) -> PriorMass:
    """Return the mass of the model's tree prior, its sum over all trees."""
    # ``log_mass`` of the result is None if the mass depends on which splits are possible in each cell
    return PriorMass(log_prior_mass(model), model.log_prior(Tree([LEAF], [0.0], [0], [0])))


def evidence_constant(model: TreeModel) -> float:
    """Return the log evidence minus the log of the sum over trees of the weights that compiled code computes, nats."""
    # the compiled weights omit constants of the prior and do not divide by its mass. An unknown mass counts as 1
    return float(model.lowered.prior.log_constant) - (prior_mass(model).log_mass or 0.0)


def join_ladder_reports(reports: Sequence[Any], mass: PriorMass) -> Tempering:
    """Return the diagnostics and the evidence of a tempered run, from the ``LadderReport`` of each of its chains."""
    # the ``reports`` have equal numbers of draws and levels. ``mass`` is that of the prior, the distribution at inverse
    # temperature 0. Warn if the evidence is known but the draws are too few to estimate its error
    # the evidence is the mean over chains. To first order its log is a mean over draws of a number, the sum of the
    # effects of the draw on the ratios of all levels. The error of that mean comes from blocks of draws, each at least
    # twice as long as the longest autocorrelation time of that number and of the scores at each level. If an F test
    # finds the chains further apart than their blocks explain, the error comes from the variance between chains
    # instead. It is multiplied by half the quantile of Student's t for the number of blocks or chains, so that plus or
    # minus two standard errors cover 95 %
    scores = np.array([report.scores for report in reports])
    is_stump = np.array([report.is_stump for report in reports])
    log_evidence = se = None
    log_mass = mass.log_mass_from(float(is_stump.mean())) if is_stump.size else None
    if log_mass is not None and all(report.betas[-1] == 0.0 for report in reports):
        by_chain = [_log_ratio_and_effects(report) for report in reports]
        ratios, effects, overlap = (np.array(part) for part in zip(*by_chain, strict=True))
        log_evidence = float(log_mean(ratios)) + log_mass
        if mass.log_mass is None:
            stump_effects = is_stump / is_stump.mean() - 1.0
            ratios, effects = ratios - stump_effects.mean(axis=1), effects - stump_effects
        se = _evidence_error(ratios, effects, overlap.mean(), scores, is_stump if mass.log_mass is None else None)
    return Tempering(
        np.array([report.betas for report in reports]),
        scores,
        np.array([report.swap_rates for report in reports]),
        np.array([report.round_trips for report in reports]),
        log_evidence,
        se,
        is_stump,
    )


def _log_ratio_and_effects(report: Any) -> tuple[float, np.ndarray, float]:
    """Return the log evidence of a chain minus the log mass of the prior, the effects of its draws, and an overlap."""
    # ``report``, the LadderReport of the chain, has its inverse temperatures ``betas`` and log likelihoods ``scores``
    # (draws, levels). The effects (draws,) are the derivatives of the estimate by the weight of each draw. The overlap
    # is the smallest one of two neighbouring levels, in [0, 1]: 1 for equal distributions
    log_evidence, effects, min_overlap = 0.0, np.zeros(len(report.scores)), 1.0
    for i, step in enumerate(-np.diff(report.betas)):
        high, low = step * report.scores[:, i], step * report.scores[:, i + 1]
        # the ratio r solves sum expit(low - r) = sum expit(r - high); a draw changes it by its term over the slope
        ratio = log_ratio(high, low)
        up, down = expit(low - ratio), expit(ratio - high)
        log_evidence += ratio
        slope = float((up * (1.0 - up) + down * (1.0 - down)).mean())
        effects += (up - down) / max(slope, 1e-300)
        min_overlap = min(min_overlap, 2.0 * slope)
    return log_evidence, effects, min_overlap


def _evidence_error(
    estimates: np.ndarray, effects: np.ndarray, overlap: float, scores: np.ndarray, is_stump: np.ndarray | None
) -> float | None:
    """Return the standard error of the mean of ``estimates`` (chains,), or warn, and return None, of too few draws."""
    # ``estimates`` are log evidences, ``effects`` (chains, draws) the effect of each draw on that of its chain, and
    # ``overlap`` in [0, 1] is that of neighbouring levels. ``scores`` (chains, draws, levels) are log likelihoods.
    # ``is_stump`` (chains, draws), True if the tree at inverse temperature 0 has one leaf, is None if the mass of the
    # prior is known
    n_chains, n_draws = effects.shape
    if n_draws < MIN_DRAWS_PER_CHAIN:
        reason = f"{n_draws} draws a chain are too few to see how they depend on each other"
        _warn_of_unknown_error(n_draws, reason, 10.0)
        return None
    times = autocorrelation_times(np.concatenate([effects[None], np.moveaxis(scores, 2, 0)]))
    slowest = int(np.argmax(times))
    time = float(times[slowest])
    block_length = math.ceil(BLOCK_TIMES * time)
    n_blocks = min(n_draws // block_length, math.ceil(MAX_BLOCKS / n_chains))
    if n_chains * n_blocks < MIN_BLOCKS:
        dependent = "their terms of the evidence depend" if slowest == 0 else f"scores at level {slowest - 1} depend"
        reason = f"{dependent} on each other over {time:.0f} of {n_draws} draws a chain"
        _warn_of_unknown_error(n_draws, reason, MIN_BLOCKS * block_length / (n_chains * n_draws))
        return None
    if effects.size * overlap < MIN_BLOCKS * time:
        levels = f"two neighbouring levels overlap by {overlap:.1g} only"
        reason = f"{levels}, and draws depend on each other over {time:.0f}"
        factor = MIN_BLOCKS * time / (effects.size * overlap)
        _warn_of_unknown_error(n_draws, f"{reason} draws; more betas= help most", factor)
        return None
    if is_stump is not None:
        n_effective = is_stump.sum() / float(autocorrelation_times(is_stump[None].astype(float))[0])
        if n_effective < MIN_EFFECTIVE_STUMPS:
            n_stumps = f"{is_stump.sum()} stumps at the last level, worth {n_effective:.1f} independent ones"
            reason = f"{n_stumps}, are too few to estimate the mass of the prior"
            _warn_of_unknown_error(n_draws, reason, MIN_EFFECTIVE_STUMPS / n_effective)
            return None
    means = np.add.reduceat(effects, np.arange(n_blocks) * n_draws // n_blocks, axis=1)
    means /= np.diff(np.append(np.arange(n_blocks) * n_draws // n_blocks, n_draws))
    # covariance of neighbouring blocks if the autocorrelation decays geometrically
    covariance = (time - 1.0 / time) * n_blocks / (2.0 * n_draws)
    within = float(((means - means.mean(axis=1, keepdims=True)) ** 2).sum()) / (1.0 - max(covariance, 0.0))
    return pooled_error(estimates, within, n_blocks)


def pooled_error(estimates: np.ndarray, within: float, n_blocks: int) -> float:
    """Return the standard error of the mean of ``estimates`` (chains,): plus or minus two of it cover 95 %."""
    # each estimate is the mean of ``n_blocks`` >= 1 blocks; with one block there must be two chains. ``within`` is the
    # sum of squares of the blocks about the mean of their chain. The variance is that of the estimates if there is one
    # block, or if they differ by more than an F test allows; otherwise that of all blocks
    chains, n = len(estimates), len(estimates) * n_blocks
    # analysis of variance: F = (between / (chains - 1)) / (within / (n - chains))
    between = n_blocks * float(((estimates - estimates.mean()) ** 2).sum())
    uses_chain_means = chains > 1 and n_blocks == 1
    if chains > 1 and not uses_chain_means and between > 0.0:
        ratio = math.inf if within == 0.0 else (between / (chains - 1)) / (within / (n - chains))
        uses_chain_means = ratio == math.inf or float(fdtrc(chains - 1, n - chains, ratio)) < CHAIN_TEST_LEVEL
    degrees = chains - 1 if uses_chain_means else n - 1
    variance = (between if uses_chain_means else within + between) / degrees / n
    return math.sqrt(variance) * float(stdtrit(degrees, (1.0 + ERROR_COVERAGE) / 2.0)) / 2.0


def _warn_of_unknown_error(n_draws: int, reason: str, factor: float) -> None:
    """Warn that the evidence has no standard error because of ``reason``, and advise a longer run."""
    # ``factor`` times the ``n_draws`` of each chain would be just enough; 1.5 times as many are advised
    n_advised = max(math.ceil(1.5 * factor * n_draws), n_draws + 1)
    advice = f"give about draws={n_advised}, or a larger proposals=."
    warn(f"log_evidence has no standard error: {reason}; {advice}", ConvergenceWarning)


def log_ratio(high: np.ndarray, low: np.ndarray) -> float:
    """Return the log of the normaliser of a first distribution over that of a second (Bennett 1976), nats."""
    # both arguments (n,) are log densities of the first distribution relative to the second, not normalised: ``high``
    # at n draws of the first, ``low`` at n draws of the second
    bracket = min(high.min(), low.min()), max(high.max(), low.max())
    if bracket[0] == bracket[1]:
        return float(bracket[0])
    from scipy.optimize import brentq

    return float(brentq(lambda c: float(expit(low - c).sum() - expit(c - high).sum()), *bracket, xtol=1e-9))


def combined_evidence(evidences: np.ndarray) -> tuple[float, float | None]:
    """Return the mean of the log evidences of several teams, chains that tuned together, and its standard error."""
    # A random-effects mean (DerSimonian and Laird 1986): if the teams differ by more than their errors explain, the
    # weights become more equal and the error covers the difference, |difference| / 2 for two teams far apart.
    # ``evidences`` (teams, 2) has the log evidence of each team, and its standard error or NaN. If one of these is NaN
    # the mean is unweighted, and the standard error returned is None
    values, errors = evidences.T
    if len(values) == 1:
        return float(values[0]), float(errors[0]) if np.isfinite(errors[0]) else None
    if not np.isfinite(errors).all():
        return float(values.mean()), None
    # the error of a team is 0 if all its importance weights are equal, for instance if its density has all trees
    errors = np.maximum(errors, MIN_TEAM_ERROR)
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


def evidence_difference_lines(evidences: np.ndarray | None) -> list[str]:
    """Return a line of a warning if the log evidences of two teams differ more than their errors explain, else []."""
    # by more than 4 standard errors of the difference and 0.1. `evidences` (teams, 2) has the log evidence of each
    # team, nats, and its standard error; None if not estimated
    if evidences is None or len(evidences) < 2 or not np.isfinite(evidences).all():
        return []
    low, high = evidences[[np.argmin(evidences[:, 0]), np.argmax(evidences[:, 0])]]
    if high[0] - low[0] <= max(MIN_ERRORS_APART * math.hypot(low[1], high[1]), MIN_NATS_APART):
        return []
    return [
        f"the log evidence is {low[0]:.2f} +- {low[1]:.2f} by one half of the chains and {high[0]:.2f} +- "
        f"{high[1]:.2f} by the other half, which tuned separately: one half has lost part of the posterior"
    ]
