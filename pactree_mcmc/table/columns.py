"""The columns of X: names, kinds and categories, and the conversion of tables to numbers.

Labels of nominal columns and of classes become categories, ordered columns float64. Ordered are numbers, truth values,
dates, durations, periods and ordered categories. The conversion keeps the order, and different values of a column
remain different. A ValueError refuses a column for which this is impossible.
"""

from __future__ import annotations

import decimal
import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC as ZONE_UTC
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any

import numpy as np

from ..core.checks import (
    MAX_EXACT_INTEGER,
    as_number,
    check_choice,
    inexact_row,
    is_integer,
    names_rows,
    read_array,
    repr_of,
)
from ..core.texts import warn
from ..files.encoding import CODEC, NotStorable, register_class
from .reader import Table, as_list, holds_text, is_categorical
from .words import (
    DAY,
    DURATION,
    MICROSECONDS,
    NANOSECONDS,
    NUMBER,
    TIME,
    TRUTH,
    UTC,
    Kind,
    kind_of_levels,
    plain_level,
    told_apart,
)

MISSING_CHOICES = ("error", "branch")  # choices for the treatment of missing values
MAX_WRONG_COLUMNS = 8  # largest number of columns that one error names


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class Columns:
    """Names and categories of the features of the training table."""

    # `named`: names come from the table, so that prediction can select columns by name. `categories`: for each feature
    # the sorted array, None if ordered; a missing value is the category None, the last; above 63, groups of
    # neighbouring ones. `branches`: values may be missing, and each split has a side for them. `twins`: ordered
    # features with missing values in the training table, which have two *coordinates*: their own, in which missing
    # values are below all others, and one after those of all features, in which they are above. `kinds`: of each
    # ordered feature, () if all are numbers
    names: tuple[str, ...]
    named: bool
    categories: tuple[np.ndarray | None, ...]
    branches: bool = False
    twins: tuple[int, ...] = ()
    kinds: tuple[Kind, ...] = ()

    def __repr__(self) -> str:
        nominal = [name for name, categories in zip(self.names, self.categories, strict=True) if categories is not None]
        return f"Columns(n_features={self.n_features}, names={repr_of(self.names)}, nominal={repr_of(nominal)})"

    @property
    def n_features(self) -> int:
        return len(self.names)

    @property
    def is_nominal(self) -> np.ndarray:
        return np.array([c is not None for c in self.categories], dtype=np.bool_)

    @property
    def is_plain(self) -> bool:
        """True if all ordered features are numbers or truth values."""
        return all(kind.is_plain for kind in self.kinds)

    def kind(self, feature: int) -> Kind:
        """Return the kind of data of an ordered ``feature``."""
        return self.kinds[feature] if self.kinds else NUMBER

    @property
    def source(self) -> np.ndarray:
        """(q,) int64: the feature of each coordinate."""
        return np.array([*range(self.n_features), *self.twins], dtype=np.int64)

    @property
    def other_coordinate(self) -> np.ndarray:
        """(q,) int64: the other coordinate of the same feature, or the coordinate itself if it is the only one."""
        out = np.arange(self.n_features + len(self.twins))
        for j, k in enumerate(self.twins):
            out[k], out[self.n_features + j] = self.n_features + j, k
        return out

    def coordinate(self, feature: Any, missing_left: Any) -> np.ndarray:
        """Return the coordinate of ordered splits on ``feature``, given the side of missing values."""
        # both may be arrays
        feature, to_right = np.asarray(feature), ~np.asarray(missing_left, dtype=np.bool_)
        is_second = (feature >= 0) & to_right & np.isin(feature, self.twins)
        return np.where(is_second, self.other_coordinate[feature], feature)

    def ordered_coordinate(self, raw: Any, coordinate: int) -> np.ndarray:
        """Return the values (n,) float64 of an ordered ``coordinate``, given the raw column of its feature."""
        k = self.source[coordinate]
        values = ordered_values(raw, self.names[k], self.branches)
        return in_coordinate(values, coordinate >= self.n_features) if k in self.twins else values

    def ordered_indices(self, argument: str, columns: Iterable[Any]) -> list[int]:
        """Return the indices of ``columns``, given by name or index, that must be ordered."""
        out = self.column_indices(argument, columns)
        for index in out:
            if self.categories[index] is not None:
                raise ValueError(f"{argument}: column {self.names[index]!r} is nominal; give columns of numbers.")
        return out

    def column_indices(self, argument: str, columns: Iterable[Any]) -> list[int]:
        """Return the indices of ``columns``, given by name or index, as `indices_of_columns` does."""
        return indices_of_columns(argument, columns, self.names)

    def ordered_values(self, raw: Any, k: int) -> np.ndarray:
        """Return column ``k``, an ordered one, as numbers (n,), or raise a ValueError if a value is missing."""
        values = ordered_values(raw, self.names[k], self.branches)
        if np.isnan(values).any():
            row = int(np.argmax(np.isnan(values)))
            raise ValueError(f"column {self.names[k]!r} lacks a value in row {row}, which the leaf needs; fill it in.")
        return values

    def in_coordinates(self, numbers: np.ndarray) -> np.ndarray:
        """Return rows of ``numbers`` (n, p), one per feature, as rows (n, q) with one number per coordinate."""
        if not self.twins:
            return numbers
        out = numbers[:, self.source]
        for c in np.flatnonzero(self.other_coordinate != np.arange(out.shape[1])).tolist():
            out[:, c] = in_coordinate(out[:, c], c >= self.n_features)
        return out

    def label_set(self, feature: int, mask: int) -> frozenset[Any]:
        """Return the labels of the categories of a nominal ``feature`` whose bits are set in ``mask``."""
        categories = self.categories[feature]
        if categories is None:
            raise ValueError(f"feature {self.names[feature]!r} is ordered; it has no categories.")
        labels = [(label, j) for j, category in enumerate(categories.tolist()) for label in labels_of(category)]
        texts = told_apart([label for label, _ in labels])
        return frozenset(label for label, (_, j) in zip(texts, labels, strict=True) if mask >> j & 1)

    @names_rows
    def numbers(self, X: Any) -> np.ndarray:
        """Return table ``X`` as float64 (n, p): ordered values as numbers, categories by index, unseen ones as -1."""
        # dates are days, levels their indices, missing ordered values NaN; an array in this form is returned itself
        table = Table(X)
        places = self.indices_in(table)
        array, plain = table.array, not self.is_nominal.any() and self.is_plain
        if array is not None and plain and array.dtype == np.float64 and np.isfinite(array).all():
            return np.ascontiguousarray(array)
        out = np.empty((table.n_rows, self.n_features), dtype=np.float64)

        def convert_column(k: int) -> None:
            raw, name, categories = table.column(places[k]), self.names[k], self.categories[k]
            if categories is not None:
                labels = nominal_labels(raw, name, self.branches, is_new=True)
                refuse_other_kind(labels, categories, name)
                out[:, k] = category_codes(labels, categories)
                return
            out[:, k] = read_ordered(raw, name, self.branches, self.kind(k))[0]

        for_each_column([partial(convert_column, k) for k in range(self.n_features)])
        return out

    def indices_in(self, table: Table) -> list[int]:
        """Return the index of each feature among the columns of another table, by name if both tables have names."""
        if self.named and table.names is not None:
            missing = [name for name in self.names if name not in table.names]
            if missing:
                lacks = f"column {missing[0]!r}" if len(missing) == 1 else f"{len(missing)} columns, {repr_of(missing)}"
                raise ValueError(f"X lacks {lacks}; the model was built on {list(self.names)}.")
            return [table.names.index(name) for name in self.names]
        if table.n_features != self.n_features:
            raise ValueError(
                f"X has {table.n_features} columns; the model was built on {self.n_features}: {list(self.names)}."
            )
        return list(range(self.n_features))

    def features_in(self, other: Columns, features: np.ndarray) -> np.ndarray:
        """Return the index (m,) among the ``other`` columns of each of `features` (m,) of a tree with these columns."""
        # by name if both have names, else by position
        out = features
        if self.named and other.named and self.names != other.names:
            place = {name: k for k, name in enumerate(other.names)}
            if place.keys() != set(self.names):
                raise ValueError(
                    f"the tree has the columns {list(self.names)}, and the model {list(other.names)}; give a tree over "
                    "the same columns, or dataclasses.replace(tree, columns=None) to take columns by position."
                )
            out = np.array([place[name] for name in self.names], dtype=features.dtype)[features]
        if self.kinds or other.kinds or any(categories is not None for categories in self.categories):
            for k, place_of_k in set(zip(features.tolist(), out.tolist(), strict=True)):
                if k < self.n_features and place_of_k < other.n_features:
                    self._check_alike(k, other, place_of_k)
        return out

    def _check_alike(self, k: int, other: Columns, other_k: int) -> None:
        """Raise a ValueError if column ``k`` of a tree and column ``other_k`` of a model code values differently."""
        name, one, two = other.names[other_k], self.categories[k], other.categories[other_k]
        if one is not None and two is not None and one is not two and one.tolist() != two.tolist():
            raise ValueError(
                f"the tree has the categories {one.tolist()} of column {name!r}, and the model {two.tolist()}; give a "
                "tree over the same categories."
            )
        kind, model_kind = self.kind(k), other.kind(other_k)
        if one is None and two is None and (kind.group, kind.levels) != (model_kind.group, model_kind.levels):
            words = [f"{x.group} {list(x.levels)}" if x.levels else x.group for x in (kind, model_kind)]
            raise ValueError(
                f"the tree has {words[0]} in column {name!r}, and the model {words[1]}; give a tree over the same."
            )


