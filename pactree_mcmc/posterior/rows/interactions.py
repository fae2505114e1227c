"""Interactions of features: the probability that one is split on below the other, and how strong their interaction is.

The strength is that of Friedman and Popescu (*Predictive learning via rule ensembles*, Annals of Applied Statistics 2
(2008), section 8.1). With the partial dependences F_j, F_k and F_jk of a tree, each with mean zero over the rows,

    I_jk = F_jk - F_j - F_k,        strength = sd(I_jk),        H = sd(I_jk) / sd(F_jk),

in the units of y or of a probability. A tree that never splits on one of the two below the other has I_jk = 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.checks import central_fractions, check_count, check_number, read_generator
from ...tree.arrays import LEAF, leaf_values, walk
from ..draws import has_values_by_leaf
from ..trees.cells import training_points
from .credible import draw_values, spaced_draws

if TYPE_CHECKING:
    import pandas as pd

    from ...core.checks import Seed
    from ..draws import DrawnTrees
    from ..protocol import AnyPosterior

N_POINTS = 40
"""Number of training rows at which partial dependences are evaluated, and over which they average."""
N_TREES = 200
"""Number of draws of trees and leaf parameters for which strengths are computed."""


def interactions_of(
    posterior: AnyPosterior, min_probability: float, most: int, coverage: float, draws: int, rng: Seed
) -> pd.DataFrame:
    """Return the pairs of features that trees split on together; see `Posterior.interactions`."""
    import pandas as pd

    min_probability = check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
    most = check_count("most", most)
    fractions = central_fractions(coverage)
    rng = read_generator(rng)
    post = posterior._draws_that_predict(draws, rng)
    probability = pair_probabilities(post)
    first, second = np.triu_indices(len(probability), 1)
    order = np.argsort(-probability[first, second], kind="stable")
    order = order[probability[first, second][order] > max(min_probability, 0.0)][:most]
    pairs = np.column_stack([first, second])[order]
    names = np.array(post.model.columns.names, dtype=object)
    table = {
        "feature": names[pairs[:, 0]],
        "other": names[pairs[:, 1]],
        "probability": probability[pairs[:, 0], pairs[:, 1]],
    }
    if has_values_by_leaf(post.model):
        strength, h = _strengths(post, pairs, rng)
        ends = np.quantile(strength, fractions, axis=1)
        table |= {"strength": strength.mean(axis=1), "lower": ends[0], "upper": ends[1], "H": h.mean(axis=1)}
    return pd.DataFrame(table)


def pair_probabilities(post: DrawnTrees) -> np.ndarray:
    """Return the probability (p, p) that a tree splits on one of two features below the other; 0 on the diagonal."""
    feature, out = post.distinct_trees.feature.tolist(), np.zeros((post.model.n_features, post.model.n_features))

    def below(node: int, above: frozenset[int], left: int, right: int) -> list[tuple[int, frozenset[int]]]:
        reached = above | {feature[node]}
        return [(left, reached), (right, reached)]

    for t, weight in enumerate(post.weight_of_tree.tolist()):
        visited = walk(post.distinct_trees, t, frozenset(), below)
        pairs = {frozenset((j, k)) for _, k, above in visited if k != LEAF for j in above if j != k}
        for j, k in pairs:
            out[j, k] += weight
    return np.minimum(out + out.T, 1.0)


def _strengths(post: DrawnTrees, pairs: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return strength and H (m, draws) of the interaction of ``pairs`` (m, 2), for draws of trees and leaf values."""
    drawn = draw_values(post, spaced_draws(post, N_TREES), rng)
    value, points = drawn.value, training_points(post.model, N_POINTS)[1]

    def dependence(features: list[int]) -> np.ndarray:
        """Return the centred partial dependence (draws, points, d) on some features."""
        X = np.repeat(points[None], len(points), axis=0)
        X[:, :, features] = points[:, None, features]
        found = leaf_values(drawn.trees, value, X.reshape(-1, X.shape[2]))
        mean = found.reshape(N_TREES, len(points), len(points), -1).mean(axis=2)
        return mean - mean.mean(axis=1, keepdims=True)

    alone = {k: dependence([k]) for k in np.unique(pairs).tolist()}
    strength, h = np.empty((len(pairs), N_TREES)), np.empty((len(pairs), N_TREES))
    for i, (j, k) in enumerate(pairs.tolist()):
        both = dependence([j, k])
        rest, whole = (_sd(part) for part in (both - alone[j] - alone[k], both))
        # sums of the same leaf values in another order differ in the last digits
        strength[i] = np.where(rest > 1e-12 * np.maximum(whole, np.abs(value).max()), rest, 0.0)
        h[i] = np.divide(strength[i], whole, out=np.zeros(N_TREES), where=whole > 0.0)
    return strength, h


def _sd(component: np.ndarray) -> np.ndarray:
    """Return the standard deviation (draws,) over points, the root mean square over outputs, of centred components."""
    return np.sqrt((component**2).mean(axis=(1, 2)))
