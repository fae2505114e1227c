"""Several outputs that are independent given the leaf, any of which may be missing (formula sheet, section 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log, pi
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from ...core.checks import check_count, in_words, read_numbers, settle
from ...core.compile.address import by_address
from ...files.encoding import kept
from .base import Draws, Leaf
from .distributions import Distributions, StudentT
from .gamma import log_gamma_ratio
from .target import Target, check_variance


@by_address
def independent_normals_score(s: Any, n: int, params: Any) -> float:
    """Return the score.

    ``s``: for each output the weight of the rows that have it, the sum of y - m0, the sum of its squares; ``params``:
    k0, a0, then b0 of each output.
    """
    k0, a0, score = params[0], params[1], 0.0
    for j in range(n // 3):
        weight, total, b0 = s[3 * j], s[3 * j + 1], params[2 + j]
        bn = b0 + 0.5 * (s[3 * j + 2] - total * total / (k0 + weight))
        score += lgamma(a0 + 0.5 * weight) - lgamma(a0) - 0.5 * log((k0 + weight) / k0)
        score += a0 * log(b0) - (a0 + 0.5 * weight) * log(bn) - 0.5 * weight * log(2.0 * pi)
    return score


@kept
@dataclass(frozen=True, eq=False)
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
    >>> import numpy as np, pactree_mcmc as pt
    >>> y = np.column_stack([np.arange(8.0) > 3, np.arange(8.0) < 4]) + 0.1 * np.sin(np.arange(16.0)).reshape(8, 2)
    >>> y[2, 1] = np.nan
    >>> model = pt.TreeModel(np.arange(8.0)[:, None], y, leaf=pt.IndependentNormals(2))
    >>> pt.sample(model, 100, tune=100, chains=2, rng=1, kernel="grow-prune").predict([[0.0]]).round(0).tolist()
    [[0.0, 1.0]]
    """

    outputs: int
    k0: float | None = None
    a0: float | None = None
    m0: Any = None
    b0: Any = None
    positive = ("k0", "a0")
    compiled_score = staticmethod(independent_normals_score)
    may_lack_y = True

    def __post_init__(self) -> None:
        settle(self, "outputs", check_count("outputs", self.outputs, 2))
        super().__post_init__()
        for name in ("m0", "b0"):
            values = getattr(self, name)
            if values is None:
                continue
            values = np.array(read_numbers(name, values))
            least, allowed = (-np.inf, "finite numbers") if name == "m0" else (0.0, "finite numbers > 0")
            if values.shape != (self.outputs,) or not np.all(np.isfinite(values) & (values > least)):
                raise ValueError(f"{name}={in_words(values.tolist())} is out of range; give {self.outputs} {allowed}.")
            settle(self, name, values)

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
            fraction, known = weight / weight.sum(), y[has_value]
            means.append(float(fraction @ known))
            variance = float(fraction @ (known - means[-1]) ** 2)
            # rounding leaves the variance of a constant above zero
            variances.append(check_variance(1.0 if (known == known[0]).all() else variance))
        return self.with_defaults(
            k0=0.25, a0=1.5, m0=np.array(means), b0=lambda leaf: leaf.a0 * np.array(variances) / 4.0
        )

    def score_params(self, target: Target) -> np.ndarray:
        return np.array([self.k0, self.a0, *self.b0])

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        apart = y - self.m0
        known = ~np.isnan(apart)
        apart = np.where(known, apart, 0.0)
        return [part[:, j] for j in range(self.outputs) for part in (known.astype(np.float64), apart, apart**2)]

    def _posterior(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return mean, kn, an and bn (m, d) of the outputs in cells with the sums (m, 3 d)."""
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

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Draws:
        mean, kn, an, bn = self._posterior(stats[:, 1:])
        variance = bn / rng.gamma(an)
        return rng.normal(mean, np.sqrt(variance / kn)), np.sqrt(variance)

    def draw_given(self, rng: Generator, parameters: Draws, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        return rng.normal(*parameters)
