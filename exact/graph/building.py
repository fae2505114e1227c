"""Building of the whole graph of a model, and of graphs that grow by some cells at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pactree_mcmc.core.checks import check_type
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.compile.pack import pack
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.geometry import call_uncompiled, follows_design, halves_box, parts_rows

from ..graph import build as _builder
from ..limits.intractable import Intractable, Limit, check_cells
from ..limits.sizes import SizeEstimate, estimate_size, least_cells, settings_that_fit
from .arrays import BuilderArrays, distinct_points, longer_cells, longer_edges, new_cells, new_edges, new_scratch
from .cells import CellGraph, is_layered, with_slots
from .designs import build_dyadic, build_fixed
from .progress import Bar, next_size, stage

FIRST_BUDGET = 1 << 18
"""Number of steps of the first call of the compiled builder, which takes some ten milliseconds."""


def refuse_drawn_weights(model: TreeModel) -> None:
    """Raise ValueError if feature weights are unknown: then the weight of a tree is not a product over its cells."""
    if model.split_prior.drawn_weights is not None:
        raise ValueError(
            f"trees share the feature weights that are unknown under {model.split_prior.drawn_weights}, so that no sum "
            "goes cell by cell; give feature_weights= as numbers, sample, or, of two or three features, add "
            "exp(log_evidence) over weights on a grid, each with its density."
        )


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
    ValueError
        If the feature weights are unknown (DirichletWeights).
    Intractable
        If there are more than ``max_cells`` cells, or more than fit into the memory of the machine, or more than 32
        splits for each cell allowed. The message says which settings would fit. Under local cuts the size is estimated
        before anything is built.
    """
    check_type("model", model, TreeModel, "a TreeModel")
    limit = Limit(check_cells(max_cells))
    refuse_drawn_weights(model)
    try:
        return _build(model, limit, progress)
    except Intractable as refusal:
        fits = settings_that_fit(model, limit)
        raise Intractable(refusal.needed, refusal.allowed, refusal.what, fits, estimate=refusal.estimate) from None


def _build(model: TreeModel, limit: Limit, progress: bool) -> CellGraph:
    """Build the graph by the method for its split prior: a fixed tree, dyadic cuts, or search with a hash table.

    Raise Intractable if it would exceed ``limit``. ``progress`` is True if a bar may be shown.
    """
    if call_uncompiled(follows_design, model.split_prior):
        limit.refuse_above(int(np.sum(model.shape.depth <= model.prior_tables.depth_limit)))
        return with_slots(model, build_fixed(model))
    if call_uncompiled(halves_box, model.split_prior) and not model.columns.twins:
        limit.refuse_above(least_cells(model, model.units.codes))
        with stage(progress, "building", None, "cells") as bar:
            return with_slots(model, build_dyadic(model, limit, bar))
    building = _pop_interrupted(model)
    if isinstance(building, CellGraph):
        return building
    if building is None:
        building = Building(model, limit)
        codes = building.points.codes
        limit.refuse_above(least_cells(model, codes))
        if call_uncompiled(parts_rows, model.split_prior):
            building.size = estimate_size(model, codes, limit, is_layered(model))
    building.limit = limit
    with stage(progress, "building", None if building.size is None else int(building.size.cells), "cells") as bar:
        building.build_all(bar)
    columns, _ = building.graph_columns()
    # free the builder's arrays before the slots are made
    del building
    return with_slots(model, columns)


class Building:
    """Cells and splits of a graph that is being built, in arrays that are made longer as they fill.

    ``size`` is the estimated size of the whole graph, or None if there is no estimate. ``max_tree_splits`` is the
    largest number of splits of a cell that given trees use.
    """

    def __init__(self, model: TreeModel, limit: Limit, max_tree_splits: int = 1) -> None:
        refuse_drawn_weights(model)
        self.model, self.limit, self.points = model, limit, distinct_points(model)
        self.size: SizeEstimate | None = None
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
        """Number of cells expanded (whose splits are listed) since `start_round`, or since the beginning."""
        return int(self._scratch.counters[_builder.NEXT_CELL])

    def start_round(self) -> None:
        """Set `n_expanded` to 0, so that the next compiled step begins with the first of the cells given to it."""
        self._scratch.counters[_builder.NEXT_CELL] = 0

    def remove_splits(self) -> None:
        """Remove all splits but keep the cells, and set `n_expanded` to 0."""
        self._scratch.counters[[_builder.NEXT_CELL, _builder.N_EDGES, _builder.N_TREE_SPLITS]] = 0

    def run(self, step: Callable[..., int], *arguments: Any) -> None:
        """Call a compiled ``step(model, arrays, *arguments)`` until it returns FINISHED.

        Make the arrays longer whenever the step returns that one is full.

        Raises
        ------
        Intractable
            If there are more cells or splits than allowed.
        """
        status = _builder.PAUSED
        while status != _builder.FINISHED:
            status = step(self._lowered, self._packed_arrays(), *arguments)
            if status == _builder.TOO_MANY_SPLITS:
                most = _builder.MAX_SPLITS_OF_CELL
                reason = ", on a nominal feature with over 20 categories" if self.model.columns.is_nominal.any() else ""
                raise Intractable(most, most >> 1, f"splits in one cell{reason}")
            self.limit.refuse_above(self.n_cells, self.n_edges)
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
            if self.size is None:
                bar.show(self.n_cells, f"{self.n_edges:,} splits")
            else:
                bar.show(max(self.n_cells, int(self.size.cells)), self.size.as_phrase())
            bar.add(self.n_expanded - n_expanded)
            return status

        try:
            self.run(step)
        except KeyboardInterrupt:
            store_interrupted(self.model, self)
            raise

    def apply(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a compiled ``function(model, arrays, *arguments)`` once, for its effect on the arguments."""
        function(self._lowered, self._packed_arrays(), *arguments)

    def _packed_arrays(self) -> Any:
        """Return all arrays as one pointer for compiled code."""
        return pack(BuilderArrays(self.points, self._cells, self._edges, self._scratch))

    def graph_columns(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return the columns of the graph by name, as `with_slots` takes them, and the builder's number of each cell.

        The columns hold only cells that trees within the depth limit can have, parents before children.
        """
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
        return out | {"depth": depth[order], "deepest": deepest[order], "is_splittable": is_splittable}, order


_interrupted: list[tuple[TreeModel, Building | CellGraph]] = []
"""The model that Ctrl-C interrupted last, with its partly built or complete graph; empty if there is none."""


def store_interrupted(model: TreeModel, graph: Building | CellGraph) -> None:
    """Keep the graph of a model, complete or not, for the next call of `build_graph`, in place of the one kept before.

    Called when Ctrl-C interrupts the computation.
    """
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
    """Write the smallest and the largest depth (n_cells,) at which each cell occurs in trees of depth up to ``limit``.

    The caller sets ``depth`` to ``limit + 1``, which remains if no tree has the cell, and ``deepest`` to 0. ``order``
    holds the cells, parents before children; the splits of a cell, with children ``left`` and ``right`` (n_edges,), are
    ``start`` to ``stop - 1`` (n_cells,). A cell with a split that leads back to it occurs at all larger depths.
    """
    depth[0] = 0
    for cell in order:
        if depth[cell] >= limit:
            continue
        for e in range(start[cell], stop[cell]):
            if left[e] == cell or right[e] == cell:
                deepest[cell] = limit
        below = min(deepest[cell] + 1, limit)
        for e in range(start[cell], stop[cell]):
            for child in (np.int64(left[e]), np.int64(right[e])):
                depth[child] = min(depth[child], depth[cell] + 1)
                deepest[child] = max(deepest[child], below)
