"""Scratch arrays of a chain, in one group for each purpose.

A move names the groups that it needs, and a chain gets full arrays for the groups that some of its moves name. In other
groups each array has one entry, since compiled code takes states of one type. Each array is declared with its dtype
and its shape, in numbers and in names of `tree.axis_sizes`.
"""

from typing import Annotated, NamedTuple

import numpy as np

from .records import BRANCH, DRAWN_SPLIT, GAP, N_CELL_TERMS, N_SPLIT_TERMS, NOTE, PENDING_UNION

SCRATCH_NAMES = ("scan", "replace", "restructure", "reshape", "line", "density", "subgraph", "informed")
"""Names of the groups of arrays that a chain has only if some of its moves need them."""
MAX_PARTITIONED_CATEGORIES = 8
"""Largest number of categories in a cell for which `split_sums` evaluates all partitions into two sets."""
MAX_PARTITIONS = 1 << (MAX_PARTITIONED_CATEGORIES - 1)
"""Bound on the number of partitions of `MAX_PARTITIONED_CATEGORIES` categories into two sets."""
MAX_RESTRUCTURED_LEAVES = 32
"""Largest number of leaves of a subtree that is restructured."""
MAX_INFORMED_LEAVES = 256
"""Largest number of leaves below each child of a node whose split an informed change draws."""
MAX_RESHAPED_PIECES = 24
"""Largest number of subtrees (pieces) below a block of nodes that is reshaped."""
MAX_SAMPLED_SPLITS = 2048
"""Largest number of sampled splits that are stored at a time."""
MAX_SUBGRAPH_CELLS = 8000
"""Largest number of cells of a random subgraph. The move stops at the first cell beyond."""
MAX_DRAWN_NODES = 2 * MAX_SUBGRAPH_CELLS
"""Largest number of nodes in trees drawn from a random subgraph. Each cell adds at most one. No code checks the number.
"""


class Codes(NamedTuple):
    """Codes of one feature in one cell (`codes`). Units are merged rows."""

    distinct: Annotated[np.ndarray, np.int64, "codes"]
    """Codes in the cell, ascending."""
    side: Annotated[np.ndarray, np.int32, "units"]
    """Side, 0 (left) or 1, of each unit of a cell that has only one split on the feature."""
    is_present: Annotated[np.ndarray, np.uint8, "all_codes"]
    """1 for each code that a search has found already. All are 0 between uses."""
    rows: Annotated[np.ndarray, np.int64, "codes"]
    """Number of rows by code. All are 0 between uses."""


class Scan(NamedTuple):
    """Splits of a cell on one feature (`split_sums`). A bin contains the rows with one code."""

    stats: Annotated[np.ndarray, np.float64, "codes", "stats"]
    """Statistics of each bin."""
    rows: Annotated[np.ndarray, np.int64, "codes"]
    """Number of rows of each bin."""
    by_code: Annotated[np.ndarray, np.float64, "codes", "stats"]
    """Statistics by code. All are 0 between uses."""
    left: Annotated[np.ndarray, np.float64, "codes", "stats"]
    """Statistics of the left side of each split."""
    right: Annotated[np.ndarray, np.float64, "codes", "stats"]
    """Statistics of the right side of each split."""
    rows_left: Annotated[np.ndarray, np.int64, "codes"]
    """Number of rows of the left side of each split."""
    gain: Annotated[np.ndarray, np.float64, "codes"]
    """Gain in log score of each split, not tempered."""
    drawn_split: Annotated[np.recarray, DRAWN_SPLIT, 1]
    """Split drawn in proportion to its term."""


class Replace(NamedTuple):
    """Replacement of a subtree (`replace_subtree`)."""

    order: Annotated[np.ndarray, np.int32, "units"]
    """Units of the node whose subtree is replaced, in their order before the replacement."""


class Restructure(NamedTuple):
    """Leaves of a subtree that is restructured (`restructure`)."""

    codes: Annotated[np.ndarray, np.int64, MAX_RESTRUCTURED_LEAVES, "features", 2]
    """Smallest and largest code of each leaf, or bits of its categories and 0."""


