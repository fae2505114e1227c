"""Functions that compute sums over all trees of a graph: evidence, best weight, number of trees, sizes, moments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import check_count, check_type, read_array, read_numbers

from .graph.cells import CellGraph
from .limits import Bar, Intractable, refuse_bytes
from .recursion.inside_outside import (
    NEGLIGIBLE_MASS,
    Occurrences,
    compute_inside,
    expected_occurrences,
    likely_part,
    with_unit_weights,
)
from .recursion.semirings import (
    Best,
    BestBySize,
    DepthDistribution,
    Fragments,
    Hull,
    LogSum,
    Moments,
    Products,
    Residue,
    SizeDistribution,
)

COLUMN_BYTES = 1 << 28
"""Bytes for the values, at all slots, of the functions computed together."""
MAX_COEFFICIENTS = 1 << 28
"""Largest number of coefficients or vertices that a recursion over all slots may store."""
FIRST_DEPTHS = 16
"""Number of depths tried first for the distribution of the depth."""
MAX_LOG_WEIGHT = 10**12
"""Largest log weight, nats. Differences of larger ones, the log odds of trees, have rounding errors above 2e-4."""
ADVICE_ON_LARGE_LOGS = (
    "Beyond these 1e12 nats rounding changes the odds of trees: rescale sample_weight or y, give a larger variance, or "
    "sample."
)
LARGEST_PRIME = (1 << 31) - 1
"""First prime by which numbers of trees are reduced; the product of two residues fits into 64 bits."""


def log_sums(graph: CellGraph, bar: Bar | None = None) -> np.ndarray:
    """Return the log (n_slots,) of the sum of the weights of the trees below each slot."""
    # the weight of a tree is the product of exp(log_stop) over its leaves and of exp(log_split + log_rule) over its
    # splits: for the graph of a model, prior times marginal likelihood, so that entry 0 is the log evidence
    most = int(np.diff(graph.first_edge).max(initial=0))
    # zeros, not empty memory: a split of weight 0 may lead to a cell that is not summed yet
    value = compute_inside(graph, LogSum(np.zeros(graph.n_slots), np.empty(most + 1)), bar).value
    largest = float(np.abs(value, where=value > -np.inf, out=np.zeros(len(value))).max())
    if largest > MAX_LOG_WEIGHT:
        raise Intractable(int(min(largest, 1e300)), MAX_LOG_WEIGHT, "nats of log evidence", ADVICE_ON_LARGE_LOGS)
    return value


def best_sums(graph: CellGraph) -> np.ndarray:
    """Return the largest log weight (n_slots,), prior and score, of a tree below each slot, a cell at a depth."""
    return compute_inside(graph, Best(np.zeros(graph.n_slots))).value


def log_sum(graph: CellGraph) -> float:
    """Return the log of the sum of the weights of all trees, nats: for the graph of a model, the log evidence."""
    check_type("graph", graph, CellGraph, "a CellGraph, as build_graph makes it")
    return float(log_sums(graph)[0])


def best_log_weight(graph: CellGraph) -> float:
    """Return the log weight of the best tree, nats: for the graph of a model, its log prior plus log score."""
    check_type("graph", graph, CellGraph, "a CellGraph, as build_graph makes it")
    return float(best_sums(graph)[0])


def occurrences(graph: CellGraph, log_inside: np.ndarray | None = None) -> Occurrences:
    """Return how often each slot (a cell at a depth) and each split is expected to occur in a tree drawn by weight.

    ``log_inside`` (n_slots,) is the attribute of an `ExactPosterior` of the same graph; None computes it.
    """
    check_type("graph", graph, CellGraph, "a CellGraph, as build_graph makes it")
    if log_inside is not None:
        log_inside = read_numbers("log_inside", log_inside)
        if log_inside.shape != (graph.n_slots,) or np.isnan(log_inside).any():
            raise ValueError(f"log_inside has shape {log_inside.shape}; give ({graph.n_slots},), as log_sums makes it.")
    return expected_occurrences(graph, log_sums(graph) if log_inside is None else log_inside)


def count_trees(graph: CellGraph) -> int:
    """Return the exact number of trees of positive weight.

    The trees are counted modulo several primes just below 2^31, and the residues combined by the Chinese remainder
    theorem: a pass over the graph for every 9 digits.
    """
    check_type("graph", graph, CellGraph, "a CellGraph, as build_graph makes it")
    counting = with_unit_weights(graph)
    log_count = log_sums(counting)[0]
    if log_count == -np.inf:
        return 0
    count, modulus, prime = 0, 1, LARGEST_PRIME + 1
    # one prime more than necessary covers the rounding of log_count
    while math.log(modulus) < log_count + 20.0:
        prime = _prime_below(prime)
        residue = compute_inside(counting, Residue(np.empty(graph.n_slots, dtype=np.uint64), np.uint64(prime))).value[0]  # type: ignore[arg-type]
        step = (int(residue) - count) * pow(modulus, -1, prime) % prime
        count, modulus = count + modulus * step, modulus * prime
    return count


def _prime_below(n: int) -> int:
    """Return the largest prime below ``n`` <= 2^31."""
    divisors = np.arange(3, math.isqrt(n) + 1, 2)
    candidate = n - 1 - n % 2
    while not np.all(candidate % divisors):
        candidate -= 2
    return candidate


def size_distribution(graph: CellGraph, log_inside: np.ndarray, occurs: Occurrences) -> np.ndarray:
    """Return the posterior distribution of the number of leaves, to within 2e-14; entry m is P(m leaves)."""
    # polynomials in the number of leaves are multiplied over the probable part of the graph. Their tails are truncated
    # if they do not matter at the root
    part, slots = likely_part(graph, occurs)
    n, max_loss = part.n_slots, _max_losses(occurs.slot[slots])
    longest = int(most_leaves(part)[0])
    capacity = 24 * n + longest
    while True:
        distribution = compute_inside(
            part,
            SizeDistribution(
                start=np.zeros(n, dtype=np.int64),
                length=np.zeros(n, dtype=np.int64),
                value=np.empty(capacity),
                buffer=np.zeros(longest),
                n_needed=np.zeros(1, dtype=np.int64),
                log_inside=log_inside[slots],
                max_loss=max_loss,
            ),
        )
        if distribution.n_needed[0] <= capacity:
            start, length = distribution.start[0], distribution.length[0]
            return np.concatenate([[0.0], distribution.value[start : start + length]])
        capacity = 2 * int(distribution.n_needed[0])


def depth_distribution(graph: CellGraph, log_inside: np.ndarray, deepest: int) -> np.ndarray:
    """Return the posterior distribution of the depth of a tree; entry d is P(depth d)."""
    # the tail below 1e-13 is truncated. Time and memory are those of the evidence times the number of depths returned
    depths = min(FIRST_DEPTHS, deepest + 1)
    while True:
        refuse_bytes(8 * graph.n_slots * depths, "the distribution of the depth")
        at_most = compute_inside(graph, DepthDistribution(np.empty((graph.n_slots, depths)), log_inside)).value[0]
        if depths == deepest + 1 or at_most[-1] > 1.0 - 10.0 * NEGLIGIBLE_MASS:
            distribution = np.diff(at_most, prepend=0.0)
            return distribution[: 1 + int(np.flatnonzero(distribution > 0.0)[-1])]
        depths = min(2 * depths, deepest + 1)


def mean_products(
    graph: CellGraph, log_inside: np.ndarray, occurs: Occurrences, leaf_factors: np.ndarray, banned: np.ndarray, p: int
) -> np.ndarray:
    """Return the posterior means (m,) of m products over a tree."""
    # product j is ``leaf_factors[j]`` in [0, 1] to the power of the number of leaves. It is 0 for a tree that splits on
    # the feature ``banned[j]`` of ``p`` features; -1 bans none. With factor 1 its mean is the probability that no split
    # is on that feature
    part, slots = likely_part(graph, occurs)
    log_values, max_loss = log_inside[slots], _max_losses(occurs.slot[slots])
    n_per_pass = max(1, COLUMN_BYTES // (8 * part.n_slots))
    out = []
    for first in range(0, len(leaf_factors), n_per_pass):
        columns = slice(first, first + n_per_pass)
        banned_by = np.full(p, -1)
        banned_by[banned[columns][banned[columns] >= 0]] = np.flatnonzero(banned[columns] >= 0)
        value = np.empty((part.n_slots, len(leaf_factors[columns])))
        products = Products(value, leaf_factors[columns], banned_by, part.feature, log_values, max_loss)
        out.append(compute_inside(part, products).value[0].copy())
    return np.concatenate(out)


def _max_losses(occurs: np.ndarray) -> np.ndarray:
    """Return the probability (n_slots,) that may be cut off the distribution of each slot."""
    # the losses of all slots, weighted by how often the slots occur in a tree (``occurs``), add up to `NEGLIGIBLE_MASS`
    with np.errstate(divide="ignore"):
        return NEGLIGIBLE_MASS / len(occurs) / occurs


class MeanAndVariance(NamedTuple):
    """Posterior mean and variance of functions of the tree."""

    mean: float | np.ndarray
    """float, or (m,) for m functions."""
    variance: float | np.ndarray
    """float, or (m,), as the mean."""


def mean_and_variance(
    graph: CellGraph, log_inside: np.ndarray, of_leaf: np.ndarray, of_split: np.ndarray
) -> MeanAndVariance:
    """Return the posterior mean and variance (m,) of functions that are sums over the leaves and splits of a tree."""
    # ``of_leaf`` (n_cells, m) are the terms of leaves, ``of_split`` (n_edges, m), or (0, m) for zeros, those of splits.
    # ``log_inside`` (n_slots,) are the log sums over the trees below each slot
    m = of_leaf.shape[1]
    n_per_pass = max(1, COLUMN_BYTES // (16 * graph.n_slots))
    means, variances = [], []
    for first in range(0, m, n_per_pass):
        columns = slice(first, first + n_per_pass)
        leaf, split = (np.ascontiguousarray(a[:, columns]) for a in (of_leaf, of_split))
        empty = np.empty((graph.n_slots, leaf.shape[1]))
        moments = compute_inside(graph, Moments(empty, np.empty_like(empty), leaf, split, log_inside))
        means.append(moments.mean[0].copy())
        variances.append(moments.variance[0].copy())
    return MeanAndVariance(np.concatenate(means), np.concatenate(variances))


def most_leaves(graph: CellGraph) -> np.ndarray:
    """Return the number of leaves (n_slots,) of the largest tree below each slot, -inf if no tree has weight there."""
    # splits of weight 0 count too
    one = np.where(graph.log_stop > -np.inf, 1.0, -np.inf)
    return best_sums(graph.with_terms(log_stop=one, log_split=0.0, log_rule=0.0))


def hull_by_size(graph: CellGraph) -> Hull:
    """Return the vertices of the upper hull of the points (leaves, log weight) of the trees below each slot.

    A slot is a cell at a depth. At the root the vertices are the best trees for every penalty alpha per leaf. They
    include the best tree for every penalty that is concave in the number of leaves. ``grow_trees`` returns the tree of
    any vertex.

    Notes
    -----
    Time and memory O(vertices of all slots), on a fixed tree of n leaves and depth d O(n d). Breiman, Friedman, Olshen
    and Stone (1984) for a fixed tree; Scott (2004), section 4.4 for concave penalties.

    Examples
    --------
    An error less for each further leaf, so that the tree of two leaves lies between two vertices:

    >>> from exact import build_graph
    >>> from pactree_mcmc import TreeModel
    >>> graph = build_graph(TreeModel([[0.0], [1.0], [2.0], [3.0], [4.0]], [0, 0, 1, 1, 0]))
    >>> errors = graph.stats.sum(axis=1) - graph.stats.max(axis=1)
    >>> hull = hull_by_size(graph.with_terms(log_stop=graph.by_slot(-errors), log_split=0.0, log_rule=0.0))
    >>> root = slice(hull.start[0], hull.start[0] + hull.length[0])
    >>> hull.leaves[root].tolist(), hull.weight[root].tolist()
    ([1.0, 3.0], [-2.0, 0.0])
    """
    check_type("graph", graph, CellGraph, "a CellGraph, as build_graph makes it")
    n = graph.n_slots
    longest, capacity = max(1, int(most_leaves(graph)[0])), 4 * n
    while True:
        if capacity > MAX_COEFFICIENTS:
            raise Intractable(capacity, MAX_COEFFICIENTS, "vertices of hulls")
        arrays = (np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.empty(capacity), np.empty(capacity))
        hull = compute_inside(graph, Hull(*arrays, np.empty((3, 2, longest + 1)), np.zeros(1, dtype=np.int64)))
        if hull.n_needed[0] <= capacity:
            return hull
        capacity = 2 * int(hull.n_needed[0])


def best_fragments(graph: CellGraph, hull: Hull, penalty: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Fragments:
    """Return the best pair of a tree and a root fragment (a subtree with the same root) below each slot."""
    # ``penalty(slot, leaves)`` is the cost of a leaf of the fragment at a slot below which the tree has so many leaves.
    # It must be concave in the leaves, so that the best tree below is a vertex of the hull of (leaves, weight). Weights
    # and costs add over the leaves of the fragment
    reached = np.flatnonzero(hull.length)
    n_vertices = hull.length[reached]
    slot, first = np.repeat(reached, n_vertices), np.cumsum(n_vertices) - n_vertices
    vertex = np.arange(len(slot)) - np.repeat(first, n_vertices)
    at = hull.start[slot] + vertex
    value = hull.weight[at] - penalty(slot, hull.leaves[at])
    stop, vertex_of_slot = np.full(graph.n_slots, -np.inf), np.zeros(graph.n_slots, dtype=np.int64)
    stop[reached] = np.maximum.reduceat(value, first)
    # written from the last vertex to the first, so that the one with the fewest leaves remains
    best = np.flatnonzero(value == stop[slot])[::-1]
    vertex_of_slot[slot[best]] = vertex[best]
    return Fragments(hull, best_sums(graph.with_terms(log_stop=stop)), stop, vertex_of_slot)


def best_by_size(
    graph: CellGraph,
    max_leaves: int,
    *,
    counts: np.ndarray | None = None,
    gain: np.ndarray | None = None,
    max_count: int | None = None,
) -> BestBySize:
    """Return the largest log weight of a tree for each number of leaves up to ``max_leaves`` and each count.

    A count is a sum of integers over the leaves, such as the number of false alarms. If ``counts`` is not given, the
    only count is 0.

    Parameters
    ----------
    graph : CellGraph
        Parents before children.
    max_leaves : int
        Largest number of leaves of the whole tree, >= 1; a cell at depth d keeps sizes up to ``max_leaves - d``.
    counts, gain : arrays of shape (n_slots, n_options), optional
        Terms that a leaf adds to the count of the tree (int64, >= 0) and to its log weight (float64), for each option
        of the leaf, such as its label.
    max_count : int, optional
        Largest count kept. Default: the largest possible.

    Raises
    ------
    ValueError
        If an argument is out of range, or of ``counts`` and ``gain`` only one is given.
    Intractable
        If more than 2^28 coefficients would be kept.

    Notes
    -----
    Max-plus convolution at every split; on a fixed tree of n leaves O(min(n, max_leaves) n) in all (Scott 2004,
    figure 4.1), because a pair of leaves meets at one node only. With a count, this is Scott's figure 3.2.
    """
    check_type("graph", graph, CellGraph, "a CellGraph, as build_graph makes it")
    check_count("max_leaves", max_leaves)
    counts, gain = _read_options(graph, counts, gain)
    if max_count is not None:
        check_count("max_count", max_count, 0)
    possible = np.where(graph.log_stop > -np.inf, 1.0, -np.inf)
    n_sizes = np.clip(np.minimum(most_leaves(graph), max_leaves - graph.slot_depth()), 0, None).astype(np.int64)
    if counts is None or gain is None:
        counts, gain = np.zeros((graph.n_slots, 1), dtype=np.int64), np.zeros((graph.n_slots, 1))
        n_counts = np.ones(graph.n_slots, dtype=np.int64)
    else:
        stop = np.where(possible > 0, counts.max(axis=1), -np.inf)
        highest = best_sums(graph.with_terms(log_stop=stop, log_split=0.0, log_rule=0.0))
        highest = np.minimum(highest, np.inf if max_count is None else max_count)
        n_counts = np.clip(highest, -1, None).astype(np.int64) + 1
    n_coefficients = int((n_sizes * n_counts).sum())
    if n_coefficients > MAX_COEFFICIENTS:
        raise Intractable(n_coefficients, MAX_COEFFICIENTS, "coefficients (a smaller max_leaves needs fewer)")
    start = np.concatenate([[0], np.cumsum(n_sizes * n_counts)])
    return compute_inside(graph, BestBySize(start, n_sizes, n_counts, np.empty(n_coefficients), counts, gain))


def _read_options(graph: CellGraph, counts: Any, gain: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Check ``counts`` and ``gain`` of `best_by_size`, and return both as arrays; (None, None) if both are None."""
    if counts is None and gain is None:
        return None, None
    if counts is None or gain is None:
        raise ValueError("of counts and gain only one is given; give both, or neither.")
    counts, gain = read_array("counts", counts), read_numbers("gain", gain)
    for name, array in (("counts", counts), ("gain", gain)):
        if array.ndim != 2 or len(array) != graph.n_slots or array.shape != counts.shape or array.size == 0:
            raise ValueError(f"{name} has shape {array.shape}; give ({graph.n_slots}, n_options), both alike.")
    if counts.dtype.kind not in "iu" or counts.min() < 0 or counts.max() >= 1 << 31:
        raise ValueError("counts must hold integers 0..2147483647, the terms that options add.")
    if np.isnan(gain).any() or np.isposinf(gain).any():
        raise ValueError("gain holds NaN or +inf; give finite numbers, or -inf for options that are not allowed.")
    return np.ascontiguousarray(counts, dtype=np.int64), np.ascontiguousarray(gain)
