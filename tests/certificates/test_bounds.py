"""Bounds: PAC-Bayes, Shah's and the inverses they need, against formulas written out; what is refused."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import comb
from scipy.stats import beta, binom

from pactree_mcmc import certificates as pc
from pactree_mcmc.certificates import binomial_tail_inversion, kl_inverse

EXACT = {"rel": 1e-10, "abs": 1e-10}
REFUSED = [
    (lambda: pc.pac_bayes_lambda(0.1, 1.0, 100, 0.05, 2.0), r"lam=2.0 is out of range; give 0 < lam < 2"),
    (lambda: pc.pac_bayes_kl(0.1, 1.0, 100, 1.0), r"delta=1.0 is out of range; give 1e-300 <= delta < 1"),
    (lambda: pc.pac_bayes_kl(0.1, math.nan, 100), r"kl=nan is out of range"),
    (lambda: pc.pac_bayes_kl(0.1, 1.0, 0), r"n=0 is out of range; give an integer >= 1"),
    (lambda: kl_inverse(1.2, 0.1), r"p=1.2 is out of range; give 0 <= p <= 1"),
    (lambda: kl_inverse(0.2, -0.1), r"complexity=-0.1 is out of range"),
    (lambda: binomial_tail_inversion(3, 2, -1.0), r"errors=3 is out of range; there are n=2 rows"),
    (lambda: binomial_tail_inversion(1, 2, 0.1), r"log_delta=0.1 is out of range"),
    (lambda: pc.compression(50, 3, 50, 0), "n_nodes=50 rows would be the compression set of n=50"),
    (lambda: pc.compression(5, 3, 50, 46), "errors=46 is out of range; there are n=45 rows"),
    (lambda: pc.occam_discrete(5, 0, 2, 50, 1), "n_features=0 is out of range"),
    (lambda: pc.occam_continuous(5, 3, [1.5], 50, 1), "give integers 0"),
    (lambda: pc.dyadic_length(0.5, 0.2, 0.0, 1.0), "not an interval of thresholds"),
    (lambda: pc.dyadic_length(0.3, 0.3 + 6e-17, 0.0, 1e9), "too short"),
]


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


@pytest.mark.parametrize("seed", range(20))
def test_oracle_inequalities(seed):
    """The risk of a vote never exceeds what the true risk and tandem loss of its voters allow."""
    rng = np.random.default_rng(100 + seed)
    distribution, voters = rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(5))
    wrong = rng.random((5, 12)) < rng.uniform(0.1, 0.45)
    mean = voters @ wrong
    vote, risk, tandem = distribution @ (mean >= 0.5), distribution @ mean, distribution @ mean**2
    assert vote <= 2.0 * risk + 1e-12 and vote <= 4.0 * tandem + 1e-12


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def plain_kl(p, q):
    total = 0.0 if p == 0.0 else p * (math.log(p) - math.log(q))
    return total + (0.0 if p == 1.0 else (1.0 - p) * (math.log1p(-p) - math.log1p(-q)))


@pytest.mark.parametrize("p", [0.0, 1e-4, 0.03, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("complexity", [1e-5, 1e-3, 0.02, 0.4, 3.0])
def test_kl_inverse_is_a_root(p, complexity):
    ends = {True: (p, 1.0 - 1e-16), False: (1e-300, p)}
    for upper, (low, high) in ends.items():
        result = kl_inverse(p, complexity, upper=upper)
        if p == 0.0 and not upper:
            assert result == 0.0
        elif plain_kl(p, high if upper else low) <= complexity:
            assert result == pytest.approx(high if upper else low, abs=1e-15)
        else:
            root = brentq(lambda q: plain_kl(p, q) - complexity, low, high, xtol=1e-15, rtol=1e-14)
            assert result == pytest.approx(root, **EXACT)


@pytest.mark.parametrize("n", [1, 7, 100, 5_000])
@pytest.mark.parametrize("fraction", [0.0, 0.02, 0.5, 0.97])
@pytest.mark.parametrize("delta", [0.9, 0.05, 1e-9, 1e-200])
def test_binomial_tail_inversion_is_a_root(n, fraction, delta):
    errors = int(fraction * n)
    result = binomial_tail_inversion(errors, n, math.log(delta))
    quantile = beta.isf(delta, errors + 1, n - errors)
    assert result == pytest.approx(1.0 if math.isnan(quantile) else quantile, **EXACT)  # it gives up close to 1
    if delta > 1e-10:
        root = brentq(lambda q: binom.logcdf(errors, n, q) - math.log(delta), 1e-15, 1.0 - 1e-15, xtol=1e-16)
        assert result == pytest.approx(root, **EXACT)


@pytest.mark.parametrize(("errors", "n"), [(5_000_000, 50_000_000), (0, 50_000_000), (49_999_000, 50_000_000)])
@pytest.mark.parametrize("delta", [0.5, 0.025])
def test_binomial_tail_inversion_of_many_rows(errors, n, delta):
    began = time.perf_counter()
    result = binomial_tail_inversion(errors, n, math.log(delta))
    assert time.perf_counter() - began < 1.0  # a sum over all numbers of errors took nine seconds
    assert result == pytest.approx(beta.isf(delta, errors + 1, n - errors), abs=1e-9, rel=1e-9)


@pytest.mark.parametrize(
    ("errors", "n", "log_delta"), [(20, 200, -690.0), (3, 200, -1500.0), (10, 30, math.log1p(-1e-4))]
)
def test_binomial_tail_inversion_far_out_is_a_root(errors, n, log_delta):
    """Against the sum of all terms, in fractions; SciPy's quantile is wrong by 1e-4 for some of these."""
    q = Fraction(binomial_tail_inversion(errors, n, log_delta))
    for factor, sign in ((1 - Fraction(1, 10**9), 1.0), (1 + Fraction(1, 10**9), -1.0)):
        risk = 1 - (1 - q) / factor if q > Fraction(1, 2) else q * factor
        tail = sum(math.comb(n, k) * risk**k * (1 - risk) ** (n - k) for k in range(errors + 1))
        log_tail = math.log1p(-(1 - tail)) if tail > 0.5 else math.log(tail.numerator) - math.log(tail.denominator)
        assert sign * (log_tail - log_delta) > 0.0


