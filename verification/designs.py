"""Small models that are verified: tables, tree priors, split priors, leaves, all fixed in advance of y."""

import copy
from functools import cache

import numpy as np

import pactree_mcmc as pt

DEPTH = 3
STEPS = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7], dtype=float)
KINDS = np.array([0, 1, 2, 0, 1, 2, 2, 1, 0, 0, 1, 2], dtype=float)
LEVELS = np.array([1, 0, 2, 0, 1, 2, 0, 1, 2, 1, 0, 2], dtype=float)
NOMINAL = {"X": np.column_stack([STEPS, KINDS]), "nominal": [1]}
"""Twelve rows of an ordered feature with ties and a nominal one of three categories."""
ORDERED = {"X": np.column_stack([STEPS, LEVELS])}
"""Two ordered features."""
WITH_GAPS = np.where(np.isin(np.arange(12), [3, 8, 10]), np.nan, STEPS)
GAPS = {"X": np.column_stack([WITH_GAPS, LEVELS]), "missing": "branch"}
"""Two ordered features; three values of the first are missing."""
TABLES = {
    "local": NOMINAL,
    "local, missing": GAPS,
    "local, trivial": NOMINAL,
    "grid": NOMINAL,
    "dyadic": ORDERED,
    "cyclic": ORDERED,
    "fixed": ORDERED,
}
"""Table for each split prior, by name."""
PRIORS = ("stopped", "conditioned", "chipman", "penalty")
LEAVES = ("dirichlet", "laplace", "inverse gamma", "known variance", "shared variance", "poisson")
"""Names of all leaves that are distributions of y."""
WITHOUT_EXACT_ANSWER = "shared variance"
RHO = [0.8, 0.55, 0.35, 0.2]
FROZEN = np.array([0, 1, 1, 0, 1], dtype=np.int64)
"""Labels of the last rows, which are E."""


@cache
def splits_of(name, package=pt):
    """Return the split prior of that name. ``package`` is the compiled library, or its plain form (`pt.testing`)."""
    bounds = [(0.0, 8.0), (0.0, 3.0)]
    return {
        "local": lambda: package.LocalCuts(),
        "local, missing": lambda: package.LocalCuts(),
        "local, trivial": lambda: package.LocalCuts(trivial=True),
        "grid": lambda: package.GridCuts([np.array([0.5, 2.5, 4.5]), None]),
        "dyadic": lambda: package.DyadicCuts(2, bounds=bounds),
        "cyclic": lambda: package.DyadicCuts(2, cyclic=True, bounds=bounds),
        "fixed": lambda: package.FixedTree(package.kd_tree(ORDERED["X"], DEPTH).tree),
    }[name]()


@cache
def tree_prior_of(name, split_prior, package=pt):
    """Return the tree prior of that name; on a fixed tree rho differs from node to node."""
    if name == "stopped":
        n_nodes = len(splits_of("fixed").tree.feature)
        rho = np.linspace(0.85, 0.25, n_nodes) if split_prior == "fixed" else 0.6
        return package.BranchingProcess(rho, max_depth=DEPTH)
    if name == "conditioned":
        return package.BranchingProcess(0.45 if split_prior == "fixed" else RHO, max_depth=DEPTH, conditioned=True)
    if name == "chipman":
        return package.ChipmanPrior(0.9, 0.8, max_depth=DEPTH)
    return package.LeafPenalty(1.5, max_depth=DEPTH)


@cache
def leaf_of(name, package=pt):
    """Return the leaf model of that name; no parameter is set from the data."""
    return {
        "dirichlet": lambda: package.DirichletMultinomial([0.7, 1.1]),
        "laplace": lambda: package.FrozenLaplace(0.8),
        "inverse gamma": lambda: package.NormalInverseGamma(m0=0.3, k0=0.4, a0=3.0, b0=2.0),
        "known variance": lambda: package.NormalKnownVariance(sigma2=0.8, m0=0.3, k0=0.3),
        "shared variance": lambda: package.NormalSharedVariance(m0=0.3, k0=0.3, a0=3.0, b0=2.0),
        "poisson": lambda: package.PoissonGamma(shape=1.3, rate=0.7),
        "loss": lambda: package.PacBayesLoss(0.8, 0.2),
    }[name]()


def placeholder(leaf, n):
    """Return some y (n,) that a model with this leaf accepts, and the mask of E or None."""
    if leaf == "laplace":
        y = np.arange(n) % 2
        y[-len(FROZEN) :] = FROZEN
        return y, np.arange(n) >= n - len(FROZEN)
    return (np.arange(n) % 2 if leaf in ("dirichlet", "loss") else np.arange(n) % 3 / 1.0), None


def model_of(split_prior, prior, leaf, y=None, *, extra_rows=(), sample_weight=None, tree_prior_given=None, package=pt):
    """Return the model of these three names, with a placeholder for y unless it is given.

    ``extra_rows`` are indices of rows of the table, which are repeated before all others.
    """
    table = TABLES[split_prior]
    rest = {name: value for name, value in table.items() if name != "X"}
    X = np.concatenate([table["X"][list(extra_rows)], table["X"]]) if len(extra_rows) else table["X"]
    some, mask = placeholder(leaf, len(X))
    return package.TreeModel(
        X,
        some if y is None else y,
        tree_prior=tree_prior_of(prior, split_prior, package) if tree_prior_given is None else tree_prior_given,
        split_prior=splits_of(split_prior, package),
        leaf=leaf_of(leaf, package),
        estimation=mask,
        sample_weight=sample_weight,
        **rest,
    )


def combinations():
    """Return all (split prior, tree prior, leaf), by name."""
    return [(split_prior, prior, leaf) for leaf in LEAVES for split_prior in TABLES for prior in PRIORS]


def has_all_classes(model, y):
    """Return True if y contains every class of the model, so that a model of y has the same classes."""
    return model.classes_ is None or len(np.unique(y)) == len(model.classes_)


def simulated(template, rng, new_rows=0):
    """Return a tree of the prior, y given it, and the noise variance, or None if leaves do not share one.

    Draws again until y, without its first ``new_rows``, has all classes. Which y are refused depends on y alone, so the
    posterior given an accepted y does not change.
    """
    while True:
        given = copy.copy(template)
        given.leaf = template.leaf.for_one_tree(rng)
        tree, y = pt.simulate(given, rng)
        if has_all_classes(template, y[new_rows:]):
            return tree, y, None if template.leaf.has_additive_score else given.leaf.sigma2
