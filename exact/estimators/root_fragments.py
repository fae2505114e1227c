"""A scikit-learn estimator of the tree with the smallest compositional bound."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pactree_mcmc.certificates import Bound, root_fragment
from pactree_mcmc.model import DyadicCuts
from pactree_mcmc.table.validation import read_data

from ..systems.mansour_mcallester.root_fragments import minimise_root_fragment, refuse_use_of_rows
from ..systems.scott.risk_minimisation import default_levels
from .dyadic_trees import _DyadicTree
from .rows import read_rows


class RootFragmentClassifier(_DyadicTree):
    """The tree with the smallest risk plus compositional penalty, over all trees and root fragments.

    Mansour and McAllester (2000). Without ``split_prior`` the trees are dyadic.

    Parameters
    ----------
    split_prior : DyadicCuts, GridCuts, FixedTree or None, default None
        The splits that trees may have, with a `FixedTree` its prunings; None: dyadic ones, by the next three.
    levels : int or None, default None
        Splits of one coordinate on the way to a leaf; None: `default_levels`, from n and p.
    cyclic : bool or "auto", default "auto"
        Coordinate ``depth mod p``; else any coordinate at each split. "auto": any coordinate, unless there are too many
        features for that (`needs_cyclic`).
    bounds : array of shape (p, 2) or None, default None
        Ends of each feature's range; None: learnt from X.
    strength : float, default 0.1
        Multiplies the penalty. The theory has 1, with large constants; choose it by cross-validation.
    max_depth : int or None, default None
        Largest depth of a leaf.
    n_classes : int or None, default None
        Number of possible labels; None: as many as y has, two at least.
    delta : float, default 0.05
        Probability that the bound fails, in (0, 1).
    max_cells : int, default 20,000,000
        Cells allowed; `Intractable` is raised above.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    tree_ : Tree
    fragment_ : ndarray
        Nodes at which the best root fragment ends.
    risk_, penalty_ : float
        Error rate on the training rows, and ``strength`` times the penalty: the sum is the smallest over all trees.
    split_bits_ : float
        Code length of a split.
    split_counts_, feature_importances_ : ndarray of shape (p,)
        Number of splits of the tree on each feature, and the same normalised to sum 1.
    n_features_in_ : int

    Examples
    --------
    >>> X = np.arange(400.0)[:, None]
    >>> fitted = RootFragmentClassifier(levels=3, bounds=[[0.0, 400.0]]).fit(X, X[:, 0] > 199.5)
    >>> fitted.tree_.n_leaves, fitted.predict([[10.0], [390.0]]).tolist()
    (2, [False, True])
    >>> round(fitted.risk_bound(X, X[:, 0] > 199.5).raw, 2)
    0.38
    """

    fragment_: np.ndarray
    risk_: float
    penalty_: float
    split_bits_: float

    def __init__(
        self,
        split_prior: Any = None,
        *,
        levels: int | None = None,
        cyclic: bool | str = "auto",
        bounds: Any = None,
        strength: float = 0.1,
        max_depth: int | None = None,
        n_classes: int | None = None,
        delta: float = 0.05,
        max_cells: int = 20_000_000,
    ) -> None:
        self.split_prior = split_prior
        self.levels = levels
        self.cyclic = cyclic
        self.bounds = bounds
        self.strength = strength
        self.max_depth = max_depth
        self.n_classes = n_classes
        self.delta = delta
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
        found = minimise_root_fragment(
            rows.X,
            rows.label,
            split_prior=self._splits(*rows.X.shape) if self.split_prior is None else self.split_prior,
            max_depth=self.max_depth,
            n_classes=max(2, len(rows.classes)) if self.n_classes is None else self.n_classes,
            strength=self.strength,
            delta=self.delta,
            max_cells=self.max_cells,
        )
        self.tree_, self.fragment_, self.split_bits_ = found.tree, found.fragment, found.split_bits
        self.risk_, self.penalty_, self._use_of_rows = found.risk, found.penalty, found.use_of_rows
        return self

    def _splits(self, n: int, p: int) -> DyadicCuts:
        cyclic = self._is_cyclic(n, p)
        levels = default_levels(n, p, cyclic=cyclic) if self.levels is None else self.levels
        return DyadicCuts(levels, cyclic=cyclic, bounds=self.bounds)

    def risk_bound(self, X: Any, y: Any, *, n_classes: int = 2, delta: float = 0.05) -> Bound:
        """Theorem 3 for the fitted tree, with errors counted on rows X, y, which may be the training rows.

        ``n_classes``: number of possible labels, fixed before the rows were seen.

        Raises
        ------
        ValueError
            If neither ``bounds`` nor ``split_prior`` was given, or the latter takes its cuts from the rows, a node of
            the tree holds none of the rows, the tree has more than ``n_classes`` classes, or ``delta`` is out of range.
        """
        check_is_fitted(self)
        if self.split_prior is None:
            self._check_bounds()
        refuse_use_of_rows(self._use_of_rows)
        X, y = read_data(self, X, y, reset=False, dtype=np.float64)
        return root_fragment(
            self.tree_, X, self._numbered(y), split_bits=self.split_bits_, n_classes=n_classes, delta=delta
        )
