"""Leaf models of times, some of them censored, whose rates have gamma priors (formulas, section 3).

The cumulative hazard at time t is ``lambda_1 B_1(t) + ... + lambda_J B_J(t)`` with known increasing functions B, the
*basis*: t or t^k for a single rate, the time until t in each interval for a piecewise constant hazard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import lgamma, log, log1p
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from ...core import portable
from ...core.checks import check_count, is_integer, read_numbers, repr_of, set_field
from ...core.compile.address import by_address
from ...core.special import gammaln
from ...files.encoding import register_class
from ...table.coding import LARGEST_FLOAT
from ...table.columns import is_missing
from ...table.words import count_text, rounded_text, rounded_texts
from .base import MIN_VARIANCE, Leaf, Target, Theta, check_positive, refuse_rows
from .counts import ExposedLeaf
from .distributions import SMALLEST_NORMAL, Burr, Distributions, log_gamma_ratio

LARGEST_LOG_TIME = 700.0
"""Largest log of a time, and minus that of the smallest one, so that neither overflows or underflows."""


class SurvivalLeaf(Leaf):
    """Base class of leaf models of possibly censored times, with J rates that have gamma posteriors."""

    y_columns = 2
    y_names = ("time", "event")
    has_survival = True

    def order_of_y(self, names: list[str], columns: list[Any]) -> list[int]:
        """Return the indices of time and event: by their names, else the event is the one column of 0 and 1."""
        order = super().order_of_y(names, columns)
        if len(names) < 2 or {name.lower() for name in names} >= set(self.y_names):
            return order
        values = enumerate(np.asarray(column).tolist() for column in columns)
        flags = [k for k, column in values if all(is_missing(x) or x in (0, 1) for x in column)]
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

    def times_and_events(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.check_y(y)
        return y[:, 0], y[:, 1] == 1.0

    def basis(self, times: np.ndarray) -> np.ndarray:
        """Return B_1(t), ..., B_J(t), (n, J), of each t in ``times`` (n,)."""
        raise NotImplementedError

    def gammas(self, stats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return shape and rate, (m, J) each, of the posteriors of the rates in cells with ``stats`` (m, n_stats)."""
        raise NotImplementedError

    def median_given(self, rates: np.ndarray) -> np.ndarray:
        """Return the median time given the rates: (n,) given (n, J), or of any shape given as many single rates."""
        raise NotImplementedError

    def mean_survival(self, stats: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return P(time > t) (n, m) in cells with ``stats`` (n, n_stats) at ``times`` (m,), rates integrated out."""
        with np.errstate(over="ignore"):
            by_rate = zip(*(part.T for part in self.gammas(stats)), self.basis(times).T, strict=True)
            return np.exp(-sum(a[:, None] * np.log1p(b / r[:, None]) for a, r, b in by_rate))

    def draw_survival(
        self, rng: Generator, stats: np.ndarray, leaf: np.ndarray, times: np.ndarray, target: Target
    ) -> np.ndarray:
        return self.survival_given(self.draw_parameters(rng, stats, target)[0].reshape(len(stats), -1)[leaf], times)

    def survival_given(self, rates: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return P(time > t) (n, m) given the rates of each row, (n, J) or (n,), for each t in ``times`` (m,)."""
        with np.errstate(over="ignore"):
            return np.exp(-np.minimum(rates, LARGEST_FLOAT).reshape(len(rates), -1) @ self.basis(times).T)

    def draw_y(self, rng: Generator, stats: np.ndarray, leaf: np.ndarray, target: Target, rows: Any) -> np.ndarray:
        time = self.draw(rng, stats, leaf, target, rows)
        return np.column_stack([time, np.ones(len(time))])


class OneRateLeaf(SurvivalLeaf, ExposedLeaf):
    """Base class of leaf models of possibly censored times t, for which t^k has an exponential distribution."""

    shape: float | None
    rate: float | None
    k: float = 1.0

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

    def basis(self, times: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return times[:, None] ** self.k

    def gammas(self, stats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shape, rate = self._posterior(stats)
        return shape[:, None], rate[:, None]

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
        means = rounded_texts(self.value(stats, target)[:, 0].tolist(), 4)
        texts = [f"mean {m}, {count_text(d, 'event')}" for m, d in zip(means, stats[:, 1].tolist(), strict=True)]
        # the sum of t^k with k other than 1 is not the time at risk
        if self.k != 1.0 or self.exposure is not None:
            return texts
        times = (f", time at risk {rounded_text(t, 4)}" for t in stats[:, 2].tolist())
        return [text + time for text, time in zip(texts, times, strict=True)]

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> Distributions:
        # t^k has a Lomax distribution, so the time t has a Burr distribution of type XII
        shape, rate = self._posterior(stats)
        return Burr(np.full(len(stats), self.k), shape, rate ** (1.0 / self.k))

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
class ExponentialGamma(OneRateLeaf):
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
    """Return the log marginal likelihood in nats of a cell under `WeibullGamma`."""
    # the rate of t^k has a gamma prior. Sums ``s``: events, t^k times exposure, log t over the events, and, if
    # exposures are given, log exposure over the events. ``params``: shape and rate of the prior, k
    shape, rate, k = params[0], params[1], params[2]
    gamma = lgamma(shape + s[0]) - lgamma(shape) - shape * log1p(s[1] / rate) - s[0] * log(rate + s[1])
    score = gamma + s[0] * log(k) + (k - 1.0) * s[2]
    return score + s[3] if n > 3 else score


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class WeibullGamma(OneRateLeaf):
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


@by_address
def piecewise_score(s: Any, n: int, params: Any) -> float:
    """Return the log marginal likelihood in nats of a cell under `PiecewiseExponential`, its rates integrated out."""
    # ``s``, ``n`` sums: events in each of the n / 2 intervals, then the time at risk in each. ``params``: the shapes of
    # the gamma priors of the rates, then their rates.
    n_intervals, score = n // 2, 0.0
    for j in range(n_intervals):
        shape, rate, events, time = params[j], params[n_intervals + j], s[j], s[n_intervals + j]
        score += lgamma(shape + events) - lgamma(shape) - shape * log1p(time / rate) - events * log(rate + time)
    return score


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class PiecewiseExponential(SurvivalLeaf):
    """Times to an event whose hazard is constant in each of a few intervals of time; some times may be censored.

    The baseline is free: each leaf has a rate ``lambda_j ~ Gamma(shape, rate_j)`` in each interval j, which is
    integrated out, so that a hazard may rise in one leaf and fall in another. y has two columns as for
    `ExponentialGamma`, the special case of one interval. With ``d_j`` events in interval j, and ``t_j`` the total time
    that the rows of a cell are at risk in it, the likelihood of the cell is the product of the ``lambda_j^d_j
    exp(-lambda_j t_j)`` (Holford 1980; Ibrahim, Chen and Sinha 2001, section 3.1), and

    ``score = sum_j log Gamma(shape + d_j) - log Gamma(shape) + shape log(rate_j) - (shape + d_j) log(rate_j + t_j)``.

    Predicts the mean time to the event, which extrapolates the hazard of the last interval.

    Parameters
    ----------
    ends : int, or array-like of shape (J - 1,), default 4
        Times > 0, increasing, at which one interval ends and the next begins; the last interval has no end. Given a
        number J of intervals, these are the quantiles j / J of the times of the events.
    shape : float, default 1.25
        Shape of the prior of each rate, > 1, so that the mean time is finite: it weighs as much as ``shape`` events in
        each interval.
    rate : float, or array-like of shape (J,), optional
        Rate of these priors, > 0. By default set from the data: ``shape`` times the time per event in the interval, so
        that the prior mean of each rate is that of all rows.

    Raises
    ------
    ValueError
        If a parameter is out of range, a time is not positive, or an event is neither 0 nor 1.

    Notes
    -----
    The ends depend on y, as the defaults of other leaves do: give them if the prior must not. An event at an end is in
    the interval that ends there. Rows have neither exposures nor times of entry.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> y = [[1.0, 1], [2.0, 1], [3.0, 0], [9.0, 1]]
    >>> pt.TreeModel([[0.0], [1.0], [2.0], [3.0]], y, leaf=pt.PiecewiseExponential(2)).leaf
    PiecewiseExponential(ends=(2.0,), shape=1.25, rate=(4.375, 10.0))
    """

    ends: Any = 4
    shape: float = 1.25
    rate: Any = None
    has_closed_expectation = False
    positive_parameters = ("shape",)
    compiled_score = staticmethod(piecewise_score)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shape > 1.0:
            raise ValueError(f"shape={self.shape} makes the mean time infinite; give shape > 1.")
        if is_integer(self.ends):
            set_field(self, "ends", check_count("ends", self.ends))
        else:
            times = np.atleast_1d(read_numbers("ends", self.ends))
            if times.ndim > 1 or not np.all((np.diff(times, prepend=0.0) > 0.0) & np.isfinite(times)):
                raise ValueError(f"ends={repr_of(self.ends)} is out of range; give a number, or increasing times > 0.")
            set_field(self, "ends", tuple(times.tolist()))
        if self.rate is not None:
            check_positive("rate", self.rate, entries=True)
            rates = read_numbers("rate", self.rate)
            set_field(self, "rate", tuple(rates.tolist()) if rates.ndim else float(rates))

    @property
    def n_intervals(self) -> int:
        return len(self.ends) + 1

    def resolve(self, target: Target) -> Self:
        self.check_y(target.values)
        counts = target.weights > 0.0
        (time, event), weight = target.values[counts].T, target.weights[counts]
        out = self
        if is_integer(self.ends):
            out = replace(self, ends=_weighted_quantiles(time, weight * event, self.ends))
        basis, place = out.basis(time), np.searchsorted(np.array(out.ends), time, side="left")
        at_risk = [portable.weighted_sum(weight, column) for column in basis.T]
        n_events = [portable.weighted_sum(weight, event * (place == j)) for j in range(out.n_intervals)]
        total, n_all = sum(at_risk), max(sum(n_events), 1.0)
        if not np.isfinite(total):
            raise ValueError("y is too large: its times overflow; rescale y.")
        if self.rate is None and total < MIN_VARIANCE and target.weights.any():
            raise ValueError(f"y is too small: its times add up to {total:.1g}; rescale y.")
        overall = (total if total > 0.0 else 1.0) / n_all
        # an interval in which no row is at risk has the rate of all intervals
        rates = [self.shape * (t / max(d, 1.0) if t > 0.0 else overall) for t, d in zip(at_risk, n_events, strict=True)]
        out = out.with_defaults(rate=tuple(rates))
        out = replace(out, rate=(out.rate,) * out.n_intervals) if isinstance(out.rate, float) else out
        if len(out.rate) != out.n_intervals:
            raise ValueError(f"rate has {len(out.rate)} entries, and there are {out.n_intervals} intervals: one each.")
        return out

    def basis(self, times: np.ndarray) -> np.ndarray:
        starts = np.array([0.0, *self.ends])
        return np.clip(times[:, None] - starts, 0.0, np.diff(starts, append=np.inf))

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        time, event = y.T
        place = np.searchsorted(np.array(self.ends), time, side="left")
        return *(event * (place == j) for j in range(self.n_intervals)), *self.basis(time).T

    def score_params(self, target: Target) -> np.ndarray:
        return np.concatenate([np.full(self.n_intervals, self.shape), np.broadcast_to(self.rate, self.n_intervals)])

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        events, time = np.split(sums, 2)
        rate = np.array(self.rate)
        terms = log_gamma_ratio(np.full(len(rate), self.shape), events) - self.shape * portable.log1p(time / rate)
        return float(sum((terms - events * portable.log(rate + time)).tolist()))

    def gammas(self, stats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        events, time = np.split(stats[:, 1:], 2, axis=1)
        return self.shape + events, np.array(self.rate) + time

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> PiecewiseTimes:
        return PiecewiseTimes(self, *self.gammas(stats))

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return PiecewiseTimes(self, *self.gammas(stats)).mean_and_variance()[0][:, None]

    def words(self, stats: np.ndarray, target: Target) -> list[str] | None:
        means = rounded_texts(self.value(stats, target)[:, 0].tolist(), 4)
        events, time = (part.sum(axis=1).tolist() for part in np.split(stats[:, 1:], 2, axis=1))
        return [
            f"mean {mean}, {count_text(d, 'event')}, time at risk {rounded_text(t, 4)}"
            for mean, d, t in zip(means, events, time, strict=True)
        ]

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Theta:
        shape, rate = self.gammas(stats)
        return (rng.gamma(shape) / rate,)

    def draw_given(self, rng: Generator, parameters: Theta, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        return self.time_at(parameters[0], rng.exponential(size=len(parameters[0])))

    def expectation_given(self, parameters: Theta, *regressors: Any) -> np.ndarray:
        # the integral of S over an interval in which the hazard is lambda, from S at its start
        rates = parameters[0]
        amount = rates * np.diff([0.0, *self.ends], append=np.inf)
        at_start = np.exp(-np.column_stack([np.zeros(len(rates)), np.cumsum(amount[:, :-1], axis=1)]))
        return (at_start * -np.expm1(-amount) / rates).sum(axis=1)[:, None]

    def time_at(self, rates: np.ndarray, amount: np.ndarray) -> np.ndarray:
        """Return the time (n,) at which the cumulative hazard reaches ``amount`` (n,), given rates (n, J)."""
        starts = np.array([0.0, *self.ends])
        reached = np.cumsum(rates[:, :-1] * np.diff(starts), axis=1)
        j = (reached < amount[:, None]).sum(axis=1)
        row, before = np.arange(len(rates)), np.column_stack([np.zeros(len(rates)), reached])
        return starts[j] + (amount - before[row, j]) / rates[row, j]

    def median_given(self, rates: np.ndarray) -> np.ndarray:
        return self.time_at(rates, np.full(len(rates), math.log(2.0)))


def _weighted_quantiles(time: np.ndarray, weight: np.ndarray, n: int) -> tuple[float, ...]:
    """Return the quantiles 1 / n, ..., (n - 1) / n of ``time``, those of them that differ and lie below the largest."""
    time, weight = time[weight > 0.0], weight[weight > 0.0]
    order = np.argsort(time, kind="stable")
    below = np.cumsum(weight[order])
    # at a quantile the rounding of sums of weights must not decide
    places = [int(np.searchsorted(below, below[-1] * (j / n - 1e-12))) for j in range(1, n)] if len(time) else []
    return tuple(sorted({float(time[order[place]]) for place in places} - {float(time.max(initial=0.0))}))


class PiecewiseTimes(Distributions):
    """Times whose hazard is constant in intervals, with gamma distributions (k, J) of the rates integrated out."""

    has_exact_brackets = False

    def __init__(self, leaf: PiecewiseExponential, shape: np.ndarray, rate: np.ndarray) -> None:
        super().__init__("piecewise exponential", shape, rate)
        self.leaf = leaf

    def _log_above(self, y: np.ndarray) -> np.ndarray:
        shape, rate = self.parameters
        with np.errstate(over="ignore"):
            return -(shape * np.log1p(self.leaf.basis(y) / rate)).sum(axis=1)

    def below(self, y: np.ndarray) -> np.ndarray:
        return -np.expm1(self._log_above(y))

    def above(self, y: np.ndarray) -> np.ndarray:
        return np.exp(self._log_above(y))

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        # P(time > t) is at least what the mean rates give, by Jensen's inequality
        shape, rate = self.parameters
        low = self.leaf.time_at(shape / rate, np.full(len(shape), -math.log1p(-q)))
        return low, 2.0 * low

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        # E(t) and E(t^2) are the integrals of S(t) and 2 t S(t). In an interval from s on, S(s + w) = S(s) (1 + u)^-a
        # with u = w / r, shape a and rate r of its gamma distribution; u (1 + u)^-a = (1 + u)^(1 - a) - (1 + u)^-a
        shape, rate = self.parameters
        starts = np.array([0.0, *self.leaf.ends])
        with np.errstate(all="ignore"):
            length = np.diff(starts, append=np.inf) / rate
            log_factors = -(shape * np.log1p(length))[:, :-1]
            at_start = np.exp(np.cumsum(np.column_stack([np.zeros(len(shape)), log_factors]), axis=1))
            first = _integral_of_power(shape, length)
            second = _integral_of_power(shape - 1.0, length) - first
            mean = (at_start * rate * first).sum(axis=1)
            square = 2.0 * (at_start * rate * (starts * first + rate * second)).sum(axis=1)
            return mean, np.where(np.isfinite(square), np.maximum(square - mean**2, 0.0), np.inf)


def _integral_of_power(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the integral of ``(1 + u)^-a`` over u from 0 to x, entry by entry; x may be infinite."""
    log_end, power = np.log1p(x), 1.0 - a
    z = power * log_end
    finite = np.where(np.abs(z) < 1e-8, log_end * (1.0 + z / 2.0), np.expm1(z) / np.where(power == 0.0, 1.0, power))
    return np.where(np.isinf(x), np.where(a > 1.0, 1.0 / np.where(a > 1.0, a - 1.0, 1.0), np.inf), finite)
