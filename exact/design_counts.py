"""Sufficient statistics of a fixed set of cells, accumulated from pieces of data or from many workers."""

from __future__ import annotations

from typing import Any

import numpy as np

from pactree_mcmc import model as parts
from pactree_mcmc.core.checks import read_array, read_labels, read_numbers, refuse_other_rows, repr_of
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.base import SplitPrior, call_uncompiled, parts_rows
from pactree_mcmc.table.columns import Columns, describe_columns
from pactree_mcmc.table.reader import Table

from .posterior import ExactPosterior
from .solving import solve

MIN_UNMERGED_ROWS = 1 << 16
"""Number of new rows that are always kept unmerged. More are merged once they outnumber the rows merged before."""


class DesignCounts:
    """The statistics of the finest cells of splits that do not depend on the data, for streams and many workers.

    Counts that are updated in pieces, in any order, or added from several workers, equal those of all rows together.
    So do the posteriors. They are equal exactly if weights are integers and y is a class, otherwise up to rounding.

    Parameters
    ----------
    split_prior : DyadicCuts with ``bounds``, GridCuts with given cuts, or FixedTree
        A split prior for ordered columns that does not depend on the data.

    Attributes
    ----------
    split_prior : SplitPrior
    n_rows : int
        Number of rows added so far.

    Raises
    ------
    ValueError
        If the split prior depends on the data.

    Notes
    -----
    A finest cell keeps one of its rows and its weight for each class (for numbers: two rows with its weight, mean and
    variance). With ``missing="branch"`` a missing value in a new row follows the branch with more of the kept rows, not
    of the rows added, which can change its prediction much. If new rows have gaps, build a `TreeModel` of all rows.
    Memory O(non-empty finest cells); time O(rows) amortised.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> counts = DesignCounts(pt.DyadicCuts(2, cyclic=True, bounds=[[0, 1]]))
    >>> counts.update([[0.1], [0.2]], [0, 0]).update([[0.9]], [1]).n_rows
    3
    >>> more = DesignCounts(counts.split_prior).update([[0.8], [0.7]], [1, 1])
    >>> round((counts + more).solve(tree_prior=pt.BranchingProcess(0.5, 2)).log_evidence, 4)
    -3.1453
    """

    def __init__(self, split_prior: SplitPrior) -> None:
        if not isinstance(split_prior, SplitPrior):
            raise TypeError(f"split_prior is {repr_of(split_prior)}; give DyadicCuts, GridCuts or FixedTree.")
        counted = isinstance(split_prior, parts.GridCuts) and isinstance(split_prior.cuts, int | np.integer)
        unbounded = isinstance(split_prior, parts.DyadicCuts) and split_prior.bounds is None
        if not split_prior.has_equal_weights:
            raise ValueError(f"{split_prior!r} weighs splits by a function; give exact.solve a model of all rows.")
        if call_uncompiled(parts_rows, split_prior) or counted or unbounded:
            raise ValueError(f"{split_prior!r} depends on the data; give DyadicCuts with bounds, or GridCuts.")
        self.split_prior, self.n_rows = split_prior, 0
        columns = split_prior.tree.columns if isinstance(split_prior, parts.FixedTree) else None
        self._columns: Columns | None = columns if columns is not None and columns.named else None
        self._pieces: list[tuple[np.ndarray, ...]] = []
        self._n_merged = 0

    def update(self, X: Any, y: Any, *, sample_weight: Any = None, estimation: Any = None) -> DesignCounts:
        """Add rows.

        Parameters
        ----------
        X : table of shape (n, p)
            Ordered columns, n >= 1. If it has names, those of the pieces before, in any order.
        y : array-like of shape (n,)
            Class labels, or floats.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0.
        estimation : bool array of shape (n,), optional
            True for the rows of the set E, from which frozen leaves take their fixed class probabilities. Give it for
            every piece, or for none.

        Raises
        ------
        ValueError
            If the piece does not fit the design, or the pieces before it.
        """
        columns, piece = self._check_piece(X, y, sample_weight, estimation)
        self._columns = columns if self._columns is None else self._columns
        self._append(piece)
        self.n_rows += len(piece[0])
        return self

    def __add__(self, other: DesignCounts) -> DesignCounts:
        """Return the counts of the rows of both, which must have the same design."""
        if not isinstance(other, DesignCounts):
            return NotImplemented
        if repr(self._design()) != repr(other._design()):
            raise ValueError("the two counts have different designs; merge counts of one design only.")
        out = DesignCounts(self.split_prior)
        out._columns = other._columns if self._columns is None else self._columns
        order = [] if other._columns is None else out._order_of(other._columns)
        for piece in self._pieces:
            out._append(piece)
        for x, *others in other._pieces:
            out._append((x[:, order], *others))
        out.n_rows = self.n_rows + other.n_rows
        return out

    @property
    def n_cells(self) -> int:
        """Number of rows kept: one for each class in each finest cell; for numbers one, or two if y varies there."""
        self._merge()
        return sum(len(piece[0]) for piece in self._pieces)

    def model(self, **model_parts: Any) -> TreeModel:
        """Return the model of all rows added; ``tree_prior``, ``leaf`` and other arguments as for `TreeModel`.

        Its rows are the kept ones, which also decide where a missing value in a new row goes (see Notes of the class).
        """
        if isinstance(model_parts.get("leaf"), parts.PoissonGamma):
            raise ValueError("PoissonGamma needs each count y; DesignCounts keeps their mean and variance only.")
        if self.n_rows < 2:
            raise ValueError(f"{self.n_rows} rows were added; a model needs at least 2: add rows with update(X, y).")
        self._merge()
        X, y, weight, estimation = self._pieces[0]
        if len(X) == 1:  # a model wants two rows; the second one weighs nothing
            X, y, weight, estimation = (np.repeat(a, 2, axis=0) for a in self._pieces[0])
            weight[1] = 0.0
        arguments: dict[str, Any] = {"sample_weight": weight, "estimation": estimation if len(estimation) else None}
        if self._columns is not None and self._columns.named:
            import pandas as pd

            X = pd.DataFrame(X, columns=list(self._columns.names))
        return TreeModel(X, y, split_prior=self.split_prior, **arguments, **model_parts)

    def solve(self, *, max_cells: int = 20_000_000, **model_parts: Any) -> ExactPosterior:
        """Return the exact posterior of all rows added: ``exact.solve(counts.model(...))``."""
        return solve(self.model(**model_parts), max_cells=max_cells)

    def __getstate__(self) -> dict[str, Any]:
        # counts are sent between workers, not rows
        if self._pieces:
            self._merge()
        return vars(self)

    def __repr__(self) -> str:
        return f"DesignCounts({self.split_prior!r}, {self.n_rows} rows)"

    def _design(self) -> list:
        """Return a description of the splits, by which two designs are compared."""
        q = self.split_prior
        weights = getattr(q, "feature_weights", None)
        weights = weights.tolist() if isinstance(weights, np.ndarray) else weights
        if isinstance(q, parts.DyadicCuts):
            return ["dyadic", q.levels, q.cyclic, np.asarray(q.bounds, dtype=np.float64).tolist(), weights]
        if isinstance(q, parts.GridCuts):
            return ["grid", [np.asarray([] if c is None else c, dtype=np.float64).tolist() for c in q.cuts], weights]
        assert isinstance(q, parts.FixedTree)
        return ["tree", hash(q.tree), q.joint.tobytes()]

    def _order_of(self, columns: Columns) -> list[int]:
        """Return the index of each column of the rows added before among ``columns``: by name if both have names."""
        before = columns if self._columns is None else self._columns
        what = "the pieces before have" if self.n_rows else "the design has"
        if columns.n_features != before.n_features:
            raise ValueError(f"X has {columns.n_features} columns; {what} {before.n_features}.")
        if not (before.named and columns.named):
            return list(range(columns.n_features))
        if set(columns.names) != set(before.names):
            raise ValueError(f"X has the columns {list(columns.names)}; {what} {list(before.names)}.")
        return [columns.names.index(name) for name in before.names]

    def _check_piece(self, X: Any, y: Any, sample_weight: Any, estimation: Any) -> tuple[Columns, tuple]:
        """Check the arguments of `update`. Return the columns of X, and the piece: rows, labels, weights, mask of E."""
        # the columns of the rows (n, p) are in the order of the pieces before; the mask is empty without ``estimation``
        refuse_other_rows(X=X, y=y, sample_weight=sample_weight, estimation=estimation)
        columns = learn_rows(X)
        # a copy, since a stream may fill its buffer anew
        x = np.array(columns.numbers(X)[:, self._order_of(columns)])
        n = len(x)
        self.split_prior.scales(Table(x), learn_rows(x))
        labels = np.array(read_labels(y))
        weight = np.ones(n) if sample_weight is None else np.array(read_numbers("sample_weight", sample_weight))
        mask = np.zeros(0, dtype=np.bool_) if estimation is None else np.array(read_array("estimation", estimation))
        if mask.dtype.kind != "b":
            raise ValueError(f"estimation has dtype {mask.dtype}; give booleans of shape ({n},), True for E.")
        for name, column in (("y", labels), ("sample_weight", weight), ("estimation", mask)):
            if column.shape != (n,) and not (name == "estimation" and estimation is None):
                raise ValueError(f"{name} has shape {column.shape}; X has {n} rows: give one value a row, ({n},).")
        if not (np.isfinite(weight) & (weight >= 0.0)).all():
            raise ValueError("sample_weight holds a negative or infinite weight; give finite weights >= 0.")
        if labels.dtype.kind not in "fiubUS":
            labels = np.array(labels.tolist())
            if labels.dtype.kind not in "fiubUS":
                raise ValueError(f"y holds objects of dtype {labels.dtype}; give all strings, or all numbers.")
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise ValueError("y holds NaN or infinity; give finite numbers, or drop the row.")
        if len(mask) and labels.dtype.kind == "f":
            raise ValueError("estimation needs class labels; y holds floats: give integers or strings.")
        for old in self._pieces[:1]:
            if (len(old[3]) == 0) != (len(mask) == 0):
                raise ValueError("estimation was given for some pieces only; give it in every piece, or in none.")
            if (old[1].dtype.kind == "f") != (labels.dtype.kind == "f"):
                raise ValueError(f"y has dtype {labels.dtype}; the pieces before have {old[1].dtype}.")
        return columns, (x, labels, weight, mask)

    def _append(self, piece: tuple[np.ndarray, ...]) -> None:
        """Add a piece (rows, labels, weights, mask of estimation rows), and merge all pieces if many rows are new."""
        # many are more than the rows merged before, and more than `MIN_UNMERGED_ROWS`
        self._pieces.append(piece)
        pending = sum(len(p[0]) for p in self._pieces) - self._n_merged
        if pending > max(self._n_merged, MIN_UNMERGED_ROWS):
            self._merge()

    def _merge(self) -> None:
        """Merge all pieces into one, with a row for each finest cell and class."""
        X, y, weight, estimation = (np.concatenate(columns) for columns in zip(*self._pieces, strict=True))
        if len(X) > 1:
            X, y, weight, estimation = self._merge_rows(X, y, weight, estimation)
        self._pieces, self._n_merged = [(X, y, weight, estimation)], len(X)

    def _merge_rows(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray, estimation: np.ndarray) -> tuple:
        """Return one row for each finest cell and class, and in E or not, with summed weights."""
        # for numbers return two rows for each cell, with the same total weight, mean and variance
        if y.dtype.kind == "f":
            return _merge_numbers(self.split_prior, X, y, weight, estimation)
        label = np.unique(y, return_inverse=True)[1]
        if len(estimation):
            label = 2 * label + estimation
        merged = TreeModel(
            X, label, split_prior=self.split_prior, sample_weight=weight, leaf=parts.DirichletMultinomial()
        )
        if merged.unit_of_row is None:
            return X, y, weight, estimation
        first = np.unique(merged.unit_of_row, return_index=True)[1]
        merged_weight = merged.units.weight
        return X[first], y[first], merged_weight, estimation[first] if len(estimation) else estimation


