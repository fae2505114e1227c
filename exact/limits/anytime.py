"""The exact engine with a budget: the graph of cells grown best first, with bounds if not all cells fit."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pactree_mcmc.model import TreeModel

from ..answers import log_sum, log_sums, occurrences
from ..graph.build import ADD, expand_some
from ..graph.building import Building
from ..graph.cells import CellGraph, slot_depths, with_slots
from ..recursion.terms import by_slot, with_terms
from ..visited import VisitedPosterior
from .ceilings import Ceiling, ceiling_of, sum_points
from .intractable import Limit

GROWTH = 0.5
"""Number of cells expanded in a round, relative to those expanded before."""
HOPE, MOST_HOPE = 0.3, 50.0
"""Power of the largest gain of a cell by which cells are chosen, and the largest exponent."""
LOWERS_BOUND = 5
"""Every so many rounds the cells that hold most of the upper bound are expanded."""


class Frontier:
    """The cells that are not expanded, and upper bounds of what they can add."""

    def __init__(self, model: TreeModel, graph: CellGraph, is_open: np.ndarray, ceiling: Any, sums: np.ndarray) -> None:
        self.graph, self.is_open = graph, by_slot(graph, is_open) & (graph.log_split > -np.inf)
        self.is_bounded = isinstance(ceiling, Ceiling)
        # without a bound the value of the cell as a leaf takes its place
        self.log_most = np.where(self.is_open, graph.log_split + by_slot(graph, graph.score), -np.inf)
        if isinstance(ceiling, Ceiling):
            slots = np.flatnonzero(self.is_open)
            cell = np.repeat(np.arange(graph.n_cells), np.diff(graph.first_slot))[slots]
            self.log_most[slots] = ceiling.log_most(sums[cell], slot_depths(model, graph)[slots])

    def upper_graph(self) -> CellGraph:
        """Return the graph in which a cell that is not expanded has at least the sum over all trees below it."""
        return with_terms(self.graph, log_stop=np.logaddexp(self.graph.log_stop, self.log_most))

    def log_upper(self) -> float:
        """Return the log of an upper bound of the sum over all trees, without the constant of the prior, or inf."""
        if not self.is_open.any():
            return log_sum(self.graph)
        return log_sum(self.upper_graph()) if self.is_bounded else np.inf

    def promise(self) -> np.ndarray:
        """Return the likely gain of expanding each cell, (n_cells,), in arbitrary units.

        This is the probability of the cell as a leaf, times a power of its largest gain. The bound itself is too loose
        for this: by it alone the engine would expand only the largest cells and never reach a probable tree.
        """
        graph, log_inside = self.graph, log_sums(self.graph)
        log_leaf = graph.log_stop - log_inside
        gain = np.where(self.is_open, np.minimum(HOPE * (self.log_most - graph.log_stop), MOST_HOPE), 0.0)
        leaf = np.where(self.is_open, occurrences(graph, log_inside).slot * np.exp(log_leaf), 0.0)
        return np.add.reduceat(leaf * np.exp(np.maximum(gain, 0.0)), graph.first_slot[:-1])

    def excess(self) -> np.ndarray:
        """Return the part of the upper bound that is due to the bound of each cell, (n_cells,)."""
        graph = self.upper_graph()
        log_inside = log_sums(graph)
        part = np.where(self.is_open, occurrences(graph, log_inside).slot * np.exp(self.log_most - log_inside), 0.0)
        return np.add.reduceat(part, graph.first_slot[:-1])


def grow_best_first(model: TreeModel, budget: int, limit: Limit) -> VisitedPosterior:
    """Expand the cells that may add most, until none remains or there are ``budget`` cells."""
    building, is_expanded, n_rounds = Building(model, limit), np.zeros(0, dtype=bool), 0
    ceiling = ceiling_of(model, building.points)
    values = ceiling.values if isinstance(ceiling, Ceiling) else np.zeros((building.points.codes.shape[1], 0))
    sums, which = np.zeros((0, values.shape[1])), np.zeros(1, dtype=np.int64)
    while True:
        building.start_round()
        building.run(partial(_expand, which, budget))
        n_rounds, n_known = n_rounds + 1, len(sums)
        sums = np.concatenate([sums, np.zeros((building.n_cells - n_known, values.shape[1]))])
        is_expanded = np.concatenate([is_expanded, np.zeros(building.n_cells - n_known, dtype=bool)])
        is_expanded[which[: building.n_done]] = True
        building.apply(partial(_sum, n_known, values, sums))
        columns, is_splittable, number = building.columns()
        graph = with_slots(model, columns, is_splittable)
        frontier = Frontier(model, graph, ~is_expanded[number], ceiling, sums[number])
        if not frontier.is_open.any() or building.n_cells >= budget:
            upper = frontier.log_upper() + model.prior_tables.log_constant
            no_bound = ceiling if isinstance(ceiling, str) and upper == np.inf else None
            return VisitedPosterior(model, graph, None, upper, no_bound)
        promise = frontier.excess() if frontier.is_bounded and n_rounds % LOWERS_BOUND == 0 else frontier.promise()
        most = max(1, int(GROWTH * is_expanded.sum()))
        best = np.argsort(-promise, kind="stable")[:most]
        which = number[best[promise[best] > 0.0]]
        if not len(which):
            which = number[np.flatnonzero(~is_expanded[number] & (np.diff(graph.first_edge) == 0))[:most]]


def _expand(which: np.ndarray, budget: int, lowered: Any, work: Any) -> int:
    return expand_some(lowered, work, which, budget, ADD)


def _sum(first: int, values: np.ndarray, sums: np.ndarray, lowered: Any, work: Any) -> None:
    sum_points(lowered, work, first, values, sums)
