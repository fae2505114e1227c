"""The exact progressive mixture as a scikit-learn classifier."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pactree_mcmc.core.checks import check_choice, check_count
from pactree_mcmc.model import BranchingProcess, FrozenLaplace, TreeModel
from pactree_mcmc.model.split_prior.designs import dyadic_tree, kd_tree
from pactree_mcmc.model.tree_prior import DEPTH_CEILING
from pactree_mcmc.posterior.sampled import fractions

from ..systems.progressive.mixture import ProgressiveMixture, progressive_mixture
from .base import ExactClassifier, read_rows, set_parameters


class ProgressiveMixtureClassifier(ExactClassifier):
    """Progressive mixture over all subtrees of a KD or dyadic tree, exactly (Blanchard 1999).

    Half of the rows determine the class frequencies of every node, the others enter one by one; the prediction is the
    mean of the posterior predictions over the numbers of examples that have entered and over random orders and halves.

    Parameters
    ----------
    base : {"kd", "dyadic"}, default "kd"
        Tree whose subtrees are mixed, grown without regard to the labels: median cuts of the coordinate in which the
        cell is widest, or coordinates in turn cut in the middle of the cell's box.
    rho : float, default 0.5
        Prior probability that a node splits, in [0, 1).
    pseudocount : float, default 0.5
        Added to each class in the frequencies of a node, > 0.
    orders : int, default 10
        Number of random orders, each with its own random half, >= 1.
    max_depth : int or None, default None
        Depth of the deepest leaf, >= 1; None: ``floor(log2(n))``, for a dyadic tree at least the number of features.
    random_state : int, RandomState or None, default None
        Source of randomness for the orders.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Sorted labels.
    mixture_ : ProgressiveMixture
        The mixture, with all its methods.
    rows_ : ndarray of shape (n_rows,)
        Index, among the rows passed, of each row of its model.
    feature_importances_ : ndarray of shape (p,)
        Probability that a tree splits on the feature, divided by the sum over features; computed on first access.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (p,)
        Column names of a frame, if they are strings.

    Raises
    ------
    ValueError
        In `fit`: if the input or a parameter cannot be used.
    Intractable
        In `fit`: if the copies of nodes, n times the depth, do not fit.

    Notes
    -----
    O(n depth) per order, O(depth) per prediction. ``pt.progressive_mixture`` is not restricted to a fixed tree, but
    uses Monte Carlo.
    Blanchard (1999), The "progressive mixture" estimator for regression trees, Annales de l'I.H.P. 35(6).

    Examples
    --------
    >>> X = np.arange(64.0)[:, None]
    >>> fitted = ProgressiveMixtureClassifier(random_state=0).fit(X, X[:, 0] > 31)
    >>> fitted.predict([[3.0], [60.0]]).tolist()
    [False, True]
    """

    mixture_: ProgressiveMixture

    def __init__(
        self,
        base: str = "kd",
        *,
        rho: float = 0.5,
        pseudocount: float = 0.5,
        orders: int = 10,
        max_depth: int | None = None,
        random_state: Any = None,
    ) -> None:
        set_parameters(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the tree and sum over its subtrees, for rows X (n, p) of finite numbers with labels y (n,).

        ``sample_weight`` (n,) holds whole numbers >= 0: how often each row is there.
        """
        check_choice("base", self.base, ("kd", "dyadic"))
        check_count("orders", self.orders)
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth)
        leaf, prior = FrozenLaplace(self.pseudocount), BranchingProcess(self.rho, None)
        rows = read_rows(self, X, y, sample_weight)
        self.rows_ = rows.place
        n, p = rows.X.shape
        drawn = check_random_state(self.random_state)
        depth = int(math.log2(n)) if self.max_depth is None else int(self.max_depth)
        if self.base == "kd":
            design = kd_tree(rows.X, min(depth, DEPTH_CEILING), coordinate="widest")
        else:
            design = dyadic_tree(rows.X, max(depth, p) if self.max_depth is None else depth)
        half = drawn.permutation(n) < max(n // 2, 1)
        labels = rows.classes[rows.label]
        model = TreeModel(rows.X, labels, tree_prior=prior, split_prior=design, leaf=leaf, estimation=half)
        seed = int(drawn.randint(np.iinfo(np.int32).max))
        self.mixture_ = progressive_mixture(model, orders=int(self.orders), resplit=True, rng=seed)
        return self

    @property
    def classes_(self) -> np.ndarray:  # type: ignore[override]
        """Sorted labels (K,)."""
        check_is_fitted(self, "mixture_")
        assert self.mixture_.model.classes_ is not None
        return self.mixture_.model.classes_

    @property
    def feature_importances_(self) -> np.ndarray:
        """Probability (p,) that a tree splits on the feature, divided by the sum over features."""
        check_is_fitted(self, "mixture_")
        return fractions(self.mixture_._feature_inclusion())

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return predictive probabilities (n, K) of the classes; columns follow ``classes_``."""
        rows = self._read_new(X)
        return self.mixture_.predict_proba(rows)
