"""Features of trees: which ones they split on, at the root, and together on one path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.checks import Seed, check_count, check_number
from ...model.model import simulated_inclusion
from ...tree.arrays import LEAF, iterate_nodes
from ...tree.coded import key_words
from ..distribution import TreeDistribution, documented, draws_of
from ..draws import Draws
from ..ess import rhat_and_ess_by_tree

if TYPE_CHECKING:
    import pandas as pd


def feature_inclusion(post: TreeDistribution) -> pd.Series:
    """Return the probability that a tree splits on each feature at least once.

    Returns
    -------
    Series
        Probabilities by name of the feature, the largest first; compare them with `prior_inclusion`.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel({"size": [0.0, 1.0, 2.0, 3.0], "same": [1.0] * 4}, [0, 0, 1, 1]))
    >>> truth.feature_inclusion().round(2).to_dict()
    {'size': 0.97, 'same': 0.0}
    """
    return sorted_series([*post.model.columns.names], post._feature_inclusion())


def prior_inclusion(post: TreeDistribution, *, draws: int | None = None, rng: Seed = 0) -> pd.Series:
    """Return the prior probability that a tree splits on each feature at least once.

    Parameters
    ----------
    draws : int, optional
        Number of trees drawn from the prior, if the posterior is not exact. Default: 1,000, and fewer if they have more
        than 10,000 nodes in all, but at least 100.
    rng : int, SeedSequence, Generator or None, default 0
        Source of randomness for those draws.

    Returns
    -------
    Series
        Probabilities by name of the feature, in the order of `feature_inclusion`. Exact for a posterior of
        `exact.solve`; otherwise with a standard error of at most .016 for 1,000 draws, .05 for 100.

    Raises
    ------
    ValueError
        If ``draws`` is out of range, or if the posterior is not exact and the prior a LeafPenalty.

    Notes
    -----
    The draws are made once for a model and a seed, and stored with the model: a fraction of a millisecond for each
    node and feature.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> model = pt.TreeModel({"size": [0.0, 1.0, 2.0, 3.0], "same": [1.0] * 4}, [0, 0, 1, 1])
    >>> exact.solve(model).prior_inclusion().round(2).to_dict()
    {'size': 0.95, 'same': 0.0}
    """
    if draws is not None:
        check_count("draws", draws, or_none=True)
    simulated = simulated_inclusion(post.model, draws, rng)
    return sorted_series([*post.model.columns.names], simulated).reindex(feature_inclusion(post).index)


def root_split_pmf(post: TreeDistribution) -> pd.Series:
    """Return the distribution of the split at the root.

    Returns
    -------
    Series
        Probabilities by the words of the split, such as "age <= 41.5", the largest first; "none" if the tree is a
        single leaf.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel({"size": [0.0, 1.0, 2.0, 3.0]}, [0, 0, 1, 1]))
    >>> truth.root_split_pmf().round(2).to_dict()
    {'size <= 1.5': 0.5, 'size <= 0.5': 0.24, 'size <= 2.5': 0.24, 'none': 0.03}
    """
    pmf = post._root_split_pmf()
    return sorted_series([key_words(post.model, key) for key in pmf], np.array([*pmf.values()]))


def sorted_series(names: list[str], probability: np.ndarray) -> pd.Series:
    """Return a Series of the probabilities (n,), indexed by ``names``, the largest first."""
    import pandas as pd

    return pd.Series(probability, index=names, name="probability").sort_values(ascending=False, kind="stable")


@documented
def interactions(
    post: TreeDistribution, min_probability: float = 0.05, *, most: int = 20, draws: int = 1000, rng: Seed = 0
) -> pd.DataFrame:
    """Return the pairs of features on one path of a tree, with the probability of each pair.

    Parameters
    ----------
    min_probability : float, default 0.05
        Pairs with at least this probability are listed, in [0, 1]. Pairs of probability 0 are not.
    most : int, default 20
        Largest number of pairs that are listed, the most probable ones.
    {draws_1000}

    Returns
    -------
    DataFrame
        One line for each pair, the most probable first: ``feature`` and ``other``, their names, and the
        ``probability`` that a tree splits on one of them below the other, with its Monte-Carlo error ``mcse``.

    {raises}

    Notes
    -----
    A probability above 0 does not show an interaction: a single tree adds two effects by splits below one another,
    so it has such a pair for additive data too. Compare with a posterior for additive data, and look at the
    partial dependence on both features, ``pt.plots.plot_partial_dependence(post, (one, other))``. O(nodes * depth).

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> X = np.random.default_rng(0).integers(0, 4, size=(200, 3)).astype(float)
    >>> model = pt.TreeModel(X, ((X[:, 0] > 1) & (X[:, 1] > 1)) * 1.0 + 0.1 * np.sin(np.arange(200)))
    >>> post = pt.sample(model, 200, tune=200, chains=2, rng=1, kernel="grow-prune", progress=False)
    >>> post.interactions()[["feature", "other"]].iloc[0].tolist()
    ['x0', 'x1']
    """
    import pandas as pd

    sampled = draws_of(post, draws, rng)
    min_probability = check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
    max_pairs, pairs_by_tree = check_count("most", most), _pairs_by_tree(sampled)
    probability = np.zeros((post.model.n_features, post.model.n_features))
    for pairs, weight in zip(pairs_by_tree, sampled.weight_of_tree.tolist(), strict=True):
        for j, k in pairs:
            probability[j, k] += weight
    first, second = np.triu_indices(len(probability), 1)
    of_pair = np.minimum(probability + probability.T, 1.0)[first, second]
    order = np.argsort(-of_pair, kind="stable")
    order = order[(of_pair[order] > 0.0) & (of_pair[order] >= min_probability)][:max_pairs]
    first, second, of_pair = first[order], second[order], of_pair[order]
    has_pair = np.zeros((len(order), len(pairs_by_tree)), dtype=np.bool_)
    for i, pair in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        has_pair[i] = [frozenset(pair) in pairs for pairs in pairs_by_tree]
    mcse = np.sqrt(of_pair * (1.0 - of_pair) / rhat_and_ess_by_tree(has_pair, sampled.tree_of_draw)[1])
    names = np.array(post.model.columns.names, dtype=object)
    return pd.DataFrame({"feature": names[first], "other": names[second], "probability": of_pair, "mcse": mcse})


def _pairs_by_tree(draws: Draws) -> list[set[frozenset[int]]]:
    """Return for each distinct tree the pairs of features of which one is split on below the other."""
    feature = draws.distinct_trees.feature.tolist()

    def with_ancestors(node: int, ancestors: frozenset[int], left: int, right: int) -> list[tuple[int, frozenset[int]]]:
        extended = ancestors | {feature[node]}
        return [(left, extended), (right, extended)]

    out = []
    for t in range(draws.n_distinct_trees):
        visited = iterate_nodes(draws.distinct_trees, t, frozenset(), with_ancestors)
        out.append({frozenset((j, k)) for _, k, ancestors in visited if k != LEAF for j in ancestors if j != k})
    return out


def fractions(amount: np.ndarray) -> np.ndarray:
    """Return the entries of ``amount``, all >= 0, divided by their sum; zeros if all are zero."""
    return amount / max(amount.sum(), np.finfo(np.float64).tiny)
