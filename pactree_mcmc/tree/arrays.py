"""Trees as flat arrays for compiled code, and functions that send many rows through many trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.compile.jit import jit
from ..files.encoding import register_class

LEAF = -1  # feature of a leaf
# results of `find_disorder`: no fault, a node that is not the child that must come next, a wrong left child, a right
# child out of range, and a child that is missing
IN_ORDER, STRAY, BAD_LEFT, BAD_RIGHT, MISSING_CHILD = range(5)


@register_class
class TreeArrays(NamedTuple):
    """Nodes of one or more trees, one tree after another, each in preorder."""

    offset: np.ndarray  # (n_trees + 1,) int64: tree t owns the nodes offset[t] to offset[t + 1] - 1
    feature: np.ndarray  # (n_nodes,) int32: the feature split on, -1 in a leaf
    # (n_nodes,) float64: x <= threshold goes left. NaN: missing values go to the default side, all others not.
    threshold: np.ndarray
    left: np.ndarray  # (n_nodes,) int32: index of the left child in its tree
    right: np.ndarray  # (n_nodes,) int32: index of the right child in its tree
    categories: np.ndarray  # (n_nodes,) int64: bit set of the categories that go left, -1 for an ordered split
    # (n_nodes,) bool: True if missing values, and categories unknown to the training data, go left
    default_left: np.ndarray


def find_disorder(feature: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[int, int]:
    """Return the code of the first fault in the preorder of nodes, such as STRAY, and its node; or IN_ORDER and 0."""
    return _find_disorder(feature, left, right, np.empty(len(feature) + 2, dtype=np.int64))


@jit
def _find_disorder(feature: np.ndarray, left: np.ndarray, right: np.ndarray, expected: np.ndarray) -> tuple[int, int]:
    """Return the code of the first fault in the preorder of the nodes (m,) of a tree, and its node; or IN_ORDER, 0."""
    m = len(feature)
    expected[0] = 0
    n = 1
    for i in range(m):
        n -= 1
        if n < 0 or expected[n] != i:
            return STRAY, i
        if feature[i] != LEAF:
            if left[i] != i + 1:
                return BAD_LEFT, i
            if not i + 1 < right[i] < m:
                return BAD_RIGHT, i
            expected[n], expected[n + 1] = right[i], left[i]
            n += 2
    return (MISSING_CHILD, expected[n - 1]) if n > 0 else (IN_ORDER, 0)


def iterate_nodes(
    trees: TreeArrays, t: int, state: Any, child_states: Callable[[int, Any, int, int], Iterable[tuple[int, Any]]]
) -> Iterator[tuple[int, int, Any]]:
    """Yield (node, feature, state) for the nodes of tree ``t``, parents first; nodes are numbered over all trees."""
    # a state is computed for a node from that of its parent, such as its cell; child_states(node, state, left, right)
    # returns the children to be visited as pairs (node, state), in the order of the visits
    base, end = trees.offset[t : t + 2].tolist()
    feature, right = trees.feature[base:end].tolist(), trees.right[base:end].tolist()
    todo = [(base, state)]
    while todo:
        node, state = todo.pop()
        k = feature[node - base]
        yield node, k, state
        if k != LEAF:
            todo += reversed(list(child_states(node, state, node + 1, base + right[node - base])))


@jit
def number_goes_left(x: float, threshold: float, categories: int, default_left: bool) -> bool:
    """Return True if a split sends the value `x` of its feature left; `categories` is -1 if it is ordered."""
    # else they are the bits that go left, and x an index of a category, -1 if unknown. Missing values and unknown
    # categories go left if `default_left`; if the threshold is NaN, all others go to the other side
    if categories >= 0:
        return (categories >> np.int64(x)) & 1 == 1 if x >= 0.0 else default_left
    return (x != x) == default_left if threshold != threshold else x <= threshold or (x != x and default_left)


@jit
def route_rows_into(leaf: np.ndarray, trees: TreeArrays, t: int, X: np.ndarray) -> None:
    """Write the leaf that each row of numbers X (n, p) reaches in tree `t` to `leaf` (n,), numbered over all trees."""
    # one call handles all rows: a call costs more than a row, since it counts references to all arrays of `trees`
    start = trees.offset[t]
    for i in range(len(X)):
        node = start
        k = trees.feature[node]
        while k != LEAF:
            default = trees.default_left[node]
            goes_left = number_goes_left(X[i, k], trees.threshold[node], trees.categories[node], default)
            node = start + (trees.left[node] if goes_left else trees.right[node])
            k = trees.feature[node]
        leaf[i] = node


@jit
def add_predictions_into(
    out: np.ndarray, trees: TreeArrays, weight: np.ndarray, value: np.ndarray, X: np.ndarray
) -> None:
    """Add predictions for rows of numbers X (n, p) to ``out`` (n, d), summed over trees with ``weight`` (n_trees,)."""
    leaf = np.empty(len(X), dtype=np.int64)
    for t in range(len(weight)):
        if weight[t] > 0.0:
            route_rows_into(leaf, trees, t, X)
            for i in range(len(X)):
                for j in range(out.shape[1]):
                    out[i, j] += weight[t] * value[leaf[i], j]


def leaf_values(trees: TreeArrays, value: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return ``value`` (n_nodes, d) of the leaf that each row of numbers X (n, p) reaches, (n_trees, n, d)."""
    return value[leaves_reached(trees, X).T]


