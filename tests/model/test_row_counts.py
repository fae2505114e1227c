"""Each row of X counts once, whatever its weight: in the plain functions and in both engines."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

X = np.array([[0.0], [1.0], [1.0], [2.0], [2.0], [3.0]])
Y = np.array([0, 0, 0, 1, 1, 0])
WEIGHTS = {
    "none": None,
    "ends twice": [2.0, 1.0, 1.0, 1.0, 1.0, 2.0],
    "fractions": [0.3, 0.5, 0.1, 0.2, 0.4, 5.0],
    "zeros": [1.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    "negligible": [1e-300] * 6,
}


def model(weight=None, rows=slice(None), leaf=None):
    """Cuts that leave two rows on both sides; equal rows of one label are merged."""
    split_prior, prior = pt.LocalCuts(min_leaf=2), pt.ChipmanPrior(0.8, 1.0)
    return pt.TreeModel(X[rows], Y[rows], split_prior=split_prior, tree_prior=prior, sample_weight=weight, leaf=leaf)


def cut(threshold):
    return pt.Tree([0, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0])


@pytest.mark.parametrize("weight", WEIGHTS)
def test_min_leaf_counts_rows_in_the_plain_functions(weight):
    """Only the middle one of three cuts leaves two rows on both sides."""
    m = model(WEIGHTS[weight])
    assert m.units.n_units == 4
    cell = m.root_cell()
    assert cell.n_rows == 6
    assert m.rules.count_splits(cell, 0) == 1
    assert [np.isfinite(m.log_prior(cut(t))) for t in (0.5, 1.5, 2.5)] == [False, True, False]
    assert m.log_prior(cut(1.5)) == model().log_prior(cut(1.5))


@pytest.mark.more(everyday=["ends twice-None"])
@pytest.mark.parametrize("leaf", [None, pt.NormalInverseGamma(0.3, 0.5, 2.0, 1.0)])
@pytest.mark.parametrize("weight", [w for w in WEIGHTS if w != "none"])
def test_both_engines_count_rows(weight, leaf):
    """Roots drawn and summed are those that the plain prior allows, in their proportions."""
    m = model(WEIGHTS[weight], leaf=leaf)
    distribution = exact.solve(m)._root_split_pmf()
    log_joint = np.array([m.log_posterior(tree) for tree in (pt.Tree([-1], [0.0], [0], [0]), cut(1.5))])
    expected = np.exp(log_joint - np.logaddexp.reduce(log_joint))
    assert distribution == pytest.approx({None: expected[0], (0, 1.5): expected[1]}, abs=1e-12)
    post = pt.sample(m, 1500, tune=20, chains=2, proposals=4, rng=1, kernel="grow-prune", progress=False)
    sample = post._root_split_pmf()
    assert set(sample) == set(distribution)
    assert sample[None] == pytest.approx(distribution[None], abs=0.06)
