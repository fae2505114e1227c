"""Comparing draws with an exact distribution, with a false-alarm rate that is written down."""

import zlib
from typing import NamedTuple

import numpy as np
from scipy import stats

from tests.reference.enumeration import LEAF, count_leaves, tree_depth

FALSE_ALARM = 1e-4
"""Probability that a test fails although the sampler is right."""
COMMON = 0.04
"""Values of smaller probability are counted together."""


def seed_of(name):
    """A seed fixed by the name of a test."""
    return zlib.crc32(name.encode())


def root_feature(tree):
    return None if tree == LEAF else tree[1]


STATISTICS = {"leaves": count_leaves, "depth": tree_depth, "root feature": root_feature}


def statistics_of_draws(post):
    """The same statistics of sampled draws: {name: (chains, draws) array of objects}."""
    roots = post.draws.distinct_trees.feature[post.draws.distinct_trees.offset[:-1]].tolist()
    of_tree = {
        "leaves": post.draws.n_leaves_of_tree.tolist(),
        "depth": post.draws.depth_of_tree.tolist(),
        "root feature": [None if k == -1 else k for k in roots],
    }
    return {name: np.array(values, dtype=object)[post.draws.tree_of_draw] for name, values in of_tree.items()}


def events(distributions):
    """Events to compare, (statistic, set of values): every common value by itself, the rare ones together."""
    chosen = []
    for name, distribution in distributions.items():
        common = [value for value, probability in distribution.items() if COMMON <= probability <= 1.0 - COMMON]
        rare = set(distribution) - set(common)
        chosen += [(name, {value}) for value in common]
        if COMMON <= sum(distribution[value] for value in rare) <= 1.0 - COMMON:
            chosen.append((name, rare))
    return chosen


def check_distribution_of_chains(post, distributions, seed):
    """Check distributions, {statistic: {value: probability}}, by t tests over independent chains, with Bonferroni."""
    # the fraction of an event in a chain is one observation, so that its error needs no model of the autocorrelation
    found = deviations(post, distributions)
    assert found, "nothing to compare"
    limit = stats.t.isf(FALSE_ALARM / (2 * len(found)), df=post.n_chains - 1)
    for name, values, expected, fraction, error in found:
        t = (fraction - expected) / error
        told = f"seed {seed}: P({name} in {values}) is {expected:.5f}, drawn {fraction:.5f} +- {error:.5f}"
        assert abs(t) < limit, f"{told}, t = {t:.2f}, limit {limit:.2f}"


class Deviation(NamedTuple):
    """An event, its probability, its fraction of the draws, and the error of that from the spread of the chains."""

    statistic: str
    values: set
    expected: float
    fraction: float
    error: float


def deviations(post, distributions):
    """The events of the distributions compared with the draws of independent chains; nothing impossible was drawn."""
    drawn = statistics_of_draws(post)
    for name, distribution in distributions.items():
        assert set(drawn[name].ravel().tolist()) <= set(distribution), f"impossible {name}"
    found = []
    for name, values in events(distributions):
        fraction = np.isin(drawn[name].astype(str), [str(v) for v in values]).mean(axis=1)
        expected = sum(distributions[name][value] for value in values)
        error = fraction.std(ddof=1) / np.sqrt(post.n_chains)
        found.append(Deviation(name, values, expected, float(fraction.mean()), float(error)))
    return found


def check_independent_draws(values, distribution, seed):
    """Check independent draws by chi-square over values expected at least ten times, the rest together."""
    assert set(values) <= set(distribution), f"seed {seed}: drawn values that cannot occur"
    observed, expected = counts_in_bins(values, distribution)
    assert len(expected) > 1, "nothing to compare"
    p_value = stats.chisquare(observed, expected).pvalue
    assert p_value > FALSE_ALARM, f"seed {seed}: p = {p_value:.2e}; observed {observed}, expected {np.round(expected)}"


def counts_in_bins(values, distribution):
    """Observed and expected counts of values expected at least ten times, and of the rest together."""
    n = len(values)
    common = [value for value, probability in distribution.items() if n * probability >= 10.0]
    observed = [sum(value == c for value in values) for c in common]
    expected = [n * distribution[c] for c in common]
    rest = n - sum(expected)
    if rest >= 10.0:
        observed.append(n - sum(observed))
        expected.append(rest)
    return observed, np.array(expected) * sum(observed) / sum(expected)
