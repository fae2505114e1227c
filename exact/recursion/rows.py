"""Rows in a graph: predictions of new rows, training rows of the cells, and probabilities of paths of sets of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.base import call_uncompiled, follows_design, takes_turns
from pactree_mcmc.posterior.trees.cells import identifying_rows, number_distinct_pairs
from pactree_mcmc.table.coding import LARGEST_FLOAT
from pactree_mcmc.tree.arrays import LEAF, Routes, routes

from ..graph.boxes import UPPER_MASK, sends_left, unpack_cut, unpack_cuts
from ..graph.cells import CellGraph, child_slots, pack_graph
from ..limits import memory_bytes, run_in_pieces
from .semirings import fraction_of_total

# largest number of rows in one pass over the graph: a set of rows is the bits of one signed integer
MAX_ROWS_PER_PASS = 62


class Router(NamedTuple):
    """Values of the training rows that determine to which side of a split a new row goes, for p coordinates."""

    local: bool  # thresholds lie midway between neighbouring values in the cell; otherwise the codes of a row decide
    low: np.ndarray  # smallest value of each code, features end to end; one dummy unless local
    high: np.ndarray  # largest value of each code
    offset: np.ndarray  # (p,) int64: place in ``low`` and ``high`` of the first code of each feature
    n_codes: np.ndarray  # (p,) int64
    nominal: np.ndarray  # (p,) bool


class RowLeaves(NamedTuple):
    """The k pairs of a row and a cell that may be the leaf of the row, with their probabilities."""

    cell: np.ndarray  # (k,) int64
    row: np.ndarray  # (k,) int64
    weight: np.ndarray  # (k,) probability that the row ends in this cell, > 0


def mean_leaf_values(
    graph: CellGraph, log_inside: np.ndarray, router: Router, rows: np.ndarray, codes: np.ndarray, value: np.ndarray
) -> np.ndarray:
    """Return the posterior mean (n, d) of the value of the leaf that each of n new rows reaches."""
    out = np.zeros((len(rows), value.shape[1]))
    for first, weight in leaf_probabilities(graph, log_inside, router, rows, codes):
        out[first : first + weight.shape[1]] = weight.T @ value
    return out


def leaves_of_rows(
    graph: CellGraph, log_inside: np.ndarray, router: Router, rows: np.ndarray, codes: np.ndarray
) -> Iterator[tuple[int, RowLeaves]]:
    """Yield, for consecutive blocks of new rows, the number of the first row and the cells that may be their leaves."""
    # row numbers in `RowLeaves` count from the first row of the block
    for first, weight in leaf_probabilities(graph, log_inside, router, rows, codes):
        cell, row = np.nonzero(weight)
        yield first, RowLeaves(cell, row, weight[cell, row])


def leaf_probabilities(
    graph: CellGraph, log_inside: np.ndarray, router: Router, rows: np.ndarray, codes: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the number of the first of m consecutive rows, and the probability that a cell is their leaf."""
    packed, first = pack_graph(graph), 0
    n_per_pass = max(1, min(MAX_ROWS_PER_PASS, memory_bytes() // 8 // (8 * (graph.n_slots + graph.n_cells))))
    to_left = np.zeros(int(np.diff(graph.first_edge).max(initial=0)), dtype=np.int64)
    while first < len(rows):
        chunk = slice(first, min(first + n_per_pass, len(rows)))
        mass, weight = (np.zeros((n, chunk.stop - first)) for n in (graph.n_slots, graph.n_cells))
        mass[0] = 1.0
        arguments = packed, log_inside, router, rows[chunk], codes[chunk], mass, weight, to_left
        run_in_pieces(graph.n_cells, lambda i, j, arguments=arguments: move_mass_down(*arguments, i, j))
        yield first, weight
        first = chunk.stop


@jit
def move_mass_down(
    graph: Any,
    log_inside: np.ndarray,
    router: Router,
    rows: np.ndarray,
    codes: np.ndarray,
    mass: np.ndarray,
    weight: np.ndarray,
    to_left: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Move the probabilities of the rows in cells ``first`` to ``last - 1`` to the child slots, or to ``weight``."""
    # mass[s, i] is the probability of the trees in which row i passes through slot s. The fraction stop_s / inside_s of
    # it ends there, and is added to weight[cell, i]; the fraction split_s R_e inside_left inside_right / inside_s goes
    # on to the child of split e on the side of the row (symbols of `compute_inside`)
    n = len(rows)
    for cell in range(first, last):
        present = np.int64(0)
        for slot in range(graph.first_slot[cell], graph.first_slot[cell + 1]):
            for i in range(n):
                if mass[slot, i] > 0.0:
                    present |= np.int64(1) << i
        if present == 0:
            continue
        begin, end = graph.first_edge[cell], graph.first_edge[cell + 1]
        if graph.rows[cell] == 0:
            end = begin
        for e in range(begin, end):
            to_left[e - begin] = _rows_to_left(graph, router, rows, codes, e, cell, present)
        # a split that leads from the cell to itself leads to its next slot
        for slot in range(graph.first_slot[cell], graph.first_slot[cell + 1]):
            stop, split = 1.0, graph.log_split[slot]
            if begin < end and split > -np.inf:
                stop = fraction_of_total(graph.log_stop[slot], log_inside[slot])
            for i in range(n):
                weight[cell, i] += stop * mass[slot, i]
            child_depth = graph.depth[cell] + slot - graph.first_slot[cell] + 1
            for e in range(begin, end):
                # a split of weight 0 may lead back to a cell that is finished
                if split == -np.inf or graph.log_rule[e] == -np.inf:
                    continue
                left, right = child_slots(graph, e, child_depth)
                log_term = split + graph.log_rule[e] + log_inside[left] + log_inside[right]
                part, goes_left = fraction_of_total(log_term, log_inside[slot]), to_left[e - begin]
                for i in range(n):
                    if (present >> i) & 1:
                        mass[left if (goes_left >> i) & 1 else right, i] += part * mass[slot, i]


@jit
def _rows_to_left(
    graph: Any, router: Router, rows: np.ndarray, codes: np.ndarray, e: int, cell: int, present: int
) -> int:
    """Return the rows of the set ``present`` that split ``e`` of ``cell`` sends left, by `row_goes_left`."""
    out = np.int64(0)
    for i in range(len(rows)):
        if (present >> i) & 1 and row_goes_left(graph, router, e, cell, rows[i], codes[i]):
            out |= np.int64(1) << i
    return out


@jit
def row_goes_left(graph: Any, router: Router, e: int, cell: int, row: np.ndarray, code: np.ndarray) -> bool:
    """Return True if a new row goes left at split ``e`` of ``cell``."""
    # Under local cuts the value is compared with the midpoint between the neighbouring training values, otherwise its
    # code decides. A missing value (NaN) or unknown category (< 0) goes to the side with more training rows, left if
    # equal
    feature, split = graph.feature[e], graph.split[e]
    if row[feature] != row[feature] or (router.nominal[feature] and row[feature] < 0.0):
        return 2 * graph.rows[graph.left[e]] >= graph.rows[cell]
    if router.nominal[feature]:
        return (split >> np.int64(row[feature])) & 1 == 1
    cut, upper = unpack_cut(split), split & UPPER_MASK
    if not router.local:
        return code[feature] <= cut
    if cut < 0 or upper == router.n_codes[feature]:
        return cut >= 0
    a, b = router.high[router.offset[feature] + cut], router.low[router.offset[feature] + upper]
    if b == np.inf or a == -np.inf:
        return row[feature] <= (LARGEST_FLOAT if b == np.inf else -LARGEST_FLOAT)
    middle = a / 2.0 + b / 2.0
    return row[feature] <= (middle if a <= middle < b else a)


def is_fixed_design(model: TreeModel) -> bool:
    """Return True if by the split prior each cell has at most one split, so that the cells of a row form a path."""
    # a fixed tree, or cyclic splits without missing values
    rule = model.split_prior
    return call_uncompiled(follows_design, rule) or (call_uncompiled(takes_turns, rule) and not model.columns.twins)


class PathPredictions:
    """Predictions of a fixed design: a row's is the sum over the cells A on its path of P(A is a leaf) * value(A)."""

    # if the path goes on to a cell without training rows, P(the cell above is split) weighs the value of an empty cell
    def __init__(self, model: TreeModel, graph: CellGraph, leaf: np.ndarray, split: np.ndarray, value: np.ndarray):
        """Compute the prediction at each node of the tree, from the values (n_cells, d) of cells as leaves."""
        bare = np.flatnonzero(graph.rows == 0)
        empty = value[bare[0]] if len(bare) else np.zeros(value.shape[1])
        if call_uncompiled(takes_turns, model.split_prior):
            cell, right = list_tree_nodes(graph.first_edge, graph.left, graph.right, graph.rows)
            rows, self.routes = graph.rows[cell], _routes_of_tree(model, graph, cell, right)
        else:
            tree = model.split_prior.tree
            # a node below the depth limit has the prediction of the node above
            cell, rows, right = np.zeros(tree.n_nodes, dtype=np.int64), np.full(tree.n_nodes, -1), tree.right
            cell[graph.design], rows[graph.design] = np.arange(graph.n_cells), graph.rows
            weight = np.maximum(rows, 0)
            # missing values and unknown categories follow the branch that more training rows took
            self.routes = tree.routes(default_left=2 * weight[tree.left] >= weight)
        self.value = value[cell]
        average_down_paths(self.value, leaf[cell], split[cell], empty, rows, right)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the posterior mean values (n, d) of new rows of numbers (n, p)."""
        return np.take(self.value, self.routes.leaves(X), axis=0)


def _routes_of_tree(model: TreeModel, graph: CellGraph, cell: np.ndarray, right: np.ndarray) -> Routes:
    """Return the routes (a form that sends rows to leaves) of the tree with nodes ``cell`` (m,), in preorder."""
    # thresholds are the midpoints of the cuts; missing values follow the majority of the training rows
    inner = right > 0
    edge = graph.first_edge[cell[inner]]
    feature, threshold = np.full(len(cell), LEAF), np.zeros(len(cell))
    feature[inner] = graph.feature[edge]
    cut, upper = unpack_cuts(graph.split[edge])
    for c, scale in enumerate(model.scales):
        of = graph.feature[edge] == c
        threshold[np.flatnonzero(inner)[of]] = scale.threshold(cut[of], upper[of])
    rows = graph.rows[cell]
    return routes(feature, threshold, right, np.full(len(cell), -1), 2 * np.append(rows[1:], 0) >= rows)


@jit
def list_tree_nodes(
    first_edge: np.ndarray, left: np.ndarray, right: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cell (m,) of each node of the one tree of a fixed design, in preorder, and its right child (m,)."""
    # a cell without training rows is a leaf, although the graph may have a split of it
    n = 0
    for cell in range(len(rows)):
        n += (rows[cell] > 0 and first_edge[cell + 1] > first_edge[cell]) * 2
    cells, right_of = np.empty(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    stack, parent = np.zeros(n + 1, dtype=np.int64), np.full(n + 1, -1)
    n_stacked, node = 1, 0
    while n_stacked > 0:
        n_stacked -= 1
        cell = stack[n_stacked]
        cells[node] = cell
        if parent[n_stacked] >= 0:
            right_of[parent[n_stacked]] = node
        e = first_edge[cell]
        if rows[cell] > 0 and first_edge[cell + 1] > e:
            stack[n_stacked], parent[n_stacked] = right[e], node
            stack[n_stacked + 1], parent[n_stacked + 1] = left[e], -1
            n_stacked += 2
        node += 1
    return cells, right_of


@jit
def average_down_paths(
    value: np.ndarray, leaf: np.ndarray, split: np.ndarray, empty: np.ndarray, rows: np.ndarray, right: np.ndarray
) -> None:
    """Replace the values (m, d) of the nodes of a tree, in preorder, by weighted sums along the path from the root."""
    # the weights are the probabilities `leaf`; if a path goes on to a node without rows, the probability `split` of the
    # node above weighs the value `empty`. `rows` is -1 for a node that no tree has
    for j in range(value.shape[1]):
        value[0, j] *= leaf[0]
    for i in range(len(value)):
        if right[i] == 0:
            continue
        for child in (np.int64(i + 1), np.int64(right[i])):
            leaf_weight = leaf[child] if rows[child] > 0 else 0.0
            empty_weight = split[i] if rows[child] == 0 and rows[i] > 0 else 0.0
            for j in range(value.shape[1]):
                value[child, j] = value[i, j] + leaf_weight * value[child, j] + empty_weight * empty[j]


CellAtDepth = tuple[int, int]  # A cell, and the depth of the node that has it
LEFT, RIGHT = range(2)  # sides of a split
MAX_LISTED_PAIRS = 1 << 20  # number of (cell, row) pairs listed at a time: some 10 MB, filled in some 10 ms


class CellPaths(NamedTuple):
    """One path from the root to each cell of a graph. Together the paths form a tree whose nodes are the cells."""

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
    n_rows_of_model: int  # Number of distinct rows of the model


class CellRows(NamedTuple):
    """The rows in each of m cells."""

    cell: np.ndarray  # (m,) int64: the cells, each with at least one row
    first: np.ndarray  # (m + 1,) int64: the rows of cell j are ``row[first[j]]`` to ``row[first[j + 1] - 1]``
    row: np.ndarray  # int64: row numbers, cell after cell


def most_probable_paths(graph: CellGraph, probability: np.ndarray) -> CellPaths:
    """Return the path to each cell whose last split, and those above it, are the most probable, by `probability`."""
    parent = np.repeat(np.arange(graph.n_cells), np.diff(graph.first_edge))
    edge, side = most_probable_edges(parent, graph.left, graph.right, probability, graph.n_cells)
    above = np.where(edge < 0, -1, parent[edge] if len(parent) else -1)
    children = 1 + np.argsort(above[1:], kind="stable")
    return CellPaths(edge, side, children, np.searchsorted(above[children], np.arange(graph.n_cells + 1)))


def distinct_row_sets(model: TreeModel, graph: CellGraph, paths: CellPaths) -> RowSets:
    """Return the distinct sets of training rows of the cells."""
    # time: the total number of rows of the parents of all cells identified by the exclusive or of random 128-bit keys
    # of rows.
    compared_rows, key = identifying_rows(model)
    hash_words = np.zeros((graph.n_cells, 2), dtype=np.uint64)
    codes = np.ascontiguousarray(model.units.codes[:, compared_rows], dtype=np.int64)
    nominal = model.columns.is_nominal[model.columns.source]
    for chunk in rows_of_cells(graph, paths, codes, nominal):
        hash_words[chunk.cell] = np.bitwise_xor.reduceat(key[chunk.row], chunk.first[:-1], axis=0)
    of_cell, first = number_distinct_pairs(hash_words)
    return RowSets(of_cell, hash_words[first], first, len(compared_rows), model.units.n_units)


def weights_of_cells(model: TreeModel, graph: CellGraph, paths: CellPaths) -> np.ndarray:
    """Return the total weight (n_cells,) of the training rows in each cell, whatever their exposures."""
    out = np.zeros(graph.n_cells)
    codes = np.ascontiguousarray(model.units.codes, dtype=np.int64)
    for chunk in rows_of_cells(graph, paths, codes, model.columns.is_nominal[model.columns.source]):
        out[chunk.cell] = np.add.reduceat(model.weight_of_unit[chunk.row], chunk.first[:-1])
    return out


def rows_of_cells(graph: CellGraph, paths: CellPaths, codes: np.ndarray, nominal: np.ndarray) -> Iterator[CellRows]:
    """Yield the rows in each cell that has any, some cells at a time, in arrays that the next step overwrites."""
    n = codes.shape[1]
    if n == 0:
        return
    order, level, stack = np.arange(n), np.zeros(1, dtype=np.int64), np.zeros((64, 4), dtype=np.int64)
    stack[0] = 0, 0, n, paths.first_child[0]
    yield CellRows(np.zeros(1, dtype=np.int64), np.array([0, n]), order.copy())
    capacity = max(MAX_LISTED_PAIRS, n)
    cell, first, row = np.empty(capacity, np.int64), np.zeros(capacity + 1, np.int64), np.empty(capacity, np.int64)
    splits = graph.feature, graph.split, graph.rows
    while level[0] >= 0:
        m = list_rows_into(codes, nominal, *splits, *paths, order, stack, level, cell, first, row)
        if level[0] + 1 == len(stack):
            stack = np.concatenate([stack, np.zeros_like(stack)])
        if m:
            yield CellRows(cell[:m], first[: m + 1], row[: first[m]])


@jit
def most_probable_edges(
    parent: np.ndarray, left: np.ndarray, right: np.ndarray, probability: np.ndarray, n_cells: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable edge (n_cells,) to each cell, -1 if none, and the side (n_cells,) of the cell."""
    best_edge, side = np.full(n_cells, -1, dtype=np.int64), np.zeros(n_cells, dtype=np.int64)
    for e in range(len(parent)):
        for s in range(2):
            child = np.int64(left[e] if s == LEFT else right[e])
            # a split of weight 0 may lead back
            if child > parent[e] and (best_edge[child] < 0 or probability[e] > probability[best_edge[child]]):
                best_edge[child], side[child] = e, s
    return best_edge, side


@jit
def list_rows_into(
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
    """Write the rows of the next cells (arrays of `CellRows`)."""
    # return the number of cells, resume until level[0] is -1
    # Cells are visited depth first. `order` is a permutation of the rows, in which every cell on the current path has a
    # range; for each child the range is partitioned, so that the child's rows come first. The stack holds number, range
    # and next child of each cell on the path, and level[0] is its last row
    at_level, n_cells, n_written = level[0], 0, 0
    while at_level >= 0:
        cell, start, stop, child_index = stack[at_level, 0], stack[at_level, 1], stack[at_level, 2], stack[at_level, 3]
        if child_index == first_child[cell + 1]:
            at_level -= 1
            continue
        full = n_written + stop - start > len(row_out) or n_cells == len(cell_out)
        if full or at_level + 1 == len(stack):
            break
        stack[at_level, 3] = child_index + 1
        child = children[child_index]
        if rows[child] == 0:
            continue
        edge_to_child, middle = edge[child], start
        coordinate, threshold = feature[edge_to_child], split[edge_to_child]
        for i in range(start, stop):
            moved_row = order[i]
            goes_left = sends_left(threshold, codes[coordinate, moved_row], nominal[coordinate])
            order[i] = order[middle]
            order[middle] = moved_row
            middle += 1 if goes_left == (side[child] == LEFT) else 0
        if middle > start:
            for i in range(start, middle):
                row_out[n_written] = order[i]
                n_written += 1
            cell_out[n_cells] = child
            n_cells += 1
            first_out[n_cells] = n_written
            at_level += 1
            stack[at_level, 0], stack[at_level, 1], stack[at_level, 2] = child, start, middle
            stack[at_level, 3] = first_child[child]
    level[0] = at_level
    return n_cells


def path_probabilities(
    graph: CellGraph, log_inside: np.ndarray, set_of_cell: np.ndarray, parent: np.ndarray, last: np.ndarray
) -> np.ndarray:
    """Return the probability (m,) that a tree of the posterior has each of some paths, sequences of sets of rows."""
    # Given the cell at the end of a path, the rest of the tree is independent of what is below the cell. So the
    # probability of a longer path is the sum over the cells at its end of the probability of the cell times that of its
    # splits that lead to the next set. A split that sends all rows to one side leads to the same set. `parent` is the
    # path without its last set, which has a smaller number (-1 for the first, the root alone); sets that the graph
    # lacks are -1
    end_cells: list[dict[CellAtDepth, float]] = [{} for _ in parent]
    end_cells[0] = {(0, int(graph.depth[0])): 1.0}
    longer_paths: dict[int, list[int]] = {}
    for i in range(1, len(parent)):
        longer_paths.setdefault(int(parent[i]), []).append(i)
    for path in range(len(parent)):
        path_of_set = {int(last[i]): i for i in longer_paths.get(path, []) if last[i] >= 0}
        same_set = dict(end_cells[path]) if path_of_set else {}
        while same_set:
            place = min(same_set, key=lambda cell_at_depth: cell_at_depth[1])
            set_of_place = set_of_cell[place[0]]
            for child, probability in _child_probabilities(graph, log_inside, place, same_set.pop(place)):
                child_set = int(set_of_cell[child[0]])
                if child_set in path_of_set or child_set == set_of_place:
                    target = end_cells[path_of_set[child_set]] if child_set in path_of_set else same_set
                    target[child] = target.get(child, 0.0) + probability
    return np.array([min(sum(end.values()), 1.0) for end in end_cells])


def _child_probabilities(
    graph: CellGraph, log_inside: np.ndarray, place: CellAtDepth, probability: float
) -> list[tuple[CellAtDepth, float]]:
    """Return both children of every split of a cell at a depth, each with the probability that a tree has it there."""
    # left ones first; children of probability 0 are omitted, a cell that several splits lead to is repeated
    cell, depth = place
    slot = graph.slots_at(cell, depth)
    edges = slice(int(graph.first_edge[cell]), int(graph.first_edge[cell + 1]))
    if graph.log_split[slot] == -np.inf or edges.start == edges.stop:
        return []
    left, right = graph.left[edges], graph.right[edges]
    log_fraction = graph.log_split[slot] + graph.log_rule[edges] - log_inside[slot]
    for side in (left, right):
        log_fraction = log_fraction + log_inside[graph.slots_at(side, depth + 1)]
    probabilities = (probability * np.exp(log_fraction)).tolist()
    children = zip([*left.tolist(), *right.tolist()], 2 * probabilities, strict=True)
    return [((c, depth + 1), p) for c, p in children if p > 0.0]
