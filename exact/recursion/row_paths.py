"""Probabilities of decision paths: of the sets of rows that a tree passes one after the other from its root."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..graph.cells import CellGraph

Place = tuple[int, int]
"""A cell, and the depth at which it is reached."""


def path_probabilities(
    graph: CellGraph, log_inside: np.ndarray, set_of_cell: np.ndarray, parent: np.ndarray, last: np.ndarray
) -> np.ndarray:
    """Probability (m,) that a tree of the posterior has each of some paths.

    Parameters
    ----------
    graph : CellGraph
        Cells and splits.
    log_inside : ndarray of shape (n_slots,)
        Log sum over the trees below each slot.
    set_of_cell : ndarray of shape (n_cells,), int64
        The set of rows of each cell; -1 of one without rows.
    parent : ndarray of shape (m,), int64
        The path that each one prolongs, a number below its own; -1 of the first, which is the root alone.
    last : ndarray of shape (m,), int64
        The set of rows at its end; -1 where the graph has no such set.

    Notes
    -----
    Given the cell at the end of a path what lies beside it is independent, so a path costs the splits of the cells that
    its sets of rows are. A split that parts no rows leads on to the same set.
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
            place = min(todo, key=lambda found: found[1])
            for side, probability in _steps(graph, log_inside, place, todo.pop(place)):
                rows = int(set_of_cell[side[0]])
                into = at[wanted[rows]] if rows in wanted else todo if rows == set_of_cell[place[0]] else None
                if into is not None:
                    into[side] = into.get(side, 0.0) + probability
    return np.array([min(sum(found.values()), 1.0) for found in at])


def _steps(graph: CellGraph, log_inside: np.ndarray, place: Place, probability: float) -> list[tuple[Place, float]]:
    """Cells that a split of the cell at ``place`` leads to, with the probability that the tree passes there."""
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
