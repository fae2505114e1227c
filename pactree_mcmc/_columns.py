"""The columns of X: names, which are nominal, their categories, and how raw input becomes numbers."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._checks import as_number, check_choice, in_words, is_integer, read_array

MAX_CATEGORIES = 63
MOST_NAMED = 1_000_000
MISSING = ("error", "branch")
"""What may be done about missing values."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Names and categories of the features, learnt from the training table.

    Attributes
    ----------
    names : tuple of str
        Column names; ``x0, x1, ...`` when X has none.
    named : bool
        Whether the names come from the table, so that prediction may select by name.
    categories : tuple
        Per feature the sorted array of its categories, or None when it is ordered; a missing value is the category
        None, the last one.
    branches : bool
        Whether values may be missing: each question then says which side they go.
    twins : tuple of int
        Ordered features with missing values in the training table. Such a feature has two *coordinates*: one in which
        missing values lie below all others, its own, and one in which they lie above, behind those of all features.
    """

    names: tuple[str, ...]
    named: bool
    categories: tuple[np.ndarray | None, ...]
    branches: bool = False
    twins: tuple[int, ...] = ()

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.names)

    @property
    def is_nominal(self) -> np.ndarray:
        """Boolean array (p,): which features are nominal."""
        return np.array([c is not None for c in self.categories], dtype=np.bool_)

    @property
    def source(self) -> np.ndarray:
        """(q,) int64: the feature of each coordinate."""
        return np.array([*range(self.n_features), *self.twins], dtype=np.int64)

    @property
    def twin(self) -> np.ndarray:
        """(q,) int64: the other coordinate of the same feature; itself where there is none."""
        out = np.arange(self.n_features + len(self.twins))
        for j, k in enumerate(self.twins):
            out[k], out[self.n_features + j] = self.n_features + j, k
        return out

    def coordinate(self, feature: Any, missing_left: Any) -> np.ndarray:
        """Coordinate of ordered questions about ``feature`` that send missing values left, or right; arrays too."""
        feature, to_right = np.asarray(feature), ~np.asarray(missing_left, dtype=np.bool_)
        return np.where((feature >= 0) & to_right & np.isin(feature, self.twins), self.twin[feature], feature)

    def ordered_coordinate(self, raw: Any, c: int) -> np.ndarray:
        """Values (n,) of an ordered coordinate, from the raw column of its feature; missing ones are infinite."""
        k = self.source[c]
        values = ordered_values(raw, self.names[k], self.branches)
        return in_coordinate(values, c >= self.n_features) if k in self.twins else values

    def in_coordinates(self, numbers: np.ndarray) -> np.ndarray:
        """Rows of numbers (n, p) by coordinate, (n, q)."""
        if not self.twins:
            return numbers
        out = numbers[:, self.source]
        for c in np.flatnonzero(self.twin != np.arange(out.shape[1])):
            out[:, c] = in_coordinate(out[:, c], c >= self.n_features)
        return out

    def label_set(self, feature: int, mask: int) -> frozenset:
        """Categories of a nominal ``feature`` whose bit is set in ``mask``."""
        categories = self.categories[feature]
        if categories is None:
            raise ValueError(f"feature {self.names[feature]!r} is ordered; it has no categories.")
        return frozenset(c for j, c in enumerate(categories.tolist()) if mask >> j & 1)

    def mask_of(self, feature: int, labels: Iterable[Any]) -> int:
        """Bits of the categories ``labels`` of a nominal ``feature``."""
        categories = self.categories[feature]
        if categories is None:
            raise ValueError(f"feature {self.names[feature]!r} is ordered; it has no categories.")
        known = categories.tolist()
        labels = list(labels)
        unknown = [c for c in labels if c not in known]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not a category of {self.names[feature]!r}; allowed: {known}.")
        return sum(1 << known.index(c) for c in set(labels))

    def numbers(self, X: Any) -> np.ndarray:
        """Table ``X`` as float64 (n, p): ordered values as they are, categories by index, unseen ones as -1.

        Missing ordered values are NaN, if values may be missing.

        An array that is so already is returned itself: do not write to it.

        Raises
        ------
        ValueError
            If a column is missing, X has another number of columns, or a value is NaN (but see ``branches``) or
            infinite.
        """
        table = Table(X)
        if self.named and table.names is not None:
            missing = [name for name in self.names if name not in table.names]
            if missing:
                raise ValueError(f"X lacks column {missing[0]!r}; the model was built on {list(self.names)}.")
            where: Sequence[int] = [table.names.index(name) for name in self.names]
        else:
            if table.n_features != self.n_features:
                raise ValueError(
                    f"X has {table.n_features} columns; the model was built on {self.n_features}: {list(self.names)}."
                )
            where = range(self.n_features)
        plain = table.array is not None and table.array.dtype == np.float64 and not self.is_nominal.any()
        if plain and np.isfinite(table.array).all():
            return np.ascontiguousarray(table.array)
        out = np.empty((table.n_rows, self.n_features), dtype=np.float64)
        for k, j in enumerate(where):
            categories = self.categories[k]
            raw = table.column(j)
            out[:, k] = (
                ordered_values(raw, self.names[k], self.branches)
                if categories is None
                else category_codes(nominal_labels(raw, self.names[k], self.branches), categories)
            )
        return out


class Table:
    """Uniform access to the columns of an array, a pandas or a polars frame, without copying it."""

    def __init__(self, X: Any) -> None:
        self.frame = X if is_frame(X) else None
        self.array = None if self.frame is not None else _as_matrix(X)
        shape = self.frame.shape if self.frame is not None else self.array.shape
        self.n_rows, self.n_features = int(shape[0]), int(shape[1])
        self.names = None if self.frame is None else [str(c) for c in self.frame.columns]
        if self.names is not None and len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"column name {twice!r} occurs more than once in X; give each column its own name.")

    def column(self, k: int) -> Any:
        """Column ``k`` as the table holds it."""
        if self.array is not None:
            return self.array[:, k]
        return self.frame.iloc[:, k] if hasattr(self.frame, "iloc") else self.frame.to_series(k)

    def take(self, rows: Any) -> Any:
        """The rows given by a slice or an index array, as the table holds them."""
        if self.array is not None:
            return self.array[rows]
        return self.frame.iloc[rows] if hasattr(self.frame, "iloc") else self.frame[rows]

    def __iter__(self) -> Iterator[Any]:
        return (self.column(k) for k in range(self.n_features))


def in_coordinate(values: np.ndarray, above: bool) -> np.ndarray:
    """Values of a feature in one of its two coordinates: missing ones above or below all others."""
    return np.where(np.isnan(values), np.inf if above else -np.inf, values)


def learn_columns(table: Table, nominal: Any, missing: str = "error") -> Columns:
    """Read names and categories off the training ``table``; ``nominal`` names further nominal columns."""
    check_choice("missing", missing, MISSING)
    if table.n_rows == 0 or table.n_features == 0:
        raise ValueError(f"X is empty: shape ({table.n_rows}, {table.n_features}); give at least 2 rows and 1 column.")
    if table.n_rows < 2:
        raise ValueError("X has one row; a tree needs at least 2 rows to choose from.")
    names = tuple(table.names or (f"x{k}" for k in range(table.n_features)))
    chosen = _nominal_indices(nominal, names)
    branches = missing == "branch"
    categories: list[np.ndarray | None] = []
    twins = []
    for k, raw in enumerate(table):
        if k not in chosen and not _is_categorical(raw):
            categories.append(None)
            if branches and _has_gaps(raw, names[k]):
                twins.append(k)
            continue
        labels = _sorted_unique(nominal_labels(raw, names[k], branches))
        if len(labels) > MAX_CATEGORIES:
            raise ValueError(
                f"column {names[k]!r} has {len(labels)} categories; at most {MAX_CATEGORIES} are allowed: "
                "merge rare ones, or give the column as numbers."
            )
        categories.append(labels)
    return Columns(names, table.names is not None, tuple(categories), branches, tuple(twins))


def _has_gaps(raw: Any, name: str) -> bool:
    gaps = np.isnan(ordered_values(raw, name, True))
    if gaps.all():
        raise ValueError(f"column {name!r} has no value at all; drop it.")
    return bool(gaps.any())


def ordered_values(raw: Any, name: str, may_lack: bool = False) -> np.ndarray:
    """An ordered column as float64 (n,), contiguous; not copied if it is so already.

    Finite, but for NaN where values may lack.
    """
    values = read_array(f"column {name!r}", raw)
    if values.ndim != 1:
        raise ValueError(f"column {name!r} holds lists or records; give real numbers or a categorical.")
    kind = values.dtype.kind
    if kind == "O":
        values = _real_objects(values, name, may_lack)
    elif kind in "US" or type(values.dtype).__name__ == "StringDType":
        raise ValueError(
            f"column {name!r} holds text; make it a pandas or polars categorical, name it in nominal=, or give numbers."
        )
    elif kind == "c":
        raise ValueError(f"column {name!r} is complex; X must be real: give real and imaginary parts as two columns.")
    elif kind not in "fiub":
        raise ValueError(f"column {name!r} has dtype {values.dtype}; give real numbers or a categorical.")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values, dtype=np.float64)
    bad = np.isinf(values) if may_lack else ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        what = "NaN" if np.isnan(values[row]) else "infinity"
        advice = "give finite numbers" + (', or missing="branch"' if np.isnan(values[row]) else "")
        raise ValueError(f"column {name!r} contains {what} (first in row {row}); {advice}.")
    return values


def nominal_labels(raw: Any, name: str, may_lack: bool = False) -> np.ndarray:
    """A nominal column as an array of labels (n,); None where one is missing, if one may be."""
    if hasattr(raw, "is_null") and hasattr(raw, "to_list"):
        missing = np.asarray(raw.is_null().to_list(), dtype=bool)
        labels = np.array(raw.to_list(), dtype=object)
    else:
        labels = read_array(f"column {name!r}", raw)
        if labels.ndim != 1:
            raise ValueError(f"column {name!r} holds lists or records; give strings or numbers.")
        if labels.dtype.kind not in "fiubOUS":
            labels = labels.astype(object)
        if labels.dtype.kind == "O":
            missing = np.array([is_missing(v) for v in labels.tolist()], dtype=bool)
        else:
            missing = labels != labels
    if missing.any():
        if not may_lack:
            raise ValueError(
                f"nominal column {name!r} has a missing value (first in row {int(np.argmax(missing))}); "
                'give missing values a category of their own, or missing="branch".'
            )
        labels = labels.astype(object)
        labels[missing] = None
    return labels


def is_missing(label: Any) -> bool:
    """Whether a label is None, NaN or the NA of pandas, which equals nothing."""
    return label is None or type(label).__name__ == "NAType" or differs_from_itself(label)


def differs_from_itself(label: Any) -> bool:
    """Whether a label is a NaN of any kind."""
    try:
        return bool(label != label)
    except Exception:
        return False


def category_codes(labels: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """Index of each label among ``categories``, -1 for one not among them."""
    if labels.dtype.kind in "iu" and categories.dtype.kind in "iu":
        place = np.searchsorted(categories, labels).clip(max=len(categories) - 1)
        return np.where(categories[place] == labels, place, -1)
    index = {c: j for j, c in enumerate(categories.tolist())}
    return np.array([index.get(c, -1) for c in hashable(labels.tolist())], dtype=np.int64)


def hashable(labels: list) -> list:
    """Labels that can be looked up; a ValueError names the type of one that cannot."""
    for label in labels:
        try:
            hash(label)
        except Exception as error:
            raise ValueError(
                f"a {type(label).__name__}, {in_words(label)}, is no category; give strings or numbers."
            ) from error
    return labels


def _sorted_unique(labels: np.ndarray) -> np.ndarray:
    if labels.dtype.kind != "O":
        return np.unique(labels)
    distinct = _set_of(labels.tolist())
    missing = [c for c in distinct if c is None]
    distinct.difference_update(missing)
    try:
        ordered = sorted(distinct)
    except Exception:
        ordered = sorted(distinct, key=lambda c: (type(c).__name__, in_words(c)))
    ordered += missing
    out = np.empty(len(ordered), dtype=object)
    out[:] = ordered
    return out


def _real_objects(values: np.ndarray, name: str, may_lack: bool) -> np.ndarray:
    values = np.array(values)
    for row, value in enumerate(values.tolist()):
        if may_lack and is_missing(value):
            values[row] = np.nan
        elif as_number(value) is None and not isinstance(value, bool | np.bool_):
            raise ValueError(
                f"column {name!r} holds objects ({type(value).__name__} {in_words(value)} in row {row}); "
                "give numbers, make it categorical, or name it in nominal=."
            )
        elif isinstance(value, numbers.Real):
            values[row] = as_number(float(value) if isinstance(value, bool | np.bool_) else value)
    return values.astype(np.float64)


def _set_of(labels: list) -> set:
    try:
        return set(hashable(labels))
    except ValueError:
        raise
    except Exception as error:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(f"labels of type {', '.join(kinds)} cannot be compared; give strings or numbers.") from error


def _nominal_indices(nominal: Any, names: tuple[str, ...]) -> set[int]:
    if nominal is None:
        return set()
    chosen = set()
    for item in listed("nominal", nominal):
        if isinstance(item, str):
            if item not in names:
                raise ValueError(f"nominal names column {in_words(item)}; the columns are {list(names)}.")
            chosen.add(names.index(item))
        elif is_integer(item) and 0 <= int(item) < len(names):
            chosen.add(int(item))
        else:
            raise ValueError(f"nominal contains {in_words(item)}; give column names or indices 0..{len(names) - 1}.")
    return chosen


def listed(name: str, items: Any) -> list:
    """One item, or several, as a list."""
    if isinstance(items, str | numbers.Integral):
        return [items]
    if isinstance(items, list | tuple | set | frozenset | range) and len(items) <= MOST_NAMED:
        return list(items)
    return read_array(name, items).ravel().tolist()


def text_columns(table: Table) -> list[int]:
    """Columns of a frame that hold text, which a frame need not call categorical."""
    if table.frame is None:
        return []
    return [k for k, raw in enumerate(table) if _holds_text(raw)]


def _holds_text(raw: Any) -> bool:
    kind = str(raw.dtype)
    if kind == "object":
        return any(isinstance(value, str) for value in raw)
    return kind.startswith(("str", "String"))


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars frame."""
    module = type(X).__module__.partition(".")[0]
    if type(X).__name__ == "LazyFrame":  # asking it for its columns may cost as much as reading them
        return False
    return module in ("pandas", "polars") and getattr(X, "ndim", 2) == 2 and hasattr(X, "columns")


def _as_matrix(X: Any) -> np.ndarray:
    if type(X).__module__.startswith("scipy.sparse"):
        raise ValueError("X is a sparse matrix; give a dense array, X.toarray().")
    array = read_array("X", X)
    if array.dtype.kind in "US" and not isinstance(X, np.ndarray):
        array = np.asarray(X, dtype=object)
    if array.ndim != 2:
        raise ValueError(f"X has {array.ndim} dimension(s); give a table of shape (n, p), e.g. X.reshape(-1, 1).")
    return array


def _is_categorical(raw: Any) -> bool:
    return type(getattr(raw, "dtype", None)).__name__ in ("CategoricalDtype", "Categorical", "Enum") or str(
        getattr(raw, "dtype", "")
    ).startswith(("Categorical", "Enum"))
