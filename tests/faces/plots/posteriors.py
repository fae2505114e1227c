"""Small posteriors to draw: a few trees over ordered features, drawn at random."""

import numpy as np
import pandas as pd

import pactree_mcmc as pt

LEAF = pt.Tree([-1], [0], [0], [0])


def stump(k, threshold):
    return pt.Tree([k, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0])


def twice(first, second):
    return pt.Tree([0, 1, -1, -1, -1], [first, second, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])


def problem(regression=False, p=2, names=None, classes=("no", "yes")):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 6, (60, p)).astype(float)
    y = X[:, 0] + rng.normal(size=60) if regression else np.array(classes)[(X[:, 0] > 2).astype(int)]
    frame = pd.DataFrame(X, columns=names or [f"f{k}" for k in range(p)])
    return pt.TreeModel(frame, y, tree_prior=pt.ChipmanPrior(0.95, 0.5))


def some(regression=False, chains=2, draws=30, **kwargs):
    trees = [LEAF, stump(0, 2.5), twice(2.5, 1.5), twice(1.5, 3.5)]
    tree_of_draw = np.random.default_rng(1).integers(0, 4, (chains, draws))
    return pt.posterior_from_trees(problem(regression, **kwargs), trees, tree_of_draw)
