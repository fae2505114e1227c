"""scikit-learn's checks of the arguments of an estimator; unexpected errors become a ValueError."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d, validate_data

from ..core.checks import in_words, refuse_endless, refuse_inexact
from .labels import refuse_missing
from .reader import Table
from .values import exact_array


def read_data(estimator: Any, X: Any, *y: Any, **settings: Any) -> Any:
    """Return the result of `validate_data`, with a ValueError for values that cannot be used.

    These are values that are too large or not a table, integers that float64 would round, and a missing y.
    """
    for labels in y:
        refuse_missing(labels)
    if not settings.get("skip_check_array"):
        _refuse_rounded(X)
    return _checked(validate_data, estimator, X, *y, given=(X, *y), **settings)


def _refuse_rounded(X: Any) -> None:
    """Refuse a table with integers that float64 would round; leave other faults to scikit-learn."""
    try:
        table = Table(X)
    except ValueError:
        return
    if table.array is None or table.array.dtype.kind != "f":
        for k, name in enumerate(table.names or [f"x{k}" for k in range(table.n_features)]):
            refuse_inexact(f"column {name!r}", np.asarray(exact_array(table.column(k), name)))


def read_column(y: Any, **settings: Any) -> Any:
    """Return the result of `column_or_1d`, with a ValueError for values that cannot be used."""
    return _checked(column_or_1d, y, given=(y,), **settings)


def _checked(check: Any, *args: Any, given: tuple, **settings: Any) -> Any:
    for value in given:
        refuse_endless("X or y", value)
    try:
        return check(*args, **settings)
    except (ValueError, TypeError):
        raise
    except Exception as error:
        words = " and ".join(in_words(value) for value in given)
        raise ValueError(
            f"{words} cannot be used ({type(error).__name__}: {error}); give tables of numbers."
        ) from error
