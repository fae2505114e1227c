"""The graph of cells: every cell that a tree of the model can have, and the splits that lead from cell to cell."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import read_array, read_numbers
from pactree_mcmc.core.compile.jit import jit, pack
from pactree_mcmc.core.texts import with_short_repr
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.model import PathSplit, not_finite
from pactree_mcmc.model.split_prior.base import call_uncompiled, has_one_split_per_feature

from ..limits import refuse_bytes
from .boxes import unpack_cuts

# names of the fields of `CellGraph` with an entry for each cell, for each edge, and for each slot
CELL_COLUMNS = ("rows", "stats", "score", "design", "depth")
EDGE_COLUMNS = ("left", "right", "feature", "split", "log_rule")
SLOT_COLUMNS = ("log_stop", "log_split")
SLOT_BYTES = 34  # memory of a slot when the graph is made and summed over, measured


@with_short_repr
class CellGraph(NamedTuple):
    """All cells that trees can have and the splits between them, in compressed sparse rows.

    Parents come before children, and cell 0 is the root. An *edge* is one split of one cell. A *slot* is a pair of a
    cell and a depth. A cell that can occur at several depths has a slot for each depth if the tree prior depends on
    depth, otherwise one slot.
    """

    first_edge: np.ndarray
    """(n_cells + 1,) int64: the splits of cell c are first_edge[c] to first_edge[c + 1] - 1."""
    left: np.ndarray
    """(n_edges,) int32: child on the left side of the split."""
    right: np.ndarray
    """(n_edges,) int32: child on the right side."""
    feature: np.ndarray
    """(n_edges,) int32: coordinate of the split. A feature has one coordinate, or two if it has missing values."""
    split: np.ndarray
    """(n_edges,) int64: cut and next code, packed, or bits of the categories going left (see `graph.boxes`). In an
    empty cell of a grid they count from the low end of its box.
    """
    log_rule: np.ndarray
    """(n_edges,) float64: log R(split | cell), the log prior probability of the split among those of the cell."""
    rows: np.ndarray
    """(n_cells,) int64: number of training rows in each cell."""
    stats: np.ndarray
    """(n_cells, n_stats) float64: sufficient statistics of the rows of each cell, for the leaf model."""
    score: np.ndarray
    """(n_cells,) float64: log score of each cell as a leaf, nats."""
    design: np.ndarray
    """(n_cells,) int32: node of the fixed tree; 0 if the model has no fixed tree."""
    depth: np.ndarray
    """(n_cells,) int64: smallest depth at which each cell occurs."""
    first_slot: np.ndarray
    """(n_cells + 1,) int64: slot first_slot[c] + j is cell c at depth depth[c] + j."""
    log_stop: np.ndarray
    """(n_slots,) float64: log prior factor of a leaf at this depth, plus the log score of the cell."""
    log_split: np.ndarray
    """(n_slots,) float64: log prior factor of a split at this depth, -inf if the cell cannot be split there."""
    layered: bool
    """True if a cell has a slot for each of its depths."""

    def check(self) -> None:
        """Check that sums over the graph are possible: lengths of arrays fit, and parents come before children.

        Raises
        ------
        ValueError
            If an invariant is violated; names the first one and its place.
        """
        n, m = len(self.rows), len(self.left)
        for size, columns in ((n, CELL_COLUMNS), (m, EDGE_COLUMNS), (self.n_slots, SLOT_COLUMNS)):
            for name in columns:
                if len(getattr(self, name)) != size:
                    raise ValueError(f"{name} has {len(getattr(self, name))} entries; this graph needs {size}.")
        for name, column, size in (("first_edge", self.first_edge, m), ("first_slot", self.first_slot, self.n_slots)):
            if len(column) != n + 1 or column[0] != 0 or column[-1] != size or np.any(np.diff(column) < 0):
                raise ValueError(f"{name} must rise from 0 to {size} in {n + 1} entries, for each cell and the end.")
        if np.any(np.diff(self.first_slot) < 1) or (not self.layered and self.n_slots != n):
            raise ValueError("every cell needs a slot, and just one unless the graph is layered.")
        cell, e = first_invalid_edge(self.first_edge, self.left, self.right, self.log_rule, self.layered)
        if cell >= 0:
            raise ValueError(
                f"edge {e} leads from cell {cell} to cells {self.left[e]} and {self.right[e]} of {n}: the graph is not "
                "in topological order; number parents before children."
            )

    def slots_at(self, cells: Any, depth: int) -> Any:
        """Return the numbers of the slots of ``cells`` at ``depth``; the cells' numbers unless the graph is layered.

        A slot is a cell at a depth.
        """
        return self.first_slot[cells] + depth - self.depth[cells] if self.layered else cells

    def slot_depth(self) -> np.ndarray:
        """Return the depth (n_slots,) of each slot; the smallest depth of its cell unless the graph is layered.

        A slot is a cell at a depth.
        """
        return _depth_of_slots(self.first_slot, self.depth)

    def with_terms(self, *, log_stop: Any = None, log_split: Any = None, log_rule: Any = None) -> CellGraph:
        """Return the graph with other log weights of leaves and splits, such as penalties, tempered scores or counts.

        The arrays of cells and splits are shared, not copied. Terms that are not given remain unchanged.

        Parameters
        ----------
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

        >>> from exact import best_log_weight, build_graph
        >>> from pactree_mcmc import TreeModel
        >>> graph = build_graph(TreeModel([[0.0], [1.0], [2.0]], [0, 0, 1]))
        >>> errors = graph.stats.sum(axis=1) - graph.stats.max(axis=1)
        >>> penalised = graph.with_terms(log_stop=graph.by_slot(-errors - 2.0), log_split=0.0, log_rule=0.0)
        >>> float(best_log_weight(penalised))
        -3.0
        """
        lengths = {"log_stop": self.n_slots, "log_split": self.n_slots, "log_rule": self.n_edges}
        arguments = {"log_stop": log_stop, "log_split": log_split, "log_rule": log_rule}
        terms = {name: _as_term(name, term, lengths[name]) for name, term in arguments.items() if term is not None}
        if "log_split" in terms:
            terms["log_split"][self.log_split == -np.inf] = -np.inf
        return self._replace(**terms)

    def by_slot(self, by_cell: Any) -> np.ndarray:
        """Return an array (n_slots, ...) in which the value of each cell in ``by_cell`` (n_cells, ...) is repeated.

        A *slot* is a pair of a cell and a depth, so that a value is repeated for each slot of its cell.
        """
        values = read_array("by_cell", by_cell)
        if values.ndim == 0 or len(values) != self.n_cells:
            raise ValueError(f"by_cell has shape {values.shape}; give a value for each of the {self.n_cells} cells.")
        return np.repeat(values, np.diff(self.first_slot), axis=0)

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


def _as_term(name: str, values: Any, length: int) -> np.ndarray:
    """Check log weights, an array or one number, and return them as a new array (length,)."""
    array = read_numbers(name, values)
    if array.shape not in ((), (length,)):
        raise ValueError(f"{name} has shape {array.shape}; give ({length},) or one number.")
    if np.isnan(array).any() or np.isposinf(array).any():
        raise ValueError(f"{name} holds NaN or +inf; give finite numbers, or -inf to exclude a leaf or a split.")
    return np.array(np.broadcast_to(array, (length,)))


@jit
def first_invalid_edge(
    first_edge: np.ndarray, left: np.ndarray, right: np.ndarray, log_rule: np.ndarray, layered: bool
) -> tuple[int, int]:
    """Return the first edge with an invalid child, as (cell, edge), or (-1, -1) if all edges are valid."""
    # a child is a cell after its parent, unless the edge has weight 0; in a layered graph a cell may lead to itself
    n = len(first_edge) - 1
    for cell in range(n):
        earliest = cell if layered else cell + 1
        for e in range(first_edge[cell], first_edge[cell + 1]):
            lowest = min(left[e], right[e])
            if lowest < 0 or max(left[e], right[e]) >= n or (lowest < earliest and log_rule[e] > -np.inf):
                return cell, e
    return -1, -1


def pack_graph(graph: CellGraph) -> Any:
    graph.check()
    return pack(graph)


@jit
def slot_at_depth(graph: Any, cell: int, depth: int) -> int:
    return graph.first_slot[cell] + depth - graph.depth[cell] if graph.layered else cell


@jit
def child_slots(graph: Any, e: int, child_depth: int) -> tuple[int, int]:
    left, right = np.int64(graph.left[e]), np.int64(graph.right[e])
    return slot_at_depth(graph, left, child_depth), slot_at_depth(graph, right, child_depth)


def with_feature_numbers(model: TreeModel, graph: CellGraph) -> CellGraph:
    """Return the graph with the number of the feature of each split in ``feature``, in place of its coordinate."""
    # in graphs of stages, the splits that select the stage have an extra number, which `n_features` replaces
    if not model.columns.twins:
        return graph
    feature = np.append(model.columns.source, model.n_features)[graph.feature]
    return graph._replace(feature=feature.astype(graph.feature.dtype))


def with_slots(model: TreeModel, columns: dict[str, np.ndarray]) -> CellGraph:
    """Build the graph from its columns by name, and add the slots with their prior factors and scores."""
    # `columns` may also contain, to be removed: `deepest` (n_cells,), the largest depth of each cell, and
    # `is_splittable`, True for cells that the prior can split if not all their splits are listed. Without `deepest` a
    # cell has one slot
    refuse_not_finite(model, columns)
    prior, rows, depth = model.prior_tables, columns["rows"], columns["depth"]
    splittable = columns.pop("is_splittable", np.diff(columns["first_edge"]) > 0)
    # a cell that can occur at depths with different tree priors needs values for each depth
    deepest, layered = columns.pop("deepest", depth), not has_one_depth(model) and not is_flat(model)
    n_layers = deepest - depth + 1 if layered else np.ones(len(rows), dtype=np.int64)
    first_slot = np.concatenate([[0], np.cumsum(n_layers)])
    refuse_bytes(SLOT_BYTES * int(first_slot[-1]), "the values of cells at every depth")
    if prior.by_node:
        prior_index = columns["design"].astype(np.int64)
    elif layered or has_one_depth(model):
        prior_index = _depth_of_slots(first_slot, depth)
    else:
        prior_index = np.zeros(len(rows), dtype=np.int64)
    can_split = np.repeat(splittable, n_layers)
    if layered:
        can_split &= prior_index < prior.depth_limit
    log_stop = np.where(can_split, prior.table.log_stop[prior_index], prior.table.log_forced[prior_index])
    log_stop += np.repeat(columns["score"] + np.where(rows == 0, prior.empty_bonus, 0.0), n_layers)
    log_split = np.where(can_split, prior.table.log_split[prior_index], -np.inf)
    return CellGraph(**columns, first_slot=first_slot, log_stop=log_stop, log_split=log_split, layered=layered)


def graph_of_single_splits(
    left: np.ndarray,
    right: np.ndarray,
    feature: np.ndarray,
    by_cell: tuple,
    log_stop: np.ndarray,
    log_split: np.ndarray,
) -> CellGraph:
    """Return a graph of cells with at most one split each, of log weight 0; without one a left child is -1."""
    # `by_cell`: the columns CELL_COLUMNS. All arrays have an entry for each cell
    splits = left >= 0
    edges = (column[splits].astype(np.int32) for column in (left, right, feature))
    first_edge, no_weights = np.concatenate([[0], np.cumsum(splits)]), np.zeros(int(splits.sum()))
    columns = *edges, no_weights.astype(np.int64), no_weights, *by_cell
    return CellGraph(first_edge, *columns, np.arange(len(left) + 1), log_stop, log_split, False)


def has_one_depth(model: TreeModel) -> bool:
    """Return True if by the split prior each cell occurs at one depth only, whatever the rows."""
    return call_uncompiled(has_one_split_per_feature, model.split_prior) or model.lowered.split_prior.by_depth


def _depth_of_slots(first_slot: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Return the depth (n_slots,) of each slot; the slots of a cell are consecutive, from its smallest ``depth`` on."""
    return np.arange(first_slot[-1]) - np.repeat(first_slot[:-1] - depth, np.diff(first_slot))


