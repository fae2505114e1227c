"""Base of both estimators: the input, the model, the choice of the prior, the run, and its report."""

from __future__ import annotations

import math
import warnings
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from ...core.checks import (
    MOST,
    Seed,
    check_choice,
    check_count,
    check_number,
    in_words,
    is_integer,
    read_numbers,
    refuse_other_rows,
)
from ...core.warn import warn
from ...mcmc.sampling import sample
from ...model import TreeModel
from ...model.data import number_target
from ...posterior.convergence import objections
from ...posterior.ess import ConvergenceWarning
from ...posterior.rows.predictive import sample_new_y
from ...posterior.sampled import SampledPosterior, fractions
from ...posterior.trees.cells import training_points
from ...table.labels import refuse_missing
from ...table.reader import Table, frame_of, holds_categories, is_frame
from ...table.validation import read_data
from .parts import WithParts, check_leaf, leaf_of_rows, stated_split_prior, stated_tree_prior, thinned
from .prior_search import Choice, choose, choose_power, tree_priors

if TYPE_CHECKING:
    from exact import ExactPosterior

MOST_POINTS = 200
"""Training rows at which the Monte-Carlo error is measured, at most."""
ROWS_WITHIN = 0.9
"""Fraction of these rows whose error is at most the one reported."""
TREES, FEWEST_TREES, TREES_ROWS = 1000, 100, 20_000
"""Trees drawn from so many rows at most; from more they are fewer, as trees are larger, but never below so few."""
WORK, WORK_ROWS = 8e7, 1000
"""Rows that a fit to so many rows visits at most; to more rows it is more, by the root of their number."""
MOST_SEARCHED = 2000
"""Rows by which a prior is chosen, at most."""
MOST_CELLS, MOST_SPLITS = 100_000, 50_000
"""Cells up to which the sum over all trees is done, and splits up to which it also predicts."""