def columns_of_estimator(estimator: Any) -> Columns | None:
    """Return the columns of the frame to which a scikit-learn estimator was fitted, None if it has no names."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else Columns(tuple(map(str, names)), True, (None,) * len(names), branches=True)


def indices_of_columns(argument: str, columns: Iterable[Any], names: tuple[str, ...]) -> list[int]:
    """Return the indices of ``columns``, given by name or index, among the ``names`` of all columns."""
    # names are text, also those that are integers in the frame; an integer that is the index of one column and the name
    # of another is refused; one beyond all indices is taken as a name
    out = []
    for column in columns:
        index = names.index(column) if column in names else column
        if is_integer(column) and str(column) in names and (named := names.index(str(column))) != column:
            if 0 <= column < len(names):
                raise ValueError(
                    f"{argument}: {column} is the index of column {names[column]!r} and the name of another; give "
                    f"{names[column]!r} or {names[named]!r}."
                )
            index = named
        if not is_integer(index) or not 0 <= index < len(names):
            raise ValueError(f"{argument}: {repr_of(column)} is not a column; X has {len(names)}: {repr_of(names)}.")
        out.append(int(index))
    return out


def in_coordinate(values: np.ndarray, missing_above: bool) -> np.ndarray:
    """Return values (n,) of a feature in one of its coordinates: NaN becomes inf if ``missing_above``, else -inf."""
    return np.where(np.isnan(values), np.inf if missing_above else -np.inf, values)


def describe_columns(table: Table, nominal: Any, missing: str = "error") -> Columns:
    """Return names, categories and kinds of the columns of the training ``table``."""
    check_choice("missing", missing, MISSING_CHOICES)
    if table.n_rows == 0 or table.n_features == 0:
        raise ValueError(f"X is empty: shape ({table.n_rows}, {table.n_features}); give at least 2 rows and 1 column.")
    if table.n_rows < 2:
        raise ValueError("X has one row; a tree needs at least 2 rows to choose from.")
    names = tuple(table.names or (f"x{k}" for k in range(table.n_features)))
    for name in names:
        refuse_nul("the column name", name)
    extra = set() if nominal is None else set(indices_of_columns("nominal", as_list(nominal), names))
    branches, by_name = missing == "branch", table.names is not None
    if not extra and table.array is not None and table.array.dtype.kind == "f" and np.isfinite(table.array).all():
        return Columns(names, by_name, (None,) * len(names), branches)

    def describe_column(k: int) -> tuple[np.ndarray | None, Kind, bool]:
        raw = table.column(k)
        if k in extra or (levels_of(raw) is None and (is_categorical(raw) or holds_text(raw))):
            return _read_categories(raw, names[k], branches), NUMBER, False
        values, kind = read_ordered(raw, names[k], branches)
        gaps = np.isnan(values)
        if gaps.all():
            raise ValueError(f"column {names[k]!r} has no value at all; drop it.")
        return None, kind, bool(gaps.any())

    parts = for_each_column([partial(describe_column, k) for k in range(len(names))])
    categories, kinds, lacking = zip(*parts, strict=True)
    with_missing = tuple(k for k, lacks in enumerate(lacking) if lacks)
    kinds = () if set(kinds) == {NUMBER} else kinds
    return Columns(names, by_name, categories, branches, with_missing, kinds)


def _read_categories(raw: Any, name: str, may_lack: bool) -> np.ndarray:
    """Return the sorted categories of the nominal column ``raw`` called ``name``."""
    labels = nominal_labels(raw, name, may_lack)
    categories = sorted_unique(labels)
    warn_if_not_storable(categories, name)
    if len(categories) <= MAX_CATEGORIES:
        return categories
    groups = group_categories(categories, np.bincount(category_codes(labels, categories), minlength=len(categories)))
    example = next(str(group) for group in groups.tolist() if isinstance(group, CategoryGroup))
    warn(
        f"column {name!r} has {len(categories)} categories. A split separates at most {MAX_CATEGORIES}, so "
        f"neighbours in sorted order were joined into {len(groups)} groups with about equal numbers of rows, for "
        f"example {repr_of(example)}. Give groups of your own if others are meaningful, or an ordered categorical "
        "if the categories have an order."
    )
    return groups


def for_each_column(functions: Iterable[Callable[[], Any]]) -> list:
    """Call the functions, one for each column, and return their results. One ValueError joins the errors of all."""
    out, wrong = [], []
    for function in functions:
        try:
            out.append(function())
        except ValueError as error:
            wrong.append(error)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        more = [f"and {len(wrong) - MAX_WRONG_COLUMNS} more"] if len(wrong) > MAX_WRONG_COLUMNS else []
        lines = [f"{len(wrong)} columns cannot be used:", *map(str, wrong[:MAX_WRONG_COLUMNS]), *more]
        raise ValueError("\n  ".join(lines)) from wrong[0]
    return out


# largest number of categories, or groups of them, of a column, so that a set is an int64 with its sign bit free
MAX_CATEGORIES = 63


@register_class
@dataclass(frozen=True)
class CategoryGroup:
    """Two or more categories, neighbours in sorted order, which no split separates."""

    labels: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.labels[0]} to {self.labels[-1]}"

    __repr__ = __str__


def group_categories(labels: np.ndarray, n_rows: np.ndarray) -> np.ndarray:
    """Return at most `MAX_CATEGORIES` categories or groups of neighbouring ones, in the order of `labels`."""
    # the largest group has as few rows as possible; a missing value (None, the last) is never grouped
    if len(labels) <= MAX_CATEGORIES:
        return labels
    lacks = labels[-1] is None
    n, max_groups = len(labels) - lacks, MAX_CATEGORIES - lacks
    cumulative = np.concatenate([[0], np.cumsum(n_rows[:n])])
    # bisection for the smallest limit on the rows of a group with which at most `max_groups` groups are needed
    low, high = 0, int(cumulative[-1])
    while high - low > 1:
        middle = (low + high) // 2
        is_enough = len(_group_starts(cumulative, middle, max_groups)) <= max_groups
        low, high = (low, middle) if is_enough else (middle, high)
    starts = _group_starts(cumulative, high, max_groups)
    plain = labels.tolist()
    groups = [plain[a:b] for a, b in zip(starts, [*starts[1:], n], strict=True)] + [[None]] * lacks
    out = np.empty(len(groups), dtype=object)
    out[:] = [group[0] if len(group) == 1 else CategoryGroup(tuple(group)) for group in groups]
    return out


def _group_starts(cumulative: np.ndarray, limit: int, max_groups: int) -> list[int]:
    """Return the index of the first category of each group, if groups are filled in order up to ``limit`` rows each."""
    # as soon as no more categories remain than groups, of which there may be `max_groups`, each is its own group
    starts, n = [0], len(cumulative) - 1
    while True:
        if n - starts[-1] <= max_groups - len(starts) + 1:
            return [*starts, *range(starts[-1] + 1, n)]
        last = max(int(np.searchsorted(cumulative, cumulative[starts[-1]] + limit, side="right")) - 1, starts[-1] + 1)
        if last >= n:
            return starts
        starts.append(last)


def labels_of(category: Any) -> tuple[Any, ...]:
    return category.labels if isinstance(category, CategoryGroup) else (category,)


def nominal_labels(raw: Any, name: str, may_lack: bool = False, *, is_new: bool = False) -> np.ndarray:
    """Return the nominal column ``raw`` called ``name`` as an array of labels (n,)."""
    if hasattr(raw, "is_null") and hasattr(raw, "to_list"):
        missing = np.asarray(raw.is_null().to_list(), dtype=bool)
        labels = np.array(raw.to_list(), dtype=object)
    else:
        labels = read_array(f"column {name!r}", raw)
        if labels.ndim != 1:
            raise ValueError(f"column {name!r} holds lists or records; give strings or numbers.")
        if labels.dtype.kind in "mM":
            # nanoseconds would become integers, which are not equal to the same dates in another unit
            coarse = labels.astype(f"{labels.dtype.kind}8[us]")
            labels = coarse if np.array_equal(coarse, labels, equal_nan=True) else labels
        if labels.dtype.kind not in "fiubOUS":
            labels = labels.astype(object)
        if labels.dtype.kind == "O":
            missing = np.array([is_missing(v) for v in labels.tolist()], dtype=bool)
        else:
            missing = labels != labels
    if missing.any():
        if not may_lack:
            advice = 'give missing values a category of their own, or missing="branch"'
            raise ValueError(
                f"nominal column {name!r} has a missing value (first in row {int(np.argmax(missing))}); "
                f"{'fill it in: the model was built without missing values' if is_new else advice}."
            )
        labels = labels.astype(object)
        labels[missing] = None
    return labels


def is_missing(label: Any) -> bool:
    """Return True if a label is None, NaN or the NA of pandas."""
    return label is None or type(label).__name__ == "NAType" or is_nan(label)


def refuse_missing(y: Any) -> None:
    """Raise a ValueError, which names the row, if a label or number of y is missing (None, NaN, NA). y may be None."""
    if y is None:
        return
    labels = read_array("y", y)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels).ravel()
    elif labels.dtype.kind == "O":
        missing = np.array([is_missing(label) for label in labels.ravel().tolist()], dtype=np.bool_)
    else:
        return
    if missing.any():
        n_others = int(missing.sum()) - 1
        more = f" and in {n_others} more" if n_others else ""
        raise ValueError(f"y is missing in row {int(np.argmax(missing))}{more}; give it a label, or drop the row.")


def is_nan(label: Any) -> bool:
    """Return True if a label is a NaN of any type."""
    try:
        return bool(label != label)
    except Exception:
        return False


def category_codes(labels: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """Return the index (n,) of each label, or of its `CategoryGroup`, among ``categories``; -1 for an unknown label."""
    if labels.dtype.kind in "iu" and categories.dtype.kind in "iu":
        place = np.searchsorted(categories, labels).clip(max=len(categories) - 1)
        return np.where(categories[place] == labels, place, -1)
    index = {label: j for j, category in enumerate(categories.tolist()) for label in (category, *labels_of(category))}
    return np.array([index.get(c, -1) for c in check_hashable(labels.tolist())], dtype=np.int64)


def refuse_other_kind(labels: np.ndarray, categories: np.ndarray, name: str) -> None:
    """Raise a ValueError if the ``labels`` of new rows are numbers and the ``categories`` are text, or the reverse."""
    kinds = []
    for values in (labels.tolist(), [label for c in categories.tolist() for label in labels_of(c)]):
        is_text = {isinstance(value, str) for value in values if value is not None}
        is_number = all(isinstance(value, numbers.Real) for value in values if value is not None)
        kinds.append("text" if is_text == {True} else "numbers" if is_text and is_number else "")
    if all(kinds) and kinds[0] != kinds[1]:
        raise ValueError(f"nominal column {name!r} holds {kinds[0]}; the model was built on {kinds[1]}: give those.")


def refuse_nul(what: str, label: Any) -> None:
    """Raise a ValueError if a ``label`` is text with a NUL character. ``what`` names the label in the error."""
    if isinstance(label, str) and "\0" in label:
        raise ValueError(f"{what} {repr_of(label)} has a NUL character, which netCDF files cannot hold; rename it.")


def warn_if_not_storable(categories: np.ndarray, name: str) -> None:
    """Warn if a file cannot contain one of the ``categories`` (m,) of the column ``name``, before a run is made."""
    for category in categories.tolist() if categories.dtype.kind == "O" else ():
        try:
            CODEC.encode(category)
        except NotStorable:
            warn(
                f"column {name!r} holds {repr_of(category)}, a {type(category).__name__}, which a file cannot hold: "
                "save and checkpoint= will raise an error. Give text, for instance .astype(str), if you want to save."
            )
            return


def check_hashable(labels: list) -> list:
    """Return the labels, or raise a ValueError that names the type of a label that is not hashable."""
    for label in labels:
        try:
            hash(label)
        except Exception as error:
            raise ValueError(
                f"a {type(label).__name__}, {repr_of(label)}, cannot be a category; give strings or numbers."
            ) from error
    return labels


def sorted_unique(labels: np.ndarray) -> np.ndarray:
    """Return the distinct labels in order, None (missing) last; by type and text if they cannot be compared."""
    if labels.dtype.kind != "O":
        return np.unique(labels)
    distinct = _distinct_labels(labels.tolist())
    missing = [c for c in distinct if c is None]
    distinct.difference_update(missing)
    try:
        ordered = sorted(distinct)
    except Exception:
        ordered = sorted(distinct, key=lambda c: (type(c).__name__, repr_of(c)))
    ordered += missing
    out = np.empty(len(ordered), dtype=object)
    out[:] = ordered
    return out


def _distinct_labels(labels: list) -> set:
    """Return the set of the labels, or raise a ValueError if labels are not hashable or cannot be compared."""
    try:
        return set(check_hashable(labels))
    except ValueError:
        raise
    except Exception as error:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(f"labels of type {', '.join(kinds)} cannot be compared; give strings or numbers.") from error


# number of ticks up to which division by a constant, in float64, gives different quotients for all integers
EXACT_TICKS = 1 << 52


def ordered_values(raw: Any, name: str, may_lack: bool = False) -> np.ndarray:
    return read_ordered(raw, name, may_lack)[0]


def read_ordered(
    raw: Any, name: str, may_lack: bool = False, model_kind: Kind | None = None
) -> tuple[np.ndarray, Kind]:
    """Return the ordered column ``raw`` called ``name`` as float64 (n,), NaN if missing, and its kind of data."""
    if model_kind is not None and model_kind.levels:
        values, kind = _level_values(raw, name, model_kind.levels, may_lack), model_kind
    else:
        values, kind = _read_with_kind(raw, name, model_kind)
    with np.errstate(over="ignore"):
        out = np.ascontiguousarray(values, dtype=np.float64)
    if model_kind is not None and kind.group != model_kind.group and not np.isnan(out).all():
        raise ValueError(f"column {name!r} holds {kind.group}; the model was built on {model_kind.group}: give those.")
    bad = np.isinf(out) if may_lack else ~np.isfinite(out)
    if bad.any():
        row = int(np.argmax(bad))
        if np.isnan(out[row]):
            gap = "None" if np.asarray(raw, dtype=object)[row] is None else "NaN"
            why = ', or give missing="branch"' if model_kind is None else ": the model was built without missing values"
            raise ValueError(f"column {name!r} contains {gap} (first in row {row}); fill it in{why}.")
        raise ValueError(f"column {name!r} contains infinity (first in row {row}); give finite numbers.")
    return out, kind


def levels_of(raw: Any) -> Kind | None:
    """Return the kind, with the levels, of an ordered categorical of pandas or an Enum of polars; else None."""
    dtype = getattr(raw, "dtype", None)
    if getattr(dtype, "ordered", False) is True:
        return kind_of_levels(dtype.categories.tolist())  # type: ignore[union-attr]
    if type(dtype).__name__ == "Enum" and hasattr(dtype, "categories"):
        return kind_of_levels(dtype.categories.to_list())  # type: ignore[union-attr]
    return None


def _read_with_kind(raw: Any, name: str, model_kind: Kind | None) -> tuple[np.ndarray, Kind]:
    """Return the column ``raw`` called ``name`` as real numbers (n,) of any dtype, NaN if missing, and its kind."""
    levels = levels_of(raw)
    if levels is not None:
        return _level_values(raw, name, levels.levels, True), levels
    dtype = getattr(raw, "dtype", None)
    if type(dtype).__name__ == "PeriodDtype":
        ordinals = _check_exact(raw.array.asi8, name, model_kind)
        frequency = str(dtype).removeprefix("period[").removesuffix("]")
        return np.where(raw.isna(), np.nan, ordinals), Kind("period", frequency)
    aware = getattr(dtype, "tz", None) is not None
    if aware:
        raw = raw.dt.tz_convert("UTC").dt.tz_localize(None)
    values = exact_array(raw, name)
    kind = values.dtype.kind
    if kind == "O":
        return _read_objects(values, name, model_kind)
    if kind in "mM":
        return _read_ticks(values, name, model_kind, aware or getattr(dtype, "time_zone", None) is not None)
    if kind in "US" or type(values.dtype).__name__ == "StringDType":
        advice = "make it a pandas or polars categorical, name it in nominal=, or give numbers"
        raise ValueError(f"column {name!r} holds text; {advice if model_kind is None else _kind_of_model(model_kind)}.")
    if kind == "c":
        raise ValueError(f"column {name!r} is complex; X must be real: give real and imaginary parts as two columns.")
    if kind not in "fiub":
        raise ValueError(f"column {name!r} has dtype {values.dtype}; give real numbers, dates or a categorical.")
    if kind == "f" and values.dtype.itemsize > 8 and model_kind is None:
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float64)
        _refuse_merged(values, rounded, name)
    return _check_exact(values, name, model_kind), TRUTH if kind == "b" else NUMBER


def _kind_of_model(model_kind: Kind) -> str:
    """Return the end of an error message about new rows of another kind than the model's column."""
    return f"the model was built on {model_kind.group}: give those"


