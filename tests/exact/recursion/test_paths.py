"""Prediction by paths equals the general flow of mass down the graph, and enumeration."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.recursion.rows import mean_leaf_values


def _by_flow(truth, X):
    codes = np.zeros(X.shape, dtype=np.int64)
    for k, scale in enumerate(truth.model.scales):
        if truth.model.columns.categories[k] is None:
            of = scale.encode if hasattr(scale, "encode") else lambda x, s=scale: np.searchsorted(s.cuts, x)
            codes[:, k] = of(X[:, k])
    return mean_leaf_values(truth.graph, truth.log_inside, truth._rows._router, X, codes, truth._rows.place_values)


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


@pytest.mark.more(everyday=["kd-0"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["kd", "cyclic"])
def test_paths_equal_the_flow(kind, seed):
    truth, new = _problem(seed, kind)
    predictions = truth.predict_proba(new)
    assert predictions == pytest.approx(_by_flow(truth, new), rel=1e-12, abs=1e-14)
    assert predictions.sum(axis=1) == pytest.approx(1.0)


def test_unseen_categories_follow_the_larger_branch():
    tree = pt.Tree([0, 1, -1, -1, -1], [0, 0.5, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0], [1, -1, -1, -1, -1])
    X = np.array([["a", 0.0], ["a", 1.0], ["a", 1.0], ["b", 0.0]], dtype=object)
    model = pt.TreeModel(X, [0, 1, 1, 0], split_prior=pt.FixedTree(tree), nominal=0)
    truth = exact.solve(model)
    new = np.array([["z", 1.0], ["a", 1.0]], dtype=object)
    predictions = truth.predict_proba(new)
    assert predictions[0] == pytest.approx(predictions[1])
    assert predictions == pytest.approx(_by_flow(truth, model.columns.numbers(new)), rel=1e-12)


DESIGNS = {
    "kd": lambda X: pt.kd_tree(X, 3),
    "kd of other rows": lambda X: pt.kd_tree(X[:5] * 2.0 - 1.0, 3, coordinate="widest"),
    "cyclic": lambda X: pt.DyadicCuts(2, cyclic=True),
}


@pytest.mark.parametrize("kind", ["numbers", "classes"])
@pytest.mark.parametrize("design", DESIGNS)
def test_the_first_missing_values_follow_the_larger_branch(design, kind):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 4, (12, 2)).astype(float)
        y = rng.normal(size=12) if kind == "numbers" else rng.integers(0, 3, 12)
        leaf = pt.NormalInverseGamma(0.0, 1.0, 2.0, 1.0) if kind == "numbers" else None
        how = {"split_prior": DESIGNS[design](X), "tree_prior": pt.BranchingProcess(0.5, 3), "missing": "branch"}
        truth = exact.solve(pt.TreeModel(X, y, leaf=leaf, **how))
        new = np.array([[np.nan, np.nan], [np.nan, 0.0], [np.nan, 3.0], [0.0, np.nan], [7.0, np.nan], [1.0, 2.0]])
        predictions = truth.predict_proba(new) if kind == "classes" else truth.predict(new).reshape(len(new), -1)
        best = truth.best_trees(truth.n_trees)
        weight = np.exp(best.log_joint - truth.log_evidence)
        values = np.array([tree.value[tree.apply(new)] for tree in best.trees]).reshape(len(weight), *predictions.shape)
        mean = np.einsum("t,tnd->nd", weight, values)
        assert predictions == pytest.approx(mean, abs=1e-12)
        std = np.sqrt(np.einsum("t,tnd->nd", weight, (values - mean) ** 2))
        if kind != "classes":
            assert truth.predict_std_over_trees(new).reshape(std.shape) == pytest.approx(std, abs=1e-6)
