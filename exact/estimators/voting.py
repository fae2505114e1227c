"""scikit-learn classifiers by the vote of all subtrees of a dyadic or KD tree (Nguyen and Kpotufe 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pactree_mcmc.core.checks import check_choice, check_count, check_number, read_numbers
from pactree_mcmc.model.split_prior.base import MAX_LEVELS
from pactree_mcmc.model.split_prior.designs import column_ranges, dyadic_tree, kd_tree
from pactree_mcmc.model.tree_prior import DEPTH_CEILING
from pactree_mcmc.posterior.trees.cells import checked_divergence
from pactree_mcmc.tree.tree import Tree

from ..systems import pac_bayes
from ..systems.pac_bayes import BaseTree, NodeVotes, Weights, base_tree, node_weights
from ..systems.pruning import LARGEST_PENALTY
from .base import ClassifierOfTree, SortedRows, documented, read_rows, set_parameters

LOG_GRID = np.geomspace(2.0**-8, 2.0**6, 10)  # values of a parameter that cross-validation tries first, as in the paper


class Fold(NamedTuple):
    """A base tree grown on one half of the rows, and the leaves that the other, held-out half reaches."""

    base: BaseTree  # The base tree
    votes: NodeVotes  # Votes of its nodes
    reached_leaf: np.ndarray  # int64: number, among the leaves of the tree, of the leaf that each held-out row reaches
    label: np.ndarray  # int64: class of each held-out row


class VotingTree(ClassifierOfTree):
    """Base class: a base tree, weights of its subtrees, and their vote. Subclasses define the weights and the votes."""

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

    _cross_validated: tuple[str, ...] = ()  # Parameters that cross-validation chooses, in this order, if they are None

    def _weights(self, base: BaseTree, parameters: dict[str, float]) -> Weights:
        """Return the posterior probabilities, in a random subtree of `base`, that each node is a leaf and is split."""
        raise NotImplementedError

    def _node_votes(self, base: BaseTree) -> NodeVotes:
        """Return the vote of each node as a leaf: the whole vote for its label."""
        return NodeVotes(np.eye(len(self.classes_)), base.label)

    def _check(self) -> None:
        """Raise ValueError if a parameter is out of range."""

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
        self._check_tree()
        self._check()
        rows = read_rows(self, X, y, sample_weight)
        self.classes_ = rows.classes
        self._fit_rows(rows, self._bounds_of(rows.X))
        return self

    def _fit_rows(self, rows: SortedRows, bounds: np.ndarray) -> None:
        """Grow the base tree, choose parameters, and set the fitted attributes, given checked rows."""
        X, label = rows.X, rows.label
        parameters = self._search(X, label, bounds)
        for name, value in parameters.items():
            setattr(self, f"{name}_", value)
        base = self._labelled_base(X, label, bounds)
        self._set_fitted(base, self._weights(base, parameters))

    def _set_fitted(self, base: BaseTree, weights: Weights) -> None:
        """Set the fitted attributes (``tree_`` to ``gibbs_risk_``) from the base tree and its weights of subtrees."""
        self.tree_, self.labels_, self.weights_ = base.tree, base.label, np.exp(weights.log_leaf)
        self.n_counted_ = int(base.graph.rows[0])
        self.gibbs_risk_ = float(self.weights_ @ base.errors / self.n_counted_)
        self._base, self._log_total, self._node_split_fraction = base, weights.log_total, weights.split_fraction
        self._votes = self._vote(base, weights, self._node_votes(base))

    def _split_fractions(self) -> np.ndarray:
        return self._node_split_fraction

    def _divergence(self, terms: np.ndarray, prior: np.ndarray) -> float:
        """Return the Kullback-Leibler divergence of the posterior over subtrees from the prior, nats."""
        log_mass = node_weights(self._base.graph, prior).log_total
        gain, log_ratio = float(self.weights_ @ (terms - prior)), float(self._log_total - log_mass)
        return checked_divergence(gain - log_ratio, abs(gain) + abs(log_ratio))

    def _vote(self, base: BaseTree, weights: Weights, votes: NodeVotes) -> np.ndarray:
        """Return the votes (n_leaves, K), not normalised, for a row that reaches each leaf of the base tree."""
        # sum over the nodes on the path of P(the node is the leaf) times its vote, divided by the largest probability
        # there
        return pac_bayes.sum_votes_to_leaves(base.graph.depth, base.tree.left, weights.log_leaf, *votes, base.dummy)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the fractions of the votes, (n, K); columns follow ``classes_``. Cost O(depth) per row."""
        X = self._read_new(X)
        votes = self._votes[self._base.leaf_number[self._base.routes.leaves(X)]]
        return votes / votes.sum(axis=1, keepdims=True)

    def _check_tree(self) -> None:
        """Raise ValueError if a parameter of the base tree is out of range."""
        check_choice("base", self.base, ("dyadic", "kd"))
        check_choice("coordinate", self.coordinate, ("cycling", "widest"))
        if self.coordinate != "cycling" and self.base == "dyadic":
            raise ValueError("a dyadic tree takes its coordinates in turn; give coordinate='cycling', or base='kd'.")
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth, or_none=True)

    def _bounds_of(self, X: np.ndarray) -> np.ndarray:
        """Return the lower and upper end of each feature, (p, 2), the same for all folds; by default the range of X."""
        return column_ranges(X) if self.bounds is None else read_numbers("bounds", self.bounds)

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

    def _counts(self, tree: Tree, X: np.ndarray, label: np.ndarray) -> np.ndarray:
        """Return the number (n_nodes, K) of rows ``X`` (n, p) of each class, ``label`` (n,), in each node."""
        return pac_bayes.count_rows(tree, X, label, len(self.classes_))

    def _labelled_base(self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray) -> BaseTree:
        """Return the tree of `_grow`, given the same arguments, its nodes labelled by the same rows, with errors."""
        tree = self._grow(X, label, bounds)
        return base_tree(tree, self._counts(tree, X, label))

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

    def _new_fold(
        self, X: np.ndarray, label: np.ndarray, bounds: np.ndarray, rows: np.ndarray, held_out: np.ndarray
    ) -> Fold:
        """Return the base tree of ``rows`` (indices in X), with the leaves that the rows ``held_out`` reach."""
        base = self._labelled_base(X[rows], label[rows], bounds)
        return Fold(base, self._node_votes(base), base.leaf_number[base.routes.leaves(X[held_out])], label[held_out])

    def _n_wrong(self, fold: Fold, parameters: dict[str, float]) -> int:
        """Return the number of held-out rows of ``fold`` that the vote under ``parameters`` misclassifies."""
        votes = self._vote(fold.base, self._weights(fold.base, parameters), fold.votes)
        return int(np.sum(np.argmax(votes, axis=1)[fold.reached_leaf] != fold.label))


