"""Sums of the statistics of merged rows.

These functions contain whole loops: compiled code counts references to the arrays that it passes to a function, and in
the innermost loop this would take longer than the sums.
"""

from typing import Any, NamedTuple

import numpy as np

from ..core.compile.jit import jit


class UnitStats(NamedTuple):
    """The statistics of units; the fields are those of `Units`, which describes them and serves as well."""

    counts: bool
    label: np.ndarray
    weight: np.ndarray
    weight_all: int
    moments: np.ndarray


@jit
def add_unit(stats: np.ndarray, row: int, units: Any, u: int) -> None:
    """Add the statistics of unit ``u`` to ``stats[row]``."""
    weight, moments = units.weight[u & units.weight_all], units.moments
    if units.counts:
        stats[row, units.label[u]] += weight
    else:
        stats[row, 0] += weight
        for j in range(len(moments)):
            stats[row, j + 1] += moments[j, u]


@jit
def add_units(stats: np.ndarray, row: int, units: Any, order: np.ndarray, start: int, stop: int) -> None:
    """Add the statistics of the units ``order[start:stop]``, in this order, to ``stats[row]``."""
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
def scatter_units(stats: np.ndarray, to: np.ndarray, units: Any, order: np.ndarray, start: int, stop: int) -> None:
    """Add the statistics of the units ``order[start:stop]`` to the rows ``to[0], to[1], ...`` of ``stats``."""
    label, weight, weight_all, moments = units.label, units.weight, units.weight_all, units.moments
    if units.counts:
        for i in range(start, stop):
            u = order[i]
            stats[to[i - start], label[u]] += weight[u & weight_all]
    elif len(moments) == 2:
        for i in range(start, stop):
            u, row = order[i], to[i - start]
            stats[row, 0] += weight[u & weight_all]
            stats[row, 1] += moments[0, u]
            stats[row, 2] += moments[1, u]
    else:
        for i in range(start, stop):
            u, row = order[i], to[i - start]
            stats[row, 0] += weight[u & weight_all]
            for j in range(len(moments)):
                stats[row, j + 1] += moments[j, u]
