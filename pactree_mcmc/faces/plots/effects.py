"""Plots of predictions: partial dependence, and survival functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import Seed, central_fractions, check_count, check_type, read_generator
from ...posterior.base import Posterior
from ...posterior.rows.predictive import draw_predictions, trees_of_spaced_draws
from ...posterior.rows.survival import Survival, SurvivalCalibration
from ...posterior.trees.distances import evenly_spaced_integers
from . import style
from .style import MAX_CHAINS_IN_LEGEND, color_of, line_style
from .surfaces import (
    FeatureAxis,
    draw_surface,
    feature_axis,
    feature_pair,
    feature_plane,
    label_categories,
    label_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...posterior.draws import DrawnTrees
    from ...tree.tree import Tree

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
        Rows to average over. Default: up to 60 training rows, evenly spaced in the table.
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
    column = style.value_column(model, label)
    is_pair = isinstance(feature, Sequence) and not isinstance(feature, str)
    pair = feature_pair(model, feature) if is_pair else (style.feature_number(model, feature),)
    check_count("n_trees", n_trees, 1)
    if check_count("individual", individual, 0) and is_pair:
        raise ValueError(f"individual={individual} is given, but curves are of one feature; leave it out.")
    central_fractions(coverage)
    rows = style.rows_to_average(model, X, MAX_DEPENDENCE_ROWS)
    ax = style.axes_or_new(ax, 5.4 if is_pair else 5.0, 4.2 if is_pair else 3.4)
    value, over = style.value_label(model, column), "one row" if len(rows) == 1 else f"{len(rows)} rows"
    if len(pair) == 2:
        trees = _spaced_trees(posterior._draws_that_predict(n_trees, rng), n_trees)
        plane = feature_plane(model, pair, rows, trees, MAX_PIECES_OF_PAIR)
        mean = posterior._values(plane.rows)[:, column].reshape(-1, len(rows)).mean(axis=1)
        draw_surface(ax, plane, mean, value, "viridis", (None, None))
        style.set_title(ax, f"prediction averaged over {over}")
        return ax
    dependence = partial_dependence(posterior, pair[0], rows, coverage, n_trees, rng, MAX_PIECES, [column])
    axis, mean, low, high = dependence.axis, dependence.mean[:, 0], dependence.lower[:, 0], dependence.upper[:, 0]
    curves = dependence.by_row[:, evenly_spaced_integers(len(rows), individual), 0]
    _draw_curves(ax, axis, mean, low, high, curves)
    if axis.labels is None:
        label_ticks(ax.xaxis, axis)
        values = rows[np.isfinite(rows[:, pair[0]]), pair[0]]
        ax.plot(values, np.zeros(len(values)), "|", color="0.4", markersize=7, transform=ax.get_xaxis_transform())
    _set_axis_limits(ax, axis, np.concatenate([low, high, mean, curves.ravel()]))
    ax.set_xlabel(style.shortened(axis.name, 50), parse_math=False)
    ax.set_ylabel(value, parse_math=False)
    thin = f"\nthin: {curves.shape[1]} of these rows" if curves.shape[1] else ""
    style.set_title(ax, f"prediction averaged over {over}\nwith its {100.0 * coverage:.3g}% credible interval{thin}")
    return ax


class Dependence(NamedTuple):
    """Predictions at the values of one feature, for rows whose other features stay as they are."""

    axis: FeatureAxis  # the feature, and the pieces of its range on which predictions are constant
    by_row: np.ndarray  # (pieces of the axis, rows, columns) prediction of the posterior, a column for each class
    lower: np.ndarray  # (pieces, columns) lower end of the credible interval of the mean over the rows
    upper: np.ndarray  # (pieces, columns) upper end

    @property
    def mean(self) -> np.ndarray:
        """(pieces, columns) mean over the rows."""
        return self.by_row.mean(axis=1)


def partial_dependence(
    posterior: Posterior,
    feature: int,
    rows: np.ndarray,
    coverage: float,
    n_trees: int,
    rng: Seed,
    most_pieces: int,
    columns: list[int],
) -> Dependence:
    """Return the partial dependence of some ``columns`` of predictions on a feature, for ``rows`` (n, p) of numbers."""
    # intervals of probability `coverage` are from `n_trees` draws of a tree and its leaf parameters
    rng = read_generator(rng)
    post = posterior._draws_that_predict(n_trees, rng)
    axis = feature_axis(posterior.model, feature, _spaced_trees(post, n_trees), most_pieces)
    rows_at_values = np.tile(rows, (len(axis.middles), 1))
    rows_at_values[:, feature] = np.repeat(axis.middles, len(rows))
    shape = (len(axis.middles), len(rows))
    by_row = posterior._values(rows_at_values)[:, columns].reshape(*shape, len(columns))
    predictions = draw_predictions(post, trees_of_spaced_draws(post, n_trees), rows_at_values, rng, columns)
    means = predictions.reshape(n_trees, *shape, len(columns)).mean(axis=2)
    return Dependence(axis, by_row, *np.quantile(means, central_fractions(coverage), axis=0))


def _spaced_trees(post: DrawnTrees, n_trees: int) -> list[Tree]:
    """Return the distinct trees among those of ``n_trees`` evenly spaced draws."""
    return [post.distinct_tree(t) for t in np.unique(trees_of_spaced_draws(post, n_trees)).tolist()]


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


def plot_survival(survival: Survival | SurvivalCalibration, ax: Axes | None = None) -> Axes:
    """Draw survival functions with their bands, or Kaplan-Meier curves beside those of the model.

    Parameters
    ----------
    survival : Survival or SurvivalCalibration
        Result of `Posterior.survival` or of `Posterior.survival_calibration`.
    ax : matplotlib Axes, optional
        Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        For a ``Survival``, the curve of each row with its credible band. For a ``SurvivalCalibration``, the
        Kaplan-Meier curve of each group with its confidence interval, a tick at each censored time, and dashed the
        survival function of the model. At most eight rows or groups are drawn.

    Raises
    ------
    TypeError
        If ``survival`` is neither.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> y = np.column_stack([np.linspace(0.1, 2.0, 20), np.arange(20) % 4 > 0])
    >>> model = pt.TreeModel(np.arange(20.0)[:, None], y, leaf=pt.ExponentialGamma())
    >>> post = pt.posterior_from_trees(model, [pt.Tree([-1], [0], [0], [0])])
    >>> plot_survival(post.survival([[3.0]], np.linspace(0.0, 2.0, 50))).get_ylabel()
    'P(time > t)'
    """
    expected = "the result of post.survival(...) or post.survival_calibration(...)"
    check_type("survival", survival, Survival | SurvivalCalibration, expected)
    ax = style.axes_or_new(ax, 6.0, 4.2)
    ax.set(xlabel="time t", ylabel="P(time > t)", ylim=(-0.03, 1.03))
    is_rows = isinstance(survival, Survival)
    if isinstance(survival, Survival):
        names, title = [f"row {i}" for i in range(len(survival.mean))], "survival with its credible bands"
        _draw_survival_curves(ax, survival)
    else:
        names, title = survival.names, "Kaplan-Meier curves beside the model"
        _draw_kaplan_meier(ax, survival)
    style.set_title(
        ax, title + f", the first {MAX_CHAINS_IN_LEGEND} of {len(names)}" * (len(names) > MAX_CHAINS_IN_LEGEND)
    )
    names = style.shortened_names(names[:MAX_CHAINS_IN_LEGEND], MAX_GROUP_LETTERS)
    handles = [ax.plot([], [], **(line_style(i) if is_rows else {"color": color_of(i)}))[0] for i in range(len(names))]
    if not is_rows:
        handles += [ax.plot([], [], "--", color="0.35")[0], ax.plot([], [], "|", color="0.35")[0]]
        names += ["the model", "censored"]
    if names:
        style.legend_below(ax, handles, names)
    return ax


def _draw_survival_curves(ax: Axes, survival: Survival) -> None:
    """Draw the mean survival function of each of the first eight rows, with its credible band."""
    order = np.argsort(survival.times, kind="stable")
    times = survival.times[order]
    for i in range(min(len(survival.mean), MAX_CHAINS_IN_LEGEND)):
        lower, upper, mean = (part[i, order] for part in (survival.lower, survival.upper, survival.mean))
        ax.fill_between(times, lower, upper, color=color_of(i), alpha=0.2, linewidth=0.0)
        ax.plot(times, mean, **line_style(i), marker="o" if len(times) == 1 else "")


def _draw_kaplan_meier(ax: Axes, calibration: SurvivalCalibration) -> None:
    """Draw Kaplan-Meier curves and bands of the first eight groups, and dashed the mean curves of the model."""
    for g in range(min(len(calibration.names), MAX_CHAINS_IN_LEGEND)):
        curve, here = calibration.curve(g), calibration.group == g
        time = np.append(0.0, curve.time)
        lower, upper = (np.append(1.0, part) for part in (curve.lower, curve.upper))
        ax.fill_between(time, lower, upper, step="post", color=color_of(g), alpha=0.15, linewidth=0.0)
        ax.plot(time, np.append(1.0, curve.survival), drawstyle="steps-post", color=color_of(g))
        censored = np.unique(calibration.time[here & ~calibration.event])
        height = curve.survival[np.searchsorted(curve.time, censored)]
        ax.plot(censored, height, "|", color=color_of(g), markersize=7)
        ax.plot(calibration.grid, calibration.expected[g], "--", color=color_of(g), linewidth=1.1)
