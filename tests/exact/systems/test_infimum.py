"""The infimum of the corollaries equals the smallest value among all trees, one by one."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.systems.blanchard import infimum

SPACES = {
    "dyadic": (pt.DyadicCuts(2, bounds=[[0, 1]] * 2), pt.BranchingProcess(0.4, 2), "corollary"),
    "grid": (pt.GridCuts([[0.3, 0.6], [0.5]]), pt.ChipmanPrior(0.9, 1.0), "corollary"),
    "conditioned": (pt.DyadicCuts(2, cyclic=True, bounds=[[0, 1]] * 2), pt.BranchingProcess(0.4, 3, conditioned=True),
                    "corollary"),
    "local": (pt.LocalCuts(), pt.BranchingProcess(0.4, 2), "corollary"),
    "local, counted": (pt.LocalCuts(), pt.BranchingProcess(0.4, 2), "counted"),
    "trivial": (pt.LocalCuts(trivial=True), pt.BranchingProcess(0.4, 2), "corollary"),
    "global": (pt.LocalCuts(trivial=True), pt.BranchingProcess(0.4, 2), "global"),
    "own": (pt.CustomSplits(lambda cut: 1.0 + cut.left), pt.BranchingProcess(0.4, 2), "counted"),
}  # fmt: skip


def problem(name):
    rng, n = np.random.default_rng(2), 6 if name in ("trivial", "global") else 8
    X, p = rng.random((n, 2)), rng.random(n)
    splits, prior, kind = SPACES[name]
    model = pt.TreeModel(
        X, np.arange(n) % 2, split_prior=splits, tree_prior=prior, leaf=pt.FrozenLaplace(), estimation=0.5
    )
    return model, X, np.column_stack([p, 1.0 - p]), kind


def divergence(tree, X, truth):
    """Mean divergence of the truth from its mean in each leaf."""
    leaf = tree.apply(X)
    total = 0.0
    for number in np.unique(leaf):
        p = truth[leaf == number]
        total += (p * np.log(p / p.mean(axis=0))).sum()
    return total / len(X)


def smallest(name):
    """Over all trees, listed by the exact posterior."""
    model, X, truth, kind = problem(name)
    posterior = exact.solve_global_splitting(model) if kind == "global" else exact.solve(model)
    trees = posterior.best_trees(posterior.n_trees).trees
    assert len(trees) == posterior.n_trees
    bounds = {}

    def bound(tree):
        key = tuple(tree.feature) if kind == "global" else tree
        if key not in bounds:
            bounds[key] = exact.kl_bound(model, tree, splits=kind).total
        return bounds[key]

    return min(divergence(tree, X, truth) + bound(tree) for tree in trees)


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("name", SPACES)
def test_no_tree_has_a_smaller_one(name):
    model, X, truth, kind = problem(name)
    found = exact.kl_infimum(model, truth, splits=kind)
    assert found.divergence == pytest.approx(divergence(found.tree, X, truth), abs=1e-12)
    assert found.total == pytest.approx(smallest(name), abs=1e-12)


@pytest.mark.slow
@pytest.mark.planted
@pytest.mark.parametrize("name", ["local", "trivial"])
def test_the_pass_without_the_corollary_is_noticed(name, monkeypatch):
    """With the cost of a leaf left out of the pass it takes a tree of too many leaves."""
    model, _, truth, kind = problem(name)
    monkeypatch.setattr(infimum, "_with_corollary", lambda model, graph: graph._replace(log_stop=graph.log_stop + 8.0))
    assert exact.kl_infimum(model, truth, splits=kind).total > smallest(name) + 1e-6


def test_labels_in_place_of_the_truth():
    model, X, _, _ = problem("grid")
    labels = np.eye(2)[np.arange(8) % 2]
    found = exact.kl_infimum(model, labels)
    leaf = found.tree.apply(X)
    loss = [np.log(np.mean(labels[leaf == leaf[i]], axis=0)[i % 2]) for i in range(8)]
    assert found.divergence == pytest.approx(-np.mean(loss))


def test_bad_input():
    model, _, truth, _ = problem("local")
    with pytest.raises(ValueError, match="truth has shape"):
        exact.kl_infimum(model, truth[:3])
    with pytest.raises(ValueError, match="not probabilities"):
        exact.kl_infimum(model, 2.0 * truth)
    with pytest.raises(ValueError, match="splits='none' is unknown"):
        exact.kl_infimum(model, truth, splits="none")
    nominal = pt.TreeModel(
        [[0], [1], [2]],
        [0, 1, 0],
        nominal=[0],
        leaf=pt.FrozenLaplace(),
        estimation=0.5,
        tree_prior=pt.BranchingProcess(0.4, 2),
    )
    with pytest.raises(ValueError, match="nominal"):
        exact.kl_infimum(nominal, np.full((3, 2), 0.5))
    assert exact.kl_infimum(nominal, np.full((3, 2), 0.5), splits="counted").tree.n_leaves == 1
