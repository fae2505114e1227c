"""Arrays of a chain: their records and allocation, its state, scratch arrays, and stored values of cells.

A move names the groups of scratch arrays that it needs, and a chain gets full arrays for the groups that some of its
moves name. In other groups each array has one entry, since compiled code takes states of one type. Each array is
declared with its dtype and its shape, in numbers and in names of `axis_sizes`.

**The state** consists of arrays in nested NamedTuples, which compiled code takes as one pointer. Every node owns a
contiguous range of ``order``. Growing splits the range of a leaf in place, and pruning joins two ranges. Nodes come
from a pool with a free list. Growable leaves, prunable nodes and internal nodes are kept in lists, from which moves
choose uniformly.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from inspect import get_annotations
from typing import Annotated, Any, NamedTuple, get_args

import numpy as np

from ...core import portable
from ...files.encoding import register_class
from ...model import Lowered
from ...model.split_prior.base import call_uncompiled, halves_box, has_box, is_weighted

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
    return np.dtype([(name, np.int64) for name in names])


# temporary numbers of a node: index in a plan, and piece in the growing graph; `preorder` of record i is the i-th node
# of a subtree in preorder
NOTE = _integer_record("planned_at", "piece", "preorder")
# split drawn by a scan, and the number of cuts from this one on that separate the rows alike
DRAWN_SPLIT = _integer_record("cut", "upper", "categories", "n_alike")


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


# names of the groups of arrays that a chain has only if some of its moves need them
SCRATCH_NAMES = ("scan", "replace", "density", "informed")
# largest number of categories in a cell for which `split_sums` evaluates all partitions into two sets
MAX_PARTITIONED_CATEGORIES = 8
# bound on the number of partitions of `MAX_PARTITIONED_CATEGORIES` categories into two sets
MAX_PARTITIONS = 1 << (MAX_PARTITIONED_CATEGORIES - 1)
MAX_INFORMED_LEAVES = 256  # largest number of leaves below each child of a node whose split an informed change draws
MAX_SAMPLED_SPLITS = 2048  # largest number of splits in the sample of a cell (`systematic`)


class Codes(NamedTuple):
    """Codes of one feature in one cell (`codes`). Units are merged rows."""

    distinct: Annotated[np.ndarray, np.int64, "codes"]  # codes in the cell, ascending
    # side, 0 (left) or 1, of each unit of a cell that has only one split on the feature
    side: Annotated[np.ndarray, np.int32, "units"]
    # 1 for each code that a search has found already. All are 0 between uses.
    is_present: Annotated[np.ndarray, np.uint8, "all_codes"]
    rows: Annotated[np.ndarray, np.int64, "codes"]  # number of rows by code. All are 0 between uses.


class Scan(NamedTuple):
    """Splits of a cell on one feature (`split_sums`). A bin contains the rows with one code."""

    stats: Annotated[np.ndarray, np.float64, "codes", "stats"]  # statistics of each bin
    rows: Annotated[np.ndarray, np.int64, "codes"]  # number of rows of each bin
    by_code: Annotated[np.ndarray, np.float64, "codes", "stats"]  # statistics by code. All are 0 between uses.
    left: Annotated[np.ndarray, np.float64, "codes", "stats"]  # statistics of the left side of each split
    right: Annotated[np.ndarray, np.float64, "codes", "stats"]  # statistics of the right side of each split
    rows_left: Annotated[np.ndarray, np.int64, "codes"]  # number of rows of the left side of each split
    gain: Annotated[np.ndarray, np.float64, "codes"]  # gain in log score of each split, not tempered
    drawn_split: Annotated[np.recarray, DRAWN_SPLIT, 1]  # split drawn in proportion to its term


class Replace(NamedTuple):
    """Replacement of a subtree (`replace_subtree`)."""

    # units of the node whose subtree is replaced, in their order before the replacement
    order: Annotated[np.ndarray, np.int32, "units"]


class Density(NamedTuple):
    """Terms of a cell and of its splits in the learned density (`terms`)."""

    # log sums over the splits of each feature, of exp(gain) in row GAIN and of exp(logit) in row LEARNED
    log_sum: Annotated[np.ndarray, np.float64, 2, "features"]
    # gain (row GAIN) and logit (row LEARNED) of the splits of one feature. In this and the next two arrays, the first
    # two entries are for the splits with an empty side.
    exponent: Annotated[np.ndarray, np.float64, 2, "splits"]
    # number of splits that separate the rows as the split of the entry does
    n_alike: Annotated[np.ndarray, np.int64, "splits"]
    # terms of each split. The last place is for a split that is evaluated by itself.
    split_terms: Annotated[np.ndarray, np.float64, N_SPLIT_TERMS, "splits"]
    cell_terms: Annotated[np.ndarray, np.float64, N_CELL_TERMS]  # terms of one cell
    # constants x log x (row 0) and log(1 + x) (row 1) for x = 0, 1, ..., unused if weights are not whole numbers
    logs: Annotated[np.ndarray, np.float64, 2, "logs"]
    log_rows: Annotated[np.ndarray, np.float64, "rows + 2"]  # constants log(1 + n) for numbers n of rows


class Informed(NamedTuple):
    """Candidate splits of a node, and the rows that leaves below get (`informed_change`)."""

    # subtrees 0 and 1 are those of the two children, and side 1 is for candidates that exchange them
    n_leaves: Annotated[np.ndarray, np.int64, 2]  # number of leaves of each subtree
    unit: Annotated[np.ndarray, np.int32, 2, "units"]  # units of the node by the leaf that they reach in each subtree
    # place of the first unit of each leaf of each subtree, and the end
    leaf_start: Annotated[np.ndarray, np.int64, 2, MAX_INFORMED_LEAVES + 2]
    place: Annotated[np.ndarray, np.int32, 2, "units"]  # bin of each of these units
    bin_of_code: Annotated[np.ndarray, np.int64, "all_codes"]  # bin of each code of one feature that the node has
    code_of_bin: Annotated[np.ndarray, np.int64, "codes"]  # code of each bin
    mean: Annotated[np.ndarray, np.float64, "codes"]  # mean of each category
    weight: Annotated[np.ndarray, np.float64, "codes"]  # weight of each category
    rows: Annotated[np.ndarray, np.int64, "codes"]  # number of rows of one leaf by bin. All are 0 between uses.
    stats: Annotated[np.ndarray, np.float64, "codes", "stats"]  # statistics of one leaf by bin. All are 0 between uses.
    # smallest number of first bins with which each leaf of a subtree has enough rows
    fewest: Annotated[np.ndarray, np.int64, 2]
    # largest number of first bins without which each leaf of a subtree has enough rows
    most: Annotated[np.ndarray, np.int64, 2]
    first: Annotated[np.ndarray, np.int64, 2]  # first candidate of each side
    last: Annotated[np.ndarray, np.int64, 2]  # last candidate of each side
    since: Annotated[np.ndarray, np.int64, "splits"]  # first candidate for which one leaf has the statistics ``sums``
    # statistics of one leaf under the candidates, without repetitions
    sums: Annotated[np.ndarray, np.float64, "splits", "stats"]
    score: Annotated[np.ndarray, np.float64, "splits"]  # scores of ``sums``
    failed_rows: Annotated[np.ndarray, np.int64, 1]  # number of rows of a leaf whose score is not finite
    # log weight of each candidate of each side on one feature
    log_weight: Annotated[np.ndarray, np.float64, 2, "splits"]
    # log sum of the weights of the candidates on each feature, first those of side 0
    log_part: Annotated[np.ndarray, np.float64, "2 * features"]


class Scratch(NamedTuple):
    """Scratch arrays of a chain. Groups that `SCRATCH_NAMES` does not contain are for every chain."""

    # node whose score is not finite, and 1 if the score is that of one side of a possible split of the node, else 0
    failed_node: Annotated[np.ndarray, np.int64, 2]
    note: Annotated[np.recarray, NOTE, "nodes"]  # temporary numbers of nodes
    to_right: Annotated[np.ndarray, np.int32, "units"]  # units that go right, while a node is split
    feature_weight: Annotated[np.ndarray, np.float64, "features"]  # weights of the features, from which one is drawn
    # weights of the splits of one feature, unused if splits have equal weights
    cut_weight: Annotated[np.ndarray, np.float64, "cuts"]
    codes: Codes
    scan: Scan
    replace: Replace
    density: Density
    informed: Informed


MAX_STORED_BYTES = 1 << 24  # largest memory, in bytes, for the stored values of cells of one chain
MAX_GUIDES = 1 << 14  # largest number of cells whose probabilities by the learned density are stored


class Stored(NamedTuple):
    """Hash tables with values of cells; lengths are powers of two."""

    # a new cell overwrites an old one with the same index (`splits.claim_cell_entry`, `density.evaluate_cell`)
    cell: Annotated[np.recarray, CELL, "cells"]  # values of each cell
    # sum of the weights of the splits of each feature (`splits.store_masses`)
    mass: Annotated[np.ndarray, np.float64, "cells", "features"]
    log_part: Annotated[np.ndarray, np.float64, "cells", "features"]  # log of each feature's part of W (`split_sums`)
    guide: Annotated[np.recarray, GUIDE, "guides"]  # probabilities of each cell by the learned density
    # probability of each feature by the learned density, given that the cell is split
    fraction: Annotated[np.ndarray, np.float64, "guides", "features"]
    # log normaliser of each feature's splits by the learned part of the density
    log_learned: Annotated[np.ndarray, np.float64, "guides", "features"]


@register_class
class Graph(NamedTuple):
    """Graph of visited cells. Its pieces are cells at a depth, and its links are their splits."""

    # hash table of the indices of pieces, -1 in free slots, at least one. Its length is a power of two.
    slot: Annotated[np.ndarray, np.int32, "slots"]
    piece: Annotated[np.recarray, GRAPH_PIECE, "pieces"]  # pieces, and room for more
    link: Annotated[np.recarray, GRAPH_LINK, "links"]  # links, and room for more
    # number of pieces (at N_PIECES) and of links (N_LINKS), and 1 while the graph grows, else 0 (IS_GROWING)
    used: Annotated[np.ndarray, np.int64, 3]


def graph_sizes(n_pieces: int = 1, n_links: int = 1) -> dict[str, int]:
    """Return the lengths of the axes "slots", "pieces" and "links" of a `Graph` with room for these numbers."""
    return {"slots": 1 << (2 * int(n_pieces) - 1).bit_length(), "pieces": n_pieces, "links": n_links}


def new_graph(n_pieces: int = 1, n_links: int = 1) -> Graph:
    """Return an empty graph of visited cells with room for these numbers of pieces and links."""
    graph = allocate_group(Graph, graph_sizes(n_pieces, n_links))
    graph.slot[:] = NONE
    return graph


def n_stored_cells(p: int) -> int:
    """Return the number of cells whose values a chain with ``p`` features stores, a power of two."""
    n = MAX_STORED_BYTES // (16 * p + CELL.itemsize)
    return 1 << min(max(n.bit_length() - 1, 8), 16)


PROPOSED, ACCEPTED = range(2)  # rows of `ChainState.moves`
MIN_TOP_DEPTHS = 3  # smallest number of depths from which the top of a redrawn subtree is chosen


class ChainState(NamedTuple):
    """Arrays of one chain. Records of free nodes may contain anything."""

    # units, which are merged rows. Those of node i are ``order[node[i].start:node[i].stop]``.
    order: Annotated[np.ndarray, np.int32, "units"]
    node: Annotated[np.recarray, CHAIN_NODE, "nodes"]  # nodes of the tree, and free ones
    # leaf statistics of each node, of internal nodes as well
    stats: Annotated[np.ndarray, np.float64, "nodes", "stats"]
    # box of each node: first code and one behind the last of an ordered feature, bits of categories and 0 of a nominal
    # one; the second axis is empty if splits do not depend on boxes
    box: Annotated[np.ndarray, np.int64, "nodes", "boxes", 2]
    # lengths of the lists of growable, prunable, internal and free nodes, number of nodes, 1 if the tree changed since
    # it was last saved, number that stored values must have to be valid, number of rows visited
    count: Annotated[np.ndarray, np.int64, 8]
    # inverse temperature, by which log scores are multiplied, 1 unless the chain is tempered
    beta: Annotated[np.ndarray, np.float64, 1]
    # number of proposals since the last saved draw, and of accepted ones, for each count in `Kernel.count_names`
    moves: Annotated[np.ndarray, np.int64, 2, "counts"]
    # parameters of the learned density by depth class. The first entry of the last row is the number of depths from
    # which the top of a redrawn subtree is chosen.
    density: Annotated[np.ndarray, np.float64, N_DENSITY_ROWS, N_CELL_TERMS + N_SPLIT_TERMS]
    graph: Graph  # graph of visited cells
    plan: Annotated[np.recarray, PLAN, "nodes"]  # subtree that a move is to build, parents before children
    stored: Stored  # values of cells that were visited, stored for further visits
    scratch: Scratch  # arrays that a function fills and reads before it returns


def initial_density() -> np.ndarray:
    """Return the parameters of the learned density before any fit, as in `ChainState.density`."""
    # a cell is split with its lookahead odds, and the logit of a split is half of its gain in nats
    out = np.zeros((N_DENSITY_ROWS, N_CELL_TERMS + N_SPLIT_TERMS))
    out[-1, 0] = MIN_TOP_DEPTHS
    out[:-1, 1], out[:-1, N_CELL_TERMS] = 1.0, 0.5
    return out


def axis_sizes(model: Lowered, n_nodes: int, n_counts: int, scratch: Collection[str]) -> dict[str, int]:
    """Return the length of each axis that the declarations of a state's arrays name, by the name of the axis."""
    rule, leaf, p = model.split_prior, model.leaf, len(model.split_prior.feature)
    n_cells = 1 if {"scan", "replace"}.isdisjoint(scratch) else n_stored_cells(p)
    all_codes = int(rule.feature.n_codes.max())
    n_codes = 2 if call_uncompiled(halves_box, rule) else max(all_codes, MAX_PARTITIONS)
    return graph_sizes() | {
        "nodes": n_nodes,
        "units": model.units.n_units,
        "rows + 2": _n_rows(model) + 2,
        "features": p,
        "2 * features": 2 * p,
        "boxes": p if call_uncompiled(has_box, rule) else 0,
        "stats": leaf.n_stats,
        "counts": n_counts,
        "cells": n_cells,
        "guides": min(n_cells, MAX_GUIDES) if "density" in scratch else 1,
        "all_codes": all_codes,
        "codes": n_codes,
        "cuts": n_codes if call_uncompiled(is_weighted, rule) else 1,
        "splits": n_codes + 3,
        "logs": leaf.lookup.shape[1] + 3 if model.units.counts and leaf.lookup.shape[1] > 1 else 1,
    }


