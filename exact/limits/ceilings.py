"""Upper bounds, from its rows alone, of the sum over all trees below a cell whose splits are not listed.

A tree of m leaves below a cell has at most the score of the best partition of its rows into m parts, whatever the
splits are. So for a cell that is split

    sum over trees T of prior(T) * score(T)  <=  sum over m of mass(m) * max over partitions into m parts of the score,

with mass(m) the prior mass of the trees of m leaves if every cell could be split. If some cells cannot be split, their
mass goes to smaller trees, whose best score is not larger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.special import gammaln, logsumexp, xlogy
from pactree_mcmc.model import (
    BetaBinomial,
    DirichletMultinomial,
    ExponentialGamma,
    FrozenLaplace,
    GammaGamma,
    NegativeBinomialBeta,
    NormalInverseGamma,
    NormalKnownVariance,
    PacBayesLoss,
    PoissonGamma,
    TreeModel,
    WeibullGamma,
)
from pactree_mcmc.posterior.evidence import prior_mass

from ..graph.arrays import Points
from ..graph.boxes import find_members

MAX_TABULATED_LEAVES = 32
"""Number of leaves above which trees of different sizes have one common bound."""
MAX_TABULATED_ROWS = 2000
"""Largest number of rows for which best partitions are tabulated, at a cost that grows with its square."""


class Ceiling(NamedTuple):
    """Upper bounds of sums over trees (prior times likelihood), as functions of r sums over the points of a cell.

    The P points are the distinct rows of the model's table.
    """

    values: np.ndarray  # (P, r): terms that each distinct point adds to the sums of its cell
    # Function from the sums (n, r) of cells to the largest scores (n, m) of partitions into 2, 3, ... parts; the last
    # column is for all larger numbers of parts, and the scores do not decrease along a row
    best_scores: Callable[[np.ndarray], np.ndarray]
    # (depths, m): log prior probability of the trees with 2, 3, ... leaves below a cell that is split at each depth
    log_mass: np.ndarray

    def log_upper_bound(self, sums: np.ndarray, depth: np.ndarray) -> np.ndarray:
        """Return log upper bounds (n,) of the sums over the trees below cells that split these cells.

        ``sums`` (n, r) are those of the n cells, ``depth`` (n,) their depths.
        """
        return logsumexp(self.log_mass[depth] + self.best_scores(sums), axis=1)


def ceiling_of(model: TreeModel, points: Points) -> Ceiling | str:
    """Return the upper bounds for a model with these ``points``, or the reason, as text, why there are none.

    They bound the sum over the trees below a cell from above. The points are the distinct training rows.
    """
    mass = prior_mass(model)
    if mass.log_mass is None:
        return f"the mass of {model.tree_prior!r} requires the sum over all trees"
    values_and_scores = _best_scores(model, points)
    if isinstance(values_and_scores, str):
        return values_and_scores
    values, best_scores = values_and_scores
    n_columns = best_scores(np.zeros((1, values.shape[1]))).shape[1]
    return Ceiling(values, best_scores, leaf_masses(model, n_columns))


def _best_scores(model: TreeModel, points: Points) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]] | str:
    """Return `Ceiling.values` and `Ceiling.best_scores` for the leaf of a model, or as text why there are none.

    They are, for each of the ``points`` (distinct rows), the terms that add over a cell, and the function of their sums
    that bounds the log score of a partition of the cell.
    """
    leaf: Any = model.leaf
    stats = points.stats
    if type(leaf) is DirichletMultinomial:
        return _bound_of_classes(model, stats)
    if type(leaf) in (NormalInverseGamma, NormalKnownVariance):
        return _bound_of_numbers(model, stats)
    if type(leaf) is PacBayesLoss:
        counted = stats[:, -model.target.n_classes :]
        values = np.column_stack([counted.sum(axis=1) - counted.max(axis=1), counted.sum(axis=1)])
        # a square root of a sum is at most the sum of the roots
        return values, lambda sums: (-leaf.lambda1 * sums[:, 0] - leaf.lambda2 * np.sqrt(sums[:, 1]))[:, None]
    if type(leaf) not in MAX_LOG_LIKELIHOODS:
        return f"no bound of the likelihood is known under {type(leaf).__name__}"
    return MAX_LOG_LIKELIHOODS[type(leaf)](model, stats)[:, None], lambda sums: sums[:, :1]


def _max_log_multinomial(counts: np.ndarray) -> np.ndarray:
    """Return the log of the largest likelihood (m,) of m cells with class counts (m, K), under any class probabilities.

    It is ``sum over classes of n_c log(n_c / n)``, which is minus n times the entropy of the observed frequencies.
    """
    return xlogy(counts, counts).sum(axis=1) - xlogy(counts.sum(axis=1), counts.sum(axis=1))


def _bound_of_classes(model: Any, stats: np.ndarray) -> Any:
    """Return `Ceiling.values` and `Ceiling.best_scores` for labels, from ``stats`` (P, K), the class counts of points.

    The rows of points with rows of one class are pooled, class by class, as if each class had a leaf of its own.

    This is a bound because the probability of a row increases with the rows of its own class in the leaf and decreases
    with those of others. Each other point has its largest likelihood.
    """
    alpha = np.broadcast_to(np.asarray(model.leaf.alpha, dtype=np.float64), stats.shape[1])
    total, pure = alpha.sum(), ((stats > 0.0).sum(axis=1) <= 1)[:, None]

    def best(sums: np.ndarray) -> np.ndarray:
        counts = sums[:, :-1]
        pooled = gammaln(alpha + counts) - gammaln(alpha) - gammaln(total + counts) + gammaln(total)
        return (pooled.sum(axis=1) + sums[:, -1])[:, None]

    return np.column_stack([np.where(pure, stats, 0.0), _max_log_multinomial(stats)]), best


def _bound_of_numbers(model: Any, stats: np.ndarray) -> Any:
    """Return `Ceiling.values` and `Ceiling.best_scores` for Gaussian leaves, a bound by the number of rows alone.

    The sum of squares of n rows about their mean is at least that of the n rows of the table nearest to each other.
    ``stats`` (P, n_stats) are those of the points (distinct rows), their weights first.
    """
    leaf, target = model.leaf, model.target
    about = float(leaf.m0 - target.center)

    def of_rows(n: float, scatter: float) -> float:
        """Return the log score of a leaf of n rows with mean m0 and sum of squares ``scatter`` about the mean."""
        return leaf.log_score(np.array([n, n * about, scatter + n * about**2]), target) if n > 0.0 else 0.0

    if target.weight is None and len(target.values) <= MAX_TABULATED_ROWS:
        score = np.array([of_rows(n, scatter) for n, scatter in enumerate(least_scatters(target.values))])
        table = best_partitions(score, MAX_TABULATED_LEAVES)
        return stats[:, :1], lambda sums: table[:, np.rint(sums[:, 0]).astype(np.int64)].T

    def best(sums: np.ndarray) -> np.ndarray:
        # without spread one part is best: its log score is convex in the number of rows, and 0 of none
        n, which = np.unique(sums[:, 0], return_inverse=True)
        return np.array([of_rows(float(k), 0.0) for k in n])[which.reshape(-1), None]

    return stats[:, :1], best


def least_scatters(y: np.ndarray) -> np.ndarray:
    """Return the smallest sums of squares (n + 1,) about the mean of 0, 1, ..., n of the numbers ``y`` (n,).

    The smallest sum is that of numbers that are consecutive in ascending order.
    """
    y = np.sort(y) - np.mean(y)
    first, second = (np.concatenate([[0.0], np.cumsum(y**power)]) for power in (1, 2))
    out = np.zeros(len(y) + 1)
    for k in range(2, len(out)):
        out[k] = (second[k:] - second[:-k] - (first[k:] - first[:-k]) ** 2 / k).min()
    # less what rounding may have added to a sum of squares
    return np.maximum(out - 1e-12 * second[-1], 0.0)


@jit
def best_partitions(score: np.ndarray, max_parts: int) -> np.ndarray:
    """Return the largest total score (max_parts - 1, n) of the parts into which 0, ..., n - 1 rows can be divided.

    A part of k rows has ``score[k]``, for k < n. Entry (i, j) is the best for j rows in at most i + 2 parts; in the
    last row i, in any number of parts.
    """
    n = len(score)
    out = np.empty((max_parts - 1, n))
    at_most, any_number = score.copy(), score.copy()
    for k in range(n):
        for j in range(1, k):
            any_number[k] = max(any_number[k], score[j] + any_number[k - j])
    for m in range(max_parts - 2):
        for k in range(n):
            best = at_most[k]
            for j in range(1, k):
                best = max(best, score[j] + at_most[k - j])
            out[m, k] = best
        at_most = out[m].copy()
    out[max_parts - 2] = any_number
    return out


def leaf_masses(model: TreeModel, n_columns: int) -> np.ndarray:
    """Return the log prior probability (depths, n_columns) of trees with 2, 3, ... leaves below a cell that is split.

    Rows are depths, and the last column is for all larger trees. It is computed as if every cell could be split, with
    ``mass_d(m) = split_d * sum over k of mass_(d+1)(k) mass_(d+1)(m - k)``. The mass of one leaf is raised to the prior
    factor of a cell that cannot be split if this is larger, so that it bounds both cases.
    """
    prior = model.prior_tables
    table, limit = prior.table, prior.depth_limit
    bonus = np.exp(max(prior.empty_bonus, 0.0))
    stop, forced = np.exp(table.log_stop) * bonus, np.exp(table.log_forced) * bonus
    split, largest = np.exp(table.log_split), n_columns + 1
    mass = np.zeros(largest + 1)
    mass[1] = forced[limit]
    out = np.full((limit + 1, n_columns), -np.inf)
    for depth in range(limit - 1, -1, -1):
        products = split[depth] * np.convolve(mass, mass)
        mass = products[: largest + 1].copy()
        mass[largest] += products[largest + 1 :].sum()
        with np.errstate(divide="ignore"):
            out[depth] = np.log(mass[2:])
        mass[1] += stop[depth]
        mass[1] += max(0.0, forced[depth] - mass.sum())
    return out


def _max_log_poisson(model: Any, stats: np.ndarray) -> np.ndarray:
    """Return the log of the largest Poisson likelihood (P,) of P distinct rows, each with its own rate.

    ``stats`` (P, 3) are the exposure, the count and the log terms without the rate.
    """
    exposure, count, rest = stats.T
    reference = model.leaf.params(model.target)[3]
    if reference > 0.0:
        return rest + xlogy(count, count) - xlogy(count, exposure * reference) - (count - exposure * reference)
    return rest + xlogy(count, count) - xlogy(count, exposure) - count


def _max_log_binomial(log_coefficients: np.ndarray, n_first: np.ndarray, n_second: np.ndarray) -> np.ndarray:
    """Return the log of the largest likelihood (P,) of two kinds of outcomes, plus ``log_coefficients`` (P,).

    ``n_first`` and ``n_second`` (P,) are the numbers of outcomes of each kind at each of P points, whose likelihood is
    largest if the probabilities are the observed frequencies.
    """
    return log_coefficients + _max_log_multinomial(np.column_stack([n_first, n_second]))


def _max_log_exponential(events: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return the log of the largest exponential likelihood (P,), under any rate, of ``events`` in a ``total`` time."""
    return xlogy(events, events) - xlogy(events, total) - events


