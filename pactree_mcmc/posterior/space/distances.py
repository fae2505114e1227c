"""Distances between trees: by their cells, by the partitions of their leaves, by their predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.checks import check_choice, in_words, read_array
from ...core.compile.jit import jit
from ...tree.coded import leaves_of_units
from .cells import MAX_ROWS, rows_looked_at
from .support import check_drawn

if TYPE_CHECKING:
    from ...model import TreeModel
    from ..sampled import SampledPosterior

KINDS = ("cells", "partitions", "predictions")
MOST_DRAWS = 400
"""Default number of draws between which distances are computed."""


class TreeDistances(NamedTuple):
    """Distances between the trees of some draws."""

    matrix: np.ndarray
    """(m, m) float64, symmetric, zeros on the diagonal."""
    chain: np.ndarray
    """(m,) int64: the chain of each draw."""
    draw: np.ndarray
    """(m,) int64: the number of each draw in its chain."""
    tree: np.ndarray
    """(m,) int64: the distinct tree of each draw."""
    kind: str
    """"cells", "partitions" or "predictions"."""


def distances_between(post: SampledPosterior, draws: object, kind: str) -> TreeDistances:
    """Distances between draws of trees; see `SampledPosterior.tree_distances`."""
    kind = check_choice("kind", kind, KINDS)
    check_drawn(post)
    total = post.tree_of_draw.size
    if draws is None:
        chosen = spaced(total, MOST_DRAWS)
    else:
        chosen = read_array("draws", draws)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or len(chosen) == 0:
            raise ValueError(f"draws is {in_words(draws)}; give numbers of draws, chain after chain, shape (m,).")
        if chosen.min() < 0 or chosen.max() >= total:
            raise ValueError(f"draws names draw {int(chosen.max())} of {total}; give numbers from 0 to {total - 1}.")
        chosen = chosen.astype(np.int64)
    tree = post.tree_of_draw.ravel()[chosen]
    some, where = np.unique(tree, return_inverse=True)
    matrix = between_trees(post, some, some, kind)
    return TreeDistances(matrix[where[:, None], where], chosen // post.n_draws, chosen % post.n_draws, tree, kind)


def spaced(n: int, most: int) -> np.ndarray:
    """At most ``most`` of the numbers below ``n``, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def between_trees(post: SampledPosterior, one: np.ndarray, other: np.ndarray, kind: str) -> np.ndarray:
    """Distances (a, b) of the distinct trees ``one`` (a,) from ``other`` (b,)."""
    if kind == "cells":
        return cell_distances(post.cells.offset, post.cells.member, one, other)
    if kind == "partitions":
        return _partition_distances(post, one, other)
    return _prediction_distances(post, one, other)


@jit
def cell_distances(offset: np.ndarray, member: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Number (a, b) of cells that only one has, of the trees ``one`` (a,) and ``other`` (b,)."""
    out = np.empty((len(one), len(other)))
    for i in range(len(one)):
        for j in range(len(other)):
            sizes = offset[one[i] + 1] - offset[one[i]] + offset[other[j] + 1] - offset[other[j]]
            out[i, j] = sizes - 2 * in_common(offset, member, one[i], other[j])
    return out


@jit
def in_common(offset: np.ndarray, member: np.ndarray, s: int, t: int) -> int:
    """Number of cells that trees ``s`` and ``t`` have in common."""
    i, j, n = offset[s], offset[t], 0
    while i < offset[s + 1] and j < offset[t + 1]:
        a, b = member[i], member[j]
        n += 1 if a == b else 0
        i += 1 if a <= b else 0
        j += 1 if b <= a else 0
    return n


def _partition_distances(post: SampledPosterior, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    units = rows_looked_at(post.model, MAX_ROWS)[0]
    codes, rows = post.model.units.codes, row_counts(post.model, units)
    leaves = [_leaf_numbers(leaves_of_units(post.coded_trees.take(trees), codes, units)) for trees in (one, other)]
    return information_distances(leaves[0], leaves[1], rows / rows.sum())


def _leaf_numbers(leaf: np.ndarray) -> np.ndarray:
    """Leaves (n_trees, m) counted from 0 in each tree, of nodes (m, n_trees)."""
    return np.ascontiguousarray([np.unique(column, return_inverse=True)[1] for column in leaf.T], dtype=np.int64)


@jit
def information_distances(one: np.ndarray, other: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Variation of information (a, b), nats, between partitions (a, m) and (b, m) of rows of ``weight`` (m,), sum 1."""
    most = 1
    for leaves in (one, other):
        for t in range(len(leaves)):
            for i in range(len(weight)):
                most = max(most, leaves[t, i] + 1)
    both, alone = np.zeros((most, most)), np.zeros((2, most))
    out = np.empty((len(one), len(other)))
    for s in range(len(one)):
        for t in range(len(other)):
            for i in range(len(weight)):
                a, b = one[s, i], other[t, i]
                both[a, b] += weight[i]
                alone[0, a] += weight[i]
                alone[1, b] += weight[i]
            total = 0.0
            for i in range(len(weight)):
                a, b = one[s, i], other[t, i]
                # each fraction of rows is added once, where it is first met
                p = both[a, b]
                if p > 0.0:
                    total += p * np.log(alone[0, a] / p) + p * np.log(alone[1, b] / p)
                    both[a, b] = 0.0
            for a in range(most):
                alone[0, a] = alone[1, a] = 0.0
            out[s, t] = max(total, 0.0)
    return out


def _prediction_distances(post: SampledPosterior, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    units = rows_looked_at(post.model, MAX_ROWS)[0]
    rows = row_counts(post.model, units)
    scale = np.sqrt(rows / rows.sum())[:, None]
    values = [(values_at(post, trees, units) * scale).reshape(len(trees), -1) for trees in (one, other)]
    centre = values[0].mean(axis=0)
    first, second = (value - centre for value in values)
    square = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1) - 2.0 * first @ second.T
    # what rounding leaves of a distance 0
    square[square < 1e-14 * (first**2).sum(axis=1).max(initial=0.0)] = 0.0
    return np.sqrt(np.maximum(square, 0.0))


def values_at(post: SampledPosterior, trees: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Predictions (n_trees, m, d) of each distinct tree at distinct rows of the model."""
    model = post.model
    if not model.leaf.predicts:
        raise ValueError(f"{type(model.leaf).__name__} predicts nothing; take the distance of cells or partitions.")
    some = post.coded_trees.take(trees)
    reached = leaves_of_units(some, model.units.codes, units).T
    stats = post.node_stats[post.coded_trees.nodes_of(trees)]
    regressors = model.target.regressors
    own = () if regressors is None else (regressors[_first_rows(post, units)],)
    if not own:
        return np.ascontiguousarray(model.leaf.value(stats, model.target))[reached]
    return np.array([model.leaf.value(stats[nodes], model.target, *own) for nodes in reached])


def _first_rows(post: SampledPosterior, units: np.ndarray) -> np.ndarray:
    """A training row of each of the ``units``."""
    of_row = post.model.unit_of_row
    return units if of_row is None else np.unique(of_row, return_index=True)[1][units]


def row_counts(model: TreeModel, units: np.ndarray) -> np.ndarray:
    """Number of training rows in each of the ``units``."""
    held = model.units
    return held.rows[units & held.rows_all].astype(np.float64)
