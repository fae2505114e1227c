"""Sums of numbers given by their logs: against sums of the numbers, at the ends of the scale, and in plain Python."""

import math

import numpy as np
import pytest

from pactree_mcmc.core.special import exp_into, exp_sum, log_add, log_sum_exp

INF = math.inf
PLAIN = {function: function.py_func for function in (log_add, exp_sum, log_sum_exp, exp_into)}
CASES = [
    [0.0],
    [-1.0, 2.0, 0.5],
    [-INF, 3.0],
    [-INF, -INF],
    [],
    [-1e5, -1e5 - 1.0],
    [5e3, 4999.0, -INF, 4998.5],
    list(np.random.default_rng(0).normal(size=50) * 30.0),
]


def direct(values):
    """The definition, with the largest taken out in exact arithmetic."""
    top = max(values, default=-INF)
    return top + math.log(math.fsum(math.exp(v - top) for v in values)) if top > -INF else -INF


@pytest.mark.parametrize("values", CASES)
@pytest.mark.parametrize("form", ["compiled", "plain"])
def test_a_sum_is_that_of_the_numbers(values, form):
    sum_, pair, into = (f if form == "compiled" else PLAIN[f] for f in (log_sum_exp, exp_sum, exp_into))
    array, n = np.array([*values, 7e3], dtype=float), len(values)
    assert sum_(array, n) == pytest.approx(direct(values), rel=1e-14)
    largest, total = pair(array, n)
    assert largest == max(values, default=-INF)
    out = np.full(n + 1, 9.0)
    assert into(out, array, n) == total
    assert out[n] == 9.0
    if largest > -INF:
        assert largest + math.log(total) == sum_(array, n)
        np.testing.assert_allclose(np.log(out[:n].clip(1e-300)).clip(-690), (array[:n] - largest).clip(-690), atol=1e-9)
    else:
        assert total == 0.0
        assert (out[:n] == 0.0).all()
    assert into(array, array, n) == total, "in place"


@pytest.mark.parametrize("form", ["compiled", "plain"])
def test_two_numbers(form):
    add = log_add if form == "compiled" else PLAIN[log_add]
    for a, b in [(0.0, 0.0), (-3.0, 800.0), (1e-3, -40.0), (-INF, 2.0), (2.0, -INF), (-INF, -INF), (-1e6, -1e6)]:
        assert add(a, b) == add(b, a) == pytest.approx(direct([a, b]), rel=1e-15)
    assert add(0.0, -40.0) == math.exp(-40.0), "what is added is not lost beside 1"
    for a, b in [(math.nan, 0.0), (0.0, math.nan), (-INF, math.nan), (math.nan, -INF)]:
        assert math.isnan(add(a, b))
