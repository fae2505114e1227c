"""The recursions on a graph of cells, each written once: inside, outside, expectations, trees from the top down."""

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import all_bits, spread_bits
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.table.coding import LARGEST
from pactree_mcmc.tree.arrays import LEAF

from ..graph.boxes import cut_of, is_relative, pack_cut, upper_of
from ..graph.cells import CellGraph
from ..graph.packed import children, slot_below
from ..progress import Bar, in_pieces
from ..semirings.algebras import add_split, choose, fraction, leaf, store
from ..semirings.exponential import exp_down


def inside(graph: Any, semiring: Any, bar: Bar | None = None) -> Any:
    """Compute the sum over all trees below each slot: ``stop + split * sum_e rule_e * left_e * right_e``, in the
    semiring.

    Fills the arrays of ``semiring``, with a value for each slot (entry 0 is the root), and returns it. Time O(edges
    times depths) semiring operations.
    """
    n = count_cells(graph)
    in_pieces(n, lambda first, last: inside_cells(graph, semiring, n - last, n - first), bar)
    return semiring


@jit
def count_cells(graph: Any) -> int:
    """Return the number of cells."""
    return len(graph.first_edge) - 1


@jit
def inside_cells(graph: Any, semiring: Any, first: int, last: int) -> None:
    """Compute `inside` for cells ``first`` to ``last - 1``, given the values of the later ones."""
    first_edge, first_slot, depth, layered = graph.first_edge, graph.first_slot, graph.depth, graph.layered
    edge_left, edge_right, log_rule = graph.left, graph.right, graph.log_rule
    log_stop, log_split = graph.log_stop, graph.log_split
    for cell in range(last - 1, first - 1, -1):
        for slot in range(first_slot[cell + 1] - 1, first_slot[cell] - 1, -1):
            so_far = leaf(semiring, cell, slot, log_stop[slot])
            split = log_split[slot]
            if split > -np.inf:
                below = depth[cell] + slot - first_slot[cell] + 1
                for e in range(first_edge[cell], first_edge[cell + 1]):
                    left, right = np.int64(edge_left[e]), np.int64(edge_right[e])
                    if layered:
                        left = first_slot[left] + below - depth[left]
                        right = first_slot[right] + below - depth[right]
                    so_far = add_split(semiring, so_far, slot, e, split + log_rule[e], left, right)
            store(semiring, slot, so_far)


class Occurrences(NamedTuple):
    """Expected numbers of occurrences in a tree of the posterior: outside times inside over the inside value of the
    root.

    A cell with rows occurs at most once, so for it these are probabilities.
    """

    slot: np.ndarray
    """(n_slots,) float64; times ``exp(log_stop - inside)``: as a leaf."""
    split: np.ndarray
    """(n_edges,) float64: that the cell is split by this split, whatever its depth."""


def outside(graph: Any, log_inside: np.ndarray, n_edges: int) -> Occurrences:
    """Return the expected occurrences of slots and splits, from the root down. Takes as long as `inside`."""
    out = Occurrences(np.zeros(len(log_inside)), np.zeros(n_edges))
    out.slot[0] = 1.0
    in_pieces(count_cells(graph), lambda first, last: outside_cells(graph, log_inside, *out, first, last))
    return out


@jit
def outside_cells(
    graph: Any, log_inside: np.ndarray, occurs: np.ndarray, asked: np.ndarray, first: int, last: int
) -> None:
    """Compute `outside` for the children of cells ``first`` to ``last - 1``, given the values of the earlier ones."""
    first_edge, first_slot, depth, layered = graph.first_edge, graph.first_slot, graph.depth, graph.layered
    edge_left, edge_right, log_rule, log_split = graph.left, graph.right, graph.log_rule, graph.log_split
    for cell in range(first, last):
        for slot in range(first_slot[cell], first_slot[cell + 1]):
            here, offset = occurs[slot], log_split[slot] - log_inside[slot]
            if here == 0.0 or log_split[slot] == -np.inf:
                continue
            below = depth[cell] + slot - first_slot[cell] + 1
            for e in range(first_edge[cell], first_edge[cell + 1]):
                left, right = np.int64(edge_left[e]), np.int64(edge_right[e])
                if layered:
                    left = first_slot[left] + below - depth[left]
                    right = first_slot[right] + below - depth[right]
                part = here * exp_down(offset + log_rule[e] + log_inside[left] + log_inside[right])
                asked[e] += part
                occurs[left] += part
                occurs[right] += part


