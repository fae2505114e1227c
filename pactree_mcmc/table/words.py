"""Kinds of data of ordered columns, and the text of numbers, thresholds and splits.

A threshold is shown as the shortest number that separates the same training values, so that a printed rule sends every
training row to the side to which the model sends it. If these values are not known, the threshold is shown exactly.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any, NamedTuple

import numpy as np

from ..files.encoding import register_class

MICROSECONDS = 86_400_000_000  # number of microseconds of a day
NANOSECONDS = 1000 * MICROSECONDS  # number of nanoseconds of a day
# number of nanoseconds of a day, an hour, a minute, a second, a millisecond and a microsecond
NANOSECOND_PARTS = (NANOSECONDS, 3_600 * 10**9, 60 * 10**9, 10**9, 10**6, 10**3)
# length of a duration in days up to which its text shows nanoseconds, which float64 distinguishes up to 52 days
MAX_NANOSECOND_DAYS = 50.0
# number of days from which the text is a plain number, since NumPy's dates in microseconds end there
MAX_DATE_DAYS = 1e8
KIND_GROUPS = {"number": "numbers", "truth value": "numbers", "day": "dates", "time": "dates"}
KIND_GROUPS |= {"time UTC": "dates with a time zone", "duration": "durations"}
# contents of a column of each kind in words. New rows may have another kind than the model if the words are equal.
KIND_GROUPS |= {"level": "levels of an ordered categorical"}


@register_class
class Kind(NamedTuple):
    """Kind of data of an ordered column."""

    name: str  # one of the keys of ``KIND_GROUPS``, or "period"
    detail: Any = ""  # levels of an ordered categorical in their order, as a tuple, or the frequency of periods

    @property
    def is_plain(self) -> bool:
        return self.name in ("number", "truth value")

    @property
    def group(self) -> str:
        """Words for the contents of the column in error messages."""
        return f"periods of frequency {self.detail}" if self.name == "period" else KIND_GROUPS[self.name]

    @property
    def levels(self) -> tuple:
        return self.detail if self.name == "level" else ()


# kinds without details. Values are floats: dates and times in days since 1970, durations in days.
NUMBER, TRUTH, DAY, TIME, UTC, DURATION = PLAIN_KINDS = tuple(
    Kind(name) for name in ("number", "truth value", "day", "time", "time UTC", "duration")
)
DATES = (DAY, TIME, UTC)  # kinds whose values are days since 1970


def kind_of_levels(levels: list) -> Kind:
    """Return the kind of an ordered categorical with these levels."""
    plain = tuple(map(plain_level, levels))
    if len({str(level) for level in plain}) < len(plain):
        raise ValueError(f"the levels {', '.join(map(str, plain))} have the same text; give each level its own.")
    return Kind("level", plain)


def plain_level(label: Any) -> Any:
    """Return a label in a form that files can hold: strings and numbers as they are, other labels as their text."""
    label = label.item() if isinstance(label, np.generic) else label
    return label if type(label) in (str, int, float, bool) else str(label)


def is_kind(kind: Any) -> bool:
    """Return True if a value, perhaps from a file, is a `Kind` with a known name and a valid detail."""
    if not isinstance(kind, Kind) or kind in PLAIN_KINDS:
        return isinstance(kind, Kind)
    if kind.name == "level":
        plain = type(kind.detail) is tuple and all(type(level) in (str, int, float, bool) for level in kind.detail)
        return plain and 0 < len(kind.detail) == len(set(map(str, kind.detail)))
    try:
        return kind.name == "period" and type(kind.detail) is str and bool(_period_words(0.0, kind.detail))
    except ValueError:
        return False


def kind_words(value: float, kind: Kind, low: float, high: float) -> str:
    """Return the text of a value or threshold of a column of levels, periods or durations."""
    # A threshold's text names the largest level, period or duration that is not above it, so that both separate the
    # same values. With training values `low` and `high` beside it, a duration is the coarsest between the two
    if kind.levels:
        level = min(math.floor(value), len(kind.levels) - 1)
        return str(kind.levels[level]) if level >= 0 else "no level"
    if kind.name == "period":
        return _period_words(value, kind.detail)
    return _duration_words(value, low, high) if abs(value) < MAX_DATE_DAYS else f"{value:.6g}"


def _period_words(ordinal: float, frequency: str) -> str:
    """Return the text, such as ``2024-05``, of the last period of pandas whose number is at most ``ordinal``."""
    import pandas as pd

    try:
        return str(pd.Period(ordinal=math.floor(ordinal), freq=frequency))
    except OverflowError:
        return f"{ordinal:.6g}"


def _duration_words(days: float, low: float, high: float) -> str:
    """Return a duration in days as text that `pandas.Timedelta` reads, ``3 days 04:30:00`` or ``-1 day +12:00:00``."""
    min_part = 1 if abs(days) < MAX_NANOSECOND_DAYS else 1000
    ticks = min_part * _tick(days, NANOSECONDS // min_part)
    for part in NANOSECOND_PARTS:
        rounded = part * round(days * NANOSECONDS / part)
        if low <= rounded / NANOSECONDS < high and part >= min_part:
            ticks = rounded
            break
    sign = "-" if -NANOSECONDS < ticks < 0 else ""
    n_days, rest = divmod(abs(ticks) if sign else ticks, NANOSECONDS)
    seconds, fraction = divmod(rest, 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    clock += f".{fraction:09}".rstrip("0").rstrip(".")
    if n_days == 0:
        return sign + clock
    days_words = f"{n_days} day{'s' * (abs(n_days) != 1)}"
    return f"{days_words} {'+' * (n_days < 0)}{clock}" if rest else days_words


def _tick(days: float, ticks_per_day: int) -> int:
    """Return a time in days as ticks, rounded down: the largest integer t with ``t / ticks_per_day <= days``."""
    rounded = round(days * ticks_per_day)
    return rounded if rounded / ticks_per_day <= days else rounded - 1


# number of significant digits up to which a threshold is shown exactly, and smallest number of digits of predictions
SHORT_DIGITS = 6
SAFE_DIGITS = 15  # number of significant digits that every float64 keeps
# number of digits in which equal predictions agree. The last digits of a sum depend on the order of its terms.
EQUAL_DIGITS = 13
EXACT_DIGITS = 17  # number of significant digits that distinguishes all float64
# number of microseconds of a day, a minute, a second and a microsecond
MICROSECOND_PARTS = (MICROSECONDS, 60_000_000, 1_000_000, 1)


def number_text(x: float) -> str:
    """Return the shortest text that reads back as the same float64."""
    return repr(float(x) + 0.0).removesuffix(".0")


def shortest_between(low: float, high: float, target: float) -> str:
    """Return the shortest decimal number t with low <= t < high as text, of several the closest to `target`."""
    # a target of at most six digits is returned itself
    if not low <= target < high or float(f"{target:.{SHORT_DIGITS}g}") == target:
        return number_text(target)
    exact = Decimal(target)
    for digits in range(1, EXACT_DIGITS + 1):
        rounded = [Context(digits, rounding).plus(exact) for rounding in (ROUND_HALF_EVEN, ROUND_FLOOR, ROUND_CEILING)]
        admissible = [t for t in rounded if low <= float(t) < high]
        if admissible:
            return number_text(float(min(admissible, key=lambda t: abs(t - exact))))
    return number_text(target)


def threshold_text(threshold: float, low: float, high: float, kind: Kind = NUMBER) -> str:
    """Return a threshold of a column of this kind as text; `low` and `high` are the training values beside it."""
    # NaN if not known: then the text is exact. A date has the fewest parts that separate them
    if not low <= threshold < high:
        low, high = threshold, math.nextafter(threshold, math.inf)
    if kind in DATES and abs(threshold) < MAX_DATE_DAYS:
        return _date_between(low, high, threshold, kind)
    if not kind.is_plain and kind not in DATES and math.isfinite(threshold):
        return kind_words(threshold, kind, low, high)
    return shortest_between(low, high, threshold)


def value_text(x: float, kind: Kind = NUMBER) -> str:
    """Return a value of an ordered column as text, exactly; NaN is missing."""
    if math.isnan(x):
        return "missing"
    if kind == TRUTH and x in (0.0, 1.0):
        return "yes" if x else "no"
    return threshold_text(x, math.nan, math.nan, kind)


def _date_between(low: float, high: float, target: float, kind: Kind) -> str:
    """Return the text of the coarsest date in [low, high), days since 1970, of several the closest to `target`."""
    # in a column of days that of `target`. If no microsecond lies in the interval, as can happen after the year 2200,
    # the text is that of the last microsecond that is not after `target`
    if kind == DAY:
        return str(np.datetime64(math.floor(target), "D"))
    microseconds = target * MICROSECONDS
    if target == round(microseconds / MICROSECOND_PARTS[1]) * MICROSECOND_PARTS[1] / MICROSECONDS:
        return _moment_text(round(microseconds), kind)
    for part in MICROSECOND_PARTS:
        n_parts = math.floor(microseconds / part)
        admissible = [m * part for m in (n_parts - 1, n_parts, n_parts + 1) if low <= m * part / MICROSECONDS < high]
        if admissible:
            return _moment_text(min(admissible, key=lambda m: abs(m - microseconds)), kind)
    last = math.floor(microseconds)
    return _moment_text(last if last / MICROSECONDS <= target else last - 1, kind)


def _moment_text(microseconds: int, kind: Kind) -> str:
    """Return a time in microseconds since 1970 as text: day and minutes, and seconds and microseconds unless 0."""
    day, _, time = str(np.datetime64(microseconds, "us")).partition("T")
    if "." in time:
        time = time.rstrip("0").rstrip(".")
    return f"{day} {time.removesuffix(':00') if len(time) == 8 else time}{' UTC' if kind == UTC else ''}"


def rounded_text(x: float, digits: int = SHORT_DIGITS) -> str:
    """Return a number as text with ``digits`` significant digits. Below 1e15 all digits before the point are shown."""
    if 10.0**digits <= abs(x) < 10.0**SAFE_DIGITS:
        return f"{x:.0f}"
    return number_text(float(f"{x:.{digits}g}")) if math.isfinite(x) else str(x)


def digits_that_separate(values: Iterable[float], min_digits: int = SHORT_DIGITS) -> int:
    """Return the smallest number of digits, `min_digits` to 15, with which different values differ."""
    # rounding changes a value by at most a tenth of the smallest difference; values equal in 13 digits count as equal
    numbers = np.unique([float(f"{x:.{EQUAL_DIGITS}g}") for x in values if math.isfinite(x)])
    if len(numbers) < 2:
        return min_digits
    with np.errstate(over="ignore"):
        max_error = float(np.diff(numbers).min()) / 10.0
    for digits in range(min_digits, SAFE_DIGITS):
        if all(abs(float(rounded_text(x, digits)) - x) <= max_error for x in numbers.tolist()):
            return digits
    return SAFE_DIGITS


MIN_DIGITS_OF_RANGE = 5  # smallest number of digits that `digits_of_range` returns


def digits_of_range(values: np.ndarray) -> int:
    """Return how many significant digits, 5 to 13, show differences of 1e-4 times the range of ``values``."""
    if not len(values):
        return MIN_DIGITS_OF_RANGE
    half_range, size = float(values.max()) / 2.0 - float(values.min()) / 2.0, float(np.abs(values).max())
    n_more = math.ceil(math.log10(size / 2.0) - math.log10(half_range)) if half_range > 0.0 else 0
    return min(MIN_DIGITS_OF_RANGE + max(n_more, 0), EQUAL_DIGITS)


def rounded_texts(values: Iterable[float], min_digits: int = SHORT_DIGITS) -> list[str]:
    """Return numbers as text, all with as many digits, at least ``min_digits``, as distinguish different values."""
    numbers = list(values)
    digits = digits_that_separate(numbers, min_digits)
    return [rounded_text(x, digits) for x in numbers]


def count_text(n: float, name: str = "row") -> str:
    return f"{rounded_text(n)} {name}{'s' * (n != 1.0)}"


# pattern of categories shown without quotes: no comma or brace, no quote at the start, no space at either end, and not
# the word "missing"
UNQUOTED_CATEGORY = re.compile(r"(?!missing$)[^ \"',{}]([^,{}]*[^ ,{}])?")


def ordered_words(
    threshold: float, missing_left: bool | None, kind: Kind = NUMBER, low: float = math.nan, high: float = math.nan
) -> str:
    """Return an ordered split as text after the name of the feature, such as " <= 2.5 or missing"."""
    # `missing_left` is None if no value is missing; a threshold NaN separates missing from known values
    if math.isnan(threshold):
        return " is missing" if missing_left else " is known"
    return f" {side_words(threshold, True, kind, low, high)}" + (" or missing" if missing_left else "")


def side_words(threshold: float, left: bool, kind: Kind = NUMBER, low: float = math.nan, high: float = math.nan) -> str:
    """Return the condition for values on the left or the right of a threshold as text, such as "> 2.5"."""
    if kind == TRUTH and 0.0 <= threshold < 1.0:
        return "= no" if left else "= yes"
    return f"{'<=' if left else '>'} {threshold_text(threshold, low, high, kind)}"


def categories_text(labels: Iterable[Any]) -> str:
    """Return a set of categories as text that follows the name of the feature, such as " in {a, b}"."""
    return f" in {{{', '.join(sorted(map(label_words, labels)))}}}"


class QuotedLabel(str):
    """A category of text that is always shown in quotes, because another category has the same text."""


def told_apart(labels: Sequence[Any]) -> list[Any]:
    """Return the labels of a column; those of text whose words another label has, such as "1" beside 1, are quoted."""
    words = Counter(map(label_words, labels))
    return [QuotedLabel(x) if isinstance(x, str) and words[label_words(x)] > 1 else x for x in labels]


def label_words(label: Any) -> str:
    """Return a category as text; in quotes if it could be read as several categories, or as a missing value."""
    if isinstance(label, bool):
        return "yes" if label else "no"
    text = str(label)
    if isinstance(label, QuotedLabel):
        return repr(text)
    if isinstance(label, str) or "," in text:
        return text if UNQUOTED_CATEGORY.fullmatch(text) and text.isprintable() else repr(text)
    return "missing" if label is None else text


def shortened(text: str, most: int) -> str:
    """Return the text on one line. An ellipsis replaces its middle if it has more than ``most`` letters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - most // 3 - 1]}…{text[-(most // 3) :]}"
