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

from ...model.data import MOST_WHOLE_CLASSES
from ...table.columns import for_each_column
from ...table.words import DATES, DURATION, Kind

ENCODING = "utf-8-sig"
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Fields that are missing values."""
TRUTHS = {"true": True, "false": False}
"""Truth values by their text in lower case."""
MOST_LISTED = 12
"""Largest number of columns named in an error."""
FEWEST_NAMED = 20
"""Smallest number of rows at which a column without equal values is reported as names of the rows."""
MOST_DIGITS = 15
"""Number of decimal digits that float64 stores without loss."""
_UNIT = r"(?:[%‰€$£¥₹]|usd|eur|gbp|chf|jpy|cny|inr|kr|zł)"
_FIGURE = r"(?:\d{1,3}(?:[.,\s'\u2019_]\d{3})+(?:[.,]\d+)?|\d*[.,]?\d+[.,]?)(?:e[+-]?\d+)?"
LIKE_NUMBER = re.compile(rf"\(?[+\-\u2212]?\s*{_UNIT}?\s*[+\-\u2212]?{_FIGURE}\s*{_UNIT}?\s*\)?", re.IGNORECASE)
"""Text that looks like a number, also with a decimal comma, separators of thousands, a percent sign or a currency."""
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\s*(?:[ap]m)?(?:\s?(?:z|utc|[+-]\d\d:?\d\d))?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = "|".join(
    (
        r"\d{4}([-/.])\d{1,2}(?:\1\d{1,2})?",
        r"\d{1,2}([-/.])\s?\d{1,2}\2\s?(?:\d{4}|\d{2})",
        rf"(?:\d{{1,4}}[\s.-]*)?{_MONTH}[\s-]*\d{{1,4}}(?:,?\s*\d{{2,4}})?",
    )
)
LIKE_DATE = re.compile(rf"(?:{_DAY})(?:[t\s]\s*{_CLOCK})?|{_CLOCK}", re.IGNORECASE)
"""Text that looks like a date, a date and a time, or a time of day."""
DATE_FORMATS = ("ISO8601", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S")
"""Formats of dates that are tried if --dates has none: ISO dates, and day.month.year."""
ZONE = re.compile(r"\d(?:z|[+-]\d\d:?\d\d)", re.IGNORECASE)
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
        """Raise an error if one of the names is not a column; ``what`` is the option that has the names."""
        columns = [str(name) for name in self.frame.columns]
        for name in names:
            if name in columns:
                continue
            close = difflib.get_close_matches(name, columns, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"its columns are {_listed(columns)}"
            raise BadTable(f"{self.path} has no column {name!r}, given as {what}; {hint}")

    def without_missing(self, names: Sequence[str]) -> CsvTable:
        """Return the rows that have a value in each of these columns."""
        whole = self.frame[list(names)].notna().all(axis=1).to_numpy()
        return CsvTable(self.path, self.frame[whole], self.line[whole], self.decimal, self.formats)

    def check_whole(self, names: Iterable[str], advice: str) -> None:
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
            rest = [f"and in {len(gaps) - MOST_LISTED} columns more"] if len(gaps) > MOST_LISTED else []
            raise BadTable(f"{self.path}, {', '.join([*gaps[:MOST_LISTED], *rest])}; {advice}")

    def text(self, name: str) -> np.ndarray:
        """Return the fields of a column (n,), None if missing."""
        column = self.frame[name].astype(object)
        return column.where(column.notna(), None).to_numpy()

    def values(self, name: str, advice: str = "", *, may_be_text: bool = True) -> np.ndarray:
        """Return a column (n,) as dates if --dates names it, otherwise as numbers, truth values or text.

        Text among numbers, and text that looks like a number or a date, is an error, with ``advice`` in its message.
        So is any text if ``may_be_text`` is False. Numbers with more digits than float64 stores are returned exactly,
        as objects.
        """
        if name in (self.formats or {}):
            return self.dates(name)
        text, present = self.text(name), self.frame[name].notna().to_numpy()
        plain = self._with_point(text)
        numbers = pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce").to_numpy(dtype=np.float64)
        odd = present & np.isnan(numbers)
        if np.isinf(numbers).any():
            line = self.line[np.argmax(np.isinf(numbers))]
            raise BadTable(f"{self.path}, line {line}: column {name!r} is infinite; give a finite number")
        if not odd.any():
            return _exactly(plain, numbers)
        words = [None if field is None else field.strip().lower() for field in text]
        if {word for word in words if word is not None} <= set(TRUTHS):
            return np.array([None if word is None else TRUTHS[word] for word in words], dtype=object)
        looks = [word is not None and bool(LIKE_NUMBER.fullmatch(word) or LIKE_DATE.fullmatch(word)) for word in words]
        is_like = np.array(looks, dtype=np.bool_) & odd
        if is_like.any() or not may_be_text or not np.array_equal(odd, present):
            self._refuse_text(name, is_like if is_like.any() else odd, advice)
        return text

    def dates(self, name: str) -> np.ndarray:
        """Return a column of dates, in the format that --dates gives, or of ISO dates or day.month.year."""
        raw = self.frame[name]
        stated = (self.formats or {}).get(name, "")
        zoned = raw.dropna().map(lambda field: bool(ZONE.search(field)))
        out = pd.Series(pd.NaT, index=raw.index, dtype=f"datetime64[us{', UTC' if zoned.any() else ''}]")
        for form in (stated,) if stated else DATE_FORMATS:
            out = out.fillna(pd.to_datetime(raw, format=form, errors="coerce", utc=bool(zoned.any())).astype(out.dtype))
        odd = (raw.notna() & out.isna()).to_numpy()
        if odd.any() or zoned.nunique() > 1:
            usual = "year-month-day or day.month.year, all with a zone or none"
            holds = f"dates in the format {stated}" if stated else f"dates {usual}"
            advice = f"give --dates with a format, such as '{name}=%m/%d/%Y'"
            self._refuse_text(name, odd if odd.any() else raw.notna().to_numpy(), advice, holds)
        if not zoned.any():
            return out.to_numpy()
        return np.array([None if pd.isna(value) else value for value in out], dtype=object)

    def of_kind(self, name: str, kind: Kind) -> Any:
        """Return a column as values of a given kind, that of the column in the data of a model."""
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

    def _refuse_text(self, name: str, marked: np.ndarray, advice: str, holds: str = "numbers") -> None:
        """Raise an error about the first field of a column for which ``marked`` (n,) is True.

        The message says which option reads such text. ``holds`` says what the column has otherwise.
        """
        row = int(np.argmax(marked))
        value = str(self.frame[name].iloc[row])
        shown = value if len(value) <= 40 else value[:39] + "…"
        begin = f"{self.path}, line {self.line[row]}: text {shown!r} in column {name!r}"
        nominal = f"name the column in --nominal {name} if its values are categories"
        if holds == "numbers" and LIKE_NUMBER.fullmatch(value.strip()):
            raise BadTable(f"{begin} looks like a number; {self._how_to_read(value)}, or {nominal}")
        if holds == "numbers" and LIKE_DATE.fullmatch(value.strip()):
            raise BadTable(f"{begin} looks like a date; give --dates {name}, or {nominal}")
        raise BadTable(f"{begin}, which holds {holds}; {advice or f'correct it, or {nominal}'}")

    def _how_to_read(self, value: str) -> str:
        """Return advice on how to read or write text that looks like a number."""
        other = "," if self.decimal == "." else "."
        plain = "write it without separators of thousands, percent signs and currencies"
        if value.count(other) == 1 and self.decimal not in value:
            return f"give --decimal '{other}' if that is the decimal sign, {plain}"
        return plain


def _exactly(text: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return ``numbers`` (n,), or if a field of ``text`` (n,) is longer than 15 characters, exact values as objects.

    These are int if all are whole, otherwise Decimal; None if missing.
    """
    if not any(field is not None and len(field) > MOST_DIGITS for field in text):
        return numbers
    exact = [None if field is None else decimal.Decimal(field.strip()) for field in text]
    whole = [value is None or value == value.to_integral_value() for value in exact]
    return np.array([int(value) if value is not None and all(whole) else value for value in exact], dtype=object)


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
    each column of dates, "" for a column without one. ``least`` says how many rows are needed. A file that is empty,
    damaged, or has lines of different lengths raises a `BadTable`.
    """
    if separator is None:
        separator = "\t" if ".tsv" in Path(path).suffixes else ","
    if len(separator) != 1:
        raise BadTable(f"--separator is {separator!r}; give one character")
    header, rows, lines = _fields(path, separator, least)
    frame = pd.DataFrame(rows, columns=pd.Index(header), dtype=object)
    return CsvTable(path, frame.mask(frame.isin(MISSING)), np.array(lines, dtype=np.int64), decimal_sign, dates or {})


def _fields(path: str, separator: str, least: str) -> tuple[list[str], list[list[str]], list[int]]:
    """Return the header, the fields of each row, and the line in which each row ends.

    Raise an error unless all rows are as long as the header.
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
    known = "UTF-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "LATIN1"
    return f"save it as UTF-8, for example with iconv -f {known} -t UTF-8"


