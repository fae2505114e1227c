"""Distances between trees: by their cells, by the partitions of their leaves, by their predictions.

The effective sample size of trees follows from them: after Magee, Karcher, Matsen, Minin, *How trustworthy is your
tree? Bayesian phylogenetic effective sample size through the lens of Monte Carlo error*, Bayesian Analysis 19 (2024);
several chains as in Vehtari et al. (2021).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.checks import check_choice, read_array, repr_of
from ...core.compile.jit import jit
from ...core.texts import with_short_repr
from ...model import TreeModel
from ...tree.coded import leaves_of_units
from ..distribution import HasDraws
from ..draws import Draws
from ..ess import MIN_DRAWS_PER_CHAIN, ess_from_autocovariances, rhat_and_ess_by_tree, split_chains
from .cells import MAX_ROWS, identifying_rows

DISTANCE_KINDS = ("cells", "partitions", "predictions")
DEFAULT_N_DRAWS = 400
"""Default number of draws between which distances are computed."""
MAX_FOCAL_TREES = 100
"""Largest number of focal trees, trees from which distances are measured for the pseudo effective sample size."""


@with_short_repr
class TreeDistances(NamedTuple):
    """Distances between the trees of some draws."""

    matrix: np.ndarray
    """(m, m) float64: distance between draws i and j; symmetric, zeros on the diagonal."""
    chain: np.ndarray
    """(m,) int64: the chain of each draw."""
    draw: np.ndarray
    """(m,) int64: the number of each draw in its chain."""
    tree: np.ndarray
    """(m,) int64: the distinct tree of each draw."""
    kind: str
    """Name of the distance: "cells", "partitions" or "predictions"."""


def tree_distances(post: HasDraws, draws: Any = None, *, kind: str = "cells") -> TreeDistances:
    """Return the distances between the trees of some draws.

    Parameters
    ----------
    draws : array-like of shape (m,), optional
        Numbers of draws, chain * n_draws + draw. Default: 400 draws, evenly spaced.
    kind : {"cells", "partitions", "predictions"}, default "cells"
        "cells": the number of cells that only one of the two trees has; its square root is a Euclidean distance.
        "partitions": variation of information of the partitions of the training rows into leaves, nats.
        "predictions": root mean square difference of the predictions over the training rows, for classification
        with the squares summed over the classes.

    Returns
    -------
    TreeDistances
        ``matrix`` (m, m) has the distances; ``chain``, ``draw`` and ``tree`` (m,) say where each tree comes from.

    Raises
    ------
    ValueError
        If an argument is not one of these, or the leaf predicts nothing and ``kind`` is
        "predictions".

    Notes
    -----
    O(m²) times the leaves of a tree for cells, times the rows for partitions and predictions. If there are more
    than 2,000 distinct rows, 2,000 of them are used, evenly spaced. Rows count with their weights.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
    >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
    >>> post = pt.posterior_from_trees(model, stumps)
    >>> [float(post.tree_distances(kind=kind).matrix[0, 1].round(3)) for kind in ("cells", "partitions")]
    [4.0, 0.521]
    """
    sampled = post.draws
    kind = check_choice("kind", kind, DISTANCE_KINDS)
    total = sampled.tree_of_draw.size
    if draws is None:
        numbers = evenly_spaced_integers(total, DEFAULT_N_DRAWS)
    else:
        numbers = read_array("draws", draws)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(numbers) == 0:
            raise ValueError(f"draws is {repr_of(draws)}; give numbers of draws, chain after chain, shape (m,).")
        if numbers.min() < 0 or numbers.max() >= total:
            invalid = int(numbers[(numbers < 0) | (numbers >= total)][0])
            raise ValueError(f"draws has {invalid}, but the posterior has {total} draws; give 0 to {total - 1}.")
        numbers = numbers.astype(np.int64)
    tree = sampled.tree_of_draw.ravel()[numbers]
    distinct, position = np.unique(tree, return_inverse=True)
    matrix = distance_matrix(sampled, distinct, distinct, kind)[position[:, None], position]
    return TreeDistances(matrix, numbers // sampled.n_draws, numbers % sampled.n_draws, tree, kind)


def evenly_spaced_integers(n: int, max_numbers: int) -> np.ndarray:
    """Return at most ``max_numbers`` of the integers 0, ..., n - 1, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, max_numbers)).astype(np.int64))


def distance_matrix(draws: Draws, first_trees: np.ndarray, second_trees: np.ndarray, kind: str) -> np.ndarray:
    """Return the distances (a, b) between distinct trees with the numbers ``first_trees`` and ``second_trees``."""
    if kind == "cells":
        out = np.empty((len(first_trees), len(second_trees)))
        cell_distances_into(out, draws.cells.offset, draws.cells.member, first_trees, second_trees)
        return out
    if kind == "partitions":
        return _partition_distances(draws, first_trees, second_trees)
    return _prediction_distances(draws, first_trees, second_trees)


