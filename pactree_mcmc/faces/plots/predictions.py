"""Plots of predictions: partial dependence and survival, and over two features partitions and predictive surfaces.

Trees are constant between their thresholds. So surfaces are computed once for each rectangle between neighbouring
thresholds, and on a regular grid only if there are too many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import Seed, central_fractions, check_count, check_type
from ...model import TreeModel
from ...model.model import value_column, value_label
from ...posterior.distribution import draws_of, refuse_other_leaves
from ...posterior.laws import has_values_by_leaf
from ...posterior.posterior import Posterior
from ...posterior.rows.calibration import Calibration
from ...posterior.rows.dependence import FeatureAxis, feature_axis, partial_dependence, rows_to_average, spaced_trees
from ...posterior.rows.predictions import std_over_trees
from ...posterior.rows.survival import Survival
from ...posterior.sampled import posterior_from_trees
from ...posterior.trees.distances import evenly_spaced_integers, typical_values
from ...table.columns import category_codes, read_ordered
from ...table.words import DURATION, NUMBER, TRUTH, count_text, shortened, value_text
from ...tree.tree import Tree, match_columns
from . import style
from .style import MAX_CHAINS_IN_LEGEND, color_of, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MAX_AXIS_PIECES = 150  # largest number of pieces of an axis
# largest numbers of training rows drawn, and of trees whose thresholds divide the axes
MAX_DRAWN_ROWS, MAX_CUT_TREES = 1000, 300
MAX_LEVEL_TICKS = 12  # largest number of levels of an ordered categorical that are named on an axis


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
        Values of the other features, as in a table X. Default: the median training value, or the most frequent
        category, by weight.
    points : bool, optional
        Draw up to 1,000 training rows, in the colours of the surface, or white over the spread. Default: only if there
        are no other features.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If a feature, a label or a category is unknown, the two features are one, or ``spread`` is that of a progressive
        mixture.

    Notes
    -----
    Cost: up to 22,500 predictions, on a regular grid if thresholds would make more. Training rows are drawn at the
    values that the model's coding gives them, which are exact under LocalCuts without ``max_cuts``.
    """
    style.check_posterior(posterior)
    model = posterior.model
    column, pair = value_column(model, label), feature_pair(model, features)
    fixed = _fixed_values(model, pair, at)
    ax = style.axes_or_new(ax, 5.4, 4.2)
    plane = feature_plane(model, pair, fixed[None], posterior.draw_trees(MAX_CUT_TREES, 0), MAX_AXIS_PIECES)
    if spread:
        values = std_over_trees(posterior._rows, plane.rows).reshape(len(plane.rows), -1)[:, column]
    else:
        values = posterior._rows.values(plane.rows)[:, column]
    name = f"{'sd of ' if spread else ''}{value_label(model, column)}"
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
    column, pair = value_column(model, label), feature_pair(model, features)
    fixed = _fixed_values(model, pair, at)
    if fill and tree is not None and tree.value is None and has_values_by_leaf(model):
        raise ValueError("the tree carries no values; take one from the posterior, or give fill=False.")
    ax = style.axes_or_new(ax, 5.4, 4.2)
    is_best, tree = tree is None, posterior.map_tree() if tree is None else match_columns(tree, model.columns)
    plane = feature_plane(model, pair, fixed[None], [tree], MAX_AXIS_PIECES)
    leaf = tree.routes().leaves(plane.rows)
    if fill and (tree.value is not None or model.leaf.predicts):
        limits = (0.0, 1.0) if model.classes_ is not None else (None, None)
        if tree.value is None:
            values = posterior_from_trees(model, [tree]).draws.values(plane.rows)
        else:
            values = tree.value[leaf]
        draw_surface(ax, plane, values[:, column], value_label(model, column), "viridis", limits)
    _draw_borders(ax, plane, plane.grid(leaf))
    if fill:
        style.set_title(ax, "cells of the most probable tree" if is_best else "cells of the tree")
    return ax


