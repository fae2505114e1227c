"""Overdispersed counts: negative binomial of known dispersion, its probability integrated out (section 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import lgamma
from typing import Any, Self

import numpy as np

from ...core.compile.address import by_address
from ...core.special import gammaln
from ...files.encoding import kept
from .base import check_positive, settle_parameters
from .beta_negative_binomial import BetaNegativeBinomial
from .by_address import AddressedLeaf
from .distributions import draw_poisson
from .gamma import log_gamma_ratio
from .target import Target


@kept
@dataclass(frozen=True, eq=False)
class NegativeBinomialBeta(AddressedLeaf):
    """Counts of known dispersion r: negative binomial with ``p ~ Beta(a, b)`` integrated out.

    For overdispersed counts: at mean m their variance is ``m + m^2 / r``; as r grows they become Poisson. The
    probability of y is ``C(y + r - 1, y) p^r (1 - p)^y``, so with n rows, ``t`` the sum of y and ``c`` that of the log
    C (Fink 1997, section 2.3)

    ``score = c + log B(a + n r, b + t) - log B(a, b)``, B the beta function.

    Predicts the mean of a new y.

    Parameters
    ----------
    dispersion : float, default 1.0
        r, > 0; 1: geometric.
    a, b : float, optional
        ``a`` > 1, so that the mean is finite. By default set from the data: ``a = 3`` and ``b = (a - 1) * mean(y) /
        r``, so that the prior mean is the mean of y.

    Raises
    ------
    ValueError
        If a parameter is out of range, or y is not made of counts 0, 1, 2, ...

    Examples
    --------
    >>> NegativeBinomialBeta(dispersion=2.0, a=3.0, b=1.0)
    NegativeBinomialBeta(dispersion=2.0, a=3.0, b=1.0)
    """

    dispersion: float = 1.0
    a: float | None = None
    b: float | None = None

    def __post_init__(self) -> None:
        check_positive("dispersion", self.dispersion)
        settle_parameters(self, "dispersion", "a", "b")

    def resolve(self, target: Target) -> Self:
        y = target.values
        bad = (y < 0) | (y != np.floor(y))
        if np.any(bad):
            row = int(np.argmax(bad))
            raise ValueError(f"y is {y[row]} in row {row}; NegativeBinomialBeta needs counts 0, 1, 2, ...")
        a = 3.0 if self.a is None else self.a
        if not a > 1.0:
            raise ValueError(f"a={a} makes the mean of y infinite; give a > 1.")
        mean = target.center if target.center > 0.0 else 1.0
        return replace(self, a=a, b=(a - 1.0) * mean / self.dispersion if self.b is None else self.b)

    @property
    def score_function(self) -> Callable[..., float]:
        return negative_binomial_score

    def score_params(self, target: Target) -> np.ndarray:
        return np.array([self.a, self.b, self.dispersion])

    def statistics(self, y: np.ndarray, regressors: np.ndarray | None) -> np.ndarray:
        ways = gammaln(y + self.dispersion) - gammaln(self.dispersion) - gammaln(y + 1.0)
        return np.column_stack([np.ones(len(y)), y, ways])

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        n, total, ways = sums
        each = log_gamma_ratio(np.array([self.a, self.b]), np.array([n * self.dispersion, total]))
        whole = log_gamma_ratio(np.float64(self.a + self.b), np.float64(n * self.dispersion + total))
        return float(ways + each.sum() - whole)

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> BetaNegativeBinomial:
        r = np.full(len(stats), self.dispersion)
        return BetaNegativeBinomial(r, self.a + r * stats[:, 1], self.b + stats[:, 2])

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
        *regressors: np.ndarray,
    ) -> np.ndarray:
        distribution = self.predictive(stats, np.empty(0), target)
        # gammas whose ratio has the beta distribution, for a probability may round to 0 or 1
        odds = rng.gamma(distribution.b) / rng.gamma(distribution.a)
        return draw_poisson(rng, rng.gamma(self.dispersion, size=len(leaf)) * odds[leaf])


@by_address
def negative_binomial_score(s: Any, n: int, params: Any) -> float:
    """Compiled score. ``s``: weight, sum of y, sum of the log C; ``params``: a, b, dispersion."""
    a, b, seen = params[0], params[1], params[2] * s[0]
    each = lgamma(a + seen) - lgamma(a) + lgamma(b + s[1]) - lgamma(b)
    return s[2] + each - (lgamma(a + b + seen + s[1]) - lgamma(a + b))
