"""What merged rows add to the statistics of the cell that holds them: the one place that adds."""

from typing import Any, NamedTuple

import numpy as np

from ..core.compile.jit import inlined


class UnitStats(NamedTuple):
    """The statistics of units, in local variables of a loop; those of `Units`, which describes them."""

    counts: bool
    label: np.ndarray
    weight: np.ndarray
    weight_all: int
    moments: np.ndarray


@inlined
def stats_of(units: Any) -> UnitStats:
    """The statistics of units, taken out of their record once for a loop over many."""
    return UnitStats(units.counts, units.label, units.weight, units.weight_all, units.moments)


@inlined
def add_unit(stats: np.ndarray, at: tuple, own: UnitStats, u: int) -> None:
    """Add the statistics of unit ``u`` to the row ``stats[at]``, of an array with one axis more than ``at`` is long."""
    weight = own.weight[u & own.weight_all]
    if own.counts:
        stats[at + (np.int64(own.label[u]),)] += weight
    else:
        stats[at + (np.int64(0),)] += weight
        if len(own.moments) == 2:
            # unrolled: the loop takes twice as long
            stats[at + (np.int64(1),)] += own.moments[0, u]
            stats[at + (np.int64(2),)] += own.moments[1, u]
        else:
            for j in range(len(own.moments)):
                stats[at + (np.int64(j + 1),)] += own.moments[j, u]
