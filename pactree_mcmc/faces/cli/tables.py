"""CSV files as tables; invalid values are refused with their line."""

from __future__ import annotations

import csv
import difflib
import gzip
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...model.data import MOST_WHOLE_CLASSES
from ...table.columns import MAX_CATEGORIES, for_each_column

ENCODING = "utf-8-sig"
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Fields that mean: no value."""
MOST_LISTED = 12
"""Columns named in an error."""


class BadTable(ValueError):
    """A file that cannot be used as asked."""


@dataclass(frozen=True)
class CsvTable:
    """A CSV file, its columns as read, and the line of each row."""

    path: str
    frame: pd.DataFrame
    line: np.ndarray
    """(n,) int64: line of the file, the header being 1, that a row ends in."""

    def check_names(self, names: Iterable[str], what: str) -> None:
        """Refuse a name that is not a column."""
        columns = [str(name) for name in self.frame.columns]
        for name in names:
            if name in columns:
                continue
            close = difflib.get_close_matches(name, columns, 1)
            hint = f"did you mean {close[0]!r}" if close else f"its columns are {_listed(columns)}"
            raise BadTable(f"{self.path} has no column {name!r}, given as {what}; {hint}")

    def without_missing(self, names: Sequence[str]) -> CsvTable:
        """The rows that have a value in each of these columns."""
        whole = self.frame[list(names)].notna().all(axis=1).to_numpy()
        return CsvTable(self.path, self.frame[whole], self.line[whole])

    def check_whole(self, names: Iterable[str], advice: str) -> None:
        """Refuse missing values; the error names the columns that have some, and the first line of each."""
        found = []
        for name in names:
            missing = self.frame[name].isna().to_numpy()
            if missing.any():
                more = f" ({missing.sum()} lines in all)" if missing.sum() > 1 else ""
                found.append(f"line {self.line[np.argmax(missing)]}: no value in column {name!r}{more}")
        if found:
            rest = [f"and in {len(found) - MOST_LISTED} columns more"] if len(found) > MOST_LISTED else []
            raise BadTable(f"{self.path}, {', '.join([*found[:MOST_LISTED], *rest])}; {advice}")

    def is_text(self, name: str) -> bool:
        """Whether no value of the column is a number; a mixture is refused."""
        raw = self.frame[name]
        if pd.api.types.is_numeric_dtype(raw):
            return False
        number, given = pd.to_numeric(raw, errors="coerce").notna().to_numpy(), raw.notna().to_numpy()
        if number.any() and (given & ~number).any():
            self._refuse_text(name, given & ~number, "correct it, or name the column in --nominal")
        return not number.any()

    def numbers(self, name: str, advice: str) -> np.ndarray:
        """The column as finite numbers, NaN where missing; text is refused."""
        raw = self.frame[name]
        values = pd.to_numeric(raw, errors="coerce").to_numpy()
        values = values if values.dtype.kind == "i" else values.astype(np.float64)
        text = raw.notna().to_numpy() & np.isnan(values)
        if text.any():
            self._refuse_text(name, text, advice)
        if np.isinf(values).any():
            line = self.line[np.argmax(np.isinf(values))]
            raise BadTable(f"{self.path}, line {line}: column {name!r} is infinite; give a finite number")
        return values

    def _refuse_text(self, name: str, where: np.ndarray, advice: str) -> None:
        row = int(np.argmax(where))
        value = str(self.frame[name].iloc[row])
        value = value if len(value) <= 40 else value[:39] + "…"
        raise BadTable(
            f"{self.path}, line {self.line[row]}: text {value!r} in column {name!r}, which holds numbers; {advice}"
        )


def read_csv(path: str, separator: str = ",", as_text: Sequence[str] = ()) -> CsvTable:
    """Read a CSV file, gzipped if its name ends in .gz.

    Parameters
    ----------
    path : str
        UTF-8, one header line.
    separator : str
        One character.
    as_text : sequence of str
        Columns whose values are not to be turned into numbers.

    Raises
    ------
    BadTable
        If the file is empty, has a header only, or lines that differ in length.
    OSError
        If it cannot be read.
    """
    if len(separator) != 1:
        raise BadTable(f"--separator is {separator!r}; give one character")
    lines = _lines(path, separator)
    frame = pd.read_csv(
        path,
        sep=separator,
        encoding=ENCODING,
        index_col=False,
        keep_default_na=False,
        na_values=list(MISSING),
        dtype=dict.fromkeys(as_text, str),
        low_memory=False,
    )
    return CsvTable(path, frame, lines)


def _lines(path: str, separator: str) -> np.ndarray:
    """Line of each row of a file whose rows are as long as its header."""
    open_text = gzip.open if Path(path).suffix == ".gz" else open
    with open_text(path, "rt", encoding=ENCODING, newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        try:
            header = next((row for row in reader if row), None)
            if header is None:
                raise BadTable(f"{path} is empty; give a CSV file with a header line")
            _check_header(path, reader.line_num, header, separator)
            lines = [_line(path, reader.line_num, row, header) for row in reader if row]
        except UnicodeDecodeError as err:
            raise BadTable(f"{path} is not UTF-8 text (byte {err.start}); save it as UTF-8 CSV") from err
        except (csv.Error, EOFError) as err:
            raise BadTable(f"{path}, line {reader.line_num}: {err}; give a CSV file") from err
    if not lines:
        raise BadTable(f"{path} has a header and no rows; give at least two rows")
    return np.array(lines, dtype=np.int64)


def _check_header(path: str, line: int, header: list[str], separator: str) -> None:
    other = next((c for c in ";\t|," if c != separator and len(header) == 1 and c in header[0]), None)
    if other:
        raise BadTable(f"{path} has one column, {header[0][:40]!r}; give --separator {other!r}")
    for k, name in enumerate(header):
        if not name.strip():
            raise BadTable(f"{path}, line {line}: column {k + 1} has no name; name it in the header line")
        if name in header[:k]:
            raise BadTable(f"{path}, line {line}: two columns are called {name!r}; give each its own name")


def _line(path: str, line: int, row: list[str], header: list[str]) -> int:
    if len(row) != len(header):
        raise BadTable(
            f"{path}, line {line}: {len(row)} fields where the header has {len(header)}; "
            "correct it, or put fields that hold the separator in quotes"
        )
    return line


def features(table: CsvTable, names: Sequence[str], text: Iterable[str]) -> pd.DataFrame:
    """The columns as numbers, those in ``text`` as text; nominal columns with too many values are refused."""

    def read(name: str) -> np.ndarray:
        if name not in text:
            return table.numbers(name, "correct it, or name the column in --nominal")
        labels = table.frame[name]
        if labels.nunique() > MAX_CATEGORIES:
            raise BadTable(
                f"{table.path}: column {name!r} holds {labels.nunique()} different texts; at most {MAX_CATEGORIES} are "
                f"allowed: merge rare ones, or leave it out with --ignore {name}"
            )
        return labels.to_numpy(dtype=object)

    return pd.DataFrame(dict(zip(names, for_each_column([partial(read, name) for name in names]), strict=True)))


def target(table: CsvTable, name: str, regression: bool) -> np.ndarray:
    """The target (n,): labels (text or whole numbers), or floats, which are a regression."""
    if not regression and (table.is_text(name) or table.frame[name].dtype == bool):
        return np.array(table.frame[name].tolist())
    values = table.numbers(name, "a regression needs numbers" if regression else "correct it")
    if regression or np.any(values != np.floor(values)):
        return values.astype(np.float64)
    return values.astype(np.int64)


def class_warning(y: np.ndarray) -> str | None:
    """A doubt whether whole numbers are classes."""
    n = len(np.unique(y)) if y.dtype.kind == "i" else 0
    if n <= MOST_WHOLE_CLASSES:
        return None
    return f"the target has {n} different whole numbers, taken as classes; give --regression if they are amounts."


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(map(str, names[:MOST_LISTED]))
    return shown + (f", ... ({len(names)} in all)" if len(names) > MOST_LISTED else "")
