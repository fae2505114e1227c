"""Building of the graphs of a fixed tree and of dyadic cuts, whose cells can be numbered without a hash table.

The cells of a fixed tree are its nodes, in preorder.

A dyadic cell is a vector of levels (how often each feature was halved) and the number of a *group*: the units (merged
training rows) whose codes have the same leading bits. The groups of a vector are those of its parent, a vector with one
halving less, divided by one more bit of each unit. A *layer* holds the vectors with the same sum, which is the depth of
their cells. The graph has all non-empty cells, and one empty cell for each vector that needs one.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import goes_left
from pactree_mcmc.core.compile.jit import jit, pack
from pactree_mcmc.model import Lowered, TreeModel
from pactree_mcmc.model.leaf.compiled import add_scores_into
from pactree_mcmc.model.rows import add_unit
from pactree_mcmc.model.split_prior.base import call_uncompiled, takes_turns
from pactree_mcmc.tree.arrays import LEAF

from ..limits import Bar, Limit, refuse_bytes
from .boxes import pack_cut, pack_cuts


def build_fixed(model: TreeModel) -> dict[str, np.ndarray]:
    """Return the columns of cells and edges of a fixed tree for `with_slots`, in time O(nodes + units times depth)."""
    packed = pack(model.lowered)
    design, shape = model.lowered.split_prior.design, model.shape
    stats, rows = np.zeros((len(design), model.lowered.leaf.n_stats)), np.zeros(len(design), dtype=np.int64)
    sum_down_paths_into(stats, rows, packed)
    reached = np.flatnonzero(shape.depth <= model.prior_tables.depth_limit)
    number = np.zeros(len(design), dtype=np.int32)
    number[reached] = np.arange(len(reached), dtype=np.int32)
    split = np.flatnonzero(shape.inner(model.prior_tables.depth_limit))
    has_edge = np.zeros(len(reached), dtype=np.int64)
    has_edge[number[split]] = 1
    feature, cut = design.feature[split], design.cut[split]
    return {
        "first_edge": np.concatenate([[0], np.cumsum(has_edge)]),
        "left": number[split + 1],
        "right": number[design.right[split]],
        "feature": feature.astype(np.int32),
        "split": np.where(model.columns.is_nominal[feature], design.categories[split], pack_cuts(cut, cut + 1)),
        "log_rule": np.zeros(len(split)),
        "rows": rows[reached],
        "stats": stats[reached],
        "score": cell_scores(packed, stats[reached]),
        "design": reached.astype(np.int32),
        "depth": shape.depth[reached].astype(np.int64),
    }


@jit
def sum_down_paths_into(stats: np.ndarray, rows: np.ndarray, model: Any) -> None:
    """Add the statistics and rows of every unit to each node on its path in the fixed tree."""
    design, merged_rows = model.split_prior.design, model.units
    codes = merged_rows.codes
    for i in range(codes.shape[1]):
        node = 0
        while True:
            rows[node] += merged_rows.rows[i & merged_rows.rows_all]
            add_unit(stats, np.int64(node), merged_rows, np.int64(i))
            k = design[node].feature
            if k == LEAF:
                break
            left = goes_left(np.int64(codes[k, i]), design[node].cut, design[node].categories)
            node = node + 1 if left else design[node].right


@jit
def cell_scores(model: Any, stats: np.ndarray) -> np.ndarray:
    """Return the log scores (n_cells,) as leaves of cells with statistics ``stats`` (n_cells, n_stats), nats."""
    out = np.zeros(len(stats))
    add_scores_into(out, model.leaf, stats, len(stats))
    return out


NO_CHILD = -1  # number in place of a vector of levels that does not exist


class Layer(NamedTuple):
    """The V vectors of levels (halvings of each feature) with one sum, and the groups of the U units by each vector."""

    vectors: np.ndarray  # (V, p) int8: how often each feature was halved
    last: np.ndarray  # (V,) int32: the last feature halved; the vector was made from its parent by halving it
    parent: np.ndarray  # (V,) int32: the vector of the layer before with one halving of ``last`` less
    groups: np.ndarray  # (V, U) int32: the group of each unit
    n_groups: np.ndarray  # (V,) int64
    has_empty: np.ndarray  # (V,) bool: True if an empty cell with these levels is needed
    child: np.ndarray  # (V, p) int32: vector of the next layer made by halving a feature once more, -1 if none
    first_cell: np.ndarray  # (V,) int64: number of the first cell of each vector; the empty one comes last

    @property
    def n_cells(self) -> int:
        return int(self.n_groups.sum() + self.has_empty.sum())


def iterate_layers(codes: np.ndarray, weight: np.ndarray, levels: int, limit: int, cyclic: bool) -> Iterator[Layer]:
    """Yield the layers (cells of one depth) of a dyadic graph down to depth ``limit``; only two are in memory."""
    p, n = codes.shape
    no_child = np.full((1, p), NO_CHILD, dtype=np.int32)
    layer = Layer(
        vectors=np.zeros((1, p), dtype=np.int8),
        last=np.zeros(1, dtype=np.int32),
        parent=np.zeros(1, dtype=np.int32),
        groups=np.zeros((1, n), dtype=np.int32),
        n_groups=np.ones(1, dtype=np.int64),
        has_empty=np.zeros(1, dtype=np.bool_),
        child=no_child,
        first_cell=np.zeros(1, dtype=np.int64),
    )
    previous_child, depth = no_child, 0
    while True:
        vectors = layer.vectors[:0]
        if depth < limit:
            turn = depth % p if cyclic else -1
            vectors, last, parent, child = next_vectors(
                layer.vectors, layer.last, layer.parent, previous_child, weight, levels, turn
            )
            layer = layer._replace(child=child)
        yield layer
        if len(vectors) == 0:
            return
        refuse_bytes(8 * len(vectors) * n, "the groups of all units by each vector of levels")
        groups = np.empty((len(vectors), n), dtype=np.int32)
        n_groups = split_groups_into(groups, vectors, last, parent, layer.groups, layer.n_groups, codes, levels)
        has_empty = needs_empty_cell(layer.child, layer.n_groups, layer.has_empty, n_groups)
        sizes = n_groups + has_empty
        first = layer.first_cell[0] + layer.n_cells + np.cumsum(sizes) - sizes
        previous_child = layer.child
        none = np.full(vectors.shape, NO_CHILD, dtype=np.int32)
        layer = Layer(vectors, last, parent, groups, n_groups, has_empty, none, first)
        depth += 1


@jit
def next_vectors(
    vectors: np.ndarray,
    last: np.ndarray,
    parent: np.ndarray,
    previous_child: np.ndarray,
    weight: np.ndarray,
    levels: int,
    turn: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ``vectors``, ``last`` and ``parent`` of the next `Layer`, and ``child`` of this one."""
    # Each vector is made once, from its parent, which has one halving of the last feature less. The child of a vector v
    # by a feature k before its last one is found through the parent: v + k is (parent + k) + last. `turn` is the only
    # feature that may be halved, -1 if all may be
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
                sibling = previous_child[parent[v], k]
                if sibling >= 0:
                    child[v, k] = child[sibling, last[v]]
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
    groups_before: np.ndarray,
    n_groups_before: np.ndarray,
    codes: np.ndarray,
    levels: int,
) -> np.ndarray:
    """Write the group (V, U) of each unit by each level vector into `groups`, and return the numbers of groups (V,)."""
    # A level vector says how often each feature was halved; units in one cell with these levels form a group: a group
    # of the parent and one more bit of the feature `last`. Groups are numbered by parent, then bit, so that units
    # sorted by their bits stay sorted by group
    n_groups = np.zeros(len(vectors), dtype=np.int64)
    number = np.empty(2 * n_groups_before.max(), dtype=np.int32)
    for w in range(len(vectors)):
        v, k = parent[w], last[w]
        shift = levels - vectors[w, k]
        for g in range(2 * n_groups_before[v]):
            number[g] = 0
        for i in range(codes.shape[1]):
            number[2 * groups_before[v, i] + ((codes[k, i] >> shift) & 1)] = 1
        n = 0
        for g in range(2 * n_groups_before[v]):
            n += number[g]
            number[g] = n - 1
        for i in range(codes.shape[1]):
            groups[w, i] = number[2 * groups_before[v, i] + ((codes[k, i] >> shift) & 1)]
        n_groups[w] = n
    return n_groups