def new_state(model: Lowered, n_nodes: int, n_counts: int, scratch: Collection[str]) -> ChainState:
    """Return the state of a chain without a tree, with room for `n_nodes` nodes and `n_counts` counts of proposals."""
    state = allocate_group(ChainState, axis_sizes(model, n_nodes, n_counts, scratch), {*SCRATCH_NAMES} - {*scratch})
    state.order[:] = np.arange(len(state.order))
    state.beta[0], state.graph.slot[:] = 1.0, NONE
    cell, guide = state.stored.cell, state.stored.guide
    cell.hash[:] = cell.scan[:] = guide.hash[:] = NONE
    if "density" in scratch:
        work = state.scratch.density
        work.logs[:], state.density[:] = _logs_of_numbers(work.logs.shape[1]), initial_density()
        work.log_rows[:] = _logs_of_numbers(_n_rows(model) + 2)[1]
    return state


def _n_rows(model: Lowered) -> int:
    """Return the number of training rows, in which merged rows count as often as they occur."""
    return int(model.units.rows.sum()) if model.units.rows_all else model.units.n_units


@lru_cache(maxsize=8)
def _logs_of_numbers(n: int) -> np.ndarray:
    """Return x log(x) and log(1 + x) for x = 0, ..., n - 1, (2, n)."""
    x = np.arange(float(n))
    return np.array([x * portable.log(np.maximum(x, 1.0)), portable.log1p(x)])


def with_node_capacity(state: ChainState, n_nodes: int) -> ChainState:
    """Return the state with room for ``n_nodes`` nodes, more than before. Copy arrays by node, and share all others."""
    # the old state must not be used any more
    cap, n_free = len(state.node), int(state.count[N_FREE])
    by_node = {name: _pad(getattr(state, name), n_nodes) for name in ("node", "stats", "box", "plan")}
    out = state._replace(**by_node, scratch=state.scratch._replace(note=_pad(state.scratch.note, n_nodes)))
    out.node.free[n_free : n_free + n_nodes - cap] = np.arange(n_nodes - 1, cap - 1, -1)
    out.count[N_FREE] += n_nodes - cap
    return out


def _pad(array: np.ndarray, n: int) -> np.ndarray:
    """Return an array of ``n`` entries, those of ``array`` followed by zeros, of the same type."""
    out = np.zeros((n, *array.shape[1:]), array.dtype).view(type(array))
    out[: len(array)] = array
    return out
