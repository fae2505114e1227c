"""Partial dependence as numbers: mean predictions at the values of one feature, with their credible intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.checks import Seed, central_fractions, read_generator
from ...model import TreeModel
from ...table.words import NUMBER, Kind, label_words, told_apart
from ...tree.tree import Tree
from ..distribution import TreeDistribution, draws_of, refuse_other_leaves
from ..draws import Draws
from ..trees.distances import evenly_spaced_integers, weights_of_rows
from .predictions import draw_predictions, trees_of_spaced_draws

MAX_AXIS_ROWS = 1000
"""Largest number of training rows whose values are on an axis."""
AXIS_MARGIN = 0.04
"""Margin of an axis, as a fraction of the range of the values."""


class FeatureAxis(NamedTuple):
    """A feature divided into pieces on which trees are constant."""

    feature: int
    """Index of the feature."""
    name: str
    edges: np.ndarray
    """(m + 1,) increasing ends of the pieces; of a nominal feature -0.5, 0.5, ..., a piece for each category."""
    middles: np.ndarray
    """(m,) a value in each piece, or the number of a category."""
    labels: list[str] | None
    """Categories of a nominal feature, None for an ordered one."""
    kind: Kind = NUMBER
    """Kind of the values of an ordered feature: numbers, dates, levels, ..."""


class AveragedRows(NamedTuple):
    """Rows over which predictions are averaged."""

    numbers: np.ndarray
    """(m, p) rows as numbers."""
    fraction: np.ndarray
    """(m,) fraction of the total weight that each row has."""


class Dependence(NamedTuple):
    """Predictions at the values of one feature, for rows whose other features stay as they are."""

    axis: FeatureAxis
    """The feature, and the pieces of its range on which predictions are constant."""
    by_row: np.ndarray
    """(pieces of the axis, rows, columns) prediction of the posterior, a column for each class."""
    mean: np.ndarray
    """(pieces, columns) mean over the rows."""
    lower: np.ndarray
    """(pieces, columns) lower end of the credible interval of the mean over the rows."""
    upper: np.ndarray
    """(pieces, columns) upper end."""


def partial_dependence(
    post: TreeDistribution,
    feature: int,
    rows: AveragedRows,
    coverage: float,
    n_trees: int,
    rng: Seed,
    most_pieces: int,
    columns: list[int],
) -> Dependence:
    """Return the partial dependence of some ``columns`` of predictions on a feature, averaged over ``rows``."""
    rng = read_generator(rng)
    refuse_other_leaves(post)
    sampled = draws_of(post, n_trees, rng)
    axis = feature_axis(post.model, feature, spaced_trees(sampled, n_trees), most_pieces)
    rows_at_values = np.tile(rows.numbers, (len(axis.middles), 1))
    rows_at_values[:, feature] = np.repeat(axis.middles, len(rows.numbers))
    shape = (len(axis.middles), len(rows.numbers))
    by_row = post._rows.values(rows_at_values)[:, columns].reshape(*shape, len(columns))
    predictions = draw_predictions(sampled, trees_of_spaced_draws(sampled, n_trees), rows_at_values, rng, columns)
    means = np.average(predictions.reshape(n_trees, *shape, len(columns)), axis=2, weights=rows.fraction)
    mean = np.average(by_row, axis=1, weights=rows.fraction)
    return Dependence(axis, by_row, mean, *np.quantile(means, central_fractions(coverage), axis=0))


def spaced_trees(draws: Draws, n_trees: int) -> list[Tree]:
    """Return the distinct trees among those of ``n_trees`` evenly spaced draws."""
    return [draws.distinct_tree(t) for t in np.unique(trees_of_spaced_draws(draws, n_trees)).tolist()]


def feature_axis(model: TreeModel, feature: int, trees: Sequence[Tree], most_pieces: int) -> FeatureAxis:
    """Return the axis of a feature (an index), cut at the thresholds of trees."""
    # it contains these and the values of up to 1,000 training rows, with a margin. If it would have more than
    # ``most_pieces`` pieces, or leaves have a regression on the feature, it is cut into that many pieces of equal
    # width. The axis of a nominal feature has a piece for each category.
    name, categories = model.columns.names[feature], model.columns.categories[feature]
    if categories is not None:
        middles = np.arange(float(len(categories)))
        edges = np.arange(len(categories) + 1.0) - 0.5
        return FeatureAxis(feature, name, edges, middles, [label_words(c) for c in told_apart(categories.tolist())])
    cuts = [t.threshold[(t.feature == feature) & (t.categories < 0)] for t in trees]
    thresholds = np.unique(np.concatenate([np.empty(0), *cuts]))
    thresholds = thresholds[np.isfinite(thresholds)]
    rows = model.row_numbers(evenly_spaced_integers(model.n_rows, MAX_AXIS_ROWS))[:, feature]
    values = np.concatenate([rows[np.isfinite(rows)], thresholds])
    low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
    margin = AXIS_MARGIN * (high - low) or 0.5
    ends = np.array([low - margin, high + margin])
    edges = np.concatenate([ends[:1], thresholds, ends[1:]])
    x_columns = model.leaf.x_columns
    has_regression = x_columns is not None and feature in model.columns.ordered_indices("columns", x_columns)
    if len(edges) > most_pieces + 1 or has_regression:
        edges = np.linspace(ends[0], ends[1], most_pieces + 1)
    return FeatureAxis(feature, name, edges, (edges[:-1] + edges[1:]) / 2.0, None, model.columns.kind(feature))


def rows_to_average(model: TreeModel, X: Any, most: int) -> AveragedRows:
    """Return X, or at most ``most`` evenly spaced training rows, with their weights, if X is None."""
    if X is None:
        rows = evenly_spaced_integers(model.n_rows, most)
        numbers, weight = model.row_numbers(rows), weights_of_rows(model.target.weights[rows])
    else:
        numbers = model.columns.numbers(X)
        weight = np.ones(len(numbers))
    if len(numbers) == 0:
        raise ValueError("X has no rows; give at least one.")
    return AveragedRows(numbers, weight / weight.sum())
