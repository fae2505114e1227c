"""scikit-learn estimators: the posterior over trees as a classifier and as a regressor."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ...model import DirichletMultinomial, NormalInverseGamma
from ...model.target import refuse_infinite_y
from ...posterior.rows.new_rows import predicted_labels
from ...posterior.rows.predictive import MixtureOverTrees
from ...table.validation import read_column
from .base import BayesianTree, TrainingRows
from .parts import Choice, class_leaf_grid, number_leaf_grid, search_starts


class BayesianTreeClassifier(ClassifierMixin, BayesianTree):
    """Classifier that averages over the posterior over decision trees.

    The model is a `pt.TreeModel`; a tree prior and leaf pseudo-counts that are not given are chosen by the evidence.
    The posterior is computed by `exact.solve` where this is fast, otherwise by ``pt.sample``'s default run, which ends
    when its chains agree, or, with a warning, when its work is used up.

    Parameters
    ----------
    tree_prior : tree prior, optional
        Default ``ChipmanPrior(0.95, 0.5)`` or the choice of ``prior``. `set_params` sets its parameters as
        ``tree_prior__alpha``, ..., and likewise those of the other parts, ``split_prior__max_cuts``, ... and
        ``leaf__alpha``, .... A part that is None becomes its default with these parameters (``LocalCuts()`` and
        ``DirichletMultinomial()`` for these two), and ``prior`` does not choose it.
    split_prior : split prior, optional
        Default ``LocalCuts()``; with more than 20,000 rows ``LocalCuts(max_cuts=254)``, because fewer cuts of a
        feature, at quantiles, make fits faster.
    leaf : leaf model, optional
        Default ``DirichletMultinomial(0.5 / K)``, half a pseudo-count per leaf in total, divided among K classes, or
        the choice of ``prior``.
    prior : {"auto", "stated"}, default "auto"
        How a tree prior or a leaf that is not given is found. "auto": from a grid, by the evidence of the training rows
        (Notes). "stated": the defaults above.
    power : float > 0 or "auto", default 1.0
        Power of the likelihood: below 1 each row has less influence, which is appropriate for misspecified models
        (Grünwald 2012). "auto": 1, 1/2, 1/4 or 1/8, by the predictive density of left-out rows, which is not available
        for ``PacBayesLoss`` and ``NormalSharedVariance``.
    max_depth : int or None, default None
        Largest depth of a leaf, >= 0.
    min_samples_leaf : int or float, default 1
        Smallest number of rows in a leaf, or, in (0, 1), their fraction of all rows.
    nominal : column names or indices, optional
        Nominal columns in addition to those of text or categories in a frame; at most 63 categories each.
    missing : {"error", "branch"}, default "error"
        As for ``pt.TreeModel``: "branch" allows missing values, and each split says where they go.
    n_estimators : int, optional
        Number of trees drawn by all chains together, >= 1, rounded up to a multiple of the number of chains; default
        1000, fewer for more than 20,000 rows, 100 for 200,000.
    chains : int, default 4
        Number of chains, >= 1.
    work : float, optional
        Approximate limit on the rows that the fit visits, >= 1, on any machine; default 8e7 up to 1,000 rows, above
        that proportional to the square root of their number: some five seconds of processor time for 1,000 rows of 10
        features.
    n_jobs : int or None, default None
        Number of chains that run at the same time, in threads; -1: as many as there are cores. Draws do not depend on
        it.
    random_state : int, RandomState or None, default None
        The same integer gives the same draws.
    verbose : int, default 0
        0: silent; 1: progress on the standard error, a bar on a terminal, else a line every 30 seconds.

    Attributes
    ----------
    posterior_ : SampledPosterior or exact.ExactPosterior
        The posterior, with all its methods (``map_tree``, ``draw_trees``, ``summary``, ``to_arviz``, ...).
    prior_ : Choice
        The ``tree_prior``, ``leaf`` and ``power`` of the model.
    rows_ : ndarray of shape (m,), int64
        Index in X of each row of ``posterior_.model``, which does not have the rows of weight zero.
    feature_importances_ : ndarray of shape (p,)
        ``split_counts_`` divided by its sum.
    split_counts_ : ndarray of shape (p,)
        Mean number of splits of a tree on the feature.
    monte_carlo_error_ : float
        Monte-Carlo standard error of predicted probabilities, from the variance between chains. For nine of ten
        training rows, of up to 200, the errors of all classes are at most this large. 0 for an exact posterior, NaN
        with one chain.
    classes_ : ndarray of shape (K,)
        Sorted labels.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (p,)
        Names of the columns, only if X is a frame whose column names are strings.

    Raises
    ------
    ValueError
        In `fit`: if the input or a parameter is invalid.

    Warns
    -----
    ConvergenceWarning
        If the chains do not agree, or have too few draws to judge. Deep trees on many rows seldom converge within the
        default ``work``; ``monte_carlo_error_`` shows how accurate the predictions are nevertheless. A search over many
        fits warns once.

    Notes
    -----
    ``prior="auto"`` is empirical Bayes by expectation-maximisation: a short run draws trees, the prior and the leaf
    under which these are most probable are used for the next run, and so on, up to five times. Of more than 2,000 rows
    a random sample of 2,000 is used, with one row of each class that it lacks, and ``min_samples_leaf`` is scaled
    accordingly. None of this counts in ``work``. The grid: alpha and beta of ``ChipmanPrior`` from (0.95, 2) to (0.99,
    0), pseudo-counts of a leaf from .001 to 8. A prior chosen by the training rows is not valid for a certificate.

    `benchmarks/estimators.py` compares the held-out loss on 21 tables with tuned CART, a forest, bagged trees, boosting
    and BART: see `benchmarks/README.md`.

    See Chipman, George and McCulloch (1998), Bayesian CART model search, JASA 93; Grünwald (2012), The safe Bayesian,
    ALT.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(60.0)
    >>> fitted = BayesianTreeClassifier(random_state=0).fit(x[:, None], np.where(x > 29, "high", "low"))
    >>> fitted.predict([[5.0], [50.0]]).tolist()
    ['low', 'high']
    """

    _leaf_class = DirichletMultinomial

    def _default_leaf(self, y: np.ndarray) -> Any:
        return DirichletMultinomial(0.5 / len(np.unique(y)))

    def _leaf_models(self, rows: TrainingRows) -> list[Any]:
        return class_leaf_grid(len(np.unique(rows.y)))

    def _read_y(self, y: Any) -> np.ndarray:
        check_classification_targets(y)
        return read_column(y, warn=True)

    @property
    def classes_(self) -> np.ndarray:
        """Sorted labels, (K,)."""
        check_is_fitted(self, "posterior_")
        assert self.posterior_.model.classes_ is not None
        return self.posterior_.model.classes_

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the predictive probabilities (n, K) of the classes, in the order of ``classes_``."""
        numbers = self._numbers(X)
        if len(self.classes_) == 1:
            # a sum over trees would not be exactly one
            return np.ones((len(numbers), 1))
        return self.posterior_._values(numbers)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable labels (n,), or the median ones of ordered classes."""
        # raises an error if the estimator is not fitted
        proba = self.predict_proba(X)
        return predicted_labels(self.posterior_.model, proba)


class BayesianTreeRegressor(RegressorMixin, BayesianTree):
    """Regressor that averages over the posterior over decision trees.

    Model and posterior are constructed as by `BayesianTreeClassifier`.

    Parameters
    ----------
    leaf : leaf model, optional
        Default ``NormalInverseGamma()``, a mean and a variance for each leaf, or the choice of ``prior``;
        ``NormalSharedVariance()`` has one variance for all leaves, ``PoissonGamma()`` is for counts. `set_params` sets
        its parameters as ``leaf__k0``, ..., starting from ``NormalInverseGamma()`` if none is given.
    tree_prior, split_prior, prior, power, max_depth, min_samples_leaf, nominal, missing, n_estimators, chains, work,
    n_jobs, random_state, verbose
        As for `BayesianTreeClassifier`.

    Attributes
    ----------
    posterior_, prior_, rows_, feature_importances_, split_counts_, n_features_in_, feature_names_in_
        As for `BayesianTreeClassifier`.
    monte_carlo_error_ : float
        Monte-Carlo standard error of a predicted mean, in standard deviations of y, from the variance between chains:
        the 0.9 quantile over up to 200 training rows; 0 for an exact posterior, NaN with one chain.

    Raises
    ------
    ValueError
        In `fit`: if the input or a parameter is invalid.

    Warns
    -----
    ConvergenceWarning
        As for `BayesianTreeClassifier`.

    Notes
    -----
    ``prior="auto"`` chooses, besides the tree prior, the noise of a leaf: its fraction r of the variance of y, from
    4^-7 to 1, and how similar it is across leaves: ``NormalInverseGamma(k0=r, a0=a, b0=a r var(y))`` with a from 3/2
    (separate variances) to 80 (nearly one variance). r is never so small that the noise would be below the rounding of
    y, as estimated from the smallest gap between two values. The search starts from r = 1/4, 1/16 and 1/64, and the
    result with the highest predictive density of left-out rows is taken.

    `benchmarks/estimators.py` compares the RMSE on fifteen tables with tuned CART, a forest, bagged trees, boosting and
    BART. `benchmarks/estimators.py` measures the coverage of intervals.

    See Chipman, George and McCulloch (1998), Bayesian CART model search, JASA 93.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(60.0)
    >>> fitted = BayesianTreeRegressor(random_state=0).fit(x[:, None], np.where(x > 29, 5.0, 1.0) + np.sin(x))
    >>> fitted.predict([[5.0], [50.0]]).round(0).tolist()
    [1.0, 5.0]
    >>> fitted.predict_interval([[5.0], [50.0]], 0.9).shape
    (2, 2)
    """

    _leaf_class = NormalInverseGamma

    def _default_leaf(self, y: np.ndarray) -> Any:
        return NormalInverseGamma()

    def _leaf_models(self, rows: TrainingRows) -> list[Any]:
        return number_leaf_grid(rows.y, rows.variance)

    def _starts(self, first: Choice, tree_priors: list[Any], rows: TrainingRows) -> list[Choice]:
        return search_starts(first, tree_priors, rows.variance) if self.leaf is None else [first]

    def _read_y(self, y: Any) -> np.ndarray:
        column = read_column(y, warn=True)
        try:
            numbers = column.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"y is not numeric ({error}); give numbers, or take BayesianTreeClassifier.") from error
        refuse_infinite_y(numbers)
        return numbers

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> np.ndarray: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...
    @overload
    def predict(self, X: Any, return_std: bool) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...
    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return the predictive means (n,) of a new y, and with ``return_std`` its standard deviations (n,).

        As in scikit-learn's BayesianRidge the standard deviation is that of a new y, including noise, the same as
        ``posterior_.predict_std_new_y``. For the disagreement of trees use ``posterior_.predict_std_over_trees``.
        """
        numbers = self._numbers(X)
        if not return_std:
            return self.posterior_._values(numbers)[:, 0]
        mean, variance = MixtureOverTrees(self.posterior_).mean_and_variance(numbers)
        return mean, np.sqrt(variance)

    def predict_quantiles(self, X: Any, q: Any) -> np.ndarray:
        """Return quantiles (n, m) of the distribution of a new y for probabilities q (m,), or (n,) for a number q.

        Range of q, distribution and cost: `SampledPosterior.predict_quantiles`.
        """
        return MixtureOverTrees(self.posterior_).quantiles(self._numbers(X), q)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Return the ends (n, 2) of the central interval of a new y, which contains it with probability ``coverage``.

        ``coverage`` is in (0, 1). Intervals of counts have this probability or more.
        """
        return MixtureOverTrees(self.posterior_).interval(self._numbers(X), coverage)
