"""Distances between trees, each by its definition."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

from .spaces import MODELS, independent, parts

KINDS = ("cells", "partitions", "predictions")


@pytest.fixture(scope="module", params=["local, nominal", "local, missing", "grid, empty cells", "local, regression"])
def post(request):
    return independent(exact.solve(MODELS[request.param]), chains=2, draws=15)


def by_cells(model, one, other):
    return len(parts(model, one)[0] ^ parts(model, other)[0])


def entropy(labels, weight):
    fraction = np.bincount(np.unique(labels, return_inverse=True)[1].ravel(), weights=weight) / weight.sum()
    return -np.sum(fraction * np.log(fraction))


def leaf_of_units(model, tree):
    out = np.empty(model.units.n_units, dtype=int)
    for visit in model.visit(tree):
        out[visit.cell.index] = visit.number
    return out


@pytest.mark.tenth_a_day
def test_each_by_its_definition(post):
    model, trees = post.model, [post.distinct_tree(t) for t in post.tree_of_draw.ravel().tolist()]
    found = {kind: post.tree_distances(kind=kind) for kind in KINDS}
    units = model.units
    weight = units.rows[np.arange(units.n_units) & units.rows_all].astype(float)
    leaves = [leaf_of_units(model, tree) for tree in trees]
    value = [tree.value[leaf] for tree, leaf in zip(trees, leaves, strict=True)]
    for i in range(30):
        for j in range(30):
            assert found["cells"].matrix[i, j] == by_cells(model, trees[i], trees[j])
            both = entropy(leaves[i] * 100 + leaves[j], weight)
            apart = 2 * both - entropy(leaves[i], weight) - entropy(leaves[j], weight)
            assert found["partitions"].matrix[i, j] == pytest.approx(apart, abs=1e-12)
            square = ((value[i] - value[j]) ** 2).sum(axis=1) @ weight / weight.sum()
            assert found["predictions"].matrix[i, j] == pytest.approx(np.sqrt(square), abs=1e-7)


def test_where_they_come_from(post):
    found = post.tree_distances([29, 3, 15, 3])
    assert found.chain.tolist() == [1, 0, 1, 0] and found.draw.tolist() == [14, 3, 0, 3]
    assert found.tree.tolist() == post.tree_of_draw.ravel()[[29, 3, 15, 3]].tolist()
    assert found.matrix[1, 3] == 0.0 and found.kind == "cells"
    assert np.array_equal(found.matrix, found.matrix.T)
    assert np.array_equal(found.matrix, post.tree_distances().matrix[np.ix_([29, 3, 15, 3], [29, 3, 15, 3])])


def test_leaves_that_look_at_the_row():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = pt.TreeModel(X, X[:, 0] + X[:, 1], leaf=pt.NormalLinear([1]), tree_prior=pt.ChipmanPrior(max_depth=2))
    trees = [pt.simulate(model, seed)[0] for seed in range(6)]
    post = pt.posterior_from_trees(model, trees)
    values = post.values_by_draw(X)[0, :, :, 0]
    expected = np.sqrt(((values[:, None] - values) ** 2).mean(axis=2))
    assert post.tree_distances(kind="predictions").matrix == pytest.approx(expected, abs=1e-6)
