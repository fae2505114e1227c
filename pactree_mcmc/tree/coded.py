"""Trees whose splits are in codes of the model, as draws are stored (`docs/tree_format.md`).

`drawn.in_data_units` computes thresholds from the codes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.bits import goes_left
from ..core.compile.jit import jit
from ..files.encoding import register_class, register_records
from .arrays import LEAF

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
        """Number of trees."""
        return len(self.offset) - 1

    @property
    def left(self) -> np.ndarray:
        """Index of the left child of each node in its tree, (n_nodes,) int32; 0 in a leaf."""
        first = np.repeat(self.offset[:-1], np.diff(self.offset))
        left = np.arange(1, len(self.feature) + 1) - first
        return np.where(self.feature == LEAF, 0, left).astype(np.int32)

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
    feature, cut, upper, right, categories, default_left = (
        np.ascontiguousarray(node[name]) for name in CodedTrees._fields[1:]
    )
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
            is_left = goes_left(code, trees.cut[node], trees.categories[node])
            node = node + 1 if is_left else start + trees.right[node]
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
