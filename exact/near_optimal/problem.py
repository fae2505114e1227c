"""A model in the form of the search for near-optimal trees: sets of points as bits, and factors of cells and splits.

A cell is a set of points, W words of bits. The number of its rows, the weights of its classes and the errors that no
tree can avoid are sums over points of whole numbers. Each binary digit of these numbers is a *plane*, the set of the
points whose number has this digit, so that a sum is a sum of counts of common bits, which processors count at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pactree_mcmc.model import DirichletMultinomial, PacBayesLoss, TreeModel
from pactree_mcmc.model.leaf.codes import LeafRule
from pactree_mcmc.model.leaf.compiled import leaf_score
from pactree_mcmc.model.split_prior.geometry import has_empty_sides, is_weighted, parts_rows, told

from ..graph.work import distinct_points

MOST_BYTES = 1 << 28
"""Largest memory of the sets of points by code, and of the splits of the cells on a path."""
MOST_CATEGORIES = 12
"""Categories of a feature from which on its partitions are too many to be listed in every cell."""
MOST_WEIGHT = 1 << 40
N_SUMS = 2
ROWS, SURE_ERRORS = range(N_SUMS)
"""Columns of the sums of a cell: rows, and errors that no tree avoids because points are equal."""


class Problem(NamedTuple):
    """A model, or the number of errors with a penalty per leaf, as compiled code takes it."""

    below: np.ndarray
    """(m, W) uint64: the points with codes up to each one of an ordered coordinate, with each one of a nominal one."""
    first_code: np.ndarray
    """(q + 1,) int64: place in ``below`` of the first code of each coordinate."""
    nominal: np.ndarray
    """(q,) bool."""
    log_weight: np.ndarray
    """(q,) float64: log of the weight of the coordinate, -inf if it is never split."""
    planes: np.ndarray
    """(n_planes, W) uint64: the digits of the statistics, then of the rows, then of the sure errors."""
    first_plane: np.ndarray
    """(n_stats + N_SUMS + 1,) int64."""
    log_stop: np.ndarray
    """(D + 1,) float64: prior factor of a leaf that could be split, by depth."""
    log_forced: np.ndarray
    """(D + 1,) float64: that of a leaf that could not be split."""
    log_split: np.ndarray
    """(D + 1,) float64: that of a split."""
    log_alone: np.ndarray
    """(K, n + 1) float64: score of a leaf with rows of one class only, by their number; (0, 0) for losses."""
    leaf: LeafRule
    error_loss: float
    """Loss of an error, for the bound; 0 unless the score of a leaf is minus a loss."""
    with_rule: bool
    """True if splits have the factor log R."""
    min_leaf: int
    most_splits: int
    """Largest number of splits of a cell."""


@dataclass
class Cell:
    """A cell at one depth, with the splits that trees near the best one have."""

    bits: np.ndarray
    """(W,) uint64."""
    stats: np.ndarray
    """(n_stats,) float64."""
    sums: np.ndarray
    """(N_SUMS,) int64."""
    need: float = -np.inf
    """Smallest value of a tree below the cell that is part of a tree near the best one."""
    depth: int = 0
    can_split: bool = False
    edges: tuple[np.ndarray, ...] = ()
    """Left and right child, coordinate, split and log R of each split."""


def has_bounds(model: TreeModel) -> bool:
    """Return True if the cells of a model are sets of rows, and its scores have a bound from counts of classes."""
    rule = model.lowered.split_prior
    is_listed = ~rule.feature.nominal | (rule.feature.n_codes <= MOST_CATEGORIES) | (rule.feature.weight <= 0.0)
    return bool(
        told(parts_rows, rule)
        and not told(has_empty_sides, rule)
        and not told(is_weighted, rule)
        and type(model.leaf) in (DirichletMultinomial, PacBayesLoss)
        and is_listed.all()
    )


def new_problem(model: TreeModel, penalty: float | None) -> tuple[Problem, Cell] | None:
    """Return a model in the form of the search and the cell of all rows, or None without bounds, or too much memory.

    With a ``penalty`` the objective is the number of errors plus the penalty per leaf, in place of the log posterior.
    """
    if not has_bounds(model):
        return None
    points, rule, limit = distinct_points(model), model.lowered.split_prior, int(model.prior_tables.depth_limit)
    counted = points.stats[:, -model.target.n_classes :]
    sure = counted.sum(axis=1) - counted.max(axis=1)
    columns = np.column_stack([points.stats, points.rows, sure])
    n_codes = np.where(rule.feature.weight > 0.0, rule.feature.n_codes, 0).astype(np.int64)
    n_ways = np.where(rule.feature.nominal, 1 << np.minimum(n_codes, MOST_CATEGORIES), n_codes)
    n_words, most_splits = -(-len(points.rows) // 64), int(n_ways.sum())
    n_bytes = 8 * max(n_words * int(n_codes.sum()), (limit + 2) * most_splits * (2 * columns.shape[1] + n_words + 6))
    if n_bytes > MOST_BYTES or np.any(columns != np.rint(columns)) or columns.sum() > MOST_WEIGHT:
        return None
    below = [
        points.codes[c] == code if rule.feature.nominal[c] else points.codes[c] <= code
        for c in range(len(n_codes))
        for code in range(n_codes[c])
    ]
    digits = [
        [(column >> b) & 1 == 1 for b in range(int(column.max()).bit_length())] for column in columns.T.astype(np.int64)
    ]
    table, alone = model.prior_tables.table, np.zeros((0, 0))
    if penalty is None and type(model.leaf) is DirichletMultinomial:
        alone = _scores_alone(model, counted.sum(axis=0))
    if penalty is None:
        factors = [
            np.array(table[name][: limit + 1], dtype=np.float64) for name in ("log_stop", "log_forced", "log_split")
        ]
        error_loss = float(model.leaf.lambda1) if isinstance(model.leaf, PacBayesLoss) else 0.0
        leaf = model.lowered.leaf
    else:
        stop = np.full(limit + 1, -penalty)
        factors, error_loss = [stop, stop, np.zeros(limit + 1)], 1.0
        leaf = PacBayesLoss(1.0).rule(model.target)
    with np.errstate(divide="ignore"):
        log_weight = np.log(rule.feature.weight)
    problem = Problem(
        below=_as_words(np.array(below).reshape(-1, len(points.rows)), n_words),
        first_code=np.concatenate([[0], np.cumsum(n_codes)]),
        nominal=np.array(rule.feature.nominal),
        log_weight=log_weight,
        planes=_as_words(np.array([plane for each in digits for plane in each]), n_words),
        first_plane=np.cumsum([0, *(len(each) for each in digits)]),
        log_stop=factors[0],
        log_forced=factors[1],
        log_split=factors[2],
        log_alone=alone,
        leaf=leaf,
        error_loss=error_loss,
        with_rule=penalty is None,
        min_leaf=int(rule.min_leaf),
        most_splits=max(most_splits, 1),
    )
    total = columns.sum(axis=0)
    everything = _as_words(np.ones((1, len(points.rows)), dtype=np.bool_), n_words)[0]
    return problem, Cell(everything, total[:-N_SUMS], total[-N_SUMS:].astype(np.int64))


def _scores_alone(model: TreeModel, counts: np.ndarray) -> np.ndarray:
    """Scores (K, n + 1) of leaves with 0, 1, ..., n rows, all of one class."""
    n, n_classes = int(counts.max()), len(counts)
    out = np.zeros((n_classes, n + 1))
    for c in range(n_classes):
        stats = np.zeros((n + 1, n_classes))
        stats[:, c] = np.arange(n + 1)
        for i in range(1, n + 1):
            out[c, i] = leaf_score(model.lowered.leaf, stats, i)
    return out


def _as_words(sets: np.ndarray, n_words: int) -> np.ndarray:
    """Return sets of points (m, P) bool as bits (m, n_words) uint64."""
    padded = np.zeros((len(sets), 64 * n_words), dtype=np.bool_)
    padded[:, : sets.shape[1]] = sets
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
