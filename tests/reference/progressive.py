"""The progressive mixture by enumerating every tree at every stage."""

import math
from dataclasses import replace

from tests.reference.enumeration import Reference
from tests.reference.leaf_scores import sample


def stages(problem, order=None):
    """A Reference for each stage: examples not yet seen weigh nothing.

    `order` lists the rows of S as they enter; default: as they stand, those of positive weight.
    """
    if order is None:
        order = [i for i in sample(problem, range(len(problem.X)), False) if problem.weights[i] > 0]
    found = []
    for n_seen in range(len(order) + 1):
        hidden = set(order[n_seen:])
        weights = [0.0 if i in hidden else w for i, w in enumerate(problem.weights)]
        found.append(Reference(replace(problem, weights=weights)))
    return found


def mean_distribution(distributions):
    """Mean of dicts of probabilities."""
    keys = {key for distribution in distributions for key in distribution}
    return {
        key: math.fsum(distribution.get(key, 0.0) for distribution in distributions) / len(distributions)
        for key in keys
    }


def mean_rows(rows):
    """Mean of lists, entry by entry."""
    return [math.fsum(column) / len(rows) for column in zip(*rows)]