def is_flat(model: TreeModel) -> bool:
    """Return True if the tree prior is the same at all depths that splits can reach, so that depth is not stored."""
    prior = model.prior_tables
    if prior.depth_limit < model.natural_depth:
        return False
    inner = prior.table[: prior.depth_limit]
    alike = [len(np.unique(inner[name])) <= 1 for name in ("log_split", "log_stop")]
    return all(alike) and len(np.unique(prior.table.log_forced)) <= 1


def refuse_not_finite(model: TreeModel, columns: dict[str, np.ndarray]) -> None:
    """Raise NotFinite if the score of a cell is not finite, with the splits on a path to the first such cell."""
    finite = np.isfinite(columns["score"])
    if not finite.all():
        cell = int(np.argmin(finite))
        rows, stats, score = (columns[name][cell] for name in ("rows", "stats", "score"))
        raise not_finite(model, _path_to_cell(model, columns, cell), "a cell", rows, stats, score)


def _path_to_cell(model: TreeModel, columns: dict[str, np.ndarray], cell: int) -> list[PathSplit]:
    """Return the splits on a path to a cell, each with the side taken, but not one that selects a stage."""
    parent = np.repeat(np.arange(len(columns["rows"])), np.diff(columns["first_edge"]))
    out: list[PathSplit] = []
    while cell != 0:
        e = int(np.argmax(((columns["left"] == cell) | (columns["right"] == cell)) & (parent != cell)))
        c, split, left = int(columns["feature"][e]), int(columns["split"][e]), int(columns["left"][e]) == cell
        if c < len(model.scales):  # the first split of a graph of stages selects the stage
            cut, upper = unpack_cuts(split)
            out.append(PathSplit(c, int(cut[0]), int(upper[0]), split, left))
        cell = int(parent[e])
    return out[::-1]
