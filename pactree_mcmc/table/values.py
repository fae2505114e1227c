"""Ordered columns as numbers: truth values, dates and times too."""

from __future__ import annotations

import numbers
from datetime import date
from typing import Any

import numpy as np

from ..core.checks import as_number, in_words, read_array
from .labels import is_missing

NUMBER, TRUTH, DAY, TIME, UTC = KINDS = ("number", "truth value", "day", "time", "time UTC")
"""What an ordered column holds; days and times become days since 1970, in floating point."""


DATES = (DAY, TIME, UTC)


MICROSECONDS = 86_400_000_000
"""Of a day."""


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
