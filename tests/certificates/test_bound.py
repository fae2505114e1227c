"""Inverses against scipy's root finders, closed forms and their own definition."""

import math
import time
from fractions import Fraction

import pytest
from scipy.optimize import brentq
from scipy.stats import beta, binom

from pactree_mcmc.certificates import binomial_tail_inversion, kl_inverse

EXACT = {"rel": 1e-10, "abs": 1e-10}


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kl_inverse(1.2, 0.1), r"p=1.2 is out of range; give 0 <= p <= 1"),
        (lambda: kl_inverse(0.2, -0.1), r"complexity=-0.1 is out of range"),
        (lambda: binomial_tail_inversion(3, 2, -1.0), r"errors=3 is out of range; there are n=2 rows"),
        (lambda: binomial_tail_inversion(1, 2, 0.1), r"log_delta=0.1 is out of range"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
