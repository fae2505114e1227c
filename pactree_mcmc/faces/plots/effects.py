"""Plots of what features contribute to predictions: partial dependence, Shapley values and interactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import Seed, central_fractions, check_count, read_generator
from ...posterior.base import Posterior
from ...posterior.rows.attributions import Attributions, attributions_of
from ...posterior.rows.predictive import draw_predictions, spaced_draws
from ...table.words import NUMBER, figure, figures, label_words, value_text
from . import style
from .surfaces import Axis, axis_of, draw_surface, feature_pair, name_categories, plane_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...model import TreeModel

DEPENDENCE_ROWS, SHAP_ROWS = 60, 200
"""Largest numbers of training rows that are averaged over."""
MOST_PIECES, MOST_OF_PAIR = 250, 25
"""Largest number of values of a feature, and of each of two, at which partial dependence is computed."""
NAME_LETTERS, VALUE_LETTERS = 32, 14
"""Largest numbers of letters of the name of a feature and of its value."""


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
        Name or index. Of two features the mean is drawn in colours over both.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    label : class label, optional
        The class whose probability is shown; default the last class. Not for a regression, which shows its mean.
    X : table of shape (n, p), optional
        Rows over which predictions are averaged. Default: up to 60 training rows, evenly spaced in the table. With a
        single row the curve is its individual conditional expectation, and the band the interval of it.
    individual : int, default 0
        How many of these rows, evenly spaced, have the mean prediction for them alone drawn too, as a thin line:
        individual conditional expectation (Goldstein et al. 2015). Curves that are not parallel show an interaction.
        Not for two features.
    coverage : float, default 0.9
        Posterior probability of the band, the central interval of the curve at each value, over trees and leaf
        parameters; in (0, 1). Two features have no band: for the interval of their interaction see
        `plot_interactions`.
    n_trees : int, default 200
        Number of draws of a tree and its leaf parameters for the band.
    rng : int, SeedSequence, Generator or None
        Source of randomness for those draws.

    Returns
    -------
    matplotlib Axes
        A step function for an ordered feature, with ticks at training values; points for a nominal one. If leaves have
        a regression on the feature, the steps are so many that they look like lines. Coloured rectangles for two
        features.

    Raises
    ------
    ValueError
        If a feature or the label is unknown, X has no rows or does not fit the model's columns, a number is out of
        range, or the posterior is a progressive mixture that has no leaf values to draw.

    Notes
    -----
    Predictions are made at up to 250 values (of two features at up to 25 times 25) for every row, for the posterior
    and for each tree drawn. Without draws of E(y), as for ``PacBayesLoss``, the band is over trees alone. Friedman
    (2001), section 8.2.

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
    fractions = central_fractions(coverage)
    rows = style.rows_to_average(model, X, DEPENDENCE_ROWS)
    ax = style.axes_or_new(ax, 5.4 if is_pair else 5.0, 4.2 if is_pair else 3.4)
    if style.has_no_draws(posterior):
        return style.say_no_draws(ax)
    rng = read_generator(rng)
    post = posterior._draws_that_predict(n_trees, rng)
    numbers = spaced_draws(post, n_trees)
    trees = [post.distinct_tree(t) for t in np.unique(numbers).tolist()]
    over = "one row" if len(rows) == 1 else f"{len(rows)} rows"
    if len(pair) == 2:
        plane = plane_of(model, pair, rows, trees, MOST_OF_PAIR)
        mean = posterior._values(plane.rows)[:, column].reshape(-1, len(rows)).mean(axis=1)
        draw_surface(ax, plane, mean, style.value_name(model, column), "viridis", (None, None))
        ax.set_title(f"mean over {over}", fontsize="medium")
        return ax
    axis = axis_of(model, pair[0], trees, MOST_PIECES)
    at = np.tile(rows, (len(axis.middles), 1))
    at[:, pair[0]] = np.repeat(axis.middles, len(rows))
    by_row = posterior._values(at)[:, column].reshape(-1, len(rows))
    drawn = draw_predictions(post, numbers, at, rng, slice(column, column + 1)).reshape(n_trees, -1, len(rows))
    low, high = np.quantile(drawn.mean(axis=2), fractions, axis=0)
    curves = by_row[:, style.evenly_spaced(len(rows), individual)]
    _draw_curves(ax, axis, by_row.mean(axis=1), low, high, curves)
    if axis.labels is None:
        values = rows[np.isfinite(rows[:, pair[0]]), pair[0]]
        ax.plot(values, np.zeros(len(values)), "|", color="0.4", markersize=7, transform=ax.get_xaxis_transform())
    _set_limits(ax, axis, np.concatenate([low, high, by_row.mean(axis=1), curves.ravel()]))
    ax.set_xlabel(style.shortened(axis.name, 50), parse_math=False)
    ax.set_ylabel(style.value_name(model, column))
    thin = f"\nthin: the mean for each of {curves.shape[1]} rows" if curves.shape[1] else ""
    ax.set_title(f"mean over {over}, {100.0 * coverage:.3g}% credible interval{thin}", fontsize="medium")
    return ax


def _draw_curves(ax: Axes, axis: Axis, mean: np.ndarray, low: np.ndarray, high: np.ndarray, curves: np.ndarray) -> None:
    """Draw the mean over rows, its interval, and a thin curve for each column of ``curves``."""
    blue = style.color_of(0)
    thin: dict[str, Any] = {"color": "0.45", "linewidth": 0.6, "alpha": 0.6, "zorder": 1}
    if axis.labels is None:
        ax.stairs(high, axis.edges, baseline=low, fill=True, color=blue, alpha=0.25, linewidth=0.0)
        ax.stairs(mean, axis.edges, baseline=None, color=blue, linewidth=1.8)
        for curve in curves.T:
            ax.stairs(curve, axis.edges, baseline=None, **thin)
        return
    ax.plot(axis.middles, mean, "o", color=blue)
    bars = {**style.ERRORS, "capsize": 3.0, "ecolor": blue}
    ax.errorbar(axis.middles, (low + high) / 2.0, yerr=(high - low) / 2.0, **bars)
    for curve in curves.T:
        ax.plot(axis.middles, curve, **thin)
    name_categories(ax.xaxis, axis)


def _set_limits(ax: Axes, axis: Axis, values: np.ndarray) -> None:
    low, high = float(values.min()), float(values.max())
    # means of equal predictions differ in their last digits
    margin = 0.07 * (high - low) if high - low > 1e-9 * max(abs(high), abs(low)) else 0.5
    ax.set(xlim=axis.edges[[0, -1]], ylim=(low - margin, high + margin))


def plot_shap(
    posterior: Posterior,
    X: Any = None,
    ax: Axes | None = None,
    *,
    label: Any = None,
    coverage: float = 0.9,
    max_features: int = 10,
    draws: int = 1000,
    rng: Seed = 0,
) -> Axes:
    """Draw Shapley values: contributions to one prediction, or how much each feature contributes on average.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact.
    X : table of shape (n, p), optional
        Rows to be explained. Default: up to 200 training rows, evenly spaced in the table.
    ax, label
        As for `plot_partial_dependence`. Of several means the first is explained.
    coverage : float, default 0.9
        Posterior probability of the intervals, over trees and leaf parameters, with equal tails; in (0, 1).
    max_features : int, default 10
        Largest number of features shown, those with the largest values; the others are counted.
    draws, rng
        Number of draws of a tree and its leaf parameters, as of `Posterior.shap`, and source of randomness.

    Returns
    -------
    matplotlib Axes
        For one row, the contribution of each feature and its interval, with the value of the feature; the title has the
        sum, from the base value to the prediction. For several rows, the mean over the rows of the absolute
        contribution, with its interval.

    Raises
    ------
    ValueError
        If X has no rows or does not fit the model's columns, the label is unknown, a number is out of range, or the
        predictions of a leaf depend on the row.

    Notes
    -----
    Which Shapley values, and at what cost: `Posterior.shap`.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]))
    >>> plot_shap(truth, [[3.0]]).get_yticklabels()[0].get_text()
    'x0 = 3'
    """
    style.check_posterior(posterior)
    check_count("max_features", max_features)
    model, column = posterior.model, style.value_column(posterior.model, label)
    rows = style.rows_to_average(model, X, SHAP_ROWS)
    if style.has_no_draws(posterior):
        return style.say_no_draws(style.axes_or_new(ax, 5.6, 3.4))
    shap = attributions_of(posterior, rows, coverage, draws, rng)
    is_one = len(rows) == 1
    if is_one:
        middle, low, high = (part[0, :, column] for part in (shap.mean, shap.lower, shap.upper))
    else:
        importance = (shap.importance, shap.importance_lower, shap.importance_upper)
        middle, low, high = (part[:, column] for part in importance)
    order = np.lexsort((low - high, -np.abs(middle)))[:max_features]
    n_left_out = int(np.sum(np.delete(middle, order) != 0.0))
    middle, low, high = middle[order], low[order], high[order]
    ax = style.axes_or_new(ax, 5.8, 1.5 + 0.32 * len(order))
    at = -np.arange(len(order), dtype=np.float64)
    ax.barh(at, middle, 0.62, color=[style.color_of(0 if value >= 0.0 else 3) for value in middle], alpha=0.75)
    ax.errorbar((low + high) / 2.0, at, xerr=(high - low) / 2.0, **style.ERRORS)
    ax.axvline(0.0, color="0.4", linewidth=0.8)
    names = [_feature_label(model, k, rows[0, k] if is_one else None) for k in order.tolist()]
    ax.set_yticks(at, names, parse_math=False)
    kind = "" if is_one else "mean absolute "
    ax.set_xlabel(f"{kind}contribution to\n{style.value_name(model, column)}", parse_math=False)
    ax.set_ylim(0.6 - len(order), 0.6)
    ax.set_title(_shap_title(shap, column, len(rows), n_left_out), fontsize="medium", parse_math=False)
    return ax


def _shap_title(shap: Attributions, column: int, n_rows: int, n_left_out: int) -> str:
    rows = f"mean over {n_rows} rows"
    if n_rows == 1:
        base = shap.base[column]
        mean, here = figures([base, base + shap.mean[0, :, column].sum()], 3)
        rows = f"{mean} on average, {here} here"
    more = f", {n_left_out} features left out" if n_left_out else ""
    return f"{rows}{more}\n{100.0 * shap.coverage:.3g}% credible interval"


def _feature_label(model: TreeModel, k: int, number: float | None) -> str:
    """Return the name of a feature, and its value if a number is given."""
    name = style.shortened(model.columns.names[k], NAME_LETTERS)
    if number is None:
        return name
    categories, kind = model.columns.categories[k], model.columns.kind(k)
    if categories is not None:
        value = label_words(categories.tolist()[int(number)]) if number >= 0.0 else "unknown"
    else:
        value = value_text(number, kind)
        value = value if len(value) <= VALUE_LETTERS or kind != NUMBER else figure(number)
    return f"{name} = {style.shortened(value, VALUE_LETTERS)}"


def plot_interactions(
    posterior: Posterior,
    ax: Axes | None = None,
    *,
    min_probability: float = 0.05,
    max_pairs: int = 10,
    coverage: float = 0.9,
    draws: int = 1000,
    rng: Seed = 0,
) -> Axes:
    """Draw the strength of the interactions of pairs of features, with intervals and probabilities.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    min_probability : float, default 0.05
        Smallest probability of a pair that is shown, in [0, 1].
    max_pairs : int, default 10
        Largest number of pairs shown, the most probable ones.
    coverage, draws, rng
        As for `Posterior.interactions`.

    Returns
    -------
    matplotlib Axes
        A bar for each line of ``posterior.interactions()``, with the interval of the strength over trees and leaf
        parameters, in units of y or of a probability. Labels have both names and the probability that a tree splits
        on one of the two features below the other. Bars are probabilities if leaves use columns of the row, since
        these have no strengths.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> X = [[float(i), float(j)] for i in (0, 1) for j in (0, 1)] * 5
    >>> truth = exact.solve(pt.TreeModel(X, [a != b for a, b in X]))
    >>> plot_interactions(truth).get_yticklabels()[0].get_text()
    'x0, x1 (P = 1.00)'
    """
    style.check_posterior(posterior)
    if style.has_no_draws(posterior):
        return style.say_no_draws(style.axes_or_new(ax, 5.6, 3.4))
    max_pairs = check_count("max_pairs", max_pairs)
    table = posterior.interactions(min_probability, most=max_pairs, coverage=coverage, draws=draws, rng=rng)
    ax = style.axes_or_new(ax, 5.8, 1.5 + 0.32 * max(len(table), 1))
    if len(table) == 0:
        ax.text(0.5, 0.5, "no pair of features", ha="center", va="center", transform=ax.transAxes, color="0.4")
        ax.set(xticks=[], yticks=[])
        return ax
    at, has_strength = -np.arange(len(table), dtype=np.float64), "strength" in table
    ax.barh(at, table["strength" if has_strength else "probability"], 0.62, color=style.color_of(0), alpha=0.75)
    title = "probability of an interaction"
    if has_strength:
        low, high = table["lower"].to_numpy(), table["upper"].to_numpy()
        ax.errorbar((low + high) / 2.0, at, xerr=(high - low) / 2.0, **style.ERRORS)
        title = f"strength of interactions\n{100.0 * coverage:.3g}% credible interval"
    names = [
        f"{style.shortened(one, NAME_LETTERS // 2)}, {style.shortened(other, NAME_LETTERS // 2)} (P = {p:.2f})"
        for one, other, p in zip(table["feature"], table["other"], table["probability"], strict=True)
    ]
    ax.set_yticks(at, names, parse_math=False)
    ax.set_xlabel("sd of the joint part of the prediction" if has_strength else "probability")
    ax.set(ylim=(0.6 - len(table), 0.6), xlim=(0.0, None))
    ax.set_title(title, fontsize="medium")
    return ax
