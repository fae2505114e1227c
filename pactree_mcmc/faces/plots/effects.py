"""Plots of what features contribute to predictions: partial dependence and Shapley values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import Seed, check_count, check_number, read_generator
from ...posterior.base import Posterior
from ...posterior.draws import has_values_by_leaf
from ...posterior.rows.attributions import Attributions, attributions_of
from ...posterior.sampled import draws_from
from ...table.kinds import NUMBER
from ...table.words import figure, figures, value_text
from ...tree.arrays import leaf_values, leaves_reached
from ...tree.tree import stack_trees
from ...tree.words import label_words
from . import style
from .surfaces import Axis, axis_of, name_categories

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...model import TreeModel

DEPENDENCE_ROWS, SHAP_ROWS = 60, 200
"""Largest numbers of training rows that are averaged over."""
MOST_PIECES = 250
"""Largest number of values of a feature at which partial dependence is computed."""
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
    """Draw the prediction averaged over training rows when one feature is set to each of its values.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact.
    feature : str or int
        Name or index.
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
    coverage : float, default 0.9
        Coverage of the band, the central interval over trees at each value; in (0, 1).
    n_trees : int, default 200
        Number of trees drawn for the band.
    rng : int, SeedSequence, Generator or None
        Source of randomness for those draws.

    Returns
    -------
    matplotlib Axes
        A step function for an ordered feature, with ticks at training values; points for a nominal one. If leaves have
        a regression on the feature, the steps are so many that they look like lines.

    Raises
    ------
    ValueError
        If the feature or the label is unknown, X has no rows or does not fit the model's columns, or a number is out of
        range.

    Notes
    -----
    Predictions are made at up to 250 values for every row, for the posterior and for each tree drawn. Friedman (2001),
    section 8.2.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]))
    >>> plot_partial_dependence(truth, 0).get_ylabel()
    'P(1)'
    """
    style.check_posterior(posterior)
    model = posterior.model
    k, column = style.feature_number(model, feature), style.value_column(model, label)
    check_count("n_trees", n_trees, 1)
    check_count("individual", individual, 0)
    coverage = check_number("coverage", coverage, "a number in (0, 1)", 0.0, 1.0)
    if coverage in (0.0, 1.0):
        raise ValueError(f"coverage={coverage} is out of range; give a number in (0, 1).")
    rows = style.rows_to_average(model, X, DEPENDENCE_ROWS)
    ax = style.axes_or_new(ax, 5.0, 3.4)
    ax.set(ylabel=style.value_name(model, column))
    if style.has_no_draws(posterior):
        return style.say_no_draws(ax)
    axis, predict = _predictions_of_trees(posterior, k, n_trees, rng)
    m, n = len(axis.middles), len(rows)
    numbers = np.tile(rows, (m, 1))
    numbers[:, k] = np.repeat(axis.middles, n)
    by_row = posterior._values(numbers)[:, column].reshape(m, n)
    by_tree = predict(numbers, column).reshape(-1, m, n).mean(axis=2)
    mean = by_row.mean(axis=1)
    low, high = np.quantile(by_tree, [(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0], axis=0)
    curves = by_row[:, style.evenly_spaced(n, individual)]
    _draw_curves(ax, axis, mean, low, high, curves)
    if axis.labels is None:
        values = rows[np.isfinite(rows[:, k]), k]
        ax.plot(values, np.zeros(len(values)), "|", color="0.4", markersize=7, transform=ax.get_xaxis_transform())
    _set_limits(ax, axis, np.concatenate([low, high, mean, curves.ravel()]))
    ax.set_xlabel(style.shortened(axis.name, 50), parse_math=False)
    over = "one row" if n == 1 else f"{n} rows"
    thin = f"\nthin: the mean for each of {curves.shape[1]} rows" if curves.shape[1] else ""
    ax.set_title(f"mean over {over}, interval of {100.0 * coverage:.3g}% of the trees{thin}", fontsize="medium")
    return ax


def _draw_curves(ax: Axes, axis: Axis, mean: np.ndarray, low: np.ndarray, high: np.ndarray, curves: np.ndarray) -> None:
    """Draw the mean over rows, the interval over trees, and a thin curve for each column of ``curves``."""
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


def _predictions_of_trees(
    posterior: Posterior, feature: int, n_trees: int, rng: Seed
) -> tuple[Axis, Callable[[np.ndarray, int], np.ndarray]]:
    """Draw trees. Return the axis of a feature and a function that returns their predictions (t, n).

    The arguments of the function are rows of numbers (n, p) and the column of the values.
    """
    model = posterior.model
    if has_values_by_leaf(model):
        trees = posterior.draw_trees(n_trees, rng)
        stacked = stack_trees(trees)
        value = np.concatenate([tree.value for tree in trees])

        def predict(numbers: np.ndarray, column: int) -> np.ndarray:
            return leaf_values(stacked, np.ascontiguousarray(value[:, column : column + 1]), numbers)[:, :, 0]

        return axis_of(model, feature, trees, MOST_PIECES), predict
    draws, which = draws_from(posterior, n_trees, rng, that_predict=True)._drawn_trees(n_trees, read_generator(rng))

    def predict_by_row(numbers: np.ndarray, column: int) -> np.ndarray:
        regressors, reached = model.regressors(numbers), leaves_reached(draws.distinct_trees, numbers)
        assert regressors is not None
        values = [model.leaf.value(draws.node_stats[reached[:, t]], model.target, regressors) for t in which]
        return np.array([one[:, column] for one in values])

    trees = [draws.distinct_tree(int(t)) for t in np.unique(which)]
    return axis_of(model, feature, trees, MOST_PIECES), predict_by_row


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
        Coverage of the intervals over the trees, with equal tails; in (0, 1).
    max_features : int, default 10
        Largest number of features shown, those with the largest values; the others are counted.
    draws, rng
        Number of trees drawn from a posterior that is not sampled, and source of randomness for those draws.

    Returns
    -------
    matplotlib Axes
        For one row, the contribution of each feature and its interval, with the value of the feature; the title has the
        sum, from the base value to the prediction. For several rows, the mean over the rows of the absolute
        contribution in a tree, averaged over the trees, with its interval.

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
    shap = attributions_of(draws_from(posterior, draws, rng, that_predict=True), rows, coverage)
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
    return f"{rows}{more}\ninterval of {100.0 * shap.coverage:.3g}% of the trees"


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
