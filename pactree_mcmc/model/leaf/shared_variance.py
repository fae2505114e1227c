"""The leaf model for numbers with an unknown noise variance that is the same in all leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from ...files.encoding import kept
from . import codes
from .base import check_finite, settle_parameters
from .distributions import StudentT
from .gamma import log_gamma_ratio
from .known_variance import NormalKnownVariance, known_normal_params
from .normal import log_student_density
from .of_numbers import MomentLeaf, drawn_normal, with_normal_defaults
from .target import Target


@kept
@dataclass(frozen=True, eq=False)
class NormalSharedVariance(MomentLeaf):
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

    m0: float | None = None
    k0: float | None = None
    a0: float | None = None
    b0: float | None = None
    kind = codes.SHARED_NORMAL
    separates = False

    def __post_init__(self) -> None:
        check_finite("m0", self.m0)
        settle_parameters(self, "k0", "a0", "b0")

    def resolve(self, target: Target) -> Self:
        return with_normal_defaults(self, target)

    def params(self, target: Target) -> np.ndarray:
        return known_normal_params(self.b0 / self.a0, self.m0 - target.center, self.k0, self.a0, self.b0)

    def lookup(self, target: Target) -> np.ndarray:
        return self.given(1.0).lookup(target)

    def given(self, sigma2: float) -> NormalKnownVariance:
        """The leaf model once the variance is known."""
        return NormalKnownVariance(float(sigma2), self.m0, self.k0)

    def for_one_tree(self, rng: np.random.Generator) -> NormalKnownVariance:
        return self.given(self.b0 / rng.gamma(self.a0))

    def _misfit(self, stats: np.ndarray, target: Target) -> np.ndarray:
        """What each leaf adds to twice the rate of the variance's posterior, (m,)."""
        n, mean, scatter = self.spread(stats)
        return scatter + self.k0 * n * (mean - (self.m0 - target.center)) ** 2 / (self.k0 + n)

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> StudentT:
        """The variance integrated out given the tree, so that the one drawn with it is not needed."""
        leaf, out = tree >= 0, np.zeros((2, len(tree)))
        for i, amount in enumerate((stats[:, 0], self._misfit(stats, target))):
            out[i] = np.bincount(tree[leaf], weights=amount[leaf])[tree]
        an, bn = self.a0 + out[0] / 2.0, self.b0 + out[1] / 2.0
        scale = np.sqrt(bn / an * (1.0 + 1.0 / (self.k0 + stats[:, 0])))
        return StudentT(2.0 * an, self.value(stats, target)[:, 0], scale)

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
    ) -> np.ndarray:
        an = self.a0 + stats[:, 0].sum() / 2.0
        bn = self.b0 + self._misfit(stats, target).sum() / 2.0
        sigma2 = np.full(len(stats), bn / rng.gamma(an))
        return drawn_normal(rng, self.value(stats, target)[:, 0], self.k0 + stats[:, 0], sigma2, leaf)

    def log_tree_score(self, stats: np.ndarray, target: Target) -> float:
        n, misfit = stats[:, 0], self._misfit(stats, target).sum()
        bn = self.b0 + misfit / 2.0
        return float(
            np.log(self.k0 / (self.k0 + n)).sum() / 2.0
            + log_gamma_ratio(self.a0, n.sum() / 2.0)
            - self.a0 * math.log1p(misfit / 2.0 / self.b0)
            - n.sum() / 2.0 * math.log(bn)
            - n.sum() / 2.0 * math.log(2.0 * math.pi)
        )

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return self.given(1.0).value(stats, target)

    def log_density_left_out(self, others: np.ndarray, node: np.ndarray, target: Target) -> np.ndarray:
        """The variance integrated out given the other rows of the whole tree, so that the one drawn is not needed."""
        weight, own = target.weights, self.row_stats(target)
        leaves = np.array([np.bincount(node, weights=part) for part in own.T]).T
        elsewhere = sums_of_others(self._misfit(leaves, target))[node]
        an = self.a0 + (sums_of_others(leaves[:, 0])[node] + others[:, 0]) / 2.0
        bn = self.b0 + (elsewhere + self._misfit(others, target)) / 2.0
        apart = target.values - target.center - self.given(1.0).mean_from_center(others, target)
        return log_student_density(apart, weight, self.k0 + others[:, 0], an, bn)

    def log_influence(self, others: np.ndarray, node: np.ndarray, target: Target) -> np.ndarray:
        """Return the influence given the posterior mean of the variance's reciprocal, which one row hardly changes."""
        leaves = np.array([np.bincount(node, weights=part) for part in self.row_stats(target).T]).T
        an = self.a0 + leaves[:, 0].sum() / 2.0
        known = self.given((self.b0 + self._misfit(leaves, target).sum() / 2.0) / an)
        return known.log_influence(others, node, target)


def sums_of_others(values: np.ndarray) -> np.ndarray:
    """Sum of all ``values`` (m,) but each, without taking a difference."""
    before = np.concatenate([[0.0], np.cumsum(values[:-1])])
    behind = np.concatenate([np.cumsum(values[:0:-1])[::-1], [0.0]])
    return before + behind
