"""Models of the problems, and the exact answers of those that have one; both are cached for the whole process."""

from functools import cache

import numpy as np
import tables

import exact
import pactree_mcmc as pt

MOST_CELLS = 3_000_000


def chipman_1998():
    leaf = pt.NormalInverseGamma(m0=4.85, k0=1 / 3, a0=5.0, b0=20.0)
    return pt.TreeModel(*tables.chipman_data(), tree_prior=pt.ChipmanPrior(0.95, 1.0), leaf=leaf)


def one_dimension():
    return pt.TreeModel(*tables.four_levels(), tree_prior=pt.ChipmanPrior(0.95, 1.0, max_depth=10))


def maptree_small():
    return pt.TreeModel(*tables.read_table("maptree_small"), tree_prior=pt.ChipmanPrior(0.95, 0.5))


def maptree_medium():
    X, y = tables.read_table("maptree_medium")
    return pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.95, 0.5), leaf=pt.DirichletMultinomial(2.5))


def xor_twins():
    return pt.TreeModel(*tables.xor_twins(), tree_prior=pt.ChipmanPrior(0.95, 1.0))


def wu_tjelmeland_west():
    return pt.TreeModel(*tables.wu_tjelmeland_west())


def west_on_a_grid():
    """Return the model of the same table with five cuts per feature, for which the exact answer is feasible."""
    cuts = np.array([0.2, 0.3, 0.5, 0.7, 0.8])
    return pt.TreeModel(*tables.wu_tjelmeland_west(), split_prior=pt.GridCuts([cuts, cuts, cuts]))


MAKERS = (chipman_1998, one_dimension, maptree_small, maptree_medium, xor_twins, wu_tjelmeland_west, west_on_a_grid)
MAKERS = {maker.__name__: maker for maker in MAKERS}
WITH_EXACT_ANSWER = [name for name in MAKERS if name != "wu_tjelmeland_west"]


@cache
def model_of(name):
    """Return the model of a problem. It is built once, as exact and sampled answers must share it."""
    return MAKERS[name]()


@cache
def truth_of(name):
    """Return the exact posterior of a problem, or None if it needs more than MOST_CELLS cells."""
    try:
        return exact.solve(model_of(name), max_cells=MOST_CELLS)
    except exact.Intractable:
        return None


@cache
def root_pmf(name):
    """Return the exact distribution of the root split, by key."""
    return truth_of(name)._root_split_pmf()


def feature_distribution(distribution, n_features):
    """Return the probability of each feature at the root, a list, from the distribution of the root split."""
    fractions = [0.0] * n_features
    for key, probability in distribution.items():
        if key is not None:
            fractions[key[0]] += probability
    return fractions
