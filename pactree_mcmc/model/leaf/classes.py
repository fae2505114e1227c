"""Leaf models of classes: Dirichlet-multinomial, probabilities fixed by the rows E, a loss, and ordered classes."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p, sqrt
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from ...core import portable
from ...core.checks import check_number, refuse_labels, set_field
from ...core.compile.jit import jit
from ...files.encoding import register_class
from .base import DIRICHLET, LAPLACE, LOSS, Leaf, Target, Theta, check_positive
from .distributions import Constant, Distributions, log_fractions, log_gamma_ratio, scalar_stirling_rest, stirling_rest

TABLE_BLOCK = 1 << 15  # number of columns of the table of scores that are computed at a time


class ClassLeaf(Leaf):
    """Base class of leaf models for classes."""

    # the statistics are the weight of each class; if E and S differ, its weight in E and then its weight in S
    is_classifier = True

    def n_stats(self, target: Target) -> int:
        return target.n_classes * (2 if self.splits_sample(target) else 1)

    def splits_sample(self, target: Target) -> bool:
        """Return True if the rows of E (``estimation=``) and the other rows, S, have statistics of their own."""
        return self.uses_estimation and target.estimation is not None

    def labels(self, target: Target) -> np.ndarray:
        if not self.splits_sample(target):
            return target.values
        return target.values + target.n_classes * ~target.estimation

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        return weight * np.log(np.take_along_axis(self.value(stats, target), y[:, None], axis=1)[:, 0])

    def draw_given(self, rng: Generator, parameters: Theta, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        # the parameters are the class probabilities (n, K)
        at_most = parameters[0].cumsum(axis=1)
        return (rng.random(len(at_most))[:, None] >= (at_most / at_most[:, -1:])[:, :-1]).sum(axis=1)


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class DirichletMultinomial(ClassLeaf):
    """Classes with a Dirichlet prior on their probabilities, integrated out (Chipman et al. 1998).

    Predicts ``(n_i + alpha) / (n + K alpha)``.

    Parameters
    ----------
    alpha : float or array of shape (K,), default 1.0
        Prior counts, > 0; an array follows the sorted classes.

    Raises
    ------
    ValueError
        If an entry is not positive and finite, or there are not K entries.

    Examples
    --------
    >>> DirichletMultinomial(2.5)
    DirichletMultinomial(alpha=2.5)
    """

    alpha: Any = 1.0
    kind = DIRICHLET

    def __post_init__(self) -> None:
        refuse_labels("alpha", self.alpha, "of the sorted classes")
        check_positive("alpha", self.alpha, entries=True)

    def resolve(self, target: Target) -> Self:
        if np.ndim(self.alpha) and np.shape(self.alpha) != (target.n_classes,):
            raise ValueError(f"alpha has shape {np.shape(self.alpha)}; y has {target.n_classes} classes: give one each")
        return self

    def _alpha(self, target: Target) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), target.n_classes)

    def params(self, target: Target) -> np.ndarray:
        alpha = self._alpha(target)
        return np.concatenate([[alpha.sum(), stirling_rest(alpha.sum())], alpha, stirling_rest(alpha)])

    def lookup(self, target: Target) -> np.ndarray:
        alpha = self._alpha(target)
        n = target.integer_weights(len(alpha) + 1)
        if n is None:
            return super().lookup(target)
        # the terms linear in n cancel between classes and total; entries without them are small, and so are errors
        x = np.append(alpha, alpha.sum())[:, None]
        before, out = stirling_rest(x), np.empty((len(x), len(n)))
        for first in range(0, len(n), TABLE_BLOCK):
            w = n[first : first + TABLE_BLOCK]
            rest = stirling_rest(x + w) - before
            term = (x - 0.5) * portable.log1p(w / x) + w * portable.log((x + w) / (n[-1] + alpha.sum())) + rest
            out[:, first : first + TABLE_BLOCK] = term
        return out

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        alpha = self._alpha(target)
        total = alpha.sum()
        class_terms = (alpha - 0.5) * portable.log1p(sums / alpha) + stirling_rest(alpha + sums) - stirling_rest(alpha)
        rest = stirling_rest(total + sums.sum()) - stirling_rest(total)
        total_term = (total - 0.5) * portable.log1p(sums.sum() / total) + rest
        return float((sums * log_fractions(alpha + sums) + class_terms).sum() - total_term)

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        counts = stats + self._alpha(target)
        return counts / counts.sum(axis=1, keepdims=True)

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        weight = np.broadcast_to(weight, len(y))
        single_density = super().log_density(stats, y, target)
        counts = stats + self._alpha(target)
        of_class = log_gamma_ratio(np.take_along_axis(counts, y[:, None], axis=1)[:, 0], weight)
        return np.where(weight == 1.0, single_density, of_class - log_gamma_ratio(counts.sum(axis=1), weight))

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        counts = stats + self._alpha(target)
        if counts.shape[1] == 1:
            return [Constant(np.ones(len(counts)))]
        # not the sum minus the count, which may be 0 by rounding
        others = counts @ (1.0 - np.eye(counts.shape[1]))
        return [Distributions("beta", *pair) for pair in zip(counts.T, others.T, strict=True)]

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Theta:
        alpha = self._alpha(target)
        return (np.array([rng.dirichlet(counts + alpha) for counts in stats]),)


@jit
def dirichlet_score(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Return the Dirichlet-multinomial score in nats of the cell ``stats[row]``, the weights by class."""
    # `params`: sum of alpha, its `stirling_rest`, alpha of each class, `stirling_rest` of each
    # log of Gamma(A) / Gamma(A + N) times the product of Gamma(a_i + n_i) / Gamma(a_i), A and N sums of a_i and n_i, by
    # Stirling's formula: its large terms n_i log((a_i + n_i) / (A + N)) are -n_i log1p(others / (a_i + n_i))
    n_classes, total = stats.shape[1], 0.0
    for i in range(n_classes):
        total += stats[row, i]
    if total <= 0.0:
        return 0.0
    posterior_total = params[0] + total
    score = params[1] - scalar_stirling_rest(posterior_total) - (params[0] - 0.5) * log1p(total / params[0])
    for i in range(n_classes):
        n, alpha = stats[row, i], params[2 + i]
        if n > 0.0:
            others = posterior_total - (alpha + n)
            if others < alpha + n:
                others = 0.0
                for j in range(n_classes):
                    if j != i:
                        others += params[2 + j] + stats[row, j]
            score += (alpha - 0.5) * log1p(n / alpha) - n * log1p(others / (alpha + n))
            score += scalar_stirling_rest(alpha + n) - params[2 + n_classes + i]
    return score


