"""The graph of cells: every cell that a tree of the model can have, and the splits that lead from cell to cell."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import check_type
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.compile.pack import pack
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.not_finite import Answer, not_finite
from pactree_mcmc.model.split_prior.geometry import follows_design, halves_box, has_one_way, parts_rows, told

from . import build as _builder
from .bounds import SizeEstimate, estimate_size, least_cells
from .boxes import unpack_cuts
from .dyadic import build_dyadic
from .fits import settings_that_fit
from .fixed import build_fixed
from .limits import Intractable, Limit, check_cells, refuse_bytes
from .progress import Bar, next_size, stage
from .work import Cells, Edges, Points, Scratch, Work

CELL_COLUMNS = ("rows", "stats", "score", "design", "depth")
EDGE_COLUMNS = ("left", "right", "feature", "split", "log_rule")
SLOT_COLUMNS = ("log_stop", "log_split")
FIRST_BUDGET = 1 << 18
"""Steps of the first call of the builder, some ten milliseconds."""


class CellGraph(NamedTuple):
    """Cells in compressed rows, parents before children; cell 0 is the root.

    A cell that can occur at several depths has a *slot* for each depth if the tree prior depends on depth, otherwise
    one.
    """

    first_edge: np.ndarray
    """(n_cells + 1,) int64: the splits of cell c are first_edge[c] to first_edge[c + 1] - 1."""
    left: np.ndarray
    """(n_edges,) int32: child in which the answer is yes."""
    right: np.ndarray
    """(n_edges,) int32: child in which the answer is no."""
    feature: np.ndarray
    """(n_edges,) int32."""
    split: np.ndarray
    """(n_edges,) int64: packed cut and next code, or categories going left; relative to the box in an empty cell."""
    log_rule: np.ndarray
    """(n_edges,) float64: log R(split | cell)."""
    rows: np.ndarray
    """(n_cells,) int64 training rows."""
    stats: np.ndarray
    """(n_cells, n_stats) float64."""
    score: np.ndarray
    """(n_cells,) float64, nats."""
    design: np.ndarray
    """(n_cells,) int32 node of the fixed tree; 0 for free splits."""
    depth: np.ndarray
    """(n_cells,) int64: smallest depth."""
    first_slot: np.ndarray
    """(n_cells + 1,) int64: slot first_slot[c] + j is cell c at depth depth[c] + j."""
    log_stop: np.ndarray
    """(n_slots,) float64: prior factor of a leaf there, times its score; log."""
    log_split: np.ndarray
    """(n_slots,) float64: prior factor of a split there; -inf where none is possible; log."""
    layered: bool
    """Whether slots are by depth."""

    def check(self) -> None:
        """Check that the graph can be summed over: parents before children, every slot a prior factor.

        Raises
        ------
        ValueError
            Names the first invariant that is violated, and where.
        """
        n, m = len(self.rows), len(self.left)
        for size, columns in ((n, CELL_COLUMNS), (m, EDGE_COLUMNS), (self.n_slots, SLOT_COLUMNS)):
            for name in columns:
                if len(getattr(self, name)) != size:
                    raise ValueError(f"{name} has {len(getattr(self, name))} entries; this graph needs {size}.")
        columns = self.first_edge, self.first_slot, self.left, self.right, self.log_rule
        if is_in_order(n, self.n_slots, *columns, self.layered):
            return
        for name, column, size in (("first_edge", self.first_edge, m), ("first_slot", self.first_slot, self.n_slots)):
            if len(column) != n + 1 or column[0] != 0 or column[-1] != size or np.any(np.diff(column) < 0):
                raise ValueError(f"{name} must rise from 0 to {size} in {n + 1} entries, one a cell and the end.")
        parent = np.repeat(np.arange(n), np.diff(self.first_edge))
        for name, child in (("left", self.left), ("right", self.right)):
            if len(child) != m or np.any((child < 0) | (child >= n)):
                raise ValueError(f"{name} must hold {m} numbers of cells, 0 to {n - 1}.")
            # only a cell that has a slot for each depth may lead to itself, one level deeper
            early = (child < parent if self.layered else child <= parent) & (self.log_rule > -np.inf)
            if early.any():
                e = int(np.argmax(early))
                raise ValueError(
                    f"edge {e} leads from cell {parent[e]} to cell {child[e]}: the graph is not in topological order; "
                    "number parents before children."
                )
        if np.any(np.diff(self.first_slot) < 1) or (not self.layered and self.n_slots != n):
            raise ValueError("every cell needs a slot, and just one unless the graph is layered.")

    def slots_at(self, cells: Any, depth: int) -> Any:
        """Slots of cells that lie at one depth."""
        return self.first_slot[cells] + depth - self.depth[cells] if self.layered else cells

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.rows)

    @property
    def n_edges(self) -> int:
        """Number of (cell, split) pairs."""
        return len(self.left)

    @property
    def n_slots(self) -> int:
        """Number of (cell, depth) pairs."""
        return len(self.log_stop)


def by_feature(model: TreeModel, graph: CellGraph) -> CellGraph:
    """The graph with splits by feature: both coordinates of one count alike, and one beyond them all stays so."""
    if not model.columns.twins:
        return graph
    feature = np.append(model.columns.source, model.n_features)[graph.feature]
    return graph._replace(feature=feature.astype(graph.feature.dtype))


@jit
def is_in_order(
    n: int,
    n_slots: int,
    edge: np.ndarray,
    slot: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    log_rule: np.ndarray,
    layered: bool,
) -> bool:
    """Whether the edges and slots of the cells follow one another, and edges that may be taken lead to later cells."""
    if len(edge) != n + 1 or len(slot) != n + 1 or edge[0] != 0 or slot[0] != 0:
        return False
    if edge[n] != len(left) or slot[n] != n_slots or (not layered and n_slots != n):
        return False
    for c in range(n):
        earliest = c if layered else c + 1
        if edge[c] > edge[c + 1] or slot[c] >= slot[c + 1]:
            return False
        for e in range(edge[c], edge[c + 1]):
            lowest = min(left[e], right[e])
            if lowest < 0 or max(left[e], right[e]) >= n or (lowest < earliest and log_rule[e] > -np.inf):
                return False
    return True


def refuse_drawn_weights(model: TreeModel) -> None:
    """Refuse a model whose feature weights are unknown: its score is no sum over the cells of a tree."""
    if model.split_prior.drawn_weights is not None:
        raise ValueError(
            f"trees share the feature weights that are unknown under {model.split_prior.drawn_weights}, so that no sum "
            "goes cell by cell; give feature_weights= as numbers, sample, or, of two or three features, add "
            "exp(log_evidence) over weights on a grid, each with its density."
        )


def build_graph(model: TreeModel, max_cells: int = 20_000_000, *, progress: bool = False) -> CellGraph:
    """Build the graph of all cells that the trees of a model can have.

    If ``progress`` is True, a bar is shown once it takes more than a second. Cells that were built before Ctrl-C are
    kept until the graph of another model is built, and used if this function is called again with the same model.

    Raises
    ------
    ValueError
        If the feature weights are unknown (DirichletWeights).
    Intractable
        If there are more than ``max_cells``, or more than fit the memory of the machine, or more than 32 splits per
        cell allowed; the message says which settings would fit. Under local cuts the size is estimated before anything
        is built.
    """
    check_type("model", model, TreeModel, "a TreeModel")
    limit = Limit(check_cells(max_cells))
    refuse_drawn_weights(model)
    try:
        return _built(model, limit, progress)
    except Intractable as refusal:
        fits = settings_that_fit(model, limit)
        raise Intractable(refusal.needed, refusal.allowed, refusal.what, fits, estimate=refusal.estimate) from None


def _built(model: TreeModel, limit: Limit, progress: bool) -> CellGraph:
    if told(follows_design, model.split_prior):
        limit.refuse_above(int(np.sum(model.shape.depth <= model.prior_tables.depth_limit)))
        return with_slots(model, build_fixed(model))
    if told(halves_box, model.split_prior) and not model.columns.twins:
        limit.refuse_above(least_cells(model, model.units.codes, limit.cells))
        with stage(progress, "building", None, "cells") as bar:
            return with_slots(model, build_dyadic(model, limit, bar))
    building = _take_kept(model)
    if isinstance(building, CellGraph):
        return building
    if building is None:
        points = distinct_points(model)
        limit.refuse_above(least_cells(model, points.codes, limit.cells))
        size = estimate_size(model, points.codes, limit, is_layered(model)) if is_local(model) else None
        building = new_building(model, points, size)
    with stage(progress, "building", None if building.size is None else int(building.size.cells), "cells") as bar:
        return with_slots(model, _renumbered(*_run_builder(model, building, limit, bar)))


def distinct_points(model: TreeModel) -> Points:
    """The model's units merged further: labels do not matter here."""
    units, leaf = model.units, model.lowered.leaf
    codes, where = np.unique(units.codes, axis=1, return_inverse=True)
    where = where.reshape(-1)
    n = codes.shape[1]
    each = np.arange(units.n_units)
    stats = np.zeros((n, leaf.n_stats))
    weight = units.weight[each & units.weight_all]
    if units.counts:
        np.add.at(stats, (where, units.label.astype(np.int64)), weight)
    else:
        for j, column in enumerate((weight, *units.moments)):
            stats[:, j] = np.bincount(where, weights=column, minlength=n)
    rows = np.bincount(where, weights=units.rows[each & units.rows_all], minlength=n).astype(np.int64)
    codes = np.ascontiguousarray(codes, dtype=np.int64)
    key = np.random.default_rng(20_261_120).integers(1, 1 << 63, size=(2, n), dtype=np.uint64)
    order = np.ascontiguousarray(np.argsort(codes, axis=1, kind="stable"))
    return Points(codes, stats, rows, key, order)


