"""The graph of the cells and splits of given trees, and of their neighbours (formula sheet, 12.4).

Cells are processed by decreasing size, so that all trees that reach a cell are known when it is processed. Its splits
are listed once, to compute their probabilities, and the children of those that are kept are processed later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import all_bits
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.compile.pack import pack
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.geometry import parts_rows
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.coded import CodedTrees

from .boxes import CUT_MASK, cut_of, find_members, is_relative, moved_bits, pack_cut, pack_cuts, sends_left, span
from .build import (
    ADD,
    ADD_WANTED,
    FIND,
    FINISHED,
    MODE,
    MORE_CELLS,
    MORE_EDGES,
    N_CELLS,
    N_EDGES,
    N_WANTED,
    NEXT,
    UNKNOWN,
    add_root,
    bound_n_splits,
    expand,
    has_split,
    room,
    rows_to_split,
)
from .cells import (
    CellGraph,
    distinct_points,
    longer_cells,
    new_cells,
    new_edges,
    new_scratch,
    refuse_drawn_weights,
    refuse_unfit,
    with_slots,
)
from .limits import Limit
from .work import Edges, Work

NONE = -1
FEATURE, SPLIT, BITS, EDGE = range(4)


class Passing(NamedTuple):
    """The nodes of all trees, as they are taken down the cells."""

    feature: np.ndarray
    """(n_nodes,) int64, LEAF in a leaf."""
    split: np.ndarray
    """(n_nodes,) int64: packed cut, or categories going left."""
    parent: np.ndarray
    """(n_nodes,) int64: node, counted over all trees; NONE for a root."""
    left: np.ndarray
    """(n_nodes,) int64: left child, likewise."""
    right: np.ndarray
    """(n_nodes,) int64."""
    next_node: np.ndarray
    """(n_nodes,) int64: another node that is the same cell."""
    want: np.ndarray
    """(n_nodes,) int64: which of the wanted splits of its cell its own is."""


class Visits(NamedTuple):
    """What is known of the cells beside the builder's own arrays."""

    first_node: np.ndarray
    """(cap,) int64: a node that is this cell, NONE where no tree passes."""
    next_cell: np.ndarray
    """(cap,) int64: another cell of the same size."""
    of_size: np.ndarray
    """(largest size + 1,) int64: a cell of each size that is to be looked at."""
    start: np.ndarray
    """(cap,) int64: first edge of the cell."""
    stop: np.ndarray
    """(cap,) int64: one behind its last."""
    splittable: np.ndarray
    """(cap,) bool: whether it has a split at all."""
    size: np.ndarray
    """(1,) int64: of the cells whose turn it is."""


def build_visited(model: TreeModel, trees: CodedTrees, grow: int, limit: Limit) -> CellGraph:
    """Returns the graph of the cells and splits of ``trees``, with log R as in the whole graph.

    ``grow`` 1 adds every split of these cells whose children are both among them, 2 every split of these cells, with
    new children as leaves.
    """
    passing = _passing_of(trees)
    building = Building(model, limit, len(passing.feature) + 1)
    went = pack(passing)
    building.run(lambda model, work, visits: follow(model, work, went, visits))
    if grow > 0:
        n_visited, mode = building.n_cells, FIND if grow == 1 else ADD
        building.start_anew()
        building.run(lambda model, work, visits: look_beside(model, work, visits, n_visited, mode))
    return building.graph()[0]


