"""Credible intervals of E(y | x) and P(y | x): coverage of the truth, exact and sampled, every leaf, bad input."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.leaf.base import Leaf

N = 60
RNG = np.random.default_rng(3)
X = np.column_stack([RNG.integers(0, 5, N), RNG.integers(0, 4, N)]).astype(float)
PRIOR = {"tree_prior": pt.ChipmanPrior(0.9, 1.0, max_depth=2)}
LEAVES = {
    "normal": (pt.NormalInverseGamma(m0=0.0, k0=0.5, a0=3.0, b0=2.0), RNG.normal(size=N)),
    "known variance": (pt.NormalKnownVariance(1.0, m0=0.0, k0=0.3), RNG.normal(size=N)),
    "classes": (pt.DirichletMultinomial(1.0), RNG.integers(0, 3, N)),
    "counts": (pt.PoissonGamma(2.0, 0.5), RNG.poisson(3.0, N)),
    "times": (pt.ExponentialGamma(3.0, 2.0), np.column_stack([RNG.exponential(size=N), np.ones(N)])),
    "Weibull times": (
        pt.WeibullGamma(2.0, shape=3.0, rate=2.0),
        np.column_stack([RNG.exponential(size=N), np.ones(N)]),
    ),
    "times with exposures": (
        pt.ExponentialGamma(3.0, 2.0, exposure=RNG.uniform(0.3, 3.0, N)),
        np.column_stack([RNG.exponential(size=N), np.ones(N)]),
    ),
    "regression": (pt.NormalLinear([0], k0=0.5, k1=1.0, m0=0.0, a0=3.0, b0=2.0), RNG.normal(size=N)),
}


def simulate(model, rng):
    """Return y from the model, and E(y | x), (n, d), given the tree and parameters that were drawn for it."""
    tree, target, leaf = pt.simulate(model, rng=rng)[0], model.target, model.leaf
    number = tree.apply(X)
    y, truth = np.array(target.values), None
    for node in np.unique(number):
        rows = np.flatnonzero(number == node)
        parameters = leaf.draw_parameters(rng, np.zeros((1, leaf.n_stats(target))), target)
        parameters = [np.repeat(part, len(rows), axis=0) for part in parameters]
        row_regressors = () if target.regressors is None else (target.regressors[rows],)
        expected = leaf.expectation_given(parameters, *row_regressors)
        truth = np.empty((N, expected.shape[1])) if truth is None else truth
        truth[rows] = expected
        values = leaf.draw_given(rng, parameters, target, rows, *row_regressors)
        if y.ndim == 2 and values.ndim == 1:
            y[rows, 0] = values
        else:
            y[rows] = values
    return y, truth


def coverage_of(name, tables, seed):
    """Return the fraction of expectations inside 90 % intervals, over tables simulated from the model."""
    leaf, y = LEAVES[name]
    model, rng, is_covered = pt.TreeModel(X, y, leaf=leaf, **PRIOR), np.random.default_rng(seed), []
    while len(is_covered) < tables:
        y, truth = simulate(model, rng)
        if model.classes_ is not None and len(np.unique(y)) < 3:
            continue
        ends = exact.solve(pt.TreeModel(X, y, leaf=leaf, **PRIOR)).credible_interval(X)
        ends = ends if ends.ndim == 3 else ends[:, None]
        is_covered.append(np.mean((ends[..., 0] <= truth) & (truth <= ends[..., 1])))
    return np.mean(is_covered), np.std(is_covered) / np.sqrt(tables)


@pytest.mark.more(everyday=["normal"])
@pytest.mark.parametrize("name", LEAVES)
def test_coverage(name):
    fraction, error = coverage_of(name, 40, 1)
    assert abs(fraction - 0.9) < 0.02 + 3.0 * error, (fraction, error)


@pytest.mark.more(everyday=["normal", "Weibull times"])
@pytest.mark.parametrize("name", LEAVES)
def test_draws_have_the_same_distribution(name):
    leaf, y = LEAVES[name]
    truth = exact.solve(pt.TreeModel(X, y, leaf=leaf, **PRIOR))
    draws = truth.draw_expectations(X[:4], 4000, rng=2)
    ends = truth.credible_interval(X[:4], 0.8)
    fraction_below = (draws[..., None] >= ends[None]).mean(axis=0)
    assert np.allclose(fraction_below[..., 0], 0.9, atol=0.03)
    assert np.allclose(fraction_below[..., 1], 0.1, atol=0.03)


def test_exact_and_sampled_intervals_agree():
    leaf, y = LEAVES["classes"]
    model = pt.TreeModel(X, y, leaf=leaf, **PRIOR)
    sampled = pt.sample(model, 2000, tune=200, chains=2, rng=1, kernel="local", progress=False)
    assert np.abs(exact.solve(model).credible_interval(X) - sampled.credible_interval(X)).max() < 0.02


def custom_leaf(**functions):
    return pt.CustomLeaf(
        lambda s, n: -0.5 * s[1],
        stats=lambda y: np.column_stack([np.ones_like(y), y * y]),
        predict=lambda stats: np.zeros(len(stats)),
        **functions,
    )


def test_a_leaf_of_the_callers_own():
    leaf = custom_leaf(expectation=lambda rng, stats, leaf: rng.normal(size=len(stats))[leaf])
    truth = exact.solve(pt.TreeModel(X, RNG.normal(size=N), leaf=leaf, **PRIOR))
    assert np.allclose(truth.credible_interval(X[:2], 0.9), [-1.645, 1.645], atol=0.2)


def test_refused():
    truth = exact.solve(pt.TreeModel(X, RNG.normal(size=N), leaf=custom_leaf(), **PRIOR))
    with pytest.raises(ValueError, match="has no expectation"):
        truth.credible_interval(X)
    loss = exact.solve(pt.TreeModel(X, LEAVES["classes"][1], leaf=pt.PacBayesLoss(1.0), **PRIOR))
    with pytest.raises(ValueError, match="is a loss"):
        loss.credible_interval(X)
    post = exact.solve(pt.TreeModel(X, LEAVES["counts"][1], leaf=pt.PoissonGamma(), **PRIOR))
    with pytest.raises(ValueError, match="coverage"):
        post.credible_interval(X, 1.5)
    with pytest.raises(ValueError, match="draws"):
        post.draw_expectations(X, 0)


def test_every_leaf_has_an_expectation():
    """A new leaf model must declare the posterior of its expectation, or say that it has none."""
    from pactree_mcmc.model.model import COMPILED_LEAVES as known

    without = {leaf.__name__ for leaf in known if leaf.expectation is Leaf.expectation}
    assert without == {"PacBayesLoss", "CustomLeaf", "PiecewiseExponential"}
