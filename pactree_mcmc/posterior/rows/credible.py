"""Credible intervals: the posterior distribution of E(y | x), or of P(y | x), over trees and leaf parameters.

Given the tree, a row is in one leaf, and the posterior of the leaf's parameter has a closed form. So the posterior of
the expectation at a row is a mixture, over trees, of the distributions that `Leaf.expectation` returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.checks import Seed, check_count, check_number, read_generator
from ...model.leaf.distributions import Mixture
from ...tree.arrays import LEAF
from .predictive import MixtureOverTrees, refuse_loss

if TYPE_CHECKING:
    from ...model import TreeModel
    from ..draws import DrawnTrees
    from ..protocol import AnyPosterior


DRAWS = 2000
"""Number of draws behind the interval of a leaf model whose expectation has no posterior in closed form."""


def credible_interval(post: AnyPosterior, X: np.ndarray, coverage: float) -> np.ndarray:
    """Return the ends (n, 2) or (n, d, 2) of intervals at rows of numbers; see `Posterior.credible_interval`."""
    coverage = check_number("coverage", coverage, "a probability 0 < coverage < 1", 1e-15, 1.0 - 1e-15)
    refuse_loss(post.model)
    leaf = post.model.leaf
    if not leaf.has_closed_expectation:
        drawn = draw_expectations(post, X, DRAWS, 0)
        return np.moveaxis(np.quantile(drawn, [0.5 - coverage / 2.0, 0.5 + coverage / 2.0], axis=0), 0, -1)
    outputs = leaf.expectation(post._stats_by_place, post._tree_of_place, post.model.target)
    ends = np.stack([MixtureOverTrees(post, output).interval(X, coverage) for output in outputs], axis=1)
    return ends[:, 0] if len(outputs) == 1 and post.model.classes_ is None else ends


def credible_interval_of_nodes(post: DrawnTrees, nodes: np.ndarray, weight: np.ndarray, coverage: float) -> np.ndarray:
    """Return the ends (l, d, 2) of intervals of mixtures of nodes (m, l), counted over all trees, with ``weight`` (m,).

    The mixture of a column of nodes is over the m trees.
    """
    m, n = nodes.shape
    outputs = post.model.leaf.expectation(post.node_stats, post._tree_of_place, post.model.target)
    mix = Mixture(nodes.T.ravel(), np.tile(weight, n), np.arange(n + 1) * m)
    fractions = (0.5 - coverage / 2.0, 0.5 + coverage / 2.0)
    ends = [[mix.quantile(output.take(mix.place), q) for q in fractions] for output in outputs]
    return np.array(ends).transpose(2, 0, 1)


def draw_expectations(post: AnyPosterior, X: np.ndarray, draws: int, rng: Seed) -> np.ndarray:
    """Draw E(y | x) at rows of numbers from a tree for each draw; see `Posterior.draw_expectations`."""
    model, draws, rng = post.model, check_count("draws", draws), read_generator(rng)
    refuse_loss(model)
    drawn, trees = post._drawn_trees(draws, rng)
    regressors = () if model.leaf.x_columns is None else (model.regressors(X),)
    out = []
    for t in trees.tolist():
        nodes = slice(int(drawn.coded_trees.offset[t]), int(drawn.coded_trees.offset[t + 1]))
        is_leaf = drawn.coded_trees.feature[nodes] == LEAF
        leaf = (np.cumsum(is_leaf) - 1)[drawn.distinct_tree(t).routes().leaves(X)]
        out.append(model.leaf.draw_expectation(rng, drawn.node_stats[nodes][is_leaf], leaf, model.target, *regressors))
    drawn_values = np.array(out)
    return drawn_values[:, :, 0] if drawn_values.shape[2] == 1 and model.classes_ is None else drawn_values


def output_names(model: TreeModel) -> list:
    """Return the names of the columns of a prediction: the classes, the columns of y, or their numbers."""
    if model.classes_ is not None:
        return model.classes_.tolist()
    n = model.leaf.value(np.zeros((1, model.leaf.n_stats(model.target))), model.target).shape[1]
    return ["y"] if n == 1 else [f"y{i}" for i in range(n)]
