"""Base classes of the exact classifiers: checks of training rows, predicted labels, counts of splits, docstrings."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from pactree_mcmc.core.checks import read_numbers, refuse_other_rows
from pactree_mcmc.core.names import fill_docstring
from pactree_mcmc.posterior.sampled import fractions
from pactree_mcmc.table.reader import holds_categories, is_frame
from pactree_mcmc.table.validation import read_data
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ..limits import refuse_bytes

# decorator that puts these texts into the docstring of a classifier
documented = fill_docstring(
    {
        "levels": """\
levels : int or None, default None
    Number of splits of one coordinate on a path to a leaf. If None, `default_levels` sets it from n and p.""",
        "cyclic": """\
cyclic : bool or "auto", default "auto"
    If True, a cell at a depth is split on coordinate ``depth mod p``. If False, on any coordinate. "auto" is False,
    unless there are too many features for that (`needs_cyclic`).""",
        "bounds": """\
bounds : array of shape (p, 2) or None, default None
    Ends of each feature's range. If None, those of X.""",
        "strength": """\
strength : float, default 0.1
    Factor of the penalty. The theory has 1, with large constants. Choose it by cross-validation.""",
        "max_cells": """\
max_cells : int, default 20,000,000
    Largest number of cells. `Intractable` is raised if there are more.""",
        "features": """\
split_counts_, feature_importances_ : ndarray of shape (p,)
    Number of splits of the tree on each feature, and the same normalised to sum 1.
n_features_in_ : int""",
        "base": """\
base : {"dyadic", "kd"}, default "dyadic"
    Tree T0 whose subtrees vote: coordinates in turn, cut in the middle of the cell's box or at the median of its
    rows. A cell whose rows have one class is a leaf of T0.""",
        "base_tree": """\
max_depth : int or None, default None
    Largest depth of a leaf of T0, >= 1. If None, ``p * floor(log n)`` for a dyadic tree, and no limit for a KD tree.
bounds : array of shape (p, 2) or None, default None
    Box of a dyadic tree. If None, the range of the rows that grow it.
coordinate : {"cycling", "widest"}, default "cycling"
    For a KD tree, as in `pactree_mcmc.kd_tree`.""",
        "voting": """\
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
    Number of rows that weigh the subtrees, including copies.""",
        "fit_raises": """\
Raises
------
ValueError
    In `fit`: if a parameter is out of range, or there are too few rows.""",
    }
)


def set_parameters(estimator: BaseEstimator, arguments: dict[str, Any]) -> None:
    """Set the parameters of an estimator from ``arguments``, the local variables of its ``__init__``."""
    vars(estimator).update({name: value for name, value in arguments.items() if name != "self"})


class ClassifierOfTree(ClassifierMixin, BaseEstimator):
    """Base of the classifiers of one tree or of its subtrees. Subclasses define `predict_proba`."""

    classes_: np.ndarray
    n_features_in_: int
    tree_: Tree

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities (n, K)."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label (n,) of each row, the first one if several are equally probable."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]

    def _read_new(self, X: Any) -> np.ndarray:
        """Check rows to predict, and return them as an array (n, p)."""
        check_is_fitted(self)
        _refuse_text_and_dates(X)
        return read_data(self, X, reset=False, dtype=np.float64, order="C")

    def _split_fractions(self) -> np.ndarray:
        """Return the fraction (n_nodes,) of the subtrees in which each node is split: 1 or 0 for a single tree."""
        return (self.tree_.feature != LEAF).astype(np.float64)

    @property
    def split_counts_(self) -> np.ndarray:
        """Number of splits (p,) on each feature, the mean over subtrees if several vote."""
        check_is_fitted(self)
        inner = self.tree_.feature != LEAF
        weights = self._split_fractions()[inner]
        return np.bincount(self.tree_.feature[inner], weights=weights, minlength=self.n_features_in_)

    @property
    def feature_importances_(self) -> np.ndarray:
        """``split_counts_`` divided by its sum, (p,)."""
        return fractions(self.split_counts_)


class SortedRows(NamedTuple):
    """Training rows, checked and sorted, so that random choices do not depend on their order or on use of weights."""

    X: np.ndarray  # (n, p) float64: each row, repeated as often as its weight
    label: np.ndarray  # (n,) int64: number of the class of each row
    classes: np.ndarray  # (K,): sorted labels


def read_rows(estimator: Any, X: Any, y: Any, sample_weight: Any) -> SortedRows:
    """Check the rows and labels passed to ``fit``, repeat each row as often as `sample_weight` says, and sort them."""
    # weights are whole numbers >= 0, not all 0; sets n_features_in_ and feature_names_in_ of `estimator`
    refuse_other_rows(X=X, y=y, sample_weight=sample_weight)
    _refuse_text_and_dates(X)
    X, y = read_data(estimator, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
    check_classification_targets(y)
    if sample_weight is not None:
        place = _repeated_indices(X, y, sample_weight)
        X, y = X[place], y[place]
    classes, label = np.unique(y, return_inverse=True)
    order = sorted_order(X, label)
    return SortedRows(X[order], label[order], classes)


def _refuse_text_and_dates(X: Any) -> None:
    """Raise a ValueError if a frame has a column of text or dates. Other faults are left to scikit-learn."""
    for name in X.columns if is_frame(X) else ():
        if holds_categories(X[[name]].to_numpy()):
            raise ValueError(
                f"column {str(name)!r} holds text or dates; these trees take columns of numbers: encode it, drop it, "
                "or take BayesianTreeClassifier."
            )


def sorted_order(X: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return the permutation (n,) that sorts rows by their values, column after column, and then by label."""
    order = np.argsort(X[:, 0], kind="stable")
    first = X[order, 0]
    equal, is_tied = first[1:] == first[:-1], np.zeros(len(order), dtype=np.bool_)
    is_tied[1:] |= equal
    is_tied[:-1] |= equal
    rows = order[is_tied]
    order[is_tied] = rows[np.lexsort((label[rows], *X[rows].T[::-1]))]
    return order


def _repeated_indices(X: np.ndarray, y: np.ndarray, sample_weight: Any) -> np.ndarray:
    """Return the indices of the rows of ``X``, each repeated ``sample_weight`` times (a whole number >= 0, checked)."""
    weight = _check_sample_weight(read_numbers("sample_weight", sample_weight), X, dtype=np.float64)
    odd = np.flatnonzero((weight < 0.0) | (weight != np.floor(weight)))
    if len(odd):
        raise ValueError(
            f"sample_weight is {weight[odd[0]]} in row {odd[0]}; these trees count rows: give whole numbers >= 0, how "
            "often each row is there, or take BayesianTreeClassifier, which allows other weights."
        )
    if not weight.any():
        raise ValueError("sample_weight is 0 in every row; give weights that count some rows.")
    refuse_bytes(int(8 * weight.sum() * (X.shape[1] + 2)), "rows repeated as often as sample_weight says")
    return np.repeat(np.arange(len(X)), weight.astype(np.int64))
