"""Sums of numbers given by their logs, representations of results, lines that warnings name."""

import math
import warnings

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
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
X = np.arange(20.0)[:, None]
MODEL = pt.TreeModel(X, X[:, 0] > 9)
MANY = np.array([f"c{i}" for i in range(80)])


def direct(values):
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
    assert into(out, array, n) == total and out[n] == 9.0
    if largest > -INF:
        assert largest + math.log(total) == sum_(array, n)
        np.testing.assert_allclose(np.log(out[:n].clip(1e-300)).clip(-690), (array[:n] - largest).clip(-690), atol=1e-9)
    else:
        assert total == 0.0 and (out[:n] == 0.0).all()
    assert into(array, array, n) == total, "in place"


@pytest.mark.parametrize("form", ["compiled", "plain"])
def test_two_numbers(form):
    add = log_add if form == "compiled" else PLAIN[log_add]
    for a, b in [(0.0, 0.0), (-3.0, 800.0), (1e-3, -40.0), (-INF, 2.0), (2.0, -INF), (-INF, -INF), (-1e6, -1e6)]:
        assert add(a, b) == add(b, a) == pytest.approx(direct([a, b]), rel=1e-15)
    assert add(0.0, -40.0) == math.exp(-40.0), "what is added is not lost beside 1"
    for a, b in [(math.nan, 0.0), (0.0, math.nan), (-INF, math.nan), (math.nan, -INF)]:
        assert math.isnan(add(a, b))


def test_representations_fit_a_screen():
    truth = exact.solve(MODEL)
    post = truth.sample(20, rng=1)
    values = [post, MODEL, post.tree_distances(), post.shapes(), truth.graph]
    run = pt.sample(MODEL, 20, tune=5, chains=2, rng=1, kernel="grow-prune", progress=False)
    for one in (*values, run.course, run.draws.calls[0]):
        assert len(repr(one)) <= 450 and "\n" not in repr(one) and repr(one).startswith(type(one).__name__)
    assert "matrix=<array (20, 20)>" in repr(post.tree_distances())


def fit():
    return pt.BayesianTreeClassifier(nominal=[0]).fit(MANY[:, None], np.arange(80) % 2)


CALLS = {
    "a model": lambda: pt.TreeModel(MANY[:, None], np.arange(80) % 2, nominal=[0]),
    "classes": lambda: pt.TreeModel(np.arange(300.0)[:, None], np.arange(300)),
    "an estimator": fit,
}


@pytest.mark.more(everyday=["classes"])
@pytest.mark.parametrize("name", list(CALLS))
def test_at_any_depth(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[name]()
    assert {one.filename for one in caught} == {__file__}
