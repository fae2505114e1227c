"""Graphs of which no cell is searched for: those of a fixed tree, and of dyadic cuts.

The cells of a fixed tree are its nodes, in preorder.

A dyadic cell is a vector of levels (how often each feature was halved) and the number of a *group*: the units with the
same leading bits. The groups of a vector come from those of a vector one level less by one more bit of each unit.
Vectors come in layers of equal sum, which is the depth of their cells. There are only non-empty cells, and one empty
cell for each vector that needs one.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import goes_left
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.compile.pack import pack
from pactree_mcmc.model import Lowered, TreeModel
from pactree_mcmc.model.data import add_unit
from pactree_mcmc.model.leaf.compiled import add_scores_into
from pactree_mcmc.model.split_prior.geometry import takes_turns, told
from pactree_mcmc.tree.arrays import LEAF

from ..limits.intractable import Limit, refuse_bytes
from .boxes import pack_cut, pack_cuts
from .progress import Bar


def build_fixed(model: TreeModel) -> dict[str, np.ndarray]:
    """Return cells and edges of a model with a fixed tree as columns of a graph. Time O(nodes + units times depth)."""
    packed = pack(model.lowered)
    design, shape = model.lowered.split_prior.design, model.shape
    stats, rows = np.zeros((len(design), model.lowered.leaf.n_stats)), np.zeros(len(design), dtype=np.int64)
    sum_down_paths_into(stats, rows, packed)
    kept = np.flatnonzero(shape.depth <= model.prior_tables.depth_limit)
    number = np.zeros(len(design), dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    split = np.flatnonzero(shape.inner(model.prior_tables.depth_limit))
    has_edge = np.zeros(len(kept), dtype=np.int64)
    has_edge[number[split]] = 1
    feature, cut = design.feature[split], design.cut[split]
    return {
        "first_edge": np.concatenate([[0], np.cumsum(has_edge)]),
        "left": number[split + 1],
        "right": number[design.right[split]],
        "feature": feature.astype(np.int32),
        "split": np.where(model.columns.is_nominal[feature], design.categories[split], pack_cuts(cut, cut + 1)),
        "log_rule": np.zeros(len(split)),
        "rows": rows[kept],
        "stats": stats[kept],
        "score": cell_scores(packed, stats[kept]),
        "design": kept.astype(np.int32),
        "depth": shape.depth[kept].astype(np.int64),
    }


@jit
def sum_down_paths_into(stats: np.ndarray, rows: np.ndarray, model: Any) -> None:
    """Add every unit to each node on its path."""
    design, units = model.split_prior.design, model.units
    codes = units.codes
    for i in range(codes.shape[1]):
        node = 0
        while True:
            rows[node] += units.rows[i & units.rows_all]
            add_unit(stats, np.int64(node), units, np.int64(i))
            k = design[node].feature
            if k == LEAF:
                break
            left = goes_left(np.int64(codes[k, i]), design[node].cut, design[node].categories)
            node = node + 1 if left else design[node].right


@jit
def cell_scores(model: Any, stats: np.ndarray) -> np.ndarray:
    """Return the log scores (n_cells,) of cells with ``stats``, nats."""
    out = np.zeros(len(stats))
    add_scores_into(out, model.leaf, stats, len(stats))
    return out


NO_CHILD = -1


class Layer(NamedTuple):
    """The vectors of levels with one sum, and how they group the units."""

    vectors: np.ndarray  # (V, p) int8: how often each feature was halved
    last: np.ndarray  # (V,) int32: the last feature halved; the vector was made from its parent by halving it
    parent: np.ndarray  # (V,) int32: a vector of the layer before
    groups: np.ndarray  # (V, U) int32: the group of each unit
    n_groups: np.ndarray  # (V,) int64
    has_empty: np.ndarray  # (V,) bool: True if an empty cell with these levels is needed
    child: np.ndarray  # (V, p) int32: vector of the next layer made by halving a feature once more; -1 without
    first_cell: np.ndarray  # (V,) int64: number of the first cell of each vector; the empty one comes last

    @property
    def n_cells(self) -> int:
        """Number of cells of the layer."""
        return int(self.n_groups.sum() + self.has_empty.sum())


def layers(codes: np.ndarray, weight: np.ndarray, levels: int, limit: int, cyclic: bool) -> Iterator[Layer]:
    """Yield the layers from the root down, so that only two are in memory at a time."""
    p, n = codes.shape
    no_child = np.full((1, p), NO_CHILD, dtype=np.int32)
    here = Layer(
        vectors=np.zeros((1, p), dtype=np.int8),
        last=np.zeros(1, dtype=np.int32),
        parent=np.zeros(1, dtype=np.int32),
        groups=np.zeros((1, n), dtype=np.int32),
        n_groups=np.ones(1, dtype=np.int64),
        has_empty=np.zeros(1, dtype=np.bool_),
        child=no_child,
        first_cell=np.zeros(1, dtype=np.int64),
    )
    before_child, depth = no_child, 0
    while True:
        vectors = here.vectors[:0]
        if depth < limit:
            turn = depth % p if cyclic else -1
            vectors, last, parent, child = extend(
                here.vectors, here.last, here.parent, before_child, weight, levels, turn
            )
            here = here._replace(child=child)
        yield here
        if len(vectors) == 0:
            return
        refuse_bytes(8 * len(vectors) * n, "the groups of all units by each vector of levels")
        groups = np.empty((len(vectors), n), dtype=np.int32)
        n_groups = split_groups_into(groups, vectors, last, parent, here.groups, here.n_groups, codes, levels)
        has_empty = need_empty(here.child, here.n_groups, here.has_empty, n_groups)
        sizes = n_groups + has_empty
        first = here.first_cell[0] + here.n_cells + np.cumsum(sizes) - sizes
        before_child = here.child
        none = np.full(vectors.shape, NO_CHILD, dtype=np.int32)
        here = Layer(vectors, last, parent, groups, n_groups, has_empty, none, first)
        depth += 1


@jit
def extend(
    vectors: np.ndarray,
    last: np.ndarray,
    parent: np.ndarray,
    before_child: np.ndarray,
    weight: np.ndarray,
    levels: int,
    turn: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the vectors of the next layer, the last feature halved, the parent of each, and the table of children.

    A vector is made once, from the parent that lacks its last halving. The children of a vector in a feature before
    its last are found through its parent: ``v + k`` is ``(parent + k) + last``.
    """
    n, p = vectors.shape
    child = np.full((n, p), NO_CHILD, dtype=np.int32)
    n_made = 0
    for v in range(n):
        for k in range(p):
            fits = weight[k] > 0.0 and vectors[v, k] < levels
            if fits and (k == turn if turn >= 0 else k >= last[v]):
                child[v, k] = n_made
                n_made += 1
    out = np.empty((n_made, p), dtype=np.int8)
    out_last, out_parent = np.empty(n_made, dtype=np.int32), np.empty(n_made, dtype=np.int32)
    for v in range(n):
        for k in range(p):
            if turn < 0 and k < last[v]:
                aunt = before_child[parent[v], k]
                if aunt >= 0:
                    child[v, k] = child[aunt, last[v]]
            elif child[v, k] >= 0:
                w = child[v, k]
                for j in range(p):
                    out[w, j] = vectors[v, j]
                out[w, k] += 1
                out_last[w], out_parent[w] = k, v
    return out, out_last, out_parent, child


