"""scikit-learn estimators of dyadic decision trees."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pactree_mcmc.certificates import Bound, dyadic_tree_bound
from pactree_mcmc.core.checks import check_choice, check_flag
from pactree_mcmc.table.validation import read_data

from ..systems.scott.neyman_pearson import Guarantee, neyman_pearson_tree
from ..systems.scott.risk_minimisation import minimise_risk, needs_cyclic
from .importances import AsksFeatures
from .rows import read_rows


class _DyadicTree(AsksFeatures, ClassifierMixin, BaseEstimator):
    """Base of both classifiers: the tree, prediction."""

    classes_: np.ndarray
    levels_: int

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities (n, K) of the leaves that rows reach; columns follow ``classes_``."""
        check_is_fitted(self)
        X = read_data(self, X, reset=False, dtype=np.float64)
        value = self.tree_.value
        assert value is not None
        return value[self.tree_.apply(X)]

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n,) of rows."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]

    def _numbered(self, y: np.ndarray) -> np.ndarray:
        """Labels as the numbers 0..K-1 that are the tree's classes; -1, always wrong, for one it does not know."""
        place = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        return np.where(self.classes_[place] == y, place, -1)

    def _is_cyclic(self, n: int, p: int) -> bool:
        """Whether coordinates are taken in turn, as ``cyclic`` says, or n rows of p features need."""
        if isinstance(self.cyclic, str):
            check_choice("cyclic", self.cyclic, ("auto",))
            return needs_cyclic(n, p, self.levels)
        return check_flag("cyclic", self.cyclic)

    def _check_bounds(self) -> None:
        check_is_fitted(self)
        if self.bounds is None:
            raise ValueError(
                "the bound is for dyadic trees chosen before the rows were seen, and the range of X was learnt from "
                "them; give bounds=, the ends of each feature's range."
            )


