"""scikit-learn estimators: the sampled posterior over trees as a classifier and as a regressor."""

from __future__ import annotations

import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from ._checks import MOST, check_count, in_words, is_integer, read_numbers
from ._columns import Table, is_frame, refuse_missing
from ._validation import read_column, read_data
from .convergence import ConvergenceWarning, training_points
from .mcmc import sample
from .model import ChipmanPrior, DirichletMultinomial, LocalCuts, NormalInverseGamma, TreeModel
from .posterior import SampledPosterior, shares
from .predictive import Predictive

MOST_POINTS = 200
"""Training rows at which the Monte-Carlo error is measured, at most."""
ROWS_WITHIN = 0.9
"""Fraction of these rows whose error is at most the one reported."""
MOST_ERROR = {True: 0.05, False: 0.1}
"""Monte-Carlo error above which a classifier and a regressor warn."""


class Rows(NamedTuple):
    """The training rows as the model takes them."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    place: np.ndarray
    """(n,) int64: which of the rows given each of them is."""


class _BayesianTree(BaseEstimator):
    """What both estimators share: the input, the run, which features matter."""

    def __init__(
        self,
        *,
        tree_prior: Any = None,
        questions: Any = None,
        leaf: Any = None,
        nominal: Any = None,
        missing: str = "error",
        chains: int = 16,
        draws: int = 25,
        tune: int = 25,
        kernel: Any = "grow-prune",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.tree_prior = tree_prior
        self.questions = questions
        self.leaf = leaf
        self.nominal = nominal
        self.missing = missing
        self.chains = chains
        self.draws = draws
        self.tune = tune
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.missing == "branch"
        return tags

    def _default_leaf(self, y: np.ndarray) -> Any:
        raise NotImplementedError

    def _read_y(self, y: Any) -> np.ndarray:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Sample the posterior.

        Parameters
        ----------
        X : table of shape (n, p)
            Finite numbers, or missing ones if ``missing="branch"``; n >= 2. Columns of a pandas or polars frame that
            hold text or categories are nominal.
        y : array-like of shape (n,)
            Labels, or numbers.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0: a row of weight 2 scores as the row twice, one of weight 0 is no row. What counts rows counts
            such a row once: ``min_leaf`` and ``max_cuts`` of LocalCuts, the quantiles of GridCuts, the larger branch
            that what was never seen follows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the input or a parameter cannot be used; the message names the column and the row.
        """
        rows = self._rows(X, y, sample_weight)
        model = TreeModel(
            rows.X,
            rows.y,
            tree_prior=ChipmanPrior(0.95, 0.5) if self.tree_prior is None else self.tree_prior,
            questions=LocalCuts() if self.questions is None else self.questions,
            leaf=self._default_leaf(rows.y) if self.leaf is None else self.leaf,
            nominal=self.nominal,
            missing=self.missing,
            sample_weight=rows.weight,
        )
        self.rows_ = rows.place
        self.posterior_ = self._sample(model)
        self._describe()
        return self

    def _sample(self, model: TreeModel) -> SampledPosterior:
        if self.n_jobs is not None and not (is_integer(self.n_jobs) and self.n_jobs and abs(int(self.n_jobs)) <= MOST):
            raise ValueError(f"n_jobs={in_words(self.n_jobs)} is out of range; give an integer, not 0, or None.")
        verbose = check_count("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        with ThreadPoolExecutor(effective_n_jobs(self.n_jobs)) as executor, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return sample(
                model,
                self.draws,
                tune=self.tune,
                chains=self.chains,
                rng=int(seed),
                kernel=self.kernel,
                start="grown",
                executor=executor,
                progress=verbose > 0,
            )

    def _describe(self) -> None:
        """Which features matter, and how well the chains agree; warns if they do not."""
        post = self.posterior_
        self.feature_importances_ = shares(post.feature_inclusion())
        self.split_counts_ = post.weight_of_tree @ post.split_counts_of_tree
        self.monte_carlo_error_ = math.nan
        if post.n_chains > 1:
            of_row = post._values_se(training_points(post.model, MOST_POINTS)[1]).max(axis=1)
            self.monte_carlo_error_ = float(np.quantile(of_row, ROWS_WITHIN) / np.sqrt(post.model.target.variance))
        self._warn()

    def _warn(self) -> None:
        """Warn if chains disagree on predictions by more than a reader of them wants to know."""
        found, most = self.monte_carlo_error_, MOST_ERROR[self.posterior_.model.classes_ is not None]
        if found > most:
            needed = math.ceil(self.posterior_.n_chains * (found / most) ** 2)
            warnings.warn(
                f"predictions depend on the chain: at one training row in ten their Monte-Carlo error is {found:.3f}, "
                f"above {most}. Give more chains (chains={needed} should do) or more draws.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        """Checked rows, without those of weight zero."""
        table, y = self._read(X, y)
        place, weight = np.arange(table.n_rows), None
        if sample_weight is not None:
            given = read_numbers("sample_weight", sample_weight)
            weight = _check_sample_weight(given, y, dtype=np.float64, ensure_non_negative=True)
            place = np.flatnonzero(weight)
            if len(place) == 0:
                raise ValueError("sample_weight is 0 in every row; give weights that count some rows.")
        counted = table.take(place)
        return Rows(counted, y[place], None if weight is None else weight[place], place)

    def _read(self, X: Any, y: Any) -> tuple[Table, np.ndarray]:
        """The table, its cells converted unless some may be categories; y."""
        if is_frame(X) or self.nominal is not None:
            read_data(self, X, skip_check_array=True)
            refuse_missing(y)
            table, y = Table(X), self._read_y(y)
            if len(y) != table.n_rows:
                raise ValueError(f"X has {table.n_rows} rows and y has {len(y)}; give as many.")
            return table, y
        finite = self._finite()
        X, y = read_data(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2, ensure_all_finite=finite)
        return Table(X), self._read_y(y)

    def _finite(self) -> Any:
        """What scikit-learn is to check of the cells."""
        return "allow-nan" if self.missing == "branch" else True

    def _numbers(self, X: Any) -> np.ndarray:
        """Rows to predict as numbers (n, p)."""
        check_is_fitted(self)
        columns = self.posterior_.model.columns
        if not is_frame(X) and not columns.is_nominal.any():
            return read_data(self, X, reset=False, dtype=np.float64, order="C", ensure_all_finite=self._finite())
        read_data(self, X, reset=False, skip_check_array=True)
        return columns.numbers(X)

    def sample_predictive(self, X: Any, draws: int = 1000, rng: Any = None) -> np.ndarray:
        """Draws (draws, n) of a new y for each row: labels, or numbers; `SampledPosterior.sample_predictive` says how.

        Parameters
        ----------
        X : table of shape (n, p)
            As in `fit`.
        draws : int, default 1000
            At least 1.
        rng : int, SeedSequence, Generator or None
            Source of randomness.

        Raises
        ------
        ValueError
            If ``draws`` is not positive, the leaf is a loss, or X does not fit.
        """
        numbers = self._numbers(X)
        return self.posterior_._new_y(numbers, draws, rng)


class BayesianTreeClassifier(ClassifierMixin, _BayesianTree):
    """Classes by the posterior over decision trees, averaged over trees drawn by Metropolis sampling.

    Parameters
    ----------
    tree_prior : tree prior, optional
        Default ``ChipmanPrior(0.95, 0.5)``: larger trees than the customary ``beta = 2``, since they are averaged.
    questions : question prior, optional
        Default ``LocalCuts()``; ``LocalCuts(max_cuts=...)`` bounds the cuts of a feature on large tables.
    leaf : leaf model, optional
        Default ``DirichletMultinomial(0.5 / K)``: half a row of prior in a leaf, spread over K classes.
    nominal : column names or indices, optional
        Nominal columns beside those of text or categories in a frame; at most 63 categories each.
    missing : {"error", "branch"}, default "error"
        As of ``pt.TreeModel``: "branch" allows missing values, and each question says where they go.
    chains : int, default 16
        Chains, >= 1. Each starts from a tree grown at random, cell by cell, as the posterior of its questions says.
    draws, tune : int, default 25
        Draws kept and dropped by each chain, a hundred proposals apart.
    kernel : str or {move: weight}, default "grow-prune"
        As of ``pt.sample`` for a run of given length. The default is the cheapest; ``"local"`` mixes better and costs
        some ten times more.
    n_jobs : int or None, default None
        Chains run side by side, in threads; -1: as many as there are cores. Draws do not depend on it.
    random_state : int, RandomState or None, default None
        The same integer gives the same draws.
    verbose : int, default 0
        0: silent; 1: progress on the standard error, a bar on a terminal, else a line every 30 seconds.

    Attributes
    ----------
    posterior_ : SampledPosterior
        The draws, with all that can be asked of them (``summary``, ``map_tree``, ``to_arviz``, ``certificate``, ...).
    rows_ : ndarray of shape (m,), int64
        Row of X that each row of ``posterior_.model`` is: those of weight zero are left out.
    feature_importances_ : ndarray of shape (p,)
        Probability that a tree asks about the feature, divided by the sum over features.
    split_counts_ : ndarray of shape (p,)
        Mean number of questions of a tree about the feature.
    monte_carlo_error_ : float
        Monte-Carlo standard error of a probability, from the spread of the chains: of a row the largest over the
        classes, of the rows the 0.9 quantile over up to 200 training rows, so nine rows in ten are known at least so
        well in every class; NaN with one chain.
    classes_ : ndarray of shape (K,)
        Sorted labels.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (p,)
        Of a frame whose column names are strings.

    Raises
    ------
    ValueError
        In `fit`: if the input or a parameter cannot be used.

    Warns
    -----
    ConvergenceWarning
        If ``monte_carlo_error_`` exceeds 0.05. What `pt.sample` warns of beside that, R-hat and effective sample size,
        a few draws of many chains cannot satisfy; for inference about trees rather than prediction, take
        ``pt.sample(estimator.posterior_.model)``, which goes on until its chains agree.

    Notes
    -----
    Defaults, chosen for log loss on 13 of the tables of `benchmarks/estimators.py`, which prints the held-out loss on
    all of them beside tuned CART, a forest, bagged trees and boosting: see `benchmarks/README.md`.

    See Chipman, George and McCulloch (1998), Bayesian CART model search, JASA 93.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(60.0)
    >>> fitted = BayesianTreeClassifier(random_state=0).fit(x[:, None], np.where(x > 29, "high", "low"))
    >>> fitted.predict([[5.0], [50.0]]).tolist()
    ['low', 'high']
    """

    def _default_leaf(self, y: np.ndarray) -> Any:
        return DirichletMultinomial(0.5 / len(np.unique(y)))

    def _read_y(self, y: Any) -> np.ndarray:
        check_classification_targets(y)
        return read_column(y, warn=True)

    @property
    def classes_(self) -> np.ndarray:
        """Sorted labels (K,)."""
        check_is_fitted(self, "posterior_")
        return self.posterior_.model.classes_

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predictive probabilities (n, K) of the classes; columns follow ``classes_``."""
        numbers = self._numbers(X)
        return self.posterior_._values(numbers)

    def predict(self, X: Any) -> np.ndarray:
        """Most probable labels (n,)."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]


class BayesianTreeRegressor(RegressorMixin, _BayesianTree):
    """Numbers by the posterior over decision trees, averaged over trees drawn by Metropolis sampling.

    Parameters
    ----------
    leaf : leaf model, optional
        Default ``NormalInverseGamma()``, a mean and a variance for each leaf; ``NormalSharedVariance()`` has one
        variance for all.
    tree_prior, questions, nominal, missing, chains, draws, tune, kernel, n_jobs, random_state, verbose
        As for `BayesianTreeClassifier`.

    Attributes
    ----------
    posterior_, rows_, feature_importances_, split_counts_, n_features_in_, feature_names_in_
        As for `BayesianTreeClassifier`.
    monte_carlo_error_ : float
        Monte-Carlo standard error of a mean, in standard deviations of y, from the spread of the chains: the 0.9
        quantile over up to 200 training rows; NaN with one chain.

    Raises
    ------
    ValueError
        In `fit`: if the input or a parameter cannot be used.

    Warns
    -----
    ConvergenceWarning
        If ``monte_carlo_error_`` exceeds 0.1.

    Notes
    -----
    `benchmarks/estimators.py` prints the RMSE on seven tables beside tuned CART, a forest, bagged trees and boosting.
    The default prior wants shallow trees: where the noise is low and deep trees fit, CART does better; try
    ``tree_prior=ChipmanPrior(0.99, 0)`` there. How often intervals hold a new y: `benchmarks/intervals.py`.

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

    def _default_leaf(self, y: np.ndarray) -> Any:
        return NormalInverseGamma()

    def _read_y(self, y: Any) -> np.ndarray:
        return read_column(y, warn=True, dtype=np.float64)

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predictive means (n,) of a new y; with ``return_std`` also its standard deviations (n,).

        As in scikit-learn's BayesianRidge the deviation is that of a new y, noise and all, which posteriors call
        `predict_std_new_y`; how far trees disagree about the mean is ``posterior_.predict_std_over_trees``.
        """
        numbers = self._numbers(X)
        if not return_std:
            return self.posterior_._values(numbers)[:, 0]
        mean, variance = Predictive(self.posterior_).mean_and_variance(numbers)
        return mean, np.sqrt(variance)

    def predict_quantiles(self, X: Any, q: Any) -> np.ndarray:
        """Quantiles of the predictive law of a new y.

        Parameters
        ----------
        X : table of shape (n, p)
            As in `fit`.
        q : float or array-like of shape (m,)
            Probabilities in (0, 1).

        Returns
        -------
        ndarray of shape (n, m); (n,) for a single number q

        Raises
        ------
        ValueError
            If q is out of range, or X does not fit.

        Notes
        -----
        `SampledPosterior.predict_quantiles` says what the law is and what it costs.
        """
        numbers = self._numbers(X)
        return Predictive(self.posterior_).quantiles(numbers, q)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Ends (n, 2) of the central interval that holds a new y with probability ``coverage``, at least so for counts.

        Raises
        ------
        ValueError
            If ``coverage`` is not in (0, 1), or X does not fit.
        """
        numbers = self._numbers(X)
        return Predictive(self.posterior_).interval(numbers, coverage)
