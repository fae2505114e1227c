"""The predictive law of a regression against densities from scores, a plain mixture, and its own inverse."""

import numpy as np
import pytest
from scipy import stats as laws

import pactree_mcmc as pt
from pactree_mcmc.predictive import Predictive

LEAVES = [
    pt.NormalInverseGamma(m0=0.3, k0=0.5, a0=2.0, b0=1.5),
    pt.NormalSharedVariance(m0=0.3, k0=0.5, a0=2.0, b0=1.5),
    pt.NormalKnownVariance(sigma2=0.7, m0=0.3, k0=0.5),
]


def sampled(leaf, weighted=False):
    rng = np.random.default_rng(3)
    X = rng.random((60, 2))
    y = np.where(X[:, 0] > 0.5, 2.0, -1.0) + rng.normal(size=60)
    model = pt.TreeModel(X, y, leaf=leaf, sample_weight=rng.integers(1, 3, 60) if weighted else None)
    return pt.sample(model, 40, tune=20, chains=2, rng=1, kernel="grow-prune", progress=False), rng.random((7, 2))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: type(leaf).__name__)
def test_density_is_what_one_more_row_adds_to_the_score(leaf, weighted):
    post, _ = sampled(leaf, weighted)
    target, law = post.model.target, Predictive(post)._law
    for t in range(min(post.n_distinct_trees, 20)):
        nodes = np.arange(post.distinct_trees.offset[t], post.distinct_trees.offset[t + 1])
        leaves = nodes[post.distinct_trees.feature[nodes] < 0]
        for i, node in enumerate(leaves):
            for y in (-2.0, 0.1, 5.0):
                away = y - target.center
                more = post.node_stats[leaves].copy()
                more[i] += [1.0, away, away**2]
                added = leaf.log_tree_score(more, target) - leaf.log_tree_score(post.node_stats[leaves], target)
                told = laws.t.logpdf(y, law.df[node], law.location[node], law.scale[node])
                assert told == pytest.approx(added, abs=1e-8)


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: type(leaf).__name__)
def test_mixture_is_that_of_the_trees(leaf):
    post, X = sampled(leaf)
    predictive = Predictive(post)
    law = predictive._law
    weight, mean, second, below = post.weight_of_tree, np.zeros(7), np.zeros(7), np.zeros(7)
    for t, w in enumerate(weight):
        node = post.distinct_trees.offset[t] + post.distinct_tree(t).apply(X)
        each = laws.t(law.df[node], law.location[node], law.scale[node])
        mean, second, below = (
            mean + w * each.mean(),
            second + w * (each.var() + each.mean() ** 2),
            below + w * each.cdf(0.4),
        )
    told_mean, told_variance = predictive.mean_and_variance(X)
    assert np.allclose(told_mean, mean) and np.allclose(told_mean, post.predict(X))
    assert np.allclose(told_variance, second - mean**2)
    assert np.allclose(predictive.cdf(X, np.full(7, 0.4)), below)


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: type(leaf).__name__)
def test_quantiles_invert_the_law(leaf):
    post, X = sampled(leaf)
    predictive, q = Predictive(post), [1e-6, 0.01, 0.5, 0.9, 1.0 - 1e-6]
    found = predictive.quantiles(X, q)
    assert np.all(np.diff(found, axis=1) > 0.0)
    for j, share in enumerate(q):
        assert np.allclose(predictive.cdf(X, found[:, j]), share, rtol=1e-6, atol=1e-9)


def test_far_modes():
    """Two leaves far apart leave a gap in which the law is flat."""
    x = np.arange(80.0)
    model = pt.TreeModel(x[:, None], np.where(x % 2 == 0, 0.0, 1000.0) + 0.01 * np.sin(x), leaf=LEAVES[2])
    post = pt.sample(model, 30, tune=0, chains=2, rng=0, start="prior", kernel="grow-prune", progress=False)
    predictive = Predictive(post)
    q = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    found = predictive.quantiles(x[:, None], q)
    for j, share in enumerate(q):
        assert np.allclose(predictive.cdf(x[:, None], found[:, j]), share, atol=1e-7)


def test_infinite_variance():
    post, X = sampled(pt.NormalInverseGamma(a0=1e-3, b0=1.0))
    lone = Predictive(post)
    lone._law = lone._law._replace(df=np.full_like(lone._law.df, 1.5))
    assert np.all(np.isinf(lone.mean_and_variance(X)[1]))


def test_refused():
    x = np.arange(20.0)[:, None]
    counts = pt.sample(pt.TreeModel(x, np.arange(20) % 3, leaf=pt.PoissonGamma()), 4, chains=1, rng=0, progress=False)
    with pytest.raises(
        ValueError, match="PoissonGamma has no normal or Student predictive law; give NormalInverseGamma"
    ):
        Predictive(counts)
    classes = pt.sample(pt.TreeModel(x, np.arange(20) % 3), 4, chains=1, rng=0, progress=False)
    with pytest.raises(ValueError, match="is a classification"):
        Predictive(classes)
    with pytest.raises(ValueError, match=r"q=\[0\.5, 1\.0\] is out of range"):
        Predictive(sampled(LEAVES[0])[0]).quantiles(x[:, [0, 0]], [0.5, 1.0])
