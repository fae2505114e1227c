"""Trees whose splits are in codes of the model, as chains save their draws (`docs/tree_format.md`).

`in_data_units` computes thresholds in the units of the data from the codes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..core.bits import goes_left
from ..core.compile.jit import jit
from ..files.encoding import register_class, register_records
from ..table.coding import Scale
from ..table.words import categories_text, ordered_words
from .arrays import LEAF, TreeArrays

# record of a node of a tree in codes, as both engines write it. The left child of a node follows it.
CODED_NODE = np.dtype(
    [
        ("feature", np.int32),  # the coordinate, -1 in a leaf
        ("right", np.int32),  # index of the right child in its tree; 0 in a leaf
        ("cut", np.int64),  # largest code that goes left
        ("upper", np.int64),  # smallest code that goes right, under local cuts among the codes in the cell
        ("categories", np.int64),  # bit set of the categories that go left, -1 if ordered
        ("default_left", np.bool_),  # True if missing values and unknown categories go left
    ],
    align=True,
)

register_records(CODED_NODE=CODED_NODE)


@register_class
class CodedTrees(NamedTuple):
    """Nodes of trees in codes, one tree after another, each in preorder: the left child of a node follows it."""

    offset: np.ndarray  # (n_trees + 1,) int64: tree t owns the nodes offset[t] to offset[t + 1] - 1
    feature: np.ndarray  # (n_nodes,) int32: the coordinate of the split (see `Columns`), -1 in a leaf
    cut: np.ndarray  # (n_nodes,) int64: the largest code that goes left; 0 in leaves and nominal splits
    # (n_nodes,) int64: the smallest code that goes right, under local cuts among the codes in the cell; 0 in leaves and
    # nominal splits
    upper: np.ndarray
    right: np.ndarray  # (n_nodes,) int32: index of the right child in its tree; 0 in a leaf
    categories: np.ndarray  # (n_nodes,) int64: bit set of the categories that go left, -1 in leaves and ordered splits
    # (n_nodes,) bool: True if missing values, and categories unknown to the training data, go left
    default_left: np.ndarray

    @property
    def n_trees(self) -> int:
        return len(self.offset) - 1

    @property
    def left(self) -> np.ndarray:
        """Index of the left child of each node in its tree, (n_nodes,) int32; 0 in a leaf."""
        first = np.repeat(self.offset[:-1], np.diff(self.offset))
        return np.where(self.feature == LEAF, 0, np.arange(1, len(self.feature) + 1) - first).astype(np.int32)

    def nodes_of(self, tree_indices: np.ndarray) -> np.ndarray:
        """Return the indices (m,) of all nodes of the trees ``tree_indices``, one tree after another."""
        size = (self.offset[1:] - self.offset[:-1])[tree_indices]
        ends = np.cumsum(size)
        return np.arange(size.sum()) + np.repeat(self.offset[tree_indices] - ends + size, size)

    def take(self, tree_indices: np.ndarray) -> CodedTrees:
        """Return the trees with the indices ``tree_indices``, in this order."""
        nodes = self.nodes_of(tree_indices)
        offset = np.concatenate([[0], np.cumsum((self.offset[1:] - self.offset[:-1])[tree_indices])])
        return CodedTrees(offset.astype(np.int64), *(column[nodes] for column in self[1:]))

    def records(self) -> np.recarray:
        """Return the nodes as records (n_nodes,) of dtype CODED_NODE, the inverse of `from_records`."""
        out = np.zeros(len(self.feature), dtype=CODED_NODE)
        for name in CODED_NODE.names or ():
            out[name] = getattr(self, name)
        return out.view(np.recarray)


def bytes_view(records: np.ndarray) -> np.ndarray:
    """Return a view of records as blocks of bytes, which NumPy copies several times as fast as records with fields."""
    return np.asarray(records).view(np.dtype((np.void, records.dtype.itemsize)))


def from_records(node: np.ndarray, offset: np.ndarray) -> CodedTrees:
    """Return trees from the records ``node`` (n_nodes,) of dtype CODED_NODE; tree t begins at ``offset[t]``."""
    # cuts of nominal splits, which are unused, become 0
    arrays = (np.ascontiguousarray(node[name]) for name in CodedTrees._fields[1:])
    feature, cut, upper, right, categories, default_left = arrays
    cut[categories >= 0] = upper[categories >= 0] = 0
    return CodedTrees(offset.astype(np.int64), feature, cut, upper, right, categories, default_left)


def number_trees(trees: CodedTrees, stats: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of each tree among the distinct ones, (n_trees,), and the first tree of each, (n_distinct,)."""
    # with `stats`, trees with equal splits but different statistics are distinct
    key = np.column_stack([trees.feature, trees.cut, trees.categories])
    number_of_content: dict[bytes, int] = {}
    first: list[int] = []
    number = np.empty(trees.n_trees, dtype=np.int64)
    offset = trees.offset.tolist()
    for t in range(trees.n_trees):
        span = slice(offset[t], offset[t + 1])
        content = key[span].tobytes() + (b"" if stats is None else stats[span].tobytes())
        number[t] = number_of_content.setdefault(content, len(number_of_content))
        if number[t] == len(first):
            first.append(t)
    return number, np.array(first, dtype=np.int64)


