"""The rows of every cell of a graph, as a hash: which cells hold the same rows, whatever their boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.posterior.space.cells import number_words, rows_looked_at

from .boxes import sends_left

if TYPE_CHECKING:
    from pactree_mcmc.model import TreeModel

    from .cells import CellGraph

LEFT, RIGHT = range(2)


class RowSets(NamedTuple):
    """The distinct sets of training rows of the cells of a graph, and how each cell is reached most often."""

    of_cell: np.ndarray
    """(n_cells,) int64: the set of each cell; -1 of one without rows."""
    key: np.ndarray
    """(n_sets, 2) uint64: the hash by which draws know the same set; see `number_cells`."""
    first: np.ndarray
    """(n_sets,) int64: the first cell of each set."""
    way: np.ndarray
    """(n_cells,) int64: the most probable split that leads to each cell from another; -1 of the root."""
    side: np.ndarray
    """(n_cells,) int64: 0 if the answer yes leads there, 1 if no."""
    n_rows: int
    """Distinct rows looked at."""
    all_rows: int
    """Distinct rows of the model."""


def row_sets(model: TreeModel, graph: CellGraph, probability: np.ndarray) -> RowSets:
    """Sets of rows of the cells, and ways to them by ``probability`` (n_edges,) of the splits.

    Every cell is reached by one way, down a tree over the cells; the time is the sum of the rows of their parents.
    """
    units, key = rows_looked_at(model)
    parent = np.repeat(np.arange(graph.n_cells), np.diff(graph.first_edge))
    way, side = likeliest_ways(parent, graph.left, graph.right, probability, graph.n_cells)
    above = np.where(way < 0, -1, parent[way])
    children = 1 + np.argsort(above[1:], kind="stable")
    first_child = np.searchsorted(above[children], np.arange(graph.n_cells + 1))
    codes = np.ascontiguousarray(model.units.codes[:, units], dtype=np.int64)
    nominal = model.columns.is_nominal[model.columns.source]
    word = hash_cells(codes, key, nominal, graph.feature, graph.split, way, side, children, first_child)
    of_cell, first = number_words(word)
    return RowSets(of_cell, word[first], first, way, side, len(units), model.units.n_units)


@jit
def likeliest_ways(
    parent: np.ndarray, left: np.ndarray, right: np.ndarray, probability: np.ndarray, n_cells: int
) -> tuple[np.ndarray, np.ndarray]:
    """The most probable edge (n_cells,) into each cell from another one, -1 without, and its side (n_cells,)."""
    way, side = np.full(n_cells, -1, dtype=np.int64), np.zeros(n_cells, dtype=np.int64)
    for e in range(len(parent)):
        for s in range(2):
            child = np.int64(left[e] if s == LEFT else right[e])
            # what is never asked may lead back
            if child > parent[e] and (way[child] < 0 or probability[e] > probability[way[child]]):
                way[child], side[child] = e, s
    return way, side


@jit
def hash_cells(
    codes: np.ndarray,
    key: np.ndarray,
    nominal: np.ndarray,
    feature: np.ndarray,
    split: np.ndarray,
    way: np.ndarray,
    side: np.ndarray,
    children: np.ndarray,
    first_child: np.ndarray,
) -> np.ndarray:
    """Exclusive or (n_cells, 2) of the ``key`` (m, 2) of the rows, of ``codes`` (q, m), in each cell.

    One order of the rows is partitioned anew for each child, from the cell's own range, and its descendants are dealt
    with before the next: ranges keep their rows, whatever the order in them.
    """
    n = len(key)
    word = np.zeros((len(way), 2), dtype=np.uint64)
    order = np.arange(n)
    depth, room = 0, 64
    stack = np.zeros((room, 4), dtype=np.int64)
    for i in range(n):
        for j in range(2):
            word[0, j] ^= key[i, j]
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, 0, n, first_child[0]
    while depth >= 0:
        cell, start, stop, at = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if at == first_child[cell + 1]:
            depth -= 1
            continue
        stack[depth, 3] = at + 1
        child = children[at]
        if way[child] < 0:
            continue
        e, middle = way[child], start
        k, asked = feature[e], split[e]
        for i in range(start, stop):
            moved = order[i]
            yes = sends_left(asked, np.int64(codes[k, moved]), nominal[k])
            order[i] = order[middle]
            order[middle] = moved
            middle += 1 if yes == (side[child] == LEFT) else 0
        for i in range(start, middle):
            for j in range(2):
                word[child, j] ^= key[order[i], j]
        if middle > start:
            depth += 1
            if depth == room:
                longer = np.zeros((2 * room, 4), dtype=np.int64)
                for i in range(room):
                    for j in range(4):
                        longer[i, j] = stack[i, j]
                stack, room = longer, 2 * room
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = child, start, middle
            stack[depth, 3] = first_child[child]
    return word