def label_ticks(axis: Any, feature: FeatureAxis) -> None:
    """Name the ticks of a matplotlib axis after the categories, levels, dates or truth values of a feature."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    kind = feature.kind
    if feature.labels is not None:
        label_categories(axis, feature)
    elif kind.levels or kind == TRUTH:
        numbers = np.arange(len(kind.levels) or 2)
        ticks = numbers[(numbers >= feature.edges[0]) & (numbers <= feature.edges[-1])]
        ticks = ticks[evenly_spaced_integers(len(ticks), MAX_LEVEL_TICKS)]
        _set_ticks(axis, ticks, [value_text(i, kind) for i in ticks.tolist()])
    elif kind != NUMBER:
        # whole days and periods are the same in stored form and in words
        axis.set_major_locator(MaxNLocator(nbins=5, integer=float(np.ptp(feature.edges)) >= 1.0 and kind != DURATION))
        axis.set_major_formatter(FuncFormatter(lambda value, _: value_text(value, kind).replace("$", r"\$")))
        if axis.axis_name == "x":
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
    import pandas as pd

    out = typical_values(model, MAX_DRAWN_ROWS)
    out[np.isnan(out)] = 0.0
    for name, value in (given_values or {}).items():
        k = style.feature_number(model, name)
        if k in pair:
            raise ValueError(f"at holds {name!r}, which varies; give values of the other features.")
        categories = model.columns.categories[k]
        if categories is None:
            name = model.columns.names[k]
            out[k] = read_ordered(pd.Series([value]), name, model.columns.branches, model.columns.kind(k))[0][0]
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


def draw_surface(ax: Any, plane: FeaturePlane, values: np.ndarray, name: str, colors: str, limits: tuple) -> Any:
    """Draw the rectangles of a plane in the colours of ``values``, a colour bar labelled ``name``, and axis labels."""
    x, y, (low, high) = plane.x.edges, plane.y.edges, limits
    mesh = ax.pcolormesh(x, y, plane.grid(values), cmap=colors, vmin=low, vmax=high, rasterized=True)
    ax.get_figure().colorbar(mesh, ax=ax).set_label(name, parse_math=False)
    for axis, feature in ((ax.xaxis, plane.x), (ax.yaxis, plane.y)):
        axis.set_label_text(shortened(feature.name, 40), parse_math=False)
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
    width = min(1.4, max(0.3, 30.0 / max(right.any(axis=0).sum() + up.any(axis=1).sum(), 1)))
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


MAX_DEPENDENCE_ROWS = 60  # largest number of training rows that are averaged over
# largest number of values of a feature, and of each of two, at which partial dependence is computed
MAX_PIECES, MAX_PIECES_OF_PAIR = 250, 25
MAX_GROUP_LETTERS = 60  # largest number of letters of the name of a group of rows


def plot_partial_dependence(
    posterior: Posterior,
    feature: Any,
    ax: Axes | None = None,
    *,
    label: Any = None,
    X: Any = None,
    individual: int = 0,
    coverage: float = 0.9,
    n_trees: int = 200,
    rng: Seed = 0,
) -> Axes:
    """Draw the prediction averaged over training rows when one or two features are set to each of their values.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact.
    feature : str, int, or two of these
        Name or index. The mean over two features is drawn in colours.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    label : optional
        Class whose probability is shown, by default the last one.
    X : table of shape (n, p), optional
        Rows to average over. Default: up to 60 training rows, evenly spaced in the table, with their weights.
    individual : int, default 0
        Number of these rows whose own predictions are drawn too, as thin lines: individual conditional expectation
        (Goldstein et al. 2015). Lines that are not parallel show an interaction. Not for two features.
    coverage : float, default 0.9
        Posterior probability of the band of one feature, over trees and leaf parameters; in (0, 1).
    n_trees, rng
        Number of draws of a tree and its leaf parameters for the band, and source of randomness.

    Returns
    -------
    matplotlib Axes
        A step function for an ordered feature, with ticks at training values; points for a nominal one; coloured
        rectangles for two features.

    Raises
    ------
    ValueError
        If a feature or the label is unknown, X has no rows or does not fit the model's columns, a number is out of
        range, or the posterior is a progressive mixture that has no leaf values to draw.

    Notes
    -----
    Cost: predictions at up to 250 values (of two features at up to 25 times 25) for every row and tree drawn. Without
    draws of E(y), as for ``PacBayesLoss``, the band is over trees alone. Friedman (2001), section 8.2.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]))
    >>> plot_partial_dependence(truth, 0).get_ylabel()
    'P(1)'
    """
    style.check_posterior(posterior)
    model = posterior.model
    column = value_column(model, label)
    is_pair = isinstance(feature, Sequence) and not isinstance(feature, str)
    pair = feature_pair(model, feature) if is_pair else (style.feature_number(model, feature),)
    check_count("n_trees", n_trees, 1)
    if check_count("individual", individual, 0) and is_pair:
        raise ValueError(f"individual={individual} is given, but curves are of one feature; leave it out.")
    central_fractions(coverage)
    rows, fraction = averaged = rows_to_average(model, X, MAX_DEPENDENCE_ROWS)
    ax = style.axes_or_new(ax, 5.4 if is_pair else 5.0, 4.2 if is_pair else 3.4)
    value, over = value_label(model, column), "one row" if len(rows) == 1 else f"{len(rows)} rows"
    if len(pair) == 2:
        refuse_other_leaves(posterior)
        trees = spaced_trees(draws_of(posterior, n_trees, rng), n_trees)
        plane = feature_plane(model, pair, rows, trees, MAX_PIECES_OF_PAIR)
        mean = posterior._rows.values(plane.rows)[:, column].reshape(-1, len(rows)) @ fraction
        draw_surface(ax, plane, mean, value, "viridis", (None, None))
        style.set_title(ax, f"prediction averaged over {over}")
        return ax
    dependence = partial_dependence(posterior, pair[0], averaged, coverage, n_trees, rng, MAX_PIECES, [column])
    axis, mean, low, high = dependence.axis, dependence.mean[:, 0], dependence.lower[:, 0], dependence.upper[:, 0]
    curves = dependence.by_row[:, evenly_spaced_integers(len(rows), individual), 0]
    _draw_curves(ax, axis, mean, low, high, curves)
    if axis.labels is None:
        label_ticks(ax.xaxis, axis)
        values = rows[np.isfinite(rows[:, pair[0]]), pair[0]]
        ax.plot(values, np.zeros(len(values)), "|", color="0.4", markersize=7, transform=ax.get_xaxis_transform())
    _set_axis_limits(ax, axis, np.concatenate([low, high, mean, curves.ravel()]))
    ax.set_xlabel(shortened(axis.name, 50), parse_math=False)
    ax.set_ylabel(value, parse_math=False)
    thin = f"\nthin: {curves.shape[1]} of these rows" if curves.shape[1] else ""
    scope = "" if model.leaf.has_expectation else " over trees alone"
    interval = f"{100.0 * coverage:.3g}% credible interval{scope}"
    style.set_title(ax, f"prediction averaged over {over}\nwith its {interval}{thin}")
    return ax


def _draw_curves(
    ax: Axes, axis: FeatureAxis, mean: np.ndarray, low: np.ndarray, high: np.ndarray, curves: np.ndarray
) -> None:
    """Draw the mean over rows with its interval from ``low`` to ``high``, each (m,), at the pieces of the axis."""
    blue = style.color_of(0)
    thin: dict[str, Any] = {"color": "0.45", "linewidth": 0.6, "alpha": 0.6, "zorder": 1}
    if axis.labels is None:
        ax.stairs(high, axis.edges, baseline=low, fill=True, color=blue, alpha=0.25, linewidth=0.0)
        ax.stairs(mean, axis.edges, baseline=None, color=blue, linewidth=1.8)
        for curve in curves.T:
            ax.stairs(curve, axis.edges, baseline=None, **thin)
        return
    ax.plot(axis.middles, mean, "o", color=blue)
    bars = {**style.ERRORBAR_STYLE, "capsize": 3.0, "ecolor": blue}
    ax.errorbar(axis.middles, (low + high) / 2.0, yerr=(high - low) / 2.0, **bars)
    for curve in curves.T:
        ax.plot(axis.middles, curve, **thin)
    label_categories(ax.xaxis, axis)


def _set_axis_limits(ax: Axes, axis: FeatureAxis, values: np.ndarray) -> None:
    """Set the horizontal limits to the range of the feature ``axis``, the vertical ones to ``values`` and a margin."""
    low, high = float(values.min()), float(values.max())
    # means of equal predictions differ in their last digits
    margin = 0.07 * (high - low) if high - low > 1e-9 * max(abs(high), abs(low)) else 0.5
    ax.set(xlim=axis.edges[[0, -1]], ylim=(low - margin, high + margin))


def plot_survival(survival: Survival, ax: Axes | None = None) -> Axes:
    """Draw survival functions with their bands.

    Parameters
    ----------
    survival : Survival
        Result of `Posterior.survival`.
    ax : matplotlib Axes, optional
        Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The curve of each row with its credible band, of at most eight rows.

    Raises
    ------
    TypeError
        If ``survival`` is anything else.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> y = np.column_stack([np.linspace(0.1, 2.0, 20), np.arange(20) % 4 > 0])
    >>> model = pt.TreeModel(np.arange(20.0)[:, None], y, leaf=pt.ExponentialGamma())
    >>> post = pt.posterior_from_trees(model, [pt.Tree([-1], [0], [0], [0])])
    >>> plot_survival(post.survival([[3.0]], np.linspace(0.0, 2.0, 50))).get_ylabel()
    'P(time > t)'
    """
    check_type("survival", survival, Survival, "the result of post.survival(...)")
    ax = style.axes_or_new(ax, 6.0, 4.2)
    ax.set(xlabel="time t", ylabel="P(time > t)", ylim=(-0.03, 1.03))
    _draw_survival_curves(ax, survival)
    style.set_title(ax, "survival with its credible bands" + _first_of("rows", len(survival.mean)))
    names = [f"row {i}" for i in range(len(survival.mean))][:MAX_CHAINS_IN_LEGEND]
    if names:
        style.legend_below(ax, [ax.plot([], [], **line_style(i))[0] for i in range(len(names))], names)
    return ax


def _first_of(things: str, n: int) -> str:
    """Return the end of a title that says how many of n things are drawn, if not all are."""
    return f", the first {MAX_CHAINS_IN_LEGEND} of {n} {things}" * (n > MAX_CHAINS_IN_LEGEND)


def _draw_survival_curves(ax: Axes, survival: Survival) -> None:
    """Draw the mean survival function of each of the first eight rows, with its credible band."""
    order = np.argsort(survival.times, kind="stable")
    times = survival.times[order]
    for i in range(min(len(survival.mean), MAX_CHAINS_IN_LEGEND)):
        lower, upper, mean = (part[i, order] for part in (survival.lower, survival.upper, survival.mean))
        ax.fill_between(times, lower, upper, color=color_of(i), alpha=0.2, linewidth=0.0)
        ax.plot(times, mean, **line_style(i), marker="o" if len(times) == 1 else "")


def plot_calibration(calibration: Calibration, ax: Axes | None = None) -> Axes:
    """Draw what groups of rows show beside what the posterior expects: a reliability diagram, or Kaplan-Meier curves.

    Parameters
    ----------
    calibration : Calibration
        Result of `Posterior.calibration`.
    ax : matplotlib Axes, optional
        Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        For classes a point for each group, the expected fraction of rows with the label on the horizontal and the
        observed one on the vertical axis, each with its interval; points on the diagonal are right. A legend names up
        to eight groups and their numbers of rows. For times the Kaplan-Meier curve of each group with its confidence
        interval, a tick at each censored time, and dashed the survival function of the model between dotted lines, its
        credible interval; at most eight groups are drawn.

    Raises
    ------
    TypeError
        If ``calibration`` is anything else.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> X, y = [[0.0], [0.0], [1.0], [1.0]], ["no", "no", "no", "yes"]
    >>> post = pt.posterior_from_trees(pt.TreeModel(X, y), [pt.Tree([-1], [0], [0], [0])])
    >>> plot_calibration(post.calibration(X, y)).get_xlabel()
    'expected P(yes)'
    """
    check_type("calibration", calibration, Calibration, "the result of post.calibration(...)")
    names = calibration.names
    if calibration.time is None:
        ax = style.axes_or_new(ax, 5.0, 4.6)
        handles = _draw_reliability(ax, calibration)
        bars = f"bars: {_percent(calibration)} intervals"
        style.set_title(ax, f"{calibration.quantity}: observed beside expected\n{bars}")
        rows = np.bincount(calibration.group, calibration.weight).tolist()
        names = [f"{name} ({count_text(n)})" for name, n in zip(names, rows, strict=True)]
        names = names if len(names) <= MAX_CHAINS_IN_LEGEND else []
    else:
        ax = style.axes_or_new(ax, 6.0, 4.2)
        ax.set(xlabel="time t", ylabel=calibration.quantity, ylim=(-0.03, 1.03))
        _draw_kaplan_meier(ax, calibration)
        style.set_title(ax, "Kaplan-Meier curves beside the model" + _first_of("groups", len(names)))
        names = names[:MAX_CHAINS_IN_LEGEND]
        handles = [ax.plot([], [], color=color_of(g))[0] for g in range(len(names))]
        handles += [ax.plot([], [], line, color="0.35")[0] for line in ("--", ":", "|")]
    names = style.shortened_names(names, MAX_GROUP_LETTERS)
    if calibration.time is not None:
        names += ["the model", f"its {_percent(calibration)} credible interval", "censored"]
    if names:
        style.legend_below(ax, handles, names)
    return ax


def _percent(calibration: Calibration) -> str:
    return f"{100.0 * calibration.coverage:.3g}%"


def _draw_reliability(ax: Axes, calibration: Calibration) -> list[Any]:
    """Draw the points and bars of groups of rows with the number of rows, and return one point for each group."""
    observed, rows = calibration.fractions(), np.bincount(calibration.group, calibration.weight)
    x, low, high = calibration.expected[:, 0], calibration.lower[:, 0], calibration.upper[:, 0]
    ends = [min(low.min(), observed[:, 1].min()), max(high.max(), observed[:, 2].max())]
    margin = 0.05 * max(ends[1] - ends[0], 0.02)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.7", linewidth=0.9, zorder=0)
    handles = []
    for g in range(len(rows)):
        color = color_of(g if len(rows) <= MAX_CHAINS_IN_LEGEND else 0)
        ax.plot(x[[g, g]], observed[g, 1:], color=color, linewidth=1.1)
        ax.plot([low[g], high[g]], observed[[g, g], 0], color=color, linewidth=1.1)
        handles += ax.plot(x[g], observed[g, 0], "o", color=color, markersize=5)
    limits = (ends[0] - margin, ends[1] + margin)
    ax.set(xlim=limits, ylim=limits, aspect="equal")
    ax.set_xlabel(f"expected {calibration.quantity}", parse_math=False)
    ax.set_ylabel(f"observed fraction of {rows.sum():.10g} rows", parse_math=False)
    return handles


def _draw_kaplan_meier(ax: Axes, calibration: Calibration) -> None:
    """Draw Kaplan-Meier curves and bands of the first eight groups, and dashed the mean curves of the model."""
    assert calibration.time is not None
    for g in range(min(len(calibration.names), MAX_CHAINS_IN_LEGEND)):
        curve, here = calibration.curve(g), calibration.group == g
        time = np.append(0.0, curve.time)
        lower, upper = (np.append(1.0, part) for part in (curve.lower, curve.upper))
        ax.fill_between(time, lower, upper, step="post", color=color_of(g), alpha=0.15, linewidth=0.0)
        ax.plot(time, np.append(1.0, curve.survival), drawstyle="steps-post", color=color_of(g))
        censored = np.unique(calibration.time[here & ~calibration.event])
        ax.plot(censored, curve.survival[np.searchsorted(curve.time, censored)], "|", color=color_of(g), markersize=7)
        ax.plot(calibration.grid, calibration.expected[g], "--", color=color_of(g), linewidth=1.1)
        for end in (calibration.lower[g], calibration.upper[g]):
            ax.plot(calibration.grid, end, ":", color=color_of(g), linewidth=0.8)