class Grown(NamedTuple):
    """Trees from the top down, nodes in preorder, end to end."""

    nodes: np.ndarray
    """(n_nodes, 7) int64: columns CELL, FEATURE, SPLIT, RIGHT (counted from the tree's start), PARENT, IS_LEFT,
    WANTED (of the slot's trees, as the semiring counts them)."""
    offset: np.ndarray
    """(n_trees + 1,) int64."""
    log_prior: np.ndarray
    """(n_trees,) float64, without the constant."""
    log_score: np.ndarray
    """(n_trees,) float64."""


CELL, FEATURE, SPLIT, RIGHT, PARENT, IS_LEFT, WANTED = range(7)


@jit
def grow_trees(rng: np.random.Generator, graph: Any, semiring: Any, wanted: np.ndarray, model: Any) -> Grown:
    """Trees from the root down, one for each entry of ``wanted`` (n_trees,) int64, as the semiring chooses.

    `LogSum`: independent draws; `Best`: the best tree; `BestBySize`: of the root's coefficient ``wanted``; `Hull`: of
    that corner; `Ranked`: of that rank. Time a tree: the splits of its cells.
    """
    n_trees = len(wanted)
    nodes = np.empty((64, 7), dtype=np.int64)
    todo = np.empty((64, 5), dtype=np.int64)
    offset = np.zeros(n_trees + 1, dtype=np.int64)
    log_prior, log_score = np.zeros(n_trees), np.zeros(n_trees)
    n = 0
    for t in range(n_trees):
        base = n
        _put(todo, 0, 0, 0, -1, 0, wanted[t])
        n_todo = 1
        while n_todo > 0:
            n_todo -= 1
            cell, depth, parent, is_left = todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3]
            if n == len(nodes):
                nodes = _doubled(nodes)
            if n_todo + 2 > len(todo):
                todo = _doubled(todo)
            nodes[n, CELL], nodes[n, FEATURE], nodes[n, SPLIT], nodes[n, RIGHT] = cell, LEAF, 0, 0
            nodes[n, PARENT], nodes[n, IS_LEFT], nodes[n, WANTED] = parent, is_left, todo[n_todo, 4]
            if parent >= 0 and is_left == 0:
                nodes[base + parent, RIGHT] = n - base
            slot = slot_below(graph, cell, depth)
            e, on_left, on_right = choose(semiring, rng, graph, cell, slot, depth + 1, todo[n_todo, 4])
            if e < 0:
                log_score[t] += graph.score[cell]
                log_prior[t] += graph.log_stop[slot] - graph.score[cell]
            else:
                log_prior[t] += graph.log_split[slot] + graph.log_rule[e]
                nodes[n, FEATURE], nodes[n, SPLIT] = graph.feature[e], graph.split[e]
                if graph.rows[cell] == 0:
                    nodes[n, SPLIT] = _anchored(model, nodes, base, n)
                _put(todo, n_todo, graph.right[e], depth + 1, n - base, 0, on_right)
                _put(todo, n_todo + 1, graph.left[e], depth + 1, n - base, 1, on_left)
                n_todo += 2
            n += 1
        offset[t + 1] = n
    return Grown(nodes[:n].copy(), offset, log_prior, log_score)


@jit
def _put(todo: np.ndarray, at: int, cell: int, depth: int, parent: int, is_left: int, wanted: int) -> None:
    todo[at, 0], todo[at, 1], todo[at, 2], todo[at, 3], todo[at, 4] = cell, depth, parent, is_left, wanted


@jit
def _doubled(a: np.ndarray) -> np.ndarray:
    out = np.empty((2 * a.shape[0], a.shape[1]), dtype=a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j]
    return out


