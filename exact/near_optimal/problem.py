"""A model in the form of the search for near-optimal trees: sets of points as bits, and factors of cells and splits.

A cell is a set of points, W words of bits. The number of its rows, the weights of its classes and the errors that no
tree can avoid are sums over points of whole numbers. Each binary digit of these numbers is a *plane*, the set of the
points whose number has this digit, so that a sum is a sum of counts of common bits, which processors count at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.compile.pack import pack
from pactree_mcmc.model import DirichletMultinomial, PacBayesLoss, TreeModel
from pactree_mcmc.model.leaf.codes import LeafRule
from pactree_mcmc.model.split_prior.geometry import has_empty_sides, is_weighted, parts_rows, told

from ..graph.fixed import cell_scores
from ..graph.work import distinct_points

MOST_BYTES = 1 << 28
"""Largest memory of the sets of points by code, and of the splits of the cells on a path."""
MOST_CATEGORIES = 12
"""Categories of a feature from which on its partitions are too many to be listed in every cell."""
MOST_WEIGHT = 1 << 20
"""Largest sum of the weights, of which scores are tabulated."""
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
    columns = np.column_stack([points.stats, points.rows, counted.sum(axis=1) - counted.max(axis=1)])
    n_codes = np.where(rule.feature.weight > 0.0, rule.feature.n_codes, 0).astype(np.int64)
    n_splits = np.where(rule.feature.nominal, 1 << np.minimum(n_codes, MOST_CATEGORIES), n_codes)
    n_words, most_splits = -(-len(points.rows) // 64), max(int(n_splits.sum()), 1)
    n_bytes = 8 * max(n_words * int(n_codes.sum()), (limit + 2) * most_splits * (2 * columns.shape[1] + n_words + 6))
    if n_bytes > MOST_BYTES or np.any(columns != np.rint(columns)) or columns.sum() > MOST_WEIGHT:
        return None
    sets = [
        points.codes[c] == code if rule.feature.nominal[c] else points.codes[c] <= code
        for c in range(len(n_codes))
        for code in range(n_codes[c])
    ]
    whole = columns.astype(np.int64)
    digits = [[(column >> b) & 1 == 1 for b in range(int(column.max()).bit_length())] for column in whole.T]
    with np.errstate(divide="ignore"):
        log_weight = np.log(rule.feature.weight)
    problem = Problem(
        below=_as_words(sets, len(points.rows)),
        first_code=np.concatenate([[0], np.cumsum(n_codes)]),
        nominal=np.array(rule.feature.nominal),
        log_weight=log_weight,
        planes=_as_words([plane for each in digits for plane in each], len(points.rows)),
        first_plane=np.cumsum([0, *(len(each) for each in digits)]),
        min_leaf=int(rule.min_leaf),
        most_splits=most_splits,
        with_rule=penalty is None,
        **_scores(model, penalty, limit, int(counted.sum())),
    )
    total = columns.sum(axis=0)
    everything = _as_words([np.ones(len(points.rows), dtype=np.bool_)], len(points.rows))[0]
    return problem, Cell(everything, total[:-N_SUMS], total[-N_SUMS:].astype(np.int64))


def _scores(model: TreeModel, penalty: float | None, limit: int, n: int) -> dict[str, Any]:
    """Return the fields of a problem of ``n`` rows that hold prior factors, scores and bounds."""
    alone = np.zeros((0, 0))
    if penalty is not None:
        stop, split = np.full(limit + 1, -penalty), np.zeros(limit + 1)
        leaf = PacBayesLoss(1.0).rule(model.target)
        factors = {"log_stop": stop, "log_forced": stop, "log_split": split}
        return factors | {"log_alone": alone, "leaf": leaf, "error_loss": 1.0}
    names, error_loss = ("log_stop", "log_forced", "log_split"), 0.0
    factors = {name: np.array(model.prior_tables.table[name][: limit + 1], dtype=np.float64) for name in names}
    if isinstance(model.leaf, PacBayesLoss):
        error_loss = float(model.leaf.lambda1)
    else:
        alone = np.empty((model.target.n_classes, n + 1))
        for c in range(len(alone)):
            stats = np.zeros(alone.T.shape)
            stats[:, c] = np.arange(n + 1)
            alone[c] = cell_scores(pack(model.lowered), stats)
    return factors | {"log_alone": alone, "leaf": model.lowered.leaf, "error_loss": error_loss}


def _as_words(sets: list[np.ndarray], n: int) -> np.ndarray:
    """Return sets of ``n`` points, m times (n,) bool, as bits (m, W) uint64."""
    padded = np.zeros((len(sets), 64 * -(-n // 64)), dtype=np.bool_)
    if sets:
        padded[:, :n] = sets
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
