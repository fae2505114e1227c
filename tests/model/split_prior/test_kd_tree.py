"""Fixed designs over a table: dyadic and KD trees that stop where a cell's rows have one label."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from tests.reference import pac_bayes as naive


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_trees_are_those_grown_plainly(seed, labelled):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 40)), int(rng.integers(1, 4))
    X = rng.random((n, p)) if seed % 2 else np.vstack([np.zeros(p), np.full(p, 8.0), rng.integers(0, 9, size=(n, p))])
    y = rng.integers(0, 2, size=len(X))
    for design, grow in ((pt.dyadic_tree, naive.dyadic), (pt.kd_tree, naive.kd)):
        tree = design(X, 6, y=y if labelled else None).tree
        nodes = list(grow(X, y if labelled else range(len(X)), 6).walk())
        assert tree.feature.tolist() == [node.feature for node in nodes]
        assert tree.threshold == pytest.approx([node.cut for node in nodes])


def test_a_dyadic_tree_has_the_cells_of_dyadic_cuts():
    """Rows in different cells of the deepest level lie in different leaves, and thresholds agree to the last bit."""
    rng = np.random.default_rng(2)
    X, bounds = rng.random((200, 2)) * 1e3, [[0.0, 1e3], [-7.0, 1003.0]]
    tree = pt.dyadic_tree(X, 8, bounds=bounds).tree
    model = pt.TreeModel(X, rng.integers(0, 2, size=200), split_prior=pt.DyadicCuts(4, cyclic=True, bounds=bounds))
    leaf = tree.apply(X)
    for k in np.unique(leaf):
        inside = np.unique(model.units.codes[:, model.unit_of_row][:, leaf == k], axis=1)
        assert np.sum(leaf == k) == 1 or inside.shape[1] == 1
    for k, scale in enumerate(model.scales):
        assert all(scale.cut_of(float(t)) is not None for t in tree.threshold[tree.feature == k])


def test_values_outside_the_bounds_lie_in_the_outermost_cells():
    tree = pt.dyadic_tree([[-5.0], [0.1], [0.9], [7.0]], 1, bounds=[[0.0, 1.0]]).tree
    assert tree.threshold[0] == 0.5
    assert tree.apply([[-9.0], [0.5], [0.51], [99.0]]).tolist() == [1, 1, 2, 2]


def test_constant_columns_and_deep_trees():
    tree = pt.dyadic_tree(np.column_stack([np.full(4, 3.0), [0.0, 1.0, 2.0, 3.0]]), 62).tree
    assert tree.n_leaves >= 4 and np.all(np.isfinite(tree.threshold))
    with pytest.raises(ValueError, match="levels=32: codes would overflow"):
        pt.dyadic_tree([[0.0], [1.0]], 32)


@pytest.mark.parametrize("design", [pt.dyadic_tree, pt.kd_tree])
def test_bad_input_is_refused(design):
    X = np.arange(6.0)[:, None]
    with pytest.raises(ValueError, match="depth=0 is out of range"):
        design(X, 0)
    with pytest.raises(ValueError, match=r"y has shape \(5,\); X has 6 rows"):
        design(X, 2, y=np.zeros(5))
    with pytest.raises(ValueError, match="contains NaN"):
        design(X * np.nan, 2)


def test_bounds_are_checked():
    with pytest.raises(ValueError, match="bounds has 2 rows; X has 1 columns"):
        pt.dyadic_tree([[0.0], [1.0]], 2, bounds=[[0, 1], [0, 1]])
    with pytest.raises(ValueError, match="give lower < upper"):
        pt.dyadic_tree([[0.0], [1.0]], 2, bounds=[[1, 1]])


def test_a_tree_of_one_sample_weighs_another():
    """Designs serve TreeModel as any fixed tree does."""
    rng = np.random.default_rng(4)
    X, y = rng.random((60, 2)), rng.integers(0, 2, size=60)
    model = pt.TreeModel(X, y, split_prior=pt.dyadic_tree(X[:30], 4, y=y[:30], bounds=[[0, 1]] * 2))
    assert np.isfinite(exact.solve(model).log_evidence)