@jit
def cell_distances_into(
    out: np.ndarray, offset: np.ndarray, member: np.ndarray, first_trees: np.ndarray, second_trees: np.ndarray
) -> None:
    """Write to ``out`` (a, b) the number of cells, sets of training rows of a node, that only one of two trees has."""
    for i, s in enumerate(first_trees):
        for j, t in enumerate(second_trees):
            n_cells = offset[s + 1] - offset[s] + offset[t + 1] - offset[t]
            out[i, j] = n_cells - 2 * n_common_cells(offset, member, s, t)


@jit
def n_common_cells(offset: np.ndarray, member: np.ndarray, s: int, t: int) -> int:
    """Return the number of cells, sets of training rows of a node, that trees ``s`` and ``t`` have in common."""
    i, j, n = offset[s], offset[t], 0
    while i < offset[s + 1] and j < offset[t + 1]:
        a, b = member[i], member[j]
        n += 1 if a == b else 0
        i += 1 if a <= b else 0
        j += 1 if b <= a else 0
    return n


def _partition_distances(draws: Draws, first_trees: np.ndarray, second_trees: np.ndarray) -> np.ndarray:
    """Return the variation of information (a, b), nats, between the partitions of the training rows by leaves."""
    merged_rows = identifying_rows(draws.model, MAX_ROWS)[0]
    codes, rows = draws.model.units.codes, weights_of_rows(draws.model.weight_of_unit[merged_rows])
    leaves = []
    for trees in (first_trees, second_trees):
        # the leaves of each tree are numbered from 0
        reached = leaves_of_units(draws.coded_trees.take(trees), codes, merged_rows)
        numbers = [np.unique(column, return_inverse=True)[1] for column in reached.T]
        leaves.append(np.ascontiguousarray(numbers, dtype=np.int64))
    return information_distances(leaves[0], leaves[1], rows / rows.sum())