@jit
def split_groups_into(
    groups: np.ndarray,
    vectors: np.ndarray,
    last: np.ndarray,
    parent: np.ndarray,
    before: np.ndarray,
    n_before: np.ndarray,
    codes: np.ndarray,
    levels: int,
) -> np.ndarray:
    """Write the group (V, U) of each unit by each vector, from those of its parent and one more bit; return their
    number (V,).

    Groups are numbered by parent, then bit, so that units sorted by their bits stay sorted by group.
    """
    n_groups = np.zeros(len(vectors), dtype=np.int64)
    number = np.empty(2 * n_before.max(), dtype=np.int32)
    for w in range(len(vectors)):
        v, k = parent[w], last[w]
        shift = levels - vectors[w, k]
        for g in range(2 * n_before[v]):
            number[g] = 0
        for i in range(codes.shape[1]):
            number[2 * before[v, i] + ((codes[k, i] >> shift) & 1)] = 1
        n = 0
        for g in range(2 * n_before[v]):
            n += number[g]
            number[g] = n - 1
        for i in range(codes.shape[1]):
            groups[w, i] = number[2 * before[v, i] + ((codes[k, i] >> shift) & 1)]
        n_groups[w] = n
    return n_groups


def need_empty(child: np.ndarray, n_before: np.ndarray, empty_before: np.ndarray, n_groups: np.ndarray) -> np.ndarray:
    """Return True for each vector of the next layer that has an empty cell, below an empty one or beside all rows."""
    parent, feature = np.nonzero(child >= 0)
    below = child[parent, feature]
    out = np.zeros(len(n_groups), dtype=np.bool_)
    out[below[empty_before[parent] | (n_groups[below] < 2 * n_before[parent])]] = True
    return out


