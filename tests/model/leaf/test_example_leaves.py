"""The leaves of `examples/leaves.py`: every check passes, scores are integrals, predictions follow from them."""

import importlib
import math

import numpy as np
import pytest
from scipy import integrate, stats

import pactree_mcmc as pt
from tests import ROOT

N = 24
RNG = np.random.default_rng(8)
X = np.column_stack([np.arange(N) % 4, np.arange(N) % 3]).astype(float)
ORDER = ["low", "mid", "high", "top"]
AMOUNTS, COUNTS = RNG.exponential(2.0, N) + 0.05, RNG.poisson(3.0, N).astype(float)
GRADES = np.array(ORDER)[np.clip((X[:, 0] + RNG.normal(size=N)).round().astype(int), 0, 3)]
assert len(set(GRADES)) == 4
LEAVES = {
    "amounts": ((2.0, 2.5, 3.0), AMOUNTS),
    "spread_counts": ((1.5, 2.5, 3.0), COUNTS),
    "successes": ((1.2, 0.7), np.column_stack([RNG.integers(0, 5, N), np.full(N, 5)]).astype(float)),
    "ordered_classes": ((ORDER, 1.7), GRADES),
}
PRIORS = {
    "amounts": (stats.gamma(2.5, scale=1.0 / 3.0), 30.0),
    "spread_counts": (stats.beta(2.5, 3.0), 1.0),
    "successes": (stats.beta(1.2, 0.7), 1.0),
}


@pytest.fixture(scope="module")
def examples():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        return importlib.import_module("leaves")


def leaf_of(examples, name):
    return getattr(examples, name)(*LEAVES[name][0])


def log_likelihood(name, p, y):
    if name == "amounts":
        return stats.gamma.logpdf(y, 2.0, scale=1.0 / p).sum()
    return (stats.nbinom.logpmf(y, 1.5, p) if name == "spread_counts" else stats.binom.logpmf(*y.T, p)).sum()


@pytest.mark.parametrize("name", LEAVES)
def test_the_checks_pass(examples, name):
    leaf, y = leaf_of(examples, name), LEAVES[name][1]
    report = pt.testing.check_leaf(leaf, y)
    assert report.max_difference < 1e-9
    assert {"value", "log_density", "draw"} <= set(report.offered)
    assert ("cdf" in report.offered) == (name == "amounts")


@pytest.mark.parametrize("name", PRIORS)
def test_the_score_is_the_integral_of_the_likelihood(examples, name):
    leaf, y, (prior, end) = leaf_of(examples, name), LEAVES[name][1], PRIORS[name]
    model = pt.TreeModel(X, y, leaf=leaf)
    own = leaf.row_stats(model.target)
    for rows in ([0], [1, 2, 3], list(range(6))):

        def density(p, rows=rows):
            return prior.pdf(p) * math.exp(log_likelihood(name, p, y[rows]))

        expected = integrate.quad(density, 0.0, end, limit=500, epsabs=0.0, epsrel=1e-10)[0]
        assert leaf.log_score(own[rows].sum(axis=0), model.target) == pytest.approx(math.log(expected), abs=1e-7)


def test_the_score_of_ordered_classes_is_the_product_of_predictions_row_after_row(examples):
    leaf = leaf_of(examples, "ordered_classes")
    model = pt.TreeModel(X, GRADES, leaf=leaf)
    own, labels, stats_, score = leaf.row_stats(model.target), model.classes_.tolist(), np.zeros((1, 4)), 0.0
    for i in RNG.permutation(N):
        # the beta posterior of each step, in plain words
        in_order = [stats_[0, labels.index(label)] for label in ORDER]
        reached, chance = 1.0, {}
        for j, label in enumerate(ORDER):
            stop = (1.7 / (4 - j) + in_order[j]) / (1.7 + sum(in_order[j:])) if j < 3 else 1.0
            chance[label] = reached * stop
            reached *= 1.0 - stop
        assert leaf.value(stats_, model.target)[0].tolist() == pytest.approx([chance[label] for label in labels])
        score += np.log(chance[GRADES[i]])
        stats_ += own[i]
        assert leaf.log_score(stats_[0], model.target) == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("name", LEAVES)
def test_draws_have_the_mean_that_is_predicted(examples, name):
    leaf, rng = leaf_of(examples, name), np.random.default_rng(3)
    target = pt.TreeModel(X, LEAVES[name][1], leaf=leaf).target
    sums = np.tile(leaf.row_stats(target).sum(axis=0), (20_000, 1))
    value = leaf.value(sums[:1], target)[0]
    means = leaf.draw_expectation(rng, sums, np.arange(20_000), target)
    assert means.mean(axis=0) == pytest.approx(value, abs=0.03)
    y = leaf.draw(rng, sums, np.arange(20_000), target)
    y = np.eye(4)[y] if leaf.is_classifier else y.reshape(20_000, -1)[:, :1]
    assert y.mean(axis=0) == pytest.approx(value, abs=0.1)
