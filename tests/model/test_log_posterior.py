"""log_prior and log_score of every tree of random tiny problems equal naive sums; each row counts once."""

import math

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.rows import UnitStats, add_unit, add_units, scatter_units
from tests.problems.drawn import EVERYDAY, LEAVES, OWN_SPLITS, SPLIT_PRIORS, TREE_PRIORS, random_problem
from tests.problems.trees import library_tree
from tests.reference.enumeration import enumerate_trees

STUMP = pt.Tree([-1], [0], [0], [0])
ROWS = [[0.0, 1.0], [1.0, 5.0], [2.0, 1.0], [4.0, 5.0]]
X = np.array([[0.0], [1.0], [1.0], [2.0], [2.0], [3.0]])
Y = np.array([0, 0, 0, 1, 1, 0])
WEIGHTS = {
    "none": None,
    "ends twice": [2.0, 1.0, 1.0, 1.0, 1.0, 2.0],
    "fractions": [0.3, 0.5, 0.1, 0.2, 0.4, 5.0],
    "zeros": [1.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    "negligible": [1e-300] * 6,
}
U = 40


def cut(threshold, feature=0):
    return pt.Tree([feature, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0])


def cut_twice(first, second):
    return pt.Tree([0, 0, -1, -1, -1], [first, second, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])


def part(mask, feature=0):
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
    assert model.log_prior(tree) == -math.inf and model.log_posterior(tree) == -math.inf
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
        return pt.Tree([1, 0, -1, -1, -1], [0.5, threshold, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])

    log_posteriors = [model.log_posterior(tree(t)) for t in (2.0, 2.5, 3.0, 4.0, 4.5, 5.0, 5.5)]
    assert log_posteriors == pytest.approx([log_posteriors[0]] * 7) and log_posteriors[0] > -math.inf
    assert model.log_prior(tree(1.5)) == model.log_prior(cut(4.0)) == -math.inf


def model(weight=None, rows=slice(None), leaf=None):
    split_prior, prior = pt.LocalCuts(min_leaf=2), pt.ChipmanPrior(0.8, 1.0)
    return pt.TreeModel(X[rows], Y[rows], split_prior=split_prior, tree_prior=prior, sample_weight=weight, leaf=leaf)


def first_cut(threshold):
    return pt.Tree([0, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0])


@pytest.mark.parametrize("weight", WEIGHTS)
def test_min_leaf_counts_rows_in_the_plain_functions(weight):
    """Only the middle one of three cuts leaves two rows on both sides."""
    m = model(WEIGHTS[weight])
    assert m.units.n_units == 4
    cell = m.root_cell()
    assert cell.n_rows == 6 and m.rules.count_splits(cell, 0) == 1
    assert [np.isfinite(m.log_prior(first_cut(t))) for t in (0.5, 1.5, 2.5)] == [False, True, False]
    assert m.log_prior(first_cut(1.5)) == model().log_prior(first_cut(1.5))


@pytest.mark.more(everyday=["ends twice-None"])
@pytest.mark.parametrize("leaf", [None, pt.NormalInverseGamma(0.3, 0.5, 2.0, 1.0)])
@pytest.mark.parametrize("weight", [w for w in WEIGHTS if w != "none"])
def test_both_engines_count_rows(weight, leaf):
    """Roots drawn and summed are those that the plain prior allows, in their proportions."""
    m = model(WEIGHTS[weight], leaf=leaf)
    distribution = exact.solve(m)._root_split_pmf()
    log_joint = np.array([m.log_posterior(tree) for tree in (pt.Tree([-1], [0.0], [0], [0]), first_cut(1.5))])
    expected = np.exp(log_joint - np.logaddexp.reduce(log_joint))
    assert distribution == pytest.approx({None: expected[0], (0, 1.5): expected[1]}, abs=1e-12)
    post = pt.sample(m, 1500, tune=20, chains=2, proposals=4, rng=1, kernel="grow-prune", progress=False)
    sample = post._root_split_pmf()
    assert set(sample) == set(distribution) and sample[None] == pytest.approx(distribution[None], abs=0.06)


def problem(n_moments, weighted, seed=0):
    """Units, an order of some of them, and statistics that there are already."""
    rng = np.random.default_rng(seed)
    weight = rng.random(U) if weighted else np.ones(1)
    units = UnitStats(False, np.zeros(1, dtype=np.uint16), weight, -1 if weighted else 0, rng.random((n_moments, U)))
    return units, rng.permutation(U)[:30], rng.random((3, n_moments + 1))


def defined(units, order, stats, row):
    """Each statistic a running sum in the order given."""
    out = stats.copy()
    for u in order:
        out[row, 0] += units.weight[u & units.weight_all]
        out[row, 1:] += units.moments[:, u]
    return out


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_moments", range(1, 8))
def test_sums_of_any_number_of_moments(n_moments, weighted):
    units, order, stats = problem(n_moments, weighted)
    expected = defined(units, order[4:25], stats, 1)
    in_one_call, one_by_one, scattered = stats.copy(), stats.copy(), stats.copy()
    add_units(in_one_call, 1, units, order, 4, 25)
    for u in order[4:25]:
        add_unit(one_by_one, 1, units, u)
    scatter_units(scattered, np.ones(21, dtype=np.int64), units, order, 4, 25)
    for result in (in_one_call, one_by_one, scattered):
        np.testing.assert_array_equal(result, expected)