@jit
def _depths_into(out: np.ndarray, trees: TreeArrays) -> None:
    """Write the depth of every node in its tree, 0 for a root, to ``out`` (n_nodes,), which contains zeros before."""
    for t in range(len(trees.offset) - 1):
        start = trees.offset[t]
        for i in range(start, trees.offset[t + 1]):
            if trees.feature[i] != LEAF:
                out[start + trees.left[i]] = out[i] + 1
                out[start + trees.right[i]] = out[i] + 1


def node_depths(trees: TreeArrays) -> np.ndarray:
    """Return the depth of every node in its tree, (n_nodes,) int64; 0 for a root."""
    out = np.zeros(len(trees.feature), dtype=np.int64)
    _depths_into(out, trees)
    return out


@jit
def leaves_reached(trees: TreeArrays, X: np.ndarray) -> np.ndarray:
    """Return the leaf (n, n_trees) that each row of numbers X (n, p) reaches in each tree, numbered over all trees."""
    out = np.empty((len(X), len(trees.offset) - 1), dtype=np.int64)
    leaf = np.empty(len(X), dtype=np.int64)
    for t in range(out.shape[1]):
        route_rows_into(leaf, trees, t, X)
        for i in range(len(X)):
            out[i, t] = leaf[i]
    return out


ROWS_PER_BLOCK = 512  # number of rows that go down a tree at the same time, level by level

# record of a node of `Routes`; a row in a leaf stays there, so that all rows take the same number of steps
ROUTE_NODE = np.dtype(
    [
        ("threshold", np.float64),  # NaN in a leaf: no number is below it, so that every row goes "right"
        ("feature", np.int32),  # 0 in a leaf
        ("right", np.int32),  # the node itself in a leaf; the left child follows the node
    ]
)


class Routes(NamedTuple):
    """One tree in the form that is fastest for sending many rows down."""

    node: np.recarray  # (m,) records of dtype ROUTE_NODE, with the fields that an ordered split needs
    categories: np.ndarray  # (m,) int64: bit set of the categories that go left, -1 if ordered
    # (m,) bool: True if missing values and unknown categories go left; False in a leaf, in which they stay
    default_left: np.ndarray
    has_nominal: bool  # True if any node has a nominal split
    depth: int  # depth of the deepest leaf, the number of steps of every row

    def leaves(self, X: np.ndarray) -> np.ndarray:
        """Return the leaf that each row of numbers (n, p) reaches, (n,) int64. A row costs O(depth)."""
        out = np.zeros(len(X), dtype=np.int64)
        descend_into(out, self.node, self.categories, self.default_left, self.has_nominal, X, self.depth)
        return out


def routes(
    feature: np.ndarray, threshold: np.ndarray, right: np.ndarray, categories: np.ndarray, default_left: np.ndarray
) -> Routes:
    """Return the form of a tree for sending many rows down, `Routes`, from its arrays (m,) in preorder."""
    is_leaf = feature < 0
    node = np.empty(len(feature), dtype=ROUTE_NODE).view(np.recarray)
    node.threshold, node.feature = np.where(is_leaf, np.nan, threshold), np.where(is_leaf, 0, feature)
    node.right = np.where(is_leaf, np.arange(len(feature)), right)
    depth = int(depths_without_joint(feature, right, np.zeros(len(feature), dtype=np.bool_)).max())
    return Routes(node, categories, default_left & ~is_leaf, bool(np.any(categories >= 0)), depth)


@jit
def depths_without_joint(feature: np.ndarray, right: np.ndarray, is_joint: np.ndarray) -> np.ndarray:
    """Return the number of ancestors of each node of a tree that are not joint, (m,) int64."""
    # a joint node is part of the split of its parent (`FixedShape`)
    out = np.zeros(len(feature), dtype=np.int64)
    for i in range(len(feature)):
        if feature[i] >= 0:
            out[i + 1] = out[right[i]] = out[i] + (0 if is_joint[i] else 1)
    return out


@jit
def descend_into(
    out: np.ndarray,
    node: np.recarray,
    categories: np.ndarray,
    default_left: np.ndarray,
    has_nominal: bool,
    X: np.ndarray,
    depth: int,
) -> None:
    """Write the leaf that each row of numbers `X` (n, p) reaches in a tree to `out` (n,), which holds zeros before."""
    for start in range(0, len(out), ROWS_PER_BLOCK):
        stop = min(start + ROWS_PER_BLOCK, len(out))
        for _ in range(depth):
            for i in range(start, stop):
                # unsigned indices need no check for negative values; both children are loaded before the comparison
                at = np.uint64(out[i])
                x = X[np.uint64(i), np.uint64(node[at].feature)]
                right_child, left_child = np.int64(node[at].right), out[i] + 1
                if has_nominal and categories[at] >= 0:
                    goes_left = (categories[at] >> np.int64(x)) & 1 == 1 if x >= 0.0 else default_left[at]
                    out[i] = left_child if goes_left else right_child
                else:
                    goes_left = x <= node[at].threshold or (x != x and default_left[at])
                    out[i] = left_child if goes_left else right_child
