"""Exposures of times and counts: scores equal integrals, both engines, predictions, draws, files, bad input."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, special, stats

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.leaf.compiled import leaf_score

N = 9
RNG = np.random.default_rng(5)
X = np.column_stack([np.arange(N) % 4, np.arange(N) % 3]).astype(float)
E = RNG.uniform(0.3, 3.0, N)
TIMES = np.column_stack([RNG.exponential(2.0, N) + 0.05, RNG.random(N) < 0.7]).astype(float)
COUNTS = RNG.poisson(3.0, N).astype(float)
PRIOR = {"tree_prior": pt.ChipmanPrior(0.9, 1.0, max_depth=2)}


def hazard(rate, rows, k):
    time, event = TIMES[rows].T
    e = E[rows]
    return float(np.sum(event * (np.log(rate * e * k) + (k - 1.0) * np.log(time)) - rate * e * time**k))


LEAVES = {
    "exponential": (pt.ExponentialGamma(2.5, 3.0, exposure=E), TIMES, lambda r, rows: hazard(r, rows, 1.0)),
    "weibull": (pt.WeibullGamma(1.6, 2.5, 3.0, exposure=E), TIMES, lambda r, rows: hazard(r, rows, 1.6)),
    "poisson": (
        pt.PoissonGamma(2.5, 3.0, exposure=E),
        COUNTS,
        lambda r, rows: float(stats.poisson.logpmf(COUNTS[rows], r * E[rows]).sum()),
    ),
}


def model_of(name, **more):
    leaf, y, _ = LEAVES[name]
    return pt.TreeModel(X, y, leaf=leaf, **PRIOR, **more)


@pytest.mark.more(everyday=["exponential"])
@pytest.mark.parametrize("name", LEAVES)
def test_the_score_is_the_integral_of_the_likelihood(name):
    model, likelihood = model_of(name), LEAVES[name][2]
    own = model.leaf.row_stats(model.target)
    prior = stats.gamma(2.5, scale=1.0 / 3.0)
    for rows in ([0], [1, 2, 3], list(range(N))):

        def density(value, rows=rows):
            return prior.pdf(value) * math.exp(likelihood(value, rows) + 30.0)

        expected = math.log(integrate.quad(density, 0.0, 8.0, limit=300, epsrel=1e-10)[0]) - 30.0
        sums = own[rows].sum(axis=0)
        assert model.leaf.log_score(sums, model.target) == pytest.approx(expected, abs=1e-7)
        assert leaf_score(model.lowered.leaf, sums[None], 0) == pytest.approx(expected, abs=1e-7)


@pytest.mark.more(everyday=["exponential"])
@pytest.mark.parametrize("name", LEAVES)
def test_the_evidence_is_the_sum_over_all_trees(name):
    model = model_of(name, sample_weight=RNG.choice([1.0, 2.0], N))
    truth = exact.solve(model, progress=False)
    best = truth.best_trees(100_000)
    assert truth.log_evidence == pytest.approx(special.logsumexp([model.log_posterior(tree) for tree in best.trees]))


@pytest.mark.more(everyday=["exponential"])
@pytest.mark.parametrize("name", LEAVES)
def test_predictions_at_an_exposure_are_the_means_of_draws(name):
    model = model_of(name)
    truth = exact.solve(model, progress=False)
    at_one, at_exposure = truth.predict(X), truth.predict(X, exposure=E)
    power = {"weibull": -1.0 / 1.6, "exponential": -1.0}.get(name, 1.0)
    assert at_exposure == pytest.approx(at_one * E**power)
    assert truth.predict(X[:1], exposure=2.0) == pytest.approx(at_one[:1] * 2.0**power)
    rng, leaf = np.random.default_rng(1), model.leaf
    zeros = np.zeros((1, leaf.n_stats(model.target)))
    rate = np.repeat(leaf.draw_parameters(rng, zeros, model.target)[0], N)
    sample = [leaf.draw_given(rng, [rate], model.target, np.arange(N)) for _ in range(20_000)]
    assert np.mean(sample, axis=0) == pytest.approx(leaf.expectation_given([rate])[:, 0] * E**power, rel=0.08)


def test_refused():
    with pytest.raises(ValueError, match=r"exposure has shape \(2,\); y has 9 rows"):
        pt.TreeModel(X, TIMES, leaf=pt.ExponentialGamma(exposure=[1.0, 2.0]))
    with pytest.raises(ValueError, match=r"exposure=0\.0 is out of range"):
        pt.WeibullGamma(exposure=np.zeros(N))
    frame = pd.DataFrame(X)
    with pytest.raises(ValueError, match="exposure has"):
        pt.TreeModel(frame, COUNTS, leaf=pt.PoissonGamma(exposure=pd.Series(E, index=np.arange(N)[::-1])))
    truth = exact.solve(model_of("exponential"), progress=False)
    with pytest.raises(ValueError, match="out of range"):
        truth.predict(X, exposure=-1.0)
    with pytest.raises(ValueError, match=r"shape \(2,\); X has 9 rows"):
        truth.predict(X, exposure=[1.0, 2.0])
    with pytest.raises(ValueError, match="for exposure 1"):
        truth.calibration(X, TIMES)
    normal = exact.solve(pt.TreeModel(X, RNG.normal(size=N), **PRIOR), progress=False)
    with pytest.raises(ValueError, match="NormalInverseGamma has no exposure"):
        normal.predict(X, exposure=2.0)
