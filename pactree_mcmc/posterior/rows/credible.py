"""Credible intervals: the posterior distribution of E(y | x), or of P(y | x), over trees and leaf parameters.

Given the tree, a row is in one leaf, and the posterior of the leaf's parameter has a closed form. So the posterior of
the expectation at a row is a mixture, over trees, of the distributions that `Leaf.expectation` returns.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.checks import Seed, central_fractions, check_count, read_generator
from ...model.leaf.distributions import Mixture
from ...tree.arrays import LEAF, TreeArrays, leaf_values
from .predictive import MixtureOverTrees, refuse_loss

if TYPE_CHECKING:
    from ...model import TreeModel
    from ..draws import DrawnTrees
    from ..protocol import AnyPosterior


DRAWS = 2000
"""Number of draws behind the interval of a leaf model whose expectation has no posterior in closed form."""


def credible_interval(post: AnyPosterior, X: np.ndarray, coverage: float) -> np.ndarray:
    """Return the ends (n, 2) or (n, d, 2) of intervals at rows of numbers; see `Posterior.credible_interval`."""
    fractions = central_fractions(coverage)
    refuse_no_expectation(post.model)
    leaf = post.model.leaf
    if not leaf.has_closed_expectation:
        drawn = draw_expectations(post, X, DRAWS, 0)
        return np.moveaxis(np.quantile(drawn, fractions, axis=0), 0, -1)
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
    ends = [[mix.quantile(output.take(mix.place), q) for q in central_fractions(coverage)] for output in outputs]
    return np.array(ends).transpose(2, 0, 1)


def draw_expectations(post: AnyPosterior, X: np.ndarray, draws: int, rng: Seed) -> np.ndarray:
    """Draw E(y | x) at rows of numbers from a tree for each draw; see `Posterior.draw_expectations`."""
    model, draws, rng = post.model, check_count("draws", draws), read_generator(rng)
    refuse_no_expectation(model)
    drawn = draw_predictions(*post._drawn_trees(draws, rng), X, rng)
    return drawn[:, :, 0] if drawn.shape[2] == 1 and model.classes_ is None else drawn


def refuse_no_expectation(model: TreeModel) -> None:
    """Refuse a leaf that has no draws of E(y) given its rows."""
    refuse_loss(model)
    if not model.leaf.has_expectation:
        raise ValueError(
            f"{model.leaf!r} has no expectation, which an interval or a draw of E(y) needs; give expectation=."
        )


class DrawnValues(NamedTuple):
    """Trees, one for each draw, and a draw of the predictions of their leaves."""

    trees: TreeArrays
    """The trees of the draws, end to end."""
    value: np.ndarray
    """(n_nodes, d) E(y), or class probabilities, given leaf parameters drawn; nothing is drawn for internal nodes."""
    node: np.ndarray
    """(n_nodes,) int64: number of each node among those of ``post.distinct_trees``."""


def draw_values(post: DrawnTrees, numbers: np.ndarray, rng: np.random.Generator) -> DrawnValues:
    """Draw the predictions of the leaves of the distinct trees with these ``numbers`` (draws,), given their rows.

    If the leaf is not a model of y, or has no draws of E(y), they are its predictions.
    """
    model, node, sizes = post.model, post.coded_trees.nodes_of(numbers), np.diff(post.coded_trees.offset)[numbers]
    offset = np.concatenate([[0], np.cumsum(sizes)])
    trees = TreeArrays(offset, *(column[node] for column in post.distinct_trees[1:]))
    if not model.leaf.has_expectation:
        return DrawnValues(trees, post.node_values[node], node)
    leaves, is_leaf = np.flatnonzero(trees.feature == LEAF), np.concatenate([[0], np.cumsum(trees.feature == LEAF)])
    ends, stats = is_leaf[offset], post.node_stats[node[leaves]]
    drawn = [
        model.leaf.draw_expectation(rng, stats[start:end], np.arange(end - start), model.target)
        for start, end in pairwise(ends.tolist())
    ]
    value = np.zeros((len(node), drawn[0].shape[1] if drawn else 1))
    value[leaves] = np.concatenate(drawn) if drawn else 0.0
    return DrawnValues(trees, value, node)


def draw_predictions(
    post: DrawnTrees, numbers: np.ndarray, X: np.ndarray, rng: np.random.Generator, outputs: slice = slice(None)
) -> np.ndarray:
    """Draw some ``outputs`` of the predictions of the distinct trees with these ``numbers``, (draws, n, outputs).

    ``X`` are rows of numbers. The leaf parameters are drawn as in `draw_values`; the rows of one draw share them.
    """
    model = post.model
    regressors = model.regressors(X)
    if regressors is None:
        drawn = draw_values(post, numbers, rng)
        return leaf_values(drawn.trees, np.ascontiguousarray(drawn.value[:, outputs]), X)
    out = []
    for t in numbers.tolist():
        nodes = slice(int(post.coded_trees.offset[t]), int(post.coded_trees.offset[t + 1]))
        is_leaf, reached = post.coded_trees.feature[nodes] == LEAF, post.distinct_tree(t).routes().leaves(X)
        stats, leaf = post.node_stats[nodes], (np.cumsum(is_leaf) - 1)[reached]
        if model.leaf.has_expectation:
            out.append(model.leaf.draw_expectation(rng, stats[is_leaf], leaf, model.target, regressors))
        else:
            out.append(model.leaf.value(stats[reached], model.target, regressors))
    return np.array([drawn[:, outputs] for drawn in out])


def spaced_draws(post: DrawnTrees, draws: int) -> np.ndarray:
    """Return the distinct trees (draws,) of evenly spaced draws: of each draw once if there are as many."""
    trees = post.tree_of_draw.ravel()
    return trees[np.arange(draws) * len(trees) // draws]


def output_names(model: TreeModel) -> list:
    """Return the names of the columns of a prediction: the classes, the columns of y, or their numbers."""
    if model.classes_ is not None:
        return model.classes_.tolist()
    n = model.leaf.value(np.zeros((1, model.leaf.n_stats(model.target))), model.target).shape[1]
    return ["y"] if n == 1 else [f"y{i}" for i in range(n)]
