"""scikit-learn estimators: the posterior over trees as a classifier and as a regressor, and their base class."""

from __future__ import annotations

import math
import sys
import warnings
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, overload

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from ...core.checks import (
    MAX_COUNT,
    Seed,
    central_fractions,
    check_choice,
    check_count,
    check_number,
    is_integer,
    read_numbers,
    refuse_other_rows,
    repr_of,
)
from ...core.texts import SKIPPED_PACKAGES, warn
from ...mcmc.sampling import sample
from ...model import DirichletMultinomial, LocalCuts, NormalInverseGamma, TreeModel
from ...model.leaf.base import Leaf
from ...model.rows import number_target, refuse_infinite_y
from ...posterior.ess import ConvergenceWarning
from ...posterior.rows.predictions import (
    credible_interval_at,
    draw_expectations_at,
    law_of_new_y,
    mean_and_std_of_new_y,
    predicted_labels,
    quantiles_at,
    sample_predictive_at,
    std_over_trees,
)
from ...posterior.sampled import SampledPosterior, values_se
from ...posterior.trees.distances import evenly_spaced_integers, weighted_quantile, weights_of_rows
from ...posterior.trees.features import fractions
from ...table.columns import refuse_missing
from ...table.reader import Table, as_frame, holds_categories, is_frame
from ...table.validation import read_column, read_data
from ..model_choice import solve_if_small
from . import parts
from .parts import Choice, chipman_grid, choose_by_evidence, choose_power, number_leaf_grid, search_starts

if TYPE_CHECKING:
    from exact import ExactPosterior

MAX_ERROR_ROWS = 200  # largest number of training rows at which the Monte-Carlo error is measured
ERROR_QUANTILE = 0.9  # fraction of these training rows whose Monte-Carlo error is at most ``monte_carlo_error_``
# default number of trees drawn, its minimum, and the number of rows above which it falls, because trees are larger
DEFAULT_TREES, MIN_TREES, ROWS_OF_FEWER_TREES = 1000, 100, 20_000
# default of ``work``, and the number of training rows above which it grows with the square root of this number
DEFAULT_WORK, ROWS_OF_MORE_WORK = 8e7, 1000
MAX_SEARCH_ROWS = 2000  # largest number of rows that are used to choose a prior
# largest number of cells for which a fit is exact, and largest number of splits at which it predicts without draws
MAX_EXACT_CELLS, MAX_EXACT_SPLITS = 100_000, 50_000
# default tree prior and split prior; the default leaf depends on the estimator
DEFAULT_PRIORS = {"tree_prior": parts.DEFAULT_TREE_PRIOR, "split_prior": LocalCuts()}
# names of the parameters of an estimator that have parameters themselves
COMPOSITE_PARAMETERS = (*DEFAULT_PRIORS, "leaf")


class TrainingRows(NamedTuple):
    """Checked training rows without those of weight zero."""

    X: Any  # table of shape (n, p)
    y: np.ndarray  # (n,) labels or numbers
    weight: np.ndarray | None  # (n,) weights of the rows, or None if no weights were given
    row_index: np.ndarray  # (n,) int64: index of each row in the X of the caller

    def sample(self, most: int, seed: int, *, each_class: bool) -> TrainingRows:
        """Return `most` rows drawn at random without replacement, in their order, or all rows if there are not more."""
        n = len(self.y)
        if n <= most:
            return self
        chosen_rows = np.random.default_rng(seed).permutation(n)[:most]
        if each_class:
            classes, first = np.unique(self.y, return_index=True)
            chosen_rows = np.append(chosen_rows, first[~np.isin(classes, self.y[chosen_rows])])
        chosen_rows = np.sort(chosen_rows)
        weight = None if self.weight is None else self.weight[chosen_rows]
        return TrainingRows(Table(self.X).take(chosen_rows), self.y[chosen_rows], weight, self.row_index[chosen_rows])

    @property
    def variance(self) -> float:
        """Weighted variance of y, or 1 if that is zero. Raises a ValueError if it is too small for a prior."""
        return number_target(self.y, self.weight, None).prior_variance


def default_work(n_rows: int) -> float:
    """Return the default of ``work``: 8e7, times the square root of n_rows / 1000 above 1,000 training rows."""
    # `work` bounds the length of a run: it is about the number of rows that its moves visit in total
    return DEFAULT_WORK * math.sqrt(max(n_rows, ROWS_OF_MORE_WORK) / ROWS_OF_MORE_WORK)


