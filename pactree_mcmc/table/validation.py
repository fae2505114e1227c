"""Checks of the arguments of scikit-learn estimators by scikit-learn. Unexpected errors become a ValueError."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d, validate_data

from ..core.checks import refuse_inexact, refuse_long_range, repr_of
from .columns import exact_array, refuse_missing
from .reader import Table


def read_data(estimator: Any, X: Any, *y: Any, **settings: Any) -> Any:
    """Return the result of scikit-learn's `validate_data`, or raise a ValueError for values that cannot be used."""
    for labels in y:
        refuse_missing(labels)
    if not settings.get("skip_check_array"):
        _refuse_rounded(X)
    return _call_check(validate_data, estimator, X, *y, values=(X, *y), **settings)


def _refuse_rounded(X: Any) -> None:
    """Raise a ValueError if a table has integers that float64 would round. Other faults are left to scikit-learn."""
    try:
        table = Table(X)
    except ValueError:
        return
    if table.array is None or table.array.dtype.kind != "f":
        for k, name in enumerate(table.names or [f"x{k}" for k in range(table.n_features)]):
            refuse_inexact(f"column {name!r}", np.asarray(exact_array(table.column(k), name)))


def read_column(y: Any, **settings: Any) -> Any:
    """Return the result of scikit-learn's `column_or_1d`, or raise a ValueError for values that cannot be used."""
    return _call_check(column_or_1d, y, values=(y,), **settings)


def _call_check(check: Any, *args: Any, values: tuple, **settings: Any) -> Any:
    """Return the result of ``check(*args, **settings)``, a function of scikit-learn."""
    for value in values:
        refuse_long_range("X or y", value)
    try:
        return check(*args, **settings)
    except (ValueError, TypeError):
        raise
    except Exception as error:
        words = " and ".join(repr_of(value) for value in values)
        raise ValueError(f"{words} cannot be used ({type(error).__name__}: {error}); give tables of numbers") from error
