"""Prediction on fixed designs, where all cells that contain a row are on one path: a lookup at the end of the path."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.geometry import follows_design, takes_turns, told

from ..graph.cells import CellGraph

MOST_TABLE_LEVELS = 20


class PathSums(NamedTuple):
    """Leaf values summed down the path to each cell, weighted by the probability that the cell is a leaf."""

    total: np.ndarray
    """(n_cells, d): over the cells from the root to this one."""
    split: np.ndarray
    """(n_cells,): probability that the cell is split."""
    empty: np.ndarray
    """(d,): the value of a cell without rows; all mass that enters an empty cell predicts it."""


def is_fixed_design(model: TreeModel) -> bool:
    """Return True if each cell of the model has at most one split, so that the cells of a row form a path."""
    rule = model.split_prior
    if len(model.prior_tables.by_leaves):
        return False
    return told(follows_design, rule) or (told(takes_turns, rule) and not model.columns.twins)


def sum_paths(graph: CellGraph, leaf: np.ndarray, split: np.ndarray, value: np.ndarray) -> PathSums:
    """Sum ``leaf * value`` down the paths of a fixed design.

    Parameters
    ----------
    graph : CellGraph
        Of a fixed design.
    leaf, split : ndarray of shape (n_cells,)
        Probability that the cell is a leaf, or is split.
    value : ndarray of shape (n_cells, d)
        Prediction of each cell as a leaf.
    """
    total = sum_down(graph.first_edge, graph.left, graph.right, graph.rows, leaf, value)
    bare = np.flatnonzero(graph.rows == 0)
    return PathSums(total, split, value[bare[0]] if len(bare) else np.zeros(value.shape[1]))


@jit
def sum_down(
    first_edge: np.ndarray, left: np.ndarray, right: np.ndarray, rows: np.ndarray, leaf: np.ndarray, value: np.ndarray
) -> np.ndarray:
    """Return the sums of ``leaf * value`` from the root down to each cell that holds rows, (n_cells, d)."""
    n, d = value.shape
    out = np.zeros((n, d))
    for j in range(d):
        out[0, j] = leaf[0] * value[0, j]
    for cell in range(n):
        if rows[cell] == 0 or first_edge[cell + 1] == first_edge[cell]:
            continue
        e = first_edge[cell]
        for side in range(2):
            child = left[e] if side == 0 else right[e]
            if rows[child] > 0:
                for j in range(d):
                    out[child, j] = out[cell, j] + leaf[child] * value[child, j]
    return out


class DyadicPaths:
    """Prediction on a cyclic dyadic design: the first bits of a row's path index a table of cells, the rest are
    followed.
    """

    def __init__(self, model: TreeModel, graph: CellGraph, sums: PathSums) -> None:
        self.levels, self.scales = int(model.split_prior.levels), model.scales
        self.graph, self.sums = graph, sums
        n_levels = min(int(graph.depth.max()), max(1, len(graph.rows).bit_length() - 1), MOST_TABLE_LEVELS)
        self.table = first_cells(graph.first_edge, graph.left, graph.right, graph.rows, graph.depth, n_levels)
        self.spread, self.shift = spread_codes(len(model.scales), self.levels, n_levels)
        self.n_levels = n_levels

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the values (n, d) of rows of numbers (n, p)."""
        codes = np.empty(X.shape[::-1], dtype=np.min_scalar_type((1 << self.levels) - 1))
        for k, scale in enumerate(self.scales):
            codes[k] = scale.encode(np.ascontiguousarray(X[:, k]))
        return self.of_codes(codes)

    def of_codes(self, codes: np.ndarray) -> np.ndarray:
        """Return the values (n, d) of rows with codes (p, n)."""
        g, s = self.graph, self.sums
        out = np.empty((codes.shape[1], s.total.shape[1]))
        found = find_cells(codes, self.table, self.spread, self.shift)
        if self.n_levels < int(g.depth.max()):
            walk_on(found, codes, self.levels, self.n_levels, g.first_edge, g.left, g.right, g.rows)
        read_into(out, found, s.total, s.split, s.empty)
        return out


@jit
def first_cells(
    first_edge: np.ndarray, left: np.ndarray, right: np.ndarray, rows: np.ndarray, depth: np.ndarray, n_levels: int
) -> np.ndarray:
    """Return the last cell with rows on each path of ``n_levels`` bits; ``-1 - cell`` if the path goes on to an empty
    one.
    """
    out = np.empty(np.int64(1) << n_levels, dtype=np.int32)
    path = np.zeros(len(rows), dtype=np.int64)
    for cell in range(len(rows)):
        if rows[cell] == 0 or depth[cell] > n_levels:
            continue
        ahead = n_levels - depth[cell]
        e, first = first_edge[cell], path[cell] << ahead
        if ahead == 0 or first_edge[cell + 1] == e:
            for i in range(first, first + (np.int64(1) << ahead)):
                out[i] = cell
            continue
        for side in range(2):
            child = left[e] if side == 0 else right[e]
            if rows[child] > 0:
                path[child] = 2 * path[cell] + side
            else:
                half = np.int64(1) << (ahead - 1)
                for i in range(first + side * half, first + (side + 1) * half):
                    out[i] = -1 - cell
    return out


