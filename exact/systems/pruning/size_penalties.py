"""Penalties by the number of leaves, and the tree of a graph that is best under one (Scott 2004, chapter 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import check_count, read_numbers

from ...answers import best_by_size, best_sums, hull_by_size, most_leaves
from ...graph.cells import CellGraph
from ...semirings.algebras import BestBySize
from ...semirings.hulls import Hull

LARGEST_PENALTY = 1e150
"""Largest penalty allowed, so that the product of two is finite."""
FIRST_SIZES = 16
"""Number of sizes tried first if a penalty is not concave."""


class Chosen(NamedTuple):
    """The tree with the largest log weight minus penalty, before it is grown."""

    semiring: Hull | BestBySize
    wanted: int
    """Number of the tree among the root's, in the semiring's terms."""
    log_weight: float
    penalty: float


def best_for_sizes(graph: CellGraph, penalty: Callable[[np.ndarray], np.ndarray]) -> Chosen:
    """Return the tree of a graph with the largest log weight minus a nondecreasing penalty by the number of leaves.

    Under a concave penalty it is a vertex of the hull of (leaves, log weight) (Scott 2004, Theorem 18, whose proof
    needs no tree). For others the best trees of all sizes that can matter are found.
    """
    most = int(most_leaves(graph)[0])
    penalties = penalty(np.arange(1.0, most + 1.0))
    if is_concave(penalties):
        hull = hull_by_size(graph)
        leaves, weight = root_vertices(hull)
        penalties = penalties[leaves - 1]
        i = int(np.argmax(weight - penalties))
        return Chosen(hull, i, float(weight[i]), float(penalties[i]))
    largest, most_tried = best_sums(graph)[0], FIRST_SIZES
    while True:
        sizes = best_by_size(graph, min(most_tried, most))
        n = int(sizes.wide[0])
        value = sizes.value[:n] - penalties[:n]
        i = int(np.argmax(value))
        # no tree of a size beyond these can be better, whatever its log weight
        useful = int(np.sum(largest - penalties > value[i]))
        if useful <= most_tried:
            return Chosen(sizes, i, float(sizes.value[i]), float(penalties[i]))
        most_tried = min(useful, 4 * most_tried)


def root_vertices(hull: Hull) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of leaves, int64, and the log weights of the vertices of the root's hull."""
    vertices = slice(int(hull.start[0]), int(hull.start[0] + hull.length[0]))
    return hull.leaves[vertices].astype(np.int64), hull.weight[vertices]


def sizes_penalty(penalty: Any, leaves: np.ndarray) -> np.ndarray:
    """Return a penalty, given as a function or as the values for 1, 2, ... leaves, at ascending ``leaves``.

    Raises
    ------
    ValueError
        If it is not finite or decreases, or there are too few values.
    """
    if callable(penalty):
        out = read_numbers("what penalty returns", penalty(leaves))
    else:
        values = read_numbers("penalty", penalty)
        if values.ndim != 1 or len(values) < leaves[-1]:
            raise ValueError(f"penalty has shape {values.shape}; give values for 1 to {int(leaves[-1])} leaves.")
        out = values[leaves.astype(np.int64) - 1]
    if out.shape != leaves.shape or not np.isfinite(out).all():
        raise ValueError("penalty must return a finite number for each number of leaves in the array it is given.")
    if np.abs(out).max(initial=0.0) > LARGEST_PENALTY:
        raise ValueError(f"penalty is as large as {np.abs(out).max():.3g}; give penalties up to {LARGEST_PENALTY:g}.")
    falls = out[1:] < out[:-1]
    if falls.any():
        i = int(np.argmax(falls))
        raise ValueError(
            f"the penalty falls from {out[i]:.6g} for {leaves[i]:g} leaves to {out[i + 1]:.6g} for {leaves[i + 1]:g}; "
            "give one that increases with the number of leaves."
        )
    return out


def increasing_penalty(penalty: Any, most: int) -> np.ndarray:
    """Return a penalty of 1, ..., ``most`` leaves, and refuse one that does not increase everywhere."""
    phi = sizes_penalty(penalty, np.arange(1.0, most + 1.0))
    if np.any(np.diff(phi) <= 0.0):
        k = int(np.argmax(np.diff(phi) <= 0.0)) + 1
        raise ValueError(f"the penalty of {k + 1} leaves is not above that of {k}; give an increasing one.")
    return phi


def is_concave(values: np.ndarray) -> bool:
    """Return True if values at 1, 2, ... are concave up to rounding, as a sub-additive penalty in Scott's sense is."""
    bend = np.diff(values, 2)
    return bool(np.all(bend <= 1e-12 * max(1.0, float(np.abs(values).max(initial=0.0)))))


def dominates(first: Any, second: Any, max_leaves: int) -> bool:
    """Return True if one penalty of the number of leaves dominates another (Scott 2004, definition 1).

    ``(g(a) - g(b)) / (g(a) - g(c)) <= (f(a) - f(b)) / (f(a) - f(c))`` for all ``a > b > c``, with f the first and g the
    second: g is a concave function of f. Then every pruning that is best under ``alpha g`` for some alpha is so under
    ``alpha f`` for another one, for every tree (Theorem 18). A penalty that is dominated by ``k`` is sub-additive in
    Scott's words.

    Parameters
    ----------
    first, second : function of an array of numbers of leaves, or array
        Increasing penalties of 1, 2, ... leaves.
    max_leaves : int
        Largest number of leaves, >= 1.

    Raises
    ------
    ValueError
        If a penalty does not increase everywhere or is not finite, or ``max_leaves`` is out of range.

    Notes
    -----
    It is enough that ``(g(k + 1) - g(k)) / (f(k + 1) - f(k))`` does not increase: O(max_leaves), up to rounding.
    Scott's Proposition 9 (``g'' <= f'' g' / f'`` where ``0 < g' <= f'``) and Proposition 10 (both composed with one
    increasing function) are conditions on functions under which this holds for all sizes.

    Examples
    --------
    >>> dominates(lambda k: k, np.sqrt, 1000), dominates(np.sqrt, lambda k: k, 1000)
    (True, False)
    """
    check_count("max_leaves", max_leaves)
    f, g = increasing_penalty(first, max_leaves), increasing_penalty(second, max_leaves)
    slope = np.diff(g) / np.diff(f)
    return bool(np.all(np.diff(slope) <= 1e-9 * slope[:-1]))
