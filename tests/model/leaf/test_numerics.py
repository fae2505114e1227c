"""Scores, densities and means at extreme sizes are those of arbitrary precision, to nine digits."""

from dataclasses import replace

import numpy as np
import pytest
from mpmath import exp, log, mpf

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.leaf.compiled import leaf_score
from tests.reference import precise

N = 12
X = np.arange(float(N))[:, None]
RNG = np.random.default_rng(11)
NUMBERS = RNG.normal(size=N).round(3)
CLASSES = np.array([0, 1, 1, 0, 1, 1, 1, 0, 2, 0, 0, 2])
COUNTS = RNG.poisson(2.5, N).astype(float)
E = np.arange(N) % 2 == 0
EXPOSURE = np.linspace(0.5, 2.0, N)
UNEVEN = RNG.permutation(10.0 ** np.linspace(-12, 12, N))
WEIGHTS = {
    "ones": np.ones(N),
    "1e5 rows, whole": np.round(1e5 * np.linspace(0.2, 1.8, N) / N),
    "1e6 rows, whole": np.round(1e6 * np.linspace(0.2, 1.8, N) / N),
    "1e7 rows": np.round(1e7 * np.linspace(0.2, 1.8, N) / N),
    "1e7 rows in one": np.append(np.full(N - 1, 0.01), 1e7),
    "1e-12": np.full(N, 1e-12),
    "1e12": np.full(N, 1e12),
    "1e-12 to 1e12": UNEVEN,
    "zeros": np.where(CLASSES == 2, 0.0, 1.5),
}
ROWS = [list(range(N)), [0], [N - 1], [1, 2, 4, 5, 6], [0, 3], [2, 7, 10, 11], list(range(6))]
"""Cells: everything, single rows, one class alone."""
LEAVES = {
    "dirichlet": pt.DirichletMultinomial(0.7),
    "dirichlet by class": pt.DirichletMultinomial([1e-3, 2.0, 40.0]),
    "laplace": pt.FrozenLaplace(0.5),
    "loss": pt.PacBayesLoss(0.8, 0.3),
    "normal": pt.NormalInverseGamma(),
    "normal, m0 away": pt.NormalInverseGamma(m0=0.0, k0=0.5, a0=2.0, b0=1.0),
    "known": pt.NormalKnownVariance(),
    "known, m0 away": pt.NormalKnownVariance(sigma2=0.5, m0=0.0, k0=2.0),
    "shared": pt.NormalSharedVariance(),
    "poisson": pt.PoissonGamma(),
    "poisson with exposure": pt.PoissonGamma(1.5, 0.8, EXPOSURE),
}
OFFSETS = {"normal": 1e9, "normal, m0 away": 1e9, "known": 1e9, "known, m0 away": 1e9, "shared": 1e9, "poisson": 1e9}
SOLVED = {
    "1e7 rows": ("dirichlet", WEIGHTS["1e7 rows"], 0.0),
    "1e12, pure cells": ("dirichlet", WEIGHTS["1e12"], 0.0),
    "uneven classes": ("dirichlet by class", UNEVEN, 0.0),
    "uneven loss": ("loss", UNEVEN, 0.0),
    "frozen, 1e12": ("laplace", WEIGHTS["1e12"], 0.0),
    "far numbers": ("normal", WEIGHTS["ones"], 1e9),
    "far numbers, m0 away": ("normal, m0 away", WEIGHTS["1e7 rows"], 1e9),
    "heavy numbers": ("normal", WEIGHTS["1e12"], 0.0),
    "uneven numbers": ("known", UNEVEN, 0.0),
    "uneven counts": ("poisson", UNEVEN, 0.0),
    "far counts": ("poisson", WEIGHTS["ones"], 1e9),
}
BEYOND_ROUNDING = {"frozen, 1e12", "heavy numbers", "uneven numbers", "uneven counts"}
"""Cases whose log evidence is beyond 1e12 nats, where rounding changes the odds of trees."""


