"""Methods that predict rows: predictions and survival."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..protocol import AnyPosterior, documented
from . import survival as survivals
from .predictive import exposures_of, values_at_exposure

if TYPE_CHECKING:
    import pandas as pd

    from ...model import TreeModel


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
    def predict(self, X: Any, *, exposure: Any = None) -> np.ndarray:
        """Return labels, or the predictive means of a regression.

        Parameters
        ----------
        {X}
        {exposure}

        Returns
        -------
        ndarray of shape (n,)
            For a classification the most probable labels, the first one if several are equal.

        Raises
        ------
        ValueError
            If X does not fit the model's columns, or ``exposure`` is out of range or given to a leaf that has none.

        Examples
        --------
        The labels of least expected cost, if a miss costs ten times as much as a false alarm; row i, column j of
        ``costs`` is the cost of deciding class j if the class is i:

        >>> import numpy as np, pactree_mcmc as pt
        >>> model = pt.TreeModel([[0.0]] * 8, ["sick", "well", "well", "well"] * 2)
        >>> post = pt.posterior_from_trees(model, [pt.Tree([-1], [0], [0], [0])])
        >>> costs = np.array([[0.0, 10.0], [1.0, 0.0]])
        >>> str(post.predict([[0.0]])[0]), str(model.classes_[(post.predict_proba([[0.0]]) @ costs).argmin(axis=1)][0])
        ('well', 'sick')
        """
        numbers = self.model.columns.numbers(X)
        values = values_at_exposure(self.model, self._values(numbers), exposures_of(self.model, X, numbers, exposure))
        if self.model.classes_ is None:
            return values[:, 0]
        return predicted_labels(self.model, values)

    @documented
    def survival(self, X: Any, times: Any, coverage: float = 0.9, *, exposure: Any = None) -> survivals.Survival:
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
        return survivals.survival_of(self, X, times, coverage, exposure)

    @documented
    def median_survival(self, X: Any, coverage: float = 0.9, *, exposure: Any = None) -> pd.DataFrame:
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
        return survivals.median_survival_of(self, X, coverage, exposure)

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


def predicted_labels(model: TreeModel, probabilities: np.ndarray) -> np.ndarray:
    """Return the most probable classes (n,), given class probabilities (n, K)."""
    assert model.classes_ is not None
    return model.classes_[np.argmax(probabilities, axis=1)]