class DyadicTreeClassifier(_DyadicTree):
    """The dyadic decision tree with the smallest empirical risk plus penalty, over all such trees (Scott 2004).

    Parameters
    ----------
    penalty : {"adaptive", "square-root"}, float, or penalty, default "adaptive"
        As for `minimise_risk`: the spatially adaptive penalty, the square-root penalty, a number as the penalty per
        leaf, or an object: on root fragments, your own additive or size penalty.
    strength : float, default 0.1
        Multiplies the penalty. The theory has 1, with large constants; choose it by cross-validation.
    levels : int or None, default None
        Splits of one coordinate on the way to a leaf; None: `default_levels`, from n and p.
    cyclic : bool or "auto", default "auto"
        Coordinate ``depth mod p``; else any coordinate at each split. "auto": any coordinate, unless there are too many
        features for that (`needs_cyclic`).
    bounds : array of shape (p, 2) or None, default None
        Ends of each feature's range; None: learnt from X.
    max_cells : int, default 20,000,000
        Cells allowed; `Intractable` is raised above.

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
        Whether coordinates were taken in turn.
    split_counts_, feature_importances_ : ndarray of shape (p,)
        Number of splits of the tree on each feature, and the same normalised to sum 1.
    n_features_in_ : int

    Examples
    --------
    >>> X = np.arange(100.0)[:, None]
    >>> fitted = DyadicTreeClassifier(levels=3, bounds=[[0.0, 99.0]]).fit(X, X[:, 0] > 49.5)
    >>> fitted.tree_.n_leaves, fitted.predict([[10.0], [90.0]]).tolist()
    (2, [False, True])
    >>> round(fitted.risk_bound(X, X[:, 0] > 49.5).raw, 2)
    1.07
    """

    risk_: float
    penalty_: float
    cyclic_: bool

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
        self.penalty = penalty
        self.strength = strength
        self.levels = levels
        self.cyclic = cyclic
        self.bounds = bounds
        self.max_cells = max_cells

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the tree to rows X (n, p) with labels y (n,), each counted ``sample_weight`` (n,) times.

        Raises
        ------
        ValueError
            If an argument is out of range or the input is invalid.
        Intractable
            If there are more cells than allowed.
        """
        rows = read_rows(self, X, y, sample_weight)
        self.classes_ = rows.classes
        self.cyclic_ = self._is_cyclic(*rows.X.shape)
        found = minimise_risk(
            rows.X,
            rows.label,
            penalty=self.penalty,
            strength=self.strength,
            levels=self.levels,
            cyclic=self.cyclic_,
            bounds=self.bounds,
            max_cells=self.max_cells,
        )
        self.tree_, self.risk_, self.penalty_, self.levels_ = found.tree, found.risk, found.penalty, found.levels
        return self

    def risk_bound(self, X: Any, y: Any, *, n_classes: int = 2, delta: float = 0.05) -> Bound:
        """Scott's Theorem 2 for the fitted tree, with errors counted on rows X, y, which may be the training rows.

        ``n_classes``: number of possible labels, fixed before the rows were seen.

        Raises
        ------
        ValueError
            If ``bounds`` was not given, the tree has more than ``n_classes`` classes, or ``delta`` is outside (0, 1).
        """
        self._check_bounds()
        X, y = read_data(self, X, y, reset=False, dtype=np.float64)
        labels = self._numbered(y)
        return dyadic_tree_bound(self.tree_, X, labels, n_classes=n_classes, delta=delta, cyclic=self.cyclic_)


class NeymanPearsonTreeClassifier(_DyadicTree):
    """The dyadic tree with the fewest misses at a false-alarm level ``alpha`` (Scott 2004, chapter 3). Two classes.

    The null class is the smaller label; a false alarm is a row of the null class that is assigned to the other.

    Parameters
    ----------
    alpha : float, default 0.1
        False-alarm level, in (0, 1).
    method : {"srm", "erm", "adaptive"}, default "srm"
        As for `neyman_pearson_tree`.
    max_leaves : int or None, default None
        Largest number of leaves; None: as many as can matter. "erm" needs a number.
    tolerance : float, default 0.0
        Multiple of the theory's tolerance that is added to ``alpha``; with 0 the false-alarm rate on the training rows
        is at most ``alpha``.
    strength : float, default 0.5
        Multiplies the penalty of misses; choose it by cross-validation.
    delta0, delta1 : float, default 0.05
        Confidence parameters, in (0, 1).
    levels : int or None, default None
        Splits of one coordinate on the way to a leaf; None: `default_levels`.
    cyclic : bool, default True
        Coordinate ``depth mod p``; False: any coordinate at each split, for few features.
    bounds : array of shape (p, 2) or None, default None
        Ends of each feature's range; None: learnt from X.
    max_cells : int, default 20,000,000
        Cells allowed; `Intractable` is raised above.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Null class first.
    tree_ : Tree
    false_alarm_, miss_ : float
        On the training rows.
    levels_ : int
    split_counts_, feature_importances_ : ndarray of shape (p,)
        Number of splits of the tree on each feature, and the same normalised to sum 1.
    n_features_in_ : int

    Examples
    --------
    >>> X = np.arange(400.0)[:, None]
    >>> y = np.where((X[:, 0] >= 200) | (X[:, 0] % 20 == 0), "spam", "ham")
    >>> fitted = NeymanPearsonTreeClassifier(alpha=0.05, levels=3).fit(X, y)
    >>> fitted.predict([[10.0], [390.0]]).tolist(), fitted.false_alarm_
    (['ham', 'spam'], 0.0)
    """

    false_alarm_: float
    miss_: float

    def __init__(
        self,
        alpha: float = 0.1,
        *,
        method: str = "srm",
        max_leaves: int | None = None,
        tolerance: float = 0.0,
        strength: float = 0.5,
        delta0: float = 0.05,
        delta1: float = 0.05,
        levels: int | None = None,
        cyclic: bool = True,
        bounds: Any = None,
        max_cells: int = 20_000_000,
    ) -> None:
        self.alpha = alpha
        self.method = method
        self.max_leaves = max_leaves
        self.tolerance = tolerance
        self.strength = strength
        self.delta0 = delta0
        self.delta1 = delta1
        self.levels = levels
        self.cyclic = cyclic
        self.bounds = bounds
        self.max_cells = max_cells

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the tree to rows X (n, p) with labels y (n,) of two classes, each counted ``sample_weight`` (n,) times.

        Raises
        ------
        ValueError
            If y does not have two classes, an argument is out of range or the input is invalid.
        Intractable
            If the problem is too large.
        """
        rows = read_rows(self, X, y, sample_weight)
        self.classes_ = rows.classes
        if len(self.classes_) != 2:
            kind = "one class" if len(self.classes_) < 2 else "multiclass"
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}: y holds "
                f"{len(self.classes_)} class(es), {self.classes_.tolist()[:5]}; give two."
            )
        names = ("method", "max_leaves", "tolerance", "strength", "delta0", "delta1", "levels", "cyclic", "bounds")
        given = {name: getattr(self, name) for name in (*names, "max_cells")}
        found = neyman_pearson_tree(rows.X, rows.label, alpha=self.alpha, **given)
        self.tree_, self.levels_ = found.tree, found.levels
        self.false_alarm_, self.miss_ = found.false_alarm, found.miss
        self._guarantee = None if rows.are_repeated else found.guarantee
        return self

    def guarantee(self) -> Guarantee:
        """Returns the bounds of Scott's Theorem 14 for the fitted tree.

        Raises
        ------
        ValueError
            If ``bounds`` was not given, or ``sample_weight`` has made copies of rows.
        """
        self._check_bounds()
        if self._guarantee is None:
            raise ValueError("the theorem is about independent rows, and copies are not; fit without sample_weight.")
        return self._guarantee
