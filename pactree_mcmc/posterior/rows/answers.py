"""Methods of every posterior that take rows. Each calls a function of another file of this folder."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.checks import Seed, central_fractions
from ..protocol import documented
from . import certificate as certificates
from . import predictive
from .new_rows import AnswersAboutNewRows


class AnswersAboutRows(AnswersAboutNewRows):
    """Methods that take rows; one half of `Posterior`.

    If the posterior does not consist of draws and an answer needs some, ``draws`` trees are drawn with ``rng``.
    """

    @documented
    def predict_quantiles(self, X: Any, q: Any, *, exposure: Any = None) -> np.ndarray:
        """Return quantiles of a new y, for regressions and counts.

        Parameters
        ----------
        {X}
        q : float or array-like of shape (m,)
            Probabilities of the quantiles, in (0, 1).
        {exposure}

        Returns
        -------
        ndarray of shape (n, m); (n,) for a single number q
            Integers for counts: the smallest y such that a count is at most y with probability q.

        Raises
        ------
        ValueError
            If the model is a classification, q is out of range, or X does not have the model's columns.

        Notes
        -----
        The distribution of a new y is a mixture over trees of the predictive distribution of the leaf that the row
        reaches, for a row of weight 1. Its quantile is computed without random draws, to about twelve digits, and
        exactly for counts. The cost of a row is the number of leaves that may contain it, times 10 to 40 steps.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(60.0)
        >>> model = pt.TreeModel(x[:, None], np.where(x > 29, 1.0, 0.0) + 0.01 * np.sin(x))
        >>> post = pt.sample(model, 50, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> post.predict_quantiles([[5.0], [50.0]], 0.5).round(1).tolist()
        [0.0, 1.0]
        """
        return predictive.new_y_quantiles(self, X, q, exposure)

    @documented
    def predict_interval(self, X: Any, coverage: float = 0.9, *, exposure: Any = None) -> np.ndarray:
        """Return the ends (n, 2) of the central interval that contains a new y with probability ``coverage``.

        Parameters
        ----------
        {X}
        {coverage}
        {exposure}

        Raises
        ------
        ValueError
            As for `predict_quantiles`, which computes the ends. For counts the probability is at least ``coverage``.
        """
        return predictive.new_y_quantiles(self, X, central_fractions(coverage), exposure)

    @documented
    def credible_interval(self, X: Any, coverage: float = 0.9, *, exposure: Any = None) -> np.ndarray:
        """Return credible intervals of E(y | x), or of P(y | x), over trees and leaf parameters.

        Parameters
        ----------
        {X}
        {coverage}
        {exposure}

        Returns
        -------
        ndarray of shape (n, 2); (n, K, 2) for classes
            Lower and upper end. Columns of classes follow ``model.classes_``. The interval of times is for the mean
            time.

        Raises
        ------
        ValueError
            If the leaf is a loss (PacBayesLoss) or a `CustomLeaf` without ``expectation=``, ``coverage`` is out of
            range, or X does not have the model's columns.

        See Also
        --------
        predict_interval : Interval of a new y, which also contains the noise.

        Notes
        -----
        Given the tree, the parameters of a leaf have a posterior in closed form: Student's t for a mean, beta for a
        class probability, gamma for a rate (formulas, section 3). The interval is that of its mixture over trees,
        computed as in `predict_quantiles`, for each class. The class probabilities of `FrozenLaplace` are
        fixed given the tree, so their intervals are over trees alone. Those of a `CustomLeaf` come from
        2,000 draws.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(60.0)
        >>> post = pt.sample(pt.TreeModel(x[:, None], x > 29), 50, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> post.credible_interval([[5.0]]).round(1).tolist()
        [[[0.9, 1.0], [0.0, 0.1]]]
        """
        numbers = self.model.columns.numbers(X)
        exposures = predictive.exposures_of(self.model, X, numbers, exposure)
        ends = predictive.credible_interval(self, numbers, coverage)
        return predictive.values_at_exposure(self.model, ends, exposures)

    @documented
    def draw_expectations(self, X: Any, draws: int = 1000, rng: Seed = None, *, exposure: Any = None) -> np.ndarray:
        """Draw E(y | x), or P(y | x), from its posterior over trees and leaf parameters.

        Parameters
        ----------
        {X}
        {new_draws}
        {exposure}

        Returns
        -------
        ndarray of shape (draws, n); (draws, n, K) for classes
            The rows of one draw have the same tree and the same leaf parameters, so that differences and averages over
            rows have the right spread.

        Raises
        ------
        ValueError
            As for `credible_interval`, or if ``draws`` is not positive.

        Notes
        -----
        Each draw takes a tree (one of the sampled draws, with replacement; for an exact posterior a new tree), then
        draws the parameters of its leaves given their rows. Cost O(draws * n * depth).

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(60.0)
        >>> model = pt.TreeModel(x[:, None], np.where(x > 29, 1.0, 0.0) + 0.1 * np.sin(x))
        >>> post = pt.sample(model, 50, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> drawn = post.draw_expectations([[5.0], [50.0]], 400, rng=1)
        >>> float((drawn[:, 1] - drawn[:, 0]).mean().round(1))
        1.0
        """
        numbers = self.model.columns.numbers(X)
        exposures = predictive.exposures_of(self.model, X, numbers, exposure)
        expectations = predictive.draw_expectations(self, numbers, draws, rng)
        return np.moveaxis(predictive.values_at_exposure(self.model, np.moveaxis(expectations, 1, 0), exposures), 0, 1)

    def predict_std_new_y(self, X: Any) -> np.ndarray:
        """Return the standard deviation (n,) of a new y, noise included, in the mixture of `predict_quantiles`.

        Infinite if the predictive distribution of a leaf has no variance, as can happen with ``a0`` of at most 1 and
        few rows in the leaf. `predict_std_over_trees` is the part due to disagreement between trees.

        Raises
        ------
        ValueError
            If the model is a classification, or X does not have the model's columns.
        """
        return np.sqrt(predictive.MixtureOverTrees(self).mean_and_variance(self.model.columns.numbers(X))[1])

    @documented
    def predict_std_over_trees(self, X: Any) -> np.ndarray:
        """Return the standard deviation, over trees, of the prediction at each row, which is the disagreement of trees.

        It includes neither the noise of y nor the uncertainty of the mean of a leaf; see `predict_std_new_y`.

        Parameters
        ----------
        {X}

        Returns
        -------
        ndarray of shape (n,), or (n, K) for class probabilities
            Accurate to about 1e-8 of the range of the predictions; the cost is that of `predict`.

        Raises
        ------
        ValueError
            If X does not fit the model's columns, or the posterior is an exact progressive mixture.
        """
        return self._std_over_trees(self.model.columns.numbers(X))

    @documented
    def sample_predictive(self, X: Any, draws: int = 1000, rng: Seed = None, *, exposure: Any = None) -> np.ndarray:
        """Draw a new y for each row from the posterior predictive distribution.

        Parameters
        ----------
        {X}
        {new_draws}
        {exposure}

        Returns
        -------
        ndarray of shape (draws, n)
            Labels of ``model.classes_``; float64 for a regression, integers under PoissonGamma.

        Raises
        ------
        ValueError
            If ``draws`` is not positive, the leaf is a loss (PacBayesLoss), or X does not have the model's columns.

        Notes
        -----
        Each draw takes a tree and the parameters of its leaves, as in `draw_expectations`, then draws a y for each row
        given these. So the rows of a draw are drawn jointly, as is needed for sums over rows, and each row by itself
        has the distribution that `predict_quantiles` describes. Cost O(draws * n * depth).

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(60.0)
        >>> post = pt.sample(pt.TreeModel(x[:, None], x > 29), 50, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> post.sample_predictive([[5.0], [50.0]], 400, rng=1).mean(axis=0).round(1).tolist()
        [0.0, 1.0]
        """
        numbers = self.model.columns.numbers(X)
        exposures = predictive.exposures_of(self.model, X, numbers, exposure)
        return predictive.sample_new_y(self, numbers, draws, rng, exposures)

    def certificate(self, delta: float = 0.05) -> certificates.Certificate:
        """Return PAC-Bayes bounds on the risk of a tree drawn from the posterior and on that of ``predict``.

        The counted rows are those not selected by ``estimation=`` (S). The posterior may depend on them, but not the
        prior: splits, leaf values and tree prior must be determined by the other rows (E) or by none. What the caller
        gave (cuts, bounds, a fixed tree, parameters of the prior, the choice of E) is assumed to satisfy this.

        Parameters
        ----------
        delta : float, default 0.05
            Probability, over the counted rows, that one of the bounds fails; in (0, 1).

        Returns
        -------
        Certificate

        Raises
        ------
        ValueError
            If delta is out of range, or the prior may depend on counted rows: the message says how, and what to give.
            `TreeModel.certificate_obstacle` returns the same reason before anything is sampled.

        Notes
        -----
        Risk, divergence and tandem loss are exact, for draws of the distinct trees weighted by their frequencies. So
        the bounds hold whether or not the chains converged. A constant ``sample_weight`` of the counted rows is a power
        of their likelihood: it changes the posterior, but each row still counts once. Cost: that of predicting the
        counted rows. Formula sheet, section 9.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x, E = np.arange(400.0), np.arange(400) % 2 == 0
        >>> leaf, cuts = pt.PacBayesLoss(5.0), pt.GridCuts([np.arange(50.0, 400.0, 50.0)])
        >>> model = pt.TreeModel(x[:, None], x > 150, leaf=leaf, split_prior=cuts, estimation=E)
        >>> post = pt.sample(model, 200, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> bool(post.certificate(0.05).vote.value < 0.2)
        True
        """
        return certificates.certify(self, delta)

    def holdout_certificate(self, X: Any, y: Any, delta: float = 0.05) -> certificates.HoldoutCertificate:
        """Return bounds on the risk of a drawn tree and of ``predict`` from held-out rows.

        For any classification model. The posterior must not depend on these rows, which cannot be checked.

        Parameters
        ----------
        X : table of shape (n, p)
            Held-out rows.
        y : array-like of shape (n,)
            Labels; one that the model does not know counts as an error.
        delta : float, default 0.05
            Probability, over these rows, that one of the bounds fails; in (0, 1).

        Returns
        -------
        HoldoutCertificate

        Raises
        ------
        ValueError
            If an argument is out of range, the model is a regression, or X and y do not fit.

        Notes
        -----
        Binomial tail inversion for ``predict`` (Langford 2005), Chernoff's bound for a drawn tree; half of delta each.
        Cost: that of ``predict_proba``.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(400.0)
        >>> model = pt.TreeModel(x[:200, None] * 2, x[:200] > 75)
        >>> post = pt.sample(model, 200, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> bool(post.holdout_certificate(x[1::2, None], x[1::2] > 150).vote.value < 0.1)
        True
        """
        return certificates.certify_holdout(self, X, y, delta)
