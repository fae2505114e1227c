"""Survival functions of rows, with credible bands, and the comparison with Kaplan-Meier curves.

Given the tree, a row is in one leaf, whose rate lambda has a gamma posterior, and ``S(t) = exp(-lambda t^k)``. S(t)
is a decreasing function of lambda for each t, so its quantiles over trees and leaf parameters are those of lambda. The
band of a row therefore contains the whole curve with its probability, not only each point.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import central_fractions, check_count, is_integer, read_numbers, refuse_other_rows
from ...core.texts import with_short_repr
from ...model import TreeModel
from ...model.leaf.positive import SurvivalLeaf
from ...model.rows import read_y
from ...table.words import EQUAL_DIGITS, rounded_texts
from ...tree.tree import Tree, match_columns
from ..distribution import TreeDistribution, documented
from ..laws import RowLaw
from ..trees.paths import conditions_in_words, path_to
from .predictions import exposures_of, law_of_new_y, quantiles_at, values_at_exposure

if TYPE_CHECKING:
    import pandas as pd


MAX_PROBABILITIES_PER_BLOCK = 1 << 22
"""Largest number of survival probabilities, nodes times time points, that are computed at a time."""
N_GRID_TIMES = 101
"""Number of times at which curves are drawn."""


@with_short_repr
class Survival(NamedTuple):
    """Survival functions of rows: P(time > t | x), with credible bands."""

    times: np.ndarray
    """(m,) the times t."""
    mean: np.ndarray
    """(n, m) P(time > t | x), averaged over trees and leaf parameters."""
    lower: np.ndarray
    """(n, m) lower end of the credible band."""
    upper: np.ndarray
    """(n, m) upper end of the credible band."""
    coverage: float
    """Probability that the whole curve of a row is in its band."""

    def table(self) -> pd.DataFrame:
        """Return one line for each row and time: row, time, mean, lower, upper."""
        import pandas as pd

        n, m = self.mean.shape
        columns = {name: getattr(self, name).ravel() for name in ("mean", "lower", "upper")}
        return pd.DataFrame({"row": np.repeat(np.arange(n), m), "time": np.tile(self.times, n), **columns})


@with_short_repr
class SurvivalCalibration(NamedTuple):
    """Kaplan-Meier curves of groups of rows beside the survival functions of the model."""

    names: list[str]
    """Name of each group: the conditions of a leaf, or the range of the predicted mean time."""
    group: np.ndarray
    """(n,) int64: number of the group of each row."""
    time: np.ndarray
    """(n,) the time of each row."""
    event: np.ndarray
    """(n,) bool: True if the event was seen, False if the time is censored."""
    times: np.ndarray
    """(k,) the times of the table."""
    grid: np.ndarray
    """(m,) increasing times of ``expected``, among them ``times``."""
    expected: np.ndarray
    """(g, m) survival function of the model, averaged over the rows of each group."""
    expected_events: np.ndarray
    """(g,) number of events that the model expects in each group, given the times of its rows."""
    coverage: float
    """Coverage of the confidence intervals of the Kaplan-Meier curves."""

    def curve(self, group: int) -> KaplanMeier:
        """Return the Kaplan-Meier curve of the group with this number."""
        in_group = self.group == group
        return kaplan_meier(self.time[in_group], self.event[in_group], self.coverage)

    def table(self) -> pd.DataFrame:
        """Return one line for each group and time.

        Returns
        -------
        DataFrame
            ``group``; ``rows``, ``events`` and ``expected_events`` of the whole group; ``time``; ``at_risk``, the
            number of rows whose time is at least this; ``observed``, the Kaplan-Meier estimate, with its confidence
            interval ``lower`` to ``upper`` (NaN before the first event and where no row is left); ``expected``, the
            survival function of the model.
        """
        import pandas as pd

        lines = []
        for g, name in enumerate(self.names):
            in_group, curve = self.group == g, self.curve(g)
            for t in self.times.tolist():
                observed, lower, upper = (float(part) for part in curve.at(t))
                lines.append(
                    {
                        "group": name,
                        "rows": int(in_group.sum()),
                        "events": int(self.event[in_group].sum()),
                        "expected_events": float(self.expected_events[g]),
                        "time": t,
                        "at_risk": int((self.time[in_group] >= t).sum()),
                        "observed": observed,
                        "lower": lower,
                        "upper": upper,
                        "expected": float(self.expected[g, np.searchsorted(self.grid, t)]),
                    }
                )
        return pd.DataFrame(lines)


@with_short_repr
class KaplanMeier(NamedTuple):
    """The product-limit estimate of a survival function (Kaplan and Meier 1958)."""

    time: np.ndarray
    """(m,) distinct times of the rows, increasing."""
    survival: np.ndarray
    """(m,) estimate of P(time > t) at each of these times, constant until the next one."""
    lower: np.ndarray
    """(m,) lower end of the confidence interval; NaN if the estimate is 0 or 1."""
    upper: np.ndarray
    """(m,) upper end of the confidence interval; NaN if the estimate is 0 or 1."""

    def at(self, t: float) -> tuple[float, float, float]:
        """Return the estimate at time t, and the lower and upper end of its confidence interval.

        The estimate is 1 before the first time, and NaN after the last time unless the curve has reached 0. In both
        cases the ends are NaN.
        """
        k = int(np.searchsorted(self.time, t, side="right")) - 1
        if k < 0:
            return 1.0, np.nan, np.nan
        if t > self.time[-1] and self.survival[-1] > 0.0:
            return np.nan, np.nan, np.nan
        return self.survival[k], self.lower[k], self.upper[k]


def kaplan_meier(time: np.ndarray, event: np.ndarray, coverage: float) -> KaplanMeier:
    """Return the Kaplan-Meier curve of rows with times (n,) and ``event`` (n,), True if not censored."""
    # the confidence intervals, pointwise with this ``coverage``, are by Greenwood's formula for log(-log S).
    times, place = np.unique(time, return_inverse=True)
    n_events, n_leaving = np.bincount(place, event, len(times)), np.bincount(place, minlength=len(times))
    at_risk = n_leaving[::-1].cumsum()[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        survival = np.cumprod(1.0 - n_events / at_risk)
        error = np.sqrt(np.cumsum(n_events / (at_risk * (at_risk - n_events)))) / np.log(survival)
        log_log_error = NormalDist().inv_cdf(central_fractions(coverage)[1]) * error
        lower, upper = (survival ** np.exp(sign * log_log_error) for sign in (-1.0, 1.0))
    is_inner = (survival > 0.0) & (survival < 1.0)
    return KaplanMeier(times, survival, np.where(is_inner, lower, np.nan), np.where(is_inner, upper, np.nan))


def survival_leaf(model: TreeModel) -> SurvivalLeaf:
    """Return the leaf of a model of times to an event, or raise a ValueError for any other model."""
    if not isinstance(model.leaf, SurvivalLeaf):
        raise ValueError(
            f"{type(model.leaf).__name__} is not a model of times to an event, so it has no survival function; give "
            "the model leaf=pt.ExponentialGamma() or pt.WeibullGamma(k), and y with the columns time and event."
        )
    return model.leaf


@documented
def survival(post: TreeDistribution, X: Any, times: Any, coverage: float = 0.9, *, exposure: Any = None) -> Survival:
    """Return survival functions P(time > t | x), with credible bands over trees and leaf parameters.

    Parameters
    ----------
    {X}
    times : array-like of shape (m,), or float
        Times t >= 0 at which the survival functions are evaluated.
    coverage : float, default 0.9
        Probability, in (0, 1), that the whole curve of a row is in its band.
    {exposure}

    Returns
    -------
    Survival
        ``mean``, ``lower`` and ``upper`` (n, m); ``.table()`` is a DataFrame, and ``pt.plots.plot_survival`` draws
        the curves.

    Raises
    ------
    ValueError
        If the leaf is neither ExponentialGamma nor WeibullGamma, an argument is out of range, or X does not have
        the model's columns.

    See Also
    --------
    predict, credible_interval : The mean time, and its interval.
    median_survival : The median time, with its interval.

    Notes
    -----
    Given tree and rate lambda, ``S(t) = exp(-lambda t^k)``, so the mean over lambda is ``(1 + t^k / rate)^-shape``
    in each leaf, and the quantiles of S(t) are those of lambda, the same for all t. No random numbers are drawn.
    The cost is that of `predict_interval`, and that of `predict` for each time.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> y = np.column_stack([np.linspace(0.1, 2.0, 40) * np.repeat([1.0, 9.0], 20), np.arange(40) % 4 > 0])
    >>> model = pt.TreeModel(np.repeat([[0.0], [1.0]], 20, axis=0), y, leaf=pt.ExponentialGamma())
    >>> post = pt.sample(model, 100, tune=20, chains=2, rng=1, kernel="grow-prune")
    >>> post.survival([[0.0], [1.0]], [1.0, 5.0]).mean.round(1).tolist()
    [[0.6, 0.1], [0.9, 0.8]]
    """
    leaf, times, rows = survival_leaf(post.model), _read_times(times), post._rows
    numbers = post.model.columns.numbers(X)
    exposures = exposures_of(post.model, X, numbers, exposure)
    ends = quantiles_at(rows, leaf.rates(rows.place_stats), numbers, central_fractions(coverage))
    if exposures is None:
        exposures = np.ones(len(numbers))
    lower, upper = (leaf.survival_given(ends[:, j] * exposures, times) for j in (1, 0))
    mean = np.empty((len(numbers), len(times)))
    for e in np.unique(exposures).tolist():
        # a hazard e times as large is that of times multiplied by e^(1 / k)
        here = exposures == e
        mean[here] = _mean_survival(rows, numbers[here], times * e ** (1.0 / leaf.k))
    return Survival(times, mean, lower, upper, float(coverage))


@documented
def median_survival(post: TreeDistribution, X: Any, coverage: float = 0.9, *, exposure: Any = None) -> pd.DataFrame:
    """Return the median time to the event, with its credible interval.

    Parameters
    ----------
    {X}
    {coverage}
    {exposure}

    Returns
    -------
    DataFrame
        One line for each row: ``median``, the time that a new row survives with probability one half, as of
        ``predict_quantiles(X, 0.5)``; ``lower`` and ``upper``, the interval of the median time over trees and leaf
        parameters, ``(log 2 / lambda)^(1 / k)`` given tree and rate lambda.

    Raises
    ------
    ValueError
        As for `survival`.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> y = np.column_stack([np.linspace(0.1, 2.0, 40) * np.repeat([1.0, 9.0], 20), np.arange(40) % 4 > 0])
    >>> model = pt.TreeModel(np.repeat([[0.0], [1.0]], 20, axis=0), y, leaf=pt.ExponentialGamma())
    >>> post = pt.sample(model, 100, tune=20, chains=2, rng=1, kernel="grow-prune")
    >>> post.median_survival([[0.0], [1.0]]).columns.tolist()
    ['median', 'lower', 'upper']
    """
    import pandas as pd

    leaf, numbers, rows = survival_leaf(post.model), post.model.columns.numbers(X), post._rows
    ends = quantiles_at(rows, leaf.rates(rows.place_stats), numbers, central_fractions(coverage))
    median = quantiles_at(rows, law_of_new_y(rows), numbers, 0.5)
    out = np.column_stack([median, leaf.median_given(ends)[:, ::-1]])
    out = values_at_exposure(post.model, out, exposures_of(post.model, X, numbers, exposure))
    return pd.DataFrame(out, columns=["median", "lower", "upper"])


def survival_calibration(
    post: TreeDistribution, X: Any, y: Any, groups: Any = 4, *, times: Any = None, coverage: float = 0.9
) -> SurvivalCalibration:
    """Return Kaplan-Meier curves of groups of rows beside the survival functions of the model.

    Parameters
    ----------
    X : table of shape (n, p)
        Rows, best held-out ones. The training rows show how the model fits, not how it predicts.
    y : array-like of shape (n, 2), frame or records
        Times and events of these rows, as for the model. Each row counts once.
    groups : int or Tree, default 4
        Number of groups by predicted mean time, of about equal size; or a tree whose leaves are the groups, such as
        ``post.map_tree()``.
    times : array-like of shape (k,), optional
        Times of the table. Default: the quartiles of the times of the events.
    coverage : float, default 0.9
        Coverage of the confidence intervals of the Kaplan-Meier curves, in (0, 1).

    Returns
    -------
    SurvivalCalibration
        ``.table()`` is a DataFrame with one line for each group and time; ``pt.plots.plot_survival`` draws the
        curves with a tick at each censored time.

    Raises
    ------
    TypeError, ValueError
        If the leaf is neither ExponentialGamma nor WeibullGamma, an argument is out of range, or X or y does not
        fit the model.

    Notes
    -----
    The product-limit estimate (Kaplan and Meier 1958) with Greenwood's variance on the scale of log(-log S). The
    expected number of events of a group is the sum over its rows of the cumulative hazard at their times, which
    equals the number of events on average if the model is right and censoring is independent of the event. A
    group has no curve after its last time if that is censored. O(n) in addition to the predictions.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> y = np.column_stack([np.linspace(0.1, 2.0, 40) * np.repeat([1.0, 9.0], 20), np.arange(40) % 4 > 0])
    >>> X = np.repeat([[0.0], [1.0]], 20, axis=0)
    >>> post = pt.sample(pt.TreeModel(X, y, leaf=pt.ExponentialGamma()), 100, tune=20, chains=2, rng=1)
    >>> post.survival_calibration(X, y, groups=2).table()[["rows", "events"]].drop_duplicates().values.tolist()
    [[20, 15]]
    """
    leaf = survival_leaf(post.model)
    if leaf.exposure is not None:
        raise ValueError(
            "the model has exposures, and survival functions are for exposure 1; a comparison with rows of other "
            "exposures would be wrong."
        )
    central_fractions(coverage)
    if not isinstance(groups, Tree):
        if not is_integer(groups):
            raise TypeError(
                f"groups is a {type(groups).__name__}; give a number of groups, or a Tree whose leaves are the groups, "
                "such as post.map_tree()."
            )
        groups = check_count("groups", groups)
    times = None if times is None else _read_times(times)
    refuse_other_rows(X=X, y=y)
    numbers = post.model.columns.numbers(X)
    if len(numbers) == 0:
        raise ValueError("X has no rows; give at least one.")
    y = read_y(y, len(numbers), leaf, post.model.target.names).astype(np.float64)
    leaf.check_y(y)
    time, event = y[:, 0], y[:, 1] == 1.0
    find_groups = _groups_by_tree if isinstance(groups, Tree) else _groups_by_risk
    group, names = find_groups(post, numbers, groups)
    if times is None:
        times = np.unique(np.quantile(time[event] if event.any() else time, [0.25, 0.5, 0.75]))
    grid = np.union1d(np.linspace(0.0, time.max(), N_GRID_TIMES), times)
    rows, n = np.bincount(group, minlength=len(names)), len(names)
    means = _mean_survival(post._rows, numbers, grid)
    expected = np.array([np.bincount(group, column, n) / rows for column in means.T]).T
    shape, rate = leaf._posterior(post._rows.place_stats)
    hazard = post._rows.average(numbers, (shape / rate)[:, None])[:, 0] * time**leaf.k
    events = np.bincount(group, hazard, n)
    return SurvivalCalibration(names, group, time, event, times, grid, expected, events, float(coverage))


def _mean_survival(rows: RowLaw, numbers: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the posterior mean of P(time > t), (n, m), at rows of ``numbers`` (n, p), for each of ``times`` (m,)."""
    leaf, stats = survival_leaf(rows.model), rows.place_stats
    step = max(1, MAX_PROBABILITIES_PER_BLOCK // max(len(stats), 1))
    blocks = [leaf.mean_survival(stats, times[first : first + step]) for first in range(0, len(times), step)]
    return np.clip(np.hstack([rows.average(numbers, block) for block in blocks]), 0.0, 1.0)


def _read_times(times: Any) -> np.ndarray:
    """Check the argument ``times``, and return it as an array (m,) of times >= 0; a single number becomes (1,)."""
    values = np.atleast_1d(read_numbers("times", times))
    if values.ndim != 1 or len(values) == 0 or not np.all((values >= 0.0) & np.isfinite(values)):
        raise ValueError(f"times has shape {values.shape} or entries out of range; give a row of finite times >= 0.")
    return values


def _groups_by_risk(post: TreeDistribution, numbers: np.ndarray, n_groups: int) -> tuple[np.ndarray, list[str]]:
    """Divide rows into groups of about equal size by predicted mean time; return group numbers (n,) and group names."""
    # the rows are ``numbers`` (n, p), X as numbers. Group 0 has the shortest times. Rows with equal predictions are
    # in the same group, so there may be fewer than ``n_groups``.
    # the last digits of equal predictions differ by rounding
    predictions = [float(f"{x:.{EQUAL_DIGITS}g}") for x in post._rows.values(numbers)[:, 0].tolist()]
    values, place = np.unique(predictions, return_inverse=True)
    size = np.bincount(place)
    middle = np.cumsum(size) - size / 2.0
    group_of_value = np.unique((middle * n_groups / len(numbers)).astype(np.int64), return_inverse=True)[1]
    ends = [values[group_of_value == g][[0, -1]].tolist() for g in range(group_of_value.max() + 1)]
    texts = iter(rounded_texts([end for pair in ends for end in pair], 3))
    names = [" to ".join(dict.fromkeys((next(texts), next(texts)))) for _ in ends]
    return group_of_value[place], [f"mean time {name}" for name in names]


def _groups_by_tree(post: TreeDistribution, numbers: np.ndarray, tree: Tree) -> tuple[np.ndarray, list[str]]:
    """Divide rows into groups by the leaf of ``tree`` they reach."""
    tree = match_columns(tree, post.model.columns)
    if tree.feature.max() >= post.model.n_features:
        raise ValueError(
            f"groups is a tree that splits on feature {tree.feature.max()}; the model has {post.model.n_features}."
        )
    leaves, group = np.unique(tree.routes().leaves(numbers), return_inverse=True)
    columns = post.model.columns
    paths = [[condition for _, condition in path_to(tree.arrays, None, 0, leaf)] for leaf in leaves.tolist()]
    return group, [conditions_in_words(columns, path) for path in paths]
