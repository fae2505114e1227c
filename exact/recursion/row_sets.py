"""Training rows of the cells of a graph, distinct sets of such rows, and probabilities of paths of such sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.posterior.trees.cells import number_words, rows_looked_at

from ..graph.boxes import sends_left

if TYPE_CHECKING:
    from pactree_mcmc.model import TreeModel

    from ..graph.cells import CellGraph

Place = tuple[int, int]
"""A cell, and the depth at which it is reached."""
LEFT, RIGHT = range(2)
"""Sides of a split."""
MEMBERS_AT_ONCE = 1 << 20
"""Number of (cell, row) pairs for which there is room in one list: some 10 MB, filled in some 10 ms."""


class CellPaths(NamedTuple):
    """One path from the root to each cell. Together the paths form a tree whose nodes are the cells."""

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
    all_rows: int  # Number of distinct rows of the model


class Members(NamedTuple):
    """The rows in each of m cells."""

    cell: np.ndarray  # (m,) int64: the cells, each with at least one row
    first: np.ndarray  # (m + 1,) int64: the rows of cell j are ``row[first[j]]`` to ``row[first[j + 1] - 1]``
    row: np.ndarray  # int64: row numbers, cell after cell


def likeliest_paths(graph: CellGraph, probability: np.ndarray) -> CellPaths:
    """Return the most probable path to each cell, by the ``probability`` (n_edges,) of the splits."""
    parent = np.repeat(np.arange(graph.n_cells), np.diff(graph.first_edge))
    edge, side = likeliest_edges(parent, graph.left, graph.right, probability, graph.n_cells)
    above = np.where(edge < 0, -1, parent[edge] if len(parent) else -1)
    children = 1 + np.argsort(above[1:], kind="stable")
    return CellPaths(edge, side, children, np.searchsorted(above[children], np.arange(graph.n_cells + 1)))


def row_sets(model: TreeModel, graph: CellGraph, ways: CellPaths) -> RowSets:
    """Return the distinct sets of training rows of the cells, given one path to each cell.

    Time: the total number of rows of the parents of all cells.
    """
    units, key = rows_looked_at(model)
    word = np.zeros((graph.n_cells, 2), dtype=np.uint64)
    codes = np.ascontiguousarray(model.units.codes[:, units], dtype=np.int64)
    nominal = model.columns.is_nominal[model.columns.source]
    for members in rows_of_cells(graph, ways, codes, nominal):
        word[members.cell] = np.bitwise_xor.reduceat(key[members.row], members.first[:-1], axis=0)
    of_cell, first = number_words(word)
    return RowSets(of_cell, word[first], first, len(units), model.units.n_units)


def rows_of_cells(graph: CellGraph, ways: CellPaths, codes: np.ndarray, nominal: np.ndarray) -> Iterator[Members]:
    """Yield the rows with ``codes`` (q, n) that the path to each cell sends to the cell, some cells at a time.

    ``nominal`` (q,) is True for coordinates of nominal features. Each cell that has training rows and receives any of
    the n rows occurs once.
    """
    n = codes.shape[1]
    if n == 0:
        return
    order, level, stack = np.arange(n), np.zeros(1, dtype=np.int64), np.zeros((64, 4), dtype=np.int64)
    stack[0] = 0, 0, n, ways.first_child[0]
    yield Members(np.zeros(1, dtype=np.int64), np.array([0, n]), order.copy())
    room = max(MEMBERS_AT_ONCE, n)
    cell, first, row = np.empty(room, np.int64), np.zeros(room + 1, np.int64), np.empty(room, np.int64)
    splits = graph.feature, graph.split, graph.rows
    while level[0] >= 0:
        m = walk_down(codes, nominal, *splits, *ways, order, stack, level, cell, first, row)
        if level[0] + 1 == len(stack):
            stack = np.concatenate([stack, np.zeros_like(stack)])
        if m:
            yield Members(cell[:m], first[: m + 1], row[: first[m]])


@jit
def likeliest_edges(
    parent: np.ndarray, left: np.ndarray, right: np.ndarray, probability: np.ndarray, n_cells: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable edge (n_cells,) to each cell from another one, -1 if none, and its side (n_cells,)."""
    way, side = np.full(n_cells, -1, dtype=np.int64), np.zeros(n_cells, dtype=np.int64)
    for e in range(len(parent)):
        for s in range(2):
            child = np.int64(left[e] if s == LEFT else right[e])
            # a split of weight 0 may lead back
            if child > parent[e] and (way[child] < 0 or probability[e] > probability[way[child]]):
                way[child], side[child] = e, s
    return way, side


