"""Scratch arrays of a chain, in one group for each purpose.

A move names the groups that it needs, and a chain gets full arrays for the groups that some of its moves name. In other
groups each array has one entry, since compiled code takes states of one type. Each array is declared with its dtype
and its shape, in numbers and in names of `tree.axis_sizes`.
"""

from typing import Annotated, NamedTuple

import numpy as np

from .records import BRANCH, DRAWN_SPLIT, GAP, N_CELL_TERMS, N_SPLIT_TERMS, NOTE, PENDING_UNION

# names of the groups of arrays that a chain has only if some of its moves need them
SCRATCH_NAMES = ("scan", "replace", "restructure", "reshape", "line", "density", "subgraph", "informed")
# largest number of categories in a cell for which `split_sums` evaluates all partitions into two sets
MAX_PARTITIONED_CATEGORIES = 8
# bound on the number of partitions of `MAX_PARTITIONED_CATEGORIES` categories into two sets
MAX_PARTITIONS = 1 << (MAX_PARTITIONED_CATEGORIES - 1)
MAX_RESTRUCTURED_LEAVES = 32  # largest number of leaves of a subtree that is restructured
MAX_INFORMED_LEAVES = 256  # largest number of leaves below each child of a node whose split an informed change draws
MAX_RESHAPED_PIECES = 24  # largest number of subtrees (pieces) below a block of nodes that is reshaped
MAX_SAMPLED_SPLITS = 2048  # largest number of sampled splits that are stored at a time
MAX_SUBGRAPH_CELLS = 8000  # largest number of cells of a random subgraph. The move stops at the first cell beyond.
# largest number of nodes in trees drawn from a random subgraph. Each cell adds at most one. No code checks the number.
MAX_DRAWN_NODES = 2 * MAX_SUBGRAPH_CELLS


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


class Restructure(NamedTuple):
    """Leaves of a subtree that is restructured (`restructure`)."""

    # smallest and largest code of each leaf, or bits of its categories and 0
    codes: Annotated[np.ndarray, np.int64, MAX_RESTRUCTURED_LEAVES, "features", 2]


class Reshape(NamedTuple):
    """Block of nodes that split on one ordered feature, and the pieces below it (`reshape`)."""

    piece: Annotated[np.ndarray, np.int64, MAX_RESHAPED_PIECES]  # top node of each piece, from left to right
    gap: Annotated[np.recarray, GAP, MAX_RESHAPED_PIECES]  # split between each piece and the next
    # unions of pieces that are to be arranged, on a stack
    pending: Annotated[np.recarray, PENDING_UNION, MAX_RESHAPED_PIECES]
    # log R of the cut behind piece k in the union of pieces i to j, at [i, j, k]. If all cuts of a union have the same
    # R, it is at [i, j, 0] alone.
    log_rule: Annotated[np.ndarray, np.float64, MAX_RESHAPED_PIECES, MAX_RESHAPED_PIECES, MAX_RESHAPED_PIECES]
    # log sum of the priors of the trees over pieces i to j with top d levels below the block's top, at [i, j, d]
    log_prior: Annotated[np.ndarray, np.float64, MAX_RESHAPED_PIECES, MAX_RESHAPED_PIECES, MAX_RESHAPED_PIECES]
    term: Annotated[np.ndarray, np.float64, MAX_RESHAPED_PIECES]  # log terms of one entry of ``log_prior``, by cut


class LineWork(NamedTuple):
    """Units and codes of a line, a cell with one admissible ordered feature, and the runs that end with a code."""

    unit: Annotated[np.ndarray, np.int32, "units"]  # units of the cell, ascending
    place: Annotated[np.ndarray, np.int32, "units"]  # place on the line of each unit, the index of its code
    place_of_code: Annotated[np.ndarray, np.int64, "codes"]  # place on the line of each code
    stats: Annotated[np.ndarray, np.float64, "codes", "stats"]  # statistics of each place
    run_stats: Annotated[np.ndarray, np.float64, "codes", "stats"]  # statistics of each run, at its length minus 1
    run_score: Annotated[np.ndarray, np.float64, "codes"]  # score of each run, at its length minus 1
    # weights of the cuts of one run, from its first admissible cut on
    weight: Annotated[np.ndarray, np.float64, "codes"]


class Density(NamedTuple):
    """Terms of a cell and of its splits in the learned density (`terms`), and sampled splits (`systematic`)."""

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
    branch: Annotated[np.recarray, BRANCH, MAX_SAMPLED_SPLITS]  # sampled splits of cells, on a stack
    branch_terms: Annotated[np.ndarray, np.float64, MAX_SAMPLED_SPLITS, N_SPLIT_TERMS]  # terms of each sampled split
    # 1 if there was no room for a sampled split, or if a random subgraph became too costly, else 0
    is_exhausted: Annotated[np.ndarray, np.int64, 1]


class Subgraph(NamedTuple):
    """Random subgraph (`subgraph`)."""

    drawn_node: Annotated[np.recarray, BRANCH, MAX_DRAWN_NODES]  # trees drawn from the subgraph, in preorder
    n_cells: Annotated[np.ndarray, np.int64, 1]  # number of cells
    n_values: Annotated[np.ndarray, np.int64, 1]  # sum over the cells of the number of units times features


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
    restructure: Restructure
    reshape: Reshape
    line: LineWork
    density: Density
    subgraph: Subgraph
    informed: Informed
