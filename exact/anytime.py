"""The exact engine within a budget: the graph of cells grown best first, bounds where not all fits."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pactree_mcmc.core.special import gammaln
from pactree_mcmc.model import DirichletMultinomial, TreeModel
from pactree_mcmc.posterior.evidence import prior_mass

from .answers import log_sum, log_sums, occurrences
from .graph.cells import CellGraph
from .graph.limits import Limit
from .graph.visited import Building, expand_some
from .recursion.terms import by_slot, with_terms
from .visited import VisitedPosterior

GROWTH = 0.5
"""Cells looked at in a round, over those looked at before."""
HOPE, MOST_HOPE = 0.3, 50.0
"""Power of what a cell may gain at most, by which cells are chosen, and the largest exponent."""


class Frontier:
    """Cells whose splits were not listed, and what they may add at most."""

    def __init__(self, model: TreeModel, graph: CellGraph, is_open: np.ndarray) -> None:
        self.graph, self.is_open = graph, by_slot(graph, is_open) & (graph.log_split > -np.inf)
        most = most_likely(model, graph)
        self.bounded = most is not None
        # a prior of one likelihood at best, the largest that any tree below could have
        best = by_slot(graph, graph.score if most is None else most)
        self.log_most = np.where(self.is_open, graph.log_split + best, -np.inf)

    def log_upper(self) -> float:
        """Log of at least the sum over all trees, without the prior's constant; infinite where there is no bound."""
        if not self.is_open.any():
            return log_sum(self.graph)
        if not self.bounded:
            return np.inf
        graph = self.graph
        return log_sum(with_terms(graph, log_stop=np.logaddexp(graph.log_stop, self.log_most)))

    def promise(self, log_inside: np.ndarray) -> np.ndarray:
        """By how much looking at each cell is likely to raise the sum, (n_cells,), on no particular scale.

        How probable the cell is as a leaf, times a power of what it may gain: the bound itself is so far off that by it
        the engine would go through the largest cells and reach no tree worth the name.
        """
        graph = self.graph
        log_leaf = graph.log_stop - log_inside
        gain = np.where(self.is_open, np.minimum(HOPE * (self.log_most - graph.log_stop), MOST_HOPE), 0.0)
        leaf = np.where(self.is_open, occurrences(graph, log_inside).slot * np.exp(log_leaf), 0.0)
        return np.add.reduceat(leaf * np.exp(np.maximum(gain, 0.0)), graph.first_slot[:-1])


def most_likely(model: TreeModel, graph: CellGraph) -> np.ndarray | None:
    """Log of the largest likelihood (n_cells,) that any tree below each cell can have; None where none is known.

    Of class counts: every class in a leaf of its own. A row is likelier in a leaf with fewer rows of other classes, and
    with more of its own. The mass of the prior must not exceed 1, or the sum over trees might be larger.
    """
    if type(model.leaf) is not DirichletMultinomial or prior_mass(model).log_mass is None:
        return None
    alpha = np.broadcast_to(np.asarray(model.leaf.alpha, dtype=np.float64), graph.stats.shape[1])
    total = alpha.sum()
    alone = gammaln(alpha + graph.stats) - gammaln(alpha) - gammaln(total + graph.stats) + gammaln(total)
    return alone.sum(axis=1)


def _look(which: np.ndarray, budget: int, lowered: Any, work: Any, visits: Any) -> int:
    return expand_some(lowered, work, visits, which, budget)


def grow_best_first(model: TreeModel, budget: int, limit: Limit) -> VisitedPosterior:
    """Look at the cells that may add most, until none is left or there are ``budget`` cells."""
    building, looked = Building(model, limit), np.zeros(0, dtype=bool)
    which = np.zeros(1, dtype=np.int64)
    while True:
        building.start_round()
        building.run(partial(_look, which, budget))
        done = which[: building.n_done]
        looked = np.concatenate([looked, np.zeros(building.n_cells - len(looked), dtype=bool)])
        looked[done] = True
        graph, number = building.graph()
        frontier = Frontier(model, graph, ~looked[number])
        if not frontier.is_open.any() or building.n_cells >= budget:
            upper = frontier.log_upper() + model.prior_tables.log_constant
            return VisitedPosterior(model, graph, None, upper)
        promise = frontier.promise(log_sums(graph))
        most = max(1, int(GROWTH * looked.sum()))
        best = np.argsort(-promise, kind="stable")[:most]
        which = number[best[promise[best] > 0.0]]
        if not len(which):
            which = number[np.flatnonzero(~looked[number] & (np.diff(graph.first_edge) == 0))[:most]]
