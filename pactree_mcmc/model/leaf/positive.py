"""Leaf models of times, some of them censored, whose rate has a gamma prior (formulas, section 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import lgamma, log, log1p
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from ...core import portable
from ...core.compile.address import by_address
from ...core.special import gammaln
from ...files.encoding import register_class
from ...table.coding import LARGEST_FLOAT
from ...table.values import is_missing
from ...table.words import count_text, rounded_text, rounded_texts
from .base import MIN_VARIANCE, Target, Theta, refuse_rows
from .counts import ExposedLeaf
from .distributions import SMALLEST_NORMAL, Distributions, log_gamma_ratio

LARGEST_LOG_TIME = 700.0
"""Largest log of a time, and minus that of the smallest one, so that neither overflows or underflows."""


class SurvivalLeaf(ExposedLeaf):
    """Base class of leaf models of possibly censored times t, for which t^k has an exponential distribution."""

    y_columns = 2
    y_names = ("time", "event")
    shape: float | None
    rate: float | None
    k: float = 1.0

    def order_of_y(self, names: list[str], columns: list[Any]) -> list[int]:
        """Return the indices of time and event: by their names, else the event is the one column of 0 and 1."""
        order = super().order_of_y(names, columns)
        if len(names) < 2 or {name.lower() for name in names} >= set(self.y_names):
            return order
        flags = [
            k
            for k, column in enumerate(columns)
            if all(is_missing(x) or x in (0, 1) for x in np.asarray(column).tolist())
        ]
        booleans = [k for k in flags if getattr(columns[k], "dtype", None) == np.bool_]
        flags = booleans if len(booleans) == 1 else flags
        if len(names) > 2 or len(flags) != 1:
            raise ValueError(
                f"y has the columns {', '.join(map(repr, names))}; name two of them 'time' and 'event', or give two "
                "columns of which only the event consists of True and False, or 0 and 1."
            )
        return [1 - flags[0], flags[0]]

    def check_y(self, y: np.ndarray) -> None:
        """Raise a ValueError if a row of y (n, 2) has a time that is not positive, or an event that is not 0 or 1."""
        time, event = y.T
        refuse_rows(~(time > 0.0), "the time", time, f"{type(self).__name__} needs times > 0.")
        is_flag = (event == 0.0) | (event == 1.0)
        refuse_rows(~is_flag, "the event", event, "give 1 where it was seen, 0 where the time is censored.")

    def resolve(self, target: Target) -> Self:
        time, event = target.values.T
        self.check_y(target.values)
        self.check_exposure(target)
        shape = 2.0 / self.k if self.shape is None else self.shape
        if not shape > 1.0 / self.k:
            raise ValueError(f"shape={shape} makes the mean time infinite; give shape > {1.0 / self.k:g}.")
        with np.errstate(over="ignore"):
            at_risk = self._times_exposure(portable.power(time, self.k), target)
            total, n_events = (portable.weighted_sum(target.weights, x) for x in (at_risk, event))
        if not np.isfinite(total):
            raise ValueError(f"y is too large: its times to the power k={self.k:g} overflow; rescale y.")
        if self.rate is None and total < MIN_VARIANCE and target.weights.any():
            raise ValueError(f"y is too small: its times to the power k={self.k:g} add up to {total:.1g}; rescale y.")
        leaf = self.with_defaults(shape=shape, rate=shape * (total or 1.0) / (n_events or 1.0))
        # the logs of the smallest and the largest scale of the times of a cell, without and with the mean of its times
        power = 1.0 / self.k
        ends = power * math.log(leaf.rate), power * math.log(leaf.rate + total) + math.lgamma(1.0 + power)
        ends = (ends[0], ends[1] + max(0.0, math.lgamma(leaf.shape - power) - math.lgamma(leaf.shape)))
        if ends[0] < -LARGEST_LOG_TIME or ends[1] > LARGEST_LOG_TIME:
            raise ValueError(
                f"k={self.k:g} with shape={leaf.shape:g}, rate={leaf.rate:g} and these y gives times of the order of "
                f"10^{(ends[0] if ends[0] < -LARGEST_LOG_TIME else ends[1]) / math.log(10.0):.0f}, but the largest is "
                f"10^{LARGEST_LOG_TIME / math.log(10.0):.0f}, the smallest its inverse; rescale y, or give a larger k."
            )
        return leaf

    def _posterior(self, stats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return shape and rate, (m,) each, of the gamma posterior of lambda in cells with ``stats`` (m, n_stats)."""
        # `stats` begin with the weight, the number of events, and the sum of t^k times the exposure
        return self.shape + stats[:, 1], self.rate + stats[:, 2]

    def _times_exposure(self, amount: np.ndarray, target: Target) -> np.ndarray:
        """Return ``amount`` (n,), such as times, multiplied by the exposures of the rows, if there are any."""
        return amount if self.exposure is None else self.exposures(target) * amount

    def _append_offset(self, sums: Sequence[np.ndarray], event: np.ndarray) -> Sequence[np.ndarray]:
        """Return the statistics ``sums`` of rows with ``event`` (n,); append ``event * log(exposure)`` if exposed."""
        return sums if self.exposure is None else (*sums, event * portable.log(self.exposure))

    def at_exposure(self, values: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        # the exposure is a factor of the rate, and the mean time a power of the rate
        return values * (exposure ** (-1.0 / self.k))[:, None]

    def rates(self, stats: np.ndarray) -> Distributions:
        """Return the posterior of lambda in cells with ``stats`` (m, n_stats). The hazard is ``lambda k t^(k - 1)``."""
        shape, rate = self._posterior(stats)
        return Distributions("gamma", shape, np.zeros(len(stats)), 1.0 / rate)

    def survival_given(self, rates: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return P(time > t) (n, m) given each lambda in ``rates`` (n,), for each t in ``times`` (m,)."""
        with np.errstate(over="ignore"):
            return np.exp(-np.minimum(rates, LARGEST_FLOAT)[:, None] * times**self.k)

    def mean_survival(self, stats: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return P(time > t) (n, m) in cells with ``stats`` (n, n_stats) at ``times`` (m,), lambda integrated out."""
        shape, rate = self._posterior(stats)
        with np.errstate(over="ignore"):
            return np.exp(-shape[:, None] * np.log1p(times**self.k / rate[:, None]))

    def median_given(self, rates: np.ndarray) -> np.ndarray:
        """Return the median time given each lambda in ``rates``, an array of any shape."""
        with np.errstate(over="ignore", divide="ignore"):
            return (math.log(2.0) / rates) ** (1.0 / self.k)

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        n_events, total = sums[0], sums[1]
        ratio = log_gamma_ratio(np.float64(self.shape), np.float64(n_events))
        rest = self.shape * portable.log1p(total / self.rate) + n_events * portable.log(self.rate + total)
        return float(ratio - rest)

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        # E(t) = E(lambda^(-1/k)) Gamma(1 + 1/k)
        shape, rate = self._posterior(stats)
        power = 1.0 / self.k
        return np.exp(power * np.log(rate) + gammaln(1.0 + power) + gammaln(shape - power) - gammaln(shape))[:, None]

    def words(self, stats: np.ndarray, target: Target) -> list[str] | None:
        means, sums = rounded_texts(self.value(stats, target)[:, 0].tolist(), 4), stats[:, 1:3].tolist()
        # the sum of t^k with k other than 1 is not the time at risk
        is_time = self.k == 1.0 and self.exposure is None
        at_risk = [f", time at risk {rounded_text(total, 4)}" if is_time else "" for _, total in sums]
        return [
            f"mean {mean}, {count_text(events, 'event')}{more}"
            for mean, (events, _), more in zip(means, sums, at_risk, strict=True)
        ]

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> Distributions:
        # t^k has a Lomax distribution, so the time t has a Burr distribution of type XII
        shape, rate = self._posterior(stats)
        return Distributions("burr12", np.full(len(stats), self.k), shape, np.zeros(len(stats)), rate ** (1.0 / self.k))

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        # E(t | lambda) = Gamma(1 + 1 / k) lambda^(-1 / k), and lambda has a gamma posterior
        shape, rate = self._posterior(stats)
        scale = math.gamma(1.0 + 1.0 / self.k) * rate ** (1.0 / self.k)
        return [Distributions("gengamma", shape, np.full(len(stats), -self.k), np.zeros(len(stats)), scale)]

    def expectation_given(self, parameters: Theta, *regressors: Any) -> np.ndarray:
        return (math.gamma(1.0 + 1.0 / self.k) * parameters[0] ** (-1.0 / self.k))[:, None]

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Theta:
        shape, rate = self._posterior(stats)
        # a gamma number of a tiny shape may underflow
        with np.errstate(over="ignore"):
            return (np.minimum(np.maximum(rng.gamma(shape), SMALLEST_NORMAL) / rate, LARGEST_FLOAT),)

    def draw_given(self, rng: Generator, parameters: Theta, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        rate = parameters[0] * (1.0 if rows is None else self.exposures(target)[rows])
        return portable.power(rng.exponential(size=len(rate)) / rate, 1.0 / self.k)

    def draw_y(self, rng: Generator, stats: np.ndarray, leaf: np.ndarray, target: Target, rows: Any) -> np.ndarray:
        time = self.draw(rng, stats, leaf, target, rows)
        return np.column_stack([time, np.ones(len(time))])


@by_address
def exponential_score(s: Any, n: int, params: Any) -> float:
    """Return the log marginal likelihood in nats of a cell under `ExponentialGamma`, with a gamma prior of the rate."""
    # ``s``, ``n`` sums: events, total time times exposure, and, if exposures are given, log exposure over the events.
    # ``params``: shape and rate of the prior
    shape, rate = params[0], params[1]
    gamma = lgamma(shape + s[0]) - lgamma(shape) - shape * log1p(s[1] / rate) - s[0] * log(rate + s[1])
    return gamma + s[2] if n > 2 else gamma


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class ExponentialGamma(SurvivalLeaf):
    """Exponential times to an event with ``lambda ~ Gamma(shape, rate)`` integrated out; some may be censored.

    y has two columns, (n, 2): the time, and 1 if the event occurred then, or 0 if the time is censored. A censored row
    contributes the survival probability ``exp(-lambda t)``, a row with an event the density ``lambda exp(-lambda t)``.
    So a cell with d events in total time t has the likelihood ``lambda^d exp(-lambda t)``, which with the gamma prior
    gives (Gelman et al. 2013, section 2.6)

    ``score = log Gamma(shape + d) - log Gamma(shape) + shape log(rate) - (shape + d) log(rate + t)``.

    Predicts the mean time to the event. `predict_interval` and `sample_predictive` are for the uncensored time.

    Parameters
    ----------
    shape, rate : float, optional
        ``shape`` > 1, so that the mean time is finite. By default set from the data: ``shape = 2`` and ``rate = shape *
        (total time per event)``, so that the prior mean of the rate is the rate of all rows.
    exposure : array of shape (n,), optional
        Factor of the hazard of each row, > 0, such as its known relative risk; its log is called the offset. Default:
        1. Predictions are for exposure 1.

    Raises
    ------
    ValueError
        If shape or rate is out of range, a time is not positive, or an event is neither 0 nor 1.

    Notes
    -----
    The variance of a new time (`predict_std_new_y`) is infinite in cells where ``shape`` plus the number of events is
    at most 2.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> model = pt.TreeModel([[0.0], [1.0], [2.0]], [[1.0, 1], [2.0, 1], [9.0, 0]], leaf=pt.ExponentialGamma())
    >>> model.leaf
    ExponentialGamma(shape=2.0, rate=12.0)
    """

    shape: float | None = None
    rate: float | None = None
    exposure: Any = field(default=None, repr=False)
    positive_parameters = score_parameters = ("shape", "rate")
    compiled_score = staticmethod(exponential_score)

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        time, event = y.T
        return self._append_offset((event, self._times_exposure(time, target)), event)

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        return super().plain_score(sums, target) + float(sums[2:].sum())


@by_address
def weibull_score(s: Any, n: int, params: Any) -> float:
    """Return the log marginal likelihood in nats of a cell under `WeibullGamma`, with a gamma prior of the rate of t^k.

    ``s``, ``n`` sums: events, t^k times exposure, log t over the events, and, if exposures are given, log exposure over
    the events. ``params``: shape and rate of the prior, k.
    """
    shape, rate, k = params[0], params[1], params[2]
    gamma = lgamma(shape + s[0]) - lgamma(shape) - shape * log1p(s[1] / rate) - s[0] * log(rate + s[1])
    score = gamma + s[0] * log(k) + (k - 1.0) * s[2]
    return score + s[3] if n > 3 else score


@register_class
@dataclass(frozen=True, eq=False, repr=False)
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
    exposure : array of shape (n,), optional
        Factor of the hazard of each row, > 0, such as its known relative risk; its log is called the offset. Default:
        1. Predictions are for exposure 1.

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
    exposure: Any = field(default=None, repr=False)
    positive_parameters = ("k", "shape", "rate")
    score_parameters = ("shape", "rate", "k")
    compiled_score = staticmethod(weibull_score)

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        time, event = y.T
        sums = event, self._times_exposure(portable.power(time, self.k), target), event * portable.log(time)
        return self._append_offset(sums, event)

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        more = sums[0] * math.log(self.k) + (self.k - 1.0) * sums[2] + sums[3:].sum()
        return super().plain_score(sums, target) + float(more)
