"""Cells of a graph as sets of training rows, and its splits as partitions of such sets, with exact probabilities.

Nodes of a tree with the same rows are on one path, so the probability of a set of rows is that of its topmost node. It
is a sum over the splits that lead to the set from another one (formulas, sections 6 and 12.5).
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from pactree_mcmc.posterior.laws import CellErrors, CellLaw
from pactree_mcmc.posterior.trees.paths import Condition, conditions_in_words

from .graph.boxes import unpack_cuts
from .recursion.rows import RowSets, distinct_row_sets, path_probabilities, weights_of_cells
from .rows import GraphRows


class RowSetProbabilities(NamedTuple):
    """Posterior probabilities that a tree has a node with a given set of rows, or one split into two given sets."""

    of_cell: np.ndarray  # (n_sets,): probability that some node of the tree has this set of rows
    of_split: np.ndarray  # (n_splits,): probability that some node is split into these two sets
    sides: np.ndarray  # (n_splits, 2): numbers of the two sets of each split, the lower number first
    edge: np.ndarray  # (n_splits,): most probable edge of the graph that makes this partition


class GraphCells(CellLaw):
    """Cells and splits of the trees of a graph. Their rows are found when first asked for."""

    def __init__(self, rows: GraphRows) -> None:
        self.model, self.graph, self._of_rows = rows.model, rows.graph, rows

    @property
    def key(self) -> np.ndarray:  # type: ignore[override]
        return self._row_sets.key

    @property
    def sides(self) -> np.ndarray:  # type: ignore[override]
        return self._row_set_probabilities.sides

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self._row_sets.n_rows

    @property
    def n_rows_of_model(self) -> int:  # type: ignore[override]
        return self._row_sets.n_rows_of_model

    @property
    def probability(self) -> np.ndarray:
        return self._row_set_probabilities.of_cell

    @property
    def split_probability(self) -> np.ndarray:
        return self._row_set_probabilities.of_split

    def cell_words(self, cell: int) -> str:
        return conditions_in_words(self.model.columns, self._conditions_above(int(self._row_sets.first[cell])))

    def split_words(self, split: int) -> tuple[str, str]:
        edge = int(self._row_set_probabilities.edge[split])
        above, columns = self._conditions_above(int(self._parent_of_edge[edge])), self.model.columns
        return conditions_in_words(columns, above), conditions_in_words(columns, [self._condition(edge, True)], above)

    def rows(self, cells: np.ndarray, splits: np.ndarray) -> np.ndarray:
        parent = self._parent_of_edge[self._row_set_probabilities.edge[splits]]
        graph_cells = np.concatenate([self._row_sets.first[cells], parent])
        if self.model.leaf.weighs_rows:
            return self.model.leaf.weight(self.graph.stats)[graph_cells]
        return self._weight_of_cell[graph_cells]

    def errors(self, cells: np.ndarray, splits: np.ndarray) -> CellErrors:
        m = len(cells) + len(splits)
        return CellErrors(
            np.empty((m, 0)), np.ones(m), np.full(m, np.inf), np.zeros(m), np.empty((m, 0), dtype=np.bool_)
        )

    def path_probability(self, parent: np.ndarray, key: np.ndarray) -> np.ndarray:
        sets = self._row_sets.of_cell
        return path_probabilities(self.graph, self._of_rows.log_inside, sets, parent, self.numbers_of(key))

    @cached_property
    def _parent_of_edge(self) -> np.ndarray:
        """(n_edges,): number of the cell of each split."""
        return np.repeat(np.arange(self.graph.n_cells), np.diff(self.graph.first_edge))

    @cached_property
    def _weight_of_cell(self) -> np.ndarray:
        """Total weight (n_cells,) of the training rows in each cell."""
        return weights_of_cells(self.model, self.graph, self._of_rows.cell_paths)

    @cached_property
    def _row_sets(self) -> RowSets:
        """The distinct sets of training rows of the cells. Cells with the same rows have one set."""
        return distinct_row_sets(self.model, self.graph, self._of_rows.cell_paths)

    @cached_property
    def _row_set_probabilities(self) -> RowSetProbabilities:
        """Posterior probabilities of the sets of rows, and of their partitions by splits."""
        sets, split_occurrences, graph = self._row_sets, self._of_rows.occurrences.split, self.graph
        parent_set, left, right = (sets.of_cell[cells] for cells in (self._parent_of_edge, graph.left, graph.right))
        of_cell = np.zeros(len(sets.key))
        of_cell[0] = 1.0
        for child_set in (left, right):
            enters = (child_set >= 0) & (child_set != parent_set)
            of_cell += np.bincount(child_set[enters], weights=split_occurrences[enters], minlength=len(of_cell))
        edges = np.flatnonzero((left >= 0) & (right >= 0) & (split_occurrences > 0.0))
        low, high = np.minimum(left, right)[edges], np.maximum(left, right)[edges]
        pairs, first, pair_of_edge = np.unique(low * len(of_cell) + high, return_index=True, return_inverse=True)
        most_probable = edges[first]
        order = np.argsort(split_occurrences[edges], kind="stable")
        most_probable[pair_of_edge[order]] = edges[order]
        of_split = np.bincount(pair_of_edge, weights=split_occurrences[edges], minlength=len(pairs))
        sides = np.column_stack([pairs // len(of_cell), pairs % len(of_cell)])
        return RowSetProbabilities(of_cell.clip(0.0, 1.0), of_split.clip(0.0, 1.0), sides, most_probable)

    def _conditions_above(self, cell: int) -> list[Condition]:
        """Return the conditions on the most probable path to a cell, from the root on."""
        paths, conditions = self._of_rows.cell_paths, []
        while paths.edge[cell] >= 0:
            edge = int(paths.edge[cell])
            conditions.append(self._condition(edge, int(paths.side[cell]) == 0))
            cell = int(self._parent_of_edge[edge])
        return conditions[::-1]

    def _condition(self, edge: int, left: bool) -> Condition:
        """Return the condition on a row that the split ``edge`` sends left, or right if ``left`` is False."""
        graph, columns = self.graph, self.model.columns
        c, split = int(graph.feature[edge]), int(graph.split[edge])
        k = int(columns.source[c])
        if columns.categories[k] is not None:
            return Condition(k, 0.0, split, False, left)
        scale, codes = self.model.scales[c], unpack_cuts(split)
        low, high = scale.between(*codes)[0].tolist()
        return Condition(k, float(scale.threshold(*codes)[0]), -1, c < columns.n_features, left, low, high)
