"""The arrays the builder of the graph works on."""

from typing import NamedTuple

import numpy as np

PARENT, FEATURE, SPLIT, SIDE = range(4)
"""Rows of `Cells.origin`."""
LEFT, RIGHT = range(2)


class Points(NamedTuple):
    """Distinct rows of codes."""

    codes: np.ndarray
    """(p, P) int64."""
    stats: np.ndarray
    """(P, n_stats) float64."""
    rows: np.ndarray
    """(P,) int64 training rows."""
    key: np.ndarray
    """(2, P) uint64 random keys; the hash of a set is the exclusive or of its points' keys."""
    order: np.ndarray
    """(p, P) int64: the points sorted by each feature."""


class Cells(NamedTuple):
    """Cells in order of discovery, so by the smallest depth at which they occur."""

    hash: np.ndarray
    """(cap, 2) uint64."""
    origin: np.ndarray
    """(4, cap) int64: the cell, feature, split and side that first led here."""
    rows: np.ndarray
    """(cap,) int64 training rows."""
    size: np.ndarray
    """(cap,) int64: rows or codes spanned; falls along every edge but those from a cell to itself."""
    depth: np.ndarray
    """(cap,) int32: smallest depth."""
    first_edge: np.ndarray
    """(cap + 1,) int64."""
    stats: np.ndarray
    """(cap, n_stats) float64."""
    score: np.ndarray
    """(cap,) float64."""
    table: np.ndarray
    """(2^b,) int32: hash table of cells, -1 where free."""


class Edges(NamedTuple):
    """Splits of the cells, one cell's after another's."""

    left: np.ndarray
    """(cap,) int32."""
    right: np.ndarray
    """(cap,) int32."""
    feature: np.ndarray
    """(cap,) int32."""
    split: np.ndarray
    """(cap,) int64: cut and next code, as `boxes.pack_cut` packs them, or the bits of the categories going left."""
    log_rule: np.ndarray
    """(cap,) float64: log R(split | cell)."""


class Scratch(NamedTuple):
    """Working memory of the builder."""

    count: np.ndarray
    """(5,) int64: cells, edges, next cell to expand, what is added, wanted splits."""
    box: np.ndarray
    """(p, 2) int64: of the cell being expanded: low and high code, or categories and 0."""
    members: np.ndarray
    """(P,) int64: points of the cell being expanded."""
    codes: np.ndarray
    """(C,) int64: codes of one feature in the cell, ascending."""
    slot: np.ndarray
    """(C,) int64: place of a code in ``codes``, -1 elsewhere."""
    rows: np.ndarray
    """(C,) int64: rows of each code."""
    key: np.ndarray
    """(2, C) uint64: hash of the points of each code."""
    stats: np.ndarray
    """(C, n_stats) float64."""
    suffix: np.ndarray
    """(C + 1, n_stats) float64: sums from each code on."""
    side_stats: np.ndarray
    """(2, n_stats) float64: of the two children of a split."""
    side_rows: np.ndarray
    """(2,) int64."""
    side_key: np.ndarray
    """(2, 2) uint64: hash of the points of each child, (side, word)."""
    wanted: np.ndarray
    """(w, 4) int64: feature, split, the bits that tell, and edge, of the splits of a cell that are wanted."""


class Work(NamedTuple):
    """All the builder works on."""

    points: Points
    cells: Cells
    edges: Edges
    scratch: Scratch