def learn_rows(X: Any) -> Any:
    """Return the description of the columns (names, kinds) of a piece of data, which may be a single row."""
    # raise ValueError if a column is categorical, nominal or with ordered levels: each piece would number them anew
    table = Table(X)
    columns = describe_columns(table if table.n_rows != 1 else Table(table.take(np.zeros(2, dtype=np.int64))), None)
    categorical = columns.is_nominal | [bool(columns.kind(k).levels) for k in range(columns.n_features)]
    if categorical.any():
        # each piece would number its categories anew
        name = columns.names[int(np.argmax(categorical))]
        raise ValueError(f"column {name!r} is categorical; a stream takes ordered columns only: give numbers.")
    return columns


def _merge_numbers(
    split_prior: SplitPrior, X: np.ndarray, y: np.ndarray, weight: np.ndarray, estimation: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Replace the rows of each finest cell by two rows with the same total weight, mean and variance."""
    # their values are the mean plus and minus the standard deviation, each with half the weight. One row is enough if
    # the values do not vary
    leaf = parts.NormalInverseGamma(0.0, 1.0, 1.0, 1.0)
    merged = TreeModel(X, y, split_prior=split_prior, sample_weight=weight, leaf=leaf)
    if merged.unit_of_row is None:
        return X, y, weight, estimation
    unit_of_row, n = merged.unit_of_row, merged.units.n_units
    first = np.unique(unit_of_row, return_index=True)[1]
    total = merged.units.weight
    fraction = weight / np.where(total > 0.0, total, 1.0)[unit_of_row]
    mean = np.bincount(unit_of_row, weights=fraction * y, minlength=n)
    deviation = np.sqrt(np.bincount(unit_of_row, weights=fraction * (y - mean[unit_of_row]) ** 2, minlength=n))
    varies = deviation > 0.0
    half = np.where(varies, total / 2, total)
    X, mean, deviation, half = (np.concatenate([a, a[varies]]) for a in (X[first], mean, deviation, half))
    deviation[n:] *= -1.0
    return X, mean + deviation, half, estimation