@jit
def _anchored(model: Any, nodes: np.ndarray, base: int, n: int) -> int:
    """A split of an empty cell, given relative to the box, for the box it has on the way here."""
    k, split = nodes[n, FEATURE], nodes[n, SPLIT]
    if not is_relative(model.split_prior, 0):
        return split
    nominal, twin = model.split_prior.feature[k].nominal, model.split_prior.feature[k].twin
    low, here = np.int64(0), n
    if nominal:
        low = all_bits(model.split_prior.feature[k].n_codes)
    while nodes[here, PARENT] >= 0:
        parent = base + nodes[here, PARENT]
        if nodes[parent, FEATURE] == k or nodes[parent, FEATURE] == twin:
            if nominal:
                low &= nodes[parent, SPLIT] if nodes[here, IS_LEFT] else ~nodes[parent, SPLIT]
            elif nodes[here, IS_LEFT] == 0:
                low = max(low, cut_of(nodes[parent, SPLIT]) + 1)
        here = parent
    if nominal:
        return spread_bits(low, split)
    cut = cut_of(split) + low
    return pack_cut(cut, cut + 1)


class Router(NamedTuple):
    """The data that determine to which side of a split a new row of numbers goes."""

    local: bool
    """Thresholds lie midway between neighbouring values in the cell; else a row's codes decide."""
    low: np.ndarray
    """Smallest value of each code, features end to end; one dummy unless local."""
    high: np.ndarray
    """Largest value of each code."""
    offset: np.ndarray
    """(p,) int64: where a feature's codes begin in ``low`` and ``high``."""
    n_codes: np.ndarray
    """(p,) int64."""
    nominal: np.ndarray
    """(p,) bool."""


@jit
def goes_left(graph: Any, router: Router, e: int, cell: int, row: np.ndarray, code: np.ndarray) -> bool:
    """Whether a row (p,) of numbers, with codes (p,) unless local, goes left at split ``e`` of ``cell``."""
    k, split = graph.feature[e], graph.split[e]
    if router.nominal[k]:
        if row[k] < 0.0:
            return 2 * graph.rows[graph.left[e]] >= graph.rows[cell]
        return (split >> np.int64(row[k])) & 1 == 1
    cut, upper = cut_of(split), upper_of(split)
    if row[k] != row[k]:
        return 2 * graph.rows[graph.left[e]] >= graph.rows[cell]
    if not router.local:
        return code[k] <= cut
    if cut < 0 or upper == router.n_codes[k]:
        return cut >= 0
    a, b = router.high[router.offset[k] + cut], router.low[router.offset[k] + upper]
    if b == np.inf or a == -np.inf:
        return row[k] <= (LARGEST if b == np.inf else -LARGEST)
    middle = a / 2.0 + b / 2.0
    return row[k] <= (middle if a <= middle < b else a)


class Flowing(NamedTuple):
    """Working memory for sending the probability mass of one row down; the masses are zero between rows."""

    mass: np.ndarray
    """(n_slots,)."""
    waiting: np.ndarray
    """(n_cells,) bool."""
    heap: np.ndarray
    """(n_cells,) int64."""
    to_left: np.ndarray
    """(most splits of a cell,) bool: True for the splits of the current cell that send the row to the left."""
    end: np.ndarray
    """(n_slots,) int64: the cells in which the row may end."""
    fraction: np.ndarray
    """(n_slots,) their probabilities."""


def flow_arrays(graph: CellGraph) -> Flowing:
    """Return the working memory for `flow`."""
    n, n_slots = graph.n_cells, graph.n_slots
    return Flowing(
        np.zeros(n_slots),
        np.zeros(n, dtype=np.bool_),
        np.empty(n, dtype=np.int64),
        np.empty(int(np.diff(graph.first_edge).max(initial=0)), dtype=np.bool_),
        np.empty(n_slots, dtype=np.int64),
        np.empty(n_slots),
    )


def average_rows(
    graph: CellGraph,
    packed: Any,
    log_inside: np.ndarray,
    router: Router,
    rows: np.ndarray,
    codes: np.ndarray,
    value: np.ndarray,
) -> np.ndarray:
    """Return the posterior means (n, d) of the leaf values (n_cells, d) that new rows (n, p) reach, row by row."""
    out, flowing = np.zeros((len(rows), value.shape[1])), flow_arrays(graph)
    in_pieces(
        len(rows),
        lambda i, j: average_some(packed, log_inside, router, rows[i:j], codes[i:j], value, flowing, out[i:j]),
        size=1,
    )
    return out