def y_of(leaf):
    if leaf.startswith(("dirichlet", "laplace", "loss")):
        return CLASSES
    return COUNTS if leaf.startswith("poisson") else NUMBERS


def model_of(leaf, weight, offset=0.0):
    estimation = E if leaf == "laplace" else None
    y = y_of(leaf)
    y = y + offset if offset else y
    return pt.TreeModel(X, y, leaf=LEAVES[leaf], sample_weight=weight, estimation=estimation)


def cell_of(model, rows, offset=0.0):
    exposure = getattr(model.leaf, "exposure", None)
    y = model.target.values[rows]
    weight = model.target.weights[rows]
    estimation = None if model.target.estimation is None else model.target.estimation[rows]
    return precise.Cell(y, weight, estimation, None if exposure is None else exposure[rows])


def true_score(model, cell):
    """Score of one cell, by the name of its leaf model."""
    leaf, K = model.leaf, model.target.n_classes
    if isinstance(leaf, pt.DirichletMultinomial):
        return precise.dirichlet(cell, np.broadcast_to(leaf.alpha, K))
    if isinstance(leaf, pt.FrozenLaplace):
        return precise.laplace(cell, leaf.pseudocount, K)
    if isinstance(leaf, pt.PacBayesLoss):
        return precise.loss(cell, leaf.lambda1, leaf.lambda2, K)
    if isinstance(leaf, pt.NormalKnownVariance):
        return precise.known(cell, leaf.sigma2, leaf.m0, leaf.k0)
    if isinstance(leaf, pt.PoissonGamma):
        return precise.poisson(cell, leaf.shape, leaf.rate)
    return precise.normal([cell], leaf.m0, leaf.k0, leaf.a0, leaf.b0)


def true_prediction(model, cell, y, exposure):
    """Means or probabilities, and the log density of ``y``."""
    leaf, K = model.leaf, model.target.n_classes
    if isinstance(leaf, pt.PoissonGamma):
        a, b = precise.gamma_of(cell, leaf.shape, leaf.rate)
        return [a / b], precise.poisson_density(cell, leaf.shape, leaf.rate, y, exposure)
    if isinstance(leaf, pt.NormalKnownVariance):
        mean = precise.spread(cell, leaf.m0, leaf.k0)[0]
        return [mean], precise.known_density(cell, leaf.sigma2, leaf.m0, leaf.k0, y)
    if not leaf.is_classifier:
        mean = precise.spread(cell, leaf.m0, leaf.k0)[0]
        return [mean], precise.normal_density(cell, leaf.m0, leaf.k0, leaf.a0, leaf.b0, y)
    if isinstance(leaf, pt.FrozenLaplace):
        values = precise.laplace_values(cell, mpf(leaf.pseudocount), K)
    elif isinstance(leaf, pt.DirichletMultinomial):
        raised = [n + a for n, a in zip(cell.counts(K), precise.exact(np.broadcast_to(leaf.alpha, K)))]
        values = [n / sum(raised) for n in raised]
    else:
        counts = cell.counts(K)
        return [mpf(j == counts.index(max(counts))) for j in range(K)], None
    return values, log(values[int(y)])


def assert_digits(found, true, slack=0.0):
    assert np.isfinite(found)
    assert abs(mpf(float(found)) - true) <= 1e-9 * abs(true) + 1e-13 + slack, (found, float(true))


def slack_of(model, rows):
    """Return the rounding error of the moments if light rows lie beside heavy ones far from the mean of all y."""
    leaf, weight = model.leaf, model.target.weights[rows]
    if not hasattr(leaf, "a0") or weight.max() < 1e13 * weight.min():
        return 0.0
    squares = float(weight @ (model.target.values[rows] - model.target.center) ** 2)
    return 2.0**-50 * squares / leaf.b0 * (leaf.a0 + weight.sum() / 2.0)


def stats_of(model, rows):
    return replace(model.root_cell(), index=np.asarray(rows)).stats(model.leaf.n_stats(model.target))


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("leaf", LEAVES)
def test_scores(leaf, weight):
    check_scores(model_of(leaf, WEIGHTS[weight]), leaf)


