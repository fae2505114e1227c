"""R-hat and effective sample sizes against ArviZ, and the decisions that use them."""

import numpy as np
import pytest

from pactree_mcmc.posterior import convergence
from pactree_mcmc.posterior.ess import ess, explained_by_chance, rhat, rhat_and_ess
from pactree_mcmc.posterior.inference_data import load_arviz


def chains(rng, shape, stickiness=0.0):
    """Return autocorrelated normal draws."""
    values = rng.normal(size=shape)
    for t in range(1, shape[-1]):
        values[..., t] += stickiness * values[..., t - 1]
    return values


def figures_of_arviz(values):
    """Return R-hat and effective sample size of each quantity by ArviZ."""
    az = load_arviz()
    with np.errstate(invalid="ignore"):
        # a part of few draws may be constant
        return [float(az.rhat(quantity)) for quantity in values], [float(az.ess(quantity)) for quantity in values]


@pytest.mark.more(everyday=["shape0--0.7", "shape1-0.0"])
@pytest.mark.parametrize("stickiness", [-0.7, 0.0, 0.95, 0.999])
@pytest.mark.parametrize("shape", [(4, 500), (3, 101), (5, 7), (2, 4), (7, 18)])
def test_figures_equal_those_of_arviz(shape, stickiness):
    values = chains(np.random.default_rng(len(shape) + shape[1]), (12, *shape), stickiness)
    values[4:8] = np.round(values[4:8])
    values[8:] = values[8:] > 0.3
    half = shape[1] // 2
    moves = [np.ptp(v[:, :half], axis=1).any() or np.ptp(v[:, -half:]).any() for v in values]
    for own, reference in zip(rhat_and_ess(values[moves]), figures_of_arviz(values[moves]), strict=True):
        assert own == pytest.approx(reference, rel=1e-9, nan_ok=True)


def test_figures_of_odd_input():
    values = np.random.default_rng(0).normal(size=(6, 3, 20))
    values[1] = 7.0
    values[2] = [[0.0], [1.0], [5.0]]
    values[3, 0, 3] = np.nan
    values[4, 1, 0] = -np.inf
    values[5] = np.arange(3 * 20).reshape(3, 20) % 2
    own_rhat, own_ess = rhat_and_ess(values)
    assert (own_rhat[1], own_ess[1]) == (1.0, 60.0)
    assert own_rhat[2] == np.inf and own_ess[2] < 10
    assert np.isnan(own_rhat[3:5]).all() and np.isnan(own_ess[3:5]).all()
    assert own_rhat[5] < 1.01
    assert [rhat(v) for v in values] == pytest.approx(own_rhat, nan_ok=True)
    assert [ess(v) for v in values] == pytest.approx(own_ess, nan_ok=True)
    assert [a.shape for a in rhat_and_ess(np.ones((0, 2, 9)))] == [(0,), (0,)]
    for few in (np.ones((2, 0, 9)), np.ones((2, 3, 3)), np.ones((2, 3, 0)), np.ones((2, 1, 0))):
        assert np.isnan(rhat_and_ess(few)).all()
        assert np.isnan([rhat(few[0]), ess(few[0])]).all()


def quantities(rng, n, rho, shift=0.0):
    """Autocorrelated normal quantities (n, 4 * 1000) by draw, in four chains, one of which is shifted in the first."""
    values = rng.normal(size=(n, 4, 1000))
    for t in range(1, 1000):
        values[..., t] = rho * values[..., t - 1] + np.sqrt(1.0 - rho**2) * values[..., t]
    values[0, 2] += shift
    return values.reshape(n, -1)


@pytest.mark.more
@pytest.mark.parametrize(("rho", "strict"), [pytest.param(0.0, False, marks=pytest.mark.more), (0.6, True)])
def test_chance_explains_the_largest_of_many(rho, strict):
    """Five hundred unrelated quantities of the same distribution in all chains: some exceed 1.01, and are explained."""
    rng, draws = np.random.default_rng(3), np.arange(4000).reshape(4, 1000)
    n_strict = n_failed = 0
    for _ in range(4):
        values = quantities(rng, 500, rho)
        rhat, ess = rhat_and_ess(values.reshape(-1, 4, 1000))
        above = np.flatnonzero(rhat > convergence.MAX_RHAT)
        n_strict += len(above) > 0
        n_failed += not explained_by_chance(values, draws, above, convergence.FALSE_ALARM_LEVEL).all()
        assert rhat.max() <= convergence.MAX_RHAT_BY_CHANCE and ess.min() >= convergence.MIN_ESS
    assert (n_strict > 0) == strict and n_failed == 0


@pytest.mark.planted
@pytest.mark.parametrize("shift", [0.5, 0.8])
def test_chance_does_not_explain_chains_that_differ(shift):
    """R-hat of about 1.02 and of 1.05 in one of 500 quantities."""
    rng, draws = np.random.default_rng(4), np.arange(4000).reshape(4, 1000)
    for _ in range(5):
        values = quantities(rng, 500, 0.3, shift)
        rhat, ess = rhat_and_ess(values[:1].reshape(-1, 4, 1000))
        is_explained = explained_by_chance(values, draws, np.array([0]), convergence.FALSE_ALARM_LEVEL)[0]
        assert rhat[0] > convergence.MAX_RHAT and not (is_explained and ess[0] >= convergence.MIN_ESS)