@jit
def average_some(
    graph: Any,
    log_inside: np.ndarray,
    router: Router,
    rows: np.ndarray,
    codes: np.ndarray,
    value: np.ndarray,
    flowing: Flowing,
    out: np.ndarray,
) -> None:
    """Write the posterior means into ``out`` (n, d), by `flow`."""
    for i in range(len(rows)):
        n = flow(graph, log_inside, router, rows[i], codes[i], flowing)
        for k in range(n):
            for j in range(value.shape[1]):
                out[i, j] += flowing.fraction[k] * value[flowing.end[k], j]


@jit
def list_some(
    graph: Any, log_inside: np.ndarray, router: Router, rows: np.ndarray, codes: np.ndarray, flowing: Flowing, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cells in which the first rows may be, with their probabilities (k,), one row after the other.

    The third array (m + 1,) holds the first entry of each row. Stops at the last row, or once there are ``most``.
    """
    cell, weight = np.empty(most + len(flowing.end), dtype=np.int64), np.empty(most + len(flowing.end))
    first = np.zeros(len(rows) + 1, dtype=np.int64)
    m, k = 0, 0
    while m < len(rows) and k < most:
        n = flow(graph, log_inside, router, rows[m], codes[m], flowing)
        for j in range(n):
            cell[k + j], weight[k + j] = flowing.end[j], flowing.fraction[j]
        k += n
        m += 1
        first[m] = k
    return cell[:k].copy(), weight[:k].copy(), first[: m + 1].copy()


@jit
def flow(
    graph: Any, log_inside: np.ndarray, router: Router, row: np.ndarray, code: np.ndarray, flowing: Flowing
) -> int:
    """Return the number of leaf cells that may contain a new row (p,), which are written into ``flowing.end`` with
    their probabilities. A cell occurs once for each depth at which it is reached.

    The probability mass of the trees in which a row passes through a cell is sent down the splits, to the side of the
    row; a heap keeps the cells reached in topological order. Time per row: the splits of the cells that may contain it.
    """
    mass, waiting, heap, to_left = flowing.mass, flowing.waiting, flowing.heap, flowing.to_left
    mass[0], heap[0], n, found = 1.0, 0, 1, 0
    while n > 0:
        cell = heap[0]
        n -= 1
        _sift_down(heap, n)
        waiting[cell] = False
        first, last = graph.first_edge[cell], graph.first_edge[cell + 1]
        for e in range(first, last):
            to_left[e - first] = goes_left(graph, router, e, cell, row, code)
        for slot in range(graph.first_slot[cell], graph.first_slot[cell + 1]):
            here, split = mass[slot], graph.log_split[slot]
            if here == 0.0:
                continue
            mass[slot] = 0.0
            stop = 1.0
            if split > -np.inf and graph.rows[cell] > 0:
                stop = fraction(graph.log_stop[slot], log_inside[slot])
                below = graph.depth[cell] + slot - graph.first_slot[cell] + 1
                for e in range(first, last):
                    left, right = children(graph, e, below)
                    log_term = split + graph.log_rule[e] + log_inside[left] + log_inside[right]
                    child = np.int64(graph.left[e] if to_left[e - first] else graph.right[e])
                    mass[left if to_left[e - first] else right] += here * fraction(log_term, log_inside[slot])
                    if child != cell and not waiting[child]:
                        waiting[child] = True
                        _sift_up(heap, n, child)
                        n += 1
            if here * stop > 0.0:
                flowing.end[found], flowing.fraction[found] = cell, here * stop
                found += 1
    return found


@jit
def _sift_up(heap: np.ndarray, n: int, item: int) -> None:
    """Add an item to a heap of ``n``, smallest on top."""
    at = n
    while at > 0 and heap[(at - 1) // 2] > item:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = item


@jit
def _sift_down(heap: np.ndarray, n: int) -> None:
    """Take the top off a heap of ``n + 1``."""
    item, at = heap[n], 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= item:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = item