MAX_LOG_LIKELIHOODS: dict[type, Callable[[Any, np.ndarray], np.ndarray]] = {
    FrozenLaplace: lambda model, s: _max_log_multinomial(s[:, model.target.n_classes :]),
    PoissonGamma: _max_log_poisson,
    NegativeBinomialBeta: lambda model, s: _max_log_binomial(s[:, 3], s[:, 1] * model.leaf.dispersion, s[:, 2]),
    BetaBinomial: lambda model, s: _max_log_binomial(s[:, 3], s[:, 1], s[:, 2]),
    ExponentialGamma: lambda model, s: _max_log_exponential(s[:, 1], s[:, 2]) + s[:, 3:].sum(axis=1),
    WeibullGamma: lambda model, s: (
        _max_log_exponential(s[:, 1], s[:, 2])
        + (s[:, 1] * np.log(model.leaf.k) + (model.leaf.k - 1.0) * s[:, 3] + s[:, 4:].sum(axis=1))
    ),
    GammaGamma: lambda model, s: (
        _max_log_exponential(s[:, 1] * model.leaf.k, s[:, 2])
        + (model.leaf.k - 1.0) * s[:, 3]
        - s[:, 1] * gammaln(model.leaf.k)
    ),
}
"""Log of the largest likelihood (P,) of the rows of points with given statistics, under any parameters."""


@jit
def sum_points(model: Any, arrays: Any, first: int, values: np.ndarray, out: np.ndarray) -> None:
    """Write the sums of ``values`` (P, r) over the points of each cell from ``first`` on into ``out`` (n_cells, r).

    Points are distinct training rows. ``arrays`` are those of the builder of the graph, in which the cells are
    numbered.
    """
    for cell in range(first, len(out)):
        for a in range(values.shape[1]):
            out[cell, a] = 0.0
        for j in range(find_members(model, arrays, cell)):
            for a in range(values.shape[1]):
                out[cell, a] += values[arrays.scratch.members[j], a]