def exact_array(raw: Any, name: str) -> np.ndarray:
    """Return the column ``raw`` called ``name`` as an array (n,), of objects for integers that float64 may round."""
    values = read_array(f"column {name!r}", raw)
    if values.ndim != 1:
        raise ValueError(f"column {name!r} holds lists or records; give real numbers or a categorical.")
    is_integer_column = getattr(getattr(raw, "dtype", None), "kind", "") in ("i", "u") or _is_polars_integer(raw)
    if is_integer_column and values.dtype.kind == "f" and (np.abs(values) >= MAX_EXACT_INTEGER).any():
        return np.array(raw.to_list(), dtype=object)
    return values


def _is_polars_integer(raw: Any) -> bool:
    """Return True if a column is a polars Series of integers."""
    is_integer = getattr(getattr(raw, "dtype", None), "is_integer", None)
    return callable(is_integer) and is_integer() is True


def _check_exact(values: np.ndarray, name: str, model_kind: Kind | None) -> np.ndarray:
    """Return the ``values`` of the column called ``name``, or raise a ValueError if float64 would round an integer."""
    row = inexact_row(values)
    if row is not None:
        _refuse_inexact(values[row], row, name, model_kind)
    return values


def _refuse_inexact(value: Any, row: int, name: str, model_kind: Kind | None) -> None:
    """Raise the ValueError about an integer, in a ``row`` of the column called ``name``, that float64 would round."""
    advice = "subtract the same number from all rows, or name the column in nominal= or drop it if it is an identifier"
    raise ValueError(
        f"column {name!r} holds {int(value)} in row {row}, which would be rounded to {float(value):.0f}: 64-bit "
        "floating point holds all integers up to 2**53 only; "
        f"{advice if model_kind is None else 'give numbers as exact as those that the model was built on'}."
    )


