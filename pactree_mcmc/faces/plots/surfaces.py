"""Plots over two features: the partition of a tree, the predictive surface of a posterior and its spread.

Trees are constant between their thresholds. So surfaces are computed once for each rectangle between neighbouring
thresholds, and on a regular grid only if there are too many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...model import TreeModel
from ...posterior.base import Posterior
from ...posterior.draws import has_values_by_leaf
from ...posterior.joining import posterior_from_trees
from ...posterior.trees.distances import evenly_spaced_integers
from ...table.labels import category_codes
from ...table.words import DURATION, NUMBER, TRUTH, Kind, label_words, value_text
from ...tree.tree import Tree, match_columns
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_AXIS_PIECES = 150  # largest number of pieces of an axis
# largest numbers of training rows drawn, and of trees whose thresholds divide the axes
MAX_DRAWN_ROWS, MAX_CUT_TREES = 1000, 300
MAX_LEVEL_TICKS = 12  # largest number of levels of an ordered categorical that are named on an axis
AXIS_MARGIN = 0.04  # margin of an axis, as a fraction of the range of the values


class FeatureAxis(NamedTuple):
    """A feature divided into pieces on which trees are constant."""

    feature: int  # index of the feature
    name: str
    # (m + 1,) increasing ends of the pieces; of a nominal feature -0.5, 0.5, ..., a piece for each category
    edges: np.ndarray
    middles: np.ndarray  # (m,) a value in each piece, or the number of a category
    labels: list[str] | None  # categories of a nominal feature, None for an ordered one
    kind: Kind = NUMBER  # kind of the values of an ordered feature: numbers, dates, levels, ..


class FeaturePlane(NamedTuple):
    """Two features that vary, and rows in which they do: m >= 1 rows in each rectangle of the plane."""

    x: FeatureAxis
    y: FeatureAxis
    rows: np.ndarray  # (len(y) * len(x) * m, p) rows of numbers, m for each rectangle, by y, then by x

    def grid(self, values: np.ndarray) -> np.ndarray:
        """Return ``values``, one for each rectangle, by y, then by x, as an array (len(y), len(x))."""
        return values.reshape(len(self.y.middles), len(self.x.middles))


def plot_surface(
    posterior: Posterior,
    features: Sequence[Any] = (0, 1),
    ax: Axes | None = None,
    *,
    spread: bool = False,
    label: Any = None,
    at: Mapping[Any, Any] | None = None,
    points: bool | None = None,
) -> Axes:
    """Draw the prediction of the posterior over two features, or the disagreement of its trees.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact.
    features : two names or indices, default (0, 1)
        Horizontal and vertical axis.
    ax : matplotlib Axes, optional
        Default: those of a new figure. A colour bar takes part of their space.
    spread : bool, default False
        Show the standard deviation over trees (``predict_std_over_trees``) instead of the mean.
    label : optional
        As for `plot_partial_dependence`.
    at : mapping of names or indices to values, optional
        Values of the other features. Default: the median training value, or the most frequent category.
    points : bool, optional
        Draw up to 1,000 training rows, in the colours of the surface, or white over the spread. Default: only if there
        are no other features.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If a feature, a label or a category is unknown, or the two features are one.
    TypeError
        If the posterior has no ``predict_std_over_trees``: a progressive mixture.

    Notes
    -----
    Cost: up to 22,500 predictions, on a regular grid if thresholds would make more. Training rows are drawn at the
    values that the model's coding gives them, which are exact under LocalCuts without ``max_cuts``.
    """
    style.check_posterior(posterior)
    model = posterior.model
    std = getattr(posterior, "predict_std_over_trees", None)
    if spread and std is None:
        raise TypeError(f"{type(posterior).__name__} has no predict_std_over_trees; leave spread out.")
    column, pair = style.value_column(model, label), feature_pair(model, features)
    fixed = _fixed_values(model, pair, at)
    ax = style.axes_or_new(ax, 5.4, 4.2)
    plane = feature_plane(model, pair, fixed[None], posterior.draw_trees(MAX_CUT_TREES, 0), MAX_AXIS_PIECES)
    if spread and std is not None:
        values = std(_with_labels(model, plane.rows)).reshape(len(plane.rows), -1)[:, column]
    else:
        values = posterior._values(plane.rows)[:, column]
    name = f"{'sd of ' if spread else ''}{style.value_label(model, column)}"
    limits = (0.0, None) if spread else (0.0, 1.0) if model.classes_ is not None else (None, None)
    mesh = draw_surface(ax, plane, values, name, "magma" if spread else "viridis", limits)
    style.set_title(ax, f"{name} over all trees")
    if points or (points is None and model.n_features == 2):
        _draw_rows(ax, model, plane, column, None if spread else mesh)
    return ax


def plot_partition(
    posterior: Posterior,
    features: Sequence[Any] = (0, 1),
    ax: Axes | None = None,
    *,
    tree: Tree | None = None,
    label: Any = None,
    at: Mapping[Any, Any] | None = None,
    fill: bool = True,
) -> Axes:
    """Draw the cells of a tree over two features, coloured by the predictions of their leaves.

    Parameters
    ----------
    posterior : Posterior
        A posterior of the model, which has the names and the range of the features.
    features, label, at
        As of `plot_surface`.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    tree : Tree, optional
        Default: the most probable tree.
    fill : bool, default True
        False: only the borders, to be drawn over `plot_surface`.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If a feature, a label or a category is unknown, the two features are one, or a tree to be filled has no values.
    """
    style.check_posterior(posterior)
    model = posterior.model
    column, pair = style.value_column(model, label), feature_pair(model, features)
    fixed = _fixed_values(model, pair, at)
    if fill and tree is not None and tree.value is None and has_values_by_leaf(model):
        raise ValueError("the tree carries no values; take one from the posterior, or give fill=False.")
    ax = style.axes_or_new(ax, 5.4, 4.2)
    is_best, tree = tree is None, posterior.map_tree() if tree is None else match_columns(tree, model.columns)
    plane = feature_plane(model, pair, fixed[None], [tree], MAX_AXIS_PIECES)
    leaf = tree.routes().leaves(plane.rows)
    if fill and (tree.value is not None or model.leaf.predicts):
        limits = (0.0, 1.0) if model.classes_ is not None else (None, None)
        values = posterior_from_trees(model, [tree])._values(plane.rows) if tree.value is None else tree.value[leaf]
        draw_surface(ax, plane, values[:, column], style.value_label(model, column), "viridis", limits)
    _draw_borders(ax, plane, plane.grid(leaf))
    if fill:
        style.set_title(ax, "cells of the most probable tree" if is_best else "cells of the tree")
    return ax


def feature_axis(model: TreeModel, feature: int, trees: Sequence[Tree], most_pieces: int) -> FeatureAxis:
    """Return the axis of a feature (an index), cut at the thresholds of trees."""
    # cut into pieces of equal width if there would be more than `most_pieces`, or leaves have a regression on the
    # feature
    name, categories = model.columns.names[feature], model.columns.categories[feature]
    if categories is not None:
        middles = np.arange(float(len(categories)))
        edges = np.arange(len(categories) + 1.0) - 0.5
        return FeatureAxis(feature, name, edges, middles, [label_words(c) for c in categories.tolist()])
    cuts = [t.threshold[(t.feature == feature) & (t.categories < 0)] for t in trees]
    thresholds = np.unique(np.concatenate([np.empty(0), *cuts]))
    thresholds = thresholds[np.isfinite(thresholds)]
    rows = model.row_numbers(evenly_spaced_integers(model.n_rows, MAX_DRAWN_ROWS))[:, feature]
    values = np.concatenate([rows[np.isfinite(rows)], thresholds])
    low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
    margin = AXIS_MARGIN * (high - low) or 0.5
    ends = np.array([low - margin, high + margin])
    edges = np.concatenate([ends[:1], thresholds, ends[1:]])
    if len(edges) > most_pieces + 1 or _has_regression_on(model, feature):
        edges = np.linspace(ends[0], ends[1], most_pieces + 1)
    return FeatureAxis(feature, name, edges, (edges[:-1] + edges[1:]) / 2.0, None, model.columns.kind(feature))


def _has_regression_on(model: TreeModel, feature: int) -> bool:
    """Return True if leaves have a regression on the feature, so that predictions change within a leaf."""
    x_columns = model.leaf.x_columns
    return x_columns is not None and feature in model.columns.ordered_indices("columns", x_columns)


def label_ticks(axis: Any, feature: FeatureAxis) -> None:
    """Name the ticks of a matplotlib axis after the categories, levels, dates or truth values of a feature."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    kind = feature.kind
    if feature.labels is not None:
        label_categories(axis, feature)
    elif kind.levels:
        numbers = np.arange(len(kind.levels))
        ticks = numbers[(numbers >= feature.edges[0]) & (numbers <= feature.edges[-1])]
        ticks = ticks[evenly_spaced_integers(len(ticks), MAX_LEVEL_TICKS)]
        _set_ticks(axis, ticks, [str(kind.levels[i]) for i in ticks.tolist()])
    elif kind != NUMBER:
        # whole days and periods are the same in stored form and in words
        axis.set_major_locator(MaxNLocator(nbins=5, integer=float(np.ptp(feature.edges)) >= 1.0 and kind != DURATION))
        axis.set_major_formatter(FuncFormatter(lambda value, _: value_text(value, kind).replace("$", r"\$")))
        if axis.axis_name == "x" and kind != TRUTH:
            axis.set_tick_params(rotation=30)


