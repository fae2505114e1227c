"""Random small problems, each with the model of the library that says the same."""

from functools import cache

import numpy as np

import exact
import pactree_mcmc as pt
from tests.problems import leaves, priors
from tests.problems.models import build_model
from tests.problems.tables import random_rows
from tests.reference.enumeration import (
    Problem,
    Reference,
    admissible_splits,
    child_cells,
    enumerate_trees,
    log_split,
    root_cell,
)

OWN_SPLITS = priors.OWN_SPLITS
SPLIT_PRIORS, TREE_PRIORS, LEAVES = priors.KINDS, priors.KINDS_OF_TREE_PRIORS, leaves.KINDS
EVERYDAY = [
    "local-stopped-dirichlet-0",
    "local-stopped-laplace-0",
    "local-stopped-nig-0",
    "local-stopped-known-0",
    "local-stopped-poisson-0",
    "local-stopped-loss-0",
    "local-stopped-own-0",
    "grid-conditioned-dirichlet-1",
    "grid-conditioned-laplace-1",
    "grid-conditioned-nig-1",
    "grid-conditioned-known-1",
    "grid-conditioned-loss-1",
    "grid-conditioned-own-1",
    "dyadic-chipman-dirichlet-0",
    "dyadic-chipman-laplace-0",
    "dyadic-chipman-nig-0",
    "dyadic-chipman-known-0",
    "dyadic-chipman-poisson-0",
    "dyadic-chipman-own-0",
    "fixed-penalty-dirichlet-1",
    "fixed-penalty-laplace-1",
    "fixed-penalty-nig-1",
    "fixed-penalty-known-1",
    "fixed-penalty-poisson-1",
    "fixed-penalty-loss-1",
]
"""Everyday cases, by split prior, tree prior, leaf and seed, of tests over all of these."""
GRAPHS = {
    "local": ("local", lambda design: not design["trivial"]),
    "local, trivial": ("local", lambda design: design["trivial"]),
    "grid": ("grid", lambda design: True),
    "dyadic": ("dyadic", lambda design: not design["cyclic"]),
    "cyclic": ("dyadic", lambda design: design["cyclic"]),
    "fixed": ("fixed", lambda design: True),
    "own local": ("own local", lambda design: True),
    "own grid": ("own grid", lambda design: True),
}
"""Kinds of graphs of the exact engine: a split prior, and what it must fulfil."""


def random_problem(rng, *, split_prior=None, tree_prior=None, leaf=None, max_trees=20_000, gaps=False):
    """A random Problem with at most ``max_trees`` trees, of random kinds if not given, and the TreeModel of it."""
    while True:
        kinds = [
            str(rng.choice(all_kinds)) if kind is None else kind
            for kind, all_kinds in ((split_prior, SPLIT_PRIORS), (tree_prior, TREE_PRIORS), (leaf, LEAVES))
        ]
        problem = _random_reference(rng, *kinds, gaps)
        n = number_of_trees(problem, max_trees)
        if n is not None and rng.random() < n / 20:
            return problem, build_model(pt, problem, rng, unit_weights=rng.random() < 0.2)


class _TooManyError(Exception):
    pass


def number_of_trees(problem, limit):
    """Return the number of trees with positive prior, or None if there are more than ``limit``."""
    known = {}

    def count(cell):
        key = (tuple(cell.rows), *cell.box.values(), *cell.n_splits.values(), cell.depth, cell.number)
        if key not in known:
            total = 1
            for k, rule, _ in admissible_splits(problem, cell):
                if log_split(problem, cell) == -np.inf:
                    break
                left, right = child_cells(problem, cell, k, rule)
                total += count(left) * count(right)
                if total > limit:
                    raise _TooManyError
            known[key] = total
        return known[key]

    try:
        return count(root_cell(problem))
    except _TooManyError:
        return None


def _random_reference(rng, split_prior, tree_prior, leaf, gaps):
    p = int(rng.integers(1, 4))
    X, nominal = random_rows(rng, int(rng.integers(2, 8)), p, allow_nominal=split_prior != "dyadic", gaps=gaps)
    n = len(X)
    estimation = None
    if leaf == "laplace" or (leaf == "loss" and rng.random() < 0.5):
        estimation = (rng.random(n) < 0.5).tolist()
        estimation[int(rng.integers(n))] = True
    weights = rng.choice([0.0, 0.5, 1.0, 1.7, 2.0], n).tolist() if rng.random() < 0.4 else None
    weights = [1.0] * n if weights is not None and not any(weights) else weights
    design = priors.random_split_prior(rng, split_prior, X, nominal)
    if gaps and split_prior == "local":
        design["trivial"] = False
    return Problem(
        X=X,
        y=leaves.random_y(rng, leaf, n),
        nominal=nominal,
        weights=weights,
        estimation=estimation,
        tree_prior=priors.random_tree_prior(rng, tree_prior, design),
        split_prior=design,
        leaf=leaves.random_leaf(rng, leaf, n),
    )


@cache
def solved(kind, seed, most=600):
    split_prior, wanted = GRAPHS[kind]
    rng = np.random.default_rng([list(GRAPHS).index(kind), seed, 20_264])
    while True:
        problem, model = random_problem(rng, split_prior=split_prior, max_trees=most)
        if wanted(problem.split_prior) and len(enumerate_trees(problem)) >= 12:
            return Reference(problem), model, exact.solve(model)
