"""Graphs with other weights of leaves and splits, and the part of a graph that has nearly all posterior probability."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import check_type, read_array, read_numbers

from ..graph.cells import CellGraph
from .inside_outside import Occurrences

NEGLIGIBLE_MASS = 1e-14  # posterior mass that expectations of bounded functions may neglect


def with_terms(graph: CellGraph, *, log_stop: Any = None, log_split: Any = None, log_rule: Any = None) -> CellGraph:
    """Return the graph with other log weights of leaves and splits, such as penalties, tempered scores or counts.

    The arrays of cells and splits are shared, not copied. Terms that are not given remain unchanged.

    Parameters
    ----------
    graph : CellGraph
        As `build_graph` makes it.
    log_stop : array of shape (n_slots,) or float, optional
        Log weight of a leaf, its score included. -inf excludes the leaf. `by_slot` converts values by cell.
    log_split : array of shape (n_slots,) or float, optional
        Log weight of splitting, without that of the particular split. Slots that could not be split still cannot.
    log_rule : array of shape (n_edges,) or float, optional
        Log weight of each split.

    Raises
    ------
    ValueError
        If a shape does not fit, or a term is NaN or +inf.

    Examples
    --------
    The best tree under a cost of 2 for each leaf and 1 for each error, with its cost:

    >>> from exact import best_log_weight, build_graph, by_slot
    >>> from pactree_mcmc import TreeModel
    >>> graph = build_graph(TreeModel([[0.0], [1.0], [2.0]], [0, 0, 1]))
    >>> errors = graph.stats.sum(axis=1) - graph.stats.max(axis=1)
    >>> penalised = with_terms(graph, log_stop=by_slot(graph, -errors - 2.0), log_split=0.0, log_rule=0.0)
    >>> float(best_log_weight(penalised))
    -3.0
    """
    check_type("graph", graph, CellGraph, "a CellGraph, as build_graph makes it")
    lengths = {"log_stop": graph.n_slots, "log_split": graph.n_slots, "log_rule": graph.n_edges}
    new_terms = {"log_stop": log_stop, "log_split": log_split, "log_rule": log_rule}
    terms = {name: _as_term(name, values, lengths[name]) for name, values in new_terms.items() if values is not None}
    if "log_split" in terms:
        terms["log_split"][graph.log_split == -np.inf] = -np.inf
    return graph._replace(**terms)


def _as_term(name: str, values: Any, length: int) -> np.ndarray:
    """Check log weights, an array or one number, and return them as a new array (length,)."""
    array = read_numbers(name, values)
    if array.shape not in ((), (length,)):
        raise ValueError(f"{name} has shape {array.shape}; give ({length},) or one number.")
    if np.isnan(array).any() or np.isposinf(array).any():
        raise ValueError(f"{name} holds NaN or +inf; give finite numbers, or -inf to exclude a leaf or a split.")
    return np.array(np.broadcast_to(array, (length,)))


def by_slot(graph: CellGraph, by_cell: Any) -> np.ndarray:
    """Return an array (n_slots, ...) in which the value of each cell in ``by_cell`` (n_cells, ...) is repeated.

    A *slot* is a pair of a cell and a depth, so that a value is repeated for each slot of its cell.
    """
    check_type("graph", graph, CellGraph, "a CellGraph, as build_graph makes it")
    values = read_array("by_cell", by_cell)
    if values.ndim == 0 or len(values) != graph.n_cells:
        raise ValueError(f"by_cell has shape {values.shape}; give a value for each of the {graph.n_cells} cells.")
    return np.repeat(values, np.diff(graph.first_slot), axis=0)


def with_unit_weights(graph: CellGraph) -> CellGraph:
    """Return the graph in which every tree of positive weight has weight one, so that sums are numbers of trees."""
    terms = (graph.log_stop, graph.log_split, graph.log_rule)
    ones = (np.where(term > -np.inf, 0.0, -np.inf) for term in terms)
    return graph._replace(**dict(zip(("log_stop", "log_split", "log_rule"), ones, strict=True)))


class LikelyPart(NamedTuple):
    """A graph without the cells and splits that hardly any tree of the posterior has."""

    graph: CellGraph
    slots: np.ndarray  # (n_slots of the whole graph,) bool: True for the slots (cells at a depth) that this part has


def likely_part(graph: CellGraph, occurrences: Occurrences, loss: float = NEGLIGIBLE_MASS) -> LikelyPart:
    """Return the graph without the least likely splits and the cells below, and a mask of its slots."""
    # The expected numbers of the omitted splits in a tree sum to at most `loss`, which bounds P(a tree has one of
    # them). So the mean of a function with values in [0, 1], taken over this part with the inside values of the whole
    # graph, is too small by at most `loss`
    split_occurrences = occurrences.split
    _, exponent = np.frexp(split_occurrences)
    lowest = int(exponent.min(initial=0))
    mass = np.cumsum(np.bincount(exponent - lowest, weights=split_occurrences, minlength=1))
    keep = split_occurrences >= np.ldexp(0.5, int(np.searchsorted(mass, loss, side="right")) + lowest)
    keep &= split_occurrences > 0.0
    left, right = graph.left[keep], graph.right[keep]
    n_kept = np.concatenate([[0], np.cumsum(keep)])
    cells = np.diff(n_kept[graph.first_edge]) > 0
    cells[0] = cells[left] = cells[right] = True
    rank = (np.cumsum(cells) - 1).astype(np.int32)
    slots = by_slot(graph, cells)
    columns = {name: getattr(graph, name)[keep] for name in ("feature", "split", "log_rule")}
    by_cell = {name: getattr(graph, name)[cells] for name in ("rows", "stats", "score", "design", "depth")}
    first_edge = np.append(n_kept[graph.first_edge[:-1][cells]], n_kept[-1])
    return LikelyPart(
        CellGraph(
            first_edge=first_edge,
            left=rank[left],
            right=rank[right],
            first_slot=np.concatenate([[0], np.cumsum(np.diff(graph.first_slot)[cells])]),
            log_stop=graph.log_stop[slots],
            log_split=graph.log_split[slots],
            layered=graph.layered,
            **columns,
            **by_cell,
        ),
        slots,
    )