class Reshape(NamedTuple):
    """Block of nodes that split on one ordered feature, and the pieces below it (`reshape`)."""

    piece: Annotated[np.ndarray, np.int64, MAX_RESHAPED_PIECES]
    """Top node of each piece, from left to right."""
    gap: Annotated[np.recarray, GAP, MAX_RESHAPED_PIECES]
    """Split between each piece and the next."""
    pending: Annotated[np.recarray, PENDING_UNION, MAX_RESHAPED_PIECES]
    """Unions of pieces that are to be arranged, on a stack."""
    log_rule: Annotated[np.ndarray, np.float64, MAX_RESHAPED_PIECES, MAX_RESHAPED_PIECES, MAX_RESHAPED_PIECES]
    """Log R of the cut behind piece k in the union of pieces i to j, at [i, j, k]. If all cuts of a union have the same
    R, it is at [i, j, 0] alone.
    """
    log_prior: Annotated[np.ndarray, np.float64, MAX_RESHAPED_PIECES, MAX_RESHAPED_PIECES, MAX_RESHAPED_PIECES]
    """Log sum of the priors of the trees over pieces i to j with top d levels below the block's top, at [i, j, d]."""
    term: Annotated[np.ndarray, np.float64, MAX_RESHAPED_PIECES]
    """Log terms of one entry of ``log_prior``, by cut."""


class LineWork(NamedTuple):
    """Units and codes of a line, a cell with one admissible ordered feature, and the runs that end with a code."""

    unit: Annotated[np.ndarray, np.int32, "units"]
    """Units of the cell, ascending."""
    place: Annotated[np.ndarray, np.int32, "units"]
    """Place on the line of each unit, the index of its code."""
    place_of_code: Annotated[np.ndarray, np.int64, "codes"]
    """Place on the line of each code."""
    stats: Annotated[np.ndarray, np.float64, "codes", "stats"]
    """Statistics of each place."""
    run_stats: Annotated[np.ndarray, np.float64, "codes", "stats"]
    """Statistics of each run, at its length minus 1."""
    run_score: Annotated[np.ndarray, np.float64, "codes"]
    """Score of each run, at its length minus 1."""
    weight: Annotated[np.ndarray, np.float64, "codes"]
    """Weights of the cuts of one run, from its first admissible cut on."""


class Density(NamedTuple):
    """Terms of a cell and of its splits in the learned density (`terms`), and sampled splits (`systematic`)."""

    log_sum: Annotated[np.ndarray, np.float64, 2, "features"]
    """Log sums over the splits of each feature, of exp(gain) in row GAIN and of exp(logit) in row LEARNED."""
    exponent: Annotated[np.ndarray, np.float64, 2, "splits"]
    """Gain (row GAIN) and logit (row LEARNED) of the splits of one feature. In this and the next two arrays, the first
    two entries are for the splits with an empty side.
    """
    n_alike: Annotated[np.ndarray, np.int64, "splits"]
    """Number of splits that separate the rows as the split of the entry does."""
    split_terms: Annotated[np.ndarray, np.float64, N_SPLIT_TERMS, "splits"]
    """Terms of each split. The last place is for a split that is evaluated by itself."""
    cell_terms: Annotated[np.ndarray, np.float64, N_CELL_TERMS]
    """Terms of one cell."""
    logs: Annotated[np.ndarray, np.float64, 2, "logs"]
    """Constants x log x (row 0) and log(1 + x) (row 1) for x = 0, 1, ..., unused if weights are not whole numbers."""
    log_rows: Annotated[np.ndarray, np.float64, "rows + 2"]
    """Constants log(1 + n) for numbers n of rows."""
    branch: Annotated[np.recarray, BRANCH, MAX_SAMPLED_SPLITS]
    """Sampled splits of cells, on a stack."""
    branch_terms: Annotated[np.ndarray, np.float64, MAX_SAMPLED_SPLITS, N_SPLIT_TERMS]
    """Terms of each sampled split."""
    is_exhausted: Annotated[np.ndarray, np.int64, 1]
    """1 if there was no room for a sampled split, or if a random subgraph became too costly, else 0."""


