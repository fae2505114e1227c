"""The scikit-learn classifier that predicts by the best dyadic tree."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pactree_mcmc.certificates import Bound, dyadic_tree_bound
from pactree_mcmc.core.checks import check_choice, check_flag
from pactree_mcmc.table.validation import read_data

from ..systems.dyadic_trees import minimise_risk, needs_cyclic
from .base import ClassifierOfTree, documented, read_rows, set_parameters


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
            raise ValueError(
                "the bound is for dyadic trees chosen before the rows were seen, and the range of X was learnt from "
                "them; give bounds=, the ends of each feature's range."
            )
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
