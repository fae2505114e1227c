"""Weibull times to an event, of known shape, some censored (formula sheet, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import lgamma, log, log1p
from typing import Any

import numpy as np

from ...core.compile.address import by_address
from ...files.encoding import kept
from .base import check_positive, settle_parameters
from .exponential import SurvivalLeaf
from .target import Target


@kept
@dataclass(frozen=True, eq=False)
class WeibullGamma(SurvivalLeaf):
    """Weibull times to an event, of known shape ``k``, with ``lambda ~ Gamma(shape, rate)`` integrated out.

    The hazard at time t is ``lambda k t^(k - 1)``: it rises where ``k > 1`` and falls where ``k < 1``. y has two
    columns as for `ExponentialGamma`, the special case ``k = 1``. Since ``t^k`` is exponential, with d events, ``t``
    the sum of the ``t_i^k`` and ``l`` the sum of ``log t_i`` over the events, the likelihood of a cell is ``(lambda
    k)^d exp((k - 1) l) exp(-lambda t)`` (Ibrahim, Chen and Sinha 2001, section 2.1), and

    ``score = d log k + (k - 1) l + log Gamma(shape + d) - log Gamma(shape) + shape log(rate)
    - (shape + d) log(rate + t)``.

    Predicts the mean time to the event.

    Parameters
    ----------
    k : float, default 1.0
        The shape of the Weibull distribution, > 0.
    shape, rate : float, optional
        ``shape`` > 1 / k, so that the mean time is finite. By default set from the data: ``shape = 2 / k`` and ``rate =
        shape * (total of t^k per event)``.

    Raises
    ------
    ValueError
        If a parameter is out of range, a time is not positive, or an event is neither 0 nor 1.

    Examples
    --------
    >>> WeibullGamma(k=2.0, shape=2.0, rate=1.0)
    WeibullGamma(k=2.0, shape=2.0, rate=1.0)
    """

    k: float = 1.0
    shape: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        check_positive("k", self.k)
        settle_parameters(self, "k", "shape", "rate")

    @property
    def score_function(self) -> Callable[..., float]:
        return weibull_score

    def score_params(self, target: Target) -> np.ndarray:
        return np.array([self.shape, self.rate, self.k])

    def statistics(self, y: np.ndarray, regressors: np.ndarray | None) -> np.ndarray:
        time, event = y.T
        return np.column_stack([event, time**self.k, event * np.log(time)])

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        return super().plain_score(sums, target) + float(sums[0] * np.log(self.k) + (self.k - 1.0) * sums[2])


@by_address
def weibull_score(s: Any, n: int, params: Any) -> float:
    """Compiled score. ``s``: events, sum of t^k, sum of log t over the events; ``params``: shape, rate, k."""
    shape, rate, k = params[0], params[1], params[2]
    gamma = lgamma(shape + s[0]) - lgamma(shape) - shape * log1p(s[1] / rate) - s[0] * log(rate + s[1])
    return gamma + s[0] * log(k) + (k - 1.0) * s[2]
