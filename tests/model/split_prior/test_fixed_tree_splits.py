"""Split probabilities that pay for the choice of the split are those of local cuts."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import pactree_mcmc as pt


def fitted(seed, n=60):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (n, 3)).astype(float)
    y = rng.integers(0, 2, n)
    return X, y, pt.FixedTree.from_sklearn(DecisionTreeClassifier(random_state=0).fit(X, y))


@pytest.mark.parametrize("seed", range(3))
def test_they_are_those_of_local_cuts(seed):
    """The prior of the whole tree under local cuts is the product of its split probabilities."""
    X, y, design = fitted(seed)
    rho = 0.6
    local = pt.TreeModel(X, y, tree_prior=pt.BranchingProcess(rho, max_depth=None))
    splits = design.split_probabilities(X, rho)[design.tree.feature >= 0]
    leaves = sum(
        0.0 if local.is_forced(visit.cell) else np.log(1.0 - rho)
        for visit in local.visit(design.tree)
        if visit.split is None
    )
    assert np.isclose(np.log(splits).sum() + leaves, local.log_prior(design.tree), rtol=0.0, atol=1e-9)


def test_nominal_features_count_their_parts():
    X = np.array([["a", 0.0], ["b", 1.0], ["c", 0.0], ["d", 1.0]], dtype=object)
    tree = pt.Tree([0, -1, -1], [0.0, 0.0, 0.0], [1, 0, 0], [2, 0, 0], categories=[3, -1, -1])
    assert pt.FixedTree(tree).split_probabilities(X, 0.7).tolist() == [0.7 / (2 * 7), 0.0, 0.0]


@pytest.mark.parametrize("rho", [-0.1, 1.0, float("nan")])
def test_rho_out_of_range(rho):
    X, _, design = fitted(0)
    with pytest.raises(ValueError, match="out of range"):
        design.split_probabilities(X, rho)


def test_a_table_of_other_width():
    _, _, design = fitted(0)
    with pytest.raises(ValueError, match="feature"):
        design.split_probabilities(np.zeros((3, 1)))
