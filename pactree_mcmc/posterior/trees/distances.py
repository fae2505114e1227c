"""Distances between trees: by their cells, by the partitions of their leaves, by their predictions.

The effective sample size of trees follows from them: after Magee, Karcher, Matsen, Minin, *How trustworthy is your
tree? Bayesian phylogenetic effective sample size through the lens of Monte Carlo error*, Bayesian Analysis 19 (2024);
several chains as in Vehtari et al. (2021).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.checks import check_choice, read_array, repr_of
from ...core.compile.jit import jit
from ...core.names import with_short_repr
from ...tree.coded import leaves_of_units
from ..ess import FEWEST_PER_CHAIN, ess_from, rhat_and_ess_by_tree, split_chains
from .cells import MAX_ROWS, rows_looked_at
from .support import check_drawn

if TYPE_CHECKING:
    from ...model import TreeModel
    from ..draws import DrawnTrees

KINDS = ("cells", "partitions", "predictions")
MOST_DRAWS = 400
"""Default number of draws between which distances are computed."""
N_FOCAL = 100
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


def distances_between(post: DrawnTrees, draws: object, kind: str) -> TreeDistances:
    """Return the distances of ``kind`` between the trees of some draws; see `SampledPosterior.tree_distances`.

    ``draws`` (m,) are numbers of draws, chain after chain; None for 400, evenly spaced.
    """
    kind = check_choice("kind", kind, KINDS)
    check_drawn(post)
    total = post.tree_of_draw.size
    if draws is None:
        chosen = spaced(total, MOST_DRAWS)
    else:
        chosen = read_array("draws", draws)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or len(chosen) == 0:
            raise ValueError(f"draws is {repr_of(draws)}; give numbers of draws, chain after chain, shape (m,).")
        if chosen.min() < 0 or chosen.max() >= total:
            raise ValueError(f"draws names draw {int(chosen.max())} of {total}; give numbers from 0 to {total - 1}.")
        chosen = chosen.astype(np.int64)
    tree = post.tree_of_draw.ravel()[chosen]
    distinct, which = np.unique(tree, return_inverse=True)
    matrix = between_trees(post, distinct, distinct, kind)
    return TreeDistances(matrix[which[:, None], which], chosen // post.n_draws, chosen % post.n_draws, tree, kind)


def spaced(n: int, most: int) -> np.ndarray:
    """Return at most ``most`` of the integers 0, ..., n - 1, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def between_trees(post: DrawnTrees, one: np.ndarray, other: np.ndarray, kind: str) -> np.ndarray:
    """Return the distances (a, b) between the distinct trees numbered ``one`` (a,) and those numbered ``other`` (b,).

    ``kind`` is "cells", "partitions" or "predictions".
    """
    if kind == "cells":
        return cell_distances(post.cells.offset, post.cells.member, one, other)
    if kind == "partitions":
        return _partition_distances(post, one, other)
    return _prediction_distances(post, one, other)


