"""Training rows of a model: checked y, weights and rows E, merged rows and sums of their statistics, and cells.

A `PlainCell` has the rows and the box of a cell in plain Python. The engines use faster forms of their own.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.bits import codes_go_left
from ..core.checks import as_number, read_array, read_numbers, repr_of
from ..core.compile.jit import jit
from ..core.portable import weighted_sum
from ..core.texts import warn
from ..files.encoding import register_class
from ..table.columns import Columns, refuse_missing, refuse_nul
from ..table.reader import Table, is_frame
from .leaf.base import Leaf, Target
from .leaf.classes import DirichletMultinomial
from .leaf.normal import NormalInverseGamma

MAX_QUIET_CLASSES = 10  # number of distinct integers in y above which a warning says that they are treated as classes


def read_target(y: Any, n: int, leaf: Leaf | None, sample_weight: Any, estimation: Any) -> tuple[Target, Leaf]:
    """Check y, the weights and E, the rows that determine leaf parameters, of ``n`` rows; return them and the leaf."""
    labels = read_y(y, n, leaf)
    names, kind = _names_of_y(y, leaf), labels.dtype.kind
    for name in names:
        refuse_nul("the name of y", name)
    is_given = leaf is not None
    if leaf is None:
        leaf = NormalInverseGamma() if kind == "f" else DirichletMultinomial()
    if not isinstance(leaf, Leaf):
        advice = "a leaf model such as DirichletMultinomial() or NormalInverseGamma()"
        raise TypeError(f"leaf is {repr_of(leaf)}; give {advice}.")
    weight = read_weight(sample_weight, n)
    mask = read_mask(estimation, n)
    if mask is not None and not leaf.uses_estimation:
        raise ValueError(f"{type(leaf).__name__} does not use estimation=; only FrozenLaplace and PacBayesLoss do.")
    if leaf.is_classifier:
        target = _class_target(labels, weight, mask)._replace(names=names)
        if kind in "iu" and not is_given and target.n_classes > MAX_QUIET_CLASSES:
            warn(
                f"y holds {target.n_classes} different whole numbers, which make {target.n_classes} classes; give "
                "leaf=PoissonGamma() for counts, y.astype(float) for measurements, or leaf=DirichletMultinomial() for "
                "classes."
            )
        return target, leaf
    if kind not in "fiub":
        raise ValueError(f"{type(leaf).__name__} needs numbers; y holds {labels.dtype} labels.")
    with np.errstate(over="ignore"):
        target = number_target(labels.astype(np.float64), weight, mask, leaf.needs_variance)
    return target._replace(names=names), leaf


def _names_of_y(y: Any, leaf: Any) -> tuple[str, ...]:
    """Return the names of the columns of y in the order of the leaf, or () if a column has no name."""
    if is_frame(y):
        names, columns = [str(name) for name in y.columns], list(Table(y, "y"))
    elif isinstance(y, np.ndarray) and y.dtype.names is not None:
        names, columns = list(y.dtype.names), [y[name] for name in y.dtype.names]
    else:
        name = getattr(y, "name", None)
        return (name,) if isinstance(name, str) and name else ()
    order = leaf.order_of_y(names, columns) if isinstance(leaf, Leaf) and len(names) > 1 else range(len(names))
    names_of_leaf = tuple(names[k] for k in order)
    others = [name for name in names if name not in names_of_leaf]
    if others:
        leaf_name, columns_of_leaf = type(leaf).__name__, repr_of(list(names_of_leaf))
        warn(f"of the columns of y {leaf_name} uses {columns_of_leaf} alone; {repr_of(others)} have no effect.")
    return names_of_leaf


def read_y(y: Any, n: int, leaf: Any, model_names: tuple[str, ...] = ()) -> np.ndarray:
    """Return numbers or labels (n,), or (n, d) if the leaf has d columns of y."""
    columns = leaf.y_columns if isinstance(leaf, Leaf) else 1
    labels = _named_columns(y, leaf, model_names) if columns > 1 else None
    labels = read_array("y", y) if labels is None else labels
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 0 or labels.shape[1:] != ((columns,) if columns > 1 else ()):
        if columns > 1:
            raise ValueError(f"y has shape {labels.shape}; {leaf!r} needs {columns} columns, shape ({n}, {columns}).")
        several = ", or a leaf of several columns, such as pt.ExponentialGamma() for time and event"
        raise ValueError(
            f"y has shape {labels.shape}; give one value a row, shape ({n},){several if labels.ndim == 2 else ''}."
        )
    if len(labels) != n:
        raise ValueError(f"X has {n} rows and y has {len(labels)}; give as many.")
    kind = labels.dtype.kind
    if kind in "VcmM":
        what = {"V": f"holds records of dtype {labels.dtype}", "c": "is complex"}.get(kind, f"has dtype {labels.dtype}")
        raise ValueError(f"y {what}; give real numbers or labels.")
    if kind not in "fiubUS" and type(labels.dtype).__name__ != "StringDType":
        labels = _uniform_objects(labels)
    refuse_infinite_y(labels)
    return labels


def refuse_infinite_y(y: np.ndarray) -> None:
    """Raise a ValueError if ``y``, (n,) or (n, d), has a number that is infinite or NaN."""
    is_valid = np.isfinite(y) if y.dtype.kind == "f" else np.True_
    if not np.all(is_valid):
        row = int(np.argmax(~is_valid.reshape(len(y), -1).all(axis=1)))
        raise ValueError(f"y is {y[row]} in row {row}; give finite numbers, or drop the row.")


def _named_columns(y: Any, leaf: Leaf, model_names: tuple[str, ...]) -> np.ndarray | None:
    """Return the columns (n, d) of a frame or the fields of records in the order of the leaf; None for any other y."""
    if is_frame(y):
        names, columns = [str(name) for name in y.columns], list(Table(y, "y"))
    elif isinstance(y, np.ndarray) and y.dtype.names is not None:
        names, columns = list(y.dtype.names), [y[name] for name in y.dtype.names]
    else:
        return None
    order = leaf.order_of_y(names, columns) if len(model_names) < 2 else _order_of_names(names, leaf, model_names)
    for k in order:
        refuse_missing(columns[k])
    return np.column_stack([read_numbers(f"column {names[k]!r} of y", columns[k]) for k in order])


def _order_of_names(names: list[str], leaf: Leaf, model_names: tuple[str, ...]) -> list[int]:
    """Return the indices among ``names``, those of the columns of y, of the columns that the model was built on."""
    # columns that the leaf knows by name, such as "time", may replace lacking ones
    lacking = [name for name in model_names if name not in names]
    if lacking and leaf.y_names and set(leaf.y_names) <= {name.lower() for name in names}:
        return leaf.order_of_y(names, [])
    if lacking:
        raise ValueError(
            f"y lacks {repr_of(lacking)}; it has the columns {repr_of(names)}, and the model was built on "
            f"{repr_of(list(model_names))}. Give these columns, or an array with them in this order."
        )
    return [names.index(name) for name in model_names]


def _uniform_objects(labels: np.ndarray) -> np.ndarray:
    """Return labels (n,) of dtype object as strings, booleans, integers or floats, not mixed; (n, d) as floats."""
    refuse_missing(labels)
    if labels.ndim > 1:
        return read_numbers("y", labels)
    values = labels.tolist()
    if all(isinstance(v, str) for v in values):
        for label in set(values):
            # NumPy would drop a NUL at the end
            refuse_nul("the class label", label)
        return np.array(values, dtype=str)
    if all(isinstance(v, bool | np.bool_) for v in values):
        return np.array(values, dtype=bool)
    if all(isinstance(v, numbers.Integral) for v in values):
        if not all(-(2**63) <= int(v) < 2**63 for v in values):
            raise ValueError("y holds integers beyond 64 bits; give labels that fit, or strings.")
        return np.array(values, dtype=np.int64)
    if all(as_number(v) is not None for v in values):
        return np.array([as_number(v) for v in values])
    kinds = sorted({type(v).__name__ for v in values})
    raise ValueError(f"y mixes or holds {', '.join(kinds)}; give all strings, all booleans or all numbers.")


def _class_target(labels: np.ndarray, weight: np.ndarray | None, mask: np.ndarray | None) -> Target:
    """Return labels (n,) as indices of the sorted classes, with weights (n,) and ``mask`` (n,) of E, or None."""
    classes, class_index = np.unique(labels, return_inverse=True)
    if labels.dtype.kind == "f" and np.any(classes != np.floor(classes)):
        raise ValueError("y holds fractions; a classification needs labels: give integers or strings, or another leaf.")
    if len(classes) > 32_767:
        raise ValueError(f"y has {len(classes)} classes; at most 32767 are allowed.")
    for label in classes.tolist():
        refuse_nul("the class label", label)
    return Target(class_index.astype(np.int32), classes, weight, mask, 0.0, 1.0)


def number_target(
    y: np.ndarray, weight: np.ndarray | None, mask: np.ndarray | None, needs_variance: bool = True
) -> Target:
    """Return the target of a regression: y with its weighted mean and variance, or 0 and 1 if y has several columns."""
    # The variance is 1 if all y of positive weight are equal, otherwise at least the smallest float. If it is not
    # needed, it is cut at the largest float
    if y.ndim > 1:
        return Target(y, None, weight, mask, 0.0, 1.0)
    fractions = np.full(len(y), 1.0 / len(y)) if weight is None or weight.sum() == 0.0 else weight / weight.sum()
    with np.errstate(over="ignore", invalid="ignore"):
        center = weighted_sum(fractions, y)
        variance = weighted_sum(fractions, (y - center) ** 2)
        total = variance * (len(y) if weight is None else float(weight.sum()))
    if not needs_variance and np.isfinite(center):
        variance = min(variance, float(np.finfo(np.float64).max))
    elif not np.isfinite(total):
        raise ValueError("y is too large: its variance overflows; rescale y, or sample_weight if given.")
    counted = y[fractions > 0.0]
    if np.all(counted == counted[0]):  # rounding leaves its variance above zero
        center, variance = float(counted[0]), 1.0
    return Target(y, None, weight, mask, center, max(variance, 5e-324))


def read_weight(sample_weight: Any, n: int) -> np.ndarray | None:
    """Check the weights of rows and return them as float64 (n,), or None if there are none."""
    if sample_weight is None:
        return None
    weight = read_numbers("sample_weight", sample_weight)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}; give one weight a row, shape ({n},).")
    bad = ~((weight >= 0.0) & np.isfinite(weight))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"sample_weight is {weight[row]} in row {row}; give finite weights >= 0.")
    if not weight.any():
        raise ValueError("sample_weight is 0 in every row; give weights that count some rows.")
    with np.errstate(over="ignore"):
        if not np.isfinite(weight.sum()):
            raise ValueError("sample_weight adds up to infinity; rescale it.")
    return weight


def read_mask(estimation: Any, n: int) -> np.ndarray | None:
    """Return the mask (n,) of E, the rows that determine leaf parameters; None if there is no E."""
    if estimation is None:
        return None
    mask = read_array("estimation", estimation)
    if isinstance(estimation, float | np.floating):
        if not 0.0 < estimation < 1.0 or not 0 < round(n * estimation) < n:
            raise ValueError(f"estimation={estimation} of {n} rows leaves E or S empty; give a fraction in (0, 1).")
        mask = np.arange(n) >= n - round(n * estimation)
    if mask.dtype.kind != "b" or mask.shape != (n,):
        raise ValueError(f"estimation has dtype {mask.dtype} and shape {mask.shape}; give booleans ({n},), or a part.")
    return mask


@register_class
class Units(NamedTuple):
    """Merged rows in the form that compiled code uses. A unit is a set of merged rows; there are U units."""

    # weights that are all equal, and row counts that are all 1, are stored once
    codes: np.ndarray  # (q, U) unsigned: the code of each coordinate
    # True if the statistics of a cell are weights by label, False if they are the total weight and sums of moments
    counts: bool
    # (U,) uint16 if ``counts``: index of the statistic to which the unit adds its weight; else one unused entry
    label: np.ndarray
    weight: np.ndarray  # (U,) float64, or (1,) when all are equal: read at ``u & weight_all``
    weight_all: int  # -1 when ``weight`` has an entry for each unit, 0 when one entry serves all
    # (k, U) float64 unless ``counts``: all statistics but the first, the weight; else unused, (2, 1)
    moments: np.ndarray
    rows: np.ndarray  # (U,) int32: number of rows merged in the unit, or (1,) when all are 1: read at ``u & rows_all``
    rows_all: int  # -1 when ``rows`` has an entry for each unit, 0 when one entry serves all

    @property
    def n_units(self) -> int:
        return self.codes.shape[1]

    def take(self, order: np.ndarray) -> Units:
        """Return the units with indices ``order``, in this order."""
        return self._replace(
            codes=np.ascontiguousarray(self.codes[:, order]),
            label=self.label[order] if self.counts else self.label,
            weight=self.weight[order] if self.weight_all else self.weight,
            moments=self.moments if self.counts else np.ascontiguousarray(self.moments[:, order]),
            rows=self.rows[order] if self.rows_all else self.rows,
        )


class MergedRows(NamedTuple):
    """The merged rows (units) of a table, and the unit of each row."""

    rows: Units  # the merged rows
    unit_of_row: np.ndarray | None  # (n,) int32: the unit of each row; None when row i is unit i


def merge_rows(codes: np.ndarray, leaf: Leaf, target: Target) -> MergedRows:
    """Merge rows with equal `codes` (q, n), and equal labels if the statistics are counts, and add their statistics."""
    # if rows are merged, the memory of `codes` is overwritten
    n = codes.shape[1]
    group = np.empty(n, dtype=np.int32)
    # a hash table of at most two thirds of its entries
    table = np.full(1 << max((3 * n - 1).bit_length() - 1, 2), -1, dtype=np.int32)
    n_units = group_rows_into(group, table, codes, _statistic_of_row(leaf, target))
    if n_units == n:
        return MergedRows(sum_units(codes, None, leaf, target), None)
    first = first_rows(group, n_units)
    flat = codes.reshape(-1)
    for k in range(len(codes)):
        flat[k * n_units : (k + 1) * n_units] = codes[k, first]
    return MergedRows(sum_units(flat[: len(codes) * n_units].reshape(len(codes), n_units), group, leaf, target), group)


def _statistic_of_row(leaf: Leaf, target: Target) -> np.ndarray:
    """Return the index (n,) of the statistic to which each row adds its weight; one unused 0 for a regression."""
    return leaf.labels(target).astype(np.uint16) if leaf.is_classifier else np.zeros(1, dtype=np.uint16)


def sum_units(codes: np.ndarray, group: np.ndarray | None, leaf: Leaf, target: Target) -> Units:
    """Return the units (merged rows) with ``codes`` (q, U) and the sums of the statistics of their rows."""
    label = _statistic_of_row(leaf, target)
    weight, moments = (target.weight, np.zeros((2, 1))) if leaf.is_classifier else leaf.moments(target)
    if group is None:
        has_unit_weights = weight is None or bool(np.all(weight == 1.0))
        weight = np.ones(1) if has_unit_weights else np.array(weight)
        ones = np.ones(1, dtype=np.int32)
        return Units(codes, leaf.is_classifier, label, weight, 0 if has_unit_weights else -1, moments, ones, 0)
    n_units = codes.shape[1]
    rows = np.bincount(group, minlength=n_units).astype(np.int32)
    weight = np.bincount(group, weights=weight, minlength=n_units).astype(np.float64)
    if leaf.is_classifier:
        label = label[first_rows(group, n_units)]
    else:
        moments = np.array([np.bincount(group, weights=m, minlength=n_units) for m in moments])
    return Units(codes, leaf.is_classifier, label, weight, -1, moments, rows, -1)


def first_rows(group: np.ndarray, n_groups: int) -> np.ndarray:
    """Return the index of the first row of each group, (n_groups,) int32. ``group`` (n,) has the group of each row."""
    most_before = np.maximum.accumulate(np.append(-1, group[:-1]))
    return np.flatnonzero(group > most_before)[:n_groups].astype(np.int32)


@jit
def group_rows_into(group: np.ndarray, table: np.ndarray, codes: np.ndarray, label: np.ndarray) -> int:
    """Write the index of the group of equal rows that contains each row to `group`. Return the number of groups."""
    # groups are numbered by first occurrence; `table` (entries -1, a power of two of them) becomes a hash table of
    # their first rows; rows are compared, so hashes may collide
    n, size = len(group), np.int64(len(table))
    n_groups = 0
    for i in range(n):
        hash_of_row = np.uint64(label[i]) + np.uint64(0x9E3779B97F4A7C15) if len(label) > 1 else np.uint64(1)
        for k in range(codes.shape[0]):
            hash_of_row = (hash_of_row ^ np.uint64(codes[k, i])) * np.uint64(0xBF58476D1CE4E5B9)
            hash_of_row ^= hash_of_row >> np.uint64(29)
        slot = np.int64(hash_of_row & np.uint64(size - 1))
        while table[slot] >= 0 and not _same_row(codes, label, i, table[slot]):
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            table[slot] = i
            group[i] = n_groups
            n_groups += 1
        else:
            group[i] = group[table[slot]]
    return n_groups


@jit
def _same_row(codes: np.ndarray, label: np.ndarray, a: int, b: int) -> bool:
    """Return True if rows ``a`` and ``b`` have equal ``codes`` (q, n) and ``label`` (n,); (1,) means no labels."""
    if len(label) > 1 and label[a] != label[b]:
        return False
    for k in range(codes.shape[0]):
        if codes[k, a] != codes[k, b]:
            return False
    return True


class UnitStats(NamedTuple):
    """Statistics of merged rows: the fields of `Units` that the sums below read. `Units` may be given instead."""

    counts: bool
    label: np.ndarray
    weight: np.ndarray
    weight_all: int
    moments: np.ndarray


# The sums below are whole loops: compiled code counts references to the arrays that it passes to a function, which in
# the innermost loop would take longer than the sums.


@jit
def add_unit(stats: np.ndarray, row: int, merged_rows: Any, u: int) -> None:
    """Add the statistics of unit ``u`` of the merged rows to ``stats[row]``, those of a cell."""
    weight, moments = merged_rows.weight[u & merged_rows.weight_all], merged_rows.moments
    if merged_rows.counts:
        stats[row, merged_rows.label[u]] += weight
    else:
        stats[row, 0] += weight
        for j in range(len(moments)):
            stats[row, j + 1] += moments[j, u]


@jit
def add_units(stats: np.ndarray, row: int, units: Any, order: np.ndarray, start: int, stop: int) -> None:
    """Add statistics of the units ``order[start:stop]`` of merged rows, in this order, to ``stats[row]``, a cell's."""
    label, weight, weight_all, moments = units.label, units.weight, units.weight_all, units.moments
    if units.counts:
        for i in range(start, stop):
            u = order[i]
            stats[row, label[u]] += weight[u & weight_all]
    else:
        # three moments at a time, in local names: a place in an array is read and written again for every unit
        before, last = stats[row, 0], len(moments) - 1
        for j in range(0, len(moments), 3):
            j1, j2 = min(j + 1, last), min(j + 2, last)
            total, first, second, third = before, stats[row, j + 1], stats[row, j1 + 1], stats[row, j2 + 1]
            for i in range(start, stop):
                u = order[i]
                total += weight[u & weight_all]
                first += moments[j, u]
                second += moments[j1, u]
                third += moments[j2, u]
            stats[row, 0], stats[row, j + 1], stats[row, j1 + 1], stats[row, j2 + 1] = total, first, second, third