def _refuse_merged(exact: np.ndarray, rounded: np.ndarray, name: str) -> None:
    """Raise a ValueError if two different values of ``exact`` (n,) are equal in ``rounded`` (n,), their float64."""
    order = np.argsort(rounded, kind="stable")
    exact, rounded = exact[order], rounded[order]
    merged = (rounded[1:] == rounded[:-1]) & (exact[1:] != exact[:-1])
    if merged.any():
        place = int(np.argmax(merged))
        raise ValueError(
            f"column {name!r} holds {exact[place]} and {exact[place + 1]}, which 64-bit floating point cannot tell "
            "apart; round them, or subtract the same value from all rows."
        )


def _read_ticks(values: np.ndarray, name: str, model_kind: Kind | None, aware: bool = False) -> tuple[np.ndarray, Kind]:
    """Return ``values`` (n,), datetime64 or timedelta64, as days (n,) float64, NaN if missing, and their kind."""
    if values.dtype.kind == "m":
        return _days(values, name, "durations"), DURATION
    days = _days(values, name, "dates")
    if model_kind is None:
        _refuse_merged(values, days, name)
    is_day = bool(np.all(np.isnat(values) | (values == values.astype("M8[D]"))))
    return days, UTC if aware else DAY if is_day else TIME


def _days(values: np.ndarray, name: str, contents: str) -> np.ndarray:
    """Return datetime64 as days since 1970, or timedelta64 as days, (n,) float64, NaN if missing."""
    # Fractions of a microsecond are rounded up, so that a cut at a microsecond separates the same values. Durations
    # with such fractions are exact to the nanosecond, and refused beyond 52 days
    is_nat, kind = np.isnat(values), values.dtype.kind
    microseconds = values.astype(f"{kind}8[us]")
    beyond = ~is_nat & (microseconds.astype(f"{kind}8[D]") != values.astype(f"{kind}8[D]"))
    if beyond.any():
        raise ValueError(f"column {name!r} holds {contents} beyond the year 290,000 (row {int(np.argmax(beyond))}).")
    has_fraction = microseconds < values
    if has_fraction.any() and kind == "m":
        ticks = values.astype("m8[ns]").astype(np.int64)
        if (np.abs(ticks[~is_nat]) >= EXACT_TICKS).any():
            raise ValueError(f"column {name!r} holds durations beyond 52 days in nanoseconds; round to microseconds.")
        return np.where(is_nat, np.nan, ticks / NANOSECONDS)
    return np.where(is_nat, np.nan, (microseconds.astype(np.int64) + has_fraction) / MICROSECONDS)


