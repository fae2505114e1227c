"""Trees that are split down to the leaves of a root fragment one by one, and chosen below them by their size."""

from typing import NamedTuple

import numpy as np

from ..graph.cells import children
from .algebras import choose
from .hulls import Hull

INSIDE = -1
"""What is wanted of a slot that a fragment has not ended above."""


class Fragments(NamedTuple):
    """The best tree and root fragment: (max, +) over the splits of the fragment, hulls below its leaves."""

    hull: Hull
    value: np.ndarray
    """(n_slots,) float64: weight of the best tree and fragment below a slot."""
    stop: np.ndarray
    """(n_slots,) float64: that of the best tree if the fragment ends at the slot."""
    corner: np.ndarray
    """(n_slots,) int64: the corner of the hull that this tree is."""


@choose.register(Fragments)
def _(semiring, rng, graph, cell, slot, below, wanted):
    """``wanted`` is INSIDE, or a corner of the slot's hull."""
    if wanted != INSIDE:
        return choose(semiring.hull, rng, graph, cell, slot, below, wanted)
    best, top = -1, semiring.stop[slot]
    if graph.log_split[slot] > -np.inf:
        for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
            left, right = children(graph, e, below)
            term = graph.log_split[slot] + graph.log_rule[e] + semiring.value[left] + semiring.value[right]
            if term > top:
                best, top = e, term
    if best < 0:
        return choose(semiring.hull, rng, graph, cell, slot, below, semiring.corner[slot])
    return best, INSIDE, INSIDE
