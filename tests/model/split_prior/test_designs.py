"""KD trees, dyadic trees and context trees are what their definitions say; split probabilities of fixed trees."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import pactree_mcmc as pt
from pactree_mcmc.tree.arrays import LEAF
from tests.reference import pac_bayes as naive


def _cells(tree, X):
    """Rows of X in each node."""
    rows = [None] * tree.n_nodes
    rows[0] = np.arange(len(X))
    for i in np.flatnonzero(tree.feature != LEAF):
        left = X[rows[i], tree.feature[i]] <= tree.threshold[i]
        rows[tree.left[i]], rows[tree.right[i]] = rows[i][left], rows[i][~left]
    return rows


def _best_fraction(x):
    """Return twice the smallest possible distance of the left size from the middle."""
    sizes = [int((x <= v).sum()) for v in np.unique(x)[:-1]]
    return min(abs(2 * s - len(x)) for s in sizes)


@pytest.mark.more(everyday=["0-median-cycling", "1-midpoint-widest"])
@pytest.mark.parametrize("coordinate", ["cycling", "widest"])
@pytest.mark.parametrize("rule", ["median", "midpoint"])
@pytest.mark.parametrize("seed", range(4))
def test_kd_tree_follows_its_rules(rule, coordinate, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((200, 3)) if seed < 2 else rng.integers(0, 6, size=(200, 3)).astype(float)
    X[:, 2] *= 1 if seed % 2 else 0
    tree = pt.kd_tree(X, 6, rule=rule, coordinate=coordinate).tree
    depth, rows, sd = tree.node_depth, _cells(tree, X), X.std(axis=0)
    for i in range(tree.n_nodes):
        cell = X[rows[i]]
        spread = cell.max(axis=0) - cell.min(axis=0)
        if tree.feature[i] == LEAF:
            assert depth[i] == 6 or not spread.any()
            continue
        k = tree.feature[i]
        if coordinate == "widest":
            fraction = spread / np.where(sd > 0, sd, 1.0)
            assert fraction[k] == pytest.approx(fraction.max())
        else:
            turns = [(depth[i] + j) % 3 for j in range(3)]
            assert k == next(t for t in turns if spread[t] > 0)
        n_left = len(rows[tree.left[i]])
        assert 0 < n_left < len(cell)
        if rule == "median":
            assert abs(2 * n_left - len(cell)) == _best_fraction(cell[:, k])
            left, right = X[rows[tree.left[i]], k], X[rows[tree.right[i]], k]
            assert tree.threshold[i] == pytest.approx((left.max() + right.min()) / 2)
        else:
            assert tree.threshold[i] == pytest.approx((cell[:, k].min() + cell[:, k].max()) / 2)


def test_kd_tree_refuses():
    X = [[0.0], [1.0]]
    for depth in (0, 1.5, True, 5000):
        with pytest.raises(ValueError, match="depth="):
            pt.kd_tree(X, depth)
    with pytest.raises(ValueError, match="rule='mean' is unknown"):
        pt.kd_tree(X, 2, rule="mean")
    with pytest.raises(ValueError, match="coordinate='first' is unknown"):
        pt.kd_tree(X, 2, coordinate="first")
    with pytest.raises(ValueError, match="column 'a' is nominal"):
        pt.kd_tree(pd.DataFrame({"a": pd.Categorical(["x", "y"])}), 2)
    with pytest.raises(ValueError, match="contains NaN"):
        pt.kd_tree([[0.0], [np.nan]], 2)


def test_contexts_read_the_sequence_backwards():
    symbols = [3, 1, 4, 1, 5, 9, 2, 6]
    table = pt.contexts(symbols, 3, 10)
    assert table.y.tolist() == symbols[3:]
    for i, row in enumerate(table.X.tolist()):
        assert row == [symbols[3 + i - 1 - r] for r in range(3)]


@pytest.mark.parametrize(("depth", "m"), [(1, 2), (3, 2), (2, 3), (2, 5)])
def test_a_context_tree_has_a_leaf_for_each_context(depth, m):
    design = pt.context_tree(depth, m)
    assert design.tree.n_leaves == m**depth
    contexts = np.array(np.meshgrid(*[range(m)] * depth)).reshape(depth, -1).T
    assert len(set(design.tree.apply(contexts.astype(float)))) == m**depth
    assert design.shape().depth.max() == depth
    assert int((design.tree.feature != LEAF).sum() - design.joint.sum()) == (m**depth - 1) // (m - 1)


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


@pytest.mark.parametrize("design", [pt.dyadic_tree, pt.kd_tree])
def test_bad_input_is_refused(design):
    X = np.arange(6.0)[:, None]
    with pytest.raises(ValueError, match="depth=0 is out of range"):
        design(X, 0)
    with pytest.raises(ValueError, match=r"y has shape \(5,\); X has 6 rows"):
        design(X, 2, y=np.zeros(5))
    with pytest.raises(ValueError, match="contains NaN"):
        design(X * np.nan, 2)


def fitted(seed, n=60):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (n, 3)).astype(float)
    y = rng.integers(0, 2, n)
    return X, y, pt.FixedTree.from_sklearn(DecisionTreeClassifier(random_state=0).fit(X, y))


@pytest.mark.parametrize("seed", range(3))
def test_split_probabilities_are_those_of_local_cuts(seed):
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


@pytest.mark.parametrize("rho", [-0.1, 1.0, float("nan")])
def test_rho_out_of_range(rho):
    X, _, design = fitted(0)
    with pytest.raises(ValueError, match="out of range"):
        design.split_probabilities(X, rho)