@jit
def cell_distances(offset: np.ndarray, member: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the size (a, b) of the symmetric difference of the sets of cells of trees ``one`` (a,) and ``other`` (b,).

    Tree t has the cells member[offset[t]:offset[t + 1]].
    """
    out = np.empty((len(one), len(other)))
    for i in range(len(one)):
        for j in range(len(other)):
            sizes = offset[one[i] + 1] - offset[one[i]] + offset[other[j] + 1] - offset[other[j]]
            out[i, j] = sizes - 2 * in_common(offset, member, one[i], other[j])
    return out


@jit
def in_common(offset: np.ndarray, member: np.ndarray, s: int, t: int) -> int:
    """Return the number of cells that trees ``s`` and ``t`` have in common.

    Tree t has the cells member[offset[t]:offset[t + 1]], in ascending order.
    """
    i, j, n = offset[s], offset[t], 0
    while i < offset[s + 1] and j < offset[t + 1]:
        a, b = member[i], member[j]
        n += 1 if a == b else 0
        i += 1 if a <= b else 0
        j += 1 if b <= a else 0
    return n


def _partition_distances(post: DrawnTrees, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the variation of information (a, b), nats, between the partitions of the training rows by leaves.

    ``one`` (a,) and ``other`` (b,) are numbers of distinct trees.
    """
    units = rows_looked_at(post.model, MAX_ROWS)[0]
    codes, rows = post.model.units.codes, row_counts(post.model, units)
    leaves = [_leaf_numbers(leaves_of_units(post.coded_trees.take(trees), codes, units)) for trees in (one, other)]
    return information_distances(leaves[0], leaves[1], rows / rows.sum())


def _leaf_numbers(leaf: np.ndarray) -> np.ndarray:
    """Number the leaves of each tree from 0, and return the leaf number of each row (n_trees, m).

    ``leaf`` (m, n_trees) is the node that each row reaches in each tree.
    """
    return np.ascontiguousarray([np.unique(column, return_inverse=True)[1] for column in leaf.T], dtype=np.int64)


@jit
def information_distances(one: np.ndarray, other: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the variation of information (a, b), nats, between a partitions and b partitions of m rows.

    VI(A, B) = H(A | B) + H(B | A). ``one`` (a, m) and ``other`` (b, m) number the part of each row from 0, and
    ``weight`` (m,) of the rows sums to 1.
    """
    most = 1
    for leaves in (one, other):
        for t in range(len(leaves)):
            for i in range(len(weight)):
                most = max(most, leaves[t, i] + 1)
    both, alone = np.zeros((most, most)), np.zeros((2, most))
    out = np.empty((len(one), len(other)))
    for s in range(len(one)):
        for t in range(len(other)):
            for i in range(len(weight)):
                a, b = one[s, i], other[t, i]
                both[a, b] += weight[i]
                alone[0, a] += weight[i]
                alone[1, b] += weight[i]
            total = 0.0
            for i in range(len(weight)):
                a, b = one[s, i], other[t, i]
                # each fraction of rows is added once, at its first row
                p = both[a, b]
                if p > 0.0:
                    total += p * np.log(alone[0, a] / p) + p * np.log(alone[1, b] / p)
                    both[a, b] = 0.0
            for a in range(most):
                alone[0, a] = alone[1, a] = 0.0
            out[s, t] = max(total, 0.0)
    return out


def _prediction_distances(post: DrawnTrees, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the root mean squared difference (a, b) over training rows of the predictions of two trees.

    The square is summed over outputs. ``one`` (a,) and ``other`` (b,) are numbers of distinct trees.
    """
    units = rows_looked_at(post.model, MAX_ROWS)[0]
    rows = row_counts(post.model, units)
    scale = np.sqrt(rows / rows.sum())[:, None]
    values = [(values_at(post, trees, units) * scale).reshape(len(trees), -1) for trees in (one, other)]
    centre = values[0].mean(axis=0)
    first, second = (value - centre for value in values)
    square = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1) - 2.0 * first @ second.T
    # differences that are rounding error of a distance 0
    square[square < 1e-14 * (first**2).sum(axis=1).max(initial=0.0)] = 0.0
    return np.sqrt(np.maximum(square, 0.0))


def values_at(post: DrawnTrees, trees: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the predictions (n_trees, m, d) of the distinct trees numbered ``trees`` at distinct training rows.

    ``units`` (m,) are the numbers of these rows.
    """
    model = post.model
    if not model.leaf.predicts:
        raise ValueError(f"{type(model.leaf).__name__} predicts nothing; take the distance of cells or partitions.")
    reached = leaves_of_units(post.coded_trees.take(trees), model.units.codes, units).T
    stats = post.node_stats[post.coded_trees.nodes_of(trees)]
    regressors = model.target.regressors
    if regressors is None:
        return np.ascontiguousarray(model.leaf.value(stats, model.target))[reached]
    # the first training row of each unit, a group of merged equal rows
    row = units if model.unit_of_row is None else np.unique(model.unit_of_row, return_index=True)[1][units]
    return np.array([model.leaf.value(stats[nodes], model.target, regressors[row]) for nodes in reached])


def row_counts(model: TreeModel, units: np.ndarray) -> np.ndarray:
    """Return the number (m,) of training rows that were merged into each of the distinct rows ``units`` (m,)."""
    return model.units.rows[units & model.units.rows_all].astype(np.float64)


def classical_scaling(square: np.ndarray, k: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return points (m, k) whose squared distances approximate ``square`` (m, m), and the fraction (k,) each axis
    explains.

    Torgerson (1952): the leading eigenvectors of the doubly centred matrix -½ J D² J, times the roots of their
    eigenvalues. The fraction is that of the sum of the positive eigenvalues, 0 if all points are equal. The sign of an
    axis is such that its coordinate of largest absolute value is positive. O(m³).
    """
    m = len(square)
    inner = -0.5 * (square - square.mean(axis=0) - square.mean(axis=1)[:, None] + square.mean())
    value, vector = np.linalg.eigh(inner)
    value, vector = value[::-1], vector[:, ::-1]
    size = np.where(value > 1e-12 * max(value[0], np.abs(square).max(initial=0.0)), value, 0.0)
    place, part = np.zeros((m, k)), np.zeros(k)
    n = min(k, m)
    place[:, :n] = vector[:, :n] * np.sqrt(size[:n])
    largest = place[np.argmax(np.abs(place), axis=0), np.arange(k)]
    part[:n] = size[:n] / max(size.sum(), np.finfo(np.float64).tiny)
    return place * np.where(largest < 0.0, -1.0, 1.0), part


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


def tree_ess_of(post: DrawnTrees) -> TreeEss:
    """Return the effective sample size of the trees; see `SampledPosterior.tree_ess`."""
    check_drawn(post)
    total, cells = post.tree_of_draw.size, post.cells
    # mean over pairs of draws: a cell of frequency p is in one of the two with probability 2 p (1 - p)
    p = cells.frequencies(post.weight_of_tree)
    mean_distance = float(2.0 * (p * (1.0 - p)).sum())
    by_tree = distances_from(post, post.tree_of_draw.ravel()[focal_draws(post, N_FOCAL)])
    weight = post.weight_of_tree
    deviation = float(np.sqrt(((by_tree - (by_tree @ weight).mean()) ** 2 @ weight).mean())) if total > 1 else math.nan
    if post.n_draws < FEWEST_PER_CHAIN:
        return TreeEss(math.nan, math.nan, math.nan, math.nan, mean_distance, deviation, total)
    rhat, ess = rhat_and_ess_by_tree(by_tree, post.tree_of_draw)
    figures = float(ess.min()), float(np.median(ess)), frechet_ess(post), float(rhat.max())
    return TreeEss(*figures, mean_distance, deviation, total)


def focal_draws(post: DrawnTrees, most: int) -> np.ndarray:
    """Choose at most ``most`` draws, evenly spaced over all chains; return the numbers of those with different trees.

    Draws are numbered chain after chain.
    """
    draws = spaced(post.tree_of_draw.size, most)
    return draws[np.sort(np.unique(post.tree_of_draw.ravel()[draws], return_index=True)[1])]


def draw_words(post: DrawnTrees, draw: int) -> str:
    """Return the name of a draw, such as "draw 3 of chain 1", given its number, counted chain after chain."""
    return f"draw {draw % post.n_draws} of chain {draw // post.n_draws}"


def distances_from(post: DrawnTrees, trees: np.ndarray) -> np.ndarray:
    """Return the cell distance (m, n_distinct_trees) of each distinct tree from the trees numbered ``trees`` (m,).

    The distance is the number of cells that only one of two trees has.
    """
    return between_trees(post, trees, np.arange(post.n_distinct_trees), "cells")


def frechet_ess(post: DrawnTrees) -> float:
    """Return the effective sample size by the Fréchet correlation, over the halves of all chains.

    The root of the number of cells that only one tree has is the Euclidean distance of the vectors that say which cells
    a tree has. So the Fréchet variance and covariances are traces of the covariance matrices of these vectors, and sums
    over the products of centred vectors.
    """
    halves = np.ascontiguousarray(split_chains(post.tree_of_draw[None])[0])
    chains, n = halves.shape
    cells = post.cells
    counts = np.array([np.bincount(half, minlength=post.n_distinct_trees) for half in halves], dtype=np.float64)
    mean = cells.frequencies(counts) / n
    between = float(mean.var(axis=0, ddof=1).sum())
    autocovariance = vector_autocovariances(cells.offset, cells.member, halves, mean, between)
    if autocovariance[0] <= 1e-12 and between <= 1e-12:
        return float(post.tree_of_draw.size)
    return float(ess_from(autocovariance[None], np.array([between]), chains)[0])


@jit
def vector_autocovariances(
    offset: np.ndarray, member: np.ndarray, halves: np.ndarray, mean: np.ndarray, between: float
) -> np.ndarray:
    """Return autocovariances (draws,) by lag of the 0/1 vectors of cells of the draws, summed over cells.

    Means over chains. ``halves`` (chains, draws) are numbers of trees, ``mean`` (chains, n_cells) the frequencies of
    the cells, and ``between`` the variance between chains summed over cells. Zeros behind the lag at which Geyer's sum
    of a pair of autocorrelations is not positive.
    """
    chains, n = halves.shape
    out = np.zeros(n)
    # product of each tree's vector with the mean of its chain, summed from the first draw on
    upto, square = np.zeros((chains, n + 1)), np.zeros(chains)
    for c in range(chains):
        for k in range(mean.shape[1]):
            square[c] += mean[c, k] ** 2
        for s in range(n):
            product, t = 0.0, halves[c, s]
            for i in range(offset[t], offset[t + 1]):
                product += mean[c, member[i]]
            upto[c, s + 1] = upto[c, s] + product
    within, total, before = 0.0, 0.0, 0.0
    for lag in range(n):
        summed = 0.0
        for c in range(chains):
            shared = 0.0
            for s in range(n - lag):
                shared += in_common(offset, member, halves[c, s], halves[c, s + lag])
            # sum over s of (v_s - m)(v_(s + lag) - m), for the vector v_s of a draw and their mean m, term by term
            summed += shared - upto[c, n - lag] - (upto[c, n] - upto[c, lag]) + (n - lag) * square[c]
        out[lag] = summed / n / chains
        if lag == 0:
            within, total = out[0] * n / (n - 1.0), out[0] + between
            if total <= 0.0:
                break
            before = 1.0
        else:
            rho = 1.0 - (within - out[lag]) / total
            if lag % 2 == 1 and before + rho <= 0.0:
                break
            before = rho
    return out