class Building:
    """A graph that grows: the builder's arrays, made longer as they fill."""

    def __init__(self, model: TreeModel, limit: Limit, most_wanted: int = 1) -> None:
        refuse_drawn_weights(model)
        points = distinct_points(model)
        self.model, self.limit, self.points, self._lowered = model, limit, points, pack(model.lowered)
        self._scratch = new_scratch(model, points)._replace(wanted=np.zeros((most_wanted, 4), dtype=np.int64))
        self._cells, self._edges = new_cells(1 << 12, points.stats.shape[1]), new_edges(1 << 14)
        self.visits = _new_visits(1 << 12, model)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int(self._scratch.count[N_CELLS])

    @property
    def n_done(self) -> int:
        """Number of cells processed by the last step."""
        return int(self._scratch.count[NEXT])

    def start_round(self) -> None:
        """Let the next step begin with the first of its cells."""
        self._scratch.count[NEXT] = 0

    def start_anew(self) -> None:
        """Forget all splits, but not the cells."""
        self._scratch.count[[NEXT, N_EDGES, N_WANTED]] = 0

    def run(self, step: Callable[[Any, Any, Any], int]) -> None:
        """Calls a compiled step until it finishes, extending the arrays when it needs more room."""
        status = MORE_CELLS
        while status != FINISHED:
            status = step(self._lowered, self._work(), pack(self.visits))
            n_edges = int(self._scratch.count[N_EDGES])
            refuse_unfit(status, self.n_cells, n_edges, self.limit)
            if status == MORE_CELLS:
                self._cells = longer_cells(self._cells, self.n_cells)
                self.visits = _longer_visits(self.visits, self.n_cells, self.model)
            elif status == MORE_EDGES:
                self._edges = Edges(*(np.concatenate([a, np.empty_like(a)]) for a in self._edges))

    def apply(self, function: Callable[[Any, Any], None]) -> None:
        """Calls a compiled function that looks at the cells there are."""
        function(self._lowered, self._work())

    def _work(self) -> Any:
        return pack(Work(self.points, self._cells, self._edges, self._scratch))

    def graph(self) -> tuple[CellGraph, np.ndarray]:
        """The cells that trees can reach and their edges, in topological order, and the number here of each cell."""
        n, cells, edges, visits = self.n_cells, self._cells, self._edges, self.visits
        limit = self.model.prior_tables.depth_limit
        order = np.argsort(-cells.size[:n], kind="stable")
        depth = find_shallowest(order, visits.start, visits.stop, edges.left, edges.right, limit)
        order = order[depth[order] <= limit]
        rank = np.full(n, UNKNOWN, dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        splittable = visits.splittable[order] & (depth[order] < limit)
        size = np.where(splittable, visits.stop[order] - visits.start[order], 0)
        first = np.concatenate([[0], np.cumsum(size)])
        taken = np.arange(first[-1]) + np.repeat(visits.start[order] - first[:-1], size)
        parts = {name: column[taken] for name, column in zip(Edges._fields, edges, strict=True)}
        parts |= {name: rank[parts[name]] for name in ("left", "right")}
        parts |= {name: getattr(cells, name)[order] for name in ("rows", "stats", "score")}
        parts |= {"first_edge": first, "design": np.zeros(len(order), dtype=np.int32), "depth": depth[order]}
        return with_slots(self.model, parts, splittable), order


def _passing_of(trees: CodedTrees) -> Passing:
    offset, size = trees.offset, np.diff(trees.offset)
    first = np.repeat(offset[:-1], size)
    inner, number = trees.feature != LEAF, np.arange(len(trees.feature))
    parent = np.full(len(number), NONE, dtype=np.int64)
    left, right = number + 1, first + trees.right
    parent[left[inner]] = parent[right[inner]] = number[inner]
    split = np.where(trees.categories >= 0, trees.categories, pack_cuts(trees.cut, trees.upper))
    return Passing(
        trees.feature.astype(np.int64),
        split,
        parent,
        left,
        right,
        np.full(len(number), NONE, dtype=np.int64),
        np.full(len(number), NONE, dtype=np.int64),
    )


def _new_visits(cap: int, model: TreeModel) -> Visits:
    largest = max(model.n_rows, int(model.n_codes.sum()))
    return Visits(
        first_node=np.full(cap, NONE, dtype=np.int64),
        next_cell=np.full(cap, NONE, dtype=np.int64),
        of_size=np.full(largest + 1, NONE, dtype=np.int64),
        start=np.zeros(cap, dtype=np.int64),
        stop=np.zeros(cap, dtype=np.int64),
        splittable=np.zeros(cap, dtype=np.bool_),
        size=np.full(1, largest, dtype=np.int64),
    )


def _longer_visits(visits: Visits, n: int, model: TreeModel) -> Visits:
    out = _new_visits(2 * len(visits.start), model)
    for name in ("first_node", "next_cell", "start", "stop", "splittable"):
        getattr(out, name)[:n] = getattr(visits, name)[:n]
    return out._replace(of_size=visits.of_size, size=visits.size)


@jit
def follow(model: Any, work: Any, passing: Any, visits: Any) -> int:
    """Take the trees down the cells until all are at their leaves, or an array is full."""
    count, cells = work.scratch.count, work.cells
    if count[N_CELLS] == 0:
        count[MODE] = ADD
        add_root(model, work)
        visits.of_size[cells.size[0]] = 0
        for node in range(len(passing.parent)):
            if passing.parent[node] == NONE:
                _pass_on(passing, visits, np.int64(node), np.int64(0))
    while visits.size[0] >= 0:
        cell = visits.of_size[visits.size[0]]
        if cell == NONE:
            visits.size[0] -= 1
            continue
        n_members = find_members(model, work, cell)
        ways = bound_n_splits(model, work, n_members, cell)
        status = room(work, ways)
        if status != FINISHED:
            return status
        visits.of_size[visits.size[0]] = visits.next_cell[cell]
        _want_splits(model, work, passing, visits, cell, n_members)
        known = count[N_CELLS]
        _list_splits(model, work, visits, cell, n_members, ADD_WANTED)
        for new in range(known, count[N_CELLS]):
            visits.next_cell[new] = visits.of_size[cells.size[new]]
            visits.of_size[cells.size[new]] = new
        _go_down(work, passing, visits, cell)
    return FINISHED


@jit
def _pass_on(passing: Any, visits: Any, node: int, cell: int) -> None:
    passing.next_node[node] = visits.first_node[cell]
    visits.first_node[cell] = node


@jit
def _want_splits(model: Any, work: Any, passing: Any, visits: Any, cell: int, n_members: int) -> None:
    """The splits of the trees that pass through a cell into ``wanted``, each once; nodes get their number there."""
    wanted, n = work.scratch.wanted, np.int64(0)
    node = visits.first_node[cell]
    while node != NONE:
        k = passing.feature[node]
        if k != LEAF:
            split, bits = _in_cell(model, work, passing, cell, node, n_members)
            at = np.int64(0)
            while at < n and (wanted[at, FEATURE] != k or wanted[at, SPLIT] != split):
                at += 1
            if at == n:
                wanted[n, FEATURE], wanted[n, SPLIT], wanted[n, BITS], wanted[n, EDGE] = k, split, bits, NONE
                n += 1
            passing.want[node] = at
            if parts_rows(model.split_prior):
                n_left = _n_left(model, work, k, split, n_members)
                if n_left == n_members:
                    _pass_here(passing, node, passing.left[node])
                if n_left == 0:
                    _pass_here(passing, node, passing.right[node])
        node = passing.next_node[node]
    work.scratch.count[N_WANTED] = n


@jit
def _pass_here(passing: Any, node: int, child: int) -> None:
    """The child of a node that is the same cell, as all rows go there."""
    passing.next_node[child], passing.next_node[node] = passing.next_node[node], child


@jit
def _n_left(model: Any, work: Any, k: int, split: int, n_members: int) -> int:
    """How many of the points of a cell a split sends left."""
    nominal, n = model.split_prior.feature[k].nominal, 0
    for j in range(n_members):
        n += sends_left(split, work.points.codes[k, work.scratch.members[j]], nominal)
    return n


@jit
def _in_cell(model: Any, work: Any, passing: Any, cell: int, node: int, n_members: int) -> tuple[int, int]:
    """Returns the split of a node as the cell lists it, and the bits that identify it; a nominal one may be
    complemented.
    """
    rule, box, k = model.split_prior, work.scratch.box, passing.feature[node]
    split, rows, local = passing.split[node], work.cells.rows[cell], parts_rows(rule)
    if rows == 0 and local:
        return np.int64(0), np.int64(0)
    if not rule.feature[k].nominal:
        cut = cut_of(split)
        if is_relative(rule, rows):
            cut += span(model, work, k)[0] - _low_on_way(rule, passing, node, k)
        elif local:
            n_left = _n_left(model, work, k, split, n_members)
            cut = np.int64(-1) if n_left == 0 else rule.feature[k].n_codes - 1 if n_left == n_members else cut
        return pack_cut(cut, np.int64(0)), np.int64(CUT_MASK)
    present = box[k, 0]
    if local:
        present = np.int64(0)
        for j in range(n_members):
            present |= np.int64(1) << work.points.codes[k, work.scratch.members[j]]
    elif is_relative(rule, rows):
        split = moved_bits(split, _box_on_way(rule, passing, node, k), present)
    split &= present
    if split != 0 and split != present and split & (present & -present) == 0:
        passing.left[node], passing.right[node] = passing.right[node], passing.left[node]
        split = present & ~split
    return split, present


@jit
def _low_on_way(rule: Any, passing: Any, node: int, k: int) -> int:
    """First code of an ordered coordinate in the box of a node."""
    low, here = np.int64(0), node
    while passing.parent[here] != NONE:
        up = passing.parent[here]
        if (passing.feature[up] == k or passing.feature[up] == rule.feature[k].twin) and passing.right[up] == here:
            low = max(low, cut_of(passing.split[up]) + 1)
        here = up
    return low


@jit
def _box_on_way(rule: Any, passing: Any, node: int, k: int) -> int:
    """Categories of a nominal feature in the box of a node."""
    box, here = all_bits(rule.feature[k].n_codes), node
    while passing.parent[here] != NONE:
        up = passing.parent[here]
        if passing.feature[up] == k:
            left = here == up + 1
            box &= passing.split[up] if left else ~passing.split[up]
        here = up
    return box


@jit
def _list_splits(model: Any, work: Any, visits: Any, cell: int, n_members: int, mode: int) -> None:
    """Put the splits of a cell whose children are known, or added as ``mode`` says, at the end of the edges."""
    count, edges, wanted = work.scratch.count, work.edges, work.scratch.wanted
    first, count[MODE] = count[N_EDGES], mode
    expand(model, work, cell, n_members)
    visits.splittable[cell] = count[N_EDGES] > first
    kept = first
    for e in range(first, count[N_EDGES]):
        if edges.left[e] != UNKNOWN and edges.right[e] != UNKNOWN:
            edges.left[kept], edges.right[kept], edges.feature[kept] = edges.left[e], edges.right[e], edges.feature[e]
            edges.split[kept], edges.log_rule[kept] = edges.split[e], edges.log_rule[e]
            for i in range(count[N_WANTED]):
                if wanted[i, EDGE] == e:
                    wanted[i, EDGE] = kept
            kept += 1
    visits.start[cell], visits.stop[cell], count[N_EDGES] = first, kept, kept


@jit
def _go_down(work: Any, passing: Any, visits: Any, cell: int) -> None:
    """Take the trees in a cell to its children, by the edges just listed."""
    node = visits.first_node[cell]
    while node != NONE:
        e = work.scratch.wanted[passing.want[node], EDGE] if passing.feature[node] != LEAF else NONE
        if e != NONE:
            left, right = np.int64(work.edges.left[e]), np.int64(work.edges.right[e])
            if left != cell:
                _pass_on(passing, visits, passing.left[node], left)
            if right != cell:
                _pass_on(passing, visits, passing.right[node], right)
        node = passing.next_node[node]


@jit
def look_beside(model: Any, work: Any, visits: Any, n_visited: int, mode: int) -> int:
    """List the splits of the visited cells: those between two of them (FIND), or all, with new children (ADD)."""
    count, enough = work.scratch.count, rows_to_split(model, work)
    while count[NEXT] < count[N_CELLS]:
        cell = count[NEXT]
        sure = cell >= n_visited and work.cells.rows[cell] >= enough
        n_members = np.int64(0) if sure else find_members(model, work, cell)
        status = np.int64(FINISHED) if sure else room(work, bound_n_splits(model, work, n_members, cell))
        if status != FINISHED:
            return status
        if cell < n_visited:
            _list_splits(model, work, visits, cell, n_members, mode)
        elif sure:
            visits.splittable[cell] = True
            visits.start[cell] = visits.stop[cell] = count[N_EDGES]
        else:
            count[MODE] = FIND
            visits.splittable[cell] = has_split(model, work, cell, n_members)
            visits.start[cell] = visits.stop[cell] = count[N_EDGES]
        count[NEXT] += 1
    return FINISHED


@jit
def find_shallowest(
    order: np.ndarray, start: np.ndarray, stop: np.ndarray, left: np.ndarray, right: np.ndarray, limit: int
) -> np.ndarray:
    """Smallest depth (n_cells,) at which a tree can have each cell, ``limit + 1`` where none can."""
    depth = np.full(len(order), limit + 1, dtype=np.int64)
    depth[0] = 0
    for cell in order:
        if depth[cell] < limit:
            for e in range(start[cell], stop[cell]):
                depth[left[e]] = min(depth[left[e]], depth[cell] + 1)
                depth[right[e]] = min(depth[right[e]], depth[cell] + 1)
    return depth


@jit
def expand_some(model: Any, work: Any, visits: Any, which: np.ndarray, most: int) -> int:
    """List all splits of the cells ``which`` (m,), with new children, until there are ``most`` cells.

    A cell is looked at once; NEXT counts those of ``which``.
    """
    count, enough = work.scratch.count, rows_to_split(model, work)
    if count[N_CELLS] == 0:
        count[MODE] = ADD
        add_root(model, work)
        count[MODE] = FIND
        visits.splittable[0] = has_split(model, work, np.int64(0), find_members(model, work, np.int64(0)))
    while count[NEXT] < len(which) and count[N_CELLS] < most:
        cell = which[count[NEXT]]
        n_members = find_members(model, work, cell)
        # room for the splits of a child too, which are listed and forgotten
        status = room(work, 2 * bound_n_splits(model, work, n_members, cell))
        if status != FINISHED:
            return status
        known = count[N_CELLS]
        _list_splits(model, work, visits, cell, n_members, ADD)
        for new in range(known, count[N_CELLS]):
            sure = work.cells.rows[new] >= enough
            count[MODE] = FIND
            visits.splittable[new] = sure or has_split(model, work, new, find_members(model, work, new))
            visits.start[new] = visits.stop[new] = 0
        count[NEXT] += 1
    return FINISHED