def label_categories(axis: Any, nominal: FeatureAxis) -> None:
    """Set the ticks of a matplotlib axis to the categories of a nominal feature."""
    assert nominal.labels is not None
    _set_ticks(axis, nominal.middles, nominal.labels)


def _set_ticks(axis: Any, places: np.ndarray, labels: list[str]) -> None:
    """Set ticks of a matplotlib axis at ``places`` with ``labels``, which are turned if they are long."""
    axis.set_ticks(places, style.shortened_names(labels, 14), parse_math=False)
    if axis.axis_name == "x" and sum(map(len, labels)) > 40:
        axis.set_tick_params(rotation=45)


def feature_pair(model: TreeModel, features: Sequence[Any]) -> tuple[int, int]:
    """Return the indices of two features, given by names or indices; raise a ValueError unless they are different."""
    if isinstance(features, str) or len(features) != 2:
        raise ValueError(f"features is {features!r}; give two names or indices.")
    x, y = (style.feature_number(model, one) for one in features)
    if x == y:
        raise ValueError(f"features is {tuple(features)!r}: both are {model.columns.names[x]!r}; give two.")
    return x, y


def _fixed_values(model: TreeModel, pair: tuple[int, int], given_values: Mapping[Any, Any] | None) -> np.ndarray:
    """Return a number for each feature, (p,): that in ``given_values``, or the median or most frequent category."""
    rows = model.row_numbers(evenly_spaced_integers(model.n_rows, MAX_DRAWN_ROWS))
    out = np.empty(model.n_features)
    for k in range(model.n_features):
        column = rows[np.isfinite(rows[:, k]), k]
        if model.columns.is_nominal[k]:
            out[k] = np.argmax(np.bincount(column.astype(np.int64)))
        else:
            out[k] = np.quantile(column, 0.5, method="lower") if len(column) else 0.0
    for name, value in (given_values or {}).items():
        k = style.feature_number(model, name)
        if k in pair:
            raise ValueError(f"at holds {name!r}, which varies; give values of the other features.")
        categories = model.columns.categories[k]
        if categories is None:
            out[k] = float(value)
            continue
        out[k] = category_codes(np.array([value], dtype=np.object_), categories)[0]
        if out[k] < 0:
            raise ValueError(f"at[{name!r}] is {value!r}, no category; give one of {categories.tolist()[:10]}.")
    return out