def new_scratch(model: TreeModel, points: Points) -> Scratch:
    """Working memory of a builder."""
    p, n_points = points.codes.shape
    n_stats = points.stats.shape[1]
    widest = int(model.n_codes.max())
    refuse_bytes(8 * widest * (6 + 2 * n_stats), "sums by code of a feature")
    return Scratch(
        count=np.zeros(5, dtype=np.int64),
        box=np.zeros((p, 2), dtype=np.int64),
        members=np.empty(n_points, dtype=np.int64),
        codes=np.empty(widest, dtype=np.int64),
        slot=np.full(widest, -1, dtype=np.int64),
        rows=np.empty(widest, dtype=np.int64),
        key=np.empty((2, widest), dtype=np.uint64),
        stats=np.empty((widest, n_stats)),
        suffix=np.empty((widest + 1, n_stats)),
        side_stats=np.zeros((2, n_stats)),
        side_rows=np.zeros(2, dtype=np.int64),
        side_key=np.zeros((2, 2), dtype=np.uint64),
        wanted=np.zeros((1, 4), dtype=np.int64),
    )


@dataclass
class UnfinishedGraph:
    """The cells that a builder has made so far."""

    size: SizeEstimate | None
    points: Points
    scratch: Scratch
    cells: Cells
    edges: Edges


