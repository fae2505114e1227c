"""Partial dependence: the mean prediction of the posterior when one feature is set."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import Seed, check_count, check_number, read_generator
from ...posterior.base import Posterior
from ...posterior.draws import has_values_by_leaf
from ...posterior.sampled import draws_from
from ...tree.arrays import leaf_values, leaves_reached
from ...tree.tree import stack_trees
from .axes import (
    ERRORS,
    axes_or_new,
    check_posterior,
    color_of,
    feature_number,
    has_no_draws,
    say_no_draws,
    shortened,
    spaced_rows,
    value_column,
    value_name,
)
from .plane import Axis, axis_of, name_categories

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_ROWS, MOST_PIECES = 60, 250


class Dependence(NamedTuple):
    """Means over rows, by value of the feature."""

    mean: np.ndarray
    """(m,)."""
    low: np.ndarray
    """(m,): lower end of the interval over trees."""
    high: np.ndarray
    """(m,)."""
    by_row: np.ndarray
    """(m, n): the posterior's mean for each row."""


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
    """Prediction averaged over training rows when one feature is set to each of its values.

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
    Averages over up to 60 training rows, evenly spaced in the table, at up to 250 values; cost: as many predictions,
    for the posterior and for each tree drawn. Friedman (2001), section 8.2.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]))
    >>> plot_partial_dependence(truth, 0).get_ylabel()
    'P(1)'
    """
    check_posterior(posterior)
    model = posterior.model
    k, column = feature_number(model, feature), value_column(model, label)
    check_count("n_trees", n_trees, 1)
    check_count("individual", individual, 0)
    coverage = check_number("coverage", coverage, "a number in (0, 1)", 0.0, 1.0)
    if coverage in (0.0, 1.0):
        raise ValueError(f"coverage={coverage} is out of range; give a number in (0, 1).")
    rows = spaced_rows(model, N_ROWS) if X is None else model.columns.numbers(X)
    if len(rows) == 0:
        raise ValueError("X has no rows; give at least one.")
    ax = axes_or_new(ax, 5.0, 3.4)
    ax.set(ylabel=value_name(model, column))
    if has_no_draws(posterior):
        return say_no_draws(ax)
    axis, by_tree = _drawn(posterior, k, n_trees, rng)
    ax.set_xlabel(shortened(axis.name, 50), parse_math=False)
    found = _dependence(posterior, by_tree, axis, rows, column, coverage)
    some = found.by_row[:, np.unique(np.linspace(0, len(rows) - 1, min(individual, len(rows))).astype(np.int64))]
    _draw_band(ax, axis, found)
    for curve in some.T:
        _draw_curve(ax, axis, curve)
    if axis.labels is None:
        values = rows[np.isfinite(rows[:, k]), k] / axis.unit
        ax.plot(values, np.zeros(len(values)), "|", color="0.4", markersize=7, transform=ax.get_xaxis_transform())
    else:
        name_categories(ax.xaxis, axis)
    values = np.concatenate([found.low, found.high, found.mean, some.ravel()])
    low, high = float(values.min()), float(values.max())
    # means of equal predictions differ in their last digits
    margin = 0.07 * (high - low) if high - low > 1e-9 * max(abs(high), abs(low)) else 0.5
    ax.set(xlim=axis.edges[[0, -1]], ylim=(low - margin, high + margin))
    over = "one row" if len(rows) == 1 else f"{len(rows)} rows"
    thin = f"\nthin: the mean for each of {some.shape[1]} rows" if some.shape[1] else ""
    ax.set_title(f"mean over {over}, interval of {100.0 * coverage:.3g}% of the trees{thin}", fontsize="medium")
    return ax


def _draw_band(ax: Axes, axis: Axis, found: Dependence) -> None:
    """The mean over rows and the interval over trees."""
    if axis.labels is None:
        band: dict[str, Any] = {"fill": True, "color": color_of(0), "alpha": 0.25, "linewidth": 0.0}
        ax.stairs(found.high, axis.edges, baseline=found.low, **band)
        ax.stairs(found.mean, axis.edges, baseline=None, color=color_of(0), linewidth=1.8)
    else:
        middle, reach = (found.low + found.high) / 2.0, (found.high - found.low) / 2.0
        ax.plot(axis.middles, found.mean, "o", color=color_of(0))
        ax.errorbar(axis.middles, middle, yerr=reach, **{**ERRORS, "capsize": 3.0, "ecolor": color_of(0)})


def _draw_curve(ax: Axes, axis: Axis, curve: np.ndarray) -> None:
    """The prediction for one row."""
    style: dict[str, Any] = {"color": "0.45", "linewidth": 0.6, "alpha": 0.6, "zorder": 1}
    if axis.labels is None:
        ax.stairs(curve, axis.edges, baseline=None, **style)
    else:
        ax.plot(axis.middles, curve, **style)


def _drawn(
    posterior: Posterior, feature: int, n_trees: int, rng: Seed
) -> tuple[Axis, Callable[[np.ndarray, int], np.ndarray]]:
    """Return the axis of a feature, and a function of rows X (n, p) and an output: what drawn trees predict, (t, n)."""
    model = posterior.model
    if has_values_by_leaf(model):
        trees = posterior.draw_trees(n_trees, rng)
        stacked = stack_trees(trees)
        value = np.concatenate([tree.value for tree in trees])

        def by_leaf(X: np.ndarray, column: int) -> np.ndarray:
            return leaf_values(stacked, np.ascontiguousarray(value[:, column : column + 1]), X)[:, :, 0]

        return axis_of(model, feature, trees, MOST_PIECES), by_leaf
    draws, which = draws_from(posterior, n_trees, rng, that_predict=True)._drawn_trees(n_trees, read_generator(rng))

    def by_row(X: np.ndarray, column: int) -> np.ndarray:
        regressors, reached = model.regressors(X), leaves_reached(draws.distinct_trees, X)
        assert regressors is not None
        values = [model.leaf.value(draws.node_stats[reached[:, t]], model.target, regressors) for t in which]
        return np.array([one[:, column] for one in values])

    return axis_of(model, feature, [draws.distinct_tree(int(t)) for t in np.unique(which)], MOST_PIECES), by_row


def _dependence(
    posterior: Posterior,
    predicted: Callable[[np.ndarray, int], np.ndarray],
    axis: Axis,
    rows: np.ndarray,
    column: int,
    coverage: float,
) -> Dependence:
    """Return, by piece of the axis, the posterior mean over rows and the interval of the means of drawn trees."""
    m, n = len(axis.middles), len(rows)
    X = np.tile(rows, (m, 1))
    X[:, axis.feature] = np.repeat(axis.middles, n)
    by_row = posterior._values(X)[:, column].reshape(m, n)
    by_tree = predicted(X, column).reshape(-1, m, n).mean(axis=2)
    low, high = np.quantile(by_tree, [(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0], axis=0)
    return Dependence(by_row.mean(axis=1), low, high, by_row)