def feature_plane(
    model: TreeModel, pair: tuple[int, int], rows: np.ndarray, trees: Sequence[Tree], most_pieces: int
) -> FeaturePlane:
    """Return the plane over two features, cut at the thresholds of trees, for predictions in its rectangles."""
    # each rectangle gets a copy of `rows` in which both features have values inside it
    x, y = (feature_axis(model, k, trees, most_pieces) for k in pair)
    out = np.tile(rows, (len(x.middles) * len(y.middles), 1))
    out[:, x.feature] = np.repeat(np.tile(x.middles, len(y.middles)), len(rows))
    out[:, y.feature] = np.repeat(y.middles, len(x.middles) * len(rows))
    return FeaturePlane(x, y, out)


def _with_labels(model: TreeModel, rows: np.ndarray) -> Any:
    """Return ``rows`` (n, p) of numbers with the labels of categories in place of their numbers, as X of methods."""
    if not model.columns.is_nominal.any():
        return rows
    out = rows.astype(object)
    for k in np.flatnonzero(model.columns.is_nominal):
        categories = model.columns.categories[k]
        assert categories is not None
        out[:, k] = np.array(categories.tolist(), dtype=np.object_)[rows[:, k].astype(np.int64)]
    return out


def draw_surface(
    ax: Any, plane: FeaturePlane, values: np.ndarray, name: str, colors: str, limits: tuple[Any, Any]
) -> Any:
    """Draw the rectangles of a plane in the colours of ``values``, a colour bar labelled ``name``, and axis labels."""
    x, y, (low, high) = plane.x.edges, plane.y.edges, limits
    mesh = ax.pcolormesh(x, y, plane.grid(values), cmap=colors, vmin=low, vmax=high, rasterized=True)
    ax.get_figure().colorbar(mesh, ax=ax).set_label(name, parse_math=False)
    for axis, feature in ((ax.xaxis, plane.x), (ax.yaxis, plane.y)):
        axis.set_label_text(style.shortened(feature.name, 40), parse_math=False)
        label_ticks(axis, feature)
    ax.set(xlim=x[[0, -1]], ylim=y[[0, -1]])
    return mesh


