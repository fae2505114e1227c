"""Several outputs at once: multivariate normal y, mean and covariance integrated out (formulas, section 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log, pi, sqrt
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from ...core.checks import check_count, read_numbers, settle
from ...core.compile.address import by_address
from ...core.special import gammaln
from ...files.encoding import kept
from .base import Draws, Leaf
from .distributions import Distributions, StudentT
from .target import Target, check_variance


@by_address
def multivariate_normal_score(s: Any, n: int, params: Any) -> float:
    """Return the score. ``s``: weight, sums of y - m0, their products below and on the diagonal, row by row.

    ``params``: d, k0, nu0, log |S0|, S0 below and on the diagonal.
    """
    d, k0, nu, weight = int(params[0]), params[1], params[2], s[0]
    kn, factor, at, log_determinant = k0 + s[0], np.empty((d, d)), 0, 0.0
    score = -0.5 * weight * d * log(pi) - 0.5 * d * log(kn / k0)
    for i in range(d):
        for j in range(i + 1):
            total = params[4 + at] + s[1 + d + at] - s[1 + i] * s[1 + j] / kn
            at += 1
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            factor[i, j] = sqrt(total) if i == j else total / factor[j, j]
        log_determinant += 2.0 * log(factor[i, i])
        score += lgamma(0.5 * (nu + weight - i)) - lgamma(0.5 * (nu - i))
    return score + 0.5 * nu * params[3] - 0.5 * (nu + weight) * log_determinant


@kept
@dataclass(frozen=True, eq=False)
class MultivariateNormal(Leaf):
    """Several outputs with a multivariate normal distribution in each leaf, mean and covariance integrated out.

    y has d columns, (n, d). ``Sigma ~ InverseWishart(nu0, S0)``, ``mu ~ Normal(m0, Sigma / k0)``. With n rows of mean m
    and scatter matrix S about it, ``kn = k0 + n``, ``nun = nu0 + n`` and ``Sn = S0 + S + k0 n / kn (m - m0)(m - m0)'``
    (Murphy 2007, section 9.2; Gelman et al. 2013, section 3.6)

    ``score = - n d / 2 log(pi) + log Gamma_d(nun / 2) - log Gamma_d(nu0 / 2) + nu0 / 2 log |S0| - nun / 2 log |Sn|
    + d / 2 log(k0 / kn)``, where Gamma_d is the multivariate gamma function.

    Predicts the posterior means of the outputs, (n, d). `sample_predictive` draws outputs jointly; there are no
    quantiles of several outputs, so `predict_interval` refuses.

    Parameters
    ----------
    outputs : int
        Number d of outputs, at least 2.
    k0 : float, optional
        Default 1/4.
    nu0 : float, optional
        > d - 1. Default ``d + 2``, for which the prior mean of Sigma is S0.
    m0 : sequence of d floats, optional
        Default: the means of the outputs.
    S0 : array of shape (d, d), optional
        Symmetric, positive definite. Default: diagonal, a quarter of the variances of the outputs.

    Raises
    ------
    ValueError
        If a parameter is out of range or has another shape, or ``S0`` is left out and a column of y is too small to set
        it by its variance.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> y = np.column_stack([np.arange(8.0) > 3, np.arange(8.0) < 4]) + 0.1 * np.sin(np.arange(16.0)).reshape(8, 2)
    >>> model = pt.TreeModel(np.arange(8.0)[:, None], y, leaf=pt.MultivariateNormal(2))
    >>> pt.sample(model, 100, tune=100, chains=2, rng=1, kernel="grow-prune").predict([[0.0]]).shape
    (1, 2)
    """

    outputs: int
    k0: float | None = None
    nu0: float | None = None
    m0: Any = None
    S0: Any = None
    positive = ("k0", "nu0")
    compiled_score = staticmethod(multivariate_normal_score)

    def __post_init__(self) -> None:
        settle(self, "outputs", check_count("outputs", self.outputs, 2))
        super().__post_init__()
        d = self.outputs
        if self.nu0 is not None and not self.nu0 > d - 1:
            raise ValueError(f"nu0={self.nu0} is out of range; give nu0 > {d - 1}.")
        for name, shape in (("m0", (d,)), ("S0", (d, d))):
            if getattr(self, name) is not None:
                values = read_numbers(name, getattr(self, name))
                if values.shape != shape or not np.isfinite(values).all():
                    raise ValueError(f"{name} has shape {values.shape}; give finite numbers of shape {shape}.")
                settle(self, name, values)
        if self.S0 is not None and (not np.array_equal(self.S0, self.S0.T) or np.linalg.eigvalsh(self.S0)[0] <= 0.0):
            raise ValueError("S0 must be symmetric and positive definite.")

    @property
    def y_columns(self) -> int:  # type: ignore[override]
        return self.outputs

    def resolve(self, target: Target) -> Self:
        total = target.weights.sum()
        fraction = target.weights / total if total > 0.0 else np.full(len(target.values), 1.0 / len(target.values))
        mean = fraction @ target.values
        return self.with_defaults(
            k0=0.25,
            nu0=self.outputs + 2.0,
            m0=mean,
            S0=lambda leaf: np.diag(_variances(target.values, mean, fraction) / 4.0),
        )

    def score_params(self, target: Target) -> np.ndarray:
        lower = self.S0[np.tril_indices(self.outputs)]
        return np.array([self.outputs, self.k0, self.nu0, np.linalg.slogdet(self.S0)[1], *lower])

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        i, j = np.tril_indices(self.outputs)
        rest = (y - self.m0).T
        return np.ones(len(y)), *rest, *(rest[i] * rest[j])

    def _posterior(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return kn (m,), mean less m0 (m, d), and scale matrix (m, d, d) of cells with the sums (m, k)."""
        d, (i, j) = self.outputs, np.tril_indices(self.outputs)
        kn, total = self.k0 + sums[:, 0], sums[:, 1 : d + 1]
        scale = np.empty((len(sums), d, d))
        scale[:, i, j] = scale[:, j, i] = sums[:, d + 1 :]
        scale += self.S0 - total[:, :, None] * total[:, None, :] / kn[:, None, None]
        return kn, total / kn[:, None], scale

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        d, n, nu = self.outputs, sums[0], self.nu0
        kn, _, scale = self._posterior(sums[None])
        half = np.arange(d) / 2.0
        gamma = gammaln((nu + n) / 2.0 - half).sum() - gammaln(nu / 2.0 - half).sum()
        before, after = np.linalg.slogdet(self.S0)[1], np.linalg.slogdet(scale[0])[1]
        shrunk = d / 2.0 * math.log(self.k0 / kn[0])
        return float(gamma + shrunk + nu / 2.0 * before - (nu + n) / 2.0 * after - n * d / 2.0 * math.log(pi))

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return self.m0 + self._posterior(stats[:, 1:])[1]

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> Any:
        raise ValueError(
            f"y has {self.outputs} outputs, which have no quantiles, intervals or standard deviation: "
            "sample_predictive draws them jointly."
        )

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        kn, mean, scale = self._posterior(stats[:, 1:])
        df = self.nu0 + stats[:, 1] - self.outputs + 1.0
        spread = np.sqrt(np.diagonal(scale, axis1=1, axis2=2) / (kn * df)[:, None])
        return [StudentT(df, self.m0[j] + mean[:, j], spread[:, j]) for j in range(self.outputs)]

    def expectation_given(self, parameters: Draws, *regressors: Any) -> np.ndarray:
        return self.m0 + parameters[0]

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Draws:
        d, (kn, mean, scale) = self.outputs, self._posterior(stats[:, 1:])
        # a Wishart matrix as L A A' L', A with roots of chi-squares on its diagonal and normals below it
        chi = rng.chisquare(self.nu0 + stats[:, 1, None] - np.arange(d))
        lower = np.tril(rng.standard_normal((len(stats), d, d)), -1)
        lower[:, np.arange(d), np.arange(d)] = np.sqrt(chi)
        root = np.linalg.cholesky(scale) @ np.linalg.inv(lower).transpose(0, 2, 1)
        center = mean + (root @ rng.standard_normal((len(stats), d, 1)))[:, :, 0] / np.sqrt(kn)[:, None]
        return center, root

    def draw_given(self, rng: Generator, parameters: Draws, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        center, root = parameters
        noise = (root @ rng.standard_normal((len(root), self.outputs, 1)))[:, :, 0]
        return self.m0 + center + noise


def _variances(y: np.ndarray, mean: np.ndarray, fraction: np.ndarray) -> np.ndarray:
    """Return variances (d,) of the columns of y (n, d), rows by ``fraction`` (n,); 1 for a constant column."""
    counted = y[fraction > 0.0]
    # rounding leaves the variance of a constant above zero
    is_constant = (counted == counted[0]).all(axis=0)
    return np.array([check_variance(v) for v in np.where(is_constant, 1.0, fraction @ (y - mean) ** 2).tolist()])
