"""Scikit-learn classifiers on dyadic and KD trees: the PAC-Bayes tree, and the pruning and voting rules beside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pactree_mcmc.certificates.bound import check_delta
from pactree_mcmc.core.checks import check_choice, check_count
from pactree_mcmc.posterior.divergence import as_divergence

from ..systems.pac_bayes.base_tree import BaseTree, Says, Weights, base_tree, choose_best, weigh
from ..systems.pac_bayes.subtrees import (
    absolute_terms,
    check_lambda,
    practical_terms,
    prior_terms,
    size_terms,
    spatial_terms,
    theoretical_terms,
)
from .rows import Rows
from .voting import VotingTree, check_factor, check_penalty


class PACBayesTreeClassifier(VotingTree):
    """Weighted vote of all subtrees of a dyadic or KD tree (Nguyen and Kpotufe 2018).

    Parameters
    ----------
    base : {"dyadic", "kd"}, default "dyadic"
        Tree T0 whose subtrees vote: coordinates in turn, cut in the middle of the cell's box or at the median of its
        rows. A cell whose rows have one class is a leaf of T0.
    posterior : {"practice", "theory"}, default "practice"
        "practice": a subtree has weight ``exp(-lambda1 * errors - sum over leaves with data (lambda2 * penalty + 1))``,
        with all rows used both to grow and to weigh. "theory": ``exp(-lam * sum over leaves (errors + sqrt(2 n_A
        log(|T0| / delta))) - 3 D0 leaves)``; T0 and its labels from one half of the rows, drawn at random, weights from
        the other.
    penalty : {"size", "spatial"}, default "size"
        With "practice", for a leaf A with n_A rows at depth j: "size", ``sqrt(n_A)`` as in the paper; "spatial",
        ``sqrt(max(n_A, j) * j)`` as in SN pruning.
    lambda1, lambda2 : float or None, default None
        Penalty parameters >= 0; None: by 2-fold cross-validation, first lambda1 (with lambda2 = 1 if that is None too),
        then lambda2: 10 values evenly spaced in logarithm from 2^-8 to 2^6, then 10 from half to twice the best.
    lam : float, default 1.0
        With "theory", in (0, 2).
    delta : float, default 0.05
        With "theory", in (0, 1).
    prior_depth : int or None, default None
        D0 with "theory", >= 0; None: the depth of T0.
    max_depth : int or None, default None
        Depth of the deepest leaf of T0, >= 1; None: ``p * floor(log n)`` for a dyadic tree, no limit for a KD tree.
    bounds : array of shape (p, 2) or None, default None
        Box of a dyadic tree; None: the range of the rows.
    coordinate : {"cycling", "widest"}, default "cycling"
        For a KD tree, as in `pactree_mcmc.kd_tree`.
    random_state : int, RandomState or None, default None
        Source of randomness for the halves of cross-validation and of "theory".

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
    counted_rows_ : ndarray of int64
        With "theory": indices of these rows among the rows given, copies repeated.
    lambda1_, lambda2_ : float
        With "practice": given or chosen.
    cv_errors_ : dict of name to ndarray of shape (20, 2)
        Values tried and their cross-validated errors, for the parameters chosen.

    Raises
    ------
    ValueError
        In `fit`: if a parameter is out of range, or there are too few rows.

    Notes
    -----
    A child of T0 without rows is a dummy in the paper's terms: a leaf with phi = 0. For new rows that reach it, it
    votes like its parent with "practice", and for the first class with "theory" (the paper's Corollary 1).

    With T0 of m nodes: O(n depth) to grow it, O(m K) for a pair of lambdas, 80 of them for cross-validation on two
    trees of half the rows; O(depth) per prediction. With "theory" the prior depends on one half only, so that
    ``pactree_mcmc.certificates`` can be applied to ``gibbs_risk_``, ``kl_`` and ``n_counted_`` (unless
    ``sample_weight`` has made copies, which are not independent rows, or the first class, the label of cells without
    rows, occurs only in the counted half). Its vote is meant for that bound and not for accuracy: with a few hundred
    rows its constants leave hardly more than the root, which is why the scikit-learn tag ``poor_score`` is set.
    The theorem needs 8 counted rows (`exact.oracle_bound` refuses fewer).

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
    counted_rows_: np.ndarray
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.posterior == "theory"
        return tags

    def _check(self) -> None:
        check_choice("posterior", self.posterior, ("practice", "theory"))
        check_penalty(self.penalty)
        check_lambda(self.lam)
        check_delta(self.delta)
        if self.prior_depth is not None:
            check_count("prior_depth", self.prior_depth, 0, or_none=True)
        for name in self._searched:
            check_factor(name, getattr(self, name))
            if self.posterior == "theory" and getattr(self, name) is not None:
                raise ValueError(f"{name} is for posterior='practice'; 'theory' has lam: leave {name} out.")

    def _weights(self, base: BaseTree, chosen: dict[str, float]) -> Weights:
        return weigh(base.graph, practical_terms(base, **chosen, penalty=self.penalty))

    def _fit_rows(self, rows: Rows, bounds: np.ndarray) -> None:
        if self.posterior == "theory":
            self._fit_theory(rows, bounds)
            return
        super()._fit_rows(rows, bounds)

    def _fit_theory(self, rows: Rows, bounds: np.ndarray) -> None:
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
        self.cv_errors_, self.counted_rows_ = {}, np.sort(rows.place[counted])
        self.prior_depth_ = int(base.graph.depth.max()) if self.prior_depth is None else int(self.prior_depth)
        self._keep(base, weigh(base.graph, theoretical_terms(base, self.lam, self.delta, self.prior_depth_)))

    @property
    def _terms(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns what each node as a leaf adds to the log weight of a subtree, and to its log prior."""
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
        gain, log_ratio = float(self.weights_ @ (terms - prior)), float(self._log_total - log_mass)
        return as_divergence(gain - log_ratio, abs(gain) + abs(log_ratio))


class PrunedTreeClassifier(VotingTree):
    """The subtree of a dyadic or KD tree with the least penalised error.

    Parameters
    ----------
    base : {"dyadic", "kd"}, default "dyadic"
        As for `PACBayesTreeClassifier`.
    penalty : {"size", "spatial"}, default "size"
        Added to the training error: "size", ``alpha * leaves with data / n``; "spatial", ``alpha * sum over leaves
        with data sqrt(max(n_A / n, j / n) * j / n)`` with j the leaf's depth (SN pruning, after Scott and Nowak).
    alpha : float or None, default None
        Penalty per leaf, >= 0; None: by 2-fold cross-validation, as `PACBayesTreeClassifier` chooses lambda1.
    max_depth, bounds, coordinate, random_state
        As for `PACBayesTreeClassifier`.

    Attributes
    ----------
    classes_, tree_, labels_, n_counted_, cv_errors_, split_counts_, feature_importances_
        As for `PACBayesTreeClassifier`.
    weights_ : ndarray of shape (n_nodes,)
        1 for the leaves of the subtree chosen, else 0.
    gibbs_risk_ : float
        Its training error.
    alpha_ : float
        Given or chosen.

    Raises
    ------
    ValueError
        In `fit`: if a parameter is out of range, or there are too few rows.

    Notes
    -----
    Among equally good subtrees a smallest one is chosen. A leaf without data predicts as its parent. Costs as for
    `PACBayesTreeClassifier`, with one parameter in place of two. Nguyen and Kpotufe (2018), section 5.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0.0, 1.0, 64)[:, None]
    >>> pruned = PrunedTreeClassifier(alpha=1.0).fit(X, (X[:, 0] > 0.25).astype(int))
    >>> int(pruned.weights_.sum()), pruned.gibbs_risk_
    (3, 0.0)
    """

    alpha_: float
    _searched = ("alpha",)

    def __init__(
        self,
        base: str = "dyadic",
        *,
        penalty: str = "size",
        alpha: float | None = None,
        max_depth: int | None = None,
        bounds: Any = None,
        coordinate: str = "cycling",
        random_state: Any = None,
    ) -> None:
        self.base = base
        self.penalty = penalty
        self.alpha = alpha
        self.max_depth = max_depth
        self.bounds = bounds
        self.coordinate = coordinate
        self.random_state = random_state

    def _check(self) -> None:
        check_penalty(self.penalty)
        check_factor("alpha", self.alpha)

    def _weights(self, base: BaseTree, chosen: dict[str, float]) -> Weights:
        terms = size_terms if self.penalty == "size" else spatial_terms
        return choose_best(base.graph, terms(base, **chosen))


class HSVoteClassifier(VotingTree):
    """Weighted vote of all subtrees by absolute loss, for two classes (Helmbold and Schapire 1997).

    Each node predicts the fraction of the second class among its rows. A subtree has weight prior times ``exp(-eta *
    sum of absolute errors)``; its prior has a factor 1/2 for every one of its nodes that T0 splits. The second class is
    predicted if the weighted mean of the fractions exceeds one half.

    Parameters
    ----------
    base : {"dyadic", "kd"}, default "dyadic"
        As for `PACBayesTreeClassifier`.
    eta : float or None, default None
        Learning rate, the factor of the loss, >= 0; None: by 2-fold cross-validation, as `PACBayesTreeClassifier`
        chooses lambda1.
    max_depth, bounds, coordinate, random_state
        As for `PACBayesTreeClassifier`.

    Attributes
    ----------
    classes_, tree_, labels_, weights_, gibbs_risk_, n_counted_, cv_errors_, split_counts_, feature_importances_
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

    eta_: float
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
        check_factor("eta", self.eta)

    def _says(self, base: BaseTree) -> Says:
        """The fractions of the two classes among a node's rows, or its parent's."""
        counts, tree = base.graph.stats, base.tree
        share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        inner = np.flatnonzero(tree.feature >= 0)
        for child in (tree.left[inner], tree.right[inner]):
            bare = base.dummy[child]
            share[child[bare]] = share[inner[bare]]
        return Says(share, np.arange(tree.n_nodes))

    def _weights(self, base: BaseTree, chosen: dict[str, float]) -> Weights:
        inner = base.tree.feature >= 0
        half = np.where(inner, -math.log(2.0), 0.0)
        return weigh(base.graph, absolute_terms(base, **chosen) + half, -math.log(2.0))
