"""Effective sample size of trees, from the distances between them.

After Magee, Karcher, Matsen, Minin, *How trustworthy is your tree? Bayesian phylogenetic effective sample size through
the lens of Monte Carlo error*, Bayesian Analysis 19 (2024); several chains as in Vehtari et al. (2021).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.compile.jit import jit
from ..ess import FEWEST_PER_CHAIN, _halves, ess_from, rhat_and_ess_by_tree
from .distances import between_trees, in_common, spaced
from .support import check_drawn

if TYPE_CHECKING:
    from ..sampled import SampledPosterior

N_FOCAL = 100
"""Number of focal trees of the pseudo effective sample size."""


class TreeEss(NamedTuple):
    """Effective sample sizes of the trees, for all chains together; they are small if chains disagree."""

    pseudo_min: float
    """The smallest, over focal trees, of the effective sample size of the distance from the focal tree."""
    pseudo_median: float
    """The median over focal trees."""
    frechet: float
    """By the autocorrelation of the trees themselves: squared distances take the place of squared differences."""
    rhat: float
    """The largest R-hat of the distances from the focal trees."""
    mean_distance: float
    """Mean number of cells that only one of two draws has."""
    sd_distance: float
    """Standard deviation of that number, over the draws and the focal trees; NaN for one draw."""
    n_draws: int
    """Total number of draws."""


def tree_ess_of(post: SampledPosterior) -> TreeEss:
    """Effective sample size of the trees; see `SampledPosterior.tree_ess`."""
    check_drawn(post)
    total, cells = post.tree_of_draw.size, post.cells
    # mean over pairs of draws: each cell parts them by its frequency
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


def focal_draws(post: SampledPosterior, most: int) -> np.ndarray:
    """Draws with different trees, at most ``most``, evenly spaced over all chains; chain after chain."""
    draws = spaced(post.tree_of_draw.size, most)
    return draws[np.sort(np.unique(post.tree_of_draw.ravel()[draws], return_index=True)[1])]


def draw_words(post: SampledPosterior, draw: int) -> str:
    """Which draw it is, of those of all chains one after the other."""
    return f"draw {draw % post.n_draws} of chain {draw // post.n_draws}"


def distances_from(post: SampledPosterior, trees: np.ndarray) -> np.ndarray:
    """Cells that only one has, of each of the ``trees`` (m,) and each distinct tree: (m, n_distinct_trees)."""
    return between_trees(post, trees, np.arange(post.n_distinct_trees), "cells")


def frechet_ess(post: SampledPosterior) -> float:
    """Effective sample size by the Fréchet correlation, over the halves of all chains.

    The root of the number of cells that only one tree has is the Euclidean distance of the vectors that say which cells
    a tree has. So the Fréchet variance and covariances are traces of the covariance matrices of these vectors, and sums
    over the products of centred vectors.
    """
    halves = np.ascontiguousarray(_halves(post.tree_of_draw[None])[0])
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
    """Sums over cells of autocovariances (draws,), means over ``halves`` (chains, draws) of trees with ``mean``
    (chains, n_cells); zeros from where Geyer's pairs of lags turn negative.
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