def message(k, n_features):
    return n_features**-k * (k + 1.0) ** -k * 2.0**-k


def test_written_out():
    k, p, m, e, delta = 5, 7, 120, 3, 0.1
    prior = message(k, p) / comb(m, k) * 6 / math.pi**2 / (k + 1) ** 2
    closed = 1 - math.exp(-(math.log(comb(m - k, e)) + math.log(1 / (prior * delta))) / (m - k - e))
    assert pc.compression(k, p, m, e, delta).raw == pytest.approx(closed)
    assert pc.compression_tail(k, p, m, e, delta).raw == pytest.approx(beta.isf(prior * delta, e + 1, m - k - e))
    discrete = message(k, p) * 4.0**-k
    closed = 1 - math.exp(-(math.log(comb(m, e)) + math.log(1 / (discrete * delta))) / (m - e))
    assert pc.occam_discrete(k, p, 4, m, e, delta).raw == pytest.approx(closed)

    def zeta(a):
        return 6 / math.pi**2 / (a + 1) ** 2

    coded = message(k, p) * zeta(0) ** 3 * zeta(2) * zeta(3) * zeta(1) * 2.0**-5
    bound = pc.occam_continuous(k, p, [2, 3], m, e, delta, halvings=[[0, 0], [1, 0]])
    assert bound.raw == pytest.approx(beta.isf(coded * delta, e + 1, m - e))
    assert set(bound.terms) == {"empirical risk", "features, nats", "structure, nats", "thresholds, nats"}
