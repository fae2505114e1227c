"""Scikit-learn classifiers: the best dyadic tree, and the vote of all subtrees of a tree (Nguyen and Kpotufe 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from pactree_mcmc.certificates.bound import Bound
from pactree_mcmc.certificates.occam_bounds import dyadic_tree_bound
from pactree_mcmc.core.checks import (
    check_choice,
    check_count,
    check_flag,
    check_number,
    read_numbers,
    refuse_other_rows,
)
from pactree_mcmc.core.texts import fill_docstring
from pactree_mcmc.model.split_prior.base import MAX_LEVELS
from pactree_mcmc.model.split_prior.fixed_tree import column_ranges, dyadic_tree, kd_tree
from pactree_mcmc.model.tree_prior import DEPTH_CEILING
from pactree_mcmc.posterior.trees.cells import checked_divergence
from pactree_mcmc.posterior.trees.features import fractions
from pactree_mcmc.table.reader import holds_categories, is_frame
from pactree_mcmc.table.validation import read_data
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from .limits import refuse_bytes
from .systems import pac_bayes
from .systems.dyadic_trees import minimise_risk, needs_cyclic
from .systems.pac_bayes import BaseTree, NodeVotes, Weights, base_tree, node_weights
from .systems.pruning import LARGEST_PENALTY


# decorator that puts these texts into the docstring of a classifier
def _shared_by_estimators() -> None:
    """Describe what several docstrings have in common, by placeholder.

    [levels]
    levels : int or None, default None
        Number of splits of one coordinate on a path to a leaf. If None, log2(n / ln n), rounded up, or fewer.
    [cyclic]
    cyclic : bool or "auto", default "auto"
        If True, a cell at a depth is split on coordinate ``depth mod p``. If False, on any coordinate. "auto" is False,
        unless even one level may have more than four million cells.
    [bounds]
    bounds : array of shape (p, 2) or None, default None
        Ends of each feature's range. If None, those of X.
    [strength]
    strength : float, default 0.1
        Factor of the penalty. The theory has 1, with large constants. Choose it by cross-validation.
    [max_cells]
    max_cells : int, default 20,000,000
        Largest number of cells. `Intractable` is raised if there are more.
    [features]
    split_counts_, feature_importances_ : ndarray of shape (p,)
        Number of splits of the tree on each feature, and the same normalised to sum 1.
    n_features_in_ : int
    [base]
    base : {"dyadic", "kd"}, default "dyadic"
        Tree T0 whose subtrees vote: coordinates in turn, cut in the middle of the cell's box or at the median of its
        rows. A cell whose rows have one class is a leaf of T0.
    [base_tree]
    max_depth : int or None, default None
        Largest depth of a leaf of T0, >= 1. If None, ``p * floor(log n)`` for a dyadic tree, and no limit for a KD
        tree.
    bounds : array of shape (p, 2) or None, default None
        Box of a dyadic tree. If None, the range of the rows that grow it.
    coordinate : {"cycling", "widest"}, default "cycling"
        For a KD tree, as in `pactree_mcmc.kd_tree`.
    [voting]
    classes_ : ndarray of shape (K,)
    tree_ : Tree
        T0, its nodes in preorder.
    labels_ : ndarray of shape (n_nodes,), int64
        Class number of each node: the majority class, the smallest if there are several.
    weights_ : ndarray of shape (n_nodes,)
        w(A): posterior probability of the subtrees in which node A is a leaf.
    split_counts_, feature_importances_ : ndarray of shape (p,)
        Mean number of splits of a subtree on each feature, and the same normalised to sum 1.
    gibbs_risk_ : float
        Mean over subtrees of the error rate on the counted rows.
    kl_ : float
        Divergence of the posterior over subtrees from the prior, nats.
    n_counted_ : int
        Number of rows that weigh the subtrees, including copies.
    [fit_raises]

    Raises
    ------
    ValueError
        In `fit`: if a parameter is out of range, or there are too few rows.
    """


documented = fill_docstring(_shared_by_estimators)


def set_parameters(estimator: BaseEstimator, arguments: dict[str, Any]) -> None:
    vars(estimator).update({name: value for name, value in arguments.items() if name != "self"})


class ClassifierOfTree(ClassifierMixin, BaseEstimator):
    """Base of the classifiers of one tree or of its subtrees. Subclasses define `predict_proba`."""

    classes_: np.ndarray
    n_features_in_: int
    tree_: Tree

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities (n, K)."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label (n,) of each row, the first one if several are equally probable."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]

    def _read_new(self, X: Any) -> np.ndarray:
        """Check rows to predict, and return them as an array (n, p)."""
        check_is_fitted(self)
        _refuse_text_and_dates(X)
        return read_data(self, X, reset=False, dtype=np.float64, order="C")

    def _split_fractions(self) -> np.ndarray:
        """Return the fraction (n_nodes,) of the subtrees in which each node is split: 1 or 0 for a single tree."""
        return (self.tree_.feature != LEAF).astype(np.float64)

    @property
    def split_counts_(self) -> np.ndarray:
        """Number of splits (p,) on each feature, the mean over subtrees if several vote."""
        check_is_fitted(self)
        inner = self.tree_.feature != LEAF
        weights = self._split_fractions()[inner]
        return np.bincount(self.tree_.feature[inner], weights=weights, minlength=self.n_features_in_)

    @property
    def feature_importances_(self) -> np.ndarray:
        """``split_counts_`` divided by its sum, (p,)."""
        return fractions(self.split_counts_)


class SortedRows(NamedTuple):
    """Training rows, checked and sorted, so that random choices do not depend on their order or on use of weights."""

    X: np.ndarray  # (n, p) float64: each row, repeated as often as its weight
    label: np.ndarray  # (n,) int64: number of the class of each row
    classes: np.ndarray  # (K,): sorted labels


def read_rows(estimator: Any, X: Any, y: Any, sample_weight: Any) -> SortedRows:
    """Check the rows and labels passed to ``fit``, repeat each row as often as `sample_weight` says, and sort them."""
    # weights are whole numbers >= 0, not all 0; sets n_features_in_ and feature_names_in_ of `estimator`
    refuse_other_rows(X=X, y=y, sample_weight=sample_weight)
    _refuse_text_and_dates(X)
    X, y = read_data(estimator, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
    check_classification_targets(y)
    if sample_weight is not None:
        place = _repeated_indices(X, sample_weight)
        X, y = X[place], y[place]
    classes, label = np.unique(y, return_inverse=True)
    order = sorted_order(X, label)
    return SortedRows(X[order], label[order], classes)


def _refuse_text_and_dates(X: Any) -> None:
    """Raise a ValueError if a frame has a column of text or dates. Other faults are left to scikit-learn."""
    for name in X.columns if is_frame(X) else ():
        if holds_categories(X[[name]].to_numpy()):
            raise ValueError(f"column {str(name)!r} holds text or dates; encode it, or use BayesianTreeClassifier.")


def sorted_order(X: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return the permutation (n,) that sorts rows by their values, column after column, and then by label."""
    order = np.argsort(X[:, 0], kind="stable")
    first = X[order, 0]
    equal, is_tied = first[1:] == first[:-1], np.zeros(len(order), dtype=np.bool_)
    is_tied[1:] |= equal
    is_tied[:-1] |= equal
    rows = order[is_tied]
    order[is_tied] = rows[np.lexsort((label[rows], *X[rows].T[::-1]))]
    return order


