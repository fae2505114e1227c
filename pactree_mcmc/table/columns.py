"""The columns of X: names, which are nominal, their categories, and how raw input becomes numbers."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import numpy as np

from ..core.checks import as_number, check_choice, in_words, is_integer, read_array
from ..files.encoding import kept

MAX_CATEGORIES = 63
MOST_NAMED = 1_000_000
MISSING = ("error", "branch")
"""What may be done about missing values."""
MOST_LISTED = 8
"""Columns that one error names."""
NUMBER, TRUTH, DAY, TIME, UTC = KINDS = ("number", "truth value", "day", "time", "time UTC")
"""What an ordered column holds; days and times become days since 1970, in floating point."""
DATES = (DAY, TIME, UTC)
MICROSECONDS = 86_400_000_000
"""Of a day."""


@kept
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
    kinds : tuple of str
        What each feature holds if it is ordered, one of `KINDS`; () where all are numbers.
    """

    names: tuple[str, ...]
    named: bool
    categories: tuple[np.ndarray | None, ...]
    branches: bool = False
    twins: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.names)

    @property
    def is_nominal(self) -> np.ndarray:
        """Boolean array (p,): which features are nominal."""
        return np.array([c is not None for c in self.categories], dtype=np.bool_)

    def kind(self, feature: int) -> str:
        """What an ordered ``feature`` holds."""
        return self.kinds[feature] if self.kinds else NUMBER

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
            If columns are missing, X has another number of columns, or columns hold NaN (but see ``branches``),
            infinity or dates where the model has numbers; the message names all of these columns.
        """
        table = Table(X)
        where = self._places(table)
        plain = table.array is not None and table.array.dtype == np.float64 and not self.is_nominal.any()
        if plain and not set(self.kinds) & set(DATES) and np.isfinite(table.array).all():
            return np.ascontiguousarray(table.array)
        out = np.empty((table.n_rows, self.n_features), dtype=np.float64)

        def read(k: int) -> None:
            raw, name, categories = table.column(where[k]), self.names[k], self.categories[k]
            if categories is not None:
                out[:, k] = category_codes(nominal_labels(raw, name, self.branches), categories)
                return
            values, kind = read_ordered(raw, name, self.branches)
            if (kind in DATES) != (self.kind(k) in DATES):
                held, wanted = ("dates", "numbers") if kind in DATES else ("numbers", "dates")
                raise ValueError(f"column {name!r} holds {held}; the model was built on {wanted}: give those.")
            out[:, k] = values

        for_each_column([partial(read, k) for k in range(self.n_features)])
        return out

    def _places(self, table: Table) -> list[int]:
        """Where each feature stands in another table: by name where both have names."""
        if self.named and table.names is not None:
            missing = [name for name in self.names if name not in table.names]
            if missing:
                lacks = (
                    f"column {missing[0]!r}" if len(missing) == 1 else f"{len(missing)} columns, {in_words(missing)}"
                )
                raise ValueError(f"X lacks {lacks}; the model was built on {list(self.names)}.")
            return [table.names.index(name) for name in self.names]
        if table.n_features != self.n_features:
            raise ValueError(
                f"X has {table.n_features} columns; the model was built on {self.n_features}: {list(self.names)}."
            )
        return list(range(self.n_features))


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
    """Read names, categories and kinds off the training ``table``; ``nominal`` names further nominal columns.

    Columns of a frame that hold text are nominal. A ValueError names all columns that cannot be used.
    """
    check_choice("missing", missing, MISSING)
    if table.n_rows == 0 or table.n_features == 0:
        raise ValueError(f"X is empty: shape ({table.n_rows}, {table.n_features}); give at least 2 rows and 1 column.")
    if table.n_rows < 2:
        raise ValueError("X has one row; a tree needs at least 2 rows to choose from.")
    names = tuple(table.names or (f"x{k}" for k in range(table.n_features)))
    chosen = _nominal_indices(nominal, names)
    branches, by_name = missing == "branch", table.names is not None
    if not chosen and table.array is not None and table.array.dtype.kind == "f" and np.isfinite(table.array).all():
        return Columns(names, by_name, (None,) * len(names), branches)

    def learn(k: int) -> tuple[np.ndarray | None, str, bool]:
        raw = table.column(k)
        if k in chosen or _is_categorical(raw) or (table.frame is not None and _holds_text(raw)):
            return _learn_categories(raw, names[k], branches), NUMBER, False
        values, kind = read_ordered(raw, names[k], branches)
        gaps = np.isnan(values)
        if gaps.all():
            raise ValueError(f"column {names[k]!r} has no value at all; drop it.")
        return None, kind, bool(gaps.any())

    categories, kinds, lacking = zip(*for_each_column([partial(learn, k) for k in range(len(names))]), strict=True)
    twins = tuple(k for k, lacks in enumerate(lacking) if lacks)
    return Columns(names, by_name, categories, branches, twins, () if set(kinds) == {NUMBER} else kinds)


def _learn_categories(raw: Any, name: str, may_lack: bool) -> np.ndarray:
    labels = _sorted_unique(nominal_labels(raw, name, may_lack))
    if len(labels) > MAX_CATEGORIES:
        raise ValueError(
            f"column {name!r} has {len(labels)} categories; at most {MAX_CATEGORIES} are allowed: merge rare ones, "
            "give the column as numbers, or leave it out."
        )
    return labels


def for_each_column(reads: Iterable[Callable[[], Any]]) -> list:
    """What each of these calls, one a column, returns; one ValueError says what is wrong with all that raise one."""
    out, wrong = [], []
    for read in reads:
        try:
            out.append(read())
        except ValueError as error:
            wrong.append(error)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        more = [f"and {len(wrong) - MOST_LISTED} more"] if len(wrong) > MOST_LISTED else []
        lines = [f"{len(wrong)} columns cannot be used:", *map(str, wrong[:MOST_LISTED]), *more]
        raise ValueError("\n  ".join(lines)) from wrong[0]
    return out


def ordered_values(raw: Any, name: str, may_lack: bool = False) -> np.ndarray:
    """An ordered column as float64 (n,), contiguous; not copied if it is so already.

    Finite, but for NaN where values may lack.
    """
    return read_ordered(raw, name, may_lack)[0]


def read_ordered(raw: Any, name: str, may_lack: bool = False) -> tuple[np.ndarray, str]:
    """As `ordered_values`; with the kind of the column."""
    zone = getattr(getattr(raw, "dtype", None), "tz", None)
    if zone is not None:
        raw = raw.dt.tz_convert("UTC").dt.tz_localize(None)
    values = read_array(f"column {name!r}", raw)
    if values.ndim != 1:
        raise ValueError(f"column {name!r} holds lists or records; give real numbers or a categorical.")
    kind, holds = values.dtype.kind, TRUTH if values.dtype.kind == "b" else NUMBER
    if kind == "M":
        whole = bool(np.all(np.isnat(values) | (values == values.astype("M8[D]"))))
        aware = zone is not None or getattr(getattr(raw, "dtype", None), "time_zone", None) is not None
        values, holds = _days(values, name), UTC if aware else DAY if whole else TIME
    elif kind == "O":
        if all(isinstance(value, bool | np.bool_) or (may_lack and is_missing(value)) for value in values.tolist()):
            holds = TRUTH
        values = _real_objects(values, name, may_lack)
    elif kind in "US" or type(values.dtype).__name__ == "StringDType":
        raise ValueError(
            f"column {name!r} holds text; make it a pandas or polars categorical, name it in nominal=, or give numbers."
        )
    elif kind == "c":
        raise ValueError(f"column {name!r} is complex; X must be real: give real and imaginary parts as two columns.")
    elif kind not in "fiub":
        raise ValueError(f"column {name!r} has dtype {values.dtype}; give real numbers, dates or a categorical.")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values, dtype=np.float64)
    bad = np.isinf(values) if may_lack else ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        what = "NaN" if np.isnan(values[row]) else "infinity"
        advice = "give finite numbers" + (', or missing="branch"' if np.isnan(values[row]) else "")
        raise ValueError(f"column {name!r} contains {what} (first in row {row}); {advice}.")
    return values, holds


def _days(values: np.ndarray, name: str) -> np.ndarray:
    """Dates as days since 1970-01-01 in float64, NaN where missing; a microsecond makes a difference until 2200."""
    gone = np.isnat(values)
    fine = values.astype("M8[us]")
    beyond = ~gone & (fine.astype("M8[D]") != values.astype("M8[D]"))
    if beyond.any():
        raise ValueError(
            f"column {name!r} holds dates beyond the year 290,000 (first in row {int(np.argmax(beyond))})."
        )
    return np.where(gone, np.nan, fine.astype(np.int64) / MICROSECONDS)


def date_words(days: float, kind: str) -> str:
    """A number of days since 1970-01-01 as a date, of times to the microsecond."""
    if not abs(days) < 1e8:
        return f"{days:.6g}"
    if kind == DAY:  # whole days lie on the same side of a time and of the day it is in
        return str(np.datetime64(math.floor(days), "D"))
    day, _, time = str(np.datetime64(round(days * MICROSECONDS), "us")).partition("T")
    time = time.rstrip("0").rstrip(".") if "." in time and time.partition(".")[2].strip("0") else time[:8]
    return f"{day} {time.removesuffix(':00') if len(time) == 8 else time}{' UTC' if kind == UTC else ''}"


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


def refuse_missing(y: Any) -> None:
    """Refuse labels or numbers of which one is missing: None, NaN, NA; names its row. None alone is no y at all."""
    if y is None:
        return
    labels = read_array("y", y)
    if labels.dtype.kind == "f":
        gone = np.isnan(labels).ravel()
    elif labels.dtype.kind == "O":
        gone = np.array([is_missing(label) for label in labels.ravel().tolist()], dtype=np.bool_)
    else:
        return
    if gone.any():
        rest = int(gone.sum()) - 1
        more = f" and in {rest} more" if rest else ""
        raise ValueError(f"y is missing in row {int(np.argmax(gone))}{more}; give it a label, or drop the row.")


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
            advice = "give numbers, make it categorical, or name it in nominal="
            if isinstance(value, date):
                advice = "give dates as datetime64, pd.to_datetime(column)"
            raise ValueError(
                f"column {name!r} holds objects ({type(value).__name__} {in_words(value)} in row {row}); {advice}."
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


def _holds_text(raw: Any) -> bool:
    """Whether a column of a frame holds text, which the frame need not call categorical."""
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
