"""The recursions on a graph of cells, each written once: inside, outside, expectations, trees from the top down."""

from math import exp, log
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc._compiled import all_bits, spread_bits
from pactree_mcmc._numba import jit, struct
from pactree_mcmc.model._questions import FIXED, GRID
from pactree_mcmc.trees import LEAF

from ._builder import UPPER_BITS
from .graph import CellGraph
from .semirings import LOG

_graph = struct(CellGraph)


@jit
def pack_graph(g: CellGraph) -> Any:
    """The graph as one pointer."""
    return _graph(
        g.first_edge,
        g.left,
        g.right,
        g.feature,
        g.question,
        g.log_rule,
        g.rows,
        g.stats,
        g.score,
        g.design,
        g.depth,
        g.first_slot,
        g.log_stop,
        g.log_split,
        g.layered,
    )


@jit
def slot_below(graph: Any, cell: int, depth: int) -> int:
    """Slot of a child ``cell`` that lies at ``depth``."""
    return graph.first_slot[cell] + depth - graph.depth[cell] if graph.layered else cell


@jit
def inside(graph: Any, semiring: int) -> np.ndarray:
    """Sum over all trees below each slot, in the semiring: ``stop + split * sum_e rule_e * left_e * right_e``.

    Returns (n_slots,) float64; entry 0 belongs to the root. Time O(edges times depths), memory O(slots).
    """
    out = np.empty(len(graph.log_stop))
    for cell in range(len(graph.rows) - 1, -1, -1):
        first, last = graph.first_edge[cell], graph.first_edge[cell + 1]
        for slot in range(graph.first_slot[cell + 1] - 1, graph.first_slot[cell] - 1, -1):
            split, below = graph.log_split[slot], graph.depth[cell] + slot - graph.first_slot[cell] + 1
            best = graph.log_stop[slot]
            if split > -np.inf:
                for e in range(first, last):
                    best = max(best, split + _edge_value(graph, out, e, below))
            out[slot] = best
            if semiring == LOG and split > -np.inf and best > -np.inf:
                total = exp(graph.log_stop[slot] - best)
                for e in range(first, last):
                    total += exp(split + _edge_value(graph, out, e, below) - best)
                out[slot] = best + log(total)
    return out


@jit
def _edge_value(graph: Any, values: np.ndarray, e: int, below: int) -> float:
    left, right = np.int64(graph.left[e]), np.int64(graph.right[e])
    return graph.log_rule[e] + values[slot_below(graph, left, below)] + values[slot_below(graph, right, below)]


@jit
def outside(graph: Any, log_inside: np.ndarray) -> np.ndarray:
    """How often each slot occurs in a tree of the posterior, on average: (n_slots,) float64.

    This is outside times inside over the root's inside. A cell that holds rows occurs at most once, so for it this is
    a probability; times ``exp(log_stop - inside)`` it is the probability that the cell is a leaf.
    """
    out = np.zeros(len(log_inside))
    out[0] = 1.0
    for cell in range(len(graph.rows)):
        for slot in range(graph.first_slot[cell], graph.first_slot[cell + 1]):
            split, below = graph.log_split[slot], graph.depth[cell] + slot - graph.first_slot[cell] + 1
            if out[slot] == 0.0 or split == -np.inf:
                continue
            for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
                share = out[slot] * exp(split + _edge_value(graph, log_inside, e, below) - log_inside[slot])
                out[slot_below(graph, np.int64(graph.left[e]), below)] += share
                out[slot_below(graph, np.int64(graph.right[e]), below)] += share
    return out


@jit
def expect(graph: Any, log_inside: np.ndarray, leaf: np.ndarray, banned: np.ndarray) -> np.ndarray:
    """Posterior means (m,) of the product over a tree of ``leaf[j]`` a leaf, and 0 if it asks about ``banned[j]``.

    ``leaf`` (m,) complex128, ``banned`` (m,) int64, -1 for none. Time m times that of `inside`.
    """
    m = len(leaf)
    value = np.zeros((len(log_inside), m), dtype=np.complex128)
    for cell in range(len(graph.rows) - 1, -1, -1):
        for slot in range(graph.first_slot[cell + 1] - 1, graph.first_slot[cell] - 1, -1):
            split, below = graph.log_split[slot], graph.depth[cell] + slot - graph.first_slot[cell] + 1
            stop = exp(graph.log_stop[slot] - log_inside[slot])
            for j in range(m):
                value[slot, j] = stop * leaf[j]
            if split == -np.inf:
                continue
            for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
                share = exp(split + _edge_value(graph, log_inside, e, below) - log_inside[slot])
                left = slot_below(graph, np.int64(graph.left[e]), below)
                right = slot_below(graph, np.int64(graph.right[e]), below)
                for j in range(m):
                    if banned[j] != graph.feature[e]:
                        value[slot, j] += share * value[left, j] * value[right, j]
    return value[0].copy()


