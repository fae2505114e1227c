"""Bounds on the vote, written out; descents of weights; the smallest weight that outvotes; and that they cover."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from pactree_mcmc import certificates as pc
from pactree_mcmc.certificates import vote_bounds
from pactree_mcmc.certificates.bound import Bound
from pactree_mcmc.certificates.vote_bounds import MUS, descend_weights, evaluate_weights, gibbs_weights, least_half

PROBLEMS = [
    (0.3, 0.1, 5.0, 10_000),
    (0.1, 0.05, 5.0, 500),
    (0.2, 0.06, 20.0, 2_000),
    (0.0, 0.0, 1.0, 300),
    (0.4, 0.39, 2.0, 900),
]


@pytest.mark.parametrize("given", PROBLEMS)
def test_split_kl_written_out(given):
    risk, tandem, kl, n = given
    complexity = (2 * kl + math.log(2 * math.sqrt(n) / (0.1 / 3))) / n
    both, any_one, alike = (
        pc.kl_inverse(p, complexity) for p in (tandem, 2 * risk - tandem, 1 - 2 * risk + 2 * tandem)
    )

    def at(mu):
        if mu >= 0:
            mean = mu * alike + (1 - 2 * mu) * both - mu * (1 - mu)
        else:
            mean = mu**2 - mu * any_one + (1 - mu) * both
        return mean / (0.5 - mu) ** 2

    least = min(minimize_scalar(at, bounds=ends, method="bounded").fun for ends in ((-1.0, 0.0), (0.0, 0.499)))
    bound = pc.vote_split_kl(*given, delta=0.1)
    assert bound.raw == pytest.approx(least, rel=1e-3)
    assert bound.raw <= 4 * both * 1.01


@pytest.mark.parametrize("given", PROBLEMS)
def test_coin_betting_written_out(given):
    risk, tandem, kl, n = given
    bound = pc.vote_coin_betting(*given, delta=0.1)
    regret = math.log(math.sqrt(math.pi)) + math.lgamma(n + 1) - math.lgamma(n + 0.5)
    complexity = (2 * kl + regret + math.log(len(MUS) / 0.1)) / n
    mu = bound.terms["mu"]
    p, z = np.array([1 - 2 * risk + tandem, 2 * (risk - tandem), tandem]), np.array([mu**2, mu**2 - mu, (1 - mu) ** 2])
    m = bound.terms["bound on the mean"]
    betas = np.linspace(0.0, 1.0 / (z.max() - m), 20_001)[:-1]
    wealth = (p[:, None] * np.log1p(-betas * (z - m)[:, None])).sum(axis=0).max()
    assert wealth == pytest.approx(complexity, abs=2e-4)
    assert bound.raw == pytest.approx(m / (0.5 - mu) ** 2)
    assert pc.vote_coin_betting(*given, delta=0.1, mus=[mu]).raw < bound.raw


def errors(seed, n_trees=30, n=200):
    """Which of the rows each tree misses: trees of different quality that err in groups."""
    rng = np.random.default_rng(seed)
    hard, group = rng.random((5, n)) < 0.5, rng.integers(0, 5, n_trees)
    return (rng.random((n_trees, n)) < np.where(hard[group], 0.35, 0.1) * rng.uniform(0.5, 1.5, (n_trees, 1))).astype(
        np.uint8
    )


FORMULAS = {
    "factor two": lambda risk, tandem, kl: pc.vote_factor_two(risk, kl, 200),
    "tandem": lambda risk, tandem, kl: pc.vote_tandem(tandem, kl, 200),
    "cantelli": lambda risk, tandem, kl: pc.vote_cantelli(risk, tandem, kl, 200),
    "split kl": lambda risk, tandem, kl: pc.vote_split_kl(risk, tandem, kl, 200),
}


@pytest.mark.more(everyday=["factor two"])
@pytest.mark.parametrize("name", FORMULAS)
def test_no_small_change_of_the_weights_lowers_the_bound_much(name):
    wrong, prior = errors(0), np.full(30, 1 / 30)
    of = FORMULAS[name]
    starts = [evaluate_weights(prior, prior, wrong), gibbs_weights(prior, wrong, 0.05)]
    result = descend_weights(of, prior, wrong, starts)
    value = of(result.risk, result.tandem, result.kl).raw
    assert value <= min(of(w.risk, w.tandem, w.kl).raw for w in starts)
    assert result.weight.sum() == pytest.approx(1.0)
    rng = np.random.default_rng(1)
    for scale in (0.01, 0.1, 1.0):
        for _ in range(60):
            other = result.weight * np.exp(scale * rng.normal(size=30))
            neighbour = evaluate_weights(other / other.sum(), prior, wrong)
            assert of(neighbour.risk, neighbour.tandem, neighbour.kl).raw >= value - 1e-4


def test_gibbs_weights_are_a_fixed_point():
    wrong, prior = errors(1), np.random.default_rng(0).dirichlet(np.ones(30))
    result = gibbs_weights(prior, wrong, 0.05)
    lam = pc.optimal_lambda(result.risk, result.kl, 200, 0.05)
    expected_weight = prior * np.exp(-lam * (wrong.sum(axis=1) - wrong.sum(axis=1).min()))
    assert result.weight == pytest.approx(expected_weight / expected_weight.sum(), abs=1e-5)
    mean = result.weight @ wrong
    assert (result.risk, result.tandem) == pytest.approx((mean.mean(), (mean**2).mean()))
    assert result.kl == pytest.approx((result.weight * np.log(result.weight / prior)).sum())


def failures(of, samples=150, n=60):
    """Return the fraction of failures of a bound on the vote of 40 guessing trees whose weights minimise the bound."""
    rng, prior, failed = np.random.default_rng(3), np.full(40, 1 / 40), 0
    for _ in range(samples):
        wrong = (rng.random((40, n)) < 0.5).astype(np.uint8)
        result = descend_weights(of, prior, wrong, [gibbs_weights(prior, wrong, 0.2)])
        failed += of(result.risk, result.tandem, result.kl).raw < 0.5
    return failed / samples


@pytest.mark.more(everyday=["split kl"])
@pytest.mark.parametrize("of", [pc.vote_split_kl, pc.vote_coin_betting], ids=["split kl", "coin betting"])
def test_the_bounds_cover(of):
    assert failures(lambda risk, tandem, kl: of(risk, tandem, kl, 60, 0.2), samples=12) <= 0.2


@pytest.mark.planted
def test_weights_that_are_not_paid_for_are_caught():
    def unpaid(risk, tandem, kl):
        return Bound("unpaid", pc.kl_inverse(risk, math.log(1 / 0.2) / 60), 0.2, {})

    def paid(risk, tandem, kl):
        return pc.pac_bayes_kl(risk, kl, 60, 0.2)

    assert failures(unpaid, 40) > 0.5
    assert failures(paid, 40) <= 0.2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pc.vote_split_kl(0.3, 0.4, 1.0, 100), "tandem=0.4 is out of range"),
        (lambda: pc.vote_coin_betting(0.3, 0.1, -1.0, 100), "kl=-1.0"),
        (lambda: pc.vote_coin_betting(0.3, 0.1, 1.0, 100, mus=[0.5]), "below 1/2"),
        (lambda: pc.vote_coin_betting(0.3, 0.1, 1.0, 100, mus=[]), "below 1/2"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


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
    monkeypatch.setattr(vote_bounds, "N_SUMMED_WEIGHTS", 4)
    result = []
    for _ in range(200):
        weights = rng.dirichlet(np.full(9, 0.3))
        result.append((least_half(weights), sums_listed(weights)))
    ours, least = np.array(result).T
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
