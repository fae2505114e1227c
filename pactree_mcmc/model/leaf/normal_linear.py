"""Leaf model with a linear regression in each leaf, coefficients and variance integrated out (formulas, section 3)."""

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
from ...files.encoding import register_class
from .base import Leaf, Target, Theta
from .custom import read_x_columns
from .distributions import Distributions, StudentT
from .gamma import log_gamma_ratio


@by_address
def linear_score(s: Any, n: int, params: Any) -> float:
    """Return the log marginal likelihood in nats of a cell under `NormalLinear`, by a Cholesky factorisation.

    ``s``: ``n`` sums, the lower triangle of F'F (q, q), row by row, F'r, r'r, with rows (1, standardised columns) as F
    and r = y - m0. ``params``: q, and parameters of the prior, a0, b0, k0, k1.
    """
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

    Within a leaf ``y = m0 + c0 + c1 z1 + ... + noise``, where z are the chosen columns, standardised by their means and
    standard deviations in the training table. ``sigma2 ~ InverseGamma(a0, b0)``, ``c0 ~ Normal(0, sigma2 / k0)``, ``cj
    ~ Normal(0, sigma2 / k1)``. With the rows ``f = (1, z)`` of a cell as F, r = y - m0, ``L = diag(k0, k1, ...) + F'F``
    and ``bn = b0 + (r'r - r'F L^-1 F'r) / 2`` (Gelman et al. 2013, section 14.8; Chipman, George and McCulloch 2002)

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
        The means and standard deviations by which the columns are standardised. Default: those of the training table.

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
        spread = target.regressors.std(axis=0)
        return self.with_defaults(
            m0=target.center,
            k0=0.25,
            k1=1.0,
            a0=1.5,
            b0=lambda leaf: leaf.a0 * target.prior_variance / 4.0,
            centers=target.regressors.mean(axis=0),
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
        ratio = log_gamma_ratio(np.float64(self.a0), np.float64(half)) - self.a0 * portable.log1p(
            posterior.bn[0] / self.b0 - 1.0
        )
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
        """Draw coefficients (m, q) and standard deviation of the noise (m,) in m leaves from their posterior.

        The q coefficients are those of a constant and of the standardised columns. ``stats`` (m, n_stats) are the
        weight, then the sums that `_posterior` reads.
        """
        posterior = self._posterior(stats[:, 1:])
        sigma = np.sqrt(posterior.bn / rng.gamma(posterior.an))
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
