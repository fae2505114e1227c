"""Methods that predict rows: predictions, decisions, survival, and a check for values not seen in training."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import read_numbers, refuse_other_rows, repr_of
from ...model.leaf.counts import predict_at_exposure
from ...table.labels import nominal_labels
from ...table.reader import Table
from ...table.words import value_text
from ..protocol import AnyPosterior, documented
from . import survival as survivals

if TYPE_CHECKING:
    import pandas as pd

    from ...model import TreeModel
    from ...table.columns import Columns

UNSEEN_REASON, MISSING_REASON = "category not in the training rows", "missing, but never in the training rows"


class AnswersAboutNewRows(AnyPosterior):
    """Methods that predict rows; a part of `AnswersAboutRows`."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return predictive class probabilities.

        Parameters
        ----------
        X : table of shape (n, p)
            With the columns of the model; columns of a frame are taken by name. A category not seen in training follows
            the branch of the majority of the training rows.

        Returns
        -------
        ndarray of shape (n, K)
            Columns follow ``model.classes_``.

        Raises
        ------
        ValueError
            If the model is a regression, or X does not have the model's columns.
        """
        if self.model.classes_ is None:
            raise ValueError(f"{type(self.model.leaf).__name__} is a regression; use predict.")
        return self._values(self.model.columns.numbers(X))

    @documented
    def predict(self, X: Any, *, costs: Any = None, exposure: Any = None) -> np.ndarray:
        """Return labels, or the predictive means of a regression.

        Parameters
        ----------
        {X}
        costs : array of shape (K, K), or DataFrame, optional
            Entry i, j is the cost of deciding class j if the class is i. An array is in the order of
            ``model.classes_``; the index of a frame has the classes, and its columns the decisions, in any order.
            Default: 1 for an error, 0 for the class itself.
        exposure : float, or array of shape (n,), optional
            Exposure of each row, > 0, for counts and times; default 1. It multiplies the mean count, or the hazard.

        Returns
        -------
        ndarray of shape (n,); (n, d) for the means of several outputs
            For a classification the labels with the smallest expected cost, the first one if several are equal. Without
            ``costs`` the most probable labels, or under OrderedClasses the median ones.

        Raises
        ------
        ValueError
            If X does not fit the model's columns, ``costs`` does not fit the classes or is given to a regression, or
            ``exposure`` is out of range or given to a leaf that has none.

        Examples
        --------
        A miss that costs ten times as much as a false alarm:

        >>> import pactree_mcmc as pt
        >>> model = pt.TreeModel([[0.0]] * 8, ["sick", "well", "well", "well"] * 2)
        >>> post = pt.posterior_from_trees(model, [pt.Tree([-1], [0], [0], [0])])
        >>> str(post.predict([[0.0]])[0]), str(post.predict([[0.0]], costs=[[0, 10], [1, 0]])[0])
        ('well', 'sick')
        """
        if self.model.classes_ is None:
            refuse_costs(self.model.leaf, costs)
        values = self._values(self.model.columns.numbers(X))
        if exposure is not None:
            refuse_other_rows(X=X, exposure=exposure)
            values = predict_at_exposure(self.model.leaf, values, exposure)
        if self.model.classes_ is None:
            return values[:, 0] if values.shape[1] == 1 else values
        return labels_of_least_cost(self.model, values, costs)

    def novelty(self, X: Any) -> pd.DataFrame:
        """Return the values of new rows that are out of the training range, unseen categories, or unusually missing.

        Parameters
        ----------
        X : table of shape (n, p)
            With the columns of the model. Missing values are allowed, even if the model does not predict them.

        Returns
        -------
        DataFrame
            One line for each such value, sorted by row: ``row``, its number in X; ``feature``; ``value``; ``reason``:
            below the smallest or above the largest training value, a category that is not in the training rows, or
            missing although the feature has no missing value in them. Empty if there are no such values.

        Raises
        ------
        ValueError
            If X does not have the model's columns, or the model is from a file that does not have the ranges.

        Notes
        -----
        A tree predicts a value out of range as the nearest training value. An unseen category, and a missing value of a
        feature without missing values, follows the branch with more training rows. Features are checked one by one:
        a combination of values that no training row has is not reported. O(n p).

        Examples
        --------
        >>> import pandas as pd, pactree_mcmc as pt
        >>> X = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "group": ["a", "b", "a", "b"]})
        >>> post = pt.posterior_from_trees(pt.TreeModel(X, [0, 0, 1, 1]), [pt.Tree([-1], [0], [0], [0])])
        >>> new = pd.DataFrame({"age": [35.0, 90.0], "group": ["c", "a"]})
        >>> print(post.novelty(new).to_string(index=False))
         row feature value                               reason
           0   group     c    category not in the training rows
           1     age  90.0 above the largest training value, 50
        """
        return novelty_of(self.model, X)

    @documented
    def survival(self, X: Any, times: Any, coverage: float = 0.9) -> survivals.Survival:
        """Return survival functions P(time > t | x), with credible bands over trees and leaf parameters.

        Parameters
        ----------
        {X}
        times : array-like of shape (m,), or float
            Times t >= 0 at which the survival functions are evaluated.
        coverage : float, default 0.9
            Probability, in (0, 1), that the whole curve of a row is in its band.

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
        return survivals.survival_of(self, X, times, coverage)

    @documented
    def median_survival(self, X: Any, coverage: float = 0.9) -> pd.DataFrame:
        """Return the median time to the event, with its credible interval.

        Parameters
        ----------
        {X}
        {coverage}

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
        return survivals.median_survival_of(self, X, coverage)

    def survival_calibration(
        self, X: Any, y: Any, groups: Any = 4, *, times: Any = None, coverage: float = 0.9
    ) -> survivals.SurvivalCalibration:
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
        return survivals.survival_calibration_of(self, X, y, groups, times, coverage)


def labels_of_least_cost(model: TreeModel, probabilities: np.ndarray, costs: Any = None) -> np.ndarray:
    """Return the labels (n,) of least expected cost, given class probabilities (n, K).

    ``costs`` are the argument of `Posterior.predict`. Of several labels with the same expected cost the first is taken.
    If ``costs`` is None, return the most probable class, or the median of ordered classes.
    """
    classes = model.classes_
    assert classes is not None
    if costs is None:
        return classes[model.leaf.choose(probabilities, model.target)]
    return classes[np.argmin(probabilities @ read_costs(costs, classes), axis=1)]


def read_costs(costs: Any, classes: np.ndarray) -> np.ndarray:
    """Check the argument ``costs``, and return it as an array (K, K) in the order of the classes.

    Entry i, j is the cost of deciding class j if the class is i.
    """
    labels = classes.tolist()
    if hasattr(costs, "index") and hasattr(costs, "columns"):
        for axis, axis_name in ((costs.index, "index"), (costs.columns, "columns")):
            if len(axis) != len(labels) or set(axis) != set(labels):
                raise ValueError(
                    f"the {axis_name} of costs is {repr_of(list(axis))}; give the classes, each once: "
                    f"{repr_of(labels)}."
                )
        # positions and not .loc, which would read labels True and False as a mask
        rows, columns = ([list(axis).index(label) for label in labels] for axis in (costs.index, costs.columns))
        costs = costs.to_numpy()[np.ix_(rows, columns)]
    matrix = read_numbers("costs", costs)
    if matrix.shape != (len(labels), len(labels)):
        raise ValueError(
            f"costs has shape {matrix.shape}; give shape ({len(labels)}, {len(labels)}): row i, column j has the cost "
            f"of deciding class j if the class is i, classes in the order {repr_of(labels)}."
        )
    if not np.isfinite(matrix).all():
        raise ValueError("costs has an entry that is not finite; give finite numbers.")
    return matrix


def refuse_costs(leaf: Any, costs: Any) -> None:
    """Raise a ValueError if the argument ``costs`` is given to a regression with this leaf."""
    if costs is not None:
        raise ValueError(
            f"costs={repr_of(costs)} is given, but {type(leaf).__name__} is a regression; costs are of decisions "
            "between classes: leave them out."
        )


def novelty_of(model: TreeModel, X: Any) -> pd.DataFrame:
    """Return the table of values of ``X`` that are out of the training range or unseen; see `Posterior.novelty`."""
    import pandas as pd

    columns, table = model.columns, Table(X)
    if columns.ranges is None:
        raise ValueError(
            "the file of this model is of an earlier release, which did not store the ranges of the columns; build the "
            "model again from its table."
        )
    # with branches=True missing values are read, and so can be reported even if the model does not allow them
    numbers = replace(columns, branches=True).numbers(table.array if table.frame is None else table.frame)
    column_numbers = columns.indices_in(table)
    lines = []
    for k, name in enumerate(columns.names):
        entries = table.column(column_numbers[k])
        if columns.is_nominal[k]:
            reasons = _unseen_categories(name, entries, numbers[:, k])
        else:
            reasons = _unusual_numbers(columns, k, columns.ranges[k], numbers[:, k])
        if reasons:
            values = list(entries)
            lines += [(row, name, values[row], reason) for row, reason in reasons]
    lines.sort(key=lambda line: line[0])
    return pd.DataFrame(lines, columns=["row", "feature", "value", "reason"]).astype({"row": np.int64})


def _unseen_categories(name: str, entries: Any, codes: np.ndarray) -> list[tuple[int, str]]:
    """Return (row, reason) for each row whose category is missing or not in the training rows.

    ``entries`` (n,) are the values of column ``name``, ``codes`` (n,) the numbers of their categories, negative for a
    category that is not in the training rows and for a missing value.
    """
    rows = np.flatnonzero(codes < 0.0).tolist()
    if not rows:
        return []
    labels = nominal_labels(entries, name, may_lack=True, is_new=True)
    return [(row, MISSING_REASON if labels[row] is None else UNSEEN_REASON) for row in rows]


def _unusual_numbers(columns: Columns, k: int, training_range: np.ndarray, values: np.ndarray) -> list[tuple[int, str]]:
    """Return (row, reason) for each of the ``values`` (n,) of ordered column ``k`` that is out of ``training_range``.

    The range (2,) has the smallest and the largest training value. Missing values (NaN) are listed too if the column
    has none in the training rows.
    """
    (low, high), kind = training_range.tolist(), columns.kind(k)
    reasons = [
        (values < low, f"below the smallest training value, {value_text(low, kind)}"),
        (values > high, f"above the largest training value, {value_text(high, kind)}"),
        (np.isnan(values) & (k not in columns.twins), MISSING_REASON),
    ]
    return [(row, reason) for has_reason, reason in reasons for row in np.flatnonzero(has_reason).tolist()]
