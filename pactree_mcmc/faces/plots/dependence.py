"""Partial dependence: the mean prediction of the posterior when one feature is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import Seed, check_count
from ...posterior.base import Posterior
from ...posterior.convergence import training_points
from ...tree.arrays import leaf_values
from ...tree.tree import stack_trees
from .axes import axes_or_new, feature_number, has_no_draws, say_no_draws, value_column, value_name
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


def plot_partial_dependence(
    posterior: Posterior,
    feature: Any,
    ax: Axes | None = None,
    *,
    label: Any = None,
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
    coverage : float, default 0.9
        Coverage of the band, the central interval over trees at each value; in (0, 1).
    n_trees : int, default 200
        Number of trees drawn for the band.
    rng : int, SeedSequence, Generator or None
        Source of randomness for those draws.

    Returns
    -------
    matplotlib Axes
        A step function for an ordered feature, with ticks at training values; points for a nominal one.

    Raises
    ------
    ValueError
        If the feature or the label is unknown, or ``coverage`` or ``n_trees`` is out of range.

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
    model = posterior.model
    k, column = feature_number(model, feature), value_column(model, label)
    check_count("n_trees", n_trees, 1)
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage={coverage!r} is out of range; give a number in (0, 1).")
    ax = axes_or_new(ax, 5.0, 3.4)
    ax.set(ylabel=value_name(model, column))
    ax.set_xlabel(model.columns.names[k], parse_math=False)
    if has_no_draws(posterior):
        return say_no_draws(ax)
    trees = posterior.draw_trees(n_trees, rng)
    axis, rows = axis_of(model, k, trees, MOST_PIECES), training_points(model, N_ROWS)[1]
    found = _dependence(posterior, trees, axis, rows, column, coverage)
    if axis.labels is None:
        ax.stairs(found.high, axis.edges, baseline=found.low, fill=True, color="C0", alpha=0.25, linewidth=0.0)
        ax.stairs(found.mean, axis.edges, baseline=None, color="C0", linewidth=1.8)
        values = rows[:, k]
        ax.plot(values, np.zeros(len(values)), "|", color="0.4", markersize=7, transform=ax.get_xaxis_transform())
    else:
        reach = np.maximum([found.mean - found.low, found.high - found.mean], 0.0)
        ax.errorbar(axis.middles, found.mean, yerr=reach, fmt="o", capsize=3.0)
        name_categories(ax.xaxis, axis)
    low, high = min(found.low.min(), found.mean.min()), max(found.high.max(), found.mean.max())
    margin = 0.07 * (high - low) or 0.5
    ax.set(xlim=axis.edges[[0, -1]], ylim=(low - margin, high + margin))
    ax.set_title(f"mean, and interval of {100.0 * coverage:.3g}% of the trees", fontsize="medium")
    return ax


def _dependence(
    posterior: Posterior, trees: list[Any], axis: Axis, rows: np.ndarray, column: int, coverage: float
) -> Dependence:
    """By piece of the axis: the posterior's mean over rows, and the interval of those of the trees."""
    m, n = len(axis.middles), len(rows)
    X = np.tile(rows, (m, 1))
    X[:, axis.feature] = np.repeat(axis.middles, n)
    mean = posterior._values(X)[:, column].reshape(m, n).mean(axis=1)
    value = np.ascontiguousarray(np.concatenate([t.value for t in trees])[:, column : column + 1])
    by_tree = leaf_values(stack_trees(trees), value, X)[:, :, 0].reshape(len(trees), m, n).mean(axis=2)
    low, high = np.quantile(by_tree, [(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0], axis=0)
    return Dependence(mean, low, high)
