"""CSV files as tables. The message of an error in a file names the line."""

from __future__ import annotations

import csv
import decimal
import difflib
import gzip
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...model.target import MAX_QUIET_CLASSES
from ...table.columns import for_each_column
from ...table.words import DATES, DURATION, Kind, names_text

ENCODING = "utf-8-sig"
MISSING_FIELDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Fields that are missing values."""
TRUTH_VALUES = {"true": True, "false": False}
"""Truth values by their text in lower case."""
MAX_COLUMNS_IN_MESSAGE = 12
"""Largest number of columns named in an error."""
MIN_ROWS_OF_IDENTIFIER = 20
"""Smallest number of rows at which a column without equal values is reported as names of the rows."""
MAX_FLOAT_DIGITS = 15
"""Number of decimal digits that float64 stores without loss."""
_UNIT_PATTERN = r"(?:[%‰€$£¥₹]|usd|eur|gbp|chf|jpy|cny|inr|kr|zł)"
_DIGITS_PATTERN = r"(?:\d{1,3}(?:[.,\s'\u2019_]\d{3})+(?:[.,]\d+)?|\d*[.,]?\d+[.,]?)(?:e[+-]?\d+)?"
NUMBER_PATTERN = re.compile(
    rf"\(?[+\-\u2212]?\s*{_UNIT_PATTERN}?\s*[+\-\u2212]?{_DIGITS_PATTERN}\s*{_UNIT_PATTERN}?\s*\)?", re.IGNORECASE
)
"""Text that looks like a number, also with a decimal comma, separators of thousands, a percent sign or a currency."""
_CLOCK_PATTERN = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\s*(?:[ap]m)?(?:\s?(?:z|utc|[+-]\d\d:?\d\d))?"
_MONTH_PATTERN = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY_PATTERN = "|".join(
    (
        r"\d{4}([-/.])\d{1,2}(?:\1\d{1,2})?",
        r"\d{1,2}([-/.])\s?\d{1,2}\2\s?(?:\d{4}|\d{2})",
        rf"(?:\d{{1,4}}[\s.-]*)?{_MONTH_PATTERN}[\s-]*\d{{1,4}}(?:,?\s*\d{{2,4}})?",
    )
)
DATE_PATTERN = re.compile(rf"(?:{_DAY_PATTERN})(?:[t\s]\s*{_CLOCK_PATTERN})?|{_CLOCK_PATTERN}", re.IGNORECASE)
"""Text that looks like a date, a date and a time, or a time of day."""
DATE_FORMATS = ("ISO8601", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S")
"""Formats of dates that are tried if --dates has none: ISO dates, and day.month.year."""
TIME_ZONE_PATTERN = re.compile(r"\d(?:z|[+-]\d\d:?\d\d)", re.IGNORECASE)
"""Time zone in the text of a date."""


class BadTable(ValueError):
    """A CSV file that is invalid, or that does not fit the options of the command."""


@dataclass(frozen=True)
class CsvTable:
    """The fields of a CSV file as text, and the line of each row."""

    path: str
    """Path of the file, for messages."""
    frame: pd.DataFrame
    """Fields as text, NaN if missing."""
    line: np.ndarray
    """(n,) int64: line of the file in which each row ends; the header is line 1."""
    decimal: str = "."
    """Decimal sign of numbers, "." or ","."""
    formats: Mapping[str, str] | None = None
    """Format of each column of dates, "" if --dates gives none."""

    def check_names(self, names: Iterable[str], what: str) -> None:
        """Raise an error if one of the names is not a column; ``what`` says in it where they are from ("--ignore")."""
        columns = [str(name) for name in self.frame.columns]
        for name in names:
            if name in columns:
                continue
            close = difflib.get_close_matches(name, columns, 1)
            hint = (
                f"did you mean {close[0]!r}?"
                if close
                else f"its columns are {names_text(columns, MAX_COLUMNS_IN_MESSAGE)}"
            )
            raise BadTable(f"{self.path} has no column {name!r}, given as {what}; {hint}")

    def without_missing(self, names: Sequence[str]) -> CsvTable:
        """Return a table of the rows that have a value in each of these columns, with all columns."""
        complete = self.frame[list(names)].notna().all(axis=1).to_numpy()
        return CsvTable(self.path, self.frame[complete], self.line[complete], self.decimal, self.formats)

    def refuse_missing(self, names: Iterable[str], advice: str) -> None:
        """Raise an error if one of the named columns has missing values.

        The message has the name of each such column, the first line with a missing value, and ``advice``.
        """
        gaps = []
        for name in names:
            missing = self.frame[name].isna().to_numpy()
            if missing.any():
                more = f" ({missing.sum()} lines in all)" if missing.sum() > 1 else ""
                gaps.append(f"line {self.line[np.argmax(missing)]}: no value in column {name!r}{more}")
        if gaps:
            n_more = len(gaps) - MAX_COLUMNS_IN_MESSAGE
            rest = [f"and in {n_more} columns more"] if n_more > 0 else []
            raise BadTable(f"{self.path}, {', '.join([*gaps[:MAX_COLUMNS_IN_MESSAGE], *rest])}; {advice}")

    def text(self, name: str) -> np.ndarray:
        """Return the fields of a column (n,), None if missing."""
        column = self.frame[name].astype(object)
        return column.where(column.notna(), None).to_numpy()

    def values(self, name: str, advice: str = "", *, may_be_text: bool = True) -> np.ndarray:
        """Return a column (n,) as dates if --dates names it, otherwise as numbers, truth values or text.

        Text among numbers, and text that looks like a number or a date, is an error, with ``advice`` in its message. So
        are infinite numbers, and any text if ``may_be_text`` is False. Numbers with more digits than float64 stores are
        returned exactly, as objects.
        """
        if name in (self.formats or {}):
            return self.dates(name)
        text, present = self.text(name), self.frame[name].notna().to_numpy()
        with_point = self._with_point(text)
        numbers = pd.to_numeric(pd.Series(with_point, dtype=object), errors="coerce").to_numpy(dtype=np.float64)
        is_text = present & np.isnan(numbers)
        if np.isinf(numbers).any():
            line = self.line[np.argmax(np.isinf(numbers))]
            raise BadTable(f"{self.path}, line {line}: column {name!r} is infinite; give a finite number")
        if not is_text.any():
            return _exact_numbers(with_point, numbers)
        words = [None if field is None else field.strip().lower() for field in text]
        if {word for word in words if word is not None} <= set(TRUTH_VALUES):
            return np.array([None if word is None else TRUTH_VALUES[word] for word in words], dtype=object)
        matches_pattern = [
            word is not None and bool(NUMBER_PATTERN.fullmatch(word) or DATE_PATTERN.fullmatch(word)) for word in words
        ]
        is_like = np.array(matches_pattern, dtype=np.bool_) & is_text
        if is_like.any() or not may_be_text or not np.array_equal(is_text, present):
            self._refuse_text(name, is_like if is_like.any() else is_text, advice)
        return text

    def dates(self, name: str) -> np.ndarray:
        """Return a column of dates, in the format that --dates gives, or of ISO dates or day.month.year.

        The array is datetime64[us] with NaT if a field is empty. With time zones it has timestamps in UTC and None as
        objects. Raise BadTable for other text, or if only some dates have a zone.
        """
        texts = self.frame[name]
        given_format = (self.formats or {}).get(name, "")
        has_zone = texts.dropna().map(lambda field: bool(TIME_ZONE_PATTERN.search(field)))
        out = pd.Series(pd.NaT, index=texts.index, dtype=f"datetime64[us{', UTC' if has_zone.any() else ''}]")
        for form in (given_format,) if given_format else DATE_FORMATS:
            out = out.fillna(
                pd.to_datetime(texts, format=form, errors="coerce", utc=bool(has_zone.any())).astype(out.dtype)
            )
        is_unread = (texts.notna() & out.isna()).to_numpy()
        if is_unread.any() or has_zone.nunique() > 1:
            usual = "year-month-day or day.month.year, all with a zone or none"
            holds = f"dates in the format {given_format}" if given_format else f"dates {usual}"
            advice = f"give --dates with a format, such as '{name}=%m/%d/%Y'"
            self._refuse_text(name, is_unread if is_unread.any() else texts.notna().to_numpy(), advice, holds)
        if not has_zone.any():
            return out.to_numpy()
        return np.array([None if pd.isna(value) else value for value in out], dtype=object)

    def of_kind(self, name: str, kind: Kind) -> Any:
        """Return a column as values of the kind that it has in the data of a model, for rows to predict.

        These are dates, text for the levels of an ordered categorical, durations or periods of pandas, else numbers or
        truth values.
        """
        if kind in DATES:
            return self.dates(name)
        if kind.levels:
            return self.text(name)
        if kind == DURATION or kind.name == "period":
            text = self.frame[name]
            try:
                return pd.to_timedelta(text) if kind == DURATION else pd.PeriodIndex(text, freq=kind.detail)
            except ValueError as error:
                raise BadTable(f"{self.path}: column {name!r} holds no {kind.group} ({error}); correct it") from error
        return self.values(name, "correct it", may_be_text=False)

    def _with_point(self, text: np.ndarray) -> np.ndarray:
        """Return fields with a decimal point. If the decimal sign is a comma, points and commas are exchanged.

        So a field that has a point in the file is then not a number.
        """
        if self.decimal == ".":
            return text
        swapped = str.maketrans({",": ".", ".": ","})
        return np.array([None if field is None else field.translate(swapped) for field in text], dtype=object)

    def _refuse_text(self, name: str, is_bad: np.ndarray, advice: str, holds: str = "numbers") -> None:
        """Raise a BadTable about the first field of a column for which ``is_bad`` (n,) is True.

        The message says which option reads text like a number or a date, otherwise ends with ``advice``. ``holds`` says
        what the column has otherwise.
        """
        row = int(np.argmax(is_bad))
        value = str(self.frame[name].iloc[row])
        quoted_text = value if len(value) <= 40 else value[:39] + "…"
        begin = f"{self.path}, line {self.line[row]}: text {quoted_text!r} in column {name!r}"
        nominal = f"name the column in --nominal {name} if its values are categories"
        if holds == "numbers" and NUMBER_PATTERN.fullmatch(value.strip()):
            raise BadTable(f"{begin} looks like a number; {self._how_to_read(value)}, or {nominal}")
        if holds == "numbers" and DATE_PATTERN.fullmatch(value.strip()):
            raise BadTable(f"{begin} looks like a date; give --dates {name}, or {nominal}")
        raise BadTable(f"{begin}, which holds {holds}; {advice or f'correct it, or {nominal}'}")

    def _how_to_read(self, value: str) -> str:
        """Return advice on how to read or write text that looks like a number."""
        other = "," if self.decimal == "." else "."
        plain = "write it without separators of thousands, percent signs and currencies"
        if value.count(other) == 1 and self.decimal not in value:
            return f"give --decimal '{other}' if that is the decimal sign, {plain}"
        return plain


def _exact_numbers(text: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return ``numbers`` (n,), or if a field of ``text`` (n,) is longer than 15 characters, exact values as objects.

    ``numbers`` are the fields as float64, which would round these. Exact values are int if all are whole, otherwise
    Decimal; None if missing.
    """
    if not any(field is not None and len(field) > MAX_FLOAT_DIGITS for field in text):
        return numbers
    exact = [None if field is None else decimal.Decimal(field.strip()) for field in text]
    is_integer = [value is None or value == value.to_integral_value() for value in exact]
    return np.array([int(value) if value is not None and all(is_integer) else value for value in exact], dtype=object)


