"""Places where rows end, cells of the graph, and cells as sets of training rows, with their exact probabilities.

The prediction for a row is a sum over the cells that contain the row: the probability that the cell is a leaf, times
the prediction of the cell. A row has *certain* cells if for each cell either every path from the root sends the row
there, or none does. One pass over the graph finds the cells of all such rows. Under local cuts these are the rows equal
to a training row, since a threshold between two values depends on the other rows of the cell. For other rows
probabilities are sent down the graph.

**Sets of rows.** Splits are partitions of such sets. Nodes of a tree with the same rows are on one path, so the
probability of a set of rows is that of its topmost node. It is a sum over the splits that lead to the set from another
one (formulas, sections 6 and 12.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pactree_mcmc.core.texts import with_short_repr
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.leaf.distributions import Mixture
from pactree_mcmc.model.split_prior.base import call_uncompiled, parts_rows
from pactree_mcmc.posterior.laws import MAX_PLACES_PER_BLOCK, MAX_ROUNDING_PROBABILITY, CellErrors, CellLaw, RowLaw
from pactree_mcmc.posterior.trees.paths import Condition, conditions_in_words
from pactree_mcmc.table.coding import DyadicScale, Scale

from . import sums
from .graph.boxes import unpack_cuts
from .graph.cells import CellGraph
from .recursion.inside_outside import Occurrences
from .recursion.rows import (
    CellPaths,
    CellRows,
    PathPredictions,
    Router,
    RowLeaves,
    RowSets,
    distinct_row_sets,
    is_fixed_design,
    leaves_of_rows,
    mean_leaf_values,
    most_probable_paths,
    path_probabilities,
    rows_of_cells,
    weights_of_cells,
)


@with_short_repr
class CellProbabilities(NamedTuple):
    """Expected number of times that each cell of the graph occurs in a tree; for a cell with rows, its probability."""

    leaf: np.ndarray
    """(n_cells,): expected number of leaves that are this cell."""
    split: np.ndarray
    """(n_cells,): expected number of inner nodes that are this cell."""


class NewRows(NamedTuple):
    """New rows as numbers and codes, by coordinate: a feature has one, or two if it has missing values."""

    x: np.ndarray  # (n, q) float64: numbers
    codes: np.ndarray  # (n, q) int64: codes, -1 for an unknown category
    has_certain_cells: np.ndarray  # (n,) bool: True for a row whose cells do not depend on the path to them


class GraphRows(RowLaw):
    """Places where rows end under the trees of a graph: its cells. Sums are computed when first asked for."""

    def __init__(self, model: TreeModel, graph: CellGraph, log_inside: np.ndarray) -> None:
        self.model, self.graph, self.log_inside, self.place_stats = model, graph, log_inside, graph.stats

    @property
    def place_tree(self) -> np.ndarray:
        return np.arange(self.graph.n_cells)

    @cached_property
    def occurrences(self) -> Occurrences:
        """Expected numbers of occurrences of each slot and each split in a tree."""
        return sums.occurrences(self.graph, self.log_inside)

    @cached_property
    def cell_probabilities(self) -> CellProbabilities:
        """Probabilities that each cell is a leaf, and is split, in a tree."""
        occurs = self.occurrences.slot
        leaf = occurs * np.exp(self.graph.log_stop - np.maximum(self.log_inside, np.finfo(float).min))
        first = self.graph.first_slot[:-1]
        return CellProbabilities(np.add.reduceat(leaf, first), np.add.reduceat(occurs - leaf, first))

    @cached_property
    def cell_paths(self) -> CellPaths:
        """The most probable path from the root to each cell."""
        return most_probable_paths(self.graph, self.occurrences.split)

    def reach(self, X: np.ndarray) -> Iterator[tuple[np.ndarray, Mixture]]:
        x, codes, is_certain = self._code_rows(X)
        certain, uncertain = np.flatnonzero(is_certain), np.flatnonzero(~is_certain)
        for block in self._blocks(codes[certain][:, self._split_coordinates]):
            leaves = self._leaves_by_cells(codes[certain[block]][:, self._split_coordinates])
            yield certain[block], as_mixture(leaves, len(certain[block]))
        for first, leaves in leaves_of_rows(self.graph, self.log_inside, self._router, x[uncertain], codes[uncertain]):
            n = int(leaves.row.max()) + 1
            yield uncertain[first : first + n], as_mixture(leaves, n)

    def average(self, X: np.ndarray, by_place: np.ndarray) -> np.ndarray:
        by_cell = np.ascontiguousarray(by_place)
        if is_fixed_design(self.model):
            return PathPredictions(self.model, self.graph, *self.cell_probabilities, by_cell)(X)
        x, codes, certain = self._code_rows(X)
        out = np.empty((len(X), by_cell.shape[1]))
        distinct, of_row = np.unique(codes[certain][:, self._split_coordinates], axis=0, return_inverse=True)
        out[certain] = self._means_of_certain_rows(distinct, by_cell)[of_row.reshape(-1)]
        uncertain = ~certain
        if uncertain.any():
            arguments = self.graph, self.log_inside, self._router
            out[uncertain] = mean_leaf_values(*arguments, x[uncertain], codes[uncertain], by_cell)
        return out

    def values(self, X: np.ndarray) -> np.ndarray:
        if is_fixed_design(self.model) and self.model.leaf.x_columns is None:
            return self._paths(X)
        return super().values(X)

    @cached_property
    def _paths(self) -> PathPredictions:
        """Predictions of a fixed design, in which the cells of a row form one path."""
        return PathPredictions(self.model, self.graph, *self.cell_probabilities, self.place_values)

    @cached_property
    def _router(self) -> Router:
        """Values of the training rows that determine to which side of a split a new row goes."""
        model = self.model
        local = call_uncompiled(parts_rows, model.split_prior)
        lows = [s.low if local and isinstance(s, Scale) else np.empty(0) for s in model.scales]
        highs = [s.high if local and isinstance(s, Scale) else np.empty(0) for s in model.scales]
        offset = np.concatenate([[0], np.cumsum([len(a) for a in lows])[:-1]]).astype(np.int64)
        low, high = np.concatenate([*lows, [0.0]]), np.concatenate([*highs, [0.0]])
        return Router(local, low, high, offset, model.n_codes, model.columns.is_nominal[model.columns.source])

    @cached_property
    def _split_coordinates(self) -> np.ndarray:
        """Numbers of the coordinates (features, two for one with missing values) that splits use, ascending."""
        return np.unique(self.graph.feature)

    def _means_of_certain_rows(self, codes: np.ndarray, by_cell: np.ndarray) -> np.ndarray:
        """Return the mean leaf values (n, d) of rows whose cells do not depend on the path, in one pass."""
        leaf = self.cell_probabilities.leaf
        out, total = np.zeros((len(codes), by_cell.shape[1])), np.zeros(len(codes))
        for chunk in self._rows_in_cells(codes):
            cell = np.repeat(chunk.cell, np.diff(chunk.first))
            total += np.bincount(chunk.row, leaf[cell], len(codes))
            for j in range(out.shape[1]):
                out[:, j] += np.bincount(chunk.row, leaf[cell] * by_cell[cell, j], len(codes))
        empty = self._empty_cell
        if empty is not None:
            out += (1.0 - total).clip(0.0)[:, None] * by_cell[empty]
        return out

    def _rows_in_cells(self, codes: np.ndarray) -> Iterator[CellRows]:
        """Yield which of some rows, whose cells do not depend on the path, are in each cell that has training rows."""
        all_codes = np.zeros((len(self._router.nominal), len(codes)), dtype=np.int64)
        all_codes[self._split_coordinates] = codes.T
        return rows_of_cells(self.graph, self.cell_paths, all_codes, self._router.nominal)

    @cached_property
    def _empty_cell(self) -> int | None:
        """Number of a cell without training rows that new rows can reach, or None. All such cells predict the same."""
        empty = (self.graph.rows == 0) & (not self._router.local)
        return int(np.argmax(empty)) if empty.any() else None

    def _code_rows(self, X: np.ndarray) -> NewRows:
        """Return rows of numbers (n, p) by coordinate, with their codes, and whether their cells are certain."""
        # a coordinate is a feature, or one of two orders of a feature with missing values. The cells of a row are
        # certain if it is on the same side of a cut in every cell.
        X = self.model.columns.in_coordinates(X)
        codes, is_certain = np.zeros(X.shape, dtype=np.int64), np.ones(X.shape, dtype=np.bool_)
        for c, scale in enumerate(self.model.scales):
            x = X[:, c]
            if self._router.nominal[c]:
                codes[:, c], is_certain[:, c] = x, x >= 0.0
            elif isinstance(scale, DyadicScale):
                codes[:, c], is_certain[:, c] = scale.encode(x), ~np.isnan(x)
            elif self._router.local:
                codes[:, c], is_certain[:, c] = self._local_codes(scale, x)
            else:
                codes[:, c], is_certain[:, c] = np.searchsorted(scale.cuts, x), ~np.isnan(x)
        certain: np.ndarray = np.all(is_certain[:, self._split_coordinates], axis=1)
        if self._router.local and len(self._split_coordinates) > 1:
            certain &= occurs_in(codes[:, self._split_coordinates], self.model.units.codes[self._split_coordinates].T)
        return NewRows(X, codes, certain)

    def _local_codes(self, scale: Scale, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes (n,) of numbers of a coordinate under local cuts, and True if a code is certain."""
        # a code is the number of a group of neighbouring training values, whose ends ``scale`` has. It is certain
        # if the number lies between training values with this code. If splits use one coordinate only, all
        # thresholds lie between neighbouring codes, so that each number but NaN has a certain code.
        if len(self._split_coordinates) == 1:
            lower = np.arange(scale.n_codes - 1)
            return np.searchsorted(scale.threshold(lower, lower + 1), x), ~np.isnan(x)
        code = np.searchsorted(scale.high, x).clip(max=scale.n_codes - 1)
        return code, (scale.low[code] <= x) & (x <= scale.high[code])

    def _blocks(self, codes: np.ndarray) -> Iterator[slice]:
        """Yield slices of rows whose cells are certain, each with a limited number of (row, cell) pairs."""
        n_cells = np.zeros(len(codes), dtype=np.int64)
        for chunk in self._rows_in_cells(codes):
            n_cells += np.bincount(chunk.row, minlength=len(codes))
        total, first = np.cumsum(n_cells), 0
        while first < len(codes):
            before = total[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(total, before + MAX_PLACES_PER_BLOCK, side="right")))
            yield slice(first, last)
            first = last

    def _leaves_by_cells(self, codes: np.ndarray) -> RowLeaves:
        """Return the cells of rows, if they do not depend on the path, with their probabilities as leaves."""
        # ``codes`` (n, c) are those of the coordinates that splits use. A row that may end in a cell without
        # training rows is listed with one such cell, of the probability that remains.
        leaf, cells, rows = self.cell_probabilities.leaf, [], []
        for chunk in self._rows_in_cells(codes):
            cell = np.repeat(chunk.cell, np.diff(chunk.first))
            cells.append(cell[leaf[cell] > 0.0])
            rows.append(chunk.row[leaf[cell] > 0.0])
        if self._empty_cell is not None:
            total = np.bincount(np.concatenate(rows), leaf[np.concatenate(cells)], len(codes))
            rows.append(np.flatnonzero(1.0 - total > MAX_ROUNDING_PROBABILITY))
            cells.append(np.full(len(rows[-1]), self._empty_cell))
            weight = np.concatenate([leaf[np.concatenate(cells[:-1])], (1.0 - total)[rows[-1]]])
            return RowLeaves(np.concatenate(cells), np.concatenate(rows), weight)
        cell = np.concatenate(cells)
        return RowLeaves(cell, np.concatenate(rows), leaf[cell])


def as_mixture(leaves: RowLeaves, n: int) -> Mixture:
    """Return the cells of ``n`` rows and their probabilities, ``leaves``, as a mixture for each row, sorted by row."""
    order = np.argsort(leaves.row, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(leaves.row, minlength=n))])
    return Mixture(leaves.cell[order], leaves.weight[order], first)


def occurs_in(rows: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the boolean array (n,) that is True for the ``rows`` (n, q) of integers that occur in ``table`` (m, q)."""
    _, number = np.unique(np.concatenate([table.astype(np.int64), rows]), axis=0, return_inverse=True)
    number = number.reshape(-1)
    return np.isin(number[len(table) :], number[: len(table)])


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
        return CellErrors(np.empty((m, 0)), np.ones(m), np.full(m, np.inf), np.zeros(m), np.empty((m, 0), bool))

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
