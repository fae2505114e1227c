"""KD trees and context trees are what their definitions say."""

import numpy as np
import pandas as pd
import pytest

import pactree_mcmc as pt
from pactree_mcmc.tree.arrays import LEAF


def _cells(tree, X):
    """Rows of X in each node."""
    rows = [None] * tree.n_nodes
    rows[0] = np.arange(len(X))
    for i in np.flatnonzero(tree.feature != LEAF):
        left = X[rows[i], tree.feature[i]] <= tree.threshold[i]
        rows[tree.left[i]], rows[tree.right[i]] = rows[i][left], rows[i][~left]
    return rows


def _best_fraction(x):
    """How evenly a cut can part the values: the smallest possible distance of the left size from the middle."""
    sizes = [int((x <= v).sum()) for v in np.unique(x)[:-1]]
    return min(abs(2 * s - len(x)) for s in sizes)


@pytest.mark.tenth_a_day
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


def test_kd_tree_takes_frames_and_long_ties():
    frame = pd.DataFrame({"a": [1] * 50 + [2], "b": range(51)})
    tree = pt.kd_tree(frame, 1).tree
    assert (tree.feature[0], tree.threshold[0]) == (0, 1.5)
    assert pt.kd_tree([[1.0], [1.0]], 3).tree.n_nodes == 1
    a, b = 1.0, np.nextafter(1.0, 2.0)
    assert pt.kd_tree([[a], [b]], 3).tree.threshold[0] == a


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
def test_a_context_tree_tells_all_contexts_apart(depth, m):
    design = pt.context_tree(depth, m)
    assert design.tree.n_leaves == m**depth
    contexts = np.array(np.meshgrid(*[range(m)] * depth)).reshape(depth, -1).T
    assert len(set(design.tree.apply(contexts.astype(float)))) == m**depth
    assert design.shape().depth.max() == depth
    assert int((design.tree.feature != LEAF).sum() - design.joint.sum()) == (m**depth - 1) // (m - 1)


def test_contexts_refuse():
    with pytest.raises(ValueError, match=r"symbols\[1\] is 2, outside the alphabet 0\.\.1"):
        pt.contexts([0, 2, 1, 1], 1, 2)
    with pytest.raises(ValueError, match=r"symbols\[0\] is -1"):
        pt.contexts([-1, 0, 1, 1], 1, 2)
    with pytest.raises(ValueError, match="holds 3 symbols; depth=2 needs at least 4"):
        pt.contexts([0, 1, 1], 2, 2)
    with pytest.raises(ValueError, match="symbols has dtype float64"):
        pt.contexts([0.0, 1.0, 1.0], 1, 2)
    with pytest.raises(ValueError, match="n_symbols=1 is out of range"):
        pt.context_tree(2, 1)
    with pytest.raises(ValueError, match="give a smaller depth"):
        pt.context_tree(40, 2)
