"""Training rows of the cells of a graph, distinct sets of such rows, and probabilities of paths of such sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.posterior.trees.cells import identifying_rows, number_distinct_pairs

from ..graph.boxes import sends_left

if TYPE_CHECKING:
    from pactree_mcmc.model import TreeModel

    from ..graph.cells import CellGraph

CellAtDepth = tuple[int, int]  # A cell, and the depth of the node that has it
LEFT, RIGHT = range(2)  # sides of a split
MAX_LISTED_PAIRS = 1 << 20  # number of (cell, row) pairs listed at a time: some 10 MB, filled in some 10 ms


class CellPaths(NamedTuple):
    """One path from the root to each cell of a graph. Together the paths form a tree whose nodes are the cells."""

    edge: np.ndarray  # (n_cells,) int64: most probable split that leads to each cell from another one; -1 for the root
    side: np.ndarray  # (n_cells,) int64: 0 if the cell is on the left side of the split, else 1
    children: np.ndarray  # (n_cells - 1,) int64: the children of each cell in this tree, those of one cell together
    first_child: np.ndarray  # (n_cells + 1,) int64: place in ``children`` of the first child of each cell


class RowSets(NamedTuple):
    """The distinct sets of training rows of the cells of a graph."""

    of_cell: np.ndarray  # (n_cells,) int64: number of the set of each cell; -1 for a cell without rows
    key: np.ndarray  # (n_sets, 2) uint64: hash of the set, the same as that of draws; see `number_cells`
    first: np.ndarray  # (n_sets,) int64: first cell of each set
    n_rows: int  # Number of distinct rows that were compared
    n_rows_of_model: int  # Number of distinct rows of the model


class CellRows(NamedTuple):
    """The rows in each of m cells."""

    cell: np.ndarray  # (m,) int64: the cells, each with at least one row
    first: np.ndarray  # (m + 1,) int64: the rows of cell j are ``row[first[j]]`` to ``row[first[j + 1] - 1]``
    row: np.ndarray  # int64: row numbers, cell after cell


def most_probable_paths(graph: CellGraph, probability: np.ndarray) -> CellPaths:
    """Return the path to each cell whose last split, and those above it, are the most probable, by `probability`."""
    parent = np.repeat(np.arange(graph.n_cells), np.diff(graph.first_edge))
    edge, side = most_probable_edges(parent, graph.left, graph.right, probability, graph.n_cells)
    above = np.where(edge < 0, -1, parent[edge] if len(parent) else -1)
    children = 1 + np.argsort(above[1:], kind="stable")
    return CellPaths(edge, side, children, np.searchsorted(above[children], np.arange(graph.n_cells + 1)))


def distinct_row_sets(model: TreeModel, graph: CellGraph, paths: CellPaths) -> RowSets:
    """Return the distinct sets of training rows of the cells."""
    # time: the total number of rows of the parents of all cells identified by the exclusive or of random 128-bit keys
    # of rows.
    compared_rows, key = identifying_rows(model)
    hash_words = np.zeros((graph.n_cells, 2), dtype=np.uint64)
    codes = np.ascontiguousarray(model.units.codes[:, compared_rows], dtype=np.int64)
    nominal = model.columns.is_nominal[model.columns.source]
    for chunk in rows_of_cells(graph, paths, codes, nominal):
        hash_words[chunk.cell] = np.bitwise_xor.reduceat(key[chunk.row], chunk.first[:-1], axis=0)
    of_cell, first = number_distinct_pairs(hash_words)
    return RowSets(of_cell, hash_words[first], first, len(compared_rows), model.units.n_units)


def weights_of_cells(model: TreeModel, graph: CellGraph, paths: CellPaths) -> np.ndarray:
    """Return the total weight (n_cells,) of the training rows in each cell, whatever their exposures."""
    out = np.zeros(graph.n_cells)
    codes = np.ascontiguousarray(model.units.codes, dtype=np.int64)
    for chunk in rows_of_cells(graph, paths, codes, model.columns.is_nominal[model.columns.source]):
        out[chunk.cell] = np.add.reduceat(model.weight_of_unit[chunk.row], chunk.first[:-1])
    return out


def rows_of_cells(graph: CellGraph, paths: CellPaths, codes: np.ndarray, nominal: np.ndarray) -> Iterator[CellRows]:
    """Yield the rows in each cell that has any, some cells at a time, in arrays that the next step overwrites."""
    n = codes.shape[1]
    if n == 0:
        return
    order, level, stack = np.arange(n), np.zeros(1, dtype=np.int64), np.zeros((64, 4), dtype=np.int64)
    stack[0] = 0, 0, n, paths.first_child[0]
    yield CellRows(np.zeros(1, dtype=np.int64), np.array([0, n]), order.copy())
    capacity = max(MAX_LISTED_PAIRS, n)
    cell, first, row = np.empty(capacity, np.int64), np.zeros(capacity + 1, np.int64), np.empty(capacity, np.int64)
    splits = graph.feature, graph.split, graph.rows
    while level[0] >= 0:
        m = list_rows_into(codes, nominal, *splits, *paths, order, stack, level, cell, first, row)
        if level[0] + 1 == len(stack):
            stack = np.concatenate([stack, np.zeros_like(stack)])
        if m:
            yield CellRows(cell[:m], first[: m + 1], row[: first[m]])


@jit
def most_probable_edges(
    parent: np.ndarray, left: np.ndarray, right: np.ndarray, probability: np.ndarray, n_cells: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable edge (n_cells,) to each cell, -1 if none, and the side (n_cells,) of the cell."""
    best_edge, side = np.full(n_cells, -1, dtype=np.int64), np.zeros(n_cells, dtype=np.int64)
    for e in range(len(parent)):
        for s in range(2):
            child = np.int64(left[e] if s == LEFT else right[e])
            # a split of weight 0 may lead back
            if child > parent[e] and (best_edge[child] < 0 or probability[e] > probability[best_edge[child]]):
                best_edge[child], side[child] = e, s
    return best_edge, side


