"""Values that a chain stores for cells that it may visit again, and the graph of visited cells."""

from typing import Annotated, NamedTuple

import numpy as np

from ...core.compile.jit import jit
from ...files.encoding import register_class
from ...model import Lowered
from ...model.split_prior.geometry import call_uncompiled, has_free_cuts, is_weighted
from .records import CELL, GRAPH_LINK, GRAPH_PIECE, GUIDE, LINE, NONE, allocate_group

MAX_STORED_BYTES = 1 << 24  # largest memory, in bytes, for the stored values of cells of one chain
MAX_GUIDES = 1 << 14  # largest number of cells whose probabilities by the learned density are stored
# bounds on the number of sums that a chain can store for a line, a cell with one admissible ordered feature
MIN_LINE_SUMS, MAX_LINE_SUMS = 1 << 15, 1 << 22
# bounds on the number of levels of a line. Deeper subtrees are left out. No sums are stored if fewer levels fit.
MIN_LINE_LEVELS, MAX_LINE_LEVELS = 8, 24


class Line(NamedTuple):
    """Sums over all subtrees on each interval of codes of one line (`interval_sums`)."""

    header: Annotated[np.recarray, LINE, 1]  # cell to which the sums belong, and the numbers of its codes and levels
    code: Annotated[np.ndarray, np.int64, "all_codes"]  # codes of the line, ascending
    # number of rows whose code is before code i of the line. The last entry is the number of all rows.
    rows_before: Annotated[np.ndarray, np.int64, "all_codes + 1"]
    # sums of all intervals by level, at the indices that `interval_sums.table_start` returns
    sums: Annotated[np.ndarray, np.float64, "sums"]


class Stored(NamedTuple):
    """Hash tables with values of cells, and the sums over a line; lengths are powers of two."""

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
    line: Line


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


def n_line_sums(model: Lowered) -> int:
    """Return the number of sums to be stored if the root is a line, or 0 if it is not or there is no room for them."""
    # the root is a line if trees split on one ordered feature only, with cuts that are equally likely
    rule = model.split_prior
    features = rule.feature[rule.feature.weight > 0.0]
    is_plain = call_uncompiled(has_free_cuts, rule) and not call_uncompiled(is_weighted, rule)
    if not is_plain or len(features) != 1 or features.nominal[0]:
        return 0
    n, limit = int(features.n_codes[0]), int(model.prior.depth_limit)
    levels = n_line_levels(n, limit, MAX_LINE_SUMS)
    return 2 * n * n * (levels + 1) if levels > 0 else 0


@jit
def n_line_levels(n: int, limit: int, max_sums: int) -> int:
    """Return the number of levels for which sums of a line of `n` codes are stored, 0 if `max_sums` are too few."""
    # `limit` is the largest depth of its subtrees
    levels = min(limit, n - 1, MAX_LINE_LEVELS - 1) + 1
    n_stored = min(levels, max_sums // (2 * n * n) - 1)
    return n_stored if n_stored >= min(levels, MIN_LINE_LEVELS) else 0
