"""Distances between trees, each by its definition."""

import numpy as np
import pytest

import exact

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
    model, trees = post.model, [post.draws.distinct_tree(t) for t in post.draws.tree_of_draw.ravel().tolist()]
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