@jit
def scatter_units(
    stats: np.ndarray, target_rows: np.ndarray, units: Any, order: np.ndarray, start: int, stop: int
) -> None:
    """Add statistics of the i-th of the units ``order[start:stop]`` of merged rows to ``stats[target_rows[i]]``."""
    # each row of `stats` has the sums of one set of units, such as those with the same code
    label, weight, weight_all, moments = units.label, units.weight, units.weight_all, units.moments
    if units.counts:
        for i in range(start, stop):
            u = order[i]
            stats[target_rows[i - start], label[u]] += weight[u & weight_all]
    elif len(moments) == 2:
        for i in range(start, stop):
            u, row = order[i], target_rows[i - start]
            stats[row, 0] += weight[u & weight_all]
            stats[row, 1] += moments[0, u]
            stats[row, 2] += moments[1, u]
    else:
        for i in range(start, stop):
            u, row = order[i], target_rows[i - start]
            stats[row, 0] += weight[u & weight_all]
            for j in range(len(moments)):
                stats[row, j + 1] += moments[j, u]


@jit
def add_units_by_code(
    stats: np.ndarray, rows: np.ndarray, codes: np.ndarray, units: Any, order: np.ndarray, start: int, stop: int
) -> tuple[int, int]:
    """Add statistics and number of rows of each of the units ``order[start:stop]`` to ``stats[c]`` and ``rows[c]``."""
    # c is the code of the unit in one coordinate; 1 << 40 and -1 are returned if there are no units
    label, weight, moments, rows_of_unit = units.label, units.weight, units.moments, units.rows
    weight_all, rows_all, lowest, highest = units.weight_all, units.rows_all, np.int64(1) << 40, np.int64(-1)
    for i in range(start, stop):
        u = order[i]
        c = codes[u]
        lowest, highest = min(lowest, np.int64(c)), max(highest, np.int64(c))
        rows[c] += rows_of_unit[u & rows_all]
        unit_weight = weight[u & weight_all]
        if units.counts:
            stats[c, label[u]] += unit_weight
        else:
            stats[c, 0] += unit_weight
            if len(moments) == 2:
                stats[c, 1] += moments[0, u]
                stats[c, 2] += moments[1, u]
                continue
            for j in range(len(moments)):
                stats[c, j + 1] += moments[j, u]
    return int(lowest), int(highest)


