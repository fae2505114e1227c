"""Small problems all of whose trees can be listed, and plain functions for the cells and splits of a tree."""

import numpy as np

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.trees.cells import identifying_rows
from tests.problems.lazy import MadeWhenUsed

LEVELS = [[-1.0, 0.5, 1.2, 1.5, 5.0], [0.5]]
BUILDERS = {
    "local, nominal": lambda: pt.TreeModel(X, Y, nominal=[2], tree_prior=shallow()),
    "local, missing": lambda: pt.TreeModel(GAPS, Y_GAPS, nominal=[2], missing="branch", tree_prior=shallow()),
    "local, regression": lambda: pt.TreeModel(X, X[:, 0] + 0.1 * X[:, 1], tree_prior=shallow(3)),
    "local, trivial": lambda: pt.TreeModel(FEW, Y, split_prior=pt.LocalCuts(trivial=True), tree_prior=shallow()),
    "grid, nominal": lambda: pt.TreeModel(X, Y, nominal=[2], split_prior=pt.GridCuts(2), tree_prior=shallow()),
    "grid, empty cells": lambda: pt.TreeModel(FEW, Y, split_prior=pt.GridCuts(LEVELS), tree_prior=shallow(3)),
    "grid, missing": lambda: pt.TreeModel(
        GAPS[:, :2], Y_GAPS, split_prior=pt.GridCuts(2), missing="branch", tree_prior=shallow(2)
    ),
    "dyadic": lambda: pt.TreeModel(FEW, Y, split_prior=pt.DyadicCuts(2), tree_prior=shallow(3)),
    "cyclic": lambda: pt.TreeModel(FEW, Y, split_prior=pt.DyadicCuts(2, cyclic=True), tree_prior=shallow(3)),
    "fixed": lambda: pt.TreeModel(FEW, Y, split_prior=pt.kd_tree(FEW, 3)),
    "a row counts twice": lambda: pt.TreeModel(
        X, Y, nominal=[2], tree_prior=shallow(), sample_weight=1.0 + (np.arange(len(Y)) == 3)
    ),
}
MODELS = MadeWhenUsed(BUILDERS)


def table(n=9, seed=0, missing=False):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 4, n), rng.integers(0, 3, n), rng.integers(0, 3, n)]).astype(float)
    if missing:
        X[::3, 1] = np.nan
    return X, (X[:, 0] + (X[:, 2] == 1) + rng.random(n)) > 2


def shallow(depth=2):
    return pt.ChipmanPrior(0.9, 0.7, max_depth=depth)


X, Y = table()
GAPS, Y_GAPS = table(missing=True)
FEW = X[:, :2]


def all_trees(model):
    """Return every tree and its probability."""
    truth = exact.solve(model)
    best = truth.best_trees(int(truth.n_trees))
    probability = np.exp(best.log_joint - truth.log_evidence)
    assert abs(probability.sum() - 1.0) < 1e-9
    return truth, best.trees, probability


def cells_and_splits(model, tree):
    """Return the cells with rows, as sets of distinct rows, and the splits that separate some, as sets of two cells."""
    cells = {visit.number: frozenset(visit.cell.index.tolist()) for visit in model.visit(tree)}
    splits = set()
    for node in np.flatnonzero(tree.feature >= 0).tolist():
        sides = frozenset([cells[int(tree.left[node])], cells[int(tree.right[node])]])
        if frozenset() not in sides:
            splits.add(sides)
    return {cell for cell in cells.values() if cell}, splits


def probabilities_of_cells_and_splits(model, trees, weight):
    """Return the probabilities of every cell and every split that occurs."""
    out = {}, {}
    for tree, p in zip(trees, weight, strict=True):
        for total, some in zip(out, cells_and_splits(model, tree), strict=True):
            for part in some:
                total[part] = total.get(part, 0.0) + p
    return out


def key_of(model, cell):
    key = identifying_rows(model)[1]
    word = np.bitwise_xor.reduce(key[sorted(cell)], axis=0)
    return tuple(word.tolist())


def probabilities_by_key(model, cells, splits):
    """Return probabilities by key, without the cell of all rows, which every tree has."""
    everything = frozenset(range(model.units.n_units))
    out = {key_of(model, cell): p for cell, p in cells.items() if cell != everything}
    for sides, p in splits.items():
        one, other = sorted(key_of(model, side) for side in sides)
        out[one + other] = p
    return out


def independent_draws(truth, chains=4, draws=1000, seed=0):
    post = truth.sample(chains * draws, rng=seed)
    return with_draws(post, post.draws.tree_of_draw.reshape(chains, draws))


def with_draws(post, tree_of_draw):
    return pt.SampledPosterior(post.draws.replace(tree_of_draw=tree_of_draw).without_undrawn_trees())