@jit
def information_distances(first: np.ndarray, second: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the variation of information (a, b), nats, between a partitions and b partitions of m rows."""
    # VI(A, B) = H(A | B) + H(B | A). ``first`` (a, m) and ``second`` (b, m) number the part of each row from 0, and
    # ``weight`` (m,) of the rows sums to 1.
    max_parts = 1
    for leaves in (first, second):
        for t in range(len(leaves)):
            for i in range(len(weight)):
                max_parts = max(max_parts, leaves[t, i] + 1)
    joint_weight, part_weight = np.zeros((max_parts, max_parts)), np.zeros((2, max_parts))
    out = np.empty((len(first), len(second)))
    for s in range(len(first)):
        for t in range(len(second)):
            for i in range(len(weight)):
                a, b = first[s, i], second[t, i]
                joint_weight[a, b] += weight[i]
                part_weight[0, a] += weight[i]
                part_weight[1, b] += weight[i]
            total = 0.0
            for i in range(len(weight)):
                a, b = first[s, i], second[t, i]
                # each fraction of rows is added once, at its first row
                p = joint_weight[a, b]
                if p > 0.0:
                    total += p * np.log(part_weight[0, a] / p) + p * np.log(part_weight[1, b] / p)
                    joint_weight[a, b] = 0.0
            for a in range(max_parts):
                part_weight[0, a] = part_weight[1, a] = 0.0
            out[s, t] = max(total, 0.0)
    return out


def _prediction_distances(draws: Draws, first_trees: np.ndarray, second_trees: np.ndarray) -> np.ndarray:
    """Return the root mean squared difference (a, b) over training rows of the predictions of two trees."""
    model = draws.model
    if model.target.regressors is None:
        merged_rows = identifying_rows(model, MAX_ROWS)[0]
        rows, weight = model.first_row_of_unit[merged_rows], model.weight_of_unit[merged_rows]
    else:
        rows = evenly_spaced_integers(model.n_rows, MAX_ROWS)
        weight = model.target.weights[rows]
    weight = weights_of_rows(weight)
    scale = np.sqrt(weight / weight.sum())[:, None]
    first, second = (predictions_at(draws, trees, rows) * scale for trees in (first_trees, second_trees))
    first, second = first.reshape(len(first), -1), second.reshape(len(second), -1)
    first, second = first - first.mean(axis=0), second - first.mean(axis=0)
    square = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1) - 2.0 * first @ second.T
    # differences that are rounding error of a distance 0
    square[square < 1e-14 * (first**2).sum(axis=1).max(initial=0.0)] = 0.0
    return np.sqrt(np.maximum(square, 0.0))


def predictions_at(draws: Draws, trees: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the predictions (n_trees, m, d) of the distinct trees numbered ``trees`` at these training rows (m,)."""
    model = draws.model
    if not model.leaf.predicts:
        raise ValueError(f"{type(model.leaf).__name__} predicts nothing; take the distance of cells or partitions.")
    merged_rows = rows if model.unit_of_row is None else model.unit_of_row[rows]
    reached = leaves_of_units(draws.coded_trees.take(trees), model.units.codes, merged_rows).T
    stats = draws.place_stats[draws.coded_trees.nodes_of(trees)]
    regressors = model.target.regressors
    if regressors is None:
        return np.ascontiguousarray(model.leaf.value(stats, model.target))[reached]
    return np.array([model.leaf.value(stats[nodes], model.target, regressors[rows]) for nodes in reached])


def weights_of_rows(weight: np.ndarray) -> np.ndarray:
    """Return the weights (m,) of some rows, or ones if all of them are 0."""
    return weight if weight.any() else np.ones(len(weight))


def weighted_quantile(values: np.ndarray, weight: np.ndarray, q: float | np.ndarray) -> np.ndarray:
    """Return the smallest of ``values`` (m,) at or below which a fraction ``q`` of the total ``weight`` (m,) is."""
    order = np.argsort(values)
    below = np.cumsum(weight[order])
    return values[order[np.minimum(np.searchsorted(below, below[-1] * q), len(values) - 1)]]


def typical_values(model: TreeModel, max_rows: int) -> np.ndarray:
    """Return the median training value of each feature, or the most frequent category, (p,); NaN if there is none."""
    # Rows count with their weights. Up to ``max_rows`` rows are used, evenly spaced.
    rows = evenly_spaced_integers(model.n_rows, max_rows)
    numbers, weight, out = model.row_numbers(rows), model.target.weights[rows], np.full(model.n_features, np.nan)
    for k, column in enumerate(numbers.T):
        # the number of a category that the model does not know is -1
        is_present = ~np.isnan(column) & (~model.columns.is_nominal[k] | (column >= 0.0))
        if not is_present.any():
            continue
        column, weight_of_value = column[is_present], weights_of_rows(weight[is_present])
        if model.columns.is_nominal[k]:
            out[k] = np.argmax(np.bincount(column.astype(np.int64), weight_of_value))
        else:
            out[k] = weighted_quantile(column, weight_of_value, 0.5)
    return out


class TreeEss(NamedTuple):
    """Effective sample sizes of the trees, for all chains together; they are small if chains disagree."""

    pseudo_min: float
    """The smallest, over focal trees, of the effective sample size of the distance from the focal tree."""
    pseudo_median: float
    """The median, over focal trees, of the effective sample size of the distance from the focal tree."""
    frechet: float
    """Effective sample size by autocorrelations of trees, with squared distances in place of squared differences."""
    rhat: float
    """The largest R-hat of the distances from the focal trees."""
    mean_distance: float
    """Mean number of cells that only one of two draws has."""
    sd_distance: float
    """Standard deviation of the distance from a focal tree, over draws and focal trees; NaN for one draw."""
    n_draws: int
    """Total number of draws."""


def tree_ess(post: HasDraws) -> TreeEss:
    """Return the effective sample size of the draws as trees, from the distances between them.

    Returns
    -------
    TreeEss
        ``pseudo_min`` and ``pseudo_median``, the smallest and the median effective sample size of the distances
        from 100 focal trees, draws evenly spaced; ``frechet``, from the autocorrelation of the trees in the space
        of cells; ``rhat``, the largest R-hat of those distances; ``mean_distance``. NaN with fewer than 4 draws a
        chain.

    Notes
    -----
    Magee, Karcher, Matsen, Minin (2024), where the squared distance of two trees is the number of cells that only
    one of them has. Both estimates use the split chains and the variance between them (Vehtari et al. 2021), so
    that chains in different modes have few effective draws even if their log posteriors agree. For independent
    draws the effective sample size is about their number; the smallest of 100 is a little below it. O(draws *
    leaves) for each lag, for as many lags as trees remain correlated.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x % 7 > 2 for x in range(30)]))
    >>> bool(900 < truth.sample(1000, rng=1).tree_ess().frechet < 1100)
    True
    """
    draws = post.draws
    total, cells = draws.tree_of_draw.size, draws.cells
    # mean over pairs of draws: a cell of frequency p is in one of the two with probability 2 p (1 - p)
    p = cells.frequencies(draws.weight_of_tree)
    mean_distance = float(2.0 * (p * (1.0 - p)).sum())
    by_tree = distances_from(draws, draws.tree_of_draw.ravel()[focal_draws(draws, MAX_FOCAL_TREES)])
    weight = draws.weight_of_tree
    deviation = float(np.sqrt(((by_tree - (by_tree @ weight).mean()) ** 2 @ weight).mean())) if total > 1 else math.nan
    if draws.n_draws < MIN_DRAWS_PER_CHAIN:
        return TreeEss(math.nan, math.nan, math.nan, math.nan, mean_distance, deviation, total)
    rhat, ess = rhat_and_ess_by_tree(by_tree, draws.tree_of_draw)
    figures = float(ess.min()), float(np.median(ess)), frechet_ess(draws), float(rhat.max())
    return TreeEss(*figures, mean_distance, deviation, total)


def focal_draws(sampled: Draws, max_trees: int) -> np.ndarray:
    """Choose at most ``max_trees`` evenly spaced draws, and return the numbers of the first ones with each tree."""
    # draws are numbered chain after chain. Distances from these trees, the focal trees, are diagnosed
    draws = evenly_spaced_integers(sampled.tree_of_draw.size, max_trees)
    return draws[np.sort(np.unique(sampled.tree_of_draw.ravel()[draws], return_index=True)[1])]


def draw_label(draws: Draws, draw: int) -> str:
    """Return the name of draw number ``draw``, counted chain after chain, such as "draw 3 of chain 1", both from 0."""
    return f"draw {draw % draws.n_draws} of chain {draw // draws.n_draws}"


def distances_from(draws: Draws, trees: np.ndarray) -> np.ndarray:
    """Return the cell distance (m, n_distinct_trees) of each distinct tree from the trees numbered ``trees`` (m,)."""
    return distance_matrix(draws, trees, np.arange(draws.n_distinct_trees), "cells")


def frechet_ess(draws: Draws) -> float:
    """Return the effective sample size of the drawn trees by the Fréchet correlation, over the halves of all chains."""
    # it is the number of draws if all have the same cells, sets of training rows of a node. The root of the number
    # of cells that only one tree has is the Euclidean distance of the vectors that say which cells a tree has. So
    # the Fréchet variance and covariances are traces of the covariance matrices of these vectors, and sums over the
    # products of centred vectors.
    halves = np.ascontiguousarray(split_chains(draws.tree_of_draw[None])[0])
    chains, n = halves.shape
    cells = draws.cells
    counts = np.array([np.bincount(half, minlength=draws.n_distinct_trees) for half in halves], dtype=np.float64)
    mean = cells.frequencies(counts) / n
    between = float(mean.var(axis=0, ddof=1).sum())
    autocovariance = vector_autocovariances(cells.offset, cells.member, halves, mean, between)
    if autocovariance[0] <= 1e-12 and between <= 1e-12:
        return float(draws.tree_of_draw.size)
    return float(ess_from_autocovariances(autocovariance[None], np.array([between]), chains)[0])


@jit
def vector_autocovariances(
    offset: np.ndarray, member: np.ndarray, halves: np.ndarray, mean: np.ndarray, between: float
) -> np.ndarray:
    """Return autocovariances (draws,) by lag of the 0/1 vectors of cells of the draws, summed over cells."""
    # means over chains. ``offset`` and ``member`` are fields of `Cells`, ``halves`` (chains, draws) numbers of
    # trees, ``mean`` (chains, n_cells) the frequencies of the cells, and ``between`` the variance between chains
    # summed over cells. Zeros behind the lag at which Geyer's sum of a pair of autocorrelations is not positive.
    chains, n = halves.shape
    out = np.zeros(n)
    # product of each tree's vector with the mean of its chain, summed from the first draw on
    product_sum, square = np.zeros((chains, n + 1)), np.zeros(chains)
    for c in range(chains):
        for k in range(mean.shape[1]):
            square[c] += mean[c, k] ** 2
        for s in range(n):
            product, t = 0.0, halves[c, s]
            for i in range(offset[t], offset[t + 1]):
                product += mean[c, member[i]]
            product_sum[c, s + 1] = product_sum[c, s] + product
    within, total, previous_rho = 0.0, 0.0, 0.0
    for lag in range(n):
        covariance_sum = 0.0
        for c in range(chains):
            n_common = 0.0
            for s in range(n - lag):
                n_common += n_common_cells(offset, member, halves[c, s], halves[c, s + lag])
            # sum over s of (v_s - m)(v_(s + lag) - m), for the vector v_s of a draw and their mean m, term by term
            covariance_sum += (
                n_common - product_sum[c, n - lag] - (product_sum[c, n] - product_sum[c, lag]) + (n - lag) * square[c]
            )
        out[lag] = covariance_sum / n / chains
        if lag == 0:
            within, total = out[0] * n / (n - 1.0), out[0] + between
            if total <= 0.0:
                break
            previous_rho = 1.0
        else:
            rho = 1.0 - (within - out[lag]) / total
            if lag % 2 == 1 and previous_rho + rho <= 0.0:
                break
            previous_rho = rho
    return out
