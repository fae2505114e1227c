"""Records of the arrays of a chain, and the allocation of groups of arrays."""

from collections.abc import Collection, Mapping
from inspect import get_annotations
from typing import Any, get_args

import numpy as np

NONE = -1
N_GROWABLE, N_PRUNABLE, N_INTERNAL, N_FREE, N_NODES, CHANGED, SCAN, ROWS = range(8)
DENSITY_LEVELS, N_CELL_TERMS, N_WAY_TERMS = 4, 8, 6
"""Number of depth classes, and of terms of a cell and of a split, in the learned density."""
N_DENSITY_ROWS = 1 + DENSITY_LEVELS
N_PIECES, N_LINKS, GROWING = range(3)
"""Places of the numbers of pieces and links of a graph, and of its growth: 0 if it is frozen, 1 if it gets every tree.
"""


NODE = np.dtype(
    [
        ("parent", np.int64),  # -1 for the root, node 0
        ("left", np.int64),  # -1 in a leaf
        ("right", np.int64),  # -1 in a leaf
        ("feature", np.int64),  # -1 in a leaf
        ("cut", np.int64),  # largest code going left
        ("upper", np.int64),  # next code on the right, in the cell under local cuts
        ("categories", np.int64),  # bits going left, -1 if ordered
        ("log_rule", np.float64),  # log R of the split, 0 in a leaf
        ("score", np.float64),  # leaf score, stored for internal nodes too
        ("guess", np.float64),  # score of stored sums, another one only if the leaves share an unknown variance
        ("rows", np.int64),  # training rows
        ("depth", np.int64),
        ("design", np.int64),  # node of the fixed tree, 0 for other splits
        ("start", np.int64),  # first entry of `order` in the node
        ("stop", np.int64),  # one behind the last
        ("growable_at", np.int64),  # place in the list of growable leaves, -1 if not in it
        ("prunable_at", np.int64),  # place in the list of prunable nodes, -1 if not in it
        ("internal_at", np.int64),  # place in the list of internal nodes, -1 if not in it
        ("growable", np.int64),  # entry i of the list of splittable leaves, in record i
        ("prunable", np.int64),  # entry i of the list of nodes whose children are both leaves
        ("internal", np.int64),  # entry i of the list of internal nodes
        ("free", np.int64),  # entry i of the stack of free nodes
        ("hash", np.int64),  # hash of the rows, box or fixed node of the cell, on which its splits depend
        ("open", np.int64),  # bits of the groups that contain all features split on above, -1 in the root
        ("saved_at", np.int64),  # place in the draw being saved
        ("default_left", np.bool_),  # as many training rows go left as right, or more
        ("splittable", np.bool_),  # above the depth limit and with an admissible split
    ],
    align=True,
)


CELL = np.dtype(
    [
        ("hash", np.int64),  # of the cell, NONE if the place is empty
        ("weight", np.float64),  # sum of the weights of its admissible features, negative: not computed
        ("scan", np.int64),  # `count[SCAN]` when the values were computed, which another number makes invalid
        ("log_w", np.float64),  # log W
    ]
)
"""Values that depend on a cell alone. A cell takes the place of another one there."""


GUIDE = np.dtype(
    [
        ("hash", np.int64),  # of the cell, NONE if the place is empty
        ("depth", np.int64),  # of the node
        ("scan", np.int64),  # `count[SCAN]` when it was computed
        ("weight", np.float64),  # sum of the weights of its admissible features
        ("log_learned", np.float64),  # log normaliser of the learned part of the splits
        ("odds", np.float64),  # log odds of splitting by lookahead
        ("asked", np.int64),  # 1 if the probabilities of its splits were computed, 0 if only that of splitting
        ("log_split", np.float64),  # log probability of splitting
        ("log_stop", np.float64),  # log probability of stopping
    ]
)
"""Probabilities of a cell at a depth by the learned density."""