@jit
def route_into(leaf: np.ndarray, trees: CodedTrees, t: int, codes: np.ndarray, unit_indices: np.ndarray) -> None:
    """Write to ``leaf`` (m,) the leaf, over all trees, that each of m units (merged rows) reaches in tree ``t``."""
    start = trees.offset[t]
    for i in range(len(unit_indices)):
        node = start
        while trees.feature[node] != LEAF:
            code = np.int64(codes[trees.feature[node], unit_indices[i]])
            node = node + 1 if goes_left(code, trees.cut[node], trees.categories[node]) else start + trees.right[node]
        leaf[i] = node


def weight_of_nodes(trees: CodedTrees, codes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the total weight of the units (merged rows) that reach each node of each tree, (n_nodes,) float64."""
    # O(U depth) a tree
    out, unit_indices = np.zeros(len(trees.feature)), np.arange(codes.shape[1])
    for t in range(trees.n_trees):
        start, end = trees.offset[t : t + 2].tolist()
        leaf = leaves_of_units(trees.take(np.array([t])), codes, unit_indices)[:, 0]
        out[start:end] = np.bincount(leaf, weights=weight, minlength=end - start)
        for i in range(end - 1, start - 1, -1):
            if trees.feature[i] != LEAF:
                out[i] = out[i + 1] + out[start + trees.right[i]]
    return out


@jit
def leaves_of_units(trees: CodedTrees, codes: np.ndarray, unit_indices: np.ndarray) -> np.ndarray:
    """Return the leaf (m, n_trees) that each of m units (merged rows) reaches in each tree, numbered over all trees."""
    out = np.empty((len(unit_indices), len(trees.offset) - 1), dtype=np.int64)
    leaf = np.empty(len(unit_indices), dtype=np.int64)
    for t in range(out.shape[1]):
        route_into(leaf, trees, t, codes, unit_indices)
        for i in range(len(unit_indices)):
            out[i, t] = leaf[i]
    return out


OrderedKey = tuple[int, float | None] | tuple[int, float | None, str]
# key of a root split: None without splits, (feature, threshold), (feature, threshold, side of missing values), or
# (feature, categories going left). The threshold is None if the split separates missing from known values.
RootKey = OrderedKey | tuple[int, frozenset[Any]] | None

# record of a saved tree: its log prior, its log score, and the index of its first node
SAVED_TREE = np.dtype([("log_prior", np.float64), ("log_score", np.float64), ("start", np.int64)])


class Saved(NamedTuple):
    """Draws of a chain. Successive draws of the same tree store the tree once."""

    tree_of_draw: np.ndarray  # (n_draws,) int64: index of the tree of each draw
    noise: np.ndarray  # (n_draws,) float64: noise variance that all leaves share; NaN if leaves share no variance
    # (n_draws, 2, n_moves) int64: number of proposals since the draw before, and number of these accepted
    moves: np.ndarray
    levels: np.ndarray  # (n_draws, n_levels) float64: log scores at all levels of a ladder; no levels without a ladder
    is_stump: np.ndarray  # (n_draws,) bool: True if the tree at the last level of a ladder has one leaf
    tree: np.recarray  # (n_trees + 1,) records of dtype SAVED_TREE; the last one only marks the end of the nodes
    node: np.recarray  # (n_nodes,) records of dtype CODED_NODE, one tree after another, each in preorder
    stats: np.ndarray  # (n_nodes, n_stats) float64: statistics of each node
    used: np.ndarray  # (3,) int64: number of draws, trees and nodes saved so far


def in_data_units(model: Any, trees: CodedTrees) -> TreeArrays:
    """Return ``trees`` of a model with splits on features by thresholds, instead of splits on coordinates by codes."""
    inner, columns = trees.feature != LEAF, model.columns
    threshold = np.zeros(len(inner))
    feature, default_left = trees.feature, trees.default_left
    if columns.twins:
        has_two_coordinates = inner & (columns.other_coordinate[feature] != feature)
        default_left = np.where(has_two_coordinates, feature < columns.n_features, default_left)
        feature = np.where(inner, columns.source[feature], LEAF).astype(np.int32)
    for k, scale in enumerate(model.scales):
        is_ordered_on = (trees.feature == k) & (trees.categories < 0)
        if is_ordered_on.any():
            threshold[is_ordered_on] = scale.threshold(trees.cut[is_ordered_on], trees.upper[is_ordered_on])
    return TreeArrays(trees.offset, feature, threshold, trees.left, trees.right, trees.categories, default_left)


def values_between(model: Any, trees: CodedTrees) -> np.ndarray | None:
    """Return the training values (n_nodes, 2) on either side of each threshold, in the cell that it splits."""
    out = np.full((len(trees.feature), 2), np.nan)
    for c, scale in enumerate(model.scales):
        is_ordered_on = (trees.feature == c) & (trees.categories < 0)
        if is_ordered_on.any():
            out[is_ordered_on] = scale.between(trees.cut[is_ordered_on], trees.upper[is_ordered_on])
    return out if any(isinstance(scale, Scale) and len(scale.low) for scale in model.scales) else None


def root_key(model: Any, trees: TreeArrays, node: int) -> RootKey:
    """Return the key of the split of `node`, the root of a tree, in `root_split_pmf`, probabilities of root splits."""
    k = int(trees.feature[node])
    if k == LEAF:
        return None
    if trees.categories[node] < 0:
        return ordered_key(model, k, float(trees.threshold[node]), bool(trees.default_left[node]))
    return (k, model.columns.label_set(k, int(trees.categories[node])))


def ordered_key(model: Any, feature: int, threshold: float, missing_left: bool) -> OrderedKey:
    """Return the key in ``root_split_pmf`` of an ordered split: its feature, its threshold, and maybe a side."""
    key_threshold = None if math.isnan(threshold) else threshold
    if feature in model.columns.twins:
        return (feature, key_threshold, "missing left" if missing_left else "missing right")
    return (feature, key_threshold)


def key_words(model: Any, key: RootKey) -> str:
    """Return a root split as text, given its key in ``root_split_pmf``; "none" for a tree without splits."""
    if key is None:
        return "none"
    columns, (k, threshold_or_categories, *side) = model.columns, key
    if isinstance(threshold_or_categories, frozenset):
        return columns.names[k] + categories_text(threshold_or_categories)
    missing_left = side == ["missing left"] if side else None
    threshold, low, high = math.nan if threshold_or_categories is None else threshold_or_categories, math.nan, math.nan
    scale = model.scales[int(columns.coordinate(k, bool(missing_left) if side else True))]
    cut = scale.cut_of(threshold)
    if cut is not None and 0 <= cut < scale.n_codes - 1:
        low, high = scale.between(np.array([cut]), np.array([cut + 1]))[0].tolist()
    return columns.names[k] + ordered_words(threshold, missing_left, columns.kind(k), low, high)
