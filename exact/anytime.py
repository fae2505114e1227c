"""The exact engine with a budget: the graph of cells grown best first, with bounds if not all cells fit."""

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
"""Number of cells expanded in a round, relative to those expanded before."""
HOPE, MOST_HOPE = 0.3, 50.0
"""Power of the largest gain of a cell by which cells are chosen, and the largest exponent."""


class Frontier:
    """The cells that are not expanded, and upper bounds of what they can add."""

    def __init__(self, model: TreeModel, graph: CellGraph, is_open: np.ndarray) -> None:
        self.graph, self.is_open = graph, by_slot(graph, is_open) & (graph.log_split > -np.inf)
        most = most_likely(model, graph)
        self.bounded = most is not None
        # at best the whole prior below a cell has the largest likelihood of any tree there
        best = by_slot(graph, graph.score if most is None else most)
        self.log_most = np.where(self.is_open, graph.log_split + best, -np.inf)

    def log_upper(self) -> float:
        """Returns the log of an upper bound of the sum over all trees, without the prior's constant; inf if there is
        none.
        """
        if not self.is_open.any():
            return log_sum(self.graph)
        if not self.bounded:
            return np.inf
        graph = self.graph
        return log_sum(with_terms(graph, log_stop=np.logaddexp(graph.log_stop, self.log_most)))

    def promise(self, log_inside: np.ndarray) -> np.ndarray:
        """Returns how much expanding each cell is likely to increase the sum, (n_cells,), in arbitrary units.

        This is the probability of the cell as a leaf, times a power of its largest gain. The bound itself is too loose
        for this: by it the engine would expand only the largest cells and never reach a probable tree.
        """
        graph = self.graph
        log_leaf = graph.log_stop - log_inside
        gain = np.where(self.is_open, np.minimum(HOPE * (self.log_most - graph.log_stop), MOST_HOPE), 0.0)
        leaf = np.where(self.is_open, occurrences(graph, log_inside).slot * np.exp(log_leaf), 0.0)
        return np.add.reduceat(leaf * np.exp(np.maximum(gain, 0.0)), graph.first_slot[:-1])


def most_likely(model: TreeModel, graph: CellGraph) -> np.ndarray | None:
    """Returns the log of the largest likelihood (n_cells,) of any tree below each cell, or None if it is not known.

    For class counts it is that of one leaf for each class: the probability of a row increases with the rows of its own
    class in the leaf and decreases with those of others. The mass of the prior must not exceed 1, or the sum over trees
    could be larger.
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
    """Expands the cells that may add most, until none is left or there are ``budget`` cells."""
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