def _draw_borders(ax: Any, plane: FeaturePlane, leaf: np.ndarray) -> None:
    """Draw lines between neighbouring rectangles of different leaves, thinner if there are many."""
    from matplotlib.collections import LineCollection

    x, y = plane.x.edges, plane.y.edges
    right, up = leaf[:, 1:] != leaf[:, :-1], leaf[1:] != leaf[:-1]
    upright = [[(x[j + 1], y[i]), (x[j + 1], y[i + 1])] for i, j in np.argwhere(right)]
    level = [[(x[j], y[i + 1]), (x[j + 1], y[i + 1])] for i, j in np.argwhere(up)]
    n_lines = right.any(axis=0).sum() + up.any(axis=1).sum()
    width = min(1.4, max(0.3, 30.0 / max(n_lines, 1)))
    ax.add_collection(LineCollection(upright + level, colors="white", linewidths=width, capstyle="projecting"))


def _draw_rows(ax: Any, model: TreeModel, plane: FeaturePlane, column: int, mesh: Any) -> None:
    """Draw up to 1,000 training rows as points, in the colours of ``mesh``, or white if that is None."""
    rows = evenly_spaced_integers(model.n_rows, MAX_DRAWN_ROWS)
    place = model.row_numbers(rows)[:, [plane.x.feature, plane.y.feature]]
    jitter = np.random.default_rng(0).uniform(-0.3, 0.3, place.shape)
    place = place + jitter * [plane.x.labels is not None, plane.y.labels is not None]
    values = model.target.values[rows].reshape(len(rows), -1)[:, 0]
    color_value = values if model.classes_ is None else (values == column).astype(float)
    colors = {"color": "white"} if mesh is None else {"c": color_value, "cmap": mesh.cmap, "norm": mesh.norm}
    ax.scatter(*place.T, s=14, edgecolors="0.6" if mesh is None else "white", linewidths=0.6, **colors)