BRANCH = np.dtype(
    [
        ("feature", np.int64),  # -1 in a leaf
        ("cut", np.int64),
        ("upper", np.int64),
        ("categories", np.int64),
        ("log_rule", np.float64),
        ("log_p", np.float64),  # log probability of being in the subgraph
        ("left", np.int64),  # distance to the left child, in a tree drawn
        ("right", np.int64),  # distance to the right child
        ("kept", np.bool_),  # the split of the present tree
    ],
    align=True,
)
"""Split of a random subgraph, or node of a tree drawn from it."""


PIECE = np.dtype(
    [
        ("hash", np.int64),  # of the cell
        ("depth", np.int32),  # of the node
        ("first", np.int32),  # the link added last, -1: none
        ("stop", np.float64),  # log prior and score as a leaf
        ("g_stop", np.float64),  # log probability of stopping, by the learned density
        ("value", np.float64),  # log sum over all subtrees, estimated; -inf if no stored decision has a weight
    ],
    align=True,
)
"""Cell at a depth in the graph of visited cells (see `graph`)."""


LINK = np.dtype(
    [
        ("feature", np.int32),
        ("cut", np.int32),
        ("upper", np.int32),
        ("left", np.int32),  # piece of the left child, -1 if it cannot be split
        ("right", np.int32),
        ("next", np.int32),  # the link of the same piece added before, -1: none
        ("categories", np.int64),
        ("log_rule", np.float64),
        ("fixed", np.float64),  # log prior of the split, and of children that have no piece with their scores
        ("g", np.float64),  # log probability, by the learned density
        ("weight", np.float64),  # log of its part of the sum
    ],
    align=True,
)
"""Split of a piece."""


PLAN = np.dtype(
    [
        ("feature", np.int64),  # -1 in a leaf
        ("cut", np.int64),
        ("categories", np.int64),
        ("left", np.int64),  # planned node
        ("right", np.int64),
        ("node", np.int64),  # node of the state grown for it, -1 before
        ("origin", np.int64),  # planned node whose place it takes
        ("side", np.int64),  # side of all rows if it was left out, else -1
    ]
)
"""Node of a subtree that is to be built."""


def _integers(*names: str) -> np.dtype:
    return np.dtype([(name, np.int64) for name in names])


NOTE = _integers("planned_at", "blocks", "first", "last", "drawn_at", "piece", "preorder")
"""Numbers that moves note of a node: its place in a plan, bits of the leaves that it contains of those to be
restructured, its first and last place on a line, its place in a tree drawn from a random subgraph, and its piece in the
growing graph. Entry i of the list of the nodes of a subtree, in preorder, is in record i.
"""
CHOSEN = _integers("cut", "upper", "categories", "n_alike")
"""Split drawn by a scan, and the number of cuts from this one on that separate the rows alike."""
LINE = _integers("hash", "depth", "scan", "n_codes", "n_levels")
"""Line to which the stored sums belong: hash of the cell, depth of the node, `count[SCAN]` when the sums were computed,
number of codes, 0 if there is no room for the sums, and number of levels.
"""
GAP = _integers("node", "cut", "upper")
"""Node of a block and its split, between two pieces."""
OPEN = _integers("first", "last", "parent", "on_left")
"""Union of pieces, from the first to the last, that is to be arranged below a parent, or at the top if that is -1, on
the left if ``on_left`` is 1.
"""


def new_group(kind: Any, sizes: Mapping[Any, int] | None, unneeded: Collection[str] = ()) -> Any:
    """Return a group of arrays of zeros, by the dtypes and shapes in its declaration, and of such groups.

    Arrays have a single entry if ``sizes`` is None, and if they are ``unneeded`` or in groups that are.
    """
    if hasattr(kind, "_fields"):
        fields = get_annotations(kind).items()
        return kind(*(new_group(field, None if name in unneeded else sizes, unneeded) for name, field in fields))
    _, dtype, *axes = get_args(kind)
    out = np.zeros([1 if sizes is None else sizes.get(axis, axis) for axis in axes], dtype)
    return out.view(np.recarray) if out.dtype.names else out
