"""Random small problems by kind of graph."""

from functools import cache

import numpy as np
from model.problems import random_problem
from reference.enumeration import Reference, enumerate_trees

import exact

KINDS = {
    "local": ("local", lambda design: not design["trivial"]),
    "local, trivial": ("local", lambda design: design["trivial"]),
    "grid": ("grid", lambda design: True),
    "dyadic": ("dyadic", lambda design: not design["cyclic"]),
    "cyclic": ("dyadic", lambda design: design["cyclic"]),
    "fixed": ("fixed", lambda design: True),
    "own local": ("own local", lambda design: True),
    "own grid": ("own grid", lambda design: True),
}


@cache
def solved(kind, seed, most=600):
    """A random problem of 12 trees or more: its naive posterior, its model and its exact posterior."""
    split_prior, wanted = KINDS[kind]
    rng = np.random.default_rng([list(KINDS).index(kind), seed, 20_264])
    while True:
        problem, model = random_problem(rng, split_prior=split_prior, max_trees=most)
        if wanted(problem.split_prior) and len(enumerate_trees(problem)) >= 12:
            return Reference(problem), model, exact.solve(model)
