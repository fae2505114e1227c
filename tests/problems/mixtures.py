"""Mixtures over trees of the distributions in leaves, row by row."""

import numpy as np

from pactree_mcmc.posterior.rows.predictions import _laws_at, law_of_new_y


def cdf(post, X, y):
    """Return the probability (n,) that a new y at each row of numbers X is at most ``y`` (n,)."""
    rows, out = post._rows, np.empty(len(y))
    law = law_of_new_y(rows)
    for block, mix in rows.reach(X):
        has_regressors = rows.model.leaf.x_columns is not None
        laws = _laws_at(rows, law, X[block], mix) if has_regressors else law.take(mix.place)
        out[block] = mix.mean(laws.below(mix.by_distribution(y[block])))
    return out