def default_trees(n_rows: int) -> int:
    """Return the default number of trees drawn: 1000, above 20,000 rows 1000 * 20,000 / n_rows, but at least 100."""
    return max(MIN_TREES, DEFAULT_TREES * ROWS_OF_FEWER_TREES // max(n_rows, ROWS_OF_FEWER_TREES))


def exact_posterior(model: TreeModel, n_trees: int, seed: int) -> ExactPosterior | SampledPosterior | None:
    """Return the exact posterior, or ``n_trees`` independent draws from it if it has over MAX_EXACT_SPLITS splits."""
    # predicting with very many splits would be slow; None if the sum over all trees needs more than MAX_EXACT_CELLS
    # cells, or the model has no exact sum
    truth = solve_if_small(model, MAX_EXACT_CELLS)
    return truth if truth is None or truth.graph.n_edges <= MAX_EXACT_SPLITS else truth.sample(n_trees, seed)


# file name and line number of each line of user programs whose fits have warned
_WARNED_LINES: set[tuple[str, int]] = set()


def _may_warn() -> bool:
    """Return True if a fit may warn, and record the line of the user's program that called it."""
    # False if scikit-learn called `fit` and a fit from the same line has warned before: a search over many fits, or a
    # cross-validation, gives one warning
    frame: FrameType | None = sys._getframe()
    is_search = False
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in (*SKIPPED_PACKAGES, "sklearn", "joblib"):
            break
        is_search |= package == "sklearn"
        frame = frame.f_back
    line = ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    if is_search and line in _WARNED_LINES:
        return False
    _WARNED_LINES.add(line)
    return True


class BayesianTree(BaseEstimator):
    """Base class of both estimators: parameters, input, model, run, feature importances."""

    _leaf_class: type[Leaf]  # class of the default leaf, whose parameters `set_params` sets if ``leaf`` is None
    posterior_: SampledPosterior | ExactPosterior  # the posterior
    prior_: Choice  # tree prior, leaf and power of the model
    rows_: np.ndarray  # (m,) int64: index in X of each row of the model, without rows of weight zero
    split_counts_: np.ndarray  # (p,) mean number of splits of a tree on each feature
    # Monte-Carlo standard error of a prediction, in standard deviations of y; 0 if exact, NaN with one chain
    monte_carlo_error_: float
    n_features_in_: int  # number of columns of X
    feature_names_in_: np.ndarray  # (p,) names of the columns, if X is a frame whose names are strings

    def __init__(
        self,
        *,
        tree_prior: Any = None,
        split_prior: Any = None,
        leaf: Any = None,
        prior: str = "auto",
        power: Any = 1.0,
        max_depth: int | None = None,
        min_samples_leaf: Any = 1,
        nominal: Any = None,
        missing: str = "error",
        n_estimators: int | None = None,
        chains: int = 4,
        work: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.tree_prior = tree_prior
        self.split_prior = split_prior
        self.leaf = leaf
        self.prior = prior
        self.power = power
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.nominal = nominal
        self.missing = missing
        self.n_estimators = n_estimators
        self.chains = chains
        self.work = work
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, such as ``chains``.

        With ``deep`` also return those of the tree prior, the split prior and the leaf, such as ``tree_prior__beta``,
        unless these are None. `set_params` also sets parameters of those that are None.
        """
        out = super().get_params(deep=False)
        for name in COMPOSITE_PARAMETERS if deep else ():
            part = out[name]
            if is_dataclass(part) and not isinstance(part, type):
                out |= {f"{name}__{field.name}": getattr(part, field.name) for field in fields(part) if field.init}
        return out

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, such as ``chains``, or ``tree_prior__beta`` for a parameter of the tree prior.

        If the tree prior, split prior or leaf is None, it becomes the default with these parameters, and
        ``prior="auto"`` no longer chooses it.
        """
        inner: dict[str, dict[str, Any]] = {}
        for key in [key for key in params if key.partition("__")[0] in COMPOSITE_PARAMETERS and "__" in key]:
            name, _, field = key.partition("__")
            inner.setdefault(name, {})[field] = params.pop(key)
        super().set_params(**params)
        for name, values in inner.items():
            part, is_default = getattr(self, name), ""
            if part is None:
                part, is_default = DEFAULT_PRIORS.get(name) or self._leaf_class(), "by default "
            names = [field.name for field in fields(part) if field.init] if is_dataclass(part) else []
            unknown = sorted(set(values) - set(names))
            if unknown:
                what = f"which has {', '.join(names)}; give one of these, or" if names else "so"
                raise ValueError(
                    f"Invalid parameter {name}__{unknown[0]}: {name} is {is_default}{repr_of(part)}, {what} give "
                    f"{name}= whole."
                )
            setattr(self, name, replace(part, **values))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.missing == "branch"
        return tags

    def _default_leaf(self, y: np.ndarray) -> Any:
        """Return the leaf that is used if the user gives none and none is chosen by the evidence."""
        raise NotImplementedError

    def _leaf_models(self, rows: TrainingRows) -> list[Any]:
        """Return the leaf models, of different parameters, among which ``prior="auto"`` chooses if ``leaf`` is None."""
        raise NotImplementedError

    def _starts(self, first: Choice, tree_priors: list[Any], rows: TrainingRows) -> list[Choice]:
        return [first]

    def _read_y(self, y: Any) -> np.ndarray:
        """Check y, and return it as an array (n,)."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Compute the posterior, exactly if this is fast, otherwise by sampling.

        Parameters
        ----------
        X : table of shape (n, p)
            As for `TreeModel`: numbers, which are finite, or may be missing if ``missing="branch"``, text, dates or
            categories; n >= 2. If X, y and sample_weight are pandas objects, their indices must be equal, in the same
            order.
        y : array-like of shape (n,)
            Labels, or numbers.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0: a row of weight 2 has the score of two such rows, a row of weight 0 is ignored. Numbers of
            rows do not depend on the weights, in ``min_samples_leaf``, in ``min_leaf`` and ``max_cuts`` of LocalCuts,
            in the quantiles of GridCuts, and in the choice of the larger branch, which unseen values follow.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the input or a parameter is invalid; the message names the column and the row.
        """
        of_classes, seed = is_classifier(self), self._check_run()
        parts.check_leaf_fits(self.leaf, self.power, for_classes=of_classes)
        rows, n_given = self._rows(X, y, sample_weight)
        n = len(rows.y)
        split_prior = parts.stated_split_prior(self.split_prior, self.min_samples_leaf, n)

        def build(search_rows: TrainingRows, choice: Choice) -> TreeModel:
            """Return the model of some rows with the tree prior, leaf and power of a choice."""
            weight = search_rows.weight
            if choice.power != 1.0:
                weight = choice.power * (np.ones(len(search_rows.y)) if weight is None else weight)
            return TreeModel(
                search_rows.X,
                search_rows.y,
                tree_prior=choice.tree_prior,
                split_prior=parts.thin_split_prior(split_prior, len(search_rows.y) / n),
                leaf=parts.leaf_of_rows(choice.leaf, search_rows.row_index, n_given),
                nominal=self.nominal,
                missing=self.missing,
                sample_weight=weight,
            )

        trees = default_trees(n) if self.n_estimators is None else int(self.n_estimators)
        draws, work = -(-trees // int(self.chains)), default_work(n) if self.work is None else float(self.work)
        with ThreadPoolExecutor(effective_n_jobs(self.n_jobs)) as executor:
            search_rows = rows.sample(MAX_SEARCH_ROWS, seed, each_class=of_classes)
            self.prior_ = self._choose(partial(build, search_rows), search_rows, seed, executor)
            model = build(rows, self.prior_)
            exact_or_independent = exact_posterior(model, draws * int(self.chains), seed)
            if exact_or_independent is None:
                self.posterior_ = self._sample(model, draws, work, seed, executor)
            else:
                self.posterior_ = exact_or_independent
        self.rows_ = rows.row_index
        self._set_error_and_counts(independent=exact_or_independent is not None)
        return self

    def _check_run(self) -> int:
        """Check the parameters of the run before anything is computed, and return its seed."""
        if self.n_jobs is not None and not (is_integer(self.n_jobs) and 0 < abs(int(self.n_jobs)) <= MAX_COUNT):
            raise ValueError(f"n_jobs={repr_of(self.n_jobs)} is out of range; give an integer, not 0, or None.")
        check_choice("prior", self.prior, ("auto", "stated"))
        if not (isinstance(self.power, str) and self.power == "auto"):
            check_number("power", self.power, "a number > 0, or 'auto'", 5e-324)
        check_count("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0)
        check_count("chains", self.chains)
        if self.n_estimators is not None:
            check_count("n_estimators", self.n_estimators, or_none=True)
        if self.work is not None:
            check_number("work", self.work, "rows, >= 1, or None", 1.0)
        try:
            return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        except ValueError:
            raise ValueError(
                f"random_state={repr_of(self.random_state)} is not a seed; give an integer in [0, 2**32), a numpy "
                "RandomState, or None."
            ) from None

    def _choose(self, build: Any, rows: TrainingRows, seed: int, executor: Executor) -> Choice:
        """Return the tree prior, the leaf and the power: those that the user gave, otherwise chosen by the data."""
        stated = parts.stated_tree_prior(self.tree_prior, self.max_depth)
        leaf = self._default_leaf(rows.y) if self.leaf is None else self.leaf
        choice = Choice(stated, leaf, 1.0 if self.power == "auto" else float(self.power))
        if self.prior == "auto" and (self.tree_prior is None or self.leaf is None):
            tree_priors = chipman_grid(self.max_depth) if self.tree_prior is None else [stated]
            leaf_models = self._leaf_models(rows) if self.leaf is None else [leaf]
            starts = self._starts(choice, tree_priors, rows)
            choice = choose_by_evidence(build, starts, tree_priors, leaf_models, seed, executor)
        if self.power == "auto":
            choice = choose_power(build, choice, seed, executor)
        return choice

    def _sample(self, model: TreeModel, draws: int, work: float, seed: int, executor: Executor) -> SampledPosterior:
        """Draw ``draws`` trees per chain, and warn in one line if the chains disagree. Other warnings are passed on."""
        chains, progress = int(self.chains), self.verbose > 0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            post = sample(model, draws, chains=chains, rng=seed, work=work, executor=executor, progress=progress)
        for warning in caught:
            if not issubclass(warning.category, ConvergenceWarning):
                warn(str(warning.message), warning.category)
        if any(issubclass(warning.category, ConvergenceWarning) for warning in caught) and _may_warn():
            warn(
                f"{type(self).__name__}: {post.draws.caveat} monte_carlo_error_ is the error of the predictions, "
                "posterior_.diagnosis lists the quantities.",
                ConvergenceWarning,
            )
        return post

    def _set_error_and_counts(self, *, independent: bool) -> None:
        """Set ``split_counts_`` and ``monte_carlo_error_`` after a fit."""
        # unless draws are independent, the error is estimated from the variance between chains
        post = self.posterior_
        if not isinstance(post, SampledPosterior):
            self.split_counts_, self.monte_carlo_error_ = post.expected_splits(), 0.0
            return
        self.split_counts_ = post.draws.weight_of_tree @ post.draws.split_counts_of_tree
        self.monte_carlo_error_ = math.nan
        if independent or post.n_chains > 1:
            rows = evenly_spaced_integers(post.model.n_rows, MAX_ERROR_ROWS)
            points = post.model.row_numbers(rows)
            if independent:
                std = std_over_trees(post.draws, points).reshape(len(points), -1)
                of_row = std / np.sqrt(post.draws.tree_of_draw.size)
            else:
                of_row = values_se(post.draws, points)
            weight = weights_of_rows(post.model.target.weights[rows])
            error = float(weighted_quantile(of_row.max(axis=1), weight, ERROR_QUANTILE))
            self.monte_carlo_error_ = error / float(np.sqrt(post.model.target.variance))

    @property
    def feature_importances_(self) -> np.ndarray:
        """``split_counts_`` divided by its sum, (p,)."""
        check_is_fitted(self)
        return fractions(self.split_counts_)

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[TrainingRows, int]:
        """Return the checked rows without those of weight zero, and the number of rows of X."""
        refuse_other_rows(X=X, y=y, sample_weight=sample_weight, exposure=getattr(self.leaf, "exposure", None))
        table, y = self._table_and_y(X, y)
        row_index, weight = np.arange(table.n_rows), None
        if sample_weight is not None:
            numbers = read_numbers("sample_weight", sample_weight)
            weight = _check_sample_weight(numbers, y, dtype=np.float64, ensure_non_negative=True)
            row_index = np.flatnonzero(weight)
            if len(row_index) == 0:
                raise ValueError("sample_weight is 0 in every row; give weights that count some rows.")
        positive_rows = table.take(row_index)
        weight = None if weight is None else weight[row_index]
        return TrainingRows(positive_rows, y[row_index], weight, row_index), table.n_rows

    def _table_and_y(self, X: Any, y: Any) -> tuple[Table, np.ndarray]:
        """Return X as a table, and y, both checked. X becomes float64 unless columns may be categories or dates."""
        X = as_frame(X)
        if is_frame(X) or self.nominal is not None or holds_categories(X):
            read_data(self, X, skip_check_array=True)
            refuse_missing(y)
            table, y = Table(X), self._read_y(y)
            if table.n_rows == 0:
                raise ValueError("X has no rows; a tree needs at least 2 rows to choose from.")
            if len(y) != table.n_rows:
                raise ValueError(f"X has {table.n_rows} rows and y has {len(y)}; give as many.")
            return table, y
        finite = self._finiteness()
        X, y = read_data(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2, ensure_all_finite=finite)
        return Table(X), self._read_y(y)

    def _finiteness(self) -> Any:
        """Return ``ensure_all_finite`` for scikit-learn's checks: "allow-nan" if values may be missing, else True."""
        return "allow-nan" if self.missing == "branch" else True

    def _numbers(self, X: Any) -> np.ndarray:
        """Check that the estimator is fitted, and return the rows to predict as numbers (n, p)."""
        check_is_fitted(self)
        columns, X = self.posterior_.model.columns, as_frame(X)
        if not is_frame(X) and not columns.is_nominal.any() and columns.is_plain and not holds_categories(X):
            return read_data(self, X, reset=False, dtype=np.float64, order="C", ensure_all_finite=self._finiteness())
        read_data(self, X, reset=False, skip_check_array=True)
        return columns.numbers(X)

    def sample_predictive(self, X: Any, draws: int = 1000, rng: Seed = None) -> np.ndarray:
        """Draw new y (draws, n) for the rows of X from the posterior predictive distribution, as labels or numbers.

        Method and cost: `SampledPosterior.sample_predictive`.
        """
        return sample_predictive_at(self.posterior_, self._numbers(X), draws, rng)

    def credible_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Return credible intervals of the mean of y (n, 2), or of the class probabilities (n, K, 2).

        They have posterior probability ``coverage``, in (0, 1), over trees and leaf parameters. Classes are in the
        order of ``classes_``. Method, errors and cost: `SampledPosterior.credible_interval`.
        """
        return credible_interval_at(self.posterior_, self._numbers(X), coverage)

    def draw_expectations(self, X: Any, draws: int = 1000, rng: Seed = None) -> np.ndarray:
        """Draw the mean of y (draws, n), or class probabilities (draws, n, K), over trees and leaf parameters.

        Errors and cost: `SampledPosterior.draw_expectations`.
        """
        return draw_expectations_at(self.posterior_, self._numbers(X), draws, rng)


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

    `benchmarks/README.md` (Estimators) compares the held-out loss on 21 tables with tuned CART, a forest, bagged trees
    and boosting.

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
        n_classes = len(np.unique(rows.y))
        return [DirichletMultinomial(n / n_classes) for n in parts.PSEUDO_COUNT_GRID]

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
        return self.posterior_._rows.values(numbers)

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

    `benchmarks/README.md` (Estimators) compares the RMSE on fifteen tables with tuned CART, a forest, bagged trees,
    boosting and BART, and has the coverage of intervals.

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
            return self.posterior_._rows.values(numbers)[:, 0]
        return mean_and_std_of_new_y(self.posterior_._rows, numbers)

    def predict_quantiles(self, X: Any, q: Any) -> np.ndarray:
        """Return quantiles (n, m) of the distribution of a new y for probabilities q (m,), or (n,) for a number q.

        Range of q, distribution and cost: `SampledPosterior.predict_quantiles`.
        """
        numbers, rows = self._numbers(X), self.posterior_._rows
        return quantiles_at(rows, law_of_new_y(rows), numbers, q)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Return the ends (n, 2) of the central interval of a new y, which contains it with probability ``coverage``.

        ``coverage`` is in (0, 1). Intervals of counts have this probability or more.
        """
        return self.predict_quantiles(X, central_fractions(coverage))
