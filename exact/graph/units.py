"""Scores of cells, for all builders."""

from typing import Any

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model.leaf.compiled import add_scores_into


@jit
def cell_scores(model: Any, stats: np.ndarray) -> np.ndarray:
    """Log scores (n_cells,) of cells with ``stats``, nats."""
    out = np.zeros(len(stats))
    add_scores_into(out, model.leaf, stats, len(stats))
    return out