class Grown(NamedTuple):
    """Trees from the top down, nodes in preorder, end to end."""

    nodes: np.ndarray
    """(n_nodes, 6) int64: columns CELL, FEATURE, QUESTION, RIGHT (counted from the tree's start), PARENT, IS_LEFT."""
    offset: np.ndarray
    """(n_trees + 1,) int64."""
    log_prior: np.ndarray
    """(n_trees,) float64, without the constant."""
    log_score: np.ndarray
    """(n_trees,) float64."""


CELL, FEATURE, QUESTION, RIGHT, PARENT, IS_LEFT = range(6)


@jit
def grow_trees(
    rng: np.random.Generator, graph: Any, log_inside: np.ndarray, n_trees: int, semiring: int, model: Any
) -> Grown:
    """Independent draws (LOG) by choosing at each cell in proportion to the terms of its inside value; or the best
    tree (MAX), by always choosing the largest.
    """
    nodes = np.empty((64, 6), dtype=np.int64)
    todo = np.empty((64, 4), dtype=np.int64)
    offset = np.zeros(n_trees + 1, dtype=np.int64)
    log_prior, log_score = np.zeros(n_trees), np.zeros(n_trees)
    n = 0
    for t in range(n_trees):
        base = n
        todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = 0, 0, -1, 0
        n_todo = 1
        while n_todo > 0:
            n_todo -= 1
            cell, depth, parent, is_left = todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3]
            if n == len(nodes):
                nodes = _doubled(nodes)
            if n_todo + 2 > len(todo):
                todo = _doubled(todo)
            nodes[n, CELL], nodes[n, FEATURE], nodes[n, QUESTION], nodes[n, RIGHT] = cell, LEAF, 0, 0
            nodes[n, PARENT], nodes[n, IS_LEFT] = parent, is_left
            if parent >= 0 and is_left == 0:
                nodes[base + parent, RIGHT] = n - base
            slot = slot_below(graph, cell, depth)
            e = choose(rng, graph, log_inside, cell, slot, depth + 1, semiring)
            if e < 0:
                log_score[t] += graph.score[cell]
                log_prior[t] += graph.log_stop[slot] - graph.score[cell]
            else:
                log_prior[t] += graph.log_split[slot] + graph.log_rule[e]
                nodes[n, FEATURE], nodes[n, QUESTION] = graph.feature[e], graph.question[e]
                if graph.rows[cell] == 0:
                    nodes[n, QUESTION] = _anchored(model, nodes, base, n)
                todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3] = (
                    graph.right[e],
                    depth + 1,
                    n - base,
                    0,
                )
                n_todo += 1
                todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3] = (
                    graph.left[e],
                    depth + 1,
                    n - base,
                    1,
                )
                n_todo += 1
            n += 1
        offset[t + 1] = n
    return Grown(nodes[:n].copy(), offset, log_prior, log_score)


@jit
def choose(
    rng: np.random.Generator, graph: Any, log_inside: np.ndarray, cell: int, slot: int, below: int, semiring: int
) -> int:
    """The question a slot splits by, -1 if it stops."""
    split = graph.log_split[slot]
    if split == -np.inf:
        return -1
    first, last = graph.first_edge[cell], graph.first_edge[cell + 1]
    best, best_value = -1, graph.log_stop[slot]
    u = rng.random() - exp(graph.log_stop[slot] - log_inside[slot]) if semiring == LOG else 1.0
    if u < 0.0:
        return -1
    for e in range(first, last):
        value = split + _edge_value(graph, log_inside, e, below)
        if semiring == LOG:
            u -= exp(value - log_inside[slot])
            if u < 0.0:
                return e
        if value > best_value:
            best, best_value = e, value
    # rounding may leave a draw a hair above the total: take the likeliest term
    return best