def needs_empty_cell(
    child: np.ndarray, n_groups_above: np.ndarray, has_empty_above: np.ndarray, n_groups: np.ndarray
) -> np.ndarray:
    """Return (V,) True for each level vector of the next layer that has an empty cell, without rows."""
    # so it is if one of its parents has, or if a half of some group of a parent contains no row
    parent, feature = np.nonzero(child >= 0)
    below = child[parent, feature]
    out = np.zeros(len(n_groups), dtype=np.bool_)
    out[below[has_empty_above[parent] | (n_groups[below] < 2 * n_groups_above[parent])]] = True
    return out


@jit
def write_edges_into(
    left: np.ndarray,
    right: np.ndarray,
    split: np.ndarray,
    layer: Layer,
    next_layer: Layer,
    codes: np.ndarray,
    levels: int,
) -> None:
    """Write children and split of every edge from ``layer`` to ``next_layer``, by cell, then feature."""
    # children are numbered in the whole graph, and a half without units leads to the empty cell
    vectors, child, groups = layer.vectors, layer.child, layer.groups
    n_groups, has_empty = layer.n_groups, layer.has_empty
    groups_below, n_below, first_below = next_layer.groups, next_layer.n_groups, next_layer.first_cell
    first = 0
    for v in range(len(vectors)):
        degree = 0
        for k in range(vectors.shape[1]):
            degree += child[v, k] >= 0
        first_edge_of_feature = first
        for k in range(vectors.shape[1]):
            w = child[v, k]
            if w < 0:
                continue
            shift = levels - np.int64(vectors[v, k])
            half = np.int64(1) << (shift - 1)
            empty_cell = first_below[w] + n_below[w]
            for g in range(n_groups[v] + has_empty[v]):
                e = first_edge_of_feature + g * degree
                left[e] = right[e] = empty_cell
                split[e] = pack_cut(half - 1, half)
            for i in range(codes.shape[1]):
                e = first_edge_of_feature + groups[v, i] * degree
                low = (np.int64(codes[k, i]) >> shift) << shift
                split[e] = pack_cut(low + half - 1, low + half)
                if codes[k, i] < low + half:
                    left[e] = first_below[w] + groups_below[w, i]
                else:
                    right[e] = first_below[w] + groups_below[w, i]
            first_edge_of_feature += 1
        first += (n_groups[v] + has_empty[v]) * degree