def _repeated_indices(X: np.ndarray, sample_weight: Any) -> np.ndarray:
    """Return the indices of the rows of ``X``, each repeated ``sample_weight`` times (a whole number >= 0, checked)."""
    weight = _check_sample_weight(read_numbers("sample_weight", sample_weight), X, dtype=np.float64)
    odd = np.flatnonzero((weight < 0.0) | (weight != np.floor(weight)))
    if len(odd):
        raise ValueError(
            f"sample_weight is {weight[odd[0]]} in row {odd[0]}; these trees count rows: give whole numbers >= 0, how "
            "often each row is there, or take BayesianTreeClassifier, which allows other weights."
        )
    if not weight.any():
        raise ValueError("sample_weight is 0 in every row; give weights that count some rows.")
    refuse_bytes(int(8 * weight.sum() * (X.shape[1] + 2)), "rows repeated as often as sample_weight says")
    return np.repeat(np.arange(len(X)), weight.astype(np.int64))


@documented
class DyadicTreeClassifier(ClassifierOfTree):
    """The dyadic decision tree with the smallest empirical risk plus penalty, over all such trees (Scott 2004).

    Parameters
    ----------
    penalty : {"adaptive", "square-root"}, float, or penalty, default "adaptive"
        As for `minimise_risk`: the spatially adaptive penalty, the square-root penalty, a number as the penalty per
        leaf, or an object: on root fragments, your own additive or size penalty.
    {strength}
    {levels}
    {cyclic}
    {bounds}
    {max_cells}

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    tree_ : Tree
    risk_ : float
        Error rate on the training rows.
    penalty_ : float
        ``strength`` times the penalty of the tree; the sum with `risk_` is the smallest over all trees.
    levels_ : int
    cyclic_ : bool
        True if coordinates were taken in turn.
    {features}

    Examples
    --------
    >>> X = np.arange(100.0)[:, None]
    >>> fitted = DyadicTreeClassifier(levels=3, bounds=[[0.0, 99.0]]).fit(X, X[:, 0] > 49.5)
    >>> fitted.tree_.n_leaves, fitted.predict([[10.0], [90.0]]).tolist()
    (2, [False, True])
    >>> round(fitted.risk_bound(X, X[:, 0] > 49.5).raw, 2)
    1.07
    """

    def __init__(
        self,
        penalty: Any = "adaptive",
        *,
        strength: float = 0.1,
        levels: int | None = None,
        cyclic: bool | str = "auto",
        bounds: Any = None,
        max_cells: int = 20_000_000,
    ) -> None:
        set_parameters(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the tree to rows X (n, p) with labels y (n,), each counted ``sample_weight`` (n,) times."""
        rows = read_rows(self, X, y, sample_weight)
        self.classes_ = rows.classes
        self.cyclic_ = self._is_cyclic(*rows.X.shape)
        best = minimise_risk(rows.X, rows.label, **{**self.get_params(deep=False), "cyclic": self.cyclic_})
        self.tree_, self.risk_, self.penalty_, self.levels_ = best.tree, best.risk, best.penalty, best.levels
        return self

    def risk_bound(self, X: Any, y: Any, *, n_classes: int = 2, delta: float = 0.05) -> Bound:
        """Return a bound on the true error rate of the fitted tree (Scott's Theorem 2).

        Errors are counted on the rows X with labels y, which may be the training rows.
        ``n_classes`` is the number of possible labels, fixed before the rows were seen. Needs ``bounds``.
        """
        check_is_fitted(self)
        if self.bounds is None:
            raise ValueError("the range of X was learnt from the counted rows; give bounds=, the ends of the ranges.")
        X, y = read_data(self, X, y, reset=False, dtype=np.float64)
        place = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        labels = np.where(self.classes_[place] == y, place, -1)
        return dyadic_tree_bound(self.tree_, X, labels, n_classes=n_classes, delta=delta, cyclic=self.cyclic_)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities (n, K) of the leaves that rows reach; columns follow ``classes_``."""
        X = self._read_new(X)
        value = self.tree_.value
        assert value is not None
        return value[self.tree_.apply(X)]

    def _is_cyclic(self, n: int, p: int) -> bool:
        """Return `cyclic`, or for "auto" True if splits on any coordinate make too many cells."""
        if isinstance(self.cyclic, str):
            check_choice("cyclic", self.cyclic, ("auto",))
            return needs_cyclic(n, p, self.levels)
        return check_flag("cyclic", self.cyclic)


LOG_GRID = np.geomspace(2.0**-8, 2.0**6, 10)  # values of a parameter that cross-validation tries first, as in the paper


class Fold(NamedTuple):
    """A base tree grown on one half of the rows, and the leaves that the other, held-out half reaches."""

    base: BaseTree  # The base tree
    reached_leaf: np.ndarray  # int64: number, among the leaves of the tree, of the leaf that each held-out row reaches
    label: np.ndarray  # int64: class of each held-out row


@documented
class PACBayesTreeClassifier(ClassifierOfTree):
    """Weighted vote of all subtrees of a dyadic or KD tree (Nguyen and Kpotufe 2018).

    Parameters
    ----------
    {base}
    penalty : {"size", "spatial"}, default "size"
        For a leaf A with n_A rows at depth j: "size", ``sqrt(n_A)`` as in the paper; "spatial", ``sqrt(max(n_A, j) *
        j)`` as in SN pruning.
    lambda1, lambda2 : float or None, default None
        Penalty parameters >= 0. A parameter that is None is chosen by 2-fold cross-validation, first lambda1 (with
        lambda2 = 1 if that is None too), then lambda2. The values tried are 10 evenly spaced in logarithm from 2^-8 to
        2^6, then 10 from half to twice the best.
    {base_tree}
    random_state : int, RandomState or None, default None
        Source of randomness for the halves of cross-validation.

    Attributes
    ----------
    {voting}
    lambda1_, lambda2_ : float
        The penalty parameters, given or chosen.
    cv_errors_ : dict of name to ndarray of shape (20, 2)
        Values tried and their cross-validated errors, for the parameters chosen.

    {fit_raises}

    Notes
    -----
    A subtree has weight ``exp(-lambda1 * errors - sum over leaves with data (lambda2 * penalty + 1))``. All rows grow
    T0, label it and weigh its subtrees, so that no bound applies; for bounds grow T0 from half of the rows and take
    ``post.certificate``, as the page on the PAC-Bayes tree shows. A child of
    T0 without rows is a dummy in the paper's terms, a leaf with phi = 0. A new row that reaches one is classified by
    the nodes above it; the dummy votes like its parent only if all of these have weight 0.

    With T0 of m nodes: O(n depth) to grow it, O(m K) for a pair of lambdas, 80 of them for cross-validation on two
    trees of half the rows; O(depth) per prediction.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0.0, 1.0, 64)[:, None]
    >>> vote = PACBayesTreeClassifier(lambda1=0.4, lambda2=0.1).fit(X, (X[:, 0] > 0.25).astype(int))
    >>> vote.predict([[0.1], [0.9]]).tolist()
    [0, 1]
    >>> vote.predict_proba([[0.1], [0.9]]).round(3).tolist()
    [[0.979, 0.021], [0.0, 1.0]]
    """

    base: str
    max_depth: int | None
    bounds: Any
    coordinate: str
    random_state: Any
    labels_: np.ndarray
    weights_: np.ndarray
    gibbs_risk_: float
    n_counted_: int
    cv_errors_: dict[str, np.ndarray]
    lambda1_: float
    lambda2_: float
    _cross_validated = ("lambda1", "lambda2")  # chosen, in this order, if they are None

    def __init__(
        self,
        base: str = "dyadic",
        *,
        penalty: str = "size",
        lambda1: float | None = None,
        lambda2: float | None = None,
        max_depth: int | None = None,
        bounds: Any = None,
        coordinate: str = "cycling",
        random_state: Any = None,
    ) -> None:
        set_parameters(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the base tree, choose parameters that are None by cross-validation, and weigh the subtrees.

        Parameters
        ----------
        X : table of shape (n, p)
            Finite numbers; n >= 2, or 4 with cross-validation.
        y : array-like of shape (n,)
            Class labels.
        sample_weight : array-like of shape (n,), optional
            Whole numbers >= 0: how often each row is there.
        """
        self._check_parameters()
        X, label, self.classes_ = read_rows(self, X, y, sample_weight)
        # ends of each feature, the same for all folds
        bounds = column_ranges(X) if self.bounds is None else read_numbers("bounds", self.bounds)
        parameters = self._search(X, label, bounds)
        for name, value in parameters.items():
            setattr(self, f"{name}_", value)
        base = self._labelled_base(X, label, bounds)
        weights = self._weights(base, parameters)
        self.tree_, self.labels_, self.weights_ = base.tree, base.label, np.exp(weights.log_leaf)
        self.n_counted_ = int(base.graph.rows[0])
        self.gibbs_risk_ = float(self.weights_ @ base.errors / self.n_counted_)
        self._base, self._log_total, self._node_split_fraction = base, weights.log_total, weights.split_fraction
        self._votes = self._vote(base, weights)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the fractions of the votes, (n, K); columns follow ``classes_``. Cost O(depth) per row."""
        X = self._read_new(X)
        votes = self._votes[self._base.leaf_number[self._base.routes.leaves(X)]]
        return votes / votes.sum(axis=1, keepdims=True)

    @property
    def kl_(self) -> float:
        """Divergence of the posterior over subtrees from the prior, nats."""
        check_is_fitted(self)
        terms = pac_bayes.practical_terms(self._base, self.lambda1_, self.lambda2_, self.penalty)
        prior = pac_bayes.practical_terms(self._base, 0.0, 0.0)
        log_mass = node_weights(self._base.graph, prior).log_total
        gain, log_ratio = float(self.weights_ @ (terms - prior)), float(self._log_total - log_mass)
        return checked_divergence(gain - log_ratio, abs(gain) + abs(log_ratio))

    def _check_parameters(self) -> None:
        check_choice("base", self.base, ("dyadic", "kd"))
        check_choice("coordinate", self.coordinate, ("cycling", "widest"))
        if self.coordinate != "cycling" and self.base == "dyadic":
            raise ValueError("a dyadic tree takes its coordinates in turn; give coordinate='cycling', or base='kd'.")
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth, or_none=True)
        check_choice("penalty", self.penalty, ("size", "spatial"))
        for name in self._cross_validated:
            if getattr(self, name) is not None:
                expected = "a finite number >= 0, or None to cross-validate"
                check_number(name, getattr(self, name), expected, 0.0, LARGEST_PENALTY)

    def _weights(self, base: BaseTree, parameters: dict[str, float]) -> Weights:
        """Return the posterior probabilities, in a random subtree of `base`, that each node is a leaf and is split."""
        return node_weights(base.graph, pac_bayes.practical_terms(base, **parameters, penalty=self.penalty))

    def _split_fractions(self) -> np.ndarray:
        return self._node_split_fraction

    def _vote(self, base: BaseTree, weights: Weights) -> np.ndarray:
        """Return the votes (n_leaves, K), not normalised, for a row that reaches each leaf of the base tree."""
        # sum over the nodes on the path of P(the node is the leaf) times its vote, the whole one for its label, divided
        # by the largest probability there
        votes = NodeVotes(np.eye(len(self.classes_)), base.label)
        return pac_bayes.sum_votes_to_leaves(base.graph.depth, base.tree.left, weights.log_leaf, *votes, base.dummy)

    def _grow(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> Tree:
        """Return the base tree grown on some rows; one row makes a single node."""
        n, p = X.shape
        if n < 2:
            return Tree([-1], [0.0], [0], [0])
        if self.base == "kd":
            depth = DEPTH_CEILING if self.max_depth is None else min(self.max_depth, DEPTH_CEILING)
            return kd_tree(X, int(depth), y=label, coordinate=self.coordinate).tree
        depth = p * max(1, int(math.log(n))) if self.max_depth is None else min(self.max_depth, p * MAX_LEVELS)
        return dyadic_tree(X, int(depth), y=label, bounds=bounds).tree

    def _labelled_base(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> BaseTree:
        """Return the tree of `_grow`, given the same arguments, its nodes labelled by the same rows, with errors."""
        tree = self._grow(X, label, bounds)
        return base_tree(tree, pac_bayes.count_rows(tree, X, label, len(self.classes_)))

    def _search(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> dict[str, float]:
        """Return the parameters in `_cross_validated`, choosing those that are None by 2-fold cross-validation."""
        values = {name: getattr(self, name) for name in self._cross_validated}
        self.cv_errors_ = {}
        if None not in values.values():
            return {name: float(value) for name, value in values.items()}
        n = len(X)
        if n < 4:
            raise ValueError(f"n_samples={n} is too few for 2-fold cross-validation; give 4 rows, or {list(values)}.")
        shuffled = check_random_state(self.random_state).permutation(n)
        halves = np.sort(shuffled[: n // 2]), np.sort(shuffled[n // 2 :])
        folds = [self._new_fold(X, label, bounds, *pair) for pair in (halves, halves[::-1])]
        parameters = {name: 1.0 if value is None else float(value) for name, value in values.items()}
        for name in (name for name, value in values.items() if value is None):
            self._search_one(name, parameters, lambda trial: sum(self._n_wrong(fold, trial) for fold in folds) / n)
        return parameters

    def _search_one(self, name: str, parameters: dict[str, float], error: Callable[[dict[str, float]], float]) -> None:
        """Write the value of parameter ``name`` with the smallest cross-validated error into ``parameters``."""
        # a logarithmic grid first, then a linear one from half to twice the best value
        errors_by_value: list[tuple[float, float]] = []
        grid: Sequence[float] | np.ndarray = LOG_GRID
        for _ in range(2):
            errors = [error({**parameters, name: float(value)}) for value in grid]
            errors_by_value += zip(map(float, grid), errors, strict=True)
            best = float(grid[int(np.argmin(errors))])
            grid = np.linspace(best / 2.0, best * 2.0, 10)
        parameters[name] = best
        self.cv_errors_[name] = np.array(errors_by_value)

    def _new_fold(self, X: Any, label: np.ndarray, bounds: np.ndarray, rows: np.ndarray, held_out: np.ndarray) -> Fold:
        """Return the base tree of ``rows`` (indices in X), with the leaves that the rows ``held_out`` reach."""
        base = self._labelled_base(X[rows], label[rows], bounds)
        return Fold(base, base.leaf_number[base.routes.leaves(X[held_out])], label[held_out])

    def _n_wrong(self, fold: Fold, parameters: dict[str, float]) -> int:
        """Return the number of held-out rows of ``fold`` that the vote under ``parameters`` misclassifies."""
        votes = self._vote(fold.base, self._weights(fold.base, parameters))
        return int(np.sum(np.argmax(votes, axis=1)[fold.reached_leaf] != fold.label))
