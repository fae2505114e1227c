"""Credible sets: those of all trees listed, the level of any tree, and the trees near the best."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

from .spaces import MODELS, all_trees, independent, table

NAMES = ("local, nominal", "local, missing", "grid, empty cells", "local, trivial", "dyadic", "fixed")


def level_by_hand(log_joint, probability, value):
    return probability[log_joint > value + 1e-7].sum()


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mass", [0.3, 0.9])
def test_exact_set_is_that_of_all_trees_listed(name, mass):
    truth, trees, probability = all_trees(MODELS[name])
    log_joint = truth.best_trees(len(trees)).log_joint
    found = truth.credible_set(mass, draws=len(trees))
    inside = [level_by_hand(log_joint, probability, value) < mass for value in log_joint]
    assert found.exact and len(found) == sum(inside)
    assert found.weight.sum() >= mass and found.log_posterior == pytest.approx(log_joint[: len(found)])
    # without those that tie with the last, it would hold less
    assert found.weight[found.log_posterior > found.log_posterior[-1] + 1e-7].sum() < mass
    for i in range(0, len(trees), max(len(trees) // 25, 1)):
        assert (trees[i] in found) == inside[i]
        expected = level_by_hand(log_joint, probability, log_joint[i])
        assert found.level(trees[i]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("name", NAMES)
def test_set_of_draws_comes_near_it(name):
    truth, trees, probability = all_trees(MODELS[name])
    found = independent(truth).credible_set(0.8)
    assert not found.exact
    log_joint = truth.best_trees(len(trees)).log_joint
    for i in range(0, len(trees), max(len(trees) // 12, 1)):
        assert found.level(trees[i]) == pytest.approx(level_by_hand(log_joint, probability, log_joint[i]), abs=0.04)
    assert found.log_odds == pytest.approx(found.log_posterior - found.log_posterior[0])
    assert np.all(np.diff(found.log_posterior) <= 0.0) and found.weight.sum() >= 0.8
    assert found.tree(0) == next(iter(found)) and "trees drawn" in repr(found)


def test_trees_that_were_never_drawn_have_a_level():
    X, y = table(40)
    post = pt.sample(pt.TreeModel(X, y), 200, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
    found = post.credible_set(0.95)
    stump = pt.Tree([0, -1, -1], [1.7, 0, 0], [1, 0, 0], [2, 0, 0])
    level = (post.log_prior + post.log_score > post.model.log_posterior(stump) + 1e-7).mean()
    assert found.level(stump) == pytest.approx(level)
    assert (stump in found) == (level < 0.95)


def test_fitted_scikit_learn_trees_are_taken():
    sklearn = pytest.importorskip("sklearn.tree")
    X, y = table(60)
    post = exact.solve(pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(max_depth=2)))
    likely = post.credible_set(0.95)
    fitted = sklearn.DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    assert likely.level(fitted) == likely.level(pt.Tree.from_sklearn(fitted)) == likely.level(fitted.tree_)
    deep = sklearn.DecisionTreeClassifier(random_state=0).fit(X, y)
    assert likely.level(deep) == 1.0 and deep not in likely


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
    found = truth.credible_set(0.5)
    with pytest.raises(ValueError, match="lists"):
        found.tree(len(found))
    with pytest.raises(ValueError, match="fitted"):
        found.level("a tree")
    wide = pt.Tree([7, -1, -1], [1.7, 0, 0], [1, 0, 0], [2, 0, 0])
    with pytest.raises(ValueError, match="feature 7"):
        found.level(wide)
    assert not pt.ProgressiveSample.sees_all_rows
    post = truth.sample(20, rng=1)
    post.sees_all_rows = False
    with pytest.raises(ValueError, match="stages"):
        post.credible_set()
