"""Calibration: what groups of rows show, beside what the posterior expects of them, for classes and for times.

For classes the observed fraction of rows with a label stands beside P(label), for times the Kaplan-Meier curve beside
the survival function. Both sides have an interval: a confidence interval of what is observed, and a credible interval,
over trees and leaf parameters, of what is expected.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import central_fractions, check_count, is_integer, labels_differ, read_generator, refuse_other_rows
from ...core.texts import with_short_repr
from ...model import TreeModel
from ...model.leaf.positive import OneRateLeaf
from ...model.model import value_column, value_label
from ...model.rows import read_weight, read_y
from ...table.words import EQUAL_DIGITS, rounded_text
from ...tree.tree import Tree, match_columns
from ..distribution import TreeDistribution
from ..trees.distances import weighted_quantile
from ..trees.paths import conditions_in_words, path_to
from .predictions import refuse_loss
from .survival import N_GRID_TIMES, draw_survival, leaves_of_draws, mean_cumulative_hazard, mean_survival, read_times

if TYPE_CHECKING:
    import pandas as pd


@with_short_repr
class Calibration(NamedTuple):
    """Observed and expected events in groups of rows. The events of classes are the rows with one label."""

    names: list[str]
    """Name of each group: the conditions of a leaf, or the range of its predictions."""
    quantity: str
    """Name of the expected quantity: P(label), or P(time > t)."""
    label: Any
    """The class whose rows are the events; None for times."""
    group: np.ndarray
    """(n,) int64: number of the group of each row."""
    weight: np.ndarray
    """(n,) number of times that each row counts, > 0."""
    event: np.ndarray
    """(n,) bool: True if the row has the label; for times True if the event was seen, False if censored."""
    time: np.ndarray | None
    """(n,) the time of each row; None for classes."""
    times: np.ndarray
    """(k,) the times of the table; none for classes."""
    grid: np.ndarray
    """(m,) increasing times of ``expected``, among them ``times``; none for classes."""
    expected: np.ndarray
    """(g, m), for classes (g, 1): mean over the rows of each group of P(time > t), or of P(label)."""
    lower: np.ndarray
    """Lower end of the credible interval of each of these averages."""
    upper: np.ndarray
    """Upper end of the credible interval of each of these averages."""
    expected_events: np.ndarray
    """(g,) number of events that the model expects in each group, for times given the times of its rows."""
    coverage: float
    """Coverage of the confidence intervals and probability of the credible intervals, each at one point."""

    def fractions(self) -> np.ndarray:
        """Return the fraction of events in each group with the ends of its confidence interval, (g, 3).

        The interval is Wilson's, which inverts the test of a fraction that has a normal distribution (Wilson 1927).
        """
        n = np.bincount(self.group, self.weight, len(self.names))
        observed = np.bincount(self.group, self.weight * self.event, len(self.names)) / n
        z = NormalDist().inv_cdf(central_fractions(self.coverage)[1])
        middle = (observed + z**2 / (2.0 * n)) / (1.0 + z**2 / n)
        half = z / (1.0 + z**2 / n) * np.sqrt(observed * (1.0 - observed) / n + z**2 / (4.0 * n**2))
        return np.column_stack([observed, np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)])

    def curve(self, group: int) -> KaplanMeier:
        """Return the Kaplan-Meier curve of the group with this number, of a calibration of times."""
        if self.time is None:
            raise ValueError("this is a calibration of classes, which have no curves; use fractions().")
        in_group = self.group == group
        return kaplan_meier(self.time[in_group], self.event[in_group], self.coverage, self.weight[in_group])

    def table(self) -> pd.DataFrame:
        """Return one line for each group, and for times one for each group and time.

        Returns
        -------
        DataFrame
            ``group``; ``rows``, ``events`` and ``expected_events`` of the whole group; ``observed``, with its
            confidence interval ``lower`` to ``upper``; ``expected``, with its credible interval ``expected_lower`` to
            ``expected_upper``. Of classes ``class`` is the label whose rows are the events, and ``observed`` their
            fraction. Of times ``observed`` is the Kaplan-Meier estimate of P(time > ``time``), whose interval is NaN
            before the first event and where no row is left, and ``at_risk`` the number of rows whose time is at least
            ``time``.
        """
        import pandas as pd

        lines: list[dict[str, Any]] = []
        fractions = self.fractions()
        for g, name in enumerate(self.names):
            here = self.group == g
            line = {
                "group": name,
                "rows": _number(self.weight[here].sum()),
                "events": _number(self.weight[here & self.event].sum()),
                "expected_events": float(self.expected_events[g]),
            }
            if self.time is None:
                lines.append({"class": self.label, **line, **self._sides(fractions[g], g, 0)})
                continue
            curve = self.curve(g)
            for t in self.times.tolist():
                at_risk = _number(self.weight[here & (self.time >= t)].sum())
                sides = self._sides(curve.at(t), g, int(np.searchsorted(self.grid, t)))
                lines.append({**line, "time": t, "at_risk": at_risk, **sides})
        return pd.DataFrame(lines)

    def _sides(self, observed: Any, group: int, k: int) -> dict[str, float]:
        """Return what is observed, with its interval, and what is expected in a group at the time numbered k."""
        names = ("observed", "lower", "upper", "expected", "expected_lower", "expected_upper")
        sides = (*observed, self.expected[group, k], self.lower[group, k], self.upper[group, k])
        return {name: float(value) for name, value in zip(names, sides, strict=True)}


def _number(count: float) -> float:
    return int(count) if float(count).is_integer() else float(count)


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


def kaplan_meier(time: np.ndarray, event: np.ndarray, coverage: float, weight: np.ndarray | None = None) -> KaplanMeier:
    """Return the Kaplan-Meier curve of rows (n,): times, ``event`` True if not censored, times that each row counts."""
    # the confidence intervals, pointwise with this ``coverage``, are by Greenwood's formula for log(-log S).
    weight = np.ones(len(time)) if weight is None else weight
    times, place = np.unique(time, return_inverse=True)
    n_events, n_leaving = np.bincount(place, weight * event, len(times)), np.bincount(place, weight, len(times))
    at_risk = n_leaving[::-1].cumsum()[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        # sums of weights differ in their last digits by the order of addition
        left = np.where(at_risk - n_events > 1e-12 * at_risk, at_risk - n_events, 0.0)
        survival = np.cumprod(left / at_risk)
        error = np.sqrt(np.cumsum(n_events / (at_risk * left))) / np.log(survival)
        log_log_error = NormalDist().inv_cdf(central_fractions(coverage)[1]) * error
        lower, upper = (survival ** np.exp(sign * log_log_error) for sign in (-1.0, 1.0))
    is_inner = (survival > 0.0) & (survival < 1.0)
    return KaplanMeier(times, survival, np.where(is_inner, lower, np.nan), np.where(is_inner, upper, np.nan))


def calibration(
    post: TreeDistribution,
    X: Any,
    y: Any,
    groups: Any = 5,
    *,
    label: Any = None,
    times: Any = None,
    coverage: float = 0.9,
    sample_weight: Any = None,
) -> Calibration:
    """Return what is observed in groups of rows beside what the posterior expects, for classes and for times.

    Of classes it is the fraction of rows with a label beside P(label), the reliability diagram; of times to an event
    the Kaplan-Meier curve beside the survival function.

    Parameters
    ----------
    X : table of shape (n, p)
        Rows, best held-out ones. The training rows show how the model fits, not how it predicts.
    y : array-like of shape (n,); for times of shape (n, 2), frame or records
        Labels, or times and events, of these rows, as for the model. A label that the model does not know is another
        than ``label``.
    groups : int or Tree, default 5
        Number of groups by P(label), or by predicted mean time, of about equal size; or a tree whose leaves are the
        groups, such as ``post.map_tree()``.
    label : optional
        Class whose rows are the events. Default: the last of ``model.classes_``.
    times : array-like of shape (k,), optional
        Times of the table. Default: the quartiles of the times of the events. Not for classes.
    coverage : float, default 0.9
        Coverage of the confidence intervals of what is observed, and probability of the credible intervals of what is
        expected, in (0, 1).
    sample_weight : array-like of shape (n,), optional
        Number of times that each of these rows counts, >= 0. Default: once.

    Returns
    -------
    Calibration
        ``.table()`` is a DataFrame with one line for each group, for times one for each group and time;
        ``pt.plots.plot_calibration`` draws it.

    Raises
    ------
    TypeError, ValueError
        If the model has neither classes nor times to an event, its leaf is a loss, an argument is out of range, or X
        or y does not fit the model.

    See Also
    --------
    predict_proba, survival : What is expected, of single rows.

    Notes
    -----
    The confidence interval of a fraction is Wilson's (1927); that of the product-limit estimate (Kaplan and Meier
    1958) has Greenwood's variance on the scale of log(-log S). A group has no curve after its last time if that is
    censored. The expected number of events is the sum over rows of P(label), or of the cumulative hazard at their
    times, which equals the number of events on average if the model is right and censoring is independent of the
    event. Credible intervals are of the averages over the rows of a group, from 1,000 draws of a tree and its leaf
    parameters with a fixed seed. If the model is right, the observed fraction of a group varies around the expected
    one by both intervals. Cost: that of the predictions, and of sending the rows down 1,000 trees. How well the
    predictions separate the classes is another question: ``sklearn.metrics.roc_auc_score``.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> X, y = np.repeat([[0.0], [1.0]], 20, axis=0), np.where(np.arange(40) % 20 < np.repeat([2, 16], 20), "ill", "ok")
    >>> post = pt.sample(pt.TreeModel(X, y), 100, tune=20, chains=2, rng=1, kernel="grow-prune")
    >>> post.calibration(X, y, label="ill").table()[["class", "rows", "events"]].values.tolist()
    [['ill', 20, 2], ['ill', 20, 16]]
    >>> y = np.column_stack([np.linspace(0.1, 2.0, 40) * np.repeat([1.0, 9.0], 20), np.arange(40) % 4 > 0])
    >>> post = pt.sample(pt.TreeModel(X, y, leaf=pt.ExponentialGamma()), 100, tune=20, chains=2, rng=1)
    >>> post.calibration(X, y).table()[["rows", "events"]].drop_duplicates().values.tolist()
    [[20, 15]]
    """
    model, column = post.model, value_column(post.model, label)
    if model.classes_ is not None:
        refuse_loss(model)
        if times is not None:
            raise ValueError("times is given, but the model has classes; leave it out.")
    elif not model.leaf.has_survival:
        raise ValueError(
            f"{type(model.leaf).__name__} is not a model of times to an event, nor of classes, and calibration is of "
            "these: give labels as y, or leaf=pt.ExponentialGamma() and y with the columns time and event. "
            "predict_interval has intervals of a new y, and their coverage of held-out rows can be counted."
        )
    elif isinstance(model.leaf, OneRateLeaf) and model.leaf.exposure is not None:
        raise ValueError("the model has exposures, and survival functions are for exposure 1; leave them out.")
    ends = central_fractions(coverage)
    if not isinstance(groups, Tree):
        if not is_integer(groups):
            raise TypeError(f"groups is a {type(groups).__name__}; give a number, or a Tree whose leaves they are.")
        groups = check_count("groups", groups)
    times = None if times is None else read_times(times)
    refuse_other_rows(X=X, y=y, sample_weight=sample_weight)
    numbers, time = model.columns.numbers(X), None
    if len(numbers) == 0:
        raise ValueError("X has no rows; give at least one.")
    if model.classes_ is not None:
        event = ~labels_differ(read_y(y, len(numbers), model.leaf), model.classes_[column : column + 1])
    else:
        y = read_y(y, len(numbers), model.leaf, model.target.names).astype(np.float64)
        time, event = model.leaf.times_and_events(y)
    weight = read_weight(sample_weight, len(numbers))
    weight = np.ones(len(numbers)) if weight is None else weight
    counts = weight > 0.0
    numbers, event, weight = numbers[counts], event[counts], weight[counts]
    time = None if time is None else time[counts]

    by_tree, quantity, grid = isinstance(groups, Tree), "P(time > t)", np.empty(0)
    # groups of times by a tree need no predicted mean times
    predictions = np.empty(0) if by_tree and time is not None else post._rows.values(numbers)[:, column]
    if time is None:
        quantity, means, events, times = value_label(model, column), predictions[:, None], predictions, grid
    else:
        if times is None:
            is_counted = event if event.any() else np.ones(len(event), dtype=np.bool_)
            times = np.unique(weighted_quantile(time[is_counted], weight[is_counted], np.array([0.25, 0.5, 0.75])))
        grid = np.union1d(np.linspace(0.0, time.max(), N_GRID_TIMES), times)
        means, events = mean_survival(post, numbers, grid), mean_cumulative_hazard(post, numbers, time)
    if isinstance(groups, Tree):
        group, names = _groups_by_tree(post, numbers, groups)
    else:
        group, names = _groups_by_prediction(predictions, weight, groups, "mean time" if time is not None else quantity)
    n, rows = len(names), np.bincount(group, weight, len(names))
    expected = np.array([np.bincount(group, weight * mean, n) / rows for mean in means.T]).T
    lower, upper = _credible_bands(post, numbers, group, weight / rows[group], column, grid, ends)
    return Calibration(
        names,
        quantity,
        None if model.classes_ is None else model.classes_.tolist()[column],
        group,
        weight,
        event,
        time,
        times,
        grid,
        expected,
        lower,
        upper,
        np.bincount(group, weight * events, n),
        float(coverage),
    )


def _credible_bands(
    post: TreeDistribution,
    numbers: np.ndarray,
    group: np.ndarray,
    fraction: np.ndarray,
    column: int,
    grid: np.ndarray,
    ends: tuple[float, float],
) -> np.ndarray:
    """Return both ends (2, g, m) of the intervals of the averages over the rows of each group, pointwise."""
    # `fraction` (n,) is that of each row in the weight of its group
    rng, n_groups, averages = read_generator(0), int(group.max()) + 1, []
    for leaf, stats in leaves_of_draws(post, numbers, rng):
        shares = np.bincount(group * len(stats) + leaf, fraction, n_groups * len(stats)).reshape(n_groups, -1)
        averages.append(shares @ _draw_expected(post.model, rng, stats, column, grid))
    return np.quantile(averages, ends, axis=0)


def _draw_expected(
    model: TreeModel, rng: np.random.Generator, stats: np.ndarray, column: int, grid: np.ndarray
) -> np.ndarray:
    """Draw P(label) (l, 1), or P(time > t) (l, m) on the grid, in leaves with ``stats`` (l, s)."""
    if model.classes_ is None:
        return draw_survival(model, rng, stats, grid)
    if not model.leaf.has_expectation:
        return model.leaf.value(stats, model.target)[:, [column]]
    return model.leaf.draw_expectation(rng, stats, np.arange(len(stats)), model.target)[:, [column]]


def _groups_by_prediction(
    predictions: np.ndarray, weight: np.ndarray, n_groups: int, quantity: str
) -> tuple[np.ndarray, list[str]]:
    """Divide rows into groups of about equal weight by predictions (n,); return group numbers (n,) and group names."""
    # Group 0 has the smallest. Rows with equal predictions are in the same group, so there may be fewer than
    # ``n_groups``. The last digits of equal predictions differ by rounding
    values, place = np.unique([float(f"{x:.{EQUAL_DIGITS}g}") for x in predictions.tolist()], return_inverse=True)
    size = np.bincount(place, weight)
    middle = np.cumsum(size) - size / 2.0
    group_of_value = np.unique((middle * n_groups / size.sum()).astype(np.int64), return_inverse=True)[1]
    ends = [values[group_of_value == g][[0, -1]].tolist() for g in range(group_of_value.max() + 1)]
    names = []
    for digits in range(3, EQUAL_DIGITS + 1):
        names = [" to ".join(dict.fromkeys(rounded_text(end, digits) for end in pair)) for pair in ends]
        if len(set(names)) == len(names):
            break
    return group_of_value[place], [f"{quantity} {name}" for name in names]


def _groups_by_tree(post: TreeDistribution, numbers: np.ndarray, tree: Tree) -> tuple[np.ndarray, list[str]]:
    """Divide rows into groups by the leaf of ``tree`` they reach."""
    tree = match_columns(tree, post.model.columns)
    if tree.feature.max() >= post.model.n_features:
        raise ValueError(f"groups splits on feature {tree.feature.max()}; the model has {post.model.n_features}.")
    leaves, group = np.unique(tree.routes().leaves(numbers), return_inverse=True)
    columns = post.model.columns
    paths = [[condition for _, condition in path_to(tree.arrays, None, 0, leaf)] for leaf in leaves.tolist()]
    return group, [conditions_in_words(columns, path) for path in paths]