def check_penalty(penalty: Any) -> None:
    """Raise ValueError if ``penalty`` is not "size" or "spatial"."""
    check_choice("penalty", penalty, ("size", "spatial"))


def check_optional_factor(name: str, value: Any) -> None:
    """Raise ValueError if a parameter is neither None nor a finite number >= 0."""
    if value is not None:
        check_number(name, value, "a finite number >= 0, or None to cross-validate", 0.0, LARGEST_PENALTY)


@documented
class PACBayesTreeClassifier(VotingTree):
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

    lambda1_: float
    lambda2_: float
    _cross_validated = ("lambda1", "lambda2")

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

    def _check(self) -> None:
        check_penalty(self.penalty)
        for name in self._cross_validated:
            check_optional_factor(name, getattr(self, name))

    def _weights(self, base: BaseTree, parameters: dict[str, float]) -> Weights:
        return node_weights(base.graph, pac_bayes.practical_terms(base, **parameters, penalty=self.penalty))

    @property
    def kl_(self) -> float:
        """Divergence of the posterior over subtrees from the prior, nats."""
        check_is_fitted(self)
        terms = pac_bayes.practical_terms(self._base, self.lambda1_, self.lambda2_, self.penalty)
        return self._divergence(terms, pac_bayes.practical_terms(self._base, 0.0, 0.0))
