"""PAC-Bayes bounds: formulas written out, the oracle inequalities, how they move, what is refused."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from pactree_mcmc import certificates as pc


@pytest.mark.parametrize(("risk", "kl", "n"), list(itertools.product([0.0, 0.05, 0.4], [0.0, 20.0], [10, 1_000])))
def test_relaxed_is_never_below_the_inverse(risk, kl, n):
    tight = pc.pac_bayes_kl(risk, kl, n).raw
    for lam in (None, 0.1, 0.7, 1.0, 1.9):
        assert pc.pac_bayes_lambda(risk, kl, n, 0.05, lam).raw >= tight


def test_formulas():
    confidence = math.log(2.0 * math.sqrt(400) / 0.1)
    relaxed = pc.pac_bayes_lambda(0.2, 3.0, 400, 0.1, 0.5)
    assert relaxed.raw == pytest.approx(0.2 / 0.75 + (3.0 + confidence) / (0.5 * 0.75 * 400))
    tight = pc.pac_bayes_kl(0.2, 3.0, 400, 0.1).raw
    assert pc.binary_kl(0.2, tight) == pytest.approx((3.0 + confidence) / 400)
    assert pc.vote_factor_two(0.2, 3.0, 400, 0.1).raw == pytest.approx(2.0 * tight)
    assert pc.binary_kl(0.07, pc.vote_tandem(0.07, 3.0, 400, 0.1).raw / 4.0) == pytest.approx((6.0 + confidence) / 400)
    vacuous = pc.vote_tandem(0.5, 3.0, 400)
    assert vacuous.value == 1.0 < vacuous.raw


@pytest.mark.parametrize("m", [None, 50, 400, 40_000])
def test_disagreement_on_rows_without_labels(m):
    """The disagreement is bounded from below by the rows it was counted on, the risk by those with labels."""
    kl, delta, counted = 3.0, 0.1, 400 if m is None else m
    bound = pc.vote_disagreement(0.2, 0.3, kl, 400, delta, m)
    high, low = bound.terms["bound on R(Q)"], bound.terms["bound on D(Q)"]
    assert low < 0.3 and high > 0.2
    assert pc.binary_kl(0.2, high) == pytest.approx((kl + math.log(2.0 * math.sqrt(400) / (delta / 2.0))) / 400)
    confidence = math.log(2.0 * math.sqrt(counted) / (delta / 2.0))
    assert pc.binary_kl(0.3, low) == pytest.approx((2.0 * kl + confidence) / counted)
    assert bound.raw == pytest.approx(4.0 * high - 2.0 * low)
    if m is not None:
        assert (bound.raw > pc.vote_disagreement(0.2, 0.3, kl, 400, delta).raw) == (m < 400)


@pytest.mark.more(everyday=["0", "1"])
@pytest.mark.parametrize("seed", range(20))
def test_cantelli_is_the_best_mu(seed):
    rng = np.random.default_rng(seed)
    losses = rng.beta(*rng.uniform(0.3, 3.0, 2), 50) * rng.uniform(0.3, 1.0)
    risk, tandem, n, kl = losses.mean(), (losses**2).mean(), int(rng.integers(100, 100_000)), rng.uniform(0, 20)
    upper = pc.vote_tandem(tandem, kl, n, 0.025).raw / 4.0
    complexity = (kl + math.log(2.0 * math.sqrt(n) / 0.025)) / n
    low, high = pc.kl_inverse(risk, complexity, upper=False), pc.kl_inverse(risk, complexity)

    def at(mu):
        return (upper - 2.0 * mu * (low if mu >= 0.0 else high) + mu * mu) / (0.5 - mu) ** 2

    grid = min(at(mu) for mu in np.concatenate([np.linspace(-20.0, 0.0, 4_001), np.linspace(0.0, 0.4999, 4_001)]))
    best = pc.vote_cantelli(risk, tandem, kl, n, 0.05).raw
    assert min(best, 1.0) == pytest.approx(min(grid, 1.0), abs=2e-3)
    assert min(best, 1.0) <= grid + 1e-12
    assert best <= pc.vote_tandem(tandem, kl, n, 0.025).raw


@pytest.mark.parametrize(("risk", "tandem"), [(0.3, 0.1), (0.05, 0.04), (0.2, 0.05)])
def test_cantelli_pays_half_of_delta_for_each_of_its_bounds(risk, tandem):
    kl, n, delta = 3.0, 5_000, 0.1
    terms = pc.vote_cantelli(risk, tandem, kl, n, delta).terms
    confidence = math.log(2.0 * math.sqrt(n) / (delta / 2.0))
    assert pc.binary_kl(tandem, terms["bound on T(Q)"]) == pytest.approx((2.0 * kl + confidence) / n)
    assert pc.binary_kl(risk, terms["bound on R(Q)"]) == pytest.approx((kl + confidence) / n)
    assert (terms["bound on R(Q)"] < risk) == (terms["mu"] >= 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_oracle_inequalities(seed):
    """The risk of a vote never exceeds what the true risk and tandem loss of its voters allow."""
    rng = np.random.default_rng(100 + seed)
    distribution, voters = rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(5))
    wrong = rng.random((5, 12)) < rng.uniform(0.1, 0.45)
    mean = voters @ wrong
    vote, risk, tandem = distribution @ (mean >= 0.5), distribution @ mean, distribution @ mean**2
    assert vote <= 2.0 * risk + 1e-12
    assert vote <= 4.0 * tandem + 1e-12
    assert vote <= pc.c_bound(risk, tandem) + 1e-12
    disagreement = distribution @ (2.0 * mean * (1.0 - mean))
    assert 4.0 * tandem == pytest.approx(4.0 * risk - 2.0 * disagreement)
    if risk < 0.5:
        classic = 1.0 - (1.0 - 2.0 * risk) ** 2 / (1.0 - 2.0 * disagreement)
        assert pc.c_bound(risk, tandem) == pytest.approx(classic)
        best = minimize_scalar(
            lambda mu: (tandem - 2.0 * mu * risk + mu * mu) / (0.5 - mu) ** 2, bounds=(-50.0, 0.4999), method="bounded"
        )
        assert pc.c_bound(risk, tandem) <= best.fun + 1e-9


def test_constant_of_the_confidence():
    """2 sqrt(n) is no less than the sum it bounds, for small n too."""
    for n in range(1, 60):
        k = np.arange(n + 1)
        n_subsets = np.array([math.comb(n, int(j)) for j in k])
        powers = [(j / n) ** j * (1.0 - j / n) ** (n - j) for j in k]
        assert n_subsets @ np.array(powers) <= 2.0 * math.sqrt(n) + 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pc.pac_bayes_lambda(0.1, 1.0, 100, 0.05, 2.0), r"lam=2.0 is out of range; give 0 < lam < 2"),
        (lambda: pc.pac_bayes_kl(0.1, 1.0, 100, 1.0), r"delta=1.0 is out of range; give 1e-300 <= delta < 1"),
        (lambda: pc.pac_bayes_kl(0.1, math.nan, 100), r"kl=nan is out of range"),
        (lambda: pc.pac_bayes_kl(0.1, 1.0, 0), r"n=0 is out of range; give an integer >= 1"),
        (lambda: pc.c_bound(0.2, 0.3), r"tandem=0.3 is out of range; with risk=0.2"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_smallest_delta_can_be_shared_among_bounds():
    assert pc.vote_cantelli(0.1, 0.05, 1.0, 1000, 1e-300).raw > pc.vote_cantelli(0.1, 0.05, 1.0, 1000, 1e-200).raw
    assert pc.vote_split_kl(0.1, 0.05, 1.0, 1000, 1e-300).raw > 0.1
