"""The global splitting prior equals brute force over all ways to send rows to leaves."""

import math

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from tests.problems.drawn import random_problem
from tests.reference.derivations import log_sum
from tests.reference.enumeration import (
    LEAF,
    Reference,
    child_cells,
    count_leaves,
    leaf_of,
    log_normaliser,
    log_split,
    log_stop,
    root_cell,
)
from tests.reference.leaf_scores import predictive


def labelled(tree):
    """The structure of a nested tree."""
    return LEAF if tree == LEAF else (tree[1], labelled(tree[3]), labelled(tree[4]))


def shape_prior(problem, tree, cell):
    """Log prior of a tree's shape and labels, its splits apart."""
    if tree == LEAF:
        return log_stop(problem, cell, cell.depth < problem.max_depth)
    _, k, rule, left, right = tree
    weights = problem.split_prior.get("weights") or [1.0] * problem.n_features
    total = log_split(problem, cell) + math.log(weights[k] / sum(weights))
    for side, child in zip((left, right), child_cells(problem, cell, k, rule), strict=True):
        total += shape_prior(problem, side, child)
    return total


def splitting(problem, tree):
    """Which leaf each row reaches, leaves numbered by their path."""

    def leaf(rows, tree, cell, path):
        if tree == LEAF:
            return [(i, path) for i in cell.rows]
        left, right = child_cells(problem, cell, tree[1], tree[2])
        return leaf(rows, tree[3], left, path + "l") + leaf(rows, tree[4], right, path + "r")

    return tuple(sorted(leaf(None, tree, root_cell(problem), "")))


def brute_force(problem):
    """(tree, log joint) under the global prior, over all trees with trivial ways."""
    reference = Reference(problem)
    splittings = {}
    for tree, _, _ in reference.entries:
        splittings.setdefault(labelled(tree), []).append(splitting(problem, tree))
    # distinct as maps from rows to leaves, and none missing or double
    assert all(len(set(partitions)) == len(partitions) for partitions in splittings.values())
    root = root_cell(problem)
    out = []
    for tree, _, score in reference.entries:
        prior = shape_prior(problem, tree, root) - math.log(len(splittings[labelled(tree)]))
        out.append((tree, prior - log_normaliser(problem) + score))
    return out


@pytest.mark.more(everyday=["0"])
@pytest.mark.parametrize("seed", range(8))
def test_equals_brute_force(seed):
    rng = np.random.default_rng([seed, 5])
    while True:
        problem, model = random_problem(rng, split_prior="local", max_trees=1500)
        if problem.split_prior["trivial"] and problem.max_depth >= 2:
            break
    trees = brute_force(problem)
    truth = exact.solve_global_splitting(model)
    log_joints = [log_joint for _, log_joint in trees]
    total = log_sum(log_joints)
    assert truth.log_evidence == pytest.approx(total, abs=1e-9)
    assert truth.map_log_joint == pytest.approx(max(log_joints), abs=1e-9)
    assert truth.n_trees == len(trees)
    assert truth.best_trees(5).log_joint == pytest.approx(sorted(log_joints, reverse=True)[:5], abs=1e-9)
    fraction = np.exp(np.array(log_joints) - total)
    sizes = np.bincount([count_leaves(tree) for tree, _ in trees], weights=fraction)
    assert truth.n_leaves_pmf() == pytest.approx(sizes[: len(truth.n_leaves_pmf())], abs=1e-9)
    if not problem.nominal:
        row = problem.X[0]
        expected = fraction @ np.array([predictive(problem, leaf_of(problem, tree, row)) for tree, _ in trees])
        table = np.array([row], dtype=float)
        if model.columns.named:
            import pandas as pd

            table = pd.DataFrame(table, columns=list(model.columns.names))
        predictions = truth.predict_proba(table)[0] if model.classes_ is not None else truth.predict(table)
        assert predictions == pytest.approx(expected, abs=1e-9)


def chain(features, to_left):
    """A structure that goes down one way or the other, as a Tree."""
    nodes = [[features[0], 0.0, 0, 0]]

    def add(j):
        here = len(nodes) - 1
        if j == len(features):
            nodes[here] = [-1, 0.0, 0, 0]
            return
        nodes[here] = [features[j], 0.0, here + 1, 0]
        for side in (True, False):
            nodes.append([-1, 0.0, 0, 0])
            if not side:
                nodes[here][3] = len(nodes) - 1
            if side == to_left[j]:
                add(j + 1)

    add(0)
    return pt.Tree(*zip(*nodes, strict=True))


@pytest.mark.more(everyday=["1-1", "2-2"])
@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_one_dimension_in_closed_form(n, m):
    """C(I + m, m), whatever the shape."""
    X = np.random.default_rng(n).permutation(n)[:, None].astype(float)
    X = np.vstack([X, X[:1]])
    rng = np.random.default_rng(m)
    for _ in range(2):
        structure = chain([0] * m, (rng.random(m) < 0.5).tolist())
        assert exact.count_global_splittings(X, structure) == math.comb(n + m, m)


def test_too_much_is_refused():
    X = np.random.default_rng(0).random((12, 3))
    model = pt.TreeModel(
        X, np.arange(12) % 2, tree_prior=pt.BranchingProcess(0.5, 6), split_prior=pt.LocalCuts(trivial=True)
    )
    with pytest.raises(exact.Intractable, match="structures"):
        exact.solve_global_splitting(model)
    local = pt.TreeModel(X, np.arange(12) % 2)
    with pytest.raises(ValueError, match="LocalCuts"):
        exact.solve_global_splitting(local)
    with pytest.raises(ValueError, match="feature 3"):
        exact.count_global_splittings(X, chain([3], [True]))
