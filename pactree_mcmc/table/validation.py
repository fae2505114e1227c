"""scikit-learn's checks of the arguments of an estimator; unexpected errors become a ValueError."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import column_or_1d, validate_data

from ..core.checks import in_words, refuse_endless
from .labels import refuse_missing


def read_data(estimator: Any, X: Any, *y: Any, **settings: Any) -> Any:
    """`validate_data`, with a ValueError for values that are too large or not a table, and for the row of a missing
    y.
    """
    for labels in y:
        refuse_missing(labels)
    return _checked(validate_data, estimator, X, *y, given=(X, *y), **settings)


def read_column(y: Any, **settings: Any) -> Any:
    """`column_or_1d`, likewise."""
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