def _check_header(path: str, line: int, header: list[str], separator: str) -> None:
    """Raise an error if a column has no name, two have the same name, or the file has another separator."""
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


def features(table: CsvTable, names: Sequence[str], nominal: Iterable[str]) -> pd.DataFrame:
    """Return the named columns as numbers, truth values, dates or text; those in ``nominal`` as text."""

    def read(name: str) -> np.ndarray:
        return table.text(name) if name in nominal else table.values(name)

    return pd.DataFrame(dict(zip(names, for_each_column([partial(read, name) for name in names]), strict=True)))


def identifiers(X: pd.DataFrame) -> list[str]:
    """Return the columns that seem to number or name the rows.

    These have a different value in every row, and are text or consecutive whole numbers. There must be 20 rows.
    """
    out = []
    for name, column in X.items():
        if len(X) < FEWEST_NAMED or column.nunique() < len(X):
            continue
        if column.dtype.kind in "iuf":
            is_name = bool((column == column.round()).all() and column.max() - column.min() == len(X) - 1)
        else:
            is_name = all(isinstance(value, str) for value in column)
        if is_name:
            out.append(str(name))
    return out


def target(table: CsvTable, name: str, *, regression: bool, nominal: bool) -> np.ndarray:
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
    if n <= MOST_WHOLE_CLASSES:
        return None
    return f"the target has {n} different whole numbers, taken as classes; give --regression if they are amounts."


def _listed(names: Sequence[Any]) -> str:
    """Return the first names as text, and how many there are if some are left out."""
    shown = ", ".join(map(str, names[:MOST_LISTED]))
    return shown + (f", ... ({len(names)} in all)" if len(names) > MOST_LISTED else "")
