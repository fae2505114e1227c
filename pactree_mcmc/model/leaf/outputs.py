"""Leaf models of several normal outputs, independent or correlated given the leaf (formulas, section 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log, pi, sqrt
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from ...core.checks import check_count, read_numbers, refuse_labels, repr_of, set_field
from ...core.compile.address import by_address
from ...core.special import gammaln
from ...files.encoding import register_class
from .base import Leaf, Target, Theta, check_variance
from .distributions import Distributions, StudentT
from .gamma import log_gamma_ratio


@by_address
def independent_normals_score(s: Any, n: int, params: Any) -> float:
    """Return the log marginal likelihood in nats of a cell under `IndependentNormals`, summed over outputs.

    ``s``, ``n`` sums: for each output the weight of the rows with a value of it, the sum of y - m0, the sum of (y -
    m0)^2. ``params``: k0, a0, then b0 of each output.
    """
    k0, a0, score = params[0], params[1], 0.0
    for j in range(n // 3):
        weight, total, b0 = s[3 * j], s[3 * j + 1], params[2 + j]
        bn = b0 + 0.5 * (s[3 * j + 2] - total * total / (k0 + weight))
        score += lgamma(a0 + 0.5 * weight) - lgamma(a0) - 0.5 * log((k0 + weight) / k0)
        score += a0 * log(b0) - (a0 + 0.5 * weight) * log(bn) - 0.5 * weight * log(2.0 * pi)
    return score


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class IndependentNormals(Leaf):
    """Several outputs, independent normal ones in each leaf, of which any may be missing (NaN).

    y has d columns, (n, d). Each output has a mean and a variance of its own in each leaf, with the prior of
    `NormalInverseGamma`: ``sigma2 ~ InverseGamma(a0, b0)``, ``mu ~ Normal(m0, sigma2 / k0)``, integrated out. The score
    is the sum of the scores of the outputs, each of the rows that have a value of it. So a row that lacks some outputs
    counts for the others, and the posterior is exact if values are missing at random.

    Predicts the posterior means of the outputs, (n, d). `sample_predictive` draws all of them; there are no quantiles
    of several outputs, so `predict_interval` refuses.

    Parameters
    ----------
    outputs : int
        Number d of outputs, at least 2.
    k0, a0 : float, optional
        By default 1/4 and 3/2, as of `NormalInverseGamma`.
    m0, b0 : sequence of d floats, optional
        By default set from the data: the mean of each output, and ``a0 / 4`` times its variance, both over the rows
        that have a value of it.

    Raises
    ------
    ValueError
        If a parameter is out of range, a column of y has no value at all, or its variance is below 1e-290.

    Notes
    -----
    `MultivariateNormal` has correlated outputs; with missing values its posterior has no closed form, and it refuses
    them.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> y = [[0.1, 1.0], [0.2, float("nan")], [5.0, 4.0]]
    >>> pt.TreeModel([[0.0], [1.0], [2.0]], y, leaf=pt.IndependentNormals(2)).leaf.m0.round(2).tolist()
    [1.77, 2.5]
    """

    outputs: int
    k0: float | None = None
    a0: float | None = None
    m0: Any = None
    b0: Any = None
    positive_parameters = ("k0", "a0")
    compiled_score = staticmethod(independent_normals_score)
    may_lack_y = True

    def __post_init__(self) -> None:
        set_field(self, "outputs", check_count("outputs", self.outputs, 2))
        super().__post_init__()
        for name in ("m0", "b0"):
            values = getattr(self, name)
            if values is None:
                continue
            refuse_labels(name, values, "of the columns of y")
            values = np.array(read_numbers(name, values))
            least, valid_text = (-np.inf, "finite numbers") if name == "m0" else (0.0, "finite numbers > 0")
            if values.shape != (self.outputs,) or not np.all(np.isfinite(values) & (values > least)):
                raise ValueError(
                    f"{name}={repr_of(values.tolist())} is out of range; give {self.outputs} {valid_text}."
                )
            set_field(self, name, values)

    @property
    def y_columns(self) -> int:  # type: ignore[override]
        return self.outputs

    def resolve(self, target: Target) -> Self:
        means, variances = [], []
        for j, y in enumerate(target.values.T):
            has_value = ~np.isnan(y) & ((target.weights > 0.0) | ~target.weights.any())
            if not has_value.any():
                raise ValueError(f"column {j} of y has no value at all in rows that count; drop it.")
            weight = np.where(target.weights.any(), target.weights, 1.0)[has_value]
            fraction, values = weight / weight.sum(), y[has_value]
            means.append(float(fraction @ values))
            variance = float(fraction @ (values - means[-1]) ** 2)
            # rounding leaves the variance of a constant above zero
            variances.append(check_variance(1.0 if (values == values[0]).all() else variance))
        return self.with_defaults(
            k0=0.25, a0=1.5, m0=np.array(means), b0=lambda leaf: leaf.a0 * np.array(variances) / 4.0
        )

    def score_params(self, target: Target) -> np.ndarray:
        return np.array([self.k0, self.a0, *self.b0])

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        r = y - self.m0
        has_value = ~np.isnan(r)
        r = np.where(has_value, r, 0.0)
        return [part[:, j] for j in range(self.outputs) for part in (has_value.astype(np.float64), r, r**2)]

    def _posterior(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return mean, kn, an and bn (m, d) of the posterior of each output in cells with ``sums`` (m, 3 d).

        It is ``sigma2 ~ InverseGamma(an, bn)``, and ``mu ~ Normal(mean, sigma2 / kn)`` given sigma2. The sums of an
        output are weight, y - m0 and its square.
        """
        n, total, square = np.moveaxis(sums.reshape(len(sums), self.outputs, 3), 2, 0)
        kn = self.k0 + n
        return self.m0 + total / kn, kn, self.a0 + n / 2.0, self.b0 + (square - total**2 / kn) / 2.0

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        _, kn, _, bn = (part[0] for part in self._posterior(sums[None]))
        half = sums[::3] / 2.0
        gamma = log_gamma_ratio(np.full(self.outputs, self.a0), half) + 0.5 * np.log(self.k0 / kn)
        rest = self.a0 * np.log(self.b0) - (self.a0 + half) * np.log(bn) - half * math.log(2.0 * math.pi)
        return float((gamma + rest).sum())

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return self._posterior(stats[:, 1:])[0]

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> Any:
        raise ValueError(
            f"y has {self.outputs} outputs, which have no quantiles, intervals or standard deviation: "
            "sample_predictive draws them."
        )

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        mean, kn, an, bn = self._posterior(stats[:, 1:])
        spread = np.sqrt(bn / (an * kn))
        return [StudentT(2.0 * an[:, j], mean[:, j], spread[:, j]) for j in range(self.outputs)]

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Theta:
        """Draw mean and standard deviation, (m, d) each, of the outputs in m leaves from their posterior.

        ``stats`` (m, 1 + 3 d): weight, then for each output the weight of the rows that have it, and the sums of y - m0
        and of (y - m0)^2.
        """
        mean, kn, an, bn = self._posterior(stats[:, 1:])
        variance = bn / rng.gamma(an)
        return rng.normal(mean, np.sqrt(variance / kn)), np.sqrt(variance)

    def draw_given(self, rng: Generator, parameters: Theta, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        return rng.normal(*parameters)


@by_address
def multivariate_normal_score(s: Any, n: int, params: Any) -> float:
    """Return the log marginal likelihood in nats of a cell under `MultivariateNormal`, by a Cholesky factorisation.

    ``s``, ``n`` sums: weight, sums of r = y - m0, then the lower triangle of the sum of r r', row by row. ``params``:
    d, k0, nu0, log |S0|, the lower triangle of S0, with the prior InverseWishart(nu0, S0).
    """
    d, k0, nu, weight = int(params[0]), params[1], params[2], s[0]
    kn, factor, index, log_determinant = k0 + s[0], np.empty((d, d)), 0, 0.0
    score = -0.5 * weight * d * log(pi) - 0.5 * d * log(kn / k0)
    # Sn = A A' row by row, so that log |Sn| is the sum of 2 log a_ii
    for i in range(d):
        for j in range(i + 1):
            total = params[4 + index] + s[1 + d + index] - s[1 + i] * s[1 + j] / kn
            index += 1
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            factor[i, j] = sqrt(total) if i == j else total / factor[j, j]
        log_determinant += 2.0 * log(factor[i, i])
        score += lgamma(0.5 * (nu + weight - i)) - lgamma(0.5 * (nu - i))
    return score + 0.5 * nu * params[3] - 0.5 * (nu + weight) * log_determinant


@register_class
@dataclass(frozen=True, eq=False, repr=False)
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
    >>> import pactree_mcmc as pt
    >>> y = [[0.1, 1.0], [0.2, 2.0], [5.0, 4.0]]
    >>> pt.TreeModel([[0.0], [1.0], [2.0]], y, leaf=pt.MultivariateNormal(2)).leaf.nu0
    4.0
    """

    outputs: int
    k0: float | None = None
    nu0: float | None = None
    m0: Any = None
    S0: Any = None
    positive_parameters = ("k0", "nu0")
    compiled_score = staticmethod(multivariate_normal_score)

    def __post_init__(self) -> None:
        set_field(self, "outputs", check_count("outputs", self.outputs, 2))
        super().__post_init__()
        d = self.outputs
        if self.nu0 is not None and not self.nu0 > d - 1:
            raise ValueError(f"nu0={self.nu0} is out of range; give nu0 > {d - 1}.")
        for name, shape in (("m0", (d,)), ("S0", (d, d))):
            if getattr(self, name) is not None:
                refuse_labels(name, getattr(self, name), "of the columns of y")
                values = read_numbers(name, getattr(self, name))
                if values.shape != shape or not np.isfinite(values).all():
                    raise ValueError(f"{name} has shape {values.shape}; give finite numbers of shape {shape}.")
                set_field(self, name, values)
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
        residual = (y - self.m0).T
        return np.ones(len(y)), *residual, *(residual[i] * residual[j])

    def _posterior(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return k0 + n (m,), the posterior mean less m0 (m, d), and the inverse Wishart scale Sn (m, d, d) of cells.

        ``sums`` (m, k) are those of `statistics`: weight, y - m0 (d sums), lower triangle of its products.
        """
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

    def expectation_given(self, parameters: Theta, *regressors: Any) -> np.ndarray:
        return self.m0 + parameters[0]

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Theta:
        """Draw the mean less m0 (m, d) and a root R (m, d, d), with Sigma = R R', from the posterior of m leaves.

        ``stats`` (m, n_stats) are the weight, then the sums of `statistics`.
        """
        d, (kn, mean, scale) = self.outputs, self._posterior(stats[:, 1:])
        # Bartlett: Sigma = L A^-T A^-1 L' is inverse Wishart if L L' = Sn and A is lower triangular, with roots of
        # chi-square variables on its diagonal and normal variables below it
        chi_square = rng.chisquare(self.nu0 + stats[:, 1, None] - np.arange(d))
        lower = np.tril(rng.standard_normal((len(stats), d, d)), -1)
        lower[:, np.arange(d), np.arange(d)] = np.sqrt(chi_square)
        root = np.linalg.cholesky(scale) @ np.linalg.inv(lower).transpose(0, 2, 1)
        center = mean + (root @ rng.standard_normal((len(stats), d, 1)))[:, :, 0] / np.sqrt(kn)[:, None]
        return center, root

    def draw_given(self, rng: Generator, parameters: Theta, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        center, root = parameters
        noise = (root @ rng.standard_normal((len(root), self.outputs, 1)))[:, :, 0]
        return self.m0 + center + noise


def _variances(y: np.ndarray, mean: np.ndarray, fraction: np.ndarray) -> np.ndarray:
    """Return the variances (d,) of the columns of y (n, d) about ``mean`` (d,); 1 for a constant column.

    ``fraction`` (n,) contains the weights of the rows, which sum to one.
    """
    counted_y = y[fraction > 0.0]
    # rounding leaves the variance of a constant above zero
    is_constant = (counted_y == counted_y[0]).all(axis=0)
    return np.array([check_variance(v) for v in np.where(is_constant, 1.0, fraction @ (y - mean) ** 2).tolist()])