@jit
def sum_layer_into(stats: np.ndarray, rows: np.ndarray, model: Any, groups: np.ndarray, first_cell: np.ndarray) -> None:
    """Add the statistics (n_cells, n_stats) and the rows (n_cells,) of all units to the cells of a layer."""
    merged_rows = model.units
    for v in range(len(groups)):
        for i in range(groups.shape[1]):
            cell = np.int64(first_cell[v] + groups[v, i])
            rows[cell] += merged_rows.rows[i & merged_rows.rows_all]
            add_unit(stats, cell, merged_rows, np.int64(i))


@jit
def write_rules_into(
    first_edge: np.ndarray,
    feature: np.ndarray,
    log_rule: np.ndarray,
    child: np.ndarray,
    sizes: np.ndarray,
    weight: np.ndarray,
) -> None:
    """Write the first edge of each cell of a layer, and the feature and log R of each edge."""
    # R is the weight of the feature divided by those of all features that can be halved, which have a child >= 0
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
    """Return the data for compiled code of a dyadic model, units sorted by their bits."""
    # so that memory is read in order
    lowered, levels = model.lowered, int(model.split_prior.levels)
    return lowered._replace(units=lowered.units.take(np.argsort(interleave(lowered.units.codes, levels))))


@jit
def interleave(codes: np.ndarray, levels: int) -> np.ndarray:
    """Return the first 64 bits (U,) of the codes as one key: the first bits of all features, then the second ones."""
    p, n = codes.shape
    out = np.zeros(n, dtype=np.uint64)
    n_bits = 0
    for level in range(levels):
        for k in range(p):
            if n_bits == 64:
                return out
            n_bits += 1
            shift = levels - 1 - level
            for i in range(n):
                out[i] = (out[i] << np.uint64(1)) | np.uint64((codes[k, i] >> shift) & 1)
    return out


