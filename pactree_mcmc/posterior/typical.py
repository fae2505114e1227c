"""The typical tree: the one drawn that predicts most nearly as the posterior does."""

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
    """The tree of the posterior that is nearest to all others.

    Where the best tree is the peak, this is the middle. By predictions it is the one that predicts most nearly as the
    posterior does: nearest in mean square over up to 200 training rows, which is to say that its mean squared distance
    from all draws is least. By cells it differs from a draw in the fewest cells on average, by partitions its leaves
    part the training rows most nearly as those of a draw do.

    Parameters
    ----------
    posterior : Posterior
        Of a sampled one, all trees drawn are candidates.
    n_draws : int, default 1000
        Candidates drawn from another posterior.
    rng : int, SeedSequence, Generator or None
        For those draws.
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
    Cost: the candidates' predictions of 200 rows; their cells; for partitions, the distances of 400 draws, evenly
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
