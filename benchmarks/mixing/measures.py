"""Quantities of a run, and figures that pass or miss a limit."""

import math
from typing import NamedTuple

import numpy as np

from pactree_mcmc.posterior.ess import ess
from pactree_mcmc.tree.drawn import root_key


class Check(NamedTuple):
    """A figure ``value`` with its limit, an upper one, or a lower one if ``at_least``."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def passed(self):
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self):
        sign = ">=" if self.at_least else "<="
        return f"{'PASS' if self.passed else 'MISS'}  {self.what}: {self.value:.4g} (asked: {sign} {self.limit:g})"


class Roots(NamedTuple):
    """Root splits of a run."""

    keys: list
    """Those drawn, named as in ``root_split_pmf``."""
    of_draw: np.ndarray
    """(chains, draws): which of them each draw has."""

    def distribution(self, chain=slice(None)):
        """Return the fraction of the draws with each root split, by key, in one chain or in all."""
        drawn = self.of_draw[chain]
        return dict(zip(self.keys, np.bincount(drawn.ravel(), minlength=len(self.keys)) / drawn.size, strict=True))

    def has(self, key):
        """Return True for each draw (chains, draws) with the root split ``key``."""
        return self.of_draw == (self.keys.index(key) if key in self.keys else -1)


def roots(post):
    """Return the root splits of the draws."""
    at = post.distinct_trees.offset[:-1]
    splits = np.rec.fromarrays(
        [getattr(post.distinct_trees, name)[at] for name in ("feature", "threshold", "categories")]
    )
    _, first, of_tree = np.unique(splits, return_index=True, return_inverse=True)
    keys = [root_key(post.model, post.distinct_trees, int(at[t])) for t in first]
    return Roots(keys, of_tree.reshape(-1)[post.tree_of_draw])


def total_variation(exact, sampled):
    """Return half the sum of absolute differences of two distributions given as dictionaries."""
    return 0.5 * sum(abs(exact.get(key, 0.0) - sampled.get(key, 0.0)) for key in exact.keys() | sampled.keys())


def effective(values):
    """Return the effective sample size of ``values`` (chains, draws), or 0 if they are constant."""
    values = np.asarray(values, dtype=float)
    return 0.0 if np.ptp(values) == 0.0 else ess(values)


def log_posterior(post):
    """Return the unnormalised log posterior of each draw, (chains, draws)."""
    return post.log_prior + post.log_score


def z_score(values, exact, exact_sd=0.0, floor=1.0):
    """Return the distance of the mean of ``values`` (1, draws) from ``exact`` in Monte-Carlo standard errors.

    If the values are constant, the error is that of ``floor`` independent draws of standard deviation ``exact_sd``.
    """
    values = np.asarray(values, dtype=float)
    gap, spread, size = values.mean() - exact, values.std(), effective(values)
    if spread == 0.0:
        spread, size = exact_sd, floor
    error = spread / math.sqrt(max(size, 1.0))
    if error < 1e-9:
        return 0.0 if abs(gap) < 1e-6 else math.copysign(math.inf, gap)
    return gap / error


def z_event(hit, probability, floor):
    """Return the z score of the frequency of an event, ``hit`` (1, draws), with the exact ``probability``."""
    return z_score(hit, probability, math.sqrt(max(probability * (1.0 - probability), 0.0)), floor)
