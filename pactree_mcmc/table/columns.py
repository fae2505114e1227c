"""The columns of X: names, kinds and categories, and the conversion of tables to numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..core.checks import check_choice, is_integer, names_rows, repr_of
from ..core.texts import warn
from ..files.encoding import register_class
from .reader import Table, as_list, holds_text, is_categorical
from .values import (
    MAX_CATEGORIES,
    CategoryGroup,
    category_codes,
    group_categories,
    labels_of,
    levels_of,
    nominal_labels,
    ordered_values,
    read_ordered,
    refuse_nul,
    refuse_other_kind,
    sorted_unique,
    warn_if_not_storable,
)
from .words import NUMBER, Kind, told_apart

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
    n_rows = np.bincount(category_codes(labels, categories), minlength=len(categories))
    groups = group_categories(categories, n_rows)
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
