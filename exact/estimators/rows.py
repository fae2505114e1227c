"""The training rows of a classifier that counts them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from pactree_mcmc.core.checks import read_numbers, refuse_other_rows
from pactree_mcmc.table.validation import read_data

from ..limits.intractable import refuse_bytes


class Rows(NamedTuple):
    """Checked rows, sorted, so that random choices depend neither on their order nor on how repeated rows are given."""

    X: np.ndarray
    """(n, p) float64: those of weight 0 left out, the others as often as they weigh."""
    label: np.ndarray
    """(n,) int64: numbers of the classes."""
    classes: np.ndarray
    """(K,): sorted labels."""
    place: np.ndarray
    """(n,) int64: which of the rows given each of them is."""

    @property
    def are_repeated(self) -> bool:
        """Whether a weight above 1 has made copies, for which bounds for independent rows do not hold."""
        return len(np.unique(self.place)) < len(self.place)


def read_rows(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Rows:
    """Rows and labels given to ``fit``, each row as often as ``sample_weight`` says.

    Raises
    ------
    ValueError
        If X, y or the weights cannot be used; weights are whole numbers >= 0, not all 0.
    """
    refuse_other_rows(X=X, y=y, sample_weight=sample_weight)
    X, y = read_data(estimator, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
    check_classification_targets(y)
    place = np.arange(len(X))
    if sample_weight is not None:
        place = _repeated(X, y, sample_weight)
        X, y = X[place], y[place]
    classes, label = np.unique(y, return_inverse=True)
    order = sorted_order(X, label)
    return Rows(X[order], label[order], classes, place[order])


def sorted_order(X: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Places (n,) of rows sorted by their values, the first column first, and then by label.

    The other columns are looked at only where rows are equal in the first.
    """
    order = np.argsort(X[:, 0], kind="stable")
    first = X[order, 0]
    equal, tied = first[1:] == first[:-1], np.zeros(len(order), dtype=np.bool_)
    tied[1:] |= equal
    tied[:-1] |= equal
    rows = order[tied]
    order[tied] = rows[np.lexsort((label[rows], *X[rows].T[::-1]))]
    return order


def _repeated(X: np.ndarray, y: np.ndarray, sample_weight: Any) -> np.ndarray:
    """Which row each of the repeated rows is."""
    weight = _check_sample_weight(read_numbers("sample_weight", sample_weight), X, dtype=np.float64)
    odd = np.flatnonzero((weight < 0.0) | (weight != np.floor(weight)))
    if len(odd):
        raise ValueError(
            f"sample_weight is {weight[odd[0]]} in row {odd[0]}; these trees count rows: give whole numbers >= 0, how "
            "often each row is there, or take BayesianTreeClassifier, which knows other weights."
        )
    if not weight.any():
        raise ValueError("sample_weight is 0 in every row; give weights that count some rows.")
    refuse_bytes(int(8 * weight.sum() * (X.shape[1] + 2)), "rows repeated as often as sample_weight says")
    return np.repeat(np.arange(len(X)), weight.astype(np.int64))
