"""Effective sample size of trees: of independent draws, of sticky ones, and of stuck chains of equal posterior."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.convergence import check_convergence
from pactree_mcmc.posterior.ess import ess_of_chains, rhat_and_ess, split_chains
from pactree_mcmc.posterior.trees import distances as module

from .spaces import MODELS, independent_draws, with_draws

PROBLEMS = ("local, nominal", "local, regression", "grid, nominal", "dyadic")


@pytest.mark.more(everyday=["1-local, nominal"])
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("chains", [1, 4])
def test_independent_draws_are_worth_as_many_as_they_are(name, chains):
    post = independent_draws(exact.solve(MODELS[name]), chains=chains, draws=4000 // chains, seed=chains)
    ess = post.tree_ess()
    assert ess.n_draws == 4000
    assert ess.frechet == pytest.approx(4000, rel=0.1)
    assert ess.pseudo_median == pytest.approx(4000, rel=0.1)
    assert 0.7 * 4000 < ess.pseudo_min <= ess.pseudo_median
    assert ess.rhat < 1.01


def sticky_draws(post, stay, seed=0):
    """Chains that stay where they are with a probability."""
    rng = np.random.default_rng(seed)
    draws = post.draws.tree_of_draw.copy()
    for t in range(1, draws.shape[1]):
        still = rng.random(len(draws)) < stay
        draws[still, t] = draws[still, t - 1]
    return with_draws(post, draws)


@pytest.mark.more(everyday=["0.0-7"])
@pytest.mark.parametrize("draws", [7, 60, 61])
@pytest.mark.parametrize("stay", [0.0, 0.95])
def test_frechet_ess_is_that_of_the_vectors_of_cells(draws, stay):
    """The autocovariances are those of the 0/1 vectors, summed over cells; the rest is as for one number."""
    post = sticky_draws(independent_draws(exact.solve(MODELS["local, regression"]), chains=3, draws=draws), stay)
    vectors = post.draws.cells.trees_with(np.arange(post.draws.cells.n_cells))[:, post.draws.tree_of_draw].astype(float)
    halves = np.concatenate([split_chains(v[None]) for v in vectors])
    n = halves.shape[2]
    centred = halves - halves.mean(axis=2, keepdims=True)
    covariance = np.array([(centred[:, :, : n - lag] * centred[:, :, lag:]).sum() for lag in range(n)]) / n / 6
    between = halves.mean(axis=2).var(axis=1, ddof=1).sum()
    assert post.tree_ess().frechet == pytest.approx(
        module.ess_from_autocovariances(covariance[None], np.array([between]), 6)[0]
    )
    one = np.moveaxis(vectors[post.draws.cells.frequencies(post.draws.weight_of_tree) < 1.0][:1], 0, 0)
    if np.ptp(split_chains(one)[0], axis=1).any():
        direct = split_chains(one)
        mean = direct - direct.mean(axis=2, keepdims=True)
        product_of_means = np.array([(mean[0, :, : n - lag] * mean[0, :, lag:]).sum() for lag in range(n)]) / n / 6
        spread = direct.mean(axis=2).var(axis=1, ddof=1)
        assert module.ess_from_autocovariances(product_of_means[None], spread, 6) == pytest.approx(
            ess_of_chains(direct)
        )


def mirrored_posterior():
    """Two columns that y depends on alike: every tree has a twin, the columns changed, of the same posterior."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 4, (60, 2)).astype(float)
    X = np.vstack([X, X[:, ::-1]])
    return pt.TreeModel(X, (X[:, 0] > 1) & (X[:, 1] > 1), tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3))


def stuck_in_two_modes():
    """Chains that each draw independently, but two with one root only and two with the other."""
    post = exact.solve(mirrored_posterior()).sample(20_000, rng=1)
    root = post.root_feature[0]
    rng = np.random.default_rng(2)
    sides = [rng.choice(post.draws.tree_of_draw[0][root == k], size=(2, 1000)) for k in (0, 1)]
    return with_draws(post, np.concatenate(sides))


@pytest.mark.planted
def test_stuck_chains_of_the_same_posterior_are_found():
    post = stuck_in_two_modes()
    rhat, ess = rhat_and_ess((post.log_prior + post.log_score)[None])
    assert rhat[0] < 1.01 and ess[0] > 3000
    tree_ess = post.tree_ess()
    assert max(tree_ess.pseudo_min, tree_ess.pseudo_median, tree_ess.frechet) < 40
    assert tree_ess.rhat > 1.5
    frequencies = post.asdsf()
    assert frequencies.asdsf > 5 * frequencies.expected
    assert any(line.startswith("distance from the tree of draw ") for line in check_convergence(post))
    mixed = with_draws(post, np.random.default_rng(0).permutation(post.draws.tree_of_draw.ravel()).reshape(4, 1000))
    assert mixed.tree_ess().frechet == pytest.approx(4000, rel=0.1)


def test_too_few_draws():
    post = independent_draws(exact.solve(MODELS["dyadic"]), draws=3)
    ess = post.tree_ess()
    assert np.isnan([ess.frechet, ess.pseudo_min, ess.pseudo_median, ess.rhat]).all()
    assert ess.mean_distance > 0.0