class Rows(NamedTuple):
    """The training rows as the model takes them."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    place: np.ndarray
    """(n,) int64: which of the rows given each of them is."""

    def some(self, most: int, seed: int, *, each_class: bool) -> Rows:
        """As many of the rows, chosen at random, in their order, and one of each class they lack; all if no more."""
        n = len(self.y)
        if n <= most:
            return self
        at = np.random.default_rng(seed).permutation(n)[:most]
        if each_class:
            classes, first = np.unique(self.y, return_index=True)
            at = np.append(at, first[~np.isin(classes, self.y[at])])
        at = np.sort(at)
        weight = None if self.weight is None else self.weight[at]
        return Rows(Table(self.X).take(at), self.y[at], weight, self.place[at])

    @property
    def variance(self) -> float:
        """Weighted variance of y, 1 where it is zero; a ValueError where it is too small for a prior."""
        return number_target(self.y, self.weight, None).prior_variance


class Run(NamedTuple):
    """How the posterior is sampled."""

    draws: int
    chains: int
    work: float
    seed: int
    progress: bool
    executor: Executor | None = None

    def of_rows(self, n_rows: int, estimator: BayesianTree) -> Run:
        """The run for so many rows: trees and work as the estimator says, or as they are where it says nothing."""
        trees = default_trees(n_rows) if estimator.n_estimators is None else int(estimator.n_estimators)
        work = default_work(n_rows) if estimator.work is None else float(estimator.work)
        return self._replace(draws=-(-trees // self.chains), work=work)


def default_work(n_rows: int) -> float:
    """Rows that a fit to so many rows visits, where nothing is said."""
    return WORK * math.sqrt(max(n_rows, WORK_ROWS) / WORK_ROWS)


def default_trees(n_rows: int) -> int:
    """Trees that are drawn of so many rows, where nothing is said."""
    return max(FEWEST_TREES, TREES * TREES_ROWS // max(n_rows, TREES_ROWS))


def solved(model: TreeModel, run: Run) -> ExactPosterior | SampledPosterior | None:
    """The sum over all trees, or independent draws by it where predicting takes long; None where summing does."""
    if not model.leaf.separates or model.split_prior.drawn_weights is not None:
        return None
    import exact

    try:
        truth = exact.solve(model, max_cells=MOST_CELLS, progress=False)
    except exact.Intractable:
        return None
    return truth if truth.graph.n_edges <= MOST_SPLITS else truth.sample(run.draws * run.chains, run.seed)


class BayesianTree(WithParts):
    """Base of both estimators: the input, the model, the run, feature importances."""

    posterior_: SampledPosterior | ExactPosterior
    prior_: Choice
    rows_: np.ndarray
    feature_importances_: np.ndarray
    split_counts_: np.ndarray
    monte_carlo_error_: float
    n_features_in_: int
    feature_names_in_: np.ndarray

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.missing == "branch"
        return tags

    def _default_leaf(self, y: np.ndarray) -> Any:
        raise NotImplementedError

    def _leaves(self, rows: Rows) -> list[Any]:
        """Leaves to choose among."""
        raise NotImplementedError

    def _starts(self, first: Choice, trees: list[Any], rows: Rows) -> list[Choice]:
        """Where the search for a prior begins."""
        return [first]

    def _read_y(self, y: Any) -> np.ndarray:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Compute the posterior: exactly where this is fast, otherwise by sampling.

        Parameters
        ----------
        X : table of shape (n, p)
            As of `TreeModel`: finite numbers, or missing ones if ``missing="branch"``, text, dates, categories; n >= 2.
            If X, y and sample_weight are pandas objects, their indices must be equal, in the same order.
        y : array-like of shape (n,)
            Labels, or numbers.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0: a row of weight 2 has the score of two such rows, one of weight 0 is ignored. Counts of rows
            count each row once: ``min_samples_leaf``, ``min_leaf`` and ``max_cuts`` of LocalCuts, the quantiles of
            GridCuts, and the larger branch that unseen values follow.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the input or a parameter is invalid; the message names the column and the row.
        """
        run, of_classes = self._read_run(), is_classifier(self)
        check_leaf(self.leaf, self.power, for_classes=of_classes)
        rows, n_given = self._rows(X, y, sample_weight)
        run = run.of_rows(len(rows.y), self)
        split_prior = stated_split_prior(self.split_prior, self.min_samples_leaf, len(rows.y))

        def build(some: Rows, choice: Choice) -> TreeModel:
            weight = some.weight
            if choice.power != 1.0:
                weight = choice.power * (np.ones(len(some.y)) if weight is None else weight)
            return TreeModel(
                some.X,
                some.y,
                tree_prior=choice.tree_prior,
                split_prior=thinned(split_prior, len(some.y) / len(rows.y)),
                leaf=leaf_of_rows(choice.leaf, some.place, n_given),
                nominal=self.nominal,
                missing=self.missing,
                sample_weight=weight,
            )

        with ThreadPoolExecutor(effective_n_jobs(self.n_jobs)) as executor:
            run = run._replace(executor=executor)
            some = rows.some(MOST_SEARCHED, run.seed, each_class=of_classes)
            self.prior_ = self._choose(partial(build, some), some, run)
            model = build(rows, self.prior_)
            known = solved(model, run)
            self.posterior_ = self._sample(model, run) if known is None else known
        self.rows_ = rows.place
        self._describe(independent=known is not None)
        if known is None:
            self._warn(run)
        return self

    def _read_run(self) -> Run:
        """What is said of the run, checked before anything is computed."""
        if self.n_jobs is not None and not (is_integer(self.n_jobs) and self.n_jobs and abs(int(self.n_jobs)) <= MOST):
            raise ValueError(f"n_jobs={in_words(self.n_jobs)} is out of range; give an integer, not 0, or None.")
        check_choice("prior", self.prior, ("auto", "stated"))
        if not (isinstance(self.power, str) and self.power == "auto"):
            check_number("power", self.power, "a number > 0, or 'auto'", 5e-324)
        verbose = check_count("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0)
        chains = check_count("chains", self.chains)
        if self.n_estimators is not None:
            check_count("n_estimators", self.n_estimators, or_none=True)
        if self.work is not None:
            check_number("work", self.work, "rows, >= 1, or None", 1.0)
        try:
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        except ValueError:
            given = in_words(self.random_state)
            raise ValueError(
                f"random_state={given} is not a seed; give an integer in [0, 2**32), a numpy RandomState, or None."
            ) from None
        return Run(0, chains, 0.0, int(seed), verbose > 0)

    def _choose(self, build: Any, rows: Rows, run: Run) -> Choice:
        """The tree prior, the leaf and the power: as they are stated, or, where they are not, as the data choose."""
        stated = stated_tree_prior(self.tree_prior, self.max_depth)
        leaf = self._default_leaf(rows.y) if self.leaf is None else self.leaf
        choice = Choice(stated, leaf, 1.0 if self.power == "auto" else float(self.power))
        if self.prior == "auto" and (self.tree_prior is None or self.leaf is None):
            trees = tree_priors(self.max_depth) if self.tree_prior is None else [stated]
            leaves = self._leaves(rows) if self.leaf is None else [leaf]
            choice = choose(build, self._starts(choice, trees, rows), trees, leaves, run.seed, run.executor)
        if self.power == "auto":
            choice = choose_power(build, choice, run.seed, run.executor)
        return choice

    def _sample(self, model: TreeModel, run: Run) -> SampledPosterior:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return sample(
                model,
                run.draws,
                chains=run.chains,
                rng=run.seed,
                work=run.work,
                executor=run.executor,
                progress=run.progress,
            )

    def _describe(self, *, independent: bool) -> None:
        """Which features matter, and how well predictions are known."""
        post = self.posterior_
        self.feature_importances_ = fractions(post.feature_inclusion())
        if not isinstance(post, SampledPosterior):
            self.split_counts_, self.monte_carlo_error_ = post.expected_splits(), 0.0
            return
        self.split_counts_ = post.weight_of_tree @ post.split_counts_of_tree
        self.monte_carlo_error_ = math.nan
        if independent or post.n_chains > 1:
            points = training_points(post.model, MOST_POINTS)[1]
            if independent:
                of_row = post._std_over_trees(points).reshape(len(points), -1) / np.sqrt(post.tree_of_draw.size)
            else:
                of_row = post._values_se(points)
            error = float(np.quantile(of_row.max(axis=1), ROWS_WITHIN))
            self.monte_carlo_error_ = error / float(np.sqrt(post.model.target.variance))

    def _warn(self, run: Run) -> None:
        """Warn if the draws may not represent the posterior."""
        post, error = self.posterior_, self.monte_carlo_error_
        assert isinstance(post, SampledPosterior)
        found = objections(post)
        if found:
            unit = "" if post.model.classes_ is not None else " standard deviations of y"
            known = f"Predictions have a Monte-Carlo error of {error:.2g}{unit} at nine training rows in ten. "
            found.append(
                f"{known if error == error else ''}Give more work (work={2.0 * run.work:.1g} or more), or stronger "
                "priors."
            )
            warn("\n  ".join(found), ConvergenceWarning)

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Rows, int]:
        """Checked rows, without those of weight zero; how many there are with them."""
        refuse_other_rows(X=X, y=y, sample_weight=sample_weight, exposure=getattr(self.leaf, "exposure", None))
        table, y = self._read(X, y)
        place, weight = np.arange(table.n_rows), None
        if sample_weight is not None:
            given = read_numbers("sample_weight", sample_weight)
            weight = _check_sample_weight(given, y, dtype=np.float64, ensure_non_negative=True)
            place = np.flatnonzero(weight)
            if len(place) == 0:
                raise ValueError("sample_weight is 0 in every row; give weights that count some rows.")
        counted = table.take(place)
        return Rows(counted, y[place], None if weight is None else weight[place], place), table.n_rows

    def _read(self, X: Any, y: Any) -> tuple[Table, np.ndarray]:
        """Return the table, its cells converted unless some may be categories or dates, and y."""
        X = frame_of(X)
        if is_frame(X) or self.nominal is not None or holds_categories(X):
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
        """Return rows to predict as numbers (n, p)."""
        check_is_fitted(self)
        columns, X = self.posterior_.model.columns, frame_of(X)
        if not is_frame(X) and not columns.is_nominal.any() and columns.is_plain and not holds_categories(X):
            return read_data(self, X, reset=False, dtype=np.float64, order="C", ensure_all_finite=self._finite())
        read_data(self, X, reset=False, skip_check_array=True)
        return columns.numbers(X)

    def sample_predictive(self, X: Any, draws: int = 1000, rng: Seed = None) -> np.ndarray:
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
        return sample_new_y(self.posterior_, numbers, draws, rng)
