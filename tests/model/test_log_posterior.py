"""log_prior and log_score of every tree of random tiny problems equal those of the naive enumeration."""

import math

import numpy as np
import pytest

import pactree_mcmc as pt
from tests.problems.drawn import EVERYDAY, LEAVES, OWN_SPLITS, SPLIT_PRIORS, TREE_PRIORS, random_problem
from tests.problems.trees import library_tree
from tests.reference.enumeration import enumerate_trees

STUMP = pt.Tree([-1], [0], [0], [0])
ROWS = [[0.0, 1.0], [1.0, 5.0], [2.0, 1.0], [4.0, 5.0]]


def cut(threshold, feature=0):
    """A tree of one split."""
    return pt.Tree([feature, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0])


def cut_twice(first, second):
    """x0 <= first, and on the left of it x0 <= second."""
    return pt.Tree([0, 0, -1, -1, -1], [first, second, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])


def part(mask, feature=0):
    """A tree of one nominal split."""
    return pt.Tree([feature, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0], [mask, -1, -1])


@pytest.mark.more(everyday=EVERYDAY)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("tree_prior", TREE_PRIORS)
@pytest.mark.parametrize("split_prior", SPLIT_PRIORS)
def test_every_tree_of_a_random_problem(split_prior, tree_prior, leaf, seed):
    rng = np.random.default_rng(
        [SPLIT_PRIORS.index(split_prior), TREE_PRIORS.index(tree_prior), LEAVES.index(leaf), seed]
    )
    parts = {"split_prior": split_prior, "tree_prior": tree_prior, "leaf": leaf}
    problem, model = random_problem(rng, **parts, max_trees=80)
    for nested, log_prior, log_score in enumerate_trees(problem):
        tree = library_tree(pt, problem, nested, model.columns)
        assert model.log_prior(tree) == pytest.approx(log_prior, abs=1e-9), nested
        assert model.log_score(tree) == pytest.approx(log_score, abs=1e-9), nested
        assert model.log_posterior(tree) == pytest.approx(log_prior + log_score, abs=1e-9)


@pytest.mark.more(everyday=["own local-0"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("split_prior", OWN_SPLITS)
def test_every_tree_under_splits_of_ones_own(split_prior, seed):
    rng = np.random.default_rng([OWN_SPLITS.index(split_prior), seed, 20_261])
    problem, model = random_problem(rng, split_prior=split_prior, max_trees=80)
    for nested, log_prior, log_score in enumerate_trees(problem):
        tree = library_tree(pt, problem, nested, model.columns)
        assert model.log_prior(tree) == pytest.approx(log_prior, abs=1e-9), nested
        assert model.log_score(tree) == pytest.approx(log_score, abs=1e-9), nested


IMPOSSIBLE = {
    "local: all rows left": (pt.LocalCuts(), cut(9.0)),
    "local: no row left": (pt.LocalCuts(), cut(-math.inf)),
    "local: too few rows": (pt.LocalCuts(min_leaf=2), cut(0.5)),
    "local: weight zero": (pt.LocalCuts(feature_weights=[0.0, 1.0]), cut(1.5)),
    "local: a second cut that parts nothing": (pt.LocalCuts(), cut_twice(1.5, 2.5)),
    "grid: not a cut": (pt.GridCuts([[0.5, 1.5], [3.0]]), cut(1.4)),
    "grid: outside the box": (pt.GridCuts([[0.5, 1.5], [3.0]]), cut_twice(0.5, 1.5)),
    "grid: the box's own edge": (pt.GridCuts([[0.5, 1.5], [3.0]]), cut_twice(0.5, 0.5)),
    "grid: weight zero": (pt.GridCuts([[0.5, 1.5], [3.0]], feature_weights=[0.0, 2.0]), cut(0.5)),
    "dyadic: not a midpoint": (pt.DyadicCuts(2), cut(1.0)),
    "dyadic: another coordinate's turn": (pt.DyadicCuts(2, cyclic=True), cut(3.0, feature=1)),
    "dyadic: split too often": (pt.DyadicCuts(1), cut_twice(2.0, 1.0)),
    "fixed: another split": (pt.FixedTree(cut_twice(1.5, 0.5)), cut(0.5)),
    "fixed: below a leaf": (pt.FixedTree(cut(1.5)), cut_twice(1.5, 0.5)),
    "nominal split on an ordered column": (pt.LocalCuts(), part(1)),
}


@pytest.mark.parametrize(("split_prior", "tree"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_impossible_trees_have_no_prior(split_prior, tree):
    model = pt.TreeModel(ROWS, [0, 1, 1, 0], split_prior=split_prior)
    assert model.log_prior(tree) == -math.inf
    assert model.log_posterior(tree) == -math.inf
    assert model.log_prior(STUMP) > -math.inf


def test_thresholds_that_part_the_rows_alike_are_one_split():
    model = pt.TreeModel(ROWS, [0, 1, 1, 0])
    assert len({model.log_posterior(cut(t)) for t in (2.0, 2.5, 3.0, 3.999)}) == 1
    assert model.log_prior(cut(4.0)) == -math.inf


def test_scores_of_splits_the_model_cannot_ask():
    """A cut between the model's own cuts would part rows that share a code."""
    model = pt.TreeModel(ROWS, [0, 1, 1, 0], split_prior=pt.GridCuts([[1.5], []]))
    assert model.log_prior(cut(0.5)) == -math.inf
    with pytest.raises(ValueError, match=r"node 0, x0 <= 0\.5: the model has no cut there to part its rows"):
        model.log_score(cut(0.5))


def test_thresholds_among_the_values_of_a_code_that_the_cell_lacks():
    """Bins 0-2, 3-5, 6-8: where the middle one is absent, every cut between the outer ones is the same."""
    X = np.array([[v, v // 3 == 1] for v in range(9)], dtype=float)
    prior = pt.ChipmanPrior(0.9, 0.0)
    model = pt.TreeModel(X, [0, 1, 1] * 3, split_prior=pt.LocalCuts(max_cuts=2), tree_prior=prior)

    def tree(threshold):
        """The middle bin goes right of x1 <= 0.5; then x0 <= threshold."""
        return pt.Tree([1, 0, -1, -1, -1], [0.5, threshold, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])

    log_posteriors = [model.log_posterior(tree(t)) for t in (2.0, 2.5, 3.0, 4.0, 4.5, 5.0, 5.5)]
    assert log_posteriors == pytest.approx([log_posteriors[0]] * 7)
    assert log_posteriors[0] > -math.inf
    assert model.log_prior(tree(1.5)) == model.log_prior(cut(4.0)) == -math.inf
