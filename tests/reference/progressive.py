"""The progressive mixture by enumerating every tree afresh at every stage, and by the path recursion of the paper."""

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


def direct_on_full_tree(paths, labels, theta, rho, depth):
    """Cesàro-mean predictive at every bottom cell of a full binary tree, in O(depth 2^depth N) (Blanchard, section 4).

    `paths` are the bottom cells of the examples, from 0, `theta[j][s][k]` the probability of class k in node s of depth
    j. For each bottom cell the branch is followed anew at each stage.
    """
    log_l = [[0.0] * 2**j for j in range(depth + 1)]
    log_sigma = [[0.0] * 2**j for j in range(depth + 1)]
    n_classes, n_stages = len(theta[0][0]), len(paths) + 1
    total = [[0.0] * n_classes for _ in range(2**depth)]
    for stage in range(n_stages):
        for bottom in range(2**depth):
            reach = 1.0
            for j in range(depth + 1):
                s = bottom >> (depth - j)
                stop = 1.0 if j == depth else (1 - rho) * math.exp(log_l[j][s] - log_sigma[j][s])
                for k in range(n_classes):
                    total[bottom][k] += reach * stop * theta[j][s][k] / n_stages
                reach *= 1.0 - stop
        if stage < len(paths):
            for j in range(depth, -1, -1):
                s = paths[stage] >> (depth - j)
                log_l[j][s] += math.log(theta[j][s][labels[stage]])
                log_sigma[j][s] = log_l[j][s]
                if j < depth:
                    below = log_sigma[j + 1][2 * s] + log_sigma[j + 1][2 * s + 1]
                    a, b = math.log(1 - rho) + log_l[j][s], math.log(rho) + below
                    log_sigma[j][s] = max(a, b) + math.log1p(math.exp(-abs(a - b)))
    return total
