"""Distances between trees, each by its definition."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

from .spaces import MODELS, cells_and_splits, independent_draws

KINDS = ("cells", "partitions", "predictions")


@pytest.fixture(scope="module", params=["local, nominal", "local, missing", "grid, empty cells", "local, regression"])
def post(request):
    return independent_draws(exact.solve(MODELS[request.param]), chains=2, draws=15)


def cells_of_one_only(model, first, second):
    return len(cells_and_splits(model, first)[0] ^ cells_and_splits(model, second)[0])


def entropy(labels, weight):
    fraction = np.bincount(np.unique(labels, return_inverse=True)[1].ravel(), weights=weight) / weight.sum()
    return -np.sum(fraction * np.log(fraction))


def leaf_of_units(model, tree):
    out = np.empty(model.units.n_units, dtype=int)
    for visit in model.visit(tree):
        out[visit.cell.index] = visit.number
    return out


@pytest.mark.more(everyday=["local, nominal"])
def test_each_by_its_definition(post):
    model, trees = post.model, [post.distinct_tree(t) for t in post.tree_of_draw.ravel().tolist()]
    distances = {kind: post.tree_distances(kind=kind) for kind in KINDS}
    merged = model.units
    weight = merged.rows[np.arange(merged.n_units) & merged.rows_all].astype(float)
    leaves = [leaf_of_units(model, tree) for tree in trees]
    value = [tree.value[leaf] for tree, leaf in zip(trees, leaves, strict=True)]
    for i in range(30):
        for j in range(30):
            assert distances["cells"].matrix[i, j] == cells_of_one_only(model, trees[i], trees[j])
            both = entropy(leaves[i] * 100 + leaves[j], weight)
            information = 2 * both - entropy(leaves[i], weight) - entropy(leaves[j], weight)
            assert distances["partitions"].matrix[i, j] == pytest.approx(information, abs=1e-12)
            square = ((value[i] - value[j]) ** 2).sum(axis=1) @ weight / weight.sum()
            assert distances["predictions"].matrix[i, j] == pytest.approx(np.sqrt(square), abs=1e-7)


def test_where_they_come_from(post):
    distances = post.tree_distances([29, 3, 15, 3])
    assert distances.chain.tolist() == [1, 0, 1, 0] and distances.draw.tolist() == [14, 3, 0, 3]
    assert distances.tree.tolist() == post.tree_of_draw.ravel()[[29, 3, 15, 3]].tolist()
    assert distances.matrix[1, 3] == 0.0 and distances.kind == "cells"
    assert np.array_equal(distances.matrix, distances.matrix.T)
    assert np.array_equal(distances.matrix, post.tree_distances().matrix[np.ix_([29, 3, 15, 3], [29, 3, 15, 3])])


def test_leaves_that_look_at_the_row():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = pt.TreeModel(X, X[:, 0] + X[:, 1], leaf=pt.NormalLinear([1]), tree_prior=pt.ChipmanPrior(max_depth=2))
    trees = [pt.simulate(model, seed)[0] for seed in range(6)]
    post = pt.posterior_from_trees(model, trees)
    values = post.values_by_draw(X)[0, :, :, 0]
    expected = np.sqrt(((values[:, None] - values) ** 2).mean(axis=2))
    assert post.tree_distances(kind="predictions").matrix == pytest.approx(expected, abs=1e-6)
