"""The semiring of the best trees for every penalty per leaf, and of the best root fragments with such trees below."""

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.names import short_repr

from ..graph.cells import child_slots
from .semirings import add_split, choose_split, start_with_leaf, store


class Hull(NamedTuple):
    """The maximum over trees of weight minus alpha times the number of leaves, for all alpha >= 0."""

    # h_s(alpha) = max over trees of weight - alpha * leaves is a maximum of lines, stored as the vertices of the upper
    # hull of the points (leaves, weight) of a slot's trees, from the fewest leaves to the largest weight. Two subtrees
    # are chosen independently: h(alpha) = h_left(alpha) + h_right(alpha), so the edges of the hull of the sums are
    # those of both hulls, in order of slope. At the root of a fixed tree the vertices are the trees of weakest-link
    # pruning (formulas, section 8)
    def __repr__(self) -> str:
        return short_repr(self)

    start: np.ndarray  # (n_slots,) int64: place of the first vertex of each slot in ``leaves`` and ``weight``
    length: np.ndarray  # (n_slots,) int64: number of vertices of each slot
    leaves: np.ndarray  # float64: number of leaves of each vertex, ascending within a slot
    weight: np.ndarray  # float64: log weight of each vertex, ascending within a slot
    # (3, 2, most leaves + 1) float64: vertices (leaves, weight) of the current slot, of one split, and of both
    buffer: np.ndarray
    n_needed: np.ndarray  # (1,) int64: number of vertices so far, with those that did not fit into the arrays


@start_with_leaf.register(Hull)
def _(semiring, cell, slot, log_stop):
    if log_stop == -np.inf:
        return 0
    semiring.buffer[0, 0, 0], semiring.buffer[0, 1, 0] = 1.0, log_stop
    return 1


@add_split.register(Hull)
def _(semiring, accumulator, slot, e, log_weight, left, right):
    buffer = semiring.buffer
    n_split = add_hulls_into_buffer(semiring, left, right, log_weight)
    if n_split == 0:
        return accumulator
    n, i, j = 0, 0, 0
    while i < accumulator or j < n_split:
        from_first = i < accumulator
        if from_first and j < n_split:
            from_first = buffer[0, 0, i] < buffer[1, 0, j] or (
                buffer[0, 0, i] == buffer[1, 0, j] and buffer[0, 1, i] >= buffer[1, 1, j]
            )
        if from_first:
            n = add_vertex(buffer[2], n, buffer[0, 0, i], buffer[0, 1, i])
            i += 1
        else:
            n = add_vertex(buffer[2], n, buffer[1, 0, j], buffer[1, 1, j])
            j += 1
    for i in range(n):
        buffer[0, 0, i], buffer[0, 1, i] = buffer[2, 0, i], buffer[2, 1, i]
    return n


@jit
def add_hulls_into_buffer(semiring: Any, left: int, right: int, log_weight: float) -> int:
    """Write the hull of the trees with a given split into ``semiring.buffer[1]``."""
    # return its number of vertices, 0 if none
    # each step goes along the hull whose next edge has the larger gain of weight per leaf, compared without division
    leaves, weight, buffer = semiring.leaves, semiring.weight, semiring.buffer
    i, j = semiring.start[left], semiring.start[right]
    last_i, last_j = i + semiring.length[left] - 1, j + semiring.length[right] - 1
    if last_i < i or last_j < j or log_weight == -np.inf:
        return 0
    n = 0
    while True:
        buffer[1, 0, n], buffer[1, 1, n] = leaves[i] + leaves[j], log_weight + (weight[i] + weight[j])
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
def add_vertex(vertices: np.ndarray, n: int, leaves: float, weight: float) -> int:
    """Add the point to an upper hull of `n` vertices (2, ...), and return the new number of vertices."""
    # Points come in order of leaves, of equal ones the heaviest first. Vertices no longer above the line from their
    # predecessor to the point are removed; a point with no larger weight than the last vertex is not added
    if n > 0 and weight <= vertices[1, n - 1]:
        return n
    while n > 1:
        rise = (vertices[1, n - 1] - vertices[1, n - 2]) * (leaves - vertices[0, n - 2])
        if rise > (weight - vertices[1, n - 2]) * (vertices[0, n - 1] - vertices[0, n - 2]):
            break
        n -= 1
    vertices[0, n], vertices[1, n] = leaves, weight
    return n + 1


@store.register(Hull)
def _(semiring, slot, total):
    start = semiring.n_needed[0]
    semiring.n_needed[0] += total
    if semiring.n_needed[0] > len(semiring.leaves):
        total = 0
    for i in range(total):
        semiring.leaves[start + i], semiring.weight[start + i] = semiring.buffer[0, 0, i], semiring.buffer[0, 1, i]
    semiring.start[slot], semiring.length[slot] = start, total


@choose_split.register(Hull)
def _(semiring, rng, graph, cell, slot, child_depth, tree_number):
    """Return the split and both subtrees' tree numbers, as `choose_split`."""
    # tree numbers are vertices of the slot's hull; for `Fragments`, IN_FRAGMENT until the fragment ended at an ancestor
    leaves, weight, start = semiring.leaves, semiring.weight, semiring.start
    m = leaves[start[slot] + tree_number]
    best, left_number, right_number, top = -1, 0, 0, -np.inf
    if m == 1.0:
        return best, left_number, right_number
    for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
        left, right = child_slots(graph, e, child_depth)
        log_weight = graph.log_split[slot] + graph.log_rule[e]
        j = semiring.length[right] - 1
        for i in range(semiring.length[left]):
            while j >= 0 and leaves[start[left] + i] + leaves[start[right] + j] > m:
                j -= 1
            if j < 0:
                break
            term = log_weight + (weight[start[left] + i] + weight[start[right] + j])
            if leaves[start[left] + i] + leaves[start[right] + j] == m and term > top:
                best, left_number, right_number, top = e, i, j, term
    return best, left_number, right_number


IN_FRAGMENT = -1  # tree number, in place of a vertex, of a slot at which the root fragment has not ended yet


class Fragments(NamedTuple):
    """The best tree and root fragment: (max, +) over the splits of the fragment, and hulls below its leaves."""

    # Below each leaf of the fragment the rest of the tree is a vertex of the hull of (leaves, weight). Both are chosen:
    #     value_s  =  max( stop_s,  max over splits e of  weight_e + value_left + value_right )
    hull: Hull
    value: np.ndarray  # (n_slots,) float64: weight of the best tree and fragment below a slot
    stop: np.ndarray  # (n_slots,) float64: weight of the best tree below a slot if the fragment ends at the slot
    vertex: np.ndarray  # (n_slots,) int64: vertex of the slot's hull that is this tree


@choose_split.register(Fragments)
def _(semiring, rng, graph, cell, slot, child_depth, tree_number):
    """Return the split and both subtrees' tree numbers, as `choose_split`."""
    # tree numbers are vertices of the slot's hull; for `Fragments`, IN_FRAGMENT until the fragment ended at an ancestor
    if tree_number != IN_FRAGMENT:
        return choose_split(semiring.hull, rng, graph, cell, slot, child_depth, tree_number)
    best, top = -1, semiring.stop[slot]
    if graph.log_split[slot] > -np.inf:
        for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
            left, right = child_slots(graph, e, child_depth)
            term = graph.log_split[slot] + graph.log_rule[e] + semiring.value[left] + semiring.value[right]
            if term > top:
                best, top = e, term
    if best < 0:
        return choose_split(semiring.hull, rng, graph, cell, slot, child_depth, semiring.vertex[slot])
    return best, IN_FRAGMENT, IN_FRAGMENT
