"""Conversion of dates, times, durations, periods, intervals and decimal numbers to plain parts for a file, and back.

Such values are categories of nominal columns and class labels. A file contains the name of a type below and numbers or
text, from which the function of that type makes the value.
"""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple


class ScalarType(NamedTuple):
    """Conversion of the values of one type to parts that a file contains, and back."""

    parts: Callable[[Any], list[Any]]
    """Function of a value that returns its parts: text, numbers, None, or other values that can be stored."""
    make: Callable[..., Any]
    """Function of the parts that returns the value."""


def _pandas() -> Any:
    """Return the module pandas, which a model without such categories does not need."""
    import pandas as pd

    return pd


def _datetime_parts(value: datetime.datetime) -> list[Any]:
    """Return the ISO text of a datetime and the name of its time zone, or the text with an offset, if any, and None."""
    zone = getattr(value.tzinfo, "key", None)
    return [value.isoformat() if zone is None else value.replace(tzinfo=None).isoformat(), zone]


def _datetime(text: str, zone: str | None) -> datetime.datetime:
    """Return the datetime of an ISO text, with or without an offset, or in a named time zone."""
    value = datetime.datetime.fromisoformat(text)
    return value if zone is None else value.replace(tzinfo=zoneinfo.ZoneInfo(zone))


def _timestamp(text: str, unit: str, zone: str | None) -> Any:
    """Return the pandas Timestamp of an ISO text with its offset, in a time unit and a named time zone or None."""
    value = _pandas().Timestamp(text)
    return (value if zone is None else value.tz_convert(zone)).as_unit(unit)


TYPES = {
    "date": ScalarType(lambda x: [x.isoformat()], datetime.date.fromisoformat),
    "datetime": ScalarType(_datetime_parts, _datetime),
    "time": ScalarType(lambda x: [x.isoformat()], datetime.time.fromisoformat),
    "timedelta": ScalarType(lambda x: [x.days, x.seconds, x.microseconds], datetime.timedelta),
    "Decimal": ScalarType(lambda x: [str(x)], Decimal),
    "Timestamp": ScalarType(lambda x: [x.isoformat(), x.unit, None if x.tz is None else str(x.tz)], _timestamp),
    "Timedelta": ScalarType(
        lambda x: [x.isoformat(), x.unit], lambda text, unit: _pandas().Timedelta(text).as_unit(unit)
    ),
    "Period": ScalarType(
        lambda x: [x.ordinal, x.freqstr], lambda ordinal, freq: _pandas().Period(ordinal=ordinal, freq=freq)
    ),
    "Interval": ScalarType(lambda x: [x.left, x.right, x.closed], lambda *parts: _pandas().Interval(*parts)),
}
"""Types whose values can be stored, by the name that the file contains."""
MODULES = ("datetime", "decimal", "pandas")
"""Packages of these types."""


def parts_of(value: Any) -> list[Any] | None:
    """Return the parts of a value of one of the `TYPES`, or None if they would not give exactly this value."""
    kind = TYPES.get(type(value).__name__)
    if kind is None or type(value).__module__.partition(".")[0] not in MODULES:
        return None
    try:
        parts = kind.parts(value)
        restored = kind.make(*parts)
        is_exact = type(restored) is type(value) and restored == value and repr(restored) == repr(value)
        return parts if is_exact and hash(restored) == hash(value) else None
    except Exception:
        return None