@jit
def list_rows_into(
    codes: np.ndarray,
    nominal: np.ndarray,
    feature: np.ndarray,
    split: np.ndarray,
    rows: np.ndarray,
    edge: np.ndarray,
    side: np.ndarray,
    children: np.ndarray,
    first_child: np.ndarray,
    order: np.ndarray,
    stack: np.ndarray,
    level: np.ndarray,
    cell_out: np.ndarray,
    first_out: np.ndarray,
    row_out: np.ndarray,
) -> int:
    """Write the rows of the next cells (arrays of `CellRows`)."""
    # return the number of cells, resume until level[0] is -1
    # Cells are visited depth first. `order` is a permutation of the rows, in which every cell on the current path has a
    # range; for each child the range is partitioned, so that the child's rows come first. The stack holds number, range
    # and next child of each cell on the path, and level[0] is its last row
    at_level, n_cells, n_written = level[0], 0, 0
    while at_level >= 0:
        cell, start, stop, child_index = stack[at_level, 0], stack[at_level, 1], stack[at_level, 2], stack[at_level, 3]
        if child_index == first_child[cell + 1]:
            at_level -= 1
            continue
        full = n_written + stop - start > len(row_out) or n_cells == len(cell_out)
        if full or at_level + 1 == len(stack):
            break
        stack[at_level, 3] = child_index + 1
        child = children[child_index]
        if rows[child] == 0:
            continue
        edge_to_child, middle = edge[child], start
        coordinate, threshold = feature[edge_to_child], split[edge_to_child]
        for i in range(start, stop):
            moved_row = order[i]
            goes_left = sends_left(threshold, codes[coordinate, moved_row], nominal[coordinate])
            order[i] = order[middle]
            order[middle] = moved_row
            middle += 1 if goes_left == (side[child] == LEFT) else 0
        if middle > start:
            for i in range(start, middle):
                row_out[n_written] = order[i]
                n_written += 1
            cell_out[n_cells] = child
            n_cells += 1
            first_out[n_cells] = n_written
            at_level += 1
            stack[at_level, 0], stack[at_level, 1], stack[at_level, 2] = child, start, middle
            stack[at_level, 3] = first_child[child]
    level[0] = at_level
    return n_cells


def path_probabilities(
    graph: CellGraph, log_inside: np.ndarray, set_of_cell: np.ndarray, parent: np.ndarray, last: np.ndarray
) -> np.ndarray:
    """Return the probability (m,) that a tree of the posterior has each of some paths, sequences of sets of rows."""
    # Given the cell at the end of a path, the rest of the tree is independent of what is below the cell. So the
    # probability of a longer path is the sum over the cells at its end of the probability of the cell times that of its
    # splits that lead to the next set. A split that sends all rows to one side leads to the same set. `parent` is the
    # path without its last set, which has a smaller number (-1 for the first, the root alone); sets that the graph
    # lacks are -1
    end_cells: list[dict[CellAtDepth, float]] = [{} for _ in parent]
    end_cells[0] = {(0, int(graph.depth[0])): 1.0}
    longer_paths: dict[int, list[int]] = {}
    for i in range(1, len(parent)):
        longer_paths.setdefault(int(parent[i]), []).append(i)
    for path in range(len(parent)):
        path_of_set = {int(last[i]): i for i in longer_paths.get(path, []) if last[i] >= 0}
        same_set = dict(end_cells[path]) if path_of_set else {}
        while same_set:
            place = min(same_set, key=lambda cell_at_depth: cell_at_depth[1])
            set_of_place = set_of_cell[place[0]]
            for child, probability in _child_probabilities(graph, log_inside, place, same_set.pop(place)):
                child_set = int(set_of_cell[child[0]])
                if child_set in path_of_set or child_set == set_of_place:
                    target = end_cells[path_of_set[child_set]] if child_set in path_of_set else same_set
                    target[child] = target.get(child, 0.0) + probability
    return np.array([min(sum(end.values()), 1.0) for end in end_cells])


def _child_probabilities(
    graph: CellGraph, log_inside: np.ndarray, place: CellAtDepth, probability: float
) -> list[tuple[CellAtDepth, float]]:
    """Return both children of every split of a cell at a depth, each with the probability that a tree has it there."""
    # left ones first; children of probability 0 are omitted, a cell that several splits lead to is repeated
    cell, depth = place
    slot = graph.slots_at(cell, depth)
    edges = slice(int(graph.first_edge[cell]), int(graph.first_edge[cell + 1]))
    if graph.log_split[slot] == -np.inf or edges.start == edges.stop:
        return []
    left, right = graph.left[edges], graph.right[edges]
    log_fraction = graph.log_split[slot] + graph.log_rule[edges] - log_inside[slot]
    for side in (left, right):
        log_fraction = log_fraction + log_inside[graph.slots_at(side, depth + 1)]
    probabilities = (probability * np.exp(log_fraction)).tolist()
    return [
        ((c, depth + 1), p)
        for side in (left, right)
        for c, p in zip(side.tolist(), probabilities, strict=True)
        if p > 0.0
    ]
