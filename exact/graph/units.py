"""What the builders share: adding a unit to a cell, the scores of cells."""

from typing import Any

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model.leaf.compiled import add_scores_into


@jit
def add_unit(stats: np.ndarray, rows: np.ndarray, cell: int, units: Any, i: int) -> None:
    """Add the statistics and the rows of unit ``i`` to those of a cell."""
    rows[cell] += units.rows[i & units.rows_all]
    weight = units.weight[i & units.weight_all]
    if units.counts:
        stats[cell, units.label[i]] += weight
    else:
        stats[cell, 0] += weight
        stats[cell, 1] += units.moments[0, i]
        stats[cell, 2] += units.moments[1, i]


@jit
def cell_scores(model: Any, stats: np.ndarray) -> np.ndarray:
    """Log scores (n_cells,) of cells with ``stats``, nats."""
    out = np.zeros(len(stats))
    add_scores_into(out, model.leaf, stats, len(stats))
    return out