@jit
def _doubled(a: np.ndarray) -> np.ndarray:
    out = np.empty((2 * a.shape[0], a.shape[1]), dtype=a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j]
    return out


@jit
def _anchored(model: Any, nodes: np.ndarray, base: int, n: int) -> int:
    """A question of an empty cell, given relative to the box, for the box it has on the way here."""
    kind = model.questions.kind
    k, question = nodes[n, FEATURE], nodes[n, QUESTION]
    if kind < GRID or kind == FIXED:
        return question
    nominal = model.questions.feature[k].nominal
    low, here = np.int64(0), n
    if nominal:
        low = all_bits(model.questions.feature[k].n_codes)
    while nodes[here, PARENT] >= 0:
        parent = base + nodes[here, PARENT]
        if nodes[parent, FEATURE] == k:
            if nominal:
                low &= nodes[parent, QUESTION] if nodes[here, IS_LEFT] else ~nodes[parent, QUESTION]
            elif nodes[here, IS_LEFT] == 0:
                low = max(low, (nodes[parent, QUESTION] >> UPPER_BITS) + 1)
        here = parent
    if nominal:
        return spread_bits(low, question)
    cut = (question >> UPPER_BITS) + low
    return (cut << UPPER_BITS) | (cut + 1)


class Router(NamedTuple):
    """What tells on which side of a question a new row of numbers lies."""

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
    """Whether a row (p,) of numbers, with codes (p,) unless local, answers yes to question ``e`` of ``cell``."""
    k, question = graph.feature[e], graph.question[e]
    if router.nominal[k]:
        if row[k] < 0.0:
            return 2 * graph.rows[graph.left[e]] >= graph.rows[cell]
        return (question >> np.int64(row[k])) & 1 == 1
    cut, upper = question >> UPPER_BITS, question & 0xFFFFFFFF
    if not router.local:
        return code[k] <= cut
    if cut < 0 or upper == router.n_codes[k]:
        return cut >= 0
    a, b = router.high[router.offset[k] + cut], router.low[router.offset[k] + upper]
    middle = a / 2.0 + b / 2.0
    return row[k] <= (middle if a <= middle < b else a)


@jit
def average_rows(
    graph: Any, log_inside: np.ndarray, router: Router, rows: np.ndarray, codes: np.ndarray, value: np.ndarray
) -> np.ndarray:
    """Posterior means (n, d) of the leaf values (n_cells, d) that new rows (n, p) reach.

    The mass of the trees in which a row passes through a cell flows down the questions, on the row's side; a heap
    keeps the cells it has reached in topological order. Time a row: the questions of the cells it may pass.
    """
    out = np.zeros((len(rows), value.shape[1]))
    mass = np.zeros(len(log_inside))
    waiting = np.zeros(len(graph.rows), dtype=np.bool_)
    heap = np.empty(len(graph.rows), dtype=np.int64)
    for i in range(len(rows)):
        mass[0], heap[0], n = 1.0, 0, 1
        while n > 0:
            cell = heap[0]
            n -= 1
            _sift_down(heap, n)
            waiting[cell] = False
            for slot in range(graph.first_slot[cell], graph.first_slot[cell + 1]):
                here, split = mass[slot], graph.log_split[slot]
                if here == 0.0:
                    continue
                mass[slot] = 0.0
                stop = 1.0
                if split > -np.inf and graph.rows[cell] > 0:
                    stop = exp(graph.log_stop[slot] - log_inside[slot])
                    below = graph.depth[cell] + slot - graph.first_slot[cell] + 1
                    for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
                        share = here * exp(split + _edge_value(graph, log_inside, e, below) - log_inside[slot])
                        left = goes_left(graph, router, e, cell, rows[i], codes[i])
                        child = np.int64(graph.left[e] if left else graph.right[e])
                        mass[slot_below(graph, child, below)] += share
                        if child != cell and not waiting[child]:
                            waiting[child] = True
                            _sift_up(heap, n, child)
                            n += 1
                for j in range(value.shape[1]):
                    out[i, j] += here * stop * value[cell, j]
    return out


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
