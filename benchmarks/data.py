"""Generated tables the benchmarks share."""

import numpy as np


def friedman(n, seed=0):
    """Friedman's first function of ten uniform features, and its noisy version, standard deviation 1."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 10))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f, f + rng.normal(size=n)


def friedman_binary(n, seed=0):
    """The same table with the noisy function above its median as label."""
    X, _, y = friedman(n, seed)
    return X, y > np.median(y)


def four_levels(n=200, seed=0):
    """One uniform feature; P(y = 1) jumps between .9, .2, .75, .35 at .3, .55, .8."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    return x[:, None], rng.random(n) < np.select([x < 0.3, x < 0.55, x < 0.8], [0.9, 0.2, 0.75], 0.35)