def build_dyadic(model: TreeModel, limit: Limit, bar: Bar) -> dict[str, np.ndarray]:
    """Return the columns of a dyadic model for `with_slots`."""
    # time and memory O(cells + edges + units * level vectors)
    lowered = sorted_units(model)
    packed, codes = pack(lowered), lowered.units.codes
    weight, levels = model.split_prior.weights(len(codes)), int(model.split_prior.levels)
    cyclic = call_uncompiled(takes_turns, model.split_prior)
    columns: dict[str, list[np.ndarray]] = {name: [] for name in LAYER_COLUMNS}
    for name, kind in EDGE_TYPES.items():  # a graph of the root alone has none
        columns[name].append(np.empty(0, dtype=kind))
    previous_layer = None
    n_edges = 0
    for layer in iterate_layers(codes, weight, levels, model.prior_tables.depth_limit, cyclic):
        limit.refuse_above(int(layer.first_cell[0]) + layer.n_cells, n_edges)
        if previous_layer is not None:
            n_edges += _append_edges(previous_layer, layer, codes, levels, weight, n_edges, columns)
        n_cells = layer.n_cells
        stats, rows = np.zeros((n_cells, lowered.leaf.n_stats)), np.zeros(n_cells, dtype=np.int64)
        sum_layer_into(stats, rows, packed, layer.groups, layer.first_cell - layer.first_cell[0])
        columns["stats"].append(stats)
        columns["rows"].append(rows)
        columns["depth"].append(np.full(n_cells, len(columns["depth"])))
        bar.add(n_cells)
        previous_layer = layer
    columns["first_edge"].append(np.full(n_cells + 1, n_edges))
    out = {name: np.concatenate(columns.pop(name)) for name in LAYER_COLUMNS}
    out["score"] = cell_scores(packed, out["stats"])
    out["design"] = np.zeros(len(out["rows"]), dtype=np.int32)
    return out


# columns of the graph that are computed layer by layer
LAYER_COLUMNS = ("first_edge", "left", "right", "feature", "split", "log_rule", "rows", "stats", "depth")
# columns with an entry for each edge, and their types
EDGE_TYPES = {"left": np.int32, "right": np.int32, "feature": np.int32, "split": np.int64, "log_rule": np.float64}


def _append_edges(
    layer: Layer,
    next_layer: Layer,
    codes: np.ndarray,
    levels: int,
    weight: np.ndarray,
    n_edges: int,
    columns: dict[str, list[np.ndarray]],
) -> int:
    """Append the edges from ``layer`` to ``next_layer`` to the lists in ``columns``, and return their number."""
    sizes = layer.n_groups + layer.has_empty
    n = int(sizes @ (layer.child >= 0).sum(axis=1))
    left, right, feature = (np.empty(n, dtype=np.int32) for _ in range(3))
    split, log_rule, first = np.empty(n, dtype=np.int64), np.empty(n), np.empty(layer.n_cells, dtype=np.int64)
    write_edges_into(left, right, split, layer, next_layer, codes, levels)
    write_rules_into(first, feature, log_rule, layer.child, sizes, weight)
    for name, column in zip(LAYER_COLUMNS, (first + n_edges, left, right, feature, split, log_rule), strict=False):
        columns[name].append(column)
    return n
