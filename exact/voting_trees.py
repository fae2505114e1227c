"""Scikit-learn classifiers on dyadic and KD trees: the PAC-Bayes tree, and the pruning and voting rules beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from pactree_mcmc.certificates._bound import check_delta
from pactree_mcmc.designs import dyadic_tree, kd_tree
from pactree_mcmc.model._tree_priors import DEPTH_CEILING
from pactree_mcmc.trees import Tree

from ._base_tree import BaseTree, Weights, base_tree, choose_best, count_down, votes_down, weigh
from .pac_bayes import (
    LEAST_COUNTED,
    absolute_terms,
    check_lambda,
    practical_terms,
    prior_terms,
    size_terms,
    spatial_terms,
    theoretical_terms,
)

LOG_GRID = np.geomspace(2.0**-8, 2.0**6, 10)
MOST_LEVELS = 31


class Fold(NamedTuple):
    """A base tree grown on one half of the rows, and where the other half ends in it."""

    base: BaseTree
    value: np.ndarray
    """(n_nodes, K): what each node votes for."""
    reached: np.ndarray
    """Leaf of T0 that each row held out reaches."""
    label: np.ndarray
    """Its class."""


class _VotingTree(ClassifierMixin, BaseEstimator):
    """A base tree, weights of its subtrees, and their vote: what differs is the weights, and what a node votes for."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self._binary
        return tags

    _binary = False
    _searched: tuple[str, ...] = ()
    """Parameters chosen by cross-validation where they are None, one after another."""

    def _weights(self, base: BaseTree, chosen: dict[str, float]) -> Weights:
        raise NotImplementedError

    def _value(self, base: BaseTree) -> np.ndarray:
        """What each node votes for, (n_nodes, K): its label."""
        return np.eye(len(self.classes_))[base.label]

    def _check(self) -> None:
        """Refuse parameters out of range."""

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the base tree, choose parameters left out by cross-validation, weigh the subtrees.

        Parameters
        ----------
        X : table of shape (n, p)
            Finite numbers; n >= 2, or 4 with cross-validation.
        y : array-like of shape (n,)
            Class labels.

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
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, label = np.unique(y, return_inverse=True)
        if self._binary and len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}: y has "
                f"{len(self.classes_)} classes; give two, or take PACBayesTreeClassifier."
            )
        bounds = self._bounds_of(X)
        self._fit_numbers(X, label, bounds)
        return self

    def _fit_numbers(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> None:
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
        self._base, self._log_total = base, weights.log_total
        self._votes = self._vote(base, weights, self._value(base))

    def _vote(self, base: BaseTree, weights: Weights, value: np.ndarray) -> np.ndarray:
        """Votes (n_nodes, K) for a row whose path ends in each node."""
        return votes_down(base.tree.left, base.tree.right, weights.log_leaf, value, base.dummy & base.dummies_abstain)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Share of the votes, (n, K); columns follow ``classes_``. A row costs its one path, O(depth)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        votes = self._votes[self._base.routes.leaves(X)]
        return votes / votes.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """Class with most votes, (n,); the first of several."""
        share = self.predict_proba(X)
        return self.classes_[np.argmax(share, axis=1)]

    def _check_tree(self) -> None:
        if self.base not in ("dyadic", "kd"):
            raise ValueError(f"base={self.base!r} is unknown; give 'dyadic' or 'kd'.")
        if self.coordinate not in ("cycling", "widest"):
            raise ValueError(f"coordinate={self.coordinate!r} is unknown; give 'cycling' or 'widest'.")
        if self.coordinate != "cycling" and self.base == "dyadic":
            raise ValueError("a dyadic tree takes its coordinates in turn; give coordinate='cycling', or base='kd'.")
        whole = isinstance(self.max_depth, int | np.integer) and not isinstance(self.max_depth, bool)
        if self.max_depth is not None and not (whole and self.max_depth >= 1):
            raise ValueError(f"max_depth={self.max_depth!r} is out of range; give an integer >= 1, or None.")

    def _bounds_of(self, X: np.ndarray) -> np.ndarray:
        """Lower and upper end of each feature, the same for all folds."""
        if self.bounds is not None:
            return np.asarray(self.bounds, dtype=np.float64)
        low, high = X.min(axis=0), X.max(axis=0)
        return np.column_stack([low, np.where(high > low, high, low + np.maximum(1.0, np.abs(low)))])

    def _grow(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> Tree:
        """The base tree of some rows; a single row makes a tree of one node."""
        n, p = X.shape
        if n < 2:
            return Tree([-1], [0.0], [0], [0])
        if self.base == "kd":
            depth = DEPTH_CEILING if self.max_depth is None else min(self.max_depth, DEPTH_CEILING)
            return kd_tree(X, int(depth), y=label, coordinate=self.coordinate).tree
        depth = p * max(1, int(math.log(n))) if self.max_depth is None else min(self.max_depth, p * MOST_LEVELS)
        return dyadic_tree(X, int(depth), y=label, bounds=bounds).tree

    def _counts(self, tree: Tree, X: np.ndarray, label: np.ndarray) -> np.ndarray:
        return count_down(tree.feature, tree.threshold, tree.right, X, label, len(self.classes_))

    def _labelled(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> BaseTree:
        """The base tree of some rows, which label its nodes and weigh its subtrees."""
        tree = self._grow(X, label, bounds)
        return base_tree(tree, self._counts(tree, X, label))

    def _search(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> dict[str, float]:
        """The parameters given, the others by 2-fold cross-validation; sets ``cv_errors_``."""
        given = {name: getattr(self, name) for name in self._searched}
        self.cv_errors_: dict[str, np.ndarray] = {}
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
        return Fold(base, self._value(base), base.routes.leaves(X[held_out]), label[held_out])

    def _n_wrong(self, fold: Fold, chosen: dict[str, float]) -> int:
        votes = self._vote(fold.base, self._weights(fold.base, chosen), fold.value)
        return int(np.sum(np.argmax(votes[fold.reached], axis=1) != fold.label))


class PACBayesTreeClassifier(_VotingTree):
    """Weighted vote of all subtrees of a dyadic or KD tree (Nguyen and Kpotufe 2018).

    Parameters
    ----------
    base : {"dyadic", "kd"}, default "dyadic"
        Tree T0 whose subtrees vote: coordinates in turn, cut in the middle of the cell's box or at the median of its
        rows. A cell whose rows have one class is a leaf of T0.
    posterior : {"practice", "theory"}, default "practice"
        "practice": a subtree weighs ``exp(-lambda1 * errors - sum over leaves with data (lambda2 * penalty + 1))``,
        all rows used for all. "theory": ``exp(-lam * sum over leaves (errors + sqrt(2 n_A log(|T0| / delta))) - 3 D0
        leaves)``; T0 and its labels from one half of the rows, drawn at random, weights from the other.
    penalty : {"size", "spatial"}, default "size"
        Of the practice, for a leaf A with n_A rows at depth j: "size", ``sqrt(n_A)``, the paper's; "spatial",
        ``sqrt(max(n_A, j) * j)``, as in SN pruning.
    lambda1, lambda2 : float or None, default None
        Prices >= 0; None: by 2-fold cross-validation, first lambda1 (with lambda2 = 1 if that is None too), then
        lambda2: 10 values evenly spaced in logarithm from 2^-8 to 2^6, then 10 from half to twice the best.
    lam : float, default 1.0
        Of the theory, in (0, 2).
    delta : float, default 0.05
        Of the theory, in (0, 1).
    prior_depth : int or None, default None
        D0 of the theory, >= 0; None: the depth of T0.
    max_depth : int or None, default None
        Depth of the deepest leaf of T0, >= 1; None: ``p * floor(log n)`` for a dyadic tree, no limit for a KD tree.
    bounds : array of shape (p, 2) or None, default None
        Box of a dyadic tree; None: the range of the rows.
    coordinate : {"cycling", "widest"}, default "cycling"
        Of a KD tree, as in `pactree_mcmc.kd_tree`.
    random_state : int, RandomState or None, default None
        Draws the halves of cross-validation and of the theory.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    tree_ : Tree
        T0, its nodes in preorder.
    labels_ : ndarray of shape (n_nodes,), int64
        Class number of each node: the majority, the smallest of several.
    weights_ : ndarray of shape (n_nodes,)
        w(A): posterior probability of the subtrees in which node A is a leaf.
    gibbs_risk_ : float
        Mean over subtrees of the share of the counted rows that are wrong.
    kl_ : float
        Divergence of the posterior over subtrees from the prior, nats.
    n_counted_ : int
        Rows that weigh the subtrees.
    lambda1_, lambda2_ : float
        Of the practice: given or chosen.
    cv_errors_ : dict of name to ndarray of shape (20, 2)
        Values tried and their cross-validated errors, for the parameters chosen.

    Raises
    ------
    ValueError
        In `fit`: if a parameter is out of range, or there are too few rows (16 for the theory).

    Notes
    -----
    A child of T0 without rows is the paper's dummy: a leaf with phi = 0. Where new rows reach it, it votes as its
    parent does in practice, and for the first class in theory (the paper's Corollary 1).

    With T0 of m nodes: O(n depth) to grow it, O(m K) for a pair of lambdas, 80 of them for cross-validation on two
    trees of half the rows; O(depth) a row to predict. Under the theory the prior depends on one half only, so that
    ``pactree_mcmc.certificates`` may take ``gibbs_risk_``, ``kl_`` and ``n_counted_``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0.0, 1.0, 64)[:, None]
    >>> vote = PACBayesTreeClassifier(lambda1=1.0, lambda2=0.1).fit(X, (X[:, 0] > 0.25).astype(int))
    >>> vote.predict([[0.1], [0.9]]).tolist()
    [0, 1]
    >>> vote.predict_proba([[0.1], [0.9]]).round(3).tolist()
    [[0.997, 0.003], [0.003, 0.997]]
    """

    _searched = ("lambda1", "lambda2")

    def __init__(
        self,
        base: str = "dyadic",
        *,
        posterior: str = "practice",
        penalty: str = "size",
        lambda1: float | None = None,
        lambda2: float | None = None,
        lam: float = 1.0,
        delta: float = 0.05,
        prior_depth: int | None = None,
        max_depth: int | None = None,
        bounds: Any = None,
        coordinate: str = "cycling",
        random_state: Any = None,
    ) -> None:
        self.base = base
        self.posterior = posterior
        self.penalty = penalty
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.lam = lam
        self.delta = delta
        self.prior_depth = prior_depth
        self.max_depth = max_depth
        self.bounds = bounds
        self.coordinate = coordinate
        self.random_state = random_state

    def _check(self) -> None:
        if self.posterior not in ("practice", "theory"):
            raise ValueError(f"posterior={self.posterior!r} is unknown; give 'practice' or 'theory'.")
        check_penalty(self.penalty)
        check_lambda(self.lam)
        check_delta(self.delta)
        if self.prior_depth is not None and not self.prior_depth >= 0:
            raise ValueError(f"prior_depth={self.prior_depth!r} is out of range; give an integer >= 0, or None.")
        for name in self._searched:
            check_price(name, getattr(self, name))
            if self.posterior == "theory" and getattr(self, name) is not None:
                raise ValueError(f"{name} is of the practice; the theory has lam: leave {name} out.")

    def _weights(self, base: BaseTree, chosen: dict[str, float]) -> Weights:
        return weigh(base.graph, practical_terms(base, **chosen, penalty=self.penalty))

    def _fit_numbers(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> None:
        if self.posterior == "theory":
            self._fit_theory(X, label, bounds)
            return
        super()._fit_numbers(X, label, bounds)

    def _fit_theory(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> None:
        n = len(X)
        if n < 2 * LEAST_COUNTED:
            raise ValueError(
                f"n_samples={n} is too few for posterior='theory'; it splits them and counts at least {LEAST_COUNTED}: "
                f"give {2 * LEAST_COUNTED} rows."
            )
        shuffled = check_random_state(self.random_state).permutation(n)
        grows, counted = np.sort(shuffled[: n // 2]), np.sort(shuffled[n // 2 :])
        if self.bounds is None:
            bounds = self._bounds_of(X[grows])
        tree = self._grow(X[grows], label[grows], bounds)
        base = base_tree(
            tree,
            self._counts(tree, X[grows], label[grows]),
            self._counts(tree, X[counted], label[counted]),
            dummies_abstain=False,
        )
        self.cv_errors_, self.counted_rows_ = {}, counted
        self.prior_depth_ = int(base.graph.depth.max()) if self.prior_depth is None else int(self.prior_depth)
        self._keep(base, weigh(base.graph, theoretical_terms(base, self.lam, self.delta, self.prior_depth_)))

    @property
    def _terms(self) -> tuple[np.ndarray, np.ndarray]:
        """What each node adds to the log weight of a subtree, and to its log prior."""
        base = self._base
        if self.posterior == "theory":
            depth = self.prior_depth_
            return theoretical_terms(base, self.lam, self.delta, depth), prior_terms(base, depth)
        terms = practical_terms(base, self.lambda1_, self.lambda2_, self.penalty)
        return terms, practical_terms(base, 0.0, 0.0)

    @property
    def kl_(self) -> float:
        """Divergence of the posterior over subtrees from the prior, nats."""
        check_is_fitted(self)
        terms, prior = self._terms
        log_mass = weigh(self._base.graph, prior).log_total
        return max(0.0, float(self.weights_ @ (terms - prior)) - (self._log_total - log_mass))


class PrunedTreeClassifier(_VotingTree):
    """The subtree of a dyadic or KD tree with the least penalised error.

    Parameters
    ----------
    base : {"dyadic", "kd"}, default "dyadic"
        As for `PACBayesTreeClassifier`.
    penalty : {"size", "spatial"}, default "size"
        Added to the training error: "size", ``price * leaves with data / n``; "spatial", ``price * sum over leaves
        with data sqrt(max(n_A / n, j / n) * j / n)`` with j the leaf's depth (SN pruning, after Scott and Nowak).
    price : float or None, default None
        At least 0; None: by 2-fold cross-validation, as `PACBayesTreeClassifier` chooses lambda1.
    max_depth, bounds, coordinate, random_state
        As for `PACBayesTreeClassifier`.

    Attributes
    ----------
    classes_, tree_, labels_, n_counted_, cv_errors_
        As for `PACBayesTreeClassifier`.
    weights_ : ndarray of shape (n_nodes,)
        1 for the leaves of the subtree chosen, else 0.
    gibbs_risk_ : float
        Its training error.
    price_ : float
        Given or chosen.

    Raises
    ------
    ValueError
        In `fit`: if a parameter is out of range, or there are too few rows.

    Notes
    -----
    Of equally good subtrees a smaller one. A leaf without data predicts as its parent. Costs as for
    `PACBayesTreeClassifier`, with one parameter in place of two. Nguyen and Kpotufe (2018), section 5.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0.0, 1.0, 64)[:, None]
    >>> pruned = PrunedTreeClassifier(price=1.0).fit(X, (X[:, 0] > 0.25).astype(int))
    >>> int(pruned.weights_.sum()), pruned.gibbs_risk_
    (3, 0.0)
    """

    _searched = ("price",)

    def __init__(
        self,
        base: str = "dyadic",
        *,
        penalty: str = "size",
        price: float | None = None,
        max_depth: int | None = None,
        bounds: Any = None,
        coordinate: str = "cycling",
        random_state: Any = None,
    ) -> None:
        self.base = base
        self.penalty = penalty
        self.price = price
        self.max_depth = max_depth
        self.bounds = bounds
        self.coordinate = coordinate
        self.random_state = random_state

    def _check(self) -> None:
        check_penalty(self.penalty)
        check_price("price", self.price)

    def _weights(self, base: BaseTree, chosen: dict[str, float]) -> Weights:
        terms = size_terms if self.penalty == "size" else spatial_terms
        return choose_best(base.graph, terms(base, **chosen))


class HSVoteClassifier(_VotingTree):
    """Weighted vote of all subtrees by absolute loss, for two classes (Helmbold and Schapire 1997).

    Each node predicts the share of the second class among its rows; a subtree weighs its prior times ``exp(-eta * sum
    of absolute errors)``, the prior halving at every node at which T0 could go on. The second class is predicted where
    the weighted mean of the shares exceeds one half.

    Parameters
    ----------
    base : {"dyadic", "kd"}, default "dyadic"
        As for `PACBayesTreeClassifier`.
    eta : float or None, default None
        Price of the loss, >= 0; None: by 2-fold cross-validation, as `PACBayesTreeClassifier` chooses lambda1.
    max_depth, bounds, coordinate, random_state
        As for `PACBayesTreeClassifier`.

    Attributes
    ----------
    classes_, tree_, labels_, weights_, gibbs_risk_, n_counted_, cv_errors_
        As for `PACBayesTreeClassifier`.
    eta_ : float
        Given or chosen.

    Raises
    ------
    ValueError
        In `fit`: if there are more than two classes or too few rows, or a parameter is out of range.

    Notes
    -----
    A leaf without data predicts as its parent. Costs as for `PrunedTreeClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0.0, 1.0, 64)[:, None]
    >>> vote = HSVoteClassifier(eta=1.0).fit(X, (X[:, 0] > 0.25).astype(int))
    >>> vote.predict_proba([[0.9]]).round(3).tolist()
    [[0.0, 1.0]]
    """

    _searched = ("eta",)
    _binary = True

    def __init__(
        self,
        base: str = "dyadic",
        *,
        eta: float | None = None,
        max_depth: int | None = None,
        bounds: Any = None,
        coordinate: str = "cycling",
        random_state: Any = None,
    ) -> None:
        self.base = base
        self.eta = eta
        self.max_depth = max_depth
        self.bounds = bounds
        self.coordinate = coordinate
        self.random_state = random_state

    def _check(self) -> None:
        check_price("eta", self.eta)

    def _value(self, base: BaseTree) -> np.ndarray:
        counts, tree = base.graph.stats, base.tree
        share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        inner = np.flatnonzero(tree.feature >= 0)
        for child in (tree.left[inner], tree.right[inner]):
            bare = base.dummy[child]
            share[child[bare]] = share[inner[bare]]
        return share

    def _weights(self, base: BaseTree, chosen: dict[str, float]) -> Weights:
        inner = base.tree.feature >= 0
        half = np.where(inner, -math.log(2.0), 0.0)
        return weigh(base.graph, absolute_terms(base, **chosen) + half, -math.log(2.0))


def check_penalty(penalty: Any) -> None:
    """Refuse a penalty without meaning."""
    if penalty not in ("size", "spatial"):
        raise ValueError(f"penalty={penalty!r} is unknown; give 'size' or 'spatial'.")


def check_price(name: str, value: Any) -> None:
    """Refuse a price that is neither None nor a finite number >= 0."""
    if value is not None and not 0.0 <= value < math.inf:
        raise ValueError(f"{name}={value!r} is out of range; give a finite price >= 0, or None to cross-validate.")