_kept: list[tuple[TreeModel, UnfinishedGraph | CellGraph]] = []
"""The model whose graph, or the sums over it, Ctrl-C stopped last, with what there is of the graph."""


def new_building(model: TreeModel, points: Points, size: SizeEstimate | None) -> UnfinishedGraph:
    """Return a graph that has no cell yet."""
    n_stats = points.stats.shape[1]
    arrays = new_cells(1 << 12, n_stats), new_edges(1 << 14)
    return UnfinishedGraph(size, points, new_scratch(model, points), *arrays)


def keep_graph(model: TreeModel, graph: UnfinishedGraph | CellGraph) -> None:
    """Keep a graph for the next call of `build_graph` with this model, in place of the one kept before."""
    _kept[:] = [(model, graph)]


def _take_kept(model: TreeModel) -> UnfinishedGraph | CellGraph | None:
    """Return what is kept of the graph of this model. The graph of another model is given up."""
    kept = _kept.pop() if _kept else None
    return kept[1] if kept is not None and kept[0] is model else None


def _run_builder(model: TreeModel, building: UnfinishedGraph, limit: Limit, bar: Bar) -> tuple[Cells, Edges, int, int]:
    packed, count, budget = pack(model.lowered), building.scratch.count, FIRST_BUDGET
    try:
        while True:
            began, done = time.monotonic(), int(count[_builder.NEXT])
            work = Work(building.points, building.cells, building.edges, building.scratch)
            status = _builder.build(packed, pack(work), budget)
            n_cells, n_edges = int(count[_builder.N_CELLS]), int(count[_builder.N_EDGES])
            refuse_unfit(status, n_cells, n_edges, limit)
            if status == _builder.FINISHED:
                cells, edges = building.cells, building.edges
                # the arrays are freed as soon as they are copied
                del building.cells, building.edges
                return cells, edges, n_cells, n_edges
            if status == _builder.MORE_CELLS:
                building.cells = longer_cells(building.cells, n_cells)
            elif status == _builder.MORE_EDGES:
                building.edges = Edges(*(np.concatenate([a, np.empty_like(a)]) for a in building.edges))
            else:
                budget = next_size(budget, time.monotonic() - began)
            if building.size is None:
                bar.show(n_cells, f"{n_edges:,} splits")
            else:
                bar.show(max(n_cells, int(building.size.cells)), building.size.in_words())
            bar.add(int(count[_builder.NEXT]) - done)
    except KeyboardInterrupt:
        keep_graph(model, building)
        raise


