"""Plots of Shapley values: what each feature contributes to a prediction, with its interval over the trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import Seed, check_count
from ...posterior.base import Posterior
from ...posterior.rows.attributions import Attributions, attributions_of
from ...posterior.sampled import draws_from
from ...table.kinds import NUMBER
from ...table.words import figure, figures, value_text
from ...tree.words import label_words
from .axes import (
    ERRORS,
    axes_or_new,
    check_posterior,
    color_of,
    has_no_draws,
    say_no_draws,
    shortened,
    spaced_rows,
    value_column,
    value_name,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...model import TreeModel

N_ROWS = 200
NAME, VALUE = 32, 14
"""Letters of a feature's name and of its value."""


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
    """Shapley values: contributions to one prediction, or how much each feature contributes on average.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact.
    X : table of shape (n, p), optional
        Rows to be explained. Default: up to 200 training rows, evenly spaced in the table.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    label : class label, optional
        Whose probability is explained; default the last class. Not for a regression, of which the first mean is
        explained.
    coverage : float, default 0.9
        Of the intervals, over the trees, with equal tails; in (0, 1).
    max_features : int, default 10
        The features with the largest values are shown; the others are left out and counted.
    draws : int, default 1000
        Trees drawn from a posterior that is not draws.
    rng : int, SeedSequence, Generator or None, default 0
        For those draws.

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
    check_posterior(posterior)
    check_count("max_features", max_features)
    model, column = posterior.model, value_column(posterior.model, label)
    numbers = spaced_rows(model, N_ROWS) if X is None else model.columns.numbers(X)
    if len(numbers) == 0:
        raise ValueError("X has no rows; give at least one.")
    if has_no_draws(posterior):
        return say_no_draws(axes_or_new(ax, 5.6, 3.4))
    found = attributions_of(draws_from(posterior, draws, rng, that_predict=True), numbers, coverage)
    one = len(numbers) == 1
    middle, low, high = (
        (found.mean[0], found.lower[0], found.upper[0])
        if one
        else (found.importance, found.importance_lower, found.importance_upper)
    )
    middle, low, high = middle[:, column], low[:, column], high[:, column]
    order = np.lexsort((low - high, -np.abs(middle)))[:max_features]
    left_out = int(np.sum(np.delete(middle, order) != 0.0))
    ax = axes_or_new(ax, 5.8, 1.5 + 0.32 * len(order))
    at = -np.arange(len(order), dtype=np.float64)
    colors = [color_of(0 if value >= 0.0 else 3) for value in middle[order]]
    ax.barh(at, middle[order], 0.62, color=colors, alpha=0.75)
    ax.errorbar((low + high)[order] / 2.0, at, xerr=(high - low)[order] / 2.0, **ERRORS)
    ax.axvline(0.0, color="0.4", linewidth=0.8)
    names = [_name(model, k, numbers[0, k] if one else None) for k in order.tolist()]
    ax.set_yticks(at, names, parse_math=False)
    what = value_name(model, column)
    ax.set_xlabel(f"{'' if one else 'mean absolute '}contribution to\n{what}", parse_math=False)
    ax.set_ylim(0.6 - len(order), 0.6)
    ax.set_title(_title(found, column, len(numbers), left_out), fontsize="medium", parse_math=False)
    return ax


def _title(found: Attributions, column: int, n: int, left_out: int) -> str:
    base = found.base[column]
    rows = f"mean over {n} rows"
    if n == 1:
        mean, here = figures([base, base + found.mean[0, :, column].sum()], 3)
        rows = f"{mean} on average, {here} here"
    more = f", {left_out} features left out" if left_out else ""
    return f"{rows}{more}\ninterval of {100.0 * found.coverage:.3g}% of the trees"


def _name(model: TreeModel, k: int, number: float | None) -> str:
    """The name of a feature and its value, if a row is shown."""
    name = shortened(model.columns.names[k], NAME)
    if number is None:
        return name
    categories = model.columns.categories[k]
    if categories is not None:
        value = label_words(categories.tolist()[int(number)]) if number >= 0.0 else "unknown"
    else:
        value = value_text(number, model.columns.kind(k))
        value = value if len(value) <= VALUE or model.columns.kind(k) != NUMBER else figure(number)
    return f"{name} = {shortened(value, VALUE)}"
