"""Trees in codes, the form of draws. `drawn.in_data_units` computes thresholds from them; see `docs/tree_format.md`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.bits import goes_left
from ..core.compile.jit import jit
from ..files.encoding import keep_records, kept
from .arrays import LEAF

CODED_NODE = np.dtype(
    [
        ("feature", np.int32),  # the coordinate, -1 in a leaf
        ("right", np.int32),  # right child, counted from the start of the tree; 0 in a leaf
        ("cut", np.int64),  # largest code going left
        ("upper", np.int64),  # next code on the right, in the cell under local cuts
        ("categories", np.int64),  # bits going left, -1 if ordered
        ("default_left", np.bool_),
    ],
    align=True,
)
"""Record of a node as the engines write it. Left children follow their parents."""

keep_records(CODED_NODE=CODED_NODE)


@kept
class CodedTrees(NamedTuple):
    """Nodes of trees end to end, each tree in preorder, so that the left child of a node follows it."""

    offset: np.ndarray
    """(n_trees + 1,) int64: tree t owns the nodes offset[t] to offset[t + 1] - 1."""
    feature: np.ndarray
    """(n_nodes,) int32: the coordinate of the split (see `Columns`), -1 in a leaf."""
    cut: np.ndarray
    """(n_nodes,) int64: the largest code that goes left; 0 in leaves and nominal splits."""
    upper: np.ndarray
    """(n_nodes,) int64: the next code on the right, in the cell under local cuts; 0 in leaves and nominal splits."""
    right: np.ndarray
    """(n_nodes,) int32: right child, counted from the start of its tree; 0 in a leaf."""
    categories: np.ndarray
    """(n_nodes,) int64: bits of the categories that go left, -1 in leaves and ordered splits."""
    default_left: np.ndarray
    """(n_nodes,) bool: True if missing values, and categories unknown to the training data, go left."""

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.offset) - 1

    @property
    def left(self) -> np.ndarray:
        """Left child of each node, (n_nodes,) int32, counted from the start of its tree; 0 in a leaf."""
        first = np.repeat(self.offset[:-1], np.diff(self.offset))
        left = np.arange(1, len(self.feature) + 1) - first
        return np.where(self.feature == LEAF, 0, left).astype(np.int32)

    def nodes_of(self, which: np.ndarray) -> np.ndarray:
        """Return the numbers of the nodes of the trees ``which``, one tree after the other."""
        size = (self.offset[1:] - self.offset[:-1])[which]
        ends = np.cumsum(size)
        return np.arange(size.sum()) + np.repeat(self.offset[which] - ends + size, size)

    def take(self, which: np.ndarray) -> CodedTrees:
        """Return the trees ``which``, in this order."""
        nodes = self.nodes_of(which)
        offset = np.concatenate([[0], np.cumsum((self.offset[1:] - self.offset[:-1])[which])])
        return CodedTrees(offset.astype(np.int64), *(column[nodes] for column in self[1:]))

    def records(self) -> np.recarray:
        """Return the nodes as the engines write them."""
        out = np.zeros(len(self.feature), dtype=CODED_NODE)
        for name in CODED_NODE.names or ():
            out[name] = getattr(self, name)
        return out.view(np.recarray)


def whole(records: np.ndarray) -> np.ndarray:
    """Return a view of records as bytes, which NumPy copies several times as fast as field by field."""
    return np.asarray(records).view(np.dtype((np.void, records.dtype.itemsize)))


def from_records(node: np.ndarray, offset: np.ndarray) -> CodedTrees:
    """Return trees from the records of their nodes, dtype CODED_NODE. Unused fields of nominal splits become 0."""
    feature, cut, upper, right, categories, default_left = (
        np.ascontiguousarray(node[name]) for name in CodedTrees._fields[1:]
    )
    cut[categories >= 0] = upper[categories >= 0] = 0
    return CodedTrees(offset.astype(np.int64), feature, cut, upper, right, categories, default_left)


def number_trees(trees: CodedTrees, stats: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each tree among the distinct ones, (n_trees,), by first occurrence, and the first of each.

    With ``stats`` (n_nodes, s), trees whose nodes hold other statistics are distinct.
    """
    key = np.column_stack([trees.feature, trees.cut, trees.categories])
    seen: dict[bytes, int] = {}
    first: list[int] = []
    number = np.empty(trees.n_trees, dtype=np.int64)
    ends = trees.offset.tolist()
    for t in range(trees.n_trees):
        span = slice(ends[t], ends[t + 1])
        content = key[span].tobytes() + (b"" if stats is None else stats[span].tobytes())
        number[t] = seen.setdefault(content, len(seen))
        if number[t] == len(first):
            first.append(t)
    return number, np.array(first, dtype=np.int64)


@jit
def route_into(leaf: np.ndarray, trees: CodedTrees, t: int, codes: np.ndarray, units: np.ndarray) -> None:
    """Write into ``leaf`` (m,) the node, counted over all trees, that ``units`` (m,) of ``codes`` (q, U) reach."""
    start = trees.offset[t]
    for i in range(len(units)):
        node = start
        while trees.feature[node] != LEAF:
            code = np.int64(codes[trees.feature[node], units[i]])
            left = goes_left(code, trees.cut[node], trees.categories[node])
            node = node + 1 if left else start + trees.right[node]
        leaf[i] = node


def weight_of_nodes(trees: CodedTrees, codes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the total ``weight`` (U,) of the units with these ``codes`` (q, U) in each node, (n_nodes,).

    Costs O(U depth) a tree.
    """
    out, units = np.zeros(len(trees.feature)), np.arange(codes.shape[1])
    for t in range(trees.n_trees):
        start, end = trees.offset[t : t + 2].tolist()
        leaf = leaves_of_units(trees.take(np.array([t])), codes, units)[:, 0]
        out[start:end] = np.bincount(leaf, weights=weight, minlength=end - start)
        for i in range(end - 1, start - 1, -1):
            if trees.feature[i] != LEAF:
                out[i] = out[i + 1] + out[start + trees.right[i]]
    return out


@jit
def leaves_of_units(trees: CodedTrees, codes: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the leaf (m, n_trees), counted over all trees, that columns ``units`` of ``codes`` (q, U) reach."""
    out = np.empty((len(units), len(trees.offset) - 1), dtype=np.int64)
    leaf = np.empty(len(units), dtype=np.int64)
    for t in range(out.shape[1]):
        route_into(leaf, trees, t, codes, units)
        for i in range(len(units)):
            out[i, t] = leaf[i]
    return out
