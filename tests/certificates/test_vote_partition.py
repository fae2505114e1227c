"""The bound on a vote by the smallest weight of trees that outvote the others."""

import itertools

import numpy as np
import pytest

from pactree_mcmc import certificates as pc
from pactree_mcmc.certificates import vote_bounds
from pactree_mcmc.certificates.vote_bounds import least_half


def sums_listed(weights):
    """Return the smallest sum of some weights that is at least half of all, by listing."""
    sums = [sum(part) for size in range(len(weights) + 1) for part in itertools.combinations(weights, size)]
    return min(total for total in sums if total >= 0.5 - 1e-12)


@pytest.mark.parametrize(
    "weights", [[1.0], [0.9, 0.1], [0.5, 0.5], [0.4, 0.35, 0.25], [0.3, 0.3, 0.3, 0.1], [0.45, 0.45, 0.1]]
)
def test_the_smallest_sum_is_that_listed(weights):
    assert least_half(np.array(weights)) == pytest.approx(sums_listed(weights), abs=1e-11)


def test_many_small_weights_give_a_lower_bound(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(vote_bounds, "LISTED", 4)
    found = []
    for _ in range(200):
        weights = rng.dirichlet(np.full(9, 0.3))
        found.append((least_half(weights), sums_listed(weights)))
    ours, least = np.array(found).T
    assert (ours <= least + 1e-11).all() and (ours >= 0.5).all() and (ours > 0.6).any()


def wrong_votes(least):
    """Return the largest excess of the risk of a vote over R(Q) / least(weights), on random votes of three classes."""
    rng, worst = np.random.default_rng(1), -np.inf
    for _ in range(300):
        weights = rng.dirichlet(np.full(4, 0.5))
        votes, label = rng.integers(0, 3, (4, 8)), rng.integers(0, 3, 8)
        mass = np.array([[weights[votes[:, i] == c].sum() for c in range(3)] for i in range(8)])
        own = mass[np.arange(8), label]
        others = np.where(np.arange(3) == label[:, None], -1.0, mass).max(axis=1)
        risk = float(weights @ (votes != label).mean(axis=1))
        worst = max(worst, float((others >= own).mean()) - risk / least(weights))
    return worst


def test_no_vote_errs_more_often():
    """planted: a sum that is too large fails."""
    assert wrong_votes(least_half) <= 1e-12
    assert wrong_votes(lambda weights: 1.0) > 0.05


def test_the_bound_is_the_first_divided_by_the_sum():
    gibbs = pc.pac_bayes_kl(0.1, 3.0, 400, 0.1)
    bound = pc.vote_partition(0.1, 3.0, 400, [8, 1, 1], 0.1)
    assert bound.raw == pytest.approx(gibbs.raw / 0.8) and bound.delta == 0.1
    even = pc.vote_partition(0.1, 3.0, 400, np.ones(1000), 0.1)
    assert even.raw == pytest.approx(pc.vote_factor_two(0.1, 3.0, 400, 0.1).raw)


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [-1.0, 2.0], [[0.5], [0.5]], [np.nan, 1.0]])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        pc.vote_partition(0.1, 3.0, 400, weights)