@jit
def walk_down(
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
    """Write the rows of the next cells into ``cell_out``, ``first_out`` and ``row_out``; return the number of cells.

    Cells are visited depth first. ``order`` is a permutation of the rows, in which every cell on the current path has a
    range. For each child the range of the cell is partitioned, so that the rows of the child come first. The stack
    holds the number, the two ends of the range and the next child of each cell on the path. The walk stops if an array
    is full, and continues at the next call, until ``level[0]`` is -1.
    """
    at_level, m, n_written = level[0], 0, 0
    while at_level >= 0:
        cell, start, stop, at = stack[at_level, 0], stack[at_level, 1], stack[at_level, 2], stack[at_level, 3]
        if at == first_child[cell + 1]:
            at_level -= 1
            continue
        full = n_written + stop - start > len(row_out) or m == len(cell_out)
        if full or at_level + 1 == len(stack):
            break
        stack[at_level, 3] = at + 1
        child = children[at]
        if rows[child] == 0:
            continue
        e, middle = edge[child], start
        k, asked = feature[e], split[e]
        for i in range(start, stop):
            moved = order[i]
            yes = sends_left(asked, codes[k, moved], nominal[k])
            order[i] = order[middle]
            order[middle] = moved
            middle += 1 if yes == (side[child] == LEFT) else 0
        if middle > start:
            for i in range(start, middle):
                row_out[n_written] = order[i]
                n_written += 1
            cell_out[m] = child
            m += 1
            first_out[m] = n_written
            at_level += 1
            stack[at_level, 0], stack[at_level, 1], stack[at_level, 2] = child, start, middle
            stack[at_level, 3] = first_child[child]
    level[0] = at_level
    return m


def path_probabilities(
    graph: CellGraph, log_inside: np.ndarray, set_of_cell: np.ndarray, parent: np.ndarray, last: np.ndarray
) -> np.ndarray:
    """Return the probability (m,) that a tree of the posterior has each of some paths.

    A path is a sequence of sets of rows from the root of the tree on. ``set_of_cell`` (n_cells,) is the set of each
    cell, -1 for a cell without rows. ``parent`` (m,) is the number of the path without its last set, which is below
    that of the path; -1 for the first path, which is the root alone. ``last`` (m,) is the last set of each path, -1 if
    the graph does not have this set.

    Given the cell at the end of a path, the rest of the tree is independent of what is below the cell. So the
    probability of a longer path is the sum over the cells at its end of the probability of the cell times that of its
    splits that lead to the next set. A split that sends all rows to one side leads to the same set.
    """
    at: list[dict[Place, float]] = [{} for _ in parent]
    at[0] = {(0, int(graph.depth[0])): 1.0}
    below: dict[int, list[int]] = {}
    for i in range(1, len(parent)):
        below.setdefault(int(parent[i]), []).append(i)
    for path in range(len(parent)):
        wanted = {int(last[i]): i for i in below.get(path, []) if last[i] >= 0}
        todo = dict(at[path]) if wanted else {}
        while todo:
            place = min(todo, key=lambda each: each[1])
            for side, probability in _steps(graph, log_inside, place, todo.pop(place)):
                rows = int(set_of_cell[side[0]])
                into = at[wanted[rows]] if rows in wanted else todo if rows == set_of_cell[place[0]] else None
                if into is not None:
                    into[side] = into.get(side, 0.0) + probability
    return np.array([min(sum(here.values()), 1.0) for here in at])


def _steps(graph: CellGraph, log_inside: np.ndarray, place: Place, probability: float) -> list[tuple[Place, float]]:
    """Return the children of the cell at ``place`` by all its splits, with the probability that a tree has each.

    ``probability`` is that of the cell at this depth.
    """
    cell, depth = place
    here = graph.slots_at(cell, depth)
    edges = slice(int(graph.first_edge[cell]), int(graph.first_edge[cell + 1]))
    if graph.log_split[here] == -np.inf or edges.start == edges.stop:
        return []
    left, right = graph.left[edges], graph.right[edges]
    log_fraction = graph.log_split[here] + graph.log_rule[edges] - log_inside[here]
    for side in (left, right):
        log_fraction = log_fraction + log_inside[graph.slots_at(side, depth + 1)]
    fraction = (probability * np.exp(log_fraction)).tolist()
    return [
        ((c, depth + 1), p) for side in (left, right) for c, p in zip(side.tolist(), fraction, strict=True) if p > 0.0
    ]