def _level_values(raw: Any, name: str, levels: tuple, may_lack: bool) -> np.ndarray:
    """Return the index (n,) float64 among the ``levels`` of each label of the column ``raw``, NaN if missing."""
    # a label is looked up by its value, or else by its text
    value_of_level: dict[Any, float] = {str(level): float(j) for j, level in enumerate(levels)}
    value_of_level |= {level: float(j) for j, level in enumerate(levels)}
    out = np.full(len(raw), np.nan)
    for row, label in enumerate(raw.to_list() if hasattr(raw, "to_list") else raw.tolist()):
        if is_missing(label):
            continue
        level = plain_level(label)
        value = value_of_level.get(level, value_of_level.get(str(level)))
        if value is None:
            raise ValueError(
                f"column {name!r} holds {repr_of(level)} in row {row}, which is not one of the levels of the model, "
                f"{', '.join(map(str, levels))}; give one of these"
                f"{', or None' if may_lack else ', or build the model with all levels in the dtype'}."
            )
        out[row] = value
    return out


def _read_objects(values: np.ndarray, name: str, model_kind: Kind | None) -> tuple[np.ndarray, Kind]:
    """Return a column of Python objects, ``values`` (n,), as float64 (n,), NaN if missing, and its kind."""
    present = np.array([not is_missing(value) for value in values.tolist()], dtype=np.bool_)
    entries = values[present].tolist()
    frequencies = {getattr(value, "freqstr", None) for value in entries}
    if len(frequencies) == 1 and None not in frequencies:
        import pandas as pd

        return _read_with_kind(pd.Series(pd.PeriodIndex(values)), name, model_kind)
    for types, convert in CONVERSIONS:
        if entries and all(isinstance(value, types) for value in entries):
            if len({getattr(value, "tzinfo", None) is None for value in entries}) > 1:
                raise ValueError(f"column {name!r} mixes times with and without a time zone; give all one or the other")
            ticks = np.array([convert(value) for value in entries])
            out = np.full(len(values), np.array("NaT", dtype=ticks.dtype))
            out[present] = ticks
            return _read_ticks(out, name, model_kind, getattr(entries[0], "tzinfo", None) is not None)
    out = np.full(len(values), np.nan)
    for row in np.flatnonzero(present).tolist():
        out[row] = _real_number(values[row], row, name, model_kind)
    exact = [value for value in entries if isinstance(value, decimal.Decimal | numbers.Rational)]
    if model_kind is None and not all(isinstance(value, numbers.Integral) for value in exact):
        _refuse_merged(values[present], out[present], name)
    return out, TRUTH if all(isinstance(value, bool | np.bool_) for value in entries) else NUMBER


