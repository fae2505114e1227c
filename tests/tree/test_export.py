"""One tree for other programs: dot, and arrays that scikit-learn's own tree code runs on, with float32 values."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

import pactree_mcmc as pt
from pactree_mcmc.model.model import draw_prior

NODE = re.compile(r'^  (\d+) \[label="((?:[^"\\]|\\.)*)"(, style="rounded")?\];$')
EDGE = re.compile(r'^  (\d+) -> (\d+) \[label="(yes|no)"\];$')


def random_tree(n_leaves, seed, p=3):
    """Thresholds that float32 holds exactly."""
    rng = np.random.default_rng(seed)
    nodes = []

    def grow(n):
        here = len(nodes)
        nodes.append([-1, 0.0, 0, 0])
        if n > 1:
            nodes[here][:3] = [int(rng.integers(p)), float(rng.integers(-8, 8)) / 4.0, len(nodes)]
            first = int(rng.integers(1, n))
            grow(first)
            nodes[here][3] = len(nodes)
            grow(n - first)

    grow(n_leaves)
    return pt.Tree(*zip(*nodes, strict=True), value=rng.normal(size=(len(nodes), 1)))


def parsed(dot):
    """Labels and edges of the nodes; every line must be one of the two kinds."""
    lines = dot.split("\n")
    assert lines[0].startswith("digraph ")
    assert lines[-1] == "}"
    nodes, edges = {}, {}
    for line in lines[4:-1]:
        node, edge = NODE.match(line), EDGE.match(line)
        assert (node is None) != (edge is None), line
        if node:
            nodes[int(node[1])] = node[2], node[3] is not None
        else:
            edges[int(edge[1]), edge[3]] = int(edge[2])
    return nodes, edges


@pytest.mark.parametrize("n_leaves", [1, 2, 30])
def test_dot_has_every_node_and_edge(n_leaves):
    tree = random_tree(n_leaves, n_leaves)
    nodes, edges = parsed(tree.to_dot())
    inner = np.flatnonzero(tree.feature >= 0)
    assert edges == {(i, "yes"): tree.left[i] for i in inner} | {(i, "no"): tree.right[i] for i in inner}
    for i in range(tree.n_nodes):
        is_leaf = tree.feature[i] < 0
        assert nodes[i] == (f"{tree.value[i, 0]:.6g}" if is_leaf else tree.split(i), is_leaf)


@pytest.mark.more(everyday=["1"])
@pytest.mark.parametrize("n_leaves", [1, 2, 40])
def test_scikit_learns_own_code_predicts_alike_from_the_arrays(n_leaves):
    """The arrays as the state of scikit-learn's compiled tree."""
    tree = random_tree(n_leaves, 7)
    arrays = tree.to_sklearn()
    X = np.random.default_rng(3).integers(-10, 10, (300, 3)) / 4.0
    fitted = DecisionTreeRegressor(max_depth=1).fit(X, X[:, 0])
    state = fitted.tree_.__getstate__()
    nodes = np.zeros(tree.n_nodes, dtype=state["nodes"].dtype)
    nodes["left_child"], nodes["right_child"] = arrays["children_left"], arrays["children_right"]
    nodes["feature"], nodes["threshold"] = arrays["feature"], arrays["threshold"]
    changed = {"nodes": nodes, "values": arrays["value"], "node_count": tree.n_nodes, "max_depth": tree.depth}
    theirs = type(fitted.tree_)(3, np.array([1]), 1)
    theirs.__setstate__(state | changed)
    np.testing.assert_array_equal(theirs.predict(X.astype(np.float32))[:, 0], tree.predict(X))
    np.testing.assert_array_equal(theirs.apply(X.astype(np.float32)), tree.apply(X))


def test_nominal_splits_are_refused_with_what_to_do():
    frame = pd.DataFrame({"colour": pd.Categorical(["red", "blue"])})
    columns = pt.TreeModel(frame, [0, 1]).columns
    tree = pt.Tree([0, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0], categories=[1, -1, -1], columns=columns)
    with pytest.raises(ValueError, match=r"node 0 has a nominal split.*colour in \{blue\}.*indicator columns"):
        tree.to_sklearn()


def leaves_of_sklearn(arrays, X):
    """Leaf (n,) by scikit-learn's own rule: X as float32 against thresholds in float64."""
    x, out = np.asarray(X, dtype=np.float32), np.zeros(len(X), dtype=np.int64)
    for i, row in enumerate(x):
        node = 0
        while arrays["children_left"][node] >= 0:
            value = row[arrays["feature"][node]]
            left = arrays["missing_go_to_left"][node] == 1 if np.isnan(value) else value <= arrays["threshold"][node]
            node = arrays["children_left" if left else "children_right"][node]
        out[i] = node
    return out


def unix_seconds(step, n=200):
    rng = np.random.default_rng(0)
    return (1.7e9 + step * rng.permutation(n))[:, None]


def prior_trees(X, split_prior=None, n=10):
    model = pt.TreeModel(
        X, np.arange(len(X)) % 2, tree_prior=pt.ChipmanPrior(0.97, 0.3), split_prior=split_prior or pt.LocalCuts()
    )
    rng = np.random.default_rng(1)
    return pt.posterior_from_trees(model, [draw_prior(model, rng).tree for _ in range(n)])


def check_agreement(X, split_prior=None, rows=None):
    """Every exported tree agrees with the tree on all rows, or is refused; returns how many are exported."""
    post, exported, refused = prior_trees(X, split_prior), 0, []
    for t in range(post.draws.n_distinct_trees):
        tree = post.draws.distinct_tree(t)
        try:
            arrays = tree.to_sklearn(rows)
        except ValueError as error:
            refused.append(str(error))
            continue
        exported += 1
        np.testing.assert_array_equal(leaves_of_sklearn(arrays, X), tree.apply(X))
    assert all("'x0'" in message and "float32" in message for message in refused)
    return exported


@pytest.mark.more(everyday=["1.0"])
@pytest.mark.parametrize("step", [1.0, 64.0, 100.0, 150.0, 1000.0])
def test_all_training_rows_agree_or_the_column_is_named(step):
    assert (check_agreement(unix_seconds(step)) > 0) == (step > 100.0) or step == 100.0