def read_csv(
    path: str,
    separator: str | None = None,
    decimal_sign: str = ".",
    dates: Mapping[str, str] | None = None,
    *,
    least: str = "two rows",
) -> CsvTable:
    """Read a CSV file in UTF-8, gzipped if its name ends in .gz.

    The default separator is a comma, or a tab if the name of the file has the suffix .tsv. ``dates`` has the format of
    each column of dates, "" for a column without one. ``least`` says in a message how many rows are needed. A file that
    is empty, without rows, damaged, or has lines of different lengths raises a `BadTable`.
    """
    if separator is None:
        separator = "\t" if ".tsv" in Path(path).suffixes else ","
    if len(separator) != 1:
        raise BadTable(f"--separator is {separator!r}; give one character")
    header, rows, lines = _header_and_rows(path, separator, least)
    frame = pd.DataFrame(rows, columns=pd.Index(header), dtype=object)
    return CsvTable(
        path, frame.mask(frame.isin(MISSING_FIELDS)), np.array(lines, dtype=np.int64), decimal_sign, dates or {}
    )


def _header_and_rows(path: str, separator: str, least: str) -> tuple[list[str], list[list[str]], list[int]]:
    """Return the header, the fields of each row, and the line in which each row ends, without empty lines.

    Raise a BadTable unless there are rows, all as long as the header. ``least`` is for its message.
    """
    open_text = gzip.open if Path(path).suffix == ".gz" else open
    with open_text(path, "rt", encoding=ENCODING, newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        rows, lines = [], []
        try:
            header = next((row for row in reader if row), None)
            if header is None:
                raise BadTable(f"{path} is empty; give a CSV file with a header line")
            _check_header(path, reader.line_num, header, separator)
            for row in reader:
                if row:
                    _check_length(path, reader.line_num, row, header)
                    rows.append(row)
                    lines.append(reader.line_num)
        except UnicodeDecodeError as err:
            raise BadTable(f"{path} is not UTF-8 text; {_encoding_advice(err.object)}") from err
        except (EOFError, gzip.BadGzipFile, zlib.error) as err:
            raise BadTable(
                f"{path} is a damaged gzip file, or none at all ({err}); compress it anew, or drop .gz from its name"
            ) from err
        except csv.Error as err:
            raise BadTable(f"{path}, line {reader.line_num}: {err}; give a CSV file") from err
    if not rows:
        raise BadTable(f"{path} has a header and no rows; give at least {least}")
    return header, rows, lines


def _encoding_advice(start: bytes) -> str:
    """Return advice about a file that is not UTF-8, given its first bytes."""
    if start.startswith(b"\x1f\x8b"):
        return "it is compressed: let its name end in .gz"
    encoding = "UTF-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "LATIN1"
    return f"save it as UTF-8, for example with iconv -f {encoding} -t UTF-8"


def _check_header(path: str, line: int, header: list[str], separator: str) -> None:
    """Raise a BadTable if a column has no name, two have the same name, or the file has another separator.

    ``path`` and ``line`` (of the header) are for the message.
    """
    other = next((c for c in ";\t|," if c != separator and len(header) == 1 and c in header[0]), None)
    if other:
        raise BadTable(f"{path} has one column, {header[0][:40]!r}; give --separator {other!r}")
    for k, name in enumerate(header):
        if not name.strip():
            raise BadTable(f"{path}, line {line}: column {k + 1} has no name; name it in the header line")
        if name in header[:k]:
            raise BadTable(f"{path}, line {line}: two columns are called {name!r}; give each its own name")


def _check_length(path: str, line: int, row: list[str], header: list[str]) -> None:
    """Raise an error if a row does not have as many fields as the header."""
    if len(row) != len(header):
        raise BadTable(
            f"{path}, line {line}: {len(row)} fields, but the header has {len(header)}; "
            "correct it, or put fields that hold the separator in quotes"
        )


def read_features(table: CsvTable, names: Sequence[str], nominal: Iterable[str]) -> pd.DataFrame:
    """Return the named columns as numbers, truth values, dates or text; those in ``nominal`` as text."""

    def read(name: str) -> np.ndarray:
        return table.text(name) if name in nominal else table.values(name)

    return pd.DataFrame(dict(zip(names, for_each_column([partial(read, name) for name in names]), strict=True)))


def identifier_columns(X: pd.DataFrame) -> list[str]:
    """Return the columns that seem to number or name the rows.

    These have a different value in every row, and are text or consecutive whole numbers in any order. With fewer than
    20 rows there are none.
    """
    out = []
    for name, column in X.items():
        if len(X) < MIN_ROWS_OF_IDENTIFIER or column.nunique() < len(X):
            continue
        if column.dtype.kind in "iuf":
            is_name = bool((column == column.round()).all() and column.max() - column.min() == len(X) - 1)
        else:
            is_name = all(isinstance(value, str) for value in column)
        if is_name:
            out.append(str(name))
    return out


def target_values(table: CsvTable, name: str, *, regression: bool, nominal: bool) -> np.ndarray:
    """Return the target (n,) as labels (text, truth values or whole numbers), or as floats for a regression.

    Numbers with fractions are a regression even if ``regression`` is False. ``nominal`` makes all values text.
    """
    if nominal:
        return np.array(table.text(name).tolist())
    values = table.values(name, "a regression needs numbers" if regression else "", may_be_text=not regression)
    if regression:
        return values.astype(np.float64)
    if values.dtype == object:
        return np.array(values.tolist())
    return values if np.any(values != np.floor(values)) else values.astype(np.int64)


def class_warning(y: np.ndarray) -> str | None:
    """Return a warning if y has so many different whole numbers that they may not be classes, otherwise None."""
    n = len(np.unique(y)) if y.dtype.kind == "i" else 0
    if n <= MAX_QUIET_CLASSES:
        return None
    return f"the target has {n} different whole numbers, taken as classes; give --regression if they are amounts."
