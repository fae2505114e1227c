"""Scratch arrays of a chain, in one group for each purpose.

A move names the groups that it needs, and a chain gets full arrays for the groups that some of its moves name. In other
groups each array has one entry, since compiled code takes states of one type. Each array is declared with its dtype
and its shape, in numbers and in names of `tree.sizes_of`.
"""

from typing import Annotated, NamedTuple

import numpy as np

from .records import BRANCH, CHOSEN, GAP, N_CELL_TERMS, N_WAY_TERMS, NOTE, OPEN

NAMES = ("scan", "replace", "restructure", "reshape", "line", "density", "subgraph")
"""Names of the groups that not every chain needs."""
FEW_CATEGORIES = 8
"""Largest number of categories of a cell of which a scan tries all partitions."""
MOST_PARTITIONS = 1 << (FEW_CATEGORIES - 1)
"""Bound on the number of partitions of that many categories into two sets."""
MOST_BLOCKS = 32
"""Largest number of leaves of a subtree that is restructured."""
MOST_PIECES = 24
"""Largest number of subtrees below a block that is reshaped."""
MOST_BRANCHES = 2048
"""Largest number of sampled splits that are stored at a time."""
MOST_CELLS = 8000
"""Largest number of cells of a random subgraph. The move stops at the first cell beyond."""
MOST_DRAWN = 2 * MOST_CELLS
"""Room for nodes of trees drawn from a random subgraph. Every cell adds at most one node. No code checks the number."""


class Codes(NamedTuple):
    """Codes of one feature in one cell (`codes`)."""

    distinct: Annotated[np.ndarray, np.int64, "codes"]
    """Codes in the cell, ascending."""
    of_unit: Annotated[np.ndarray, np.int32, "units"]
    """Code of each unit of the cell. If the cell has one split only, the side of the unit, 0 or 1."""
    is_present: Annotated[np.ndarray, np.uint8, "all_codes"]
    """1 for codes that were found already. All are 0 between uses."""
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
    """Gain in score of each split."""
    chosen: Annotated[np.recarray, CHOSEN, 1]
    """Split drawn from them."""


class Replace(NamedTuple):
    """Replacement of a subtree (`replace_subtree`)."""

    order: Annotated[np.ndarray, np.int32, "units"]
    """Units of the node whose subtree is replaced, in their order before the replacement."""


class Restructure(NamedTuple):
    """Leaves of a subtree that is restructured (`restructure`)."""

    codes: Annotated[np.ndarray, np.int64, MOST_BLOCKS, "features", 2]
    """Smallest and largest code of each leaf, or bits of its categories and 0."""


class Reshape(NamedTuple):
    """Block of nodes that split on one ordered feature, and the pieces below it (`reshape`)."""

    piece: Annotated[np.ndarray, np.int64, MOST_PIECES]
    """Top node of each piece, from left to right."""
    gap: Annotated[np.recarray, GAP, MOST_PIECES]
    """Split between each piece and the next."""
    open: Annotated[np.recarray, OPEN, MOST_PIECES]
    """Unions of pieces that are to be arranged, on a stack."""
    log_rule: Annotated[np.ndarray, np.float64, MOST_PIECES, MOST_PIECES, MOST_PIECES]
    """Log R, at [i, j, k], of the cut behind piece k in the union of pieces i to j. At [i, j, 0] if it is that of every
    cut.
    """
    log_prior: Annotated[np.ndarray, np.float64, MOST_PIECES, MOST_PIECES, MOST_PIECES]
    """Log sum, at [i, j, d], of the priors of all trees over pieces i to j with a top d levels below the block's."""
    term: Annotated[np.ndarray, np.float64, MOST_PIECES]
    """Log terms of one such sum."""


class LineWork(NamedTuple):
    """Units and codes of a line, and runs of codes that end with one of them (`interval_sums`)."""

    unit: Annotated[np.ndarray, np.int32, "units"]
    """Units of the cell, ascending."""
    place: Annotated[np.ndarray, np.int32, "units"]
    """Place on the line of each unit."""
    place_of_code: Annotated[np.ndarray, np.int64, "codes"]
    """Place on the line of each code."""
    stats: Annotated[np.ndarray, np.float64, "codes", "stats"]
    """Statistics of each place."""
    run_stats: Annotated[np.ndarray, np.float64, "codes", "stats"]
    """Statistics of each run, by length."""
    run_score: Annotated[np.ndarray, np.float64, "codes"]
    """Score of each run, by length."""
    weight: Annotated[np.ndarray, np.float64, "codes"]
    """Weights of the cuts of one run."""


class Density(NamedTuple):
    """Terms of a cell and of its splits in the learned density (`terms`), and sampled splits (`systematic`)."""

    log_sum: Annotated[np.ndarray, np.float64, 2, "features"]
    """Log sums over the splits of each feature, by GAIN and LEARNED."""
    exponent: Annotated[np.ndarray, np.float64, 2, "ways"]
    """Gain and logit of the splits of one feature. Those with an empty side are the first two, here and below."""
    n_alike: Annotated[np.ndarray, np.int64, "ways"]
    """Number of splits that separate the rows alike."""
    way_terms: Annotated[np.ndarray, np.float64, N_WAY_TERMS, "ways"]
    """Terms of each split. The last place is for a split that is evaluated by itself."""
    cell_terms: Annotated[np.ndarray, np.float64, N_CELL_TERMS]
    """Terms of the cell."""
    logs: Annotated[np.ndarray, np.float64, 2, "logs"]
    """Constants x log x and log(1 + x) for x = 0, 1, ..., of no use if weights are not whole numbers."""
    branch: Annotated[np.recarray, BRANCH, MOST_BRANCHES]
    """Sampled splits of cells, on a stack."""
    branch_terms: Annotated[np.ndarray, np.float64, MOST_BRANCHES, N_WAY_TERMS]
    """Terms of each sampled split."""
    is_exhausted: Annotated[np.ndarray, np.int64, 1]
    """1 if there was no room for a sampled split, or if a random subgraph has cost too much."""


class Subgraph(NamedTuple):
    """Random subgraph (`subgraph`)."""

    drawn: Annotated[np.recarray, BRANCH, MOST_DRAWN]
    """Trees drawn from the subgraph, in preorder."""
    n_cells: Annotated[np.ndarray, np.int64, 1]
    """Number of cells."""
    n_values: Annotated[np.ndarray, np.int64, 1]
    """Sum over the cells of units times features."""


class Scratch(NamedTuple):
    """Scratch arrays of a chain. Groups that `NAMES` does not contain are for every chain."""

    stopped: Annotated[np.ndarray, np.int64, 2]
    """Node whose score is not finite, and 1 if the score is that of one side of a possible split."""
    note: Annotated[np.recarray, NOTE, "nodes"]
    """Numbers that moves note of nodes."""
    to_right: Annotated[np.ndarray, np.int32, "units"]
    """Units that go right, while a node is split."""
    feature_weight: Annotated[np.ndarray, np.float64, "features"]
    """Weights of the features, from which one is drawn."""
    cut_weight: Annotated[np.ndarray, np.float64, "cuts"]
    """Weights of the splits of one feature, of no use if they are equal."""
    codes: Codes
    scan: Scan
    replace: Replace
    restructure: Restructure
    reshape: Reshape
    line: LineWork
    density: Density
    subgraph: Subgraph
