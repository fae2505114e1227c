"""Merged rows (units) of a model, and sums of their statistics."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.compile.jit import jit
from ..files.encoding import register_class
from .leaf.base import Leaf, Target


@register_class
class Units(NamedTuple):
    """Merged rows in the form that compiled code uses. A unit is a set of merged rows; there are U units."""

    # weights that are all equal, and row counts that are all 1, are stored once
    codes: np.ndarray  # (q, U) unsigned: the code of each coordinate
    # true if the statistics of a cell are weights by label, False if they are the total weight and sums of moments
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
        """Number of units."""
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
    merged_codes = flat[: len(codes) * n_units].reshape(len(codes), n_units)
    return MergedRows(sum_units(merged_codes, group, leaf, target), group)


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
def add_units(stats: np.ndarray, row: int, merged_rows: Any, order: np.ndarray, start: int, stop: int) -> None:
    """Add statistics of the units ``order[start:stop]`` of merged rows, in this order, to ``stats[row]``, a cell's."""
    label, weight, weight_all, moments = (
        merged_rows.label,
        merged_rows.weight,
        merged_rows.weight_all,
        merged_rows.moments,
    )
    if merged_rows.counts:
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
    stats: np.ndarray, target_rows: np.ndarray, merged_rows: Any, order: np.ndarray, start: int, stop: int
) -> None:
    """Add statistics of the i-th of the units ``order[start:stop]`` of merged rows to ``stats[target_rows[i]]``."""
    # each row of `stats` has the sums of one set of units, such as those with the same code
    label, weight, weight_all, moments = (
        merged_rows.label,
        merged_rows.weight,
        merged_rows.weight_all,
        merged_rows.moments,
    )
    if merged_rows.counts:
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