class Subgraph(NamedTuple):
    """Random subgraph (`subgraph`)."""

    drawn_node: Annotated[np.recarray, BRANCH, MAX_DRAWN_NODES]
    """Trees drawn from the subgraph, in preorder."""
    n_cells: Annotated[np.ndarray, np.int64, 1]
    """Number of cells."""
    n_values: Annotated[np.ndarray, np.int64, 1]
    """Sum over the cells of the number of units times features."""


class Informed(NamedTuple):
    """Candidate splits of a node, and the rows that leaves below get (`informed_change`). Subtrees 0 and 1 are those
    of the two children, and side 1 is for candidates that exchange them.
    """

    n_leaves: Annotated[np.ndarray, np.int64, 2]
    """Number of leaves of each subtree."""
    unit: Annotated[np.ndarray, np.int32, 2, "units"]
    """Units of the node by the leaf that they reach in each subtree."""
    leaf_start: Annotated[np.ndarray, np.int64, 2, MAX_INFORMED_LEAVES + 2]
    """Place of the first unit of each leaf of each subtree, and the end."""
    place: Annotated[np.ndarray, np.int32, 2, "units"]
    """Bin of each of these units."""
    bin_of_code: Annotated[np.ndarray, np.int64, "all_codes"]
    """Bin of each code of one feature that the node has."""
    code_of_bin: Annotated[np.ndarray, np.int64, "codes"]
    """Code of each bin."""
    mean: Annotated[np.ndarray, np.float64, "codes"]
    """Mean of each category."""
    weight: Annotated[np.ndarray, np.float64, "codes"]
    """Weight of each category."""
    rows: Annotated[np.ndarray, np.int64, "codes"]
    """Number of rows of one leaf by bin. All are 0 between uses."""
    stats: Annotated[np.ndarray, np.float64, "codes", "stats"]
    """Statistics of one leaf by bin. All are 0 between uses."""
    fewest: Annotated[np.ndarray, np.int64, 2]
    """Smallest number of first bins with which each leaf of a subtree has enough rows."""
    most: Annotated[np.ndarray, np.int64, 2]
    """Largest number of first bins without which each leaf of a subtree has enough rows."""
    first: Annotated[np.ndarray, np.int64, 2]
    """First candidate of each side."""
    last: Annotated[np.ndarray, np.int64, 2]
    """Last candidate of each side."""
    since: Annotated[np.ndarray, np.int64, "splits"]
    """First candidate for which one leaf has the statistics ``sums``."""
    sums: Annotated[np.ndarray, np.float64, "splits", "stats"]
    """Statistics of one leaf under the candidates, without repetitions."""
    score: Annotated[np.ndarray, np.float64, "splits"]
    """Scores of ``sums``."""
    failed_rows: Annotated[np.ndarray, np.int64, 1]
    """Number of rows of a leaf whose score is not finite."""
    log_weight: Annotated[np.ndarray, np.float64, 2, "splits"]
    """Log weight of each candidate of each side on one feature."""
    log_part: Annotated[np.ndarray, np.float64, "2 * features"]
    """Log sum of the weights of the candidates on each feature, first those of side 0."""


class Scratch(NamedTuple):
    """Scratch arrays of a chain. Groups that `SCRATCH_NAMES` does not contain are for every chain."""

    failed_node: Annotated[np.ndarray, np.int64, 2]
    """Node whose score is not finite, and 1 if the score is that of one side of a possible split of the node, else 0.
    """
    note: Annotated[np.recarray, NOTE, "nodes"]
    """Temporary numbers of nodes."""
    to_right: Annotated[np.ndarray, np.int32, "units"]
    """Units that go right, while a node is split."""
    feature_weight: Annotated[np.ndarray, np.float64, "features"]
    """Weights of the features, from which one is drawn."""
    cut_weight: Annotated[np.ndarray, np.float64, "cuts"]
    """Weights of the splits of one feature, unused if splits have equal weights."""
    codes: Codes
    scan: Scan
    replace: Replace
    restructure: Restructure
    reshape: Reshape
    line: LineWork
    density: Density
    subgraph: Subgraph
    informed: Informed