class PlainSplit(NamedTuple):
    """A split of a cell into two children, in codes."""

    feature: int  # coordinate that is split on
    cut: int  # largest code that goes left; -1 if no code does
    categories: int  # bits of the categories that go left; -1 for an ordered feature


@dataclass(frozen=True, eq=False)
class PlainCell:
    """A cell of feature space, a box, with its merged training rows (units). Values are in codes of q coordinates."""

    merged_rows: Units  # all merged rows of the model
    index: np.ndarray  # (m,) int64: indices of the merged rows in the cell
    columns: Columns  # names and categories of the features
    # (q,) int64: first code of an ordered coordinate in the box, or the bit set of the categories of a nominal one
    low: np.ndarray
    high: np.ndarray  # (q,) int64: last code of an ordered coordinate in the box plus one, or -1 for a nominal one
    depth: int = 0
    node: int = 0  # node of the fixed tree that the cell is, for `FixedTree` only

    def span(self, feature: int) -> tuple[int, int]:
        """Return the first code of ordered coordinate ``feature`` in the box, and the last code plus one."""
        # the two coordinates of a feature with missing values have the same range, the intersection of theirs
        both = [feature, self.columns.other_coordinate[feature]]
        return int(self.low[both].max()), int(self.high[both].min())

    def codes(self, feature: int) -> np.ndarray:
        """Return the code (index of an interval or a category) of each merged row (m,) of the cell in a coordinate."""
        return self.merged_rows.codes[feature, self.index].astype(np.int64)

    @property
    def rows(self) -> np.ndarray:
        """Number of training rows (m,) in each merged row of the cell."""
        return self.merged_rows.rows[self.index & self.merged_rows.rows_all].astype(np.int64)

    @property
    def n_rows(self) -> int:
        return int(self.rows.sum())

    def rows_by_code(self, feature: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct codes of ``feature`` in the cell, ascending, and the number of training rows of each."""
        codes, rows = self.codes(feature), self.rows
        if len(codes) and codes.max() < 64 + 8 * len(codes):
            # faster than sorting if there are few codes
            present = np.flatnonzero(np.bincount(codes))
            return present, np.bincount(codes, weights=rows)[present].astype(np.int64)
        present, where = np.unique(codes, return_inverse=True)
        return present, np.bincount(where, weights=rows, minlength=len(present)).astype(np.int64)

    def stats(self, n_stats: int) -> np.ndarray:
        """Return the sums (n_stats,) over rows that the leaf model reads: weights by class, or weight and moments."""
        merged_rows = self.merged_rows
        weight = merged_rows.weight[self.index & merged_rows.weight_all]
        if merged_rows.counts:
            return np.bincount(merged_rows.label[self.index], weights=weight, minlength=n_stats).astype(np.float64)
        return np.concatenate([[weight.sum()], merged_rows.moments[:, self.index].sum(axis=1)])

    def goes_left(self, split: PlainSplit) -> np.ndarray:
        return codes_go_left(self.codes(split.feature), split.cut, split.categories)

    def split(self, split: PlainSplit, nodes: tuple[int, int] = (0, 0)) -> tuple[PlainCell, PlainCell]:
        """Return the left and right child by ``split``; ``nodes`` are their indices in a fixed tree, 0 without one."""
        goes_left, k = self.goes_left(split), split.feature
        children = []
        for is_left, rows, node in ((True, goes_left, nodes[0]), (False, ~goes_left, nodes[1])):
            low, high = self.low.copy(), self.high.copy()
            if split.categories >= 0:
                low[k] &= split.categories if is_left else ~split.categories
            else:
                (high if is_left else low)[k] = split.cut + 1
            deeper = self.depth + 1
            children.append(replace(self, index=self.index[rows], low=low, high=high, depth=deeper, node=node))
        return children[0], children[1]


def root_cell(merged_rows: Units, columns: Columns, n_codes: np.ndarray) -> PlainCell:
    """Return the cell that contains all rows of a model; ``n_codes`` (q,) counts the codes of each coordinate."""
    is_nominal = columns.is_nominal[columns.source]
    low = np.where(is_nominal, (1 << np.where(is_nominal, n_codes, 0)) - 1, 0).astype(np.int64)
    high = np.where(is_nominal, -1, n_codes).astype(np.int64)
    return PlainCell(merged_rows, np.arange(merged_rows.n_units), columns, low, high)


def set_bits(mask: int) -> list[int]:
    return [j for j in range(int(mask).bit_length()) if mask >> j & 1]
