"""Access to the columns and rows of arrays, pandas frames and polars frames in the same way."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from ..core.checks import MAX_EXACT_INTEGER, read_array

MAX_LISTED_ITEMS = 1_000_000  # largest number of items of a Python sequence that are listed as they are


class Table:
    """Uniform access to the columns of an array, a pandas or a polars frame, without copying it."""

    def __init__(self, X: Any, title: str = "X") -> None:
        X = as_frame(X)
        self.frame: Any = X if is_frame(X) else None
        self.array = None if self.frame is not None else _as_matrix(X)
        data: Any = self.frame if self.array is None else self.array
        self.n_rows, self.n_features = int(data.shape[0]), int(data.shape[1])
        self.names = None if self.frame is None else [str(c) for c in self.frame.columns]
        if self.names is not None and len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"column name {twice!r} occurs more than once in {title}; give each column its own name.")

    def column(self, k: int) -> Any:
        """Return column ``k`` in the form in which the table contains it: an array or a Series (n,)."""
        if self.array is not None:
            return self.array[:, k]
        raw = self.frame.iloc[:, k] if hasattr(self.frame, "iloc") else self.frame.to_series(k)
        # a dictionary of Arrow is a categorical
        return raw.array.__arrow_array__().to_pandas() if str(raw.dtype).startswith("dictionary<") else raw

    def take(self, rows: Any) -> Any:
        """Return the rows that a slice or an index array selects, as an array or a frame like the table itself."""
        if self.array is not None:
            return self.array[rows]
        return self.frame.iloc[rows] if hasattr(self.frame, "iloc") else self.frame[rows]

    def __iter__(self) -> Iterator[Any]:
        return (self.column(k) for k in range(self.n_features))


def as_list(items: Any) -> list:
    """Return the argument ``nominal``, one item (a string or an integer) or several, as a list."""
    if isinstance(items, str | numbers.Integral):
        return [items]
    if isinstance(items, list | tuple | set | frozenset | range) and len(items) <= MAX_LISTED_ITEMS:
        return list(items)
    return read_array("nominal", items).ravel().tolist()


def holds_text(raw: Any) -> bool:
    """Return True if a column of a frame, or of Python objects, contains text. A NumPy array of text does not count."""
    if isinstance(raw, np.ndarray) and raw.dtype.kind != "O":
        return False
    kind = str(raw.dtype)
    return any(isinstance(value, str) for value in raw) if kind == "object" else kind.startswith(("str", "String"))


def as_frame(X: Any) -> Any:
    """Return a dict of columns as a pandas frame, and anything else as it is."""
    if type(X) is not dict:  # some sparse matrices are dicts too
        return X
    import pandas as pd

    try:
        return pd.DataFrame(X)
    except Exception as error:
        raise ValueError(
            f"X is a dict that makes no table ({type(error).__name__}: {error}); give columns of the same length."
        ) from error


def holds_categories(X: Any) -> bool:
    """Return True if a table has text or dates, which scikit-learn does not read; False for frames, arrays of text."""
    array = read_array("X", X) if isinstance(X, np.ndarray | list | tuple) else np.empty(0)
    if array.dtype.kind == "U" and not isinstance(X, np.ndarray):
        return array.ndim == 2
    kinds = str | date | time | timedelta | np.datetime64 | np.timedelta64
    objects = array.ravel().tolist() if array.dtype.kind == "O" and array.ndim == 2 else []
    return array.dtype.kind in "mM" or any(isinstance(x, kinds) or hasattr(x, "freqstr") for x in objects)


def is_frame(X: Any) -> bool:
    """Return True if X is a pandas or polars frame, but not a LazyFrame."""
    module = type(X).__module__.partition(".")[0]
    if type(X).__name__ == "LazyFrame":  # asking it for its columns may cost as much as reading them
        return False
    return module in ("pandas", "polars") and getattr(X, "ndim", 2) == 2 and hasattr(X, "columns")


def _as_matrix(X: Any) -> np.ndarray:
    """Return a table that is not a frame as an array (n, p), of objects if one dtype would change its values."""
    if type(X).__module__.startswith("scipy.sparse"):
        raise ValueError("X is a sparse matrix; give a dense array, X.toarray().")
    array = read_array("X", X)
    may_be_rounded = array.dtype == np.float64 and (np.abs(array) >= MAX_EXACT_INTEGER).any()
    if not isinstance(X, np.ndarray) and (array.dtype.kind in "US" or may_be_rounded):
        array = np.asarray(X, dtype=object)  # an array of one dtype has changed some of the values
    if array.ndim != 2:
        raise ValueError(f"X is {_shape_words(X, array)}.")
    return array


def _shape_words(X: Any, array: np.ndarray) -> str:
    """Return the end of an error message for an ``X`` that is not a table: what it is, and what to give instead."""
    name = type(X).__name__
    if array.ndim == 0:
        call = {"LazyFrame": "X.collect()", "generator": "list(X)"}.get(name, "rows and columns, shape (n, p)")
        return f"a {name}, which is not a table; give {call}"
    if array.dtype.names is not None or (array.dtype.kind == "O" and any(isinstance(row, dict) for row in array.flat)):
        return f"a {name} of records; give pd.DataFrame(X)"
    if array.ndim == 1 and hasattr(X, "to_frame"):
        return f"a {name}; for one row give a frame of one row, such as frame.iloc[[0]], for one column X.to_frame()"
    if array.ndim == 1:
        return f"of shape {array.shape}; for one row give [X], for one column np.reshape(X, (-1, 1))"
    return f"of shape {array.shape}; give a table of shape (n, p)"


def is_categorical(raw: Any) -> bool:
    """Return True if a column has a categorical dtype of pandas or polars."""
    return type(getattr(raw, "dtype", None)).__name__ in ("CategoricalDtype", "Categorical", "Enum") or str(
        getattr(raw, "dtype", "")
    ).startswith(("Categorical", "Enum"))
