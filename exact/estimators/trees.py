"""scikit-learn classifiers that predict by one optimal tree, or by the exact progressive mixture."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pactree_mcmc.certificates import Bound, dyadic_tree_bound, root_fragment
from pactree_mcmc.core.checks import check_choice, check_count, check_flag
from pactree_mcmc.model import BranchingProcess, DyadicCuts, FixedTree, FrozenLaplace, TreeModel
from pactree_mcmc.model.split_prior.designs import dyadic_tree, kd_tree
from pactree_mcmc.model.tree_prior import DEPTH_CEILING
from pactree_mcmc.posterior.sampled import fractions
from pactree_mcmc.table.columns import columns_of_estimator
from pactree_mcmc.table.validation import read_data

from ..systems.dyadic_trees import default_levels, minimise_risk, needs_cyclic
from ..systems.neyman_pearson import Guarantee, neyman_pearson_tree
from ..systems.progressive.mixture import ProgressiveMixture, progressive_mixture
from ..systems.root_fragments import minimise_root_fragment, refuse_use_of_rows
from .base import ClassifierOfTree, ExactClassifier, documented, read_rows, set_parameters


class _ClassifierOfOneTree(ClassifierOfTree):
    """Base of the classifiers that predict by one tree, with checks of the conditions of their risk bounds."""

    levels: int | None
    cyclic: Any
    bounds: Any

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities (n, K) of the leaves that rows reach; columns follow ``classes_``."""
        X = self._read_new(X)
        value = self.tree_.value
        assert value is not None
        return value[self.tree_.apply(X)]

    def _counted_rows(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Check rows and labels, and return the rows (n, p) and their class numbers (n,), -1 for an unknown label."""
        X, y = read_data(self, X, y, reset=False, dtype=np.float64)
        place = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        return X, np.where(self.classes_[place] == y, place, -1)

    def _is_cyclic(self, n: int, p: int) -> bool:
        """Return True if coordinates are taken in turn: the value of ``cyclic``, or for "auto" that of `needs_cyclic`.

        That is True if n rows and p features would make too many cells with splits on any coordinate.
        """
        if isinstance(self.cyclic, str):
            check_choice("cyclic", self.cyclic, ("auto",))
            return needs_cyclic(n, p, self.levels)
        return check_flag("cyclic", self.cyclic)

    def _check_bounds(self) -> None:
        """Raise ValueError if ``bounds`` is None, so that the range of X was used and no risk bound holds."""
        check_is_fitted(self)
        if self.bounds is None:
            raise ValueError(
                "the bound is for dyadic trees chosen before the rows were seen, and the range of X was learnt from "
                "them; give bounds=, the ends of each feature's range."
            )


@documented
class DyadicTreeClassifier(_ClassifierOfOneTree):
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
        self._check_bounds()
        X, labels = self._counted_rows(X, y)
        return dyadic_tree_bound(self.tree_, X, labels, n_classes=n_classes, delta=delta, cyclic=self.cyclic_)


@documented
class NeymanPearsonTreeClassifier(_ClassifierOfOneTree):
    """The dyadic tree with the fewest misses at a false-alarm level ``alpha`` (Scott 2004, chapter 3). Two classes.

    The null class is the smaller label; a false alarm is a row of the null class that is assigned to the other.

    Parameters
    ----------
    alpha : float, default 0.1
        False-alarm level, in (0, 1).
    method : {"srm", "erm", "adaptive"}, default "srm"
        As for `neyman_pearson_tree`.
    max_leaves : int or None, default None
        Largest number of leaves. If None, as many as can matter. "erm" needs a number.
    tolerance : float, default 0.0
        Multiple of the theory's tolerance that is added to ``alpha``; with 0 the false-alarm rate on the training rows
        is at most ``alpha``.
    strength : float, default 0.5
        Multiplies the penalty of misses; choose it by cross-validation.
    delta0, delta1 : float, default 0.05
        Confidence parameters, in (0, 1).
    {levels}
    cyclic : bool, default True
        If True, a node at depth d splits coordinate ``d mod p``. If False, any coordinate, which suits few features.
    {bounds}
    {max_cells}

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Null class first.
    tree_ : Tree
    false_alarm_, miss_ : float
        Rates on the training rows.
    levels_ : int
    {features}

    Examples
    --------
    >>> X = np.arange(400.0)[:, None]
    >>> y = np.where((X[:, 0] >= 200) | (X[:, 0] % 20 == 0), "spam", "ham")
    >>> fitted = NeymanPearsonTreeClassifier(alpha=0.05, levels=3).fit(X, y)
    >>> fitted.predict([[10.0], [390.0]]).tolist(), fitted.false_alarm_
    (['ham', 'spam'], 0.0)
    """

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
        set_parameters(self, locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the tree to rows X (n, p) with labels y (n,) of two classes, counted ``sample_weight`` (n,) times."""
        rows = read_rows(self, X, y, sample_weight)
        self.classes_ = rows.classes
        if len(self.classes_) != 2:
            kind = "one class" if len(self.classes_) < 2 else "multiclass"
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}: y holds "
                f"{len(self.classes_)} class(es), {self.classes_.tolist()[:5]}; give two."
            )
        best = neyman_pearson_tree(rows.X, rows.label, **self.get_params(deep=False))
        self.tree_, self.levels_ = best.tree, best.levels
        self.false_alarm_, self.miss_ = best.false_alarm, best.miss
        self._guarantee = None if rows.are_repeated else best.guarantee
        return self

    def guarantee(self) -> Guarantee:
        """Return bounds on the true false-alarm and miss rates of the fitted tree (Scott's Theorem 14).

        Needs ``bounds``, and no copies of rows.
        """
        self._check_bounds()
        if self._guarantee is None:
            raise ValueError("the theorem is about independent rows, and copies are not; fit without sample_weight.")
        return self._guarantee


