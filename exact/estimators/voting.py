"""Base of the voting trees: the base tree, cross-validation, the vote of its nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pactree_mcmc.core.checks import check_choice, check_count, check_number, read_numbers
from pactree_mcmc.model.split_prior.base import MAX_LEVELS
from pactree_mcmc.model.split_prior.designs import box_around, dyadic_tree, kd_tree
from pactree_mcmc.model.tree_prior import DEPTH_CEILING
from pactree_mcmc.posterior.trees.divergence import as_divergence
from pactree_mcmc.table.validation import read_data
from pactree_mcmc.tree.tree import Tree

from ..systems.pac_bayes.base_tree import BaseTree, Says, Weights, base_tree, count_rows, votes_down, weigh
from ..systems.scott.penalties import LARGEST_PENALTY
from .importances import AsksFeatures
from .rows import Rows, read_rows

LOG_GRID = np.geomspace(2.0**-8, 2.0**6, 10)


class Fold(NamedTuple):
    """A base tree grown on one half of the rows, and where the other half ends in it."""

    base: BaseTree
    says: Says
    reached: np.ndarray
    """Number, among leaves, of the leaf of T0 that each row held out reaches."""
    label: np.ndarray
    """Its class."""


class VotingTree(AsksFeatures, ClassifierMixin, BaseEstimator):
    """Base class: a base tree, weights of its subtrees, and their vote. Subclasses define the weights and the votes."""

    classes_: np.ndarray
    labels_: np.ndarray
    weights_: np.ndarray
    gibbs_risk_: float
    n_counted_: int
    cv_errors_: dict[str, np.ndarray]

    _searched: tuple[str, ...] = ()
    """Parameters chosen by cross-validation where they are None, one after another."""

    def _weights(self, base: BaseTree, chosen: dict[str, float]) -> Weights:
        raise NotImplementedError

    def _says(self, base: BaseTree) -> Says:
        """The vote of each node: its label."""
        return Says(np.eye(len(self.classes_)), base.label)

    def _check(self) -> None:
        """Refuse parameters out of range."""

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

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the input or a parameter cannot be used.
        """
        self._check_tree()
        self._check()
        rows = read_rows(self, X, y, sample_weight)
        self.classes_ = rows.classes
        self._fit_rows(rows, self._bounds_of(rows.X))
        return self

    def _fit_rows(self, rows: Rows, bounds: np.ndarray) -> None:
        X, label = rows.X, rows.label
        chosen = self._search(X, label, bounds)
        for name, value in chosen.items():
            setattr(self, f"{name}_", value)
        base = self._labelled(X, label, bounds)
        self._keep(base, self._weights(base, chosen))

    def _keep(self, base: BaseTree, weights: Weights) -> None:
        """Keep what prediction and inspection need."""
        self.tree_, self.labels_, self.weights_ = base.tree, base.label, np.exp(weights.log_leaf)
        self.n_counted_ = int(base.graph.rows[0])
        self.gibbs_risk_ = float(self.weights_ @ base.errors / self.n_counted_)
        self._base, self._log_total, self._asks = base, weights.log_total, weights.goes_on
        self._votes = self._vote(base, weights, self._says(base))

    def _goes_on(self) -> np.ndarray:
        return self._asks

    def _divergence(self, terms: np.ndarray, prior: np.ndarray) -> float:
        """Divergence from the prior, by what each node adds to the log weight of a subtree and to its log prior."""
        log_mass = weigh(self._base.graph, prior).log_total
        gain, log_ratio = float(self.weights_ @ (terms - prior)), float(self._log_total - log_mass)
        return as_divergence(gain - log_ratio, abs(gain) + abs(log_ratio))

    def _vote(self, base: BaseTree, weights: Weights, says: Says) -> np.ndarray:
        """Votes (n_leaves, K) for a row whose path ends in each leaf of T0."""
        abstains = base.dummy & base.dummies_abstain
        return votes_down(base.graph.depth, base.tree.left, weights.log_leaf, *says, abstains)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns the fractions of the votes, (n, K); columns follow ``classes_``. Cost O(depth) per row."""
        check_is_fitted(self)
        X = read_data(self, X, dtype=np.float64, order="C", reset=False)
        votes = self._votes[self._base.leaf_number[self._base.routes.leaves(X)]]
        return votes / votes.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """Returns the class with most votes, (n,); the first of several."""
        fraction = self.predict_proba(X)
        return self.classes_[np.argmax(fraction, axis=1)]

    def _check_tree(self) -> None:
        check_choice("base", self.base, ("dyadic", "kd"))
        check_choice("coordinate", self.coordinate, ("cycling", "widest"))
        if self.coordinate != "cycling" and self.base == "dyadic":
            raise ValueError("a dyadic tree takes its coordinates in turn; give coordinate='cycling', or base='kd'.")
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth, or_none=True)

    def _bounds_of(self, X: np.ndarray) -> np.ndarray:
        """Lower and upper end of each feature, the same for all folds."""
        return box_around(X) if self.bounds is None else read_numbers("bounds", self.bounds)

    def _grow(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> Tree:
        """The base tree of some rows; a single row makes a tree of one node."""
        n, p = X.shape
        if n < 2:
            return Tree([-1], [0.0], [0], [0])
        if self.base == "kd":
            depth = DEPTH_CEILING if self.max_depth is None else min(self.max_depth, DEPTH_CEILING)
            return kd_tree(X, int(depth), y=label, coordinate=self.coordinate).tree
        depth = p * max(1, int(math.log(n))) if self.max_depth is None else min(self.max_depth, p * MAX_LEVELS)
        return dyadic_tree(X, int(depth), y=label, bounds=bounds).tree

    def _counts(self, tree: Tree, X: np.ndarray, label: np.ndarray) -> np.ndarray:
        return count_rows(tree.feature, tree.threshold, tree.right, X, label, len(self.classes_))

    def _labelled(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> BaseTree:
        """The base tree of some rows, which label its nodes and weigh its subtrees."""
        tree = self._grow(X, label, bounds)
        return base_tree(tree, self._counts(tree, X, label))

    def _search(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> dict[str, float]:
        """The parameters given, the others by 2-fold cross-validation; sets ``cv_errors_``."""
        given = {name: getattr(self, name) for name in self._searched}
        self.cv_errors_ = {}
        if None not in given.values():
            return {name: float(value) for name, value in given.items()}
        n = len(X)
        if n < 4:
            raise ValueError(f"n_samples={n} is too few for 2-fold cross-validation; give 4 rows, or {list(given)}.")
        shuffled = check_random_state(self.random_state).permutation(n)
        halves = np.sort(shuffled[: n // 2]), np.sort(shuffled[n // 2 :])
        folds = [self._fold(X, label, bounds, *pair) for pair in (halves, halves[::-1])]
        chosen = {name: 1.0 if value is None else float(value) for name, value in given.items()}
        for name in (name for name, value in given.items() if value is None):
            self._search_one(name, chosen, lambda some: sum(self._n_wrong(fold, some) for fold in folds) / n)
        return chosen

    def _search_one(self, name: str, chosen: dict[str, float], error: Callable[[dict[str, float]], float]) -> None:
        """Best of a log grid, then of a linear grid from half to twice that; the first of several."""
        tried: list[tuple[float, float]] = []
        grid: Sequence[float] | np.ndarray = LOG_GRID
        for _ in range(2):
            errors = [error({**chosen, name: float(value)}) for value in grid]
            tried += zip(map(float, grid), errors, strict=True)
            best = float(grid[int(np.argmin(errors))])
            grid = np.linspace(best / 2.0, best * 2.0, 10)
        chosen[name] = best
        self.cv_errors_[name] = np.array(tried)

    def _fold(
        self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray, rows: np.ndarray, held_out: np.ndarray
    ) -> Fold:
        base = self._labelled(X[rows], label[rows], bounds)
        return Fold(base, self._says(base), base.leaf_number[base.routes.leaves(X[held_out])], label[held_out])

    def _n_wrong(self, fold: Fold, chosen: dict[str, float]) -> int:
        votes = self._vote(fold.base, self._weights(fold.base, chosen), fold.says)
        return int(np.sum(np.argmax(votes, axis=1)[fold.reached] != fold.label))


def check_penalty(penalty: Any) -> None:
    """Refuse a penalty without meaning."""
    check_choice("penalty", penalty, ("size", "spatial"))


def check_optional_factor(name: str, value: Any) -> None:
    """Refuse a parameter that is neither None nor a finite number >= 0."""
    if value is not None:
        check_number(name, value, "a finite number >= 0, or None to cross-validate", 0.0, LARGEST_PENALTY)
