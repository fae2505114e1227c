"""Routing of many rows down one tree, level by level, so that many reads of memory are under way at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compile.jit import jit

ROWS_ABREAST = 512

NODE = np.dtype(
    [
        ("threshold", np.float64),  # NaN in a leaf: no number is below it, and its default is right
        ("feature", np.int32),  # 0 in a leaf
        ("right", np.int32),  # the node itself in a leaf; the left child follows the node
    ]
)


class Routes(NamedTuple):
    """Tree in the form in which rows go down it."""

    node: np.recarray
    """(m,) records of dtype NODE, each of which holds what a step needs."""
    categories: np.ndarray
    """(m,) int64: bits going left, -1 if ordered."""
    default_left: np.ndarray
    """(m,) bool: True if missing values and unknown categories go left."""
    nominal: bool
    """True if any node has a nominal split."""
    depth: int

    def leaves(self, X: np.ndarray) -> np.ndarray:
        """Return the leaf that each row of numbers (n, p) reaches, (n,) int64. A row costs O(depth)."""
        out = np.zeros(len(X), dtype=np.int64)
        descend_into(out, self.node, self.categories, self.default_left, self.nominal, X, self.depth)
        return out


def routes(
    feature: np.ndarray, threshold: np.ndarray, right: np.ndarray, categories: np.ndarray, default_left: np.ndarray
) -> Routes:
    """Return the routes of a tree in preorder. ``feature`` is -1 in a leaf."""
    leaf = feature < 0
    node = np.empty(len(feature), dtype=NODE).view(np.recarray)
    node.threshold, node.feature = np.where(leaf, np.nan, threshold), np.where(leaf, 0, feature)
    node.right = np.where(leaf, np.arange(len(feature)), right)
    depth = int(depths_between(feature, right, np.zeros(len(feature), dtype=np.bool_)).max())
    return Routes(node, categories, default_left, bool(np.any(categories >= 0)), depth)


@jit
def depths_between(feature: np.ndarray, right: np.ndarray, joint: np.ndarray) -> np.ndarray:
    """Return the number of ancestors of each node that are not joint, (m,) int64."""
    out = np.zeros(len(feature), dtype=np.int64)
    for i in range(len(feature)):
        if feature[i] >= 0:
            out[i + 1] = out[right[i]] = out[i] + (0 if joint[i] else 1)
    return out


@jit
def descend_into(
    out: np.ndarray,
    node: np.recarray,
    categories: np.ndarray,
    default_left: np.ndarray,
    nominal: bool,
    X: np.ndarray,
    depth: int,
) -> None:
    """Write the leaf that each row of ``X`` (n, p) reaches in a tree of this ``depth`` into ``out`` (n,) of zeros."""
    for start in range(0, len(out), ROWS_ABREAST):
        stop = min(start + ROWS_ABREAST, len(out))
        for _ in range(depth):
            for i in range(start, stop):
                # unsigned indices need no check for counting from the end; both children are at hand before the answer
                here = np.uint64(out[i])
                x = X[np.uint64(i), np.uint64(node[here].feature)]
                right, below = np.int64(node[here].right), out[i] + 1
                if nominal and categories[here] >= 0:
                    left = (categories[here] >> np.int64(x)) & 1 == 1 if x >= 0.0 else default_left[here]
                    out[i] = below if left else right
                else:
                    left = x <= node[here].threshold or (x != x and default_left[here])
                    out[i] = below if left else right
