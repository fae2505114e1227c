"""The semiring of the best trees for every penalty per leaf, and of the best root fragments with such trees below."""

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.names import short_repr

from ..graph.cells import children
from .semirings import add_split, choose, leaf, store


class Hull(NamedTuple):
    """The maximum over trees of weight minus alpha times the number of leaves, for all alpha >= 0.

    It is a maximum of lines, ``h_s(alpha) = max over trees of weight - alpha * leaves``, stored as the vertices of the
    upper hull of the points (leaves, weight) of a slot's trees, from the fewest leaves to the largest weight. Two
    subtrees are chosen independently, so that ``h(alpha) = h_left(alpha) + h_right(alpha)``. So the edges of the hull
    of the sums are those of both hulls, in order of slope. At the root of a fixed tree the vertices are the trees of
    weakest-link pruning (formulas, section 8).
    """

    def __repr__(self) -> str:
        return short_repr(self)

    start: np.ndarray  # (n_slots,) int64: place of the first vertex of each slot in ``leaves`` and ``weight``
    length: np.ndarray  # (n_slots,) int64: number of vertices of each slot
    leaves: np.ndarray  # float64: number of leaves of each vertex, ascending within a slot
    weight: np.ndarray  # float64: log weight of each vertex, ascending within a slot
    # (3, 2, most leaves + 1) float64: vertices (leaves, weight) of the current slot, of one split, and of both
    row: np.ndarray
    used: np.ndarray  # (1,) int64: number of vertices so far, with those that did not fit into the arrays


@leaf.register(Hull)
def _(semiring, cell, slot, log_stop):
    if log_stop == -np.inf:
        return 0
    semiring.row[0, 0, 0], semiring.row[0, 1, 0] = 1.0, log_stop
    return 1


@add_split.register(Hull)
def _(semiring, so_far, slot, e, log_weight, left, right):
    row = semiring.row
    n_asked = add_hulls(semiring, left, right, log_weight)
    if n_asked == 0:
        return so_far
    n, i, j = 0, 0, 0
    while i < so_far or j < n_asked:
        here = i < so_far
        if here and j < n_asked:
            here = row[0, 0, i] < row[1, 0, j] or (row[0, 0, i] == row[1, 0, j] and row[0, 1, i] >= row[1, 1, j])
        if here:
            n = add_corner(row[2], n, row[0, 0, i], row[0, 1, i])
            i += 1
        else:
            n = add_corner(row[2], n, row[1, 0, j], row[1, 1, j])
            j += 1
    for i in range(n):
        row[0, 0, i], row[0, 1, i] = row[2, 0, i], row[2, 1, i]
    return n


@jit
def add_hulls(semiring: Any, left: int, right: int, log_weight: float) -> int:
    """Write the hull of the sums of trees of two slots into ``row[1]``, and return its number of vertices.

    ``log_weight`` is added to all weights. The edges of both hulls are merged in order of slope.
    """
    leaves, weight, row = semiring.leaves, semiring.weight, semiring.row
    i, j = semiring.start[left], semiring.start[right]
    last_i, last_j = i + semiring.length[left] - 1, j + semiring.length[right] - 1
    if last_i < i or last_j < j or log_weight == -np.inf:
        return 0
    n = 0
    while True:
        row[1, 0, n], row[1, 1, n] = leaves[i] + leaves[j], log_weight + (weight[i] + weight[j])
        n += 1
        if i == last_i and j == last_j:
            return n
        steps_i, steps_j = j == last_j, i == last_i
        if i < last_i and j < last_j:
            gain_i = (weight[i + 1] - weight[i]) * (leaves[j + 1] - leaves[j])
            gain_j = (weight[j + 1] - weight[j]) * (leaves[i + 1] - leaves[i])
            steps_i, steps_j = gain_i >= gain_j, gain_j >= gain_i
        i += steps_i
        j += steps_j


@jit
def add_corner(corners: np.ndarray, n: int, leaves: float, weight: float) -> int:
    """Add the point (leaves, weight) to an upper hull of ``n`` vertices, and return the new number of vertices.

    ``corners`` (2, ...) holds the numbers of leaves and the weights, ascending. Vertices that are no longer on the hull
    are removed. A point with no larger weight than the last vertex is not added.
    """
    if n > 0 and weight <= corners[1, n - 1]:
        return n
    while n > 1:
        rise = (corners[1, n - 1] - corners[1, n - 2]) * (leaves - corners[0, n - 2])
        if rise > (weight - corners[1, n - 2]) * (corners[0, n - 1] - corners[0, n - 2]):
            break
        n -= 1
    corners[0, n], corners[1, n] = leaves, weight
    return n + 1


@store.register(Hull)
def _(semiring, slot, total):
    start = semiring.used[0]
    semiring.used[0] += total
    if semiring.used[0] > len(semiring.leaves):
        total = 0
    for i in range(total):
        semiring.leaves[start + i], semiring.weight[start + i] = semiring.row[0, 0, i], semiring.row[0, 1, i]
    semiring.start[slot], semiring.length[slot] = start, total


@choose.register(Hull)
def _(semiring, rng, graph, cell, slot, below, wanted):
    """``wanted`` is the number of a vertex of the slot's hull, counted from 0."""
    leaves, weight, start = semiring.leaves, semiring.weight, semiring.start
    m = leaves[start[slot] + wanted]
    best, on_left, on_right, top = -1, 0, 0, -np.inf
    if m == 1.0:
        return best, on_left, on_right
    for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
        left, right = children(graph, e, below)
        log_weight = graph.log_split[slot] + graph.log_rule[e]
        j = semiring.length[right] - 1
        for i in range(semiring.length[left]):
            while j >= 0 and leaves[start[left] + i] + leaves[start[right] + j] > m:
                j -= 1
            if j < 0:
                break
            term = log_weight + (weight[start[left] + i] + weight[start[right] + j])
            if leaves[start[left] + i] + leaves[start[right] + j] == m and term > top:
                best, on_left, on_right, top = e, i, j, term
    return best, on_left, on_right


INSIDE = -1
"""Value of ``wanted`` for a slot inside the root fragment, in place of a vertex."""


class Fragments(NamedTuple):
    """The best tree and root fragment: (max, +) over the splits of the fragment, and hulls below its leaves.

    A root fragment of a tree is a subtree with the same root. Below each of its leaves the rest of the tree is a vertex
    of the hull of (leaves, weight).
    """

    hull: Hull
    value: np.ndarray  # (n_slots,) float64: weight of the best tree and fragment below a slot
    stop: np.ndarray  # (n_slots,) float64: weight of the best tree below a slot if the fragment ends at the slot
    corner: np.ndarray  # (n_slots,) int64: vertex of the slot's hull that is this tree


@choose.register(Fragments)
def _(semiring, rng, graph, cell, slot, below, wanted):
    """``wanted`` is INSIDE, or the number of a vertex of the slot's hull if the fragment ended above."""
    if wanted != INSIDE:
        return choose(semiring.hull, rng, graph, cell, slot, below, wanted)
    best, top = -1, semiring.stop[slot]
    if graph.log_split[slot] > -np.inf:
        for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
            left, right = children(graph, e, below)
            term = graph.log_split[slot] + graph.log_rule[e] + semiring.value[left] + semiring.value[right]
            if term > top:
                best, top = e, term
    if best < 0:
        return choose(semiring.hull, rng, graph, cell, slot, below, semiring.corner[slot])
    return best, INSIDE, INSIDE
