"""Answers about rows to predict: predictions, decisions, survival, and values that the training rows do not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...model.leaf.counts import predict_at_exposure
from ..protocol import AnyPosterior
from . import survival as survivals
from .decisions import decide, refuse_costs
from .novelty import novelty_of

if TYPE_CHECKING:
    import pandas as pd


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

    def predict(self, X: Any, *, costs: Any = None, exposure: Any = None) -> np.ndarray:
        """Return labels, or the predictive means of a regression.

        Parameters
        ----------
        X : table of shape (n, p)
            As the model's.
        costs : array of shape (K, K), or DataFrame, optional
            Entry i, j is the cost of deciding class j if the class is i. An array is in the order of
            ``model.classes_``; the index of a frame has the classes, and its columns the decisions, in any order.
            Default: 1 for an error, 0 for the class itself.
        exposure : float, or array of shape (n,), optional
            Exposure of each row, > 0, for counts and times; default 1. It multiplies the mean count, or the hazard.

        Returns
        -------
        ndarray of shape (n,); (n, d) for the means of several outputs
            Labels of least expected cost; without ``costs`` the most probable ones, or under OrderedClasses the median
            ones. Of equal ones the first.

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
            values = predict_at_exposure(self.model.leaf, values, exposure)
        if self.model.classes_ is None:
            return values[:, 0] if values.shape[1] == 1 else values
        return decide(self.model, values, costs)

    def novelty(self, X: Any) -> pd.DataFrame:
        """Return the values of rows that the training rows do not have: out of range, unseen or missing.

        Parameters
        ----------
        X : table of shape (n, p)
            With the columns of the model. Missing values are allowed, even if the model does not predict them.

        Returns
        -------
        DataFrame
            One line for each such value, sorted by row: ``row``, its number in X; ``feature``; ``value``; ``reason``:
            below the smallest or above the largest training value, a category that is not in the training rows, or
            missing although the feature has no missing value in them. Empty if there is none.

        Raises
        ------
        ValueError
            If X does not have the model's columns, or the model is from a file that does not have the ranges.

        Notes
        -----
        A tree is constant beyond its outermost thresholds, so it predicts a value out of range as the nearest one that
        it knows. An unseen category, and a missing value of a feature without missing values, follows the branch with
        more training rows. The ranges are those of all training rows, also of rows with weight 0. Features are looked
        at one by one: a combination of values that no training row has is not reported. O(n p).

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

    def survival(self, X: Any, times: Any, coverage: float = 0.9) -> survivals.Survival:
        """Return survival functions P(time > t | x), with credible bands over trees and leaf parameters.

        Parameters
        ----------
        X : table of shape (n, p)
            As the model's.
        times : array-like of shape (m,), or float
            Times t >= 0.
        coverage : float, default 0.9
            Probability of the band of a row, in (0, 1).

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
        in each leaf, and the quantiles of S(t) are those of lambda. No random numbers are drawn. The curve of a row is
        in its band at all times with probability ``coverage``: all bands of a row come from the same two quantiles. The
        cost is that of `predict_interval`, and that of `predict` for each time.

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

    def median_survival(self, X: Any, coverage: float = 0.9) -> pd.DataFrame:
        """Return the median time to the event, with its credible interval.

        Parameters
        ----------
        X : table of shape (n, p)
            As the model's.
        coverage : float, default 0.9
            Probability of each interval, in (0, 1); equal tails.

        Returns
        -------
        DataFrame
            One line for each row: ``median``, the time that a new row survives with probability one half; ``lower`` and
            ``upper``, the interval of the median time over trees and leaf parameters.

        Raises
        ------
        ValueError
            As for `survival`.

        Notes
        -----
        ``median`` is ``predict_quantiles(X, 0.5)``. Given tree and rate lambda the median time is ``(log 2 /
        lambda)^(1 / k)``, so its interval is that of lambda.

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
