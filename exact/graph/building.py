"""Building of the whole graph of a model, and of graphs of some of its cells."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pactree_mcmc.core.checks import check_type
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.compile.pack import pack
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.geometry import call_uncompiled, follows_design, halves_box, parts_box, parts_rows

from ..graph import build as _builder
from ..limits import Intractable, Limit, check_cells
from .arrays import BuilderArrays, distinct_points, longer_cells, longer_edges, new_cells, new_edges, new_scratch
from .cells import CellGraph, with_slots
from .designs import build_dyadic, build_fixed
from .progress import Bar, next_size, stage
from .size import least_boxes, least_row_sets

FIRST_BUDGET = 1 << 18  # number of steps of the first call of the compiled builder, which takes some ten milliseconds


def refuse_shared_leaves(model: TreeModel) -> None:
    """Raise ValueError if the score of the leaf model is not a sum over leaves, because leaves share a parameter."""
    if not model.leaf.has_additive_score:
        raise ValueError(
            f"the score of {type(model.leaf).__name__} is not a sum over leaves; the exact engine cannot use it: "
            "give what the leaves share (NormalKnownVariance(sigma2, m0, k0)), or sample."
        )


def build_graph(model: TreeModel, max_cells: int = 20_000_000, *, progress: bool = False) -> CellGraph:
    """Build the graph of all cells that the trees of a model can have.

    If ``progress`` is True, a bar is shown once building takes more than a second. Cells that were built before Ctrl-C
    are kept until the graph of another model is built, and used if this function is called again with the same model.

    Raises
    ------
    Intractable
        If there are more than ``max_cells`` cells, or more than fit into the memory of the machine, or more than 32
        splits for each cell allowed. The message names two settings to lower. Cells are counted while they are built;
        a lower bound refuses graphs that are far too large before.
    """
    check_type("model", model, TreeModel, "a TreeModel")
    limit = Limit(check_cells(max_cells))
    try:
        return _build(model, limit, progress)
    except Intractable as refusal:
        raise refusal.with_advice(f"Lower {_settings_to_lower(model)}, or sample.") from None


def _settings_to_lower(model: TreeModel) -> str:
    rule, depth = model.split_prior, f"max_depth of {type(model.tree_prior).__name__}"
    if call_uncompiled(follows_design, rule):
        return f"{depth} or the depth of the given tree"
    names = {True: "the number of cuts of GridCuts", False: "max_cuts of LocalCuts"}
    first = "levels of DyadicCuts" if call_uncompiled(halves_box, rule) else names[call_uncompiled(parts_box, rule)]
    return f"{first} or {depth}, raise max_cells as far as memory allows"


def _build(model: TreeModel, limit: Limit, progress: bool) -> CellGraph:
    """Build the graph by the method for its split prior: a fixed tree, dyadic cuts, or search with a hash table."""
    if call_uncompiled(follows_design, model.split_prior):
        limit.refuse_above(int(np.sum(model.shape.depth <= model.prior_tables.depth_limit)))
        return with_slots(model, build_fixed(model))
    if call_uncompiled(halves_box, model.split_prior) and not model.columns.twins:
        limit.refuse_above(least_boxes(model, model.units.codes))
        with stage(progress, "building", None, "cells") as bar:
            return with_slots(model, build_dyadic(model, limit, bar))
    building = _pop_interrupted(model)
    if isinstance(building, CellGraph):
        return building
    if building is None:
        building = Building(model, limit)
        codes, is_local = building.points.codes, call_uncompiled(parts_rows, model.split_prior)
        limit.refuse_above(
            least_row_sets(model, codes, building.points.rows) if is_local else least_boxes(model, codes)
        )
    building.limit = limit
    with stage(progress, "building", None, "cells") as bar:
        building.build_all(bar)
    columns = building.graph_columns()
    # free the builder's arrays before the slots are made
    del building
    return with_slots(model, columns)


class Building:
    """Cells and splits of a graph that is being built, in arrays that are made longer as they fill."""

    def __init__(self, model: TreeModel, limit: Limit, max_tree_splits: int = 1) -> None:
        self.model, self.limit, self.points = model, limit, distinct_points(model)
        self._lowered = pack(model.lowered)
        self._scratch = new_scratch(model, self.points, max_tree_splits)
        self._cells, self._edges = new_cells(1 << 12, self.points.stats.shape[1]), new_edges(1 << 14)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int(self._scratch.counters[_builder.N_CELLS])

    @property
    def n_edges(self) -> int:
        """Number of splits."""
        return int(self._scratch.counters[_builder.N_EDGES])

    @property
    def n_expanded(self) -> int:
        """Number of cells expanded, so that their splits are listed."""
        return int(self._scratch.counters[_builder.NEXT_CELL])

    def remove_splits(self) -> None:
        """Remove all splits but keep the cells, and set `n_expanded` to 0."""
        self._scratch.counters[[_builder.NEXT_CELL, _builder.N_EDGES, _builder.N_TREE_SPLITS]] = 0

    def run(self, step: Callable[..., int], *arguments: Any) -> None:
        """Call ``step(model, arrays, *arguments)`` until it returns FINISHED, making arrays longer."""
        # intractable above the limit
        status = _builder.PAUSED
        while status != _builder.FINISHED:
            status = step(self._lowered, self._packed_arrays(), *arguments)
            if status == _builder.TOO_MANY_SPLITS:
                most = _builder.MAX_SPLITS_OF_CELL
                reason = ", on a nominal feature with over 20 categories" if self.model.columns.is_nominal.any() else ""
                raise Intractable(most, most >> 1, f"splits in one cell{reason}")
            self.limit.refuse_above(self.n_cells, self.n_edges)
            self.limit.refuse_memory(self.n_cells, self.n_edges, self.points.stats.shape[1])
            if status == _builder.MORE_CELLS:
                self._cells = longer_cells(self._cells, self.n_cells)
            elif status == _builder.MORE_EDGES:
                self._edges = longer_edges(self._edges)

    def build_all(self, bar: Bar) -> None:
        """Add all cells and splits. On Ctrl-C keep those built so far for the next call of `build_graph`."""
        budget = FIRST_BUDGET

        def step(lowered: Any, arrays: Any) -> int:
            nonlocal budget
            start, n_expanded = time.monotonic(), self.n_expanded
            status = _builder.build_cells(lowered, arrays, budget)
            if status == _builder.PAUSED:
                budget = next_size(budget, time.monotonic() - start)
            bar.show(self.n_cells, f"{self.n_edges:,} splits")
            bar.add(self.n_expanded - n_expanded)
            return status

        try:
            self.run(step)
        except KeyboardInterrupt:
            store_interrupted(self.model, self)
            raise

    def _packed_arrays(self) -> Any:
        """Return all arrays as one pointer for compiled code."""
        return pack(BuilderArrays(self.points, self._cells, self._edges, self._scratch))

    def graph_columns(self) -> dict[str, np.ndarray]:
        """Return the columns that `with_slots` takes."""
        # cells that trees within the depth limit can have, parents first
        n, cells, edges = self.n_cells, self._cells, self._edges
        limit = int(self.model.prior_tables.depth_limit)
        order = np.argsort(-cells.size[:n], kind="stable")
        depth, deepest = np.full(n, limit + 1, dtype=np.int64), np.zeros(n, dtype=np.int64)
        find_depths_into(depth, deepest, order, cells.start, cells.stop, edges.left, edges.right, limit)
        order = order[depth[order] <= limit]
        rank = np.full(n, _builder.NO_CELL, dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        is_splittable = cells.is_splittable[order] & (depth[order] < limit)
        size = np.where(is_splittable, cells.stop[order] - cells.start[order], 0)
        first_edge = np.concatenate([[0], np.cumsum(size)])
        # place in the builder's arrays of each split of the graph
        kind = np.int32 if len(edges.left) < 1 << 31 else np.int64
        place = np.repeat((cells.start[order] - first_edge[:-1]).astype(kind), size)
        place += np.arange(len(place), dtype=kind)
        out = {}
        for name, column in edges._asdict().items():
            values = column[place]
            out[name] = rank[values] if name in ("left", "right") else values
        del place, values
        out |= {name: getattr(cells, name)[order] for name in ("rows", "stats", "score")}
        out |= {"first_edge": first_edge, "design": np.zeros(len(order), dtype=np.int32)}
        return out | {"depth": depth[order], "deepest": deepest[order], "is_splittable": is_splittable}


# the model that Ctrl-C interrupted last, with its partly built or complete graph; empty if there is none
_interrupted: list[tuple[TreeModel, Building | CellGraph]] = []


def store_interrupted(model: TreeModel, graph: Building | CellGraph) -> None:
    """Keep the graph of a model, complete or not, that Ctrl-C interrupted for the next call of `build_graph`."""
    _interrupted[:] = [(model, graph)]


def _pop_interrupted(model: TreeModel) -> Building | CellGraph | None:
    """Return the graph kept at Ctrl-C if it is that of this model, else None, and forget it."""
    entry = _interrupted.pop() if _interrupted else None
    return entry[1] if entry is not None and entry[0] is model else None


@jit
def find_depths_into(
    depth: np.ndarray,
    deepest: np.ndarray,
    order: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    limit: int,
) -> None:
    """Write the smallest and the largest depth (n_cells,) at which each cell occurs in trees of depth up to `limit`."""
    # `depth` is `limit + 1` before, which remains if no tree has the cell, and `deepest` is 0; parents come first in
    # `order`
    depth[0] = 0
    for cell in order:
        if depth[cell] >= limit:
            continue
        for e in range(start[cell], stop[cell]):
            # a split that leads back to its cell: the cell occurs at all larger depths
            if left[e] == cell or right[e] == cell:
                deepest[cell] = limit
        below = min(deepest[cell] + 1, limit)
        for e in range(start[cell], stop[cell]):
            for child in (np.int64(left[e]), np.int64(right[e])):
                depth[child] = min(depth[child], depth[cell] + 1)
                deepest[child] = max(deepest[child], below)