@documented
class RootFragmentClassifier(_ClassifierOfOneTree):
    """The tree with the smallest risk plus compositional penalty, over all trees and root fragments.

    Mansour and McAllester (2000). Without ``split_prior`` the trees are dyadic.

    Parameters
    ----------
    split_prior : DyadicCuts, GridCuts, FixedTree or None, default None
        The splits that trees may have. With a `FixedTree` the trees are its prunings. If None, splits are dyadic, with
        ``levels``, ``cyclic`` and ``bounds``.
    {levels}
    {cyclic}
    {bounds}
    {strength}
    max_depth : int or None, default None
        Largest depth of a leaf.
    n_classes : int or None, default None
        Number of possible labels. If None, the number of classes in y, at least 2.
    delta : float, default 0.05
        Probability that the bound fails, in (0, 1).
    {max_cells}

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
    {features}

    Examples
    --------
    >>> X = np.arange(400.0)[:, None]
    >>> fitted = RootFragmentClassifier(levels=3, bounds=[[0.0, 400.0]]).fit(X, X[:, 0] > 199.5)
    >>> fitted.tree_.n_leaves, fitted.predict([[10.0], [390.0]]).tolist()
    (2, [False, True])
    >>> round(fitted.risk_bound(X, X[:, 0] > 199.5).raw, 2)
    0.38
    """

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
        set_parameters(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the tree to rows X (n, p) with labels y (n,), each counted ``sample_weight`` (n,) times."""
        rows = read_rows(self, X, y, sample_weight)
        self.classes_ = rows.classes
        splits = self._splits(*rows.X.shape) if self.split_prior is None else self.split_prior
        columns = columns_of_estimator(self)
        if columns is not None and isinstance(splits, FixedTree):
            splits = splits.match_columns(columns)
        best = minimise_root_fragment(
            rows.X,
            rows.label,
            split_prior=splits,
            max_depth=self.max_depth,
            n_classes=max(2, len(rows.classes)) if self.n_classes is None else self.n_classes,
            strength=self.strength,
            delta=self.delta,
            max_cells=self.max_cells,
        )
        self.tree_, self.fragment_, self.split_bits_ = best.tree, best.fragment, best.split_bits
        self.risk_, self.penalty_, self._use_of_rows = best.risk, best.penalty, best.use_of_rows
        return self

    def _splits(self, n: int, p: int) -> DyadicCuts:
        """Return the dyadic splits for n rows and p features, by ``levels``, ``cyclic`` and ``bounds``."""
        cyclic = self._is_cyclic(n, p)
        levels = default_levels(n, p, cyclic=cyclic) if self.levels is None else self.levels
        return DyadicCuts(levels, cyclic=cyclic, bounds=self.bounds)

    def risk_bound(self, X: Any, y: Any, *, n_classes: int = 2, delta: float = 0.05) -> Bound:
        """Return a bound on the true error rate of the fitted tree (Mansour and McAllester 2000, Theorem 3).

        Errors are counted on the rows X with labels y, which may be the training rows.
        ``n_classes`` is the number of possible labels, fixed before the rows were seen. Needs ``bounds``, or a
        ``split_prior`` that does not depend on the rows, and rows in each node of the tree.
        """
        check_is_fitted(self)
        if self.split_prior is None:
            self._check_bounds()
        refuse_use_of_rows(self._use_of_rows)
        X, labels = self._counted_rows(X, y)
        how: dict[str, Any] = {"split_bits": self.split_bits_, "n_classes": n_classes, "delta": delta}
        return root_fragment(self.tree_, X, labels, **how)


class ProgressiveMixtureClassifier(ExactClassifier):
    """Progressive mixture over all subtrees of a KD or dyadic tree, exactly (Blanchard 1999).

    Half of the rows determine the class frequencies of every node. The others, the test examples, enter one by one. The
    prediction is the mean of the posterior predictions after 0, 1, ..., all test examples, over random orders and
    halves.

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
        Largest depth of a leaf, >= 1. If None, ``floor(log2(n))``, for a dyadic tree at least the number of features.
    random_state : int, RandomState or None, default None
        Source of randomness for the orders.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Sorted labels.
    mixture_ : ProgressiveMixture
        The mixture, with all its methods.
    rows_ : ndarray of shape (n_rows,)
        Index, among the rows passed to ``fit``, of each row of the model of the mixture.
    feature_importances_ : ndarray of shape (p,)
        Probability that a tree splits on the feature, divided by the sum over features; computed on first access.
    n_features_in_, feature_names_in_

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
        generator = check_random_state(self.random_state)
        depth = int(math.log2(n)) if self.max_depth is None else int(self.max_depth)
        if self.base == "kd":
            design = kd_tree(rows.X, min(depth, DEPTH_CEILING), coordinate="widest")
        else:
            design = dyadic_tree(rows.X, max(depth, p) if self.max_depth is None else depth)
        half = generator.permutation(n) < max(n // 2, 1)
        labels = rows.classes[rows.label]
        model = TreeModel(rows.X, labels, tree_prior=prior, split_prior=design, leaf=leaf, estimation=half)
        seed = int(generator.randint(np.iinfo(np.int32).max))
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