def _real_number(value: Any, row: int, name: str, model_kind: Kind | None) -> float:
    """Return the Python object in a row of the column called ``name`` as a float; a truth value becomes 0 or 1."""
    if isinstance(value, bool | np.bool_):
        return float(value)
    number = as_number(float(value) if isinstance(value, decimal.Decimal) else value)
    if number is None:
        advice = "give numbers, make it categorical, or name it in nominal="
        advice = advice if model_kind is None else _kind_of_model(model_kind)
        kind = type(value).__name__
        raise ValueError(f"column {name!r} holds objects ({kind} {repr_of(value)} in row {row}); {advice}.")
    if isinstance(value, numbers.Integral) and math.isfinite(number) and int(number) != int(value):
        _refuse_inexact(value, row, name, model_kind)
    return number


def _as_datetime64(value: Any) -> np.datetime64:
    """Return a date as datetime64[D], or a date with a time as datetime64[us], in UTC if it has a time zone."""
    # dates of pandas and NumPy keep their unit
    if getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(ZONE_UTC).replace(tzinfo=None)
    return value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value)


def _as_timedelta64(value: Any) -> np.timedelta64:
    return value.to_timedelta64() if hasattr(value, "to_timedelta64") else np.timedelta64(value)


def _time_as_timedelta64(value: time) -> np.timedelta64:
    """Return a time of the day as the duration since midnight, timedelta64[us]. A time zone is ignored."""
    return np.timedelta64(datetime.combine(date.min, value.replace(tzinfo=None)) - datetime.min)


# types of Python objects that are dates, durations or times of the day, with the function that converts an object
CONVERSIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((date, np.datetime64), _as_datetime64),
    ((timedelta, np.timedelta64), _as_timedelta64),
    (time, _time_as_timedelta64),
)
