"""Records of the arrays of a chain, and the allocation of groups of arrays."""

from collections.abc import Collection, Mapping
from inspect import get_annotations
from typing import Any, get_args

import numpy as np

NONE = -1
"""Index that means that there is no node, no feature, or no entry."""
# indices of the entries of `ChainState.count`, which says what they contain
N_GROWABLE, N_PRUNABLE, N_INTERNAL, N_FREE, N_NODES, TREE_CHANGED, STORED_VERSION, N_VISITED_ROWS = range(8)
# number of depth classes, of terms of a cell, and of terms of a split in the learned density (`density.terms`)
N_DEPTH_CLASSES, N_CELL_TERMS, N_SPLIT_TERMS = 4, 8, 6
N_DENSITY_ROWS = 1 + N_DEPTH_CLASSES  # number of rows of `ChainState.density`
# entries of `Graph.used`: numbers of pieces and of links, and 1 while the graph grows by every tree, 0 if it is frozen
N_PIECES, N_LINKS, IS_GROWING = range(3)


CHAIN_NODE = np.dtype(
    [
        ("parent", np.int64),  # -1 for the root, node 0
        ("left", np.int64),  # -1 in a leaf
        ("right", np.int64),  # -1 in a leaf
        ("feature", np.int64),  # -1 in a leaf
        ("cut", np.int64),  # largest code going left
        ("upper", np.int64),  # smallest code going right, under local cuts among the rows of the cell
        ("categories", np.int64),  # bits going left, -1 if ordered
        ("log_rule", np.float64),  # log R of the split, 0 in a leaf
        ("score", np.float64),  # leaf score, stored for internal nodes too
        ("guess", np.float64),  # score in stored sums, not `score` only if the leaves share an unknown variance
        ("rows", np.int64),  # training rows
        ("depth", np.int64),
        ("design", np.int64),  # node of the fixed tree, 0 for other splits
        ("start", np.int64),  # first entry of `order` in the node
        ("stop", np.int64),  # one behind the last entry
        ("growable_at", np.int64),  # place in the list of growable leaves, -1 if not in it
        ("prunable_at", np.int64),  # place in the list of prunable nodes, -1 if not in it
        ("internal_at", np.int64),  # place in the list of internal nodes, -1 if not in it
        ("growable", np.int64),  # entry i of the list of splittable leaves, in record i
        ("prunable", np.int64),  # entry i of the list of nodes whose children are both leaves
        ("internal", np.int64),  # entry i of the list of internal nodes
        ("free", np.int64),  # entry i of the stack of free nodes
        ("hash", np.int64),  # hash of the rows, box or fixed node of the cell, on which its splits depend
        ("saved_at", np.int64),  # index of the node in the tree that is being saved
        ("default_left", np.bool_),  # at least as many training rows go left as right
        ("splittable", np.bool_),  # above the depth limit and with an admissible split
    ],
    align=True,
)


# entry of a hash table with the values of a cell. A new cell overwrites an old one with the same index.
CELL = np.dtype(
    [
        ("hash", np.int64),  # of the cell, NONE if the entry is empty
        ("weight", np.float64),  # sum of the weights of its admissible features, negative if not computed
        ("scan", np.int64),  # `count[STORED_VERSION]` when log W was computed, which is valid for this number only
        ("log_w", np.float64),  # log W, the log sum over its splits (`split_sums`)
    ]
)


# entry of a hash table with the probabilities that the learned density gives to a cell at a depth
GUIDE = np.dtype(
    [
        ("hash", np.int64),  # of the cell, NONE if the entry is empty
        ("depth", np.int64),  # of the node
        ("scan", np.int64),  # `count[STORED_VERSION]` when the entry was computed
        ("weight", np.float64),  # sum of the weights of its admissible features
        ("log_learned", np.float64),  # log normaliser of the learned part of the split probabilities
        ("odds", np.float64),  # log odds of splitting by the sum over the splits of one level (lookahead)
        ("asked", np.int64),  # 1 if the probabilities of its splits were computed, 0 if only that of splitting
        ("log_split", np.float64),  # log probability of splitting
        ("log_stop", np.float64),  # log probability of stopping
    ]
)