@jit
def counts_score(log_rising: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Return the Dirichlet-multinomial score in nats of the cell ``stats[row]``, the (K,) integer counts by class."""
    # `log_rising` (K + 1, m): entry n of row i is log Gamma(alpha_i + n) - log Gamma(alpha_i), and of the last row the
    # same of the sum of alpha, less multiples of n that cancel in the score
    total, score = np.int64(0), 0.0
    for i in range(stats.shape[1]):
        count = np.int64(stats[row, i])
        total += count
        score += log_rising[i, count]
    return score - log_rising[stats.shape[1], total]


@jit
def add_counts_scores_into(out: np.ndarray, log_rising: np.ndarray, stats: np.ndarray, n: int) -> None:
    """Add the `counts_score`, by ``log_rising``, of the first ``n`` cells, rows of ``stats`` (m, K), to ``out``."""
    if stats.shape[1] != 2:
        for row in range(n):
            out[row] += counts_score(log_rising, stats, row)
        return
    first, second, total_term = log_rising[0], log_rising[1], log_rising[2]
    for row in range(n):
        a, b = np.int64(stats[row, 0]), np.int64(stats[row, 1])
        out[row] += first[a] + second[b] - total_term[a + b]


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class FrozenLaplace(ClassLeaf):
    """Class probabilities frozen on the estimation rows E, scored on the rest S (Blanchard 1999, section 3).

    Predicts ``(n_i + a) / (n + K a)`` with the counts of E. Needs ``estimation=`` in the model.

    Parameters
    ----------
    pseudocount : float, default 1.0
        The a above, > 0.

    Raises
    ------
    ValueError
        If the pseudocount is not positive and finite.

    Examples
    --------
    >>> FrozenLaplace()
    FrozenLaplace(pseudocount=1.0)
    """

    pseudocount: float = 1.0
    kind = LAPLACE
    uses_estimation = True
    positive_parameters = ("pseudocount",)

    def resolve(self, target: Target) -> Self:
        if target.estimation is None:
            raise ValueError("FrozenLaplace needs estimation=: a boolean mask (n,) of the rows that freeze the leaves.")
        if not target.estimation.any():
            raise ValueError("the estimation mask selects no row; FrozenLaplace would learn nothing: mark some as True")
        return self

    def params(self, target: Target) -> np.ndarray:
        return np.array([float(self.pseudocount)])

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        return float((sums[target.n_classes :] * log_fractions(sums[: target.n_classes] + self.pseudocount)).sum())

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        counts = stats[:, : target.n_classes] + self.pseudocount
        return counts / counts.sum(axis=1, keepdims=True)

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        return [Constant(column) for column in self.value(stats, target).T]

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Theta:
        return (self.value(stats, target),)


@jit
def laplace_score(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Return the log likelihood in nats of a cell's rows of S under class probabilities by its rows of E."""
    # these are proportional to weight plus params[0]; `stats[row]`: weights of E by class, then of S by class
    n_classes = stats.shape[1] // 2
    total, score = 0.0, 0.0
    for i in range(n_classes):
        total += stats[row, i] + params[0]
    for i in range(n_classes):
        weight_in_s, count_in_e = stats[row, n_classes + i], stats[row, i] + params[0]
        if weight_in_s > 0.0:
            others = total - count_in_e
            if others < count_in_e:
                others = 0.0
                for j in range(n_classes):
                    if j != i:
                        others += stats[row, j] + params[0]
            score -= weight_in_s * log1p(others / count_in_e)
    return score


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class PacBayesLoss(ClassLeaf):
    """Gibbs score ``-lambda1 * errors - lambda2 * sqrt(n)`` of a fixed label (Nguyen and Kpotufe 2018).

    The label of a cell is the majority class of its rows (of its rows in E if ``estimation=`` is given; errors and n
    are then counted on S); ties and empty cells get the smallest class. Predicts the label, so that averages over trees
    are votes.

    Parameters
    ----------
    lambda1 : float
        Cost of an error in nats, >= 0.
    lambda2 : float, default 0.0
        Coefficient of the square root of the number of rows of a leaf, nats, >= 0.

    Raises
    ------
    ValueError
        If a parameter is negative or not finite.

    Examples
    --------
    >>> PacBayesLoss(1.0)
    PacBayesLoss(lambda1=1.0, lambda2=0.0)
    """

    lambda1: float
    lambda2: float = 0.0
    kind = LOSS
    uses_estimation = True
    depends_on_n_classes = False
    has_likelihood = False

    def __post_init__(self) -> None:
        for name in ("lambda1", "lambda2"):
            set_field(self, name, check_number(name, getattr(self, name), "a finite number >= 0", 0.0))

    def resolve(self, target: Target) -> Self:
        if target.estimation is not None and not target.estimation.any():
            raise ValueError("the estimation mask selects no row; PacBayesLoss would have no labels: mark some as True")
        return self

    def params(self, target: Target) -> np.ndarray:
        return np.array([self.lambda1, self.lambda2, target.n_classes], dtype=np.float64)

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        label = int(np.argmax(sums[: target.n_classes]))
        counted = sums[-target.n_classes :]
        return float(-self.lambda1 * np.delete(counted, label).sum() - self.lambda2 * np.sqrt(counted.sum()))

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return np.eye(target.n_classes)[np.argmax(stats[:, : target.n_classes], axis=1)]

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        raise ValueError("PacBayesLoss is a loss, not a likelihood; there is no log_likelihood.")


@jit
def loss_score(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Return the score ``-lambda1 * errors - lambda2 * sqrt(n)`` in nats of the cell ``stats[row]``."""
    # errors: weight of the rows of S outside the majority class of those of E, n: weight of its rows of S. `params`:
    # lambda1, lambda2, number of classes; `stats[row]`: weights by class of E, then of S, once if they are the same
    n_classes = np.int64(params[2])
    label, best = 0, stats[row, 0]
    for i in range(1, n_classes):
        if stats[row, i] > best:
            label, best = i, stats[row, i]
    first_counted = stats.shape[1] - n_classes
    errors = 0.0
    for i in range(n_classes):
        errors += stats[row, first_counted + i] if i != label else 0.0
    return -params[0] * errors - params[1] * sqrt(errors + stats[row, first_counted + label])
