"""The typical tree: the one drawn whose predictions are closest to those of the posterior."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.checks import Seed, check_count, check_type
from ..tree.arrays import leaf_values
from ..tree.tree import Tree, stack_trees
from .base import Posterior
from .convergence import training_points
from .sampled import SampledPosterior

N_ROWS = 200
AT_ONCE = 256
"""Trees whose predictions are held at a time."""


def typical_tree(posterior: Posterior, n_draws: int = 1000, rng: Seed = 0) -> Tree:
    """Returns the tree whose predictions are closest to those of the posterior.

    Closest in mean square over up to 200 training rows. Among the trees drawn it is also the one with the smallest mean
    squared distance to all draws: a central tree, whereas the most probable tree is the mode.

    Parameters
    ----------
    posterior : Posterior
        For a sampled one, all trees drawn are candidates.
    n_draws : int, default 1000
        Number of candidates drawn from an exact posterior.
    rng : int, SeedSequence, Generator or None
        Source of randomness for those draws.

    Returns
    -------
    Tree

    Raises
    ------
    ValueError
        If a sampled posterior has no draws.

    Notes
    -----
    Cost: predictions of 200 rows by every candidate.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
    >>> typical_tree(truth).n_leaves
    2
    """
    check_type("posterior", posterior, Posterior, "a posterior over trees")
    tree: Callable[[int], Tree]
    if isinstance(posterior, SampledPosterior):
        if posterior.tree_of_draw.size == 0:
            raise ValueError("the posterior has no draws; sample at least one.")
        stacked, value, tree = posterior.distinct_trees, posterior.node_values, posterior.distinct_tree
    else:
        drawn = posterior.draw_trees(check_count("n_draws", n_draws), rng)
        stacked, value, tree = stack_trees(drawn), np.concatenate([t.value for t in drawn]), drawn.__getitem__
    X = training_points(posterior.model, N_ROWS)[1]
    mean, distance = posterior._values(X), []
    for first in range(0, len(stacked.offset) - 1, AT_ONCE):
        some = stacked._replace(offset=stacked.offset[first : first + AT_ONCE + 1])
        distance.append(((leaf_values(some, value, X) - mean) ** 2).sum(axis=(1, 2)))
    return tree(int(np.argmin(np.concatenate(distance))))
