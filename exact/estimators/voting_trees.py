"""Scikit-learn classifiers on dyadic and KD trees: the PAC-Bayes tree, and the pruning and voting rules beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pactree_mcmc.certificates.bound import check_delta
from pactree_mcmc.core.checks import check_count

from ..systems.pac_bayes.base_tree import BaseTree, Weights, base_tree, weigh
from ..systems.pac_bayes.subtrees import (
    check_lambda,
    practical_terms,
    prior_terms,
    theoretical_terms,
)
from .rows import Rows
from .voting import VotingTree, check_optional_factor, check_penalty


class PACBayesTreeClassifier(VotingTree):
    """Weighted vote of all subtrees of a dyadic or KD tree (Nguyen and Kpotufe 2018).

    Parameters
    ----------
    base : {"dyadic", "kd"}, default "dyadic"
        Tree T0 whose subtrees vote: coordinates in turn, cut in the middle of the cell's box or at the median of its
        rows. A cell whose rows have one class is a leaf of T0.
    penalty : {"size", "spatial"}, default "size"
        For a leaf A with n_A rows at depth j: "size", ``sqrt(n_A)`` as in the paper; "spatial", ``sqrt(max(n_A, j) *
        j)`` as in SN pruning.
    lambda1, lambda2 : float or None, default None
        Penalty parameters >= 0; None: by 2-fold cross-validation, first lambda1 (with lambda2 = 1 if that is None too),
        then lambda2: 10 values evenly spaced in logarithm from 2^-8 to 2^6, then 10 from half to twice the best.
    max_depth : int or None, default None
        Largest depth of a leaf of T0, >= 1; None: ``p * floor(log n)`` for a dyadic tree, no limit for a KD tree.
    bounds : array of shape (p, 2) or None, default None
        Box of a dyadic tree; None: the range of the rows.
    coordinate : {"cycling", "widest"}, default "cycling"
        For a KD tree, as in `pactree_mcmc.kd_tree`.
    random_state : int, RandomState or None, default None
        Source of randomness for the halves of cross-validation.

    Attributes
    ----------
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
    lambda1_, lambda2_ : float
        Given or chosen.
    cv_errors_ : dict of name to ndarray of shape (20, 2)
        Values tried and their cross-validated errors, for the parameters chosen.

    Raises
    ------
    ValueError
        In `fit`: if a parameter is out of range, or there are too few rows.

    Notes
    -----
    A subtree has weight ``exp(-lambda1 * errors - sum over leaves with data (lambda2 * penalty + 1))``. All rows are
    used to grow T0, to label it and to weigh its subtrees, so that no bound applies; for bounds see
    `PACBayesTheoryClassifier`. A child of T0 without rows is a dummy in the paper's terms, a leaf with phi = 0. The
    paper adds dummies to compute the weights of the nodes of T0, and gives them no label: a new row that reaches one is
    classified by the nodes of T0 above it, and the dummy abstains. If none of these ever is a leaf, because their
    weights are 0, the dummy votes like its parent.

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
    _searched = ("lambda1", "lambda2")

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
        self.base = base
        self.penalty = penalty
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.max_depth = max_depth
        self.bounds = bounds
        self.coordinate = coordinate
        self.random_state = random_state

    def _check(self) -> None:
        check_penalty(self.penalty)
        for name in self._searched:
            check_optional_factor(name, getattr(self, name))

    def _weights(self, base: BaseTree, chosen: dict[str, float]) -> Weights:
        return weigh(base.graph, practical_terms(base, **chosen, penalty=self.penalty))

    @property
    def kl_(self) -> float:
        """Divergence of the posterior over subtrees from the prior, nats."""
        check_is_fitted(self)
        terms = practical_terms(self._base, self.lambda1_, self.lambda2_, self.penalty)
        return self._divergence(terms, practical_terms(self._base, 0.0, 0.0))


class PACBayesTheoryClassifier(VotingTree):
    """Weighted vote of all subtrees to which a bound applies (Nguyen and Kpotufe 2018, Theorem 1).

    Parameters
    ----------
    base : {"dyadic", "kd"}, default "dyadic"
        As for `PACBayesTreeClassifier`.
    lam : float, default 1.0
        In (0, 2).
    delta : float, default 0.05
        In (0, 1).
    prior_depth : int or None, default None
        D0, >= 0; None: the depth of T0.
    max_depth, bounds, coordinate
        As for `PACBayesTreeClassifier`.
    random_state : int, RandomState or None, default None
        Source of randomness for the half of the rows that grows T0.

    Attributes
    ----------
    classes_, tree_, labels_, weights_, split_counts_, feature_importances_, gibbs_risk_, kl_, n_counted_
        As for `PACBayesTreeClassifier`.
    counted_rows_ : ndarray of int64
        Indices, among the rows given, of those that weigh the subtrees, copies repeated.
    prior_depth_ : int
        D0.

    Raises
    ------
    ValueError
        In `fit`: if a parameter is out of range, or there are too few rows.

    Notes
    -----
    One half of the rows, drawn at random, grows T0 and labels its nodes; the other weighs the subtrees, by ``exp(-lam
    * sum over leaves (errors + sqrt(2 n_A log(|T0| / delta))) - 3 D0 leaves)``. As the prior depends on one half only,
    ``pactree_mcmc.certificates`` can be applied to ``gibbs_risk_``, ``kl_`` and ``n_counted_``, unless
    ``sample_weight`` has made copies, which are not independent rows, or the first class, the label of cells without
    rows (the paper's Corollary 1), occurs only in the counted half. The vote is meant for that bound and not for
    accuracy: with a few hundred rows its constants leave hardly more than the root, which is why the scikit-learn tag
    ``poor_score`` is set. The theorem needs 8 counted rows (`exact.oracle_bound` refuses fewer). Cost: O(n depth), and
    O(depth) per prediction.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0.0, 1.0, 400)[:, None]
    >>> vote = PACBayesTheoryClassifier(max_depth=2, random_state=1).fit(X, (X[:, 0] > 0.5).astype(int))
    >>> vote.n_counted_, vote.predict([[0.1], [0.9]]).tolist()
    (200, [0, 1])
    """

    counted_rows_: np.ndarray
    prior_depth_: int

    def __init__(
        self,
        base: str = "dyadic",
        *,
        lam: float = 1.0,
        delta: float = 0.05,
        prior_depth: int | None = None,
        max_depth: int | None = None,
        bounds: Any = None,
        coordinate: str = "cycling",
        random_state: Any = None,
    ) -> None:
        self.base = base
        self.lam = lam
        self.delta = delta
        self.prior_depth = prior_depth
        self.max_depth = max_depth
        self.bounds = bounds
        self.coordinate = coordinate
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def _check(self) -> None:
        check_lambda(self.lam)
        check_delta(self.delta)
        if self.prior_depth is not None:
            check_count("prior_depth", self.prior_depth, 0, or_none=True)

    def _fit_rows(self, rows: Rows, bounds: np.ndarray) -> None:
        X, label, n = rows.X, rows.label, len(rows.X)
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
        self.counted_rows_ = np.sort(rows.place[counted])
        self.prior_depth_ = int(base.graph.depth.max()) if self.prior_depth is None else int(self.prior_depth)
        self._keep(base, weigh(base.graph, theoretical_terms(base, self.lam, self.delta, self.prior_depth_)))

    @property
    def kl_(self) -> float:
        """Divergence of the posterior over subtrees from the prior, nats."""
        check_is_fitted(self)
        terms = theoretical_terms(self._base, self.lam, self.delta, self.prior_depth_)
        return self._divergence(terms, prior_terms(self._base, self.prior_depth_))
