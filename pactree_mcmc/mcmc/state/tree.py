"""State of a chain: arrays in nested NamedTuples, which compiled code takes as one pointer.

Every node owns a contiguous range of ``order``. Growing splits the range of a leaf in place, and pruning joins two
ranges. Nodes come from a pool with a free list. Growable leaves, prunable nodes and internal nodes are kept in lists,
from which moves choose uniformly.
"""

from collections.abc import Collection
from functools import lru_cache
from typing import Annotated, NamedTuple

import numpy as np

from ...core import portable
from ...model import Lowered
from ...model.split_prior.base import call_uncompiled, halves_box, has_box, is_weighted
from .records import (
    CHAIN_NODE,
    MAX_GUIDES,
    MAX_PARTITIONS,
    N_CELL_TERMS,
    N_DENSITY_ROWS,
    N_FREE,
    N_SPLIT_TERMS,
    NONE,
    PLAN,
    SCRATCH_NAMES,
    Graph,
    Scratch,
    Stored,
    allocate_group,
    graph_sizes,
    n_stored_cells,
)

PROPOSED, ACCEPTED = range(2)  # rows of `ChainState.moves`
MIN_TOP_DEPTHS = 3  # smallest number of depths from which the top of a redrawn subtree is chosen


class ChainState(NamedTuple):
    """Arrays of one chain. Records of free nodes may contain anything."""

    # units, which are merged rows. Those of node i are ``order[node[i].start:node[i].stop]``.
    order: Annotated[np.ndarray, np.int32, "units"]
    node: Annotated[np.recarray, CHAIN_NODE, "nodes"]  # nodes of the tree, and free ones
    # leaf statistics of each node, of internal nodes as well
    stats: Annotated[np.ndarray, np.float64, "nodes", "stats"]
    # box of each node: first code and one behind the last of an ordered feature, bits of categories and 0 of a nominal
    # one; the second axis is empty if splits do not depend on boxes
    box: Annotated[np.ndarray, np.int64, "nodes", "boxes", 2]
    # lengths of the lists of growable, prunable, internal and free nodes, number of nodes, 1 if the tree changed since
    # it was last saved, number that stored values must have to be valid, number of rows visited
    count: Annotated[np.ndarray, np.int64, 8]
    # inverse temperature, by which log scores are multiplied, 1 unless the chain is tempered
    beta: Annotated[np.ndarray, np.float64, 1]
    # number of proposals since the last saved draw, and of accepted ones, for each count in `Kernel.count_names`
    moves: Annotated[np.ndarray, np.int64, 2, "counts"]
    # parameters of the learned density by depth class. The first entry of the last row is the number of depths from
    # which the top of a redrawn subtree is chosen.
    density: Annotated[np.ndarray, np.float64, N_DENSITY_ROWS, N_CELL_TERMS + N_SPLIT_TERMS]
    graph: Graph  # graph of visited cells
    plan: Annotated[np.recarray, PLAN, "nodes"]  # subtree that a move is to build, parents before children
    stored: Stored  # values of cells that were visited, stored for further visits
    scratch: Scratch  # arrays that a function fills and reads before it returns


def initial_density() -> np.ndarray:
    """Return the parameters of the learned density before any fit, as in `ChainState.density`."""
    # a cell is split with its lookahead odds, and the logit of a split is half of its gain in nats
    out = np.zeros((N_DENSITY_ROWS, N_CELL_TERMS + N_SPLIT_TERMS))
    out[-1, 0] = MIN_TOP_DEPTHS
    out[:-1, 1], out[:-1, N_CELL_TERMS] = 1.0, 0.5
    return out


def axis_sizes(model: Lowered, n_nodes: int, n_counts: int, scratch: Collection[str]) -> dict[str, int]:
    """Return the length of each axis that the declarations of a state's arrays name, by the name of the axis."""
    rule, leaf, p = model.split_prior, model.leaf, len(model.split_prior.feature)
    n_cells = 1 if {"scan", "replace"}.isdisjoint(scratch) else n_stored_cells(p)
    all_codes = int(rule.feature.n_codes.max())
    n_codes = 2 if call_uncompiled(halves_box, rule) else max(all_codes, MAX_PARTITIONS)
    return graph_sizes() | {
        "nodes": n_nodes,
        "units": model.units.n_units,
        "rows + 2": _n_rows(model) + 2,
        "features": p,
        "2 * features": 2 * p,
        "boxes": p if call_uncompiled(has_box, rule) else 0,
        "stats": leaf.n_stats,
        "counts": n_counts,
        "cells": n_cells,
        "guides": min(n_cells, MAX_GUIDES) if "density" in scratch else 1,
        "all_codes": all_codes,
        "codes": n_codes,
        "cuts": n_codes if call_uncompiled(is_weighted, rule) else 1,
        "splits": n_codes + 3,
        "logs": leaf.lookup.shape[1] + 3 if model.units.counts and leaf.lookup.shape[1] > 1 else 1,
    }


def new_state(model: Lowered, n_nodes: int, n_counts: int, scratch: Collection[str]) -> ChainState:
    """Return the state of a chain without a tree, with room for `n_nodes` nodes and `n_counts` counts of proposals."""
    state = allocate_group(ChainState, axis_sizes(model, n_nodes, n_counts, scratch), {*SCRATCH_NAMES} - {*scratch})
    state.order[:] = np.arange(len(state.order))
    state.beta[0], state.graph.slot[:] = 1.0, NONE
    cell, guide = state.stored.cell, state.stored.guide
    cell.hash[:] = cell.scan[:] = guide.hash[:] = NONE
    if "density" in scratch:
        work = state.scratch.density
        work.logs[:], state.density[:] = _logs_of_numbers(work.logs.shape[1]), initial_density()
        work.log_rows[:] = _logs_of_numbers(_n_rows(model) + 2)[1]
    return state


def _n_rows(model: Lowered) -> int:
    """Return the number of training rows, in which merged rows count as often as they occur."""
    return int(model.units.rows.sum()) if model.units.rows_all else model.units.n_units


@lru_cache(maxsize=8)
def _logs_of_numbers(n: int) -> np.ndarray:
    """Return x log(x) and log(1 + x) for x = 0, ..., n - 1, (2, n)."""
    x = np.arange(float(n))
    return np.array([x * portable.log(np.maximum(x, 1.0)), portable.log1p(x)])


def with_node_capacity(state: ChainState, n_nodes: int) -> ChainState:
    """Return the state with room for ``n_nodes`` nodes, more than before. Copy arrays by node, and share all others."""
    # the old state must not be used any more
    cap, n_free = len(state.node), int(state.count[N_FREE])
    by_node = {name: _pad(getattr(state, name), n_nodes) for name in ("node", "stats", "box", "plan")}
    out = state._replace(**by_node, scratch=state.scratch._replace(note=_pad(state.scratch.note, n_nodes)))
    out.node.free[n_free : n_free + n_nodes - cap] = np.arange(n_nodes - 1, cap - 1, -1)
    out.count[N_FREE] += n_nodes - cap
    return out


def _pad(array: np.ndarray, n: int) -> np.ndarray:
    """Return an array of ``n`` entries, those of ``array`` followed by zeros, of the same type."""
    out = np.zeros((n, *array.shape[1:]), array.dtype).view(type(array))
    out[: len(array)] = array
    return out