@jit
def link_into(
    left: np.ndarray,
    right: np.ndarray,
    split: np.ndarray,
    layer: Layer,
    below: Layer,
    codes: np.ndarray,
    levels: int,
) -> None:
    """Write the children and the split of every edge of a layer, by cell, then feature."""
    vectors, child, groups = layer.vectors, layer.child, layer.groups
    n_groups, has_empty = layer.n_groups, layer.has_empty
    groups_below, n_below, first_below = below.groups, below.n_groups, below.first_cell
    first = 0
    for v in range(len(vectors)):
        degree = 0
        for k in range(vectors.shape[1]):
            degree += child[v, k] >= 0
        place = first
        for k in range(vectors.shape[1]):
            w = child[v, k]
            if w < 0:
                continue
            shift = levels - np.int64(vectors[v, k])
            half = np.int64(1) << (shift - 1)
            bare = first_below[w] + n_below[w]
            for g in range(n_groups[v] + has_empty[v]):
                e = place + g * degree
                left[e] = right[e] = bare
                split[e] = pack_cut(half - 1, half)
            for i in range(codes.shape[1]):
                e = place + groups[v, i] * degree
                low = (np.int64(codes[k, i]) >> shift) << shift
                split[e] = pack_cut(low + half - 1, low + half)
                if codes[k, i] < low + half:
                    left[e] = first_below[w] + groups_below[w, i]
                else:
                    right[e] = first_below[w] + groups_below[w, i]
            place += 1
        first += (n_groups[v] + has_empty[v]) * degree


@jit
def sum_layer_into(stats: np.ndarray, rows: np.ndarray, model: Any, groups: np.ndarray, first_cell: np.ndarray) -> None:
    """Sum the statistics and rows of the cells of a layer; ``first_cell`` counts from the first of the layer."""
    units = model.units
    for v in range(len(groups)):
        for i in range(groups.shape[1]):
            cell = np.int64(first_cell[v] + groups[v, i])
            rows[cell] += units.rows[i & units.rows_all]
            add_unit(stats, cell, units, np.int64(i))


@jit
def spread_into(
    first_edge: np.ndarray,
    feature: np.ndarray,
    log_rule: np.ndarray,
    child: np.ndarray,
    sizes: np.ndarray,
    weight: np.ndarray,
) -> None:
    """Write the first edge of each cell of a layer, counted from the first of the layer, and features and log R."""
    cell, e, log_fraction = 0, 0, np.empty(child.shape[1])
    for v in range(len(child)):
        total = 0.0
        for k in range(child.shape[1]):
            total += weight[k] if child[v, k] >= 0 else 0.0
        for k in range(child.shape[1]):
            log_fraction[k] = log(weight[k]) - log(total) if child[v, k] >= 0 else -np.inf
        for _ in range(sizes[v]):
            first_edge[cell] = e
            cell += 1
            for k in range(child.shape[1]):
                if child[v, k] >= 0:
                    feature[e], log_rule[e] = k, log_fraction[k]
                    e += 1