def refuse_unfit(status: int, n_cells: int, n_edges: int, limit: Limit) -> None:
    """Refuse what a builder found to be too much."""
    if status == _builder.TOO_MANY_SPLITS:
        most = _builder.MAX_NOMINAL_SPLITS
        raise Intractable(most, most >> 1, "splits in one cell, on a nominal feature with over 20 categories")
    limit.refuse_above(n_cells, n_edges)


def new_cells(cap: int, n_stats: int) -> Cells:
    """Room for ``cap`` cells."""
    return Cells(
        hash=np.zeros((cap, 2), dtype=np.uint64),
        origin=np.zeros((4, cap), dtype=np.int64),
        rows=np.zeros(cap, dtype=np.int64),
        size=np.zeros(cap, dtype=np.int64),
        depth=np.zeros(cap, dtype=np.int32),
        first_edge=np.zeros(cap + 1, dtype=np.int64),
        stats=np.zeros((cap, n_stats)),
        score=np.zeros(cap),
        table=np.full(4 * cap, -1, dtype=np.int32),
    )


def longer_cells(cells: Cells, n: int) -> Cells:
    """Twice the room, the hash table filled anew."""
    cap = 2 * len(cells.rows)
    out = new_cells(cap, cells.stats.shape[1])
    for name in ("origin", "rows", "size", "depth", "first_edge", "score"):
        getattr(out, name)[..., :n] = getattr(cells, name)[..., :n]
    out.hash[:n], out.stats[:n] = cells.hash[:n], cells.stats[:n]
    _builder.refill(out.table, out.hash, n)
    return out


def new_edges(cap: int) -> Edges:
    """Room for ``cap`` splits."""
    ids = [np.empty(cap, dtype=np.int32) for _ in range(3)]
    return Edges(*ids, np.empty(cap, dtype=np.int64), np.empty(cap))


def _renumbered(cells: Cells, edges: Edges, n: int, n_edges: int) -> dict[str, np.ndarray]:
    """The ``n`` cells and their edges in topological order, without spare room."""
    order = np.argsort(-cells.size[:n], kind="stable")
    rank = np.empty(n, dtype=np.int32)
    rank[order] = np.arange(n, dtype=np.int32)
    first_old = cells.first_edge[: n + 1]
    first = np.concatenate([[0], np.cumsum(np.diff(first_old)[order])])
    out = {"first_edge": first}
    for name, column in zip(Edges._fields, edges, strict=True):
        moved = np.empty(n_edges, dtype=column.dtype)
        move_blocks(moved, column, order, first_old)
        out[name] = rank[moved] if name in ("left", "right") else moved
    for name in ("rows", "stats", "score"):
        out[name] = getattr(cells, name)[:n][order]
    out["design"] = np.zeros(n, dtype=np.int32)
    out["depth"] = cells.depth[:n][order].astype(np.int64)
    return out


@jit
def move_blocks(out: np.ndarray, column: np.ndarray, order: np.ndarray, first: np.ndarray) -> None:
    """Copy each cell's block of ``column`` into ``out``, the cells in the given order."""
    at = 0
    for cell in order:
        for e in range(first[cell], first[cell + 1]):
            out[at] = column[e]
            at += 1


@jit
def find_deepest(deepest: np.ndarray, first_edge: np.ndarray, left: np.ndarray, right: np.ndarray, limit: int) -> None:
    """Raise ``deepest``, given as the smallest depth of each cell, to the largest at which it occurs."""
    for cell in range(len(deepest)):
        for e in range(first_edge[cell], first_edge[cell + 1]):
            if left[e] == cell or right[e] == cell:
                deepest[cell] = limit
        below = min(deepest[cell] + 1, limit)
        for e in range(first_edge[cell], first_edge[cell + 1]):
            deepest[left[e]] = max(deepest[left[e]], below)
            deepest[right[e]] = max(deepest[right[e]], below)


