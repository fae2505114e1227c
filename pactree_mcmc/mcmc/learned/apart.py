"""Two densities fitted apart, to the trees of either half of the chains, and the evidence that each finds.

The mean weight ``pi(T) / g(T)`` of trees drawn from a density g is an unbiased estimate of the evidence, seldom many
times too large. A density that misses a mode hardly draws it: its weights are then nearly constant and its estimate is
too small by what the mode has, with nothing of its own to show it. One fitted to other chains, that has the mode, can.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...model import TreeModel
from ...posterior.evidence import evidence_constant
from ..state.arrays import first_density
from .decisions import Decisions
from .fit import fit_density, joined_decisions


def fitted_halves(rounds: Sequence[dict[int, Decisions]], p: int) -> list[np.ndarray]:
    """Densities of ``p`` features fitted to what chains of even number decided in some rounds, and those of odd number.

    ``rounds``: by chain. Neither knows of the other's, nor of a density fitted before; fewer than two where a half of
    the chains is missing.
    """
    halves = [[part for found in rounds for c, part in found.items() if c % 2 == half] for half in range(2)]
    return [fit_density(joined_decisions(parts), first_density(p)) for parts in halves if parts]


def evidence_of(log_weights: np.ndarray) -> tuple[float, float, float]:
    """Log of the mean weight, its standard error relative to the mean, and the effective number of draws (Kish).

    Examples
    --------
    >>> log_mean, se, effective = evidence_of(np.log([1.0, 3.0]))
    >>> round(float(np.exp(log_mean)), 6), round(se, 6), round(effective, 6)
    (2.0, 0.5, 1.6)
    """
    highest = log_weights.max()
    if not highest > -np.inf:
        return -np.inf, np.inf, 0.0
    w = np.exp(log_weights - highest)
    se = float(w.std(ddof=1) / (np.sqrt(len(w)) * w.mean()))
    return float(highest + np.log(w.mean())), se, float(w.sum() ** 2 / (w**2).sum())


def fits_of(weights: Sequence[np.ndarray], model: TreeModel) -> np.ndarray | None:
    """`Course.fits` by the log weights of trees drawn from two densities; None where either drew none of any weight."""
    fits = np.array([evidence_of(w) for w in weights])
    if not np.isfinite(fits).all():
        return None
    fits[:, 0] += evidence_constant(model)
    return fits
