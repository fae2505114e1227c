"""Leaf models of normal y: variance unknown, known or shared by the leaves, or a linear regression in each leaf.

Parameters that are not known are integrated out (formulas, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log, log1p, pi, sqrt
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import Generator

from ...core import portable
from ...core.checks import read_numbers, refuse_labels, set_field
from ...core.compile.address import by_address
from ...core.compile.jit import jit
from ...files.encoding import register_class
from ...table.coding import LARGEST_FLOAT
from .base import KNOWN_NORMAL, NORMAL, ROUNDING_FRACTION, SHARED_NORMAL, Leaf, Target, Theta
from .custom import read_x_columns
from .distributions import SMALLEST_NORMAL, Distributions, StudentT, log_gamma_ratio


class NormalLeaf(Leaf):
    """Base class of leaf models for normal y, with ``mu ~ Normal(m0, sigma2 / k0)`` in each leaf."""

    # the statistics are the weight, and the sums of y and of y^2, both measured from the center of y (`Target.center`)
    finite_parameters = ("m0",)
    m0: float | None
    k0: float | None

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        deviation = y - target.center
        return deviation, np.square(deviation)

    def n_stats(self, target: Target) -> int:
        return 3

    @staticmethod
    def spread(stats: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weight, mean less the center of y, and squares about the mean (0 by rounding) of cells (..., 3)."""
        n = stats[..., 0]
        mean = np.divide(stats[..., 1], n, out=np.zeros_like(n), where=n > 0)
        scatter = stats[..., 2] - stats[..., 1] * mean
        return n, mean, np.where(scatter > ROUNDING_FRACTION * stats[..., 2], scatter, 0.0)

    def misfit(self, stats: np.ndarray, target: Target) -> np.ndarray:
        """Return the misfit (m,) of cells with ``stats`` (m, 3): n, and the sums of y and y^2 from the center of y."""
        # this is the sum of squares about the mean of y plus ``k0 n (mean - m0)^2 / (k0 + n)``
        n, mean, scatter = self.spread(stats)
        return scatter + self.k0 * n * (mean - (self.m0 - target.center)) ** 2 / (self.k0 + n)

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        n, mean, _ = self.spread(stats)
        prior_deviation = self.m0 - target.center
        # measured from m0 or from the center, whichever has more weight, so that no digits cancel
        from_center = target.center + (self.k0 * prior_deviation + n * mean) / (self.k0 + n)
        return np.where(n >= self.k0, from_center, self.m0 + n * (mean - prior_deviation) / (self.k0 + n))[:, None]

    def mean_tables(self, n: np.ndarray) -> list[np.ndarray]:
        """Return two tables (m,) for the weights ``n`` (m,): 1 / n, and k0 n / (k0 + n), a factor in `misfit`."""
        return [np.divide(1.0, n, out=np.zeros_like(n), where=n > 0), n * (self.k0 / (self.k0 + n))]

    def draw_variance(self, rng: Generator, stats: np.ndarray, target: Target) -> np.ndarray:
        """Draw the variance (m,) of y in each leaf of a tree given ``stats`` (m, 3); one for all if known or shared."""
        raise NotImplementedError

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Theta:
        """Draw mean and standard deviation of y, (m,) each, in the leaves of one tree from their posterior."""
        # ``stats`` (m, 3): weight, sums of y and y^2 from the center of y. The means are those of y itself. The
        # deviation is the same in all leaves if the variance is known or shared
        sigma2 = self.draw_variance(rng, stats, target)
        return rng.normal(self.value(stats, target)[:, 0], np.sqrt(sigma2 / (self.k0 + stats[:, 0]))), np.sqrt(sigma2)

    def draw_given(self, rng: Generator, parameters: Theta, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        return rng.normal(*parameters)


@dataclass(frozen=True, eq=False, repr=False)
class _UnknownVariance(NormalLeaf):
    """Base class of leaf models with the prior ``sigma2 ~ InverseGamma(a0, b0)``."""

    positive_parameters = ("k0", "a0", "b0")
    m0: float | None = None
    k0: float | None = None
    a0: float | None = None
    b0: float | None = None

    def resolve(self, target: Target) -> Self:
        defaults = {"m0": target.center, "k0": 0.25, "a0": 1.5}
        return self.with_defaults(**defaults, b0=lambda leaf: leaf.a0 * target.prior_variance / 4.0)


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class NormalInverseGamma(_UnknownVariance):
    """Normal y, mean and variance of each leaf integrated out (Chipman et al. 1998, mean-variance shift).

    ``sigma2 ~ InverseGamma(a0, b0)``, ``mu ~ Normal(m0, sigma2 / k0)``. Predicts the posterior mean.

    Parameters
    ----------
    m0, k0, a0, b0 : float, optional
        By default set from the data: ``m0`` the mean of y; ``k0 = 1/4`` and ``a0 = 3/2``; ``b0 = a0 * var(y) / 4``.
        This assumes that the tree explains about three quarters of the variance of y, and that leaf means differ from
        ``m0`` by about one standard deviation of y.

    Raises
    ------
    ValueError
        If k0, a0 or b0 is not positive and finite, or m0 is not finite; in a model, if ``b0`` is left
        out and the variance of y is below 1e-290.

    Examples
    --------
    >>> NormalInverseGamma(m0=0.0, k0=1.0, a0=2.0, b0=1.0).k0
    1.0
    """

    kind = NORMAL

    def params(self, target: Target) -> np.ndarray:
        """Return m0 less the center of y, k0, a0, b0, and a0 log b0 - lgamma(a0), for `normal_score`."""
        constant = self.a0 * math.log(self.b0) - math.lgamma(self.a0)
        return np.array([self.m0 - target.center, self.k0, self.a0, self.b0, constant])

    def lookup(self, target: Target) -> np.ndarray:
        """Return the table (3, m) that `normal_score` reads, by weight; (1, 1) if weights are not integers."""
        n = target.integer_weights(3)
        if n is None:
            return super().lookup(target)
        constant = self.a0 * math.log(self.b0) - math.lgamma(self.a0)
        shrinkage = portable.log(self.k0 / (self.k0 + n)) / 2.0
        rest = constant + portable.log_gamma(self.a0 + n / 2.0) + shrinkage - n / 2.0 * math.log(2.0 * math.pi)
        return np.array([rest, *self.mean_tables(n)])

    def _posterior(self, stats: np.ndarray, target: Target) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return mn less the center of y, kn, an and bn of the posterior in cells with `stats` (..., 3)."""
        # sigma2 ~ InverseGamma(an, bn), and mu ~ Normal(mn, sigma2 / kn) given sigma2
        # mu | sigma2 ~ Normal(mn, sigma2 / kn), sigma2 ~ InverseGamma(an, bn), with mn = (k0 m0 + n mean) / kn and
        # bn = b0 + scatter / 2 + k0 n (mean - m0)^2 / (2 kn)
        n, mean, scatter = self.spread(stats)
        m0 = self.m0 - target.center
        kn = self.k0 + n
        bn = self.b0 + scatter / 2.0 + self.k0 * n * (mean - m0) ** 2 / (2.0 * kn)
        return (self.k0 * m0 + n * mean) / kn, kn, self.a0 + n / 2.0, bn

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        _, kn, _, bn = self._posterior(sums, target)
        half = sums[0] / 2.0
        return float(
            log_gamma_ratio(self.a0, half)
            - self.a0 * portable.log1p((bn - self.b0) / self.b0)
            - half * portable.log(bn)
            + portable.log(self.k0 / kn) / 2.0
            - half * math.log(2.0 * math.pi)
        )

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> StudentT:
        _, kn, an, bn = self._posterior(stats, target)
        return StudentT(2.0 * an, self.value(stats, target)[:, 0], np.sqrt(bn / an * (1.0 + 1.0 / kn)))

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        _, kn, an, bn = self._posterior(stats, target)
        return [StudentT(2.0 * an, self.value(stats, target)[:, 0], np.sqrt(bn / an / kn))]

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        mn, kn, an, bn = self._posterior(stats, target)
        return log_student_density(y - target.center - mn, weight, kn, an, bn)

    def draw_variance(self, rng: Generator, stats: np.ndarray, target: Target) -> np.ndarray:
        _, _, an, bn = self._posterior(stats, target)
        return draw_inverse_gamma(rng, an, bn)


def draw_inverse_gamma(rng: Generator, a: Any, b: Any) -> Any:
    """Draw from InverseGamma(a, b); a number beyond all floats becomes the largest one."""
    with np.errstate(over="ignore"):
        return np.minimum(b / np.maximum(rng.gamma(a), SMALLEST_NORMAL), LARGEST_FLOAT)


def log_student_density(
    deviation: np.ndarray, weight: Any, kn: np.ndarray, an: np.ndarray, bn: np.ndarray
) -> np.ndarray:
    """Return the log density in nats of m y, each observed `weight` times, with y less its mean, `deviation`."""
    # sigma2 ~ InverseGamma(an, bn) and the mean, of variance sigma2 / kn, are integrated out: Student t for weight 1
    spread, half = (kn + weight) / kn, np.asarray(weight) / 2.0
    return (
        log_gamma_ratio(an, half)
        - half * np.log(2.0 * np.pi * bn)
        - 0.5 * np.log(spread)
        - (an + half) * np.log1p(half * deviation**2 / (bn * spread))
    )


@jit
def normal_score(params: np.ndarray, lookup: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Return the log marginal likelihood in nats of a cell of normal y, with mean and variance integrated out."""
    # `params`: m0 less the center (mean) of y, k0, a0, b0, a0 log b0 - lgamma(a0). `stats[row]`: n, sums of y and y^2
    # from it. `lookup`, by n: all terms but -(a0 + n/2) log(b0 + misfit/2), then the two rows that `misfit` reads; with
    # one column it is not used
    n, k0 = stats[row, 0], params[1]
    if n <= 0.0:
        return 0.0
    an = params[2] + 0.5 * n
    score = -an * log(params[3] + 0.5 * misfit(params[0], k0, lookup, stats, row))
    if lookup.shape[1] > 1:
        return score + lookup[0, np.int64(n)]
    return score + params[4] + lgamma(an) + 0.5 * log(k0 / (k0 + n)) - 0.5 * n * log(2.0 * pi)


def known_normal_params(sigma2: float, m0: float, k0: float, a0: float = 0.0, b0: float = 0.0) -> np.ndarray:
    """Return the arguments, log(2 pi sigma2) and 1 / (2 sigma2), (7,), as `known_normal_score` reads them."""
    # m0 is measured from the center of y; a0 and b0 are those of the prior of a shared variance, else 0
    return np.array([sigma2, m0, k0, a0, b0, math.log(2.0 * math.pi * sigma2), 0.5 / sigma2])


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class NormalKnownVariance(NormalLeaf):
    """Normal y with known variance ``sigma2`` and ``mu ~ Normal(m0, sigma2 / k0)`` integrated out.

    Predicts the posterior mean.

    Parameters
    ----------
    sigma2, m0, k0 : float, optional
        By default set from the data: ``sigma2 = var(y) / 4``, ``m0`` the mean of y, ``k0 = 1/4``.

    Raises
    ------
    ValueError
        If sigma2 or k0 is not positive and finite, or m0 is not finite; in a model, if ``sigma2`` is left
        out and the variance of y is below 1e-290.

    Examples
    --------
    >>> NormalKnownVariance(sigma2=1.0, m0=0.0, k0=0.5)
    NormalKnownVariance(sigma2=1.0, m0=0.0, k0=0.5)
    """

    sigma2: float | None = None
    m0: float | None = None
    k0: float | None = None
    kind = KNOWN_NORMAL
    positive_parameters = ("sigma2", "k0")

    def resolve(self, target: Target) -> Self:
        return self.with_defaults(sigma2=lambda leaf: target.prior_variance / 4.0, m0=target.center, k0=0.25)

    def params(self, target: Target) -> np.ndarray:
        """Return sigma2, m0 less the center of y, k0, 0, 0 and two constants, (7,), for `known_normal_score`."""
        return known_normal_params(self.sigma2, self.m0 - target.center, self.k0)

    def lookup(self, target: Target) -> np.ndarray:
        """Return the table (3, m) that `known_normal_score` reads, by weight; (1, 1) if weights are not integers."""
        n = target.integer_weights(3)
        if n is None:
            return super().lookup(target)
        return np.array([portable.log(self.k0 / (self.k0 + n)) / 2.0, *self.mean_tables(n)])

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        n = sums[0]
        return float(
            portable.log(self.k0 / (self.k0 + n)) / 2.0
            - n / 2.0 * math.log(2.0 * math.pi * self.sigma2)
            - self.misfit(sums, target) / (2.0 * self.sigma2)
        )

    def mean_from_center(self, stats: np.ndarray, target: Target) -> np.ndarray:
        """Return the posterior means of mu (m,) less the center of y, so that differences from y lose no digits."""
        # ``stats`` (m, 3) are the weight and the sums of y and y^2 from the center, in each cell
        return (self.k0 * (self.m0 - target.center) + stats[:, 1]) / (self.k0 + stats[:, 0])

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> StudentT:
        scale = np.sqrt(self.sigma2 * (1.0 + 1.0 / (self.k0 + stats[:, 0])))
        return StudentT(np.full(len(stats), np.inf), self.value(stats, target)[:, 0], scale)

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        scale = np.sqrt(self.sigma2 / (self.k0 + stats[:, 0]))
        return [StudentT(np.full(len(stats), np.inf), self.value(stats, target)[:, 0], scale)]

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        spread, half = 1.0 + weight / (self.k0 + stats[:, 0]), np.asarray(weight) / 2.0
        misfit = half * (y - target.center - self.mean_from_center(stats, target)) ** 2 / (self.sigma2 * spread)
        return -half * np.log(2.0 * np.pi * self.sigma2) - 0.5 * np.log(spread) - misfit

    def draw_variance(self, rng: Generator, stats: np.ndarray, target: Target) -> np.ndarray:
        return np.full(len(stats), self.sigma2)


@jit
def known_normal_score(params: np.ndarray, lookup: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Return the log marginal likelihood of the cell `stats[row]`, nats, with the mean integrated out."""
    # `params`: those of `known_normal_params`: sigma2, m0 less the center, k0, a0, b0, log(2 pi sigma2), 1 / (2
    # sigma2). `stats[row]`: n, sums of y and y^2 from the center. `lookup`, by n: 0.5 log(k0 / (k0 + n)), then the two
    # rows that `misfit` reads
    n, k0 = stats[row, 0], params[2]
    if n <= 0.0:
        return 0.0
    shrinkage = lookup[0, np.int64(n)] if lookup.shape[1] > 1 else 0.5 * log(k0 / (k0 + n))
    return shrinkage - 0.5 * n * params[5] - params[6] * misfit(params[1], k0, lookup, stats, row)


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class NormalSharedVariance(_UnknownVariance):
    """Normal y with one unknown variance for all leaves (Chipman et al. 1998, mean shift).

    ``sigma2 ~ InverseGamma(a0, b0)``, ``mu ~ Normal(m0, sigma2 / k0)`` in each leaf. The means are integrated out;
    ``sigma2`` is drawn by a Gibbs step within the run, once a draw, and its trace is ``noise_variance`` in the ArviZ
    output. In the score of a tree sigma2 is integrated out. Predicts the posterior mean.

    The score of a tree is not a sum over leaves, so ``exact.solve`` refuses it; for a given sigma2 use
    ``NormalKnownVariance(sigma2, m0, k0)``.

    Parameters
    ----------
    m0, k0, a0, b0 : float, optional
        By default set from the data: ``m0`` the mean of y; ``k0 = 1/4`` and ``a0 = 3/2``; ``b0 = a0 * var(y) / 4``,
        which assumes that the tree explains about three quarters of the variance of y.

    Raises
    ------
    ValueError
        If k0, a0 or b0 is not positive and finite, or m0 is not finite; in a model, if ``b0`` is left
        out and the variance of y is below 1e-290.

    Examples
    --------
    >>> NormalSharedVariance(m0=0.0, k0=1.0, a0=2.0, b0=1.0).b0
    1.0
    """

    kind = SHARED_NORMAL
    has_additive_score = False

    def params(self, target: Target) -> np.ndarray:
        return known_normal_params(self.b0 / self.a0, self.m0 - target.center, self.k0, self.a0, self.b0)

    def lookup(self, target: Target) -> np.ndarray:
        return self.with_variance(1.0).lookup(target)

    def with_variance(self, sigma2: float) -> NormalKnownVariance:
        """Return the leaf model in which the shared variance is known to be ``sigma2``."""
        return NormalKnownVariance(float(sigma2), self.m0, self.k0)

    def for_one_tree(self, rng: Generator) -> NormalKnownVariance:
        """Return the leaf model with a shared variance drawn from its prior."""
        return self.with_variance(draw_inverse_gamma(rng, self.a0, self.b0))

    def _variance(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> tuple[np.ndarray, np.ndarray]:
        """Return an and bn, (m,) each, of the posterior InverseGamma(an, bn) of the variance of each node's tree."""
        # `tree` is the tree of which a node is a leaf, -1 for an inner node, which gets any numbers
        leaf, out = tree >= 0, np.zeros((2, len(tree)))
        for i, amounts in enumerate((stats[:, 0], self.misfit(stats, target))):
            out[i] = np.bincount(tree[leaf], weights=amounts[leaf])[tree]
        return self.a0 + out[0] / 2.0, self.b0 + out[1] / 2.0

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> StudentT:
        # the variance is integrated out given the tree, so that the value drawn with the tree is not needed
        an, bn = self._variance(stats, tree, target)
        scale = np.sqrt(bn / an * (1.0 + 1.0 / (self.k0 + stats[:, 0])))
        return StudentT(2.0 * an, self.value(stats, target)[:, 0], scale)

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        an, bn = self._variance(stats, tree, target)
        return [StudentT(2.0 * an, self.value(stats, target)[:, 0], np.sqrt(bn / an / (self.k0 + stats[:, 0])))]

    def draw_variance(self, rng: Generator, stats: np.ndarray, target: Target) -> np.ndarray:
        an = self.a0 + stats[:, 0].sum() / 2.0
        return np.full(len(stats), draw_inverse_gamma(rng, an, self.b0 + self.misfit(stats, target).sum() / 2.0))

    def log_tree_score(self, stats: np.ndarray, target: Target) -> float:
        n, misfit = stats[:, 0], self.misfit(stats, target).sum()
        bn = self.b0 + misfit / 2.0
        return float(
            portable.log(self.k0 / (self.k0 + n)).sum() / 2.0
            + log_gamma_ratio(self.a0, n.sum() / 2.0)
            - self.a0 * math.log1p(misfit / 2.0 / self.b0)
            - n.sum() / 2.0 * math.log(bn)
            - n.sum() / 2.0 * math.log(2.0 * math.pi)
        )

    def log_density_left_out(self, others: np.ndarray, node: np.ndarray, target: Target) -> np.ndarray:
        # the variance is integrated out given the other rows of the whole tree
        weight, row_stats = target.weights, self.row_stats(target)
        leaves = np.array([np.bincount(node, weights=part) for part in row_stats.T]).T
        misfit_elsewhere = sums_of_others(self.misfit(leaves, target))[node]
        an = self.a0 + (sums_of_others(leaves[:, 0])[node] + others[:, 0]) / 2.0
        bn = self.b0 + (misfit_elsewhere + self.misfit(others, target)) / 2.0
        deviation = target.values - target.center - self.with_variance(1.0).mean_from_center(others, target)
        return log_student_density(deviation, weight, self.k0 + others[:, 0], an, bn)

    def log_influence(self, others: np.ndarray, node: np.ndarray, target: Target) -> np.ndarray:
        # the variance is fixed at the reciprocal of the posterior mean of 1 / sigma2, which one row hardly changes
        leaves = np.array([np.bincount(node, weights=part) for part in self.row_stats(target).T]).T
        an = self.a0 + leaves[:, 0].sum() / 2.0
        leaf = self.with_variance((self.b0 + self.misfit(leaves, target).sum() / 2.0) / an)
        return leaf.log_influence(others, node, target)


def sums_of_others(values: np.ndarray) -> np.ndarray:
    """Return for each of the ``values`` (m,) the sum of all others, without subtraction, which would lose digits."""
    before = np.concatenate([[0.0], np.cumsum(values[:-1])])
    return before + np.concatenate([np.cumsum(values[:0:-1])[::-1], [0.0]])


@jit
def squares_about_mean(total: float, squares: float, mean: float) -> float:
    """Return the sum of squares about the mean from ``total``, the sum of y, and ``squares``, that of y^2."""
    # 0 if it is within rounding error
    scatter = squares - total * mean
    return scatter if scatter > ROUNDING_FRACTION * squares else 0.0


@jit
def misfit(m0: float, k0: float, lookup: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Return the squares about the mean plus k0 n (mean - m0)^2 / (k0 + n), for the cell `stats[row]`."""
    # rows 1 and 2 of `lookup`, by n: 1 / n and n k0 / (k0 + n), computed if it has one column
    n, total = stats[row, 0], stats[row, 1]
    if lookup.shape[1] > 1:
        mean, weight = total * lookup[1, np.int64(n)], lookup[2, np.int64(n)]
    else:
        mean, weight = total / n, n * (k0 / (k0 + n))
    return squares_about_mean(total, stats[row, 2], mean) + weight * (mean - m0) * (mean - m0)


@by_address
def linear_score(s: Any, n: int, params: Any) -> float:
    """Return the log marginal likelihood in nats of a cell under `NormalLinear`, by a Cholesky factorisation."""
    # ``s``: ``n`` sums, the lower triangle of F'F (q, q), row by row, F'r, r'r, with rows (1, standardised columns) as
    # F and r = y - m0. ``params``: q, and parameters of the prior, a0, b0, k0, k1
    q, a0, b0 = int(params[0]), params[1], params[2]
    factor, solved = np.empty((q, q)), np.empty(q)
    # L = A A' row by row, and x = A^-1 F'r: then r'F L^-1 F'r is the sum of x_i^2, and log |L| that of 2 log a_ii
    index, misfit, log_determinant = 0, s[n - 1], 0.0
    first = q * (q + 1) // 2
    for i in range(q):
        residual = s[first + i]
        for j in range(i + 1):
            total = s[index] + (0.0 if i != j else params[3] if i == 0 else params[4])
            index += 1
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            factor[i, j] = sqrt(total) if i == j else total / factor[j, j]
            if j < i:
                residual -= factor[i, j] * solved[j]
        solved[i] = residual / factor[i, i]
        misfit -= solved[i] * solved[i]
        log_determinant += 2.0 * log(factor[i, i]) - log(params[3] if i == 0 else params[4])
    if misfit < 0.0:
        misfit = 0.0
    half = 0.5 * s[0]
    gamma = lgamma(a0 + half) - lgamma(a0) - a0 * log1p(0.5 * misfit / b0)
    return gamma - half * log(2.0 * pi * (b0 + 0.5 * misfit)) - 0.5 * log_determinant


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class NormalLinear(Leaf):
    """A linear regression of y on some columns of X in each leaf; coefficients and variance integrated out.

    Within a leaf ``y = m0 + c0 + c1 z1 + ... + noise``, where z are the chosen columns, standardised by their weighted
    means and standard deviations in the training table. ``sigma2 ~ InverseGamma(a0, b0)``, ``c0 ~ Normal(0, sigma2 /
    k0)``, ``cj ~ Normal(0, sigma2 / k1)``. With the rows ``f = (1, z)`` of a cell as F, r = y - m0, ``L = diag(k0, k1,
    ...) + F'F`` and ``bn = b0 + (r'r - r'F L^-1 F'r) / 2`` (Gelman et al. 2013, section 14.8; Chipman, George and
    McCulloch 2002)

    ``score = log Gamma(a0 + n/2) - log Gamma(a0) + a0 log b0 - (a0 + n/2) log bn - n/2 log(2 pi)
    + log |diag(k0, k1, ...)| / 2 - log |L| / 2``.

    With no columns this would be `NormalInverseGamma`. The prediction of a leaf depends on the row.

    Parameters
    ----------
    columns : sequence of names or indices
        Ordered columns of X without missing values.
    m0, k0, k1, a0, b0 : float, optional
        By default set from the data: ``m0`` the mean of y; ``k0 = 1/4``, ``k1 = 1`` and ``a0 = 3/2``; ``b0 = a0 *
        var(y) / 4``.
    centers, scales : sequence of float, optional
        The means and standard deviations by which the columns are standardised. Default: those of the training table,
        whose rows count with their weights.

    Raises
    ------
    ValueError
        If a parameter is not finite, or not positive where it must be, or a column is unknown, nominal or lacks values,
        or ``b0`` is left out and the variance of y is below 1e-290.

    Notes
    -----
    A cell has ``(c + 1)(c + 2) / 2 + c + 2`` sums for c columns, and its score costs O(c^3). Trees of such a model
    have no constant leaf values; posteriors predict row by row, at a cost proportional to the number of leaves that may
    contain the row.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> model = pt.TreeModel([[0.0], [1.0], [2.0]], [0.0, 1.1, 1.9], leaf=pt.NormalLinear([0], b0=1.0))
    >>> model.leaf.m0, model.leaf.centers.tolist()
    (1.0, [1.0])
    """

    columns: Sequence[Any]
    m0: float | None = None
    k0: float | None = None
    k1: float | None = None
    a0: float | None = None
    b0: float | None = None
    centers: Any = None
    scales: Any = None
    finite_parameters = ("m0",)
    positive_parameters = ("k0", "k1", "a0", "b0")
    compiled_score = staticmethod(linear_score)

    def __post_init__(self) -> None:
        set_field(self, "columns", read_x_columns("columns", self.columns))
        super().__post_init__()
        for name in ("centers", "scales"):
            if getattr(self, name) is not None:
                refuse_labels(name, getattr(self, name), "of the argument columns")
                values = read_numbers(name, getattr(self, name))
                if values.shape != (len(self.columns),) or not np.isfinite(values).all():
                    raise ValueError(f"{name} has shape {values.shape}; give a finite number for each column.")
                if name == "scales" and np.any(values <= 0.0):
                    raise ValueError("scales must be > 0.")
                set_field(self, name, values)

    @property
    def x_columns(self) -> Sequence[Any]:  # type: ignore[override]
        return self.columns

    def resolve(self, target: Target) -> Self:
        # rows count with their weights
        fraction, columns = target.weights / target.weights.sum(), target.regressors.T
        centers = np.array([portable.weighted_sum(fraction, column) for column in columns])
        deviations = (columns - centers[:, None]) ** 2
        spread = np.sqrt([portable.weighted_sum(fraction, column) for column in deviations])
        return self.with_defaults(
            m0=target.center,
            k0=0.25,
            k1=1.0,
            a0=1.5,
            b0=lambda leaf: leaf.a0 * target.prior_variance / 4.0,
            centers=centers,
            scales=np.where(spread > 0.0, spread, 1.0),
        )

    def score_params(self, target: Target) -> np.ndarray:
        return np.array([len(self.columns) + 1.0, self.a0, self.b0, self.k0, self.k1])

    def _basis(self, regressors: np.ndarray) -> np.ndarray:
        """Return the rows f = (1, z) (n, q): a 1 and the standardised columns, of ``regressors`` (n, q - 1)."""
        return np.column_stack([np.ones(len(regressors)), (regressors - self.centers) / self.scales])

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        basis, residual = self._basis(target.regressors).T, y - self.m0
        i, j = np.tril_indices(len(basis))
        return *(basis[i] * basis[j]), *(basis * residual), residual**2

    def _posterior(self, sums: np.ndarray) -> LinearPosterior:
        """Return the posterior of coefficients and variance in m cells with ``sums`` (m, k)."""
        # the sums are the lower triangle of F'F, F'r and r'r, with the rows of `_basis` as F and r = y - m0
        q = len(self.columns) + 1
        lower, n_products = np.tril_indices(q), q * (q + 1) // 2
        precision = np.empty((len(sums), q, q))
        precision[:, lower[0], lower[1]] = precision[:, lower[1], lower[0]] = sums[:, :n_products]
        precision += np.diag([self.k0] + [self.k1] * (q - 1))
        cross = sums[:, n_products:-1]
        root = cholesky(precision)
        mean = solve_upper(root, solve_lower(root, cross))
        misfit = np.maximum(sums[:, -1] - (mean * cross).sum(axis=1), 0.0)
        return LinearPosterior(mean, root, self.a0 + sums[:, 0] / 2.0, self.b0 + misfit / 2.0)

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        posterior, half = self._posterior(sums[None]), sums[0] / 2.0
        log_prior = (math.log(self.k0) + len(self.columns) * math.log(self.k1)) / 2.0
        ratio = log_gamma_ratio(np.float64(self.a0), np.float64(half))
        ratio -= self.a0 * portable.log1p(posterior.bn[0] / self.b0 - 1.0)
        rest = half * portable.log(posterior.bn[0]) + half * math.log(2.0 * pi)
        return float(ratio - rest + log_prior - portable.log(np.diagonal(posterior.root[0])).sum())

    def value(self, stats: np.ndarray, target: Target, *regressors: np.ndarray) -> np.ndarray:
        return self.m0 + (self._posterior(stats[:, 1:]).mean * self._basis(*regressors)).sum(axis=1, keepdims=True)

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> LinearDistributions:
        return LinearDistributions(self, stats)

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        return [LinearDistributions(self, stats, noise=0.0)]

    def expectation_given(self, parameters: Theta, *regressors: Any) -> np.ndarray:
        return self.m0 + (parameters[0] * self._basis(*regressors)).sum(axis=1, keepdims=True)

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Theta:
        """Draw coefficients (m, q) and standard deviation of the noise (m,) in m leaves from their posterior."""
        # the q coefficients are those of a constant and of the standardised columns. ``stats`` (m, n_stats) are the
        # weight, then the sums that `_posterior` reads
        posterior = self._posterior(stats[:, 1:])
        sigma = np.sqrt(draw_inverse_gamma(rng, posterior.an, posterior.bn))
        deviation = solve_upper(posterior.root, rng.standard_normal(posterior.mean.shape))
        return posterior.mean + sigma[:, None] * deviation, sigma

    def draw_given(self, rng: Generator, parameters: Theta, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        coefficients, sigma = parameters
        basis = self._basis(*regressors) if rows is None else self._basis(target.regressors[rows])
        return self.m0 + (coefficients * basis).sum(axis=1) + sigma * rng.standard_normal(len(sigma))


def cholesky(matrices: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky roots of positive definite ``matrices`` (m, q, q), without LAPACK (`portable`)."""
    root = np.zeros_like(matrices)
    for j in range(matrices.shape[1]):
        rest = matrices[:, j:, j] - (root[:, j:, :j] * root[:, None, j, :j]).sum(axis=2)
        root[:, j:, j] = rest / np.sqrt(rest[:, :1])
    return root


def solve_lower(root: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the solutions x (m, q) of ``L x = right`` (m, q) for lower triangular matrices L (m, q, q)."""
    out = np.zeros_like(right)
    for j in range(right.shape[1]):
        out[:, j] = (right[:, j] - (root[:, j, :j] * out[:, :j]).sum(axis=1)) / root[:, j, j]
    return out


def solve_upper(root: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the solutions x (m, q) of ``L' x = right`` (m, q) for lower triangular matrices L (m, q, q)."""
    out = np.zeros_like(right)
    for j in reversed(range(right.shape[1])):
        out[:, j] = (right[:, j] - (root[:, j + 1 :, j] * out[:, j + 1 :]).sum(axis=1)) / root[:, j, j]
    return out


class LinearPosterior(NamedTuple):
    """Posterior of the coefficients and the variance in m cells."""

    mean: np.ndarray  # (m, q): posterior mean of the coefficients
    # (m, q, q): lower Cholesky root of the posterior precision matrix of the coefficients times sigma2
    root: np.ndarray
    an: np.ndarray
    bn: np.ndarray  # (m,) each: ``sigma2 ~ InverseGamma(an, bn)``


class LinearDistributions(Distributions):
    """Student t distributions of a new y in cells with ``stats`` (m, n_stats), given the regressors of its row."""

    # with `noise` 0 instead of 1 these are the distributions of the mean of y
    def __init__(self, leaf: NormalLinear, stats: np.ndarray, noise: float = 1.0) -> None:
        super().__init__("t", *stats.T)
        self.leaf, self.stats, self.noise = leaf, stats, noise

    def take(self, indices: np.ndarray) -> Self:
        return type(self)(self.leaf, self.stats[indices], self.noise)

    def at(self, regressors: np.ndarray) -> StudentT:
        """Return the distributions given ``regressors`` (m, c), the columns of X of one new row for each cell."""
        posterior, basis = self.leaf._posterior(self.stats[:, 1:]), self.leaf._basis(regressors)
        widened = (solve_lower(posterior.root, basis) ** 2).sum(axis=1)
        location = self.leaf.m0 + (posterior.mean * basis).sum(axis=1)
        return StudentT(2.0 * posterior.an, location, np.sqrt(posterior.bn / posterior.an * (self.noise + widened)))
