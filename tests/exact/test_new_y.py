"""The exact distribution of a new y against enumeration: quantiles, deviations, draws, on every kind of graph."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

import exact
import pactree_mcmc as pt
from tests.problems.drawn import random_problem
from tests.problems.models import cdf as mixture_cdf
from tests.problems.refusals import refuses
from tests.reference.enumeration import Reference, enumerate_trees, leaf_of
from tests.reference.leaf_scores import gamma_parameters, moments

GRAPHS = ["local", "grid", "dyadic", "fixed"]
LEAVES = ["nig", "known", "poisson"]
SEEDS = range(3)


def leaf_distribution(problem, rows):
    """The distribution of a new y of weight and exposure 1, from the rows of a leaf alone."""
    leaf = problem.leaf
    if leaf["kind"] == "poisson":
        shape, rate = gamma_parameters(problem, rows)
        return stats.nbinom(shape, rate / (rate + 1.0))
    n, mean, scatter = moments(problem, rows)
    k0, m0 = leaf["k0"], leaf["m0"]
    center = (k0 * m0 + n * mean) / (k0 + n)
    if leaf["kind"] == "known":
        return stats.norm(center, math.sqrt(leaf["sigma2"] * (1.0 + 1.0 / (k0 + n))))
    a, b = leaf["a0"] + n / 2.0, leaf["b0"] + scatter / 2.0 + k0 * n * (mean - m0) ** 2 / (2.0 * (k0 + n))
    return stats.t(2.0 * a, center, math.sqrt(b / a * (1.0 + 1.0 / (k0 + n))))


def problem_of(split_prior, leaf, seed, gaps=False):
    rng = np.random.default_rng([GRAPHS.index(split_prior), LEAVES.index(leaf), seed, gaps])
    while True:
        problem, model = random_problem(rng, split_prior=split_prior, leaf=leaf, max_trees=400, gaps=gaps)
        if len(enumerate_trees(problem)) >= 8:
            break
    truth, trees = exact.solve(model), Reference(problem).posterior()
    rows = [problem.X[0], problem.X[-1], problem.X[len(problem.X) // 2]]
    table = np.empty((len(rows), model.n_features), dtype=object)
    for i, row in enumerate(rows):
        table[i] = row
    if model.columns.named:
        import pandas as pd

        table = pd.DataFrame({name: [row[k] for row in rows] for k, name in enumerate(model.columns.names)})
    distribution = [[(p, leaf_distribution(problem, leaf_of(problem, t, row).rows)) for t, p in trees] for row in rows]
    return truth, table, distribution


def two_moments(distribution):
    """Mean, or where there is none the middle, and mean square."""
    mean = distribution.mean() if distribution.dist.name == "nbinom" else distribution.median()
    endless = distribution.dist.name == "t" and distribution.args[0] <= 2.0
    return np.array([mean, np.inf if endless else distribution.var() + mean**2])


def below(mixture, y):
    return sum(p * distribution.cdf(y) for p, distribution in mixture)


@pytest.mark.more(everyday=["local-nig-0", "grid-known-1", "dyadic-poisson-2", "fixed-nig-0"])
@pytest.mark.parametrize(("graph", "leaf", "seed"), list(product(GRAPHS, LEAVES, SEEDS)))
def test_equals_enumeration(graph, leaf, seed):
    check(*problem_of(graph, leaf, seed))


@pytest.mark.more(everyday=["local-nig"])
@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("graph", ["local", "grid"])
def test_equals_enumeration_with_missing_values(graph, leaf):
    check(*problem_of(graph, leaf, 0, gaps=True))


def check(truth, table, distribution):
    numbers = truth.model.columns.numbers(table)
    for y in (-0.5, 0.0, 1.3, 4.0):
        cdf = mixture_cdf(truth, numbers, np.full(len(distribution), y))
        assert cdf == pytest.approx([below(mixture, y) for mixture in distribution], abs=1e-9)
    mean, square = np.array([np.sum([p * two_moments(d) for p, d in mixture], axis=0) for mixture in distribution]).T
    assert truth.predict(table) == pytest.approx(mean, rel=1e-8, abs=1e-8)
    assert truth.predict_std_new_y(table) == pytest.approx(np.sqrt(square - mean**2), rel=1e-6)
    q = [0.02, 0.3, 0.5, 0.97]
    quantiles = truth.predict_quantiles(table, q)
    for i, mixture in enumerate(distribution):
        for j, fraction in enumerate(q):
            if isinstance(truth.model.leaf, pt.PoissonGamma):
                y = quantiles[i, j]
                assert y == np.floor(y) and below(mixture, y) >= fraction - 1e-9
                assert y == 0.0 or below(mixture, y - 1.0) < fraction + 1e-9
            else:
                assert below(mixture, quantiles[i, j]) == pytest.approx(fraction, abs=1e-7)
    assert truth.predict_interval(table, 0.8) == pytest.approx(truth.predict_quantiles(table, [0.1, 0.9]))


@pytest.mark.more
@pytest.mark.parametrize("leaf", LEAVES)
def test_draws_follow_enumeration(leaf):
    """Fractions below a few values; the chance of a false alarm is about 1e-6 each."""
    check_draws(*problem_of("grid", leaf, 0))


def check_draws(truth, table, distribution):
    sampled = truth.sample_predictive(table, 4000, rng=2)
    assert sampled.shape == (4000, 3)
    for i, mixture in enumerate(distribution):
        for q in (0.1, 0.5, 0.9):
            y = float(truth.predict_quantiles(table, q)[i])
            p = below(mixture, y)
            assert abs((sampled[:, i] <= y).mean() - p) < 5.0 * math.sqrt(p * (1.0 - p) / 4000)


def regression(n=24):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 6, (n, 2)).astype(float)
    return pt.TreeModel(X, X[:, 0] + rng.normal(size=n), tree_prior=pt.ChipmanPrior(0.9, 0.5, max_depth=3)), X


def test_refused():
    model, X = regression()
    truth = exact.solve(model)
    for wrong in (np.nan, 0.0, 1.0, [[0.5]]):
        with pytest.raises(ValueError, match="q="):
            truth.predict_quantiles(X, wrong)
    refuses("draws=0", lambda: truth.sample_predictive(X, 0))
    refuses("column", lambda: truth.predict_interval(X[:, :1]))
    assert truth.predict_interval(X[:0]).shape == (0, 2) and truth.sample_predictive(X[:0], 2).shape == (2, 0)
    classes = exact.solve(pt.TreeModel(X, X[:, 0] > 2))
    refuses(r"leaf of classes.*sample_predictive draws labels", lambda: classes.predict_interval(X))
    loss = exact.solve(pt.TreeModel(X, X[:, 0] > 2, leaf=pt.PacBayesLoss(1.0)))
    refuses("PacBayesLoss is a loss, not a model of y", lambda: loss.sample_predictive(X))
