"""Kinds of data of ordered columns, and their values and cuts in words."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..files.encoding import kept

MICROSECONDS = 86_400_000_000
"""Microseconds of a day."""
NANOSECONDS = 1000 * MICROSECONDS
"""Nanoseconds of a day."""
PARTS_OF_A_DAY = (NANOSECONDS, 3_600 * 10**9, 60 * 10**9, 10**9, 10**6, 10**3)
"""Nanoseconds of a day, an hour, a minute, a second, a millisecond and a microsecond."""
FINEST_DAYS = 50.0
"""Durations in days up to which words show nanoseconds: float64 tells them apart until day 52."""
MOST_DAYS = 1e8
"""Days from which on words show a number, since NumPy's dates in microseconds end there."""
GROUPS = {"number": "numbers", "truth value": "numbers", "day": "dates", "time": "dates", "time UTC": "dates"}
GROUPS |= {"duration": "durations", "level": "levels of an ordered categorical"}
"""Kinds in the words of an error; kinds with the same words can stand for each other."""


@kept
class Kind(NamedTuple):
    """Kind of data of an ordered column."""

    name: str
    detail: Any = ""
    """Levels of an ordered categorical in their order, as a tuple, or the frequency of periods."""

    @property
    def is_plain(self) -> bool:
        """True for numbers and truth values, which are shown as numbers."""
        return self.name in ("number", "truth value")

    @property
    def group(self) -> str:
        """Contents of the column in the words of an error."""
        return f"periods of frequency {self.detail}" if self.name == "period" else GROUPS[self.name]

    @property
    def levels(self) -> tuple:
        """Levels of an ordered categorical in their order; () for other kinds."""
        return self.detail if self.name == "level" else ()


NUMBER, TRUTH, DAY, TIME, UTC, DURATION = SIMPLE = tuple(
    Kind(name) for name in ("number", "truth value", "day", "time", "time UTC", "duration")
)
"""Kinds without details. Days, times and durations are days, since 1970 or long, in floating point."""
DATES = (DAY, TIME, UTC)


def kind_of_levels(levels: list) -> Kind:
    """Return the kind of an ordered categorical with these levels."""
    plain = tuple(map(plain_level, levels))
    if len({str(level) for level in plain}) < len(plain):
        raise ValueError(f"the levels {', '.join(map(str, plain))} have the same text; give each level its own.")
    return Kind("level", plain)


def plain_level(label: Any) -> Any:
    """Return a label as files can hold it: text, a number, or the text of anything else, such as an interval."""
    label = label.item() if isinstance(label, np.generic) else label
    return label if type(label) in (str, int, float, bool) else str(label)


def kind_of_periods(dtype: Any) -> Kind:
    """Return the kind of a column with a period dtype of pandas."""
    return Kind("period", str(dtype).removeprefix("period[").removesuffix("]"))


def is_kind(kind: Any) -> bool:
    """Return True if a value, perhaps from a file, is the kind of a column."""
    if not isinstance(kind, Kind) or kind in SIMPLE:
        return isinstance(kind, Kind)
    if kind.name == "level":
        plain = type(kind.detail) is tuple and all(type(level) in (str, int, float, bool) for level in kind.detail)
        return plain and 0 < len(kind.detail) == len(set(map(str, kind.detail)))
    try:
        return kind.name == "period" and type(kind.detail) is str and bool(_period_words(0.0, kind.detail))
    except ValueError:
        return False


def kind_words(value: float, kind: Kind, low: float, high: float) -> str:
    """Return a value of a column of levels, periods or durations, or a cut, in the words of its kind.

    Of a cut these are the words of the largest value of the kind that is not above the cut. So the values not above the
    words are those that are not above the cut. If the values ``low`` and ``high`` on either side are known, a duration
    has the fewest parts that lie between them.
    """
    if kind.levels:
        place = min(math.floor(value), len(kind.levels) - 1)
        return str(kind.levels[place]) if place >= 0 else "no level"
    if kind.name == "period":
        return _period_words(value, kind.detail)
    return _duration_words(value, low, high) if abs(value) < MOST_DAYS else f"{value:.6g}"


def _period_words(ordinal: float, frequency: str) -> str:
    import pandas as pd

    try:
        return str(pd.Period(ordinal=math.floor(ordinal), freq=frequency))
    except OverflowError:
        return f"{ordinal:.6g}"


def _duration_words(days: float, low: float, high: float) -> str:
    """Return a duration such as ``3 days 04:30:00`` or ``-1 day +12:00:00``, as `pandas.Timedelta` reads it."""
    finest = 1 if abs(days) < FINEST_DAYS else 1000
    ticks = finest * _tick(days, NANOSECONDS // finest)
    for part in PARTS_OF_A_DAY:
        nearest = part * round(days * NANOSECONDS / part)
        if low <= nearest / NANOSECONDS < high and part >= finest:
            ticks = nearest
            break
    sign = "-" if -NANOSECONDS < ticks < 0 else ""
    whole, rest = divmod(abs(ticks) if sign else ticks, NANOSECONDS)
    seconds, fraction = divmod(rest, 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    clock += f".{fraction:09}".rstrip("0").rstrip(".")
    if whole == 0:
        return sign + clock
    days_words = f"{whole} day{'s' * (abs(whole) != 1)}"
    return f"{days_words} {'+' * (whole < 0)}{clock}" if rest else days_words


def _tick(days: float, ticks: int) -> int:
    """Return the largest tick, of which a day has so many, that is not above a number of days."""
    nearest = round(days * ticks)
    return nearest if nearest / ticks <= days else nearest - 1