def sorted_units(model: TreeModel) -> Lowered:
    """Return the model with its units in the order of their bits, level by level, for sequential memory access."""
    lowered, levels = model.lowered, int(model.split_prior.levels)
    key = interleave(lowered.units.codes, levels)
    return lowered._replace(units=lowered.units.take(np.argsort(key)))


@jit
def interleave(codes: np.ndarray, levels: int) -> np.ndarray:
    """Return the first 64 bits of the path of each unit, (U,) uint64, the first bits of all features first."""
    p, n = codes.shape
    out = np.zeros(n, dtype=np.uint64)
    taken = 0
    for level in range(levels):
        for k in range(p):
            if taken == 64:
                return out
            taken += 1
            shift = levels - 1 - level
            for i in range(n):
                out[i] = (out[i] << np.uint64(1)) | np.uint64((codes[k, i] >> shift) & 1)
    return out


def build_dyadic(model: TreeModel, limit: Limit, bar: Bar) -> dict[str, np.ndarray]:
    """Return cells and edges of a dyadic model as columns of the graph, if ``limit`` allows as many.

    Time and memory O(cells and edges, and units times vectors of levels).
    """
    lowered = sorted_units(model)
    packed, codes = pack(lowered), lowered.units.codes
    weight, levels = model.split_prior.weights(len(codes)), int(model.split_prior.levels)
    cyclic = told(takes_turns, model.split_prior)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in COLUMNS}
    for name, kind in OF_EDGES.items():  # a graph of the root alone has none
        parts[name].append(np.empty(0, dtype=kind))
    before = None
    n_edges = 0
    for layer in layers(codes, weight, levels, model.prior_tables.depth_limit, cyclic):
        limit.refuse_above(int(layer.first_cell[0]) + layer.n_cells, n_edges)
        if before is not None:
            n_edges += _link(before, layer, codes, levels, weight, n_edges, parts)
        n_cells = layer.n_cells
        stats, rows = np.zeros((n_cells, lowered.leaf.n_stats)), np.zeros(n_cells, dtype=np.int64)
        sum_layer_into(stats, rows, packed, layer.groups, layer.first_cell - layer.first_cell[0])
        parts["stats"].append(stats)
        parts["rows"].append(rows)
        parts["depth"].append(np.full(n_cells, len(parts["depth"])))
        bar.add(n_cells)
        before = layer
    parts["first_edge"].append(np.full(n_cells + 1, n_edges))
    out = {name: np.concatenate(parts.pop(name)) for name in COLUMNS}
    out["score"] = cell_scores(packed, out["stats"])
    out["design"] = np.zeros(len(out["rows"]), dtype=np.int32)
    return out


COLUMNS = ("first_edge", "left", "right", "feature", "split", "log_rule", "rows", "stats", "depth")
OF_EDGES = {"left": np.int32, "right": np.int32, "feature": np.int32, "split": np.int64, "log_rule": np.float64}


def _link(
    layer: Layer,
    below: Layer,
    codes: np.ndarray,
    levels: int,
    weight: np.ndarray,
    n_edges: int,
    parts: dict[str, list[np.ndarray]],
) -> int:
    """Append the edges to the layer below to ``parts``. Return the number added."""
    sizes = layer.n_groups + layer.has_empty
    n = int(sizes @ (layer.child >= 0).sum(axis=1))
    left, right, feature = (np.empty(n, dtype=np.int32) for _ in range(3))
    split, log_rule, first = np.empty(n, dtype=np.int64), np.empty(n), np.empty(layer.n_cells, dtype=np.int64)
    link_into(left, right, split, layer, below, codes, levels)
    spread_into(first, feature, log_rule, layer.child, sizes, weight)
    for name, column in zip(COLUMNS, (first + n_edges, left, right, feature, split, log_rule), strict=False):
        parts[name].append(column)
    return n
