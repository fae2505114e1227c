"""The typical tree: the one drawn whose predictions are closest to those of the posterior."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.checks import Seed, check_choice, check_count, check_type
from ..tree.arrays import leaf_values
from ..tree.tree import Tree, stack_trees
from .base import Posterior
from .convergence import training_points
from .sampled import SampledPosterior
from .space.distances import KINDS
from .space.support import check_drawn

N_ROWS = 200
AT_ONCE = 256
"""Trees whose predictions are held at a time."""


def typical_tree(posterior: Posterior, n_draws: int = 1000, rng: Seed = 0, *, distance: str = "predictions") -> Tree:
    """Returns the tree of the posterior that is closest to all others.

    A central tree, whereas the most probable tree is the mode. By predictions it is the tree whose predictions are
    closest to those of the posterior, in mean square over up to 200 training rows; among the trees drawn it is also the
    one with the smallest mean squared distance to all draws. By cells it is the tree that differs from a draw in the
    fewest cells on average, by partitions the one whose leaves divide the training rows most nearly as those of a draw
    do.

    Parameters
    ----------
    posterior : Posterior
        For a sampled one, all trees drawn are candidates.
    n_draws : int, default 1000
        Number of candidates drawn from an exact posterior.
    rng : int, SeedSequence, Generator or None
        Source of randomness for those draws.
    distance : {"predictions", "cells", "partitions"}, default "predictions"
        As of `SampledPosterior.tree_distances`.

    Returns
    -------
    Tree

    Raises
    ------
    ValueError
        If a sampled posterior has no draws, or an argument is out of range.

    Notes
    -----
    Cost: predictions of 200 rows by every candidate; their cells; for partitions, the distances of 400 draws, evenly
    spaced, which are then the candidates.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
    >>> typical_tree(truth).n_leaves, typical_tree(truth, distance="cells").n_leaves
    (2, 2)
    """
    check_type("posterior", posterior, Posterior, "a posterior over trees")
    if check_choice("distance", distance, KINDS) != "predictions":
        return middle_tree(posterior._as_draws(n_draws, rng), distance)
    tree: Callable[[int], Tree]
    if isinstance(posterior, SampledPosterior):
        if posterior.tree_of_draw.size == 0:
            raise ValueError("the posterior has no draws; sample at least one.")
        stacked, value, tree = posterior.distinct_trees, posterior.node_values, posterior.distinct_tree
    else:
        drawn = posterior.draw_trees(check_count("n_draws", n_draws), rng)
        stacked, value, tree = stack_trees(drawn), np.concatenate([t.value for t in drawn]), drawn.__getitem__
    X = training_points(posterior.model, N_ROWS)[1]
    mean, far = posterior._values(X), []
    for first in range(0, len(stacked.offset) - 1, AT_ONCE):
        some = stacked._replace(offset=stacked.offset[first : first + AT_ONCE + 1])
        far.append(((leaf_values(some, value, X) - mean) ** 2).sum(axis=(1, 2)))
    return tree(int(np.argmin(np.concatenate(far))))


def middle_tree(post: SampledPosterior, distance: str) -> Tree:
    """The tree whose mean distance from all draws, by "cells" or "partitions", is least."""
    check_drawn(post)
    if distance == "cells":
        # of the sum over cells only those that the tree has depend on it
        cells, p = post.cells, post.cells.frequencies(post.weight_of_tree)
        held = np.concatenate([[0.0], np.cumsum(1.0 - 2.0 * p[cells.member])])
        far = held[cells.offset[1:]] - held[cells.offset[:-1]]
        return post.distinct_tree(int(np.argmin(np.where(post.weight_of_tree > 0.0, far, np.inf))))
    found = post.tree_distances(kind=distance)
    return post.distinct_tree(int(found.tree[np.argmin(found.matrix.sum(axis=1))]))