@pytest.mark.parametrize("weight", ["ones", "1e7 rows", "1e-12", "1e12"])
@pytest.mark.parametrize("leaf", OFFSETS)
def test_scores_far_from_zero(leaf, weight):
    check_scores(model_of(leaf, WEIGHTS[weight], OFFSETS[leaf]), leaf)


def check_scores(model, leaf):
    """Plain and compiled scores of cells, and of a tree; means, probabilities, densities."""
    rule = model.leaf.rule(model.target)
    for rows in ROWS:
        cell, stats = cell_of(model, rows), stats_of(model, rows)
        true, slack = true_score(model, cell), slack_of(model, rows)
        assert_digits(model.leaf.log_tree_score(stats[None], model.target), true, slack)
        if leaf != "shared":  # its compiled score is that given a variance
            assert_digits(leaf_score(rule, stats[None], 0), true, slack)
        check_predictions(model, cell, stats, slack)
    halves = [cell_of(model, list(range(6))), cell_of(model, list(range(6, N)))]
    true = (
        precise.normal(halves, model.leaf.m0, model.leaf.k0, model.leaf.a0, model.leaf.b0)
        if leaf == "shared"
        else sum(true_score(model, half) for half in halves)
    )
    tree = pt.Tree([0, -1, -1], [5.5, 0, 0], [1, 0, 0], [2, 0, 0])
    assert_digits(model.log_score(tree), true, sum(slack_of(model, rows) for rows in (range(6), range(6, N))))


def check_predictions(model, cell, stats, slack):
    y, leaf = model.target.values, model.leaf
    cells = np.tile(stats, (N, 1))
    exposure = getattr(leaf, "exposure", None)
    means = leaf.value(stats[None], model.target)[0]
    noise = np.array([0.7, 40.0])
    densities = None if isinstance(leaf, pt.PacBayesLoss | pt.NormalSharedVariance) else True
    if densities:
        densities = leaf.log_density(cells, y, model.target)
    given = (
        None if leaf.has_additive_score else [leaf.with_variance(v).log_density(cells, y, model.target) for v in noise]
    )
    for i in (0, 3, N - 1):
        values, density = true_prediction(model, cell, y[i], 1.0 if exposure is None else exposure[i])
        for result, true in zip(means, values, strict=True):
            assert_digits(result, true)
        if densities is not None:
            assert_digits(densities[i], density, slack and np.inf)
        for result, sigma2 in zip(given if given is not None else [], noise):
            assert_digits(result[i], precise.known_density(cell, sigma2, leaf.m0, leaf.k0, y[i]))


def true_evidence(model, first, last, depth=0):
    """Sum over all trees of the rows from ``first`` up to ``last``, one feature, all values distinct, local cuts."""
    score = exp(true_score(model, cell_of(model, list(range(first, last)))))
    if last - first == 1:
        return score
    below = sum(
        true_evidence(model, first, cut, depth + 1) * true_evidence(model, cut, last, depth + 1)
        for cut in range(first + 1, last)
    )
    split = mpf(0.95) / (1 + mpf(depth)) ** 2
    return (1 - split) * score + split * below / (last - first - 1)


@pytest.mark.parametrize("case", SOLVED)
def test_evidence(case):
    leaf, weight, offset = SOLVED[case]
    full_model = model_of(leaf, weight, offset)
    few = np.arange(5) + 4
    y, mask = full_model.target.values[few], E[few] if leaf == "laplace" else None
    K = full_model.target.n_classes
    model = pt.TreeModel(X[:5], y % K if K else y, leaf=LEAVES[leaf], sample_weight=weight[few], estimation=mask)
    if case in BEYOND_ROUNDING:
        with pytest.raises(exact.Intractable, match="nats of log evidence"):
            exact.solve(model)
    else:
        assert_digits(exact.solve(model).log_evidence, log(true_evidence(model, 0, 5)))