def with_slots(model: TreeModel, parts: dict[str, np.ndarray], splittable: np.ndarray | None = None) -> CellGraph:
    """Give each cell its slots, and each slot its prior factors.

    ``splittable`` (n_cells,) which cells the prior can split, where the graph does not hold all their splits.
    """
    refuse_not_finite(model, parts)
    prior, rows, depth = model.prior_tables, parts["rows"], parts["depth"]
    if splittable is None:
        splittable = np.diff(parts["first_edge"]) > 0
    one_depth, layered = has_one_depth(model), is_layered(model)
    n_layers = np.ones(len(rows), dtype=np.int64)
    if layered:
        deepest = depth.copy()
        find_deepest(deepest, parts["first_edge"], parts["left"], parts["right"], prior.depth_limit)
        n_layers += deepest - depth
    first_slot = np.concatenate([[0], np.cumsum(n_layers)])
    if prior.by_node:
        index = parts["design"].astype(np.int64)
    elif layered or one_depth:
        index = _depths(first_slot, depth)
    else:
        index = np.zeros(len(rows), dtype=np.int64)
    can_split = np.repeat(splittable, n_layers)
    if layered:
        can_split &= index < prior.depth_limit
    log_stop = np.where(can_split, prior.table.log_stop[index], prior.table.log_forced[index])
    log_stop += np.repeat(parts["score"] + np.where(rows == 0, prior.empty_bonus, 0.0), n_layers)
    log_split = np.where(can_split, prior.table.log_split[index], -np.inf)
    return CellGraph(**parts, first_slot=first_slot, log_stop=log_stop, log_split=log_split, layered=layered)


def has_one_depth(model: TreeModel) -> bool:
    """Return True if each cell occurs at one depth only."""
    return told(has_one_way, model.split_prior) or model.lowered.split_prior.by_depth


def is_layered(model: TreeModel) -> bool:
    """Return True if a cell needs a slot for each depth at which it occurs."""
    return not has_one_depth(model) and not is_flat(model)


def is_local(model: TreeModel) -> bool:
    """Return True if cells are sets of rows."""
    return told(parts_rows, model.split_prior)


def slot_depths(model: TreeModel, graph: CellGraph) -> np.ndarray:
    """Depth (n_slots,) by which the tree prior of each slot goes; 0 where it is the same at all depths."""
    return np.zeros(graph.n_slots, dtype=np.int64) if is_flat(model) else _depths(graph.first_slot, graph.depth)


def _depths(first_slot: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Depth of each slot of cells whose first is at ``depth`` (n_cells,)."""
    return np.arange(first_slot[-1]) - np.repeat(first_slot[:-1] - depth, np.diff(first_slot))


def is_flat(model: TreeModel) -> bool:
    """Whether the tree prior is the same at all depths that splits can reach, so that depth need not be stored."""
    prior = model.prior_tables
    if prior.depth_limit < model.natural_depth:
        return False
    inner = prior.table[: prior.depth_limit]
    alike = [len(np.unique(inner[name])) <= 1 for name in ("log_split", "log_stop")]
    return all(alike) and len(np.unique(prior.table.log_forced)) <= 1


def refuse_not_finite(model: TreeModel, parts: dict[str, np.ndarray]) -> None:
    """Raise NotFinite, naming the first such cell by a path that leads to it, if a score is not finite.

    ``parts`` are columns of a graph: first_edge, left, right, feature, split, rows, stats, score.
    """
    finite = np.isfinite(parts["score"])
    if not finite.all():
        cell = int(np.argmin(finite))
        rows, stats, score = (parts[name][cell] for name in ("rows", "stats", "score"))
        raise not_finite(model, _path(model, parts, cell), "a cell", rows, stats, score)


def _path(model: TreeModel, parts: dict[str, np.ndarray], cell: int) -> list[Answer]:
    parent = np.repeat(np.arange(len(parts["rows"])), np.diff(parts["first_edge"]))
    out: list[Answer] = []
    while cell != 0:
        e = int(np.argmax(((parts["left"] == cell) | (parts["right"] == cell)) & (parent != cell)))
        c, split, left = int(parts["feature"][e]), int(parts["split"][e]), int(parts["left"][e]) == cell
        if c < len(model.scales):  # the first split of a graph of stages selects the stage
            cut, upper = unpack_cuts(split)
            out.append(Answer(c, int(cut[0]), int(upper[0]), split, left))
        cell = int(parent[e])
    return out[::-1]
