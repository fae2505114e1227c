"""Prediction by paths equals the general flow of mass down the graph, and enumeration."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.recursion.new_rows import average_rows


def _by_flow(truth, X):
    codes = np.zeros(X.shape, dtype=np.int64)
    for k, scale in enumerate(truth.model.scales):
        if truth.model.columns.categories[k] is None:
            of = scale.encode if hasattr(scale, "encode") else lambda x, s=scale: np.searchsorted(s.cuts, x)
            codes[:, k] = of(X[:, k])
    return average_rows(truth.graph, truth.log_inside, truth._router, X, codes, truth.cell_values)


def _problem(seed, kind):
    rng = np.random.default_rng(seed)
    X, y = rng.random((60, 3)) ** 3, rng.integers(0, 3, 60)
    limit = int(rng.integers(1, 9))
    if kind == "kd":
        design = pt.kd_tree(X[:30] if seed % 2 else rng.random((40, 3)), 5, coordinate="widest")
    else:
        design = pt.DyadicCuts(3, cyclic=True)
    prior = pt.LeafPenalty(0.5, limit, empty_cost=0.0) if seed % 3 == 0 else pt.BranchingProcess(0.6, limit)
    model = pt.TreeModel(X, y, split_prior=design, tree_prior=prior)
    return exact.solve(model), rng.random((200, 3)) * 1.2 - 0.1


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["kd", "cyclic"])
def test_paths_equal_the_flow(kind, seed):
    truth, new = _problem(seed, kind)
    found = truth.predict_proba(new)
    assert found == pytest.approx(_by_flow(truth, new), rel=1e-12, abs=1e-14)
    assert found.sum(axis=1) == pytest.approx(1.0)


def test_long_paths():
    rng = np.random.default_rng(2)
    X, y = rng.random((300, 2)), rng.integers(0, 2, 300)
    model = pt.TreeModel(X, y, split_prior=pt.DyadicCuts(12, cyclic=True), tree_prior=pt.BranchingProcess(0.9, 24))
    truth = exact.solve(model)
    new = np.concatenate([X, rng.random((300, 2))])
    assert truth.predict_proba(new) == pytest.approx(_by_flow(truth, new), rel=1e-12)


def test_unseen_categories_follow_the_larger_branch():
    tree = pt.Tree([0, 1, -1, -1, -1], [0, 0.5, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0], [1, -1, -1, -1, -1])
    X = np.array([["a", 0.0], ["a", 1.0], ["a", 1.0], ["b", 0.0]], dtype=object)
    model = pt.TreeModel(X, [0, 1, 1, 0], split_prior=pt.FixedTree(tree), nominal=0)
    truth = exact.solve(model)
    new = np.array([["z", 1.0], ["a", 1.0]], dtype=object)
    found = truth.predict_proba(new)
    assert found[0] == pytest.approx(found[1])
    assert found == pytest.approx(_by_flow(truth, model.columns.numbers(new)), rel=1e-12)
