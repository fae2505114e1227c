"""Credible sets: those of all trees listed, the level of any tree, and the trees near the best."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

from .spaces import MODELS, all_trees, independent_draws, table

NAMES = ("local, nominal", "local, missing", "grid, empty cells", "local, trivial", "dyadic", "fixed")


def expected_level(log_joint, probability, value):
    return probability[log_joint > value + 1e-7].sum()


@pytest.mark.more(everyday=["0.3-local, nominal"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mass", [0.3, 0.9])
def test_exact_set_is_that_of_all_trees_listed(name, mass):
    truth, trees, probability = all_trees(MODELS[name])
    log_joint = truth.best_trees(len(trees)).log_joint
    credible = truth.credible_set(mass, draws=len(trees))
    is_member = [expected_level(log_joint, probability, value) < mass for value in log_joint]
    assert credible.exact and len(credible) == sum(is_member)
    assert credible.weight.sum() >= mass and credible.log_posterior == pytest.approx(log_joint[: len(credible)])
    # without those that tie with the last, it would hold less
    assert credible.weight[credible.log_posterior > credible.log_posterior[-1] + 1e-7].sum() < mass
    for i in range(0, len(trees), max(len(trees) // 25, 1)):
        assert (trees[i] in credible) == is_member[i]
        expected = expected_level(log_joint, probability, log_joint[i])
        assert credible.level(trees[i]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.more(everyday=["local, nominal"])
@pytest.mark.parametrize("name", NAMES)
def test_set_of_draws_comes_near_it(name):
    truth, trees, probability = all_trees(MODELS[name])
    credible = independent_draws(truth).credible_set(0.8)
    assert not credible.exact
    log_joint = truth.best_trees(len(trees)).log_joint
    for i in range(0, len(trees), max(len(trees) // 12, 1)):
        assert credible.level(trees[i]) == pytest.approx(expected_level(log_joint, probability, log_joint[i]), abs=0.04)
    assert credible.log_odds == pytest.approx(credible.log_posterior - credible.log_posterior[0])
    assert np.all(np.diff(credible.log_posterior) <= 0.0) and credible.weight.sum() >= 0.8
    assert credible.tree(0) == next(iter(credible)) and "trees drawn" in repr(credible)


def test_trees_that_were_never_drawn_have_a_level():
    X, y = table(40)
    post = pt.sample(pt.TreeModel(X, y), 200, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
    credible = post.credible_set(0.95)
    stump = pt.Tree([0, -1, -1], [1.7, 0, 0], [1, 0, 0], [2, 0, 0])
    level = (post.log_prior + post.log_score > post.model.log_posterior(stump) + 1e-7).mean()
    assert credible.level(stump) == pytest.approx(level)
    assert (stump in credible) == (level < 0.95)


def test_trees_that_the_model_cannot_have():
    X, y = table(30)
    stump = pt.Tree([0, -1, -1], [1.7, 0, 0], [1, 0, 0], [2, 0, 0])
    for model in (
        pt.TreeModel(X, y, split_prior=pt.GridCuts([[0.5], [0.5], [0.5]]), tree_prior=pt.ChipmanPrior(max_depth=2)),
        pt.TreeModel(X, y, split_prior=pt.LocalCuts(min_leaf=14), tree_prior=pt.ChipmanPrior(max_depth=2)),
        pt.TreeModel(X, y, nominal=[0], tree_prior=pt.ChipmanPrior(max_depth=2)),
    ):
        assert exact.solve(model).credible_set(0.99).level(stump) == 1.0


def test_what_cannot_be_asked():
    truth = exact.solve(MODELS["dyadic"])
    for wrong in (0.0, 1.0, -1, "most", np.nan):
        with pytest.raises(ValueError, match="mass"):
            truth.credible_set(wrong)
    credible = truth.credible_set(0.5)
    with pytest.raises(ValueError, match="lists"):
        credible.tree(len(credible))
    with pytest.raises(ValueError, match="fitted"):
        credible.level("a tree")
    wide = pt.Tree([7, -1, -1], [1.7, 0, 0], [1, 0, 0], [2, 0, 0])
    with pytest.raises(ValueError, match="feature 7"):
        credible.level(wide)
    post = truth.sample(20, rng=1)
    post.draws.sees_all_rows = False
    with pytest.raises(ValueError, match="stages"):
        post.credible_set()