def spread_codes(p: int, levels: int, n_levels: int) -> tuple[np.ndarray, int]:
    """Return the bits that the first bits of each code add to a path of ``n_levels`` bits, (p, 2^b) int32, and the
    number of the other bits of a code.
    """
    n_bits = -(-n_levels // p)
    code = np.arange(1 << n_bits)
    out = np.zeros((p, len(code)), dtype=np.int32)
    for level in range(n_levels):
        bit = (code >> (n_bits - 1 - level // p)) & 1
        out[level % p] |= bit.astype(np.int32) << (n_levels - 1 - level)
    return out, levels - n_bits


@jit
def find_cells(codes: np.ndarray, table: np.ndarray, spread: np.ndarray, shift: int) -> np.ndarray:
    """Return the entry of the table for each row with codes (p, n), (n,) int32."""
    p, n = codes.shape
    out = np.zeros(n, dtype=np.int32)
    for k in range(p):
        for i in range(n):
            out[i] += spread[k, np.int64(codes[k, i]) >> shift]
    for i in range(n):
        out[i] = table[out[i]]
    return out


@jit
def walk_on(
    found: np.ndarray,
    codes: np.ndarray,
    levels: int,
    n_levels: int,
    first_edge: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    rows: np.ndarray,
) -> None:
    """Follow each row from its cell in the table to the last one with rows, in place."""
    p = codes.shape[0]
    for i in range(len(found)):
        cell, k, shift = np.int64(found[i]), n_levels % p, levels - 1 - n_levels // p
        while cell >= 0 and first_edge[cell + 1] > first_edge[cell]:
            e = first_edge[cell]
            child = np.int64(right[e] if (np.int64(codes[k, i]) >> shift) & 1 else left[e])
            cell = child if rows[child] > 0 else -1 - cell
            k += 1
            if k == p:
                k, shift = 0, shift - 1
        found[i] = cell


@jit
def read_into(out: np.ndarray, found: np.ndarray, total: np.ndarray, split: np.ndarray, empty: np.ndarray) -> None:
    """Write the values (n, d) of rows whose path ends in the cells ``found``, or goes on to an empty one."""
    for i in range(len(found)):
        cell = np.int64(found[i])
        if cell >= 0:
            for j in range(out.shape[1]):
                out[i, j] = total[cell, j]
        else:
            cell = -1 - cell
            for j in range(out.shape[1]):
                out[i, j] = total[cell, j] + split[cell] * empty[j]


class TreePaths:
    """Prediction on a fixed tree: every leaf of the tree holds the sum down its path."""

    def __init__(self, model: TreeModel, graph: CellGraph, sums: PathSums) -> None:
        tree = model.split_prior.tree
        rows, value = np.zeros(tree.n_nodes, dtype=np.int64), np.zeros((tree.n_nodes, sums.total.shape[1]))
        rows[graph.design], value[graph.design] = graph.rows, sums.total
        split = np.zeros(tree.n_nodes)
        split[graph.design] = sums.split
        kept = np.zeros(tree.n_nodes, dtype=np.bool_)
        kept[graph.design] = True
        pass_down_into(value, split, sums.empty, rows, kept, tree.left, tree.right)
        # a category unseen in training follows the branch that more training rows took
        self.routes, self.value = tree.routes(default_left=2 * rows[tree.left] >= rows), value

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the values (n, d) of rows of numbers (n, p)."""
        return np.take(self.value, self.routes.leaves(X), axis=0)


@jit
def pass_down_into(
    value: np.ndarray,
    split: np.ndarray,
    empty: np.ndarray,
    rows: np.ndarray,
    kept: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
) -> None:
    """Write the prediction for a row that reaches a node without rows, or one below the depth limit."""
    for i in range(len(value)):
        if left[i] == 0:
            continue
        for side in range(2):
            child = left[i] if side == 0 else right[i]
            if kept[i] and kept[child] and rows[child] > 0:
                continue
            away = split[i] if kept[i] and kept[child] and rows[i] > 0 else 0.0
            for j in range(value.shape[1]):
                value[child, j] = value[i, j] + away * empty[j]