# split of a random subgraph, or node of a tree drawn from it
BRANCH = np.dtype(
    [
        ("feature", np.int64),  # -1 in a leaf
        ("cut", np.int64),
        ("upper", np.int64),
        ("categories", np.int64),
        ("log_rule", np.float64),
        ("log_p", np.float64),  # log probability of being in the subgraph
        ("left", np.int64),  # index of the left child minus that of the node, in a drawn tree
        ("right", np.int64),  # the same for the right child
        ("in_tree", np.bool_),  # True for the split that the present tree has
    ],
    align=True,
)


# piece, which is a cell at a depth in the graph of visited cells (`density.graph`)
GRAPH_PIECE = np.dtype(
    [
        ("hash", np.int64),  # of the cell
        ("depth", np.int32),  # of the node
        ("first", np.int32),  # index of the link added last, -1 if there are no links
        ("stop", np.float64),  # log prior and score as a leaf
        ("g_stop", np.float64),  # log probability of stopping, by the learned density
        ("value", np.float64),  # log sum over all subtrees, estimated; -inf if no stored decision has a weight
    ],
    align=True,
)


# link, which is a split of a piece and leads to the pieces of the two children
GRAPH_LINK = np.dtype(
    [
        ("feature", np.int32),
        ("cut", np.int32),
        ("upper", np.int32),
        ("left", np.int32),  # index of the left child's piece, -1 if the child cannot be split
        ("right", np.int32),
        ("next", np.int32),  # index of the link of the same piece added before, -1 if there is none
        ("categories", np.int64),
        ("log_rule", np.float64),
        ("fixed", np.float64),  # log prior of the split, plus log prior and score of each child without a piece
        ("g", np.float64),  # log probability, by the learned density
        ("weight", np.float64),  # log of its term in the sum over subtrees
    ],
    align=True,
)


# node of a subtree that is to be built
PLAN = np.dtype(
    [
        ("feature", np.int64),  # -1 in a leaf
        ("cut", np.int64),
        ("categories", np.int64),
        ("left", np.int64),  # index of the planned left child
        ("right", np.int64),
        ("node", np.int64),  # node of the state built for the planned node, -1 if not yet built
        ("origin", np.int64),  # index at which the node was planned, before splits above it were left out
        ("side", np.int64),  # side, 0 or 1, to which the split sends all rows if it was left out, else -1
    ]
)


def _integer_record(*names: str) -> np.dtype:
    """Return the dtype of a record of int64 fields with these names."""
    return np.dtype([(name, np.int64) for name in names])


# temporary numbers of a node: index in a plan, bits of the old leaves in its cell (`restructure`), first and last place
# on a line (`interval_sums`), index in a tree drawn from a random subgraph, piece in the growing graph; `preorder` of
# record i is the i-th node of a subtree in preorder
NOTE = _integer_record("planned_at", "leaves", "first_place", "last_place", "drawn_at", "piece", "preorder")
# split drawn by a scan, and the number of cuts from this one on that separate the rows alike
DRAWN_SPLIT = _integer_record("cut", "upper", "categories", "n_alike")
# line to which the stored sums belong: hash of the cell, depth of the node, `count[STORED_VERSION]` at their
# computation, number of codes (0 if the sums do not fit) and number of levels
LINE = _integer_record("hash", "depth", "scan", "n_codes", "n_levels")
# node of a block and its cut, which separates two neighbouring pieces (`reshape`)
GAP = _integer_record("node", "cut", "upper")
# pieces from first to last still to be arranged in a subtree (`reshape`), the left child (`on_left` 1) or right child
# (0) of the parent, or the top of the block if that is -1
PENDING_UNION = _integer_record("first", "last", "parent", "on_left")


def allocate_group(kind: Any, sizes: Mapping[Any, int] | None, unneeded: Collection[str] = ()) -> Any:
    """Return a NamedTuple of arrays of zeros with the dtypes and shapes that the class ``kind`` declares."""
    # `sizes` has the length of each axis that a declaration names; arrays have a single entry if it is None, or if
    # `unneeded` contains the name of their field or of a group around it
    if hasattr(kind, "_fields"):
        fields = get_annotations(kind).items()
        return kind(*(allocate_group(field, None if name in unneeded else sizes, unneeded) for name, field in fields))
    _, dtype, *axes = get_args(kind)
    out = np.zeros([1 if sizes is None else sizes.get(axis, axis) for axis in axes], dtype)
    return out.view(np.recarray) if out.dtype.names else out
