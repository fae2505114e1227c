"""Pairs of features on one path of a tree, with their probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.checks import check_count, check_number
from ...tree.arrays import LEAF, iterate_nodes

if TYPE_CHECKING:
    import pandas as pd

    from ..draws import DrawnTrees


def interactions_of(post: DrawnTrees, min_probability: float, max_pairs: int) -> pd.DataFrame:
    """Return the table of `Posterior.interactions` with at most ``max_pairs`` pairs, the most probable first."""
    import pandas as pd

    min_probability = check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
    max_pairs = check_count("most", max_pairs)
    probability = pair_probabilities(post)
    first, second = np.triu_indices(len(probability), 1)
    of_pair = probability[first, second]
    order = np.argsort(-of_pair, kind="stable")
    order = order[(of_pair[order] > 0.0) & (of_pair[order] >= min_probability)][:max_pairs]
    names = np.array(post.model.columns.names, dtype=object)
    return pd.DataFrame({"feature": names[first[order]], "other": names[second[order]], "probability": of_pair[order]})


def pair_probabilities(post: DrawnTrees) -> np.ndarray:
    """Return the probability (p, p) that a tree splits on one of two features below a split on the other; symmetric."""
    feature, out = post.distinct_trees.feature.tolist(), np.zeros((post.model.n_features, post.model.n_features))

    def with_ancestors(node: int, ancestors: frozenset[int], left: int, right: int) -> list[tuple[int, frozenset[int]]]:
        extended = ancestors | {feature[node]}
        return [(left, extended), (right, extended)]

    for t, weight in enumerate(post.weight_of_tree.tolist()):
        visited = iterate_nodes(post.distinct_trees, t, frozenset(), with_ancestors)
        pairs = {frozenset((j, k)) for _, k, ancestors in visited if k != LEAF for j in ancestors if j != k}
        for j, k in pairs:
            out[j, k] += weight
    return np.minimum(out + out.T, 1.0)
