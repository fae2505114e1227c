"""Times to an event, some censored, with a constant rate that has a gamma prior (formula sheet, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import lgamma, log, log1p
from typing import Any, NamedTuple, Self

import numpy as np

from ...core.compile.address import by_address
from ...core.special import gammaln
from ...files.encoding import kept
from ...table.labels import is_missing
from ...table.words import count_text, figure, figures
from .base import settle_parameters
from .by_address import AddressedLeaf
from .gamma import log_gamma_ratio
from .target import LEAST_VARIANCE, Target


class SurvivalLeaf(AddressedLeaf):
    """Leaf models of possibly censored times whose power ``k`` is exponential."""

    y_columns = 2
    y_names = ("time", "event")
    shape: float | None
    rate: float | None
    k: float = 1.0

    def order_of_y(self, names: list[str], columns: list[Any]) -> list[int]:
        found = super().order_of_y(names, columns)
        if len(names) < 2 or {name.lower() for name in names} >= set(self.y_names):
            return found
        flags = [
            k
            for k, column in enumerate(columns)
            if all(is_missing(x) or x in (0, 1) for x in np.asarray(column).tolist())
        ]
        if len(names) > 2 or len(flags) != 1:
            raise ValueError(
                f"y has the columns {', '.join(map(repr, names))}; name two of them 'time' and 'event', or give two "
                "columns of which only the event consists of True and False, or 0 and 1."
            )
        return [1 - flags[0], flags[0]]

    def _check_y(self, y: np.ndarray) -> None:
        time, event = y.T
        if np.any(~(time > 0.0)):
            row = int(np.argmax(~(time > 0.0)))
            raise ValueError(f"the time is {time[row]} in row {row}; {type(self).__name__} needs times > 0.")
        if np.any((event != 0.0) & (event != 1.0)):
            row = int(np.argmax((event != 0.0) & (event != 1.0)))
            raise ValueError(
                f"the event is {event[row]} in row {row}; give 1 where it was seen, 0 where the time is censored."
            )

    def resolve(self, target: Target) -> Self:
        self._check_y(target.values)
        time, event = target.values.T
        shape = 2.0 / self.k if self.shape is None else self.shape
        if not shape > 1.0 / self.k:
            raise ValueError(f"shape={shape} makes the mean time infinite; give shape > {1.0 / self.k:g}.")
        with np.errstate(over="ignore"):
            total, seen = float(target.weights @ time**self.k), float(target.weights @ event)
        if not np.isfinite(total):
            raise ValueError(f"y is too large: its times to the power k={self.k:g} overflow; rescale y.")
        rate = self.rate
        if rate is None and total < LEAST_VARIANCE and target.weights.any():
            raise ValueError(f"y is too small: its times to the power k={self.k:g} add up to {total:.1g}; rescale y.")
        if rate is None:
            rate = shape * (total if total > 0.0 else 1.0) / (seen if seen > 0.0 else 1.0)
        return replace(self, shape=shape, rate=rate)  # type: ignore[type-var]

    def _posterior(self, stats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.shape + stats[:, 1], self.rate + stats[:, 2]

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        seen, total = sums[0], sums[1]
        ratio = log_gamma_ratio(np.float64(self.shape), np.float64(seen))
        return float(ratio - self.shape * np.log1p(total / self.rate) - seen * np.log(self.rate + total))

    def words(self, stats: np.ndarray, target: Target) -> list[str] | None:
        means, sums = figures(self.value(stats, target)[:, 0].tolist(), 4), stats[:, 1:3].tolist()
        # the sum of another power of the times is not the time at risk
        at_risk = [f", time at risk {figure(total, 4)}" if self.k == 1.0 else "" for _, total in sums]
        return [
            f"mean {mean}, {count_text(events, 'event')}{more}"
            for mean, (events, _), more in zip(means, sums, at_risk, strict=True)
        ]

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> Lomax:
        shape, rate = self._posterior(stats)
        return Lomax(shape, rate, np.full(len(stats), self.k))

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
        *regressors: np.ndarray,
    ) -> np.ndarray:
        shape, rate = self._posterior(stats)
        return (rng.exponential(size=len(leaf)) / (rng.gamma(shape) / rate)[leaf]) ** (1.0 / self.k)

    def draw_y(
        self, rng: np.random.Generator, stats: np.ndarray, leaf: np.ndarray, target: Target, rows: np.ndarray
    ) -> np.ndarray:
        time = self.draw(rng, stats, leaf, target, rows)
        return np.column_stack([time, np.ones(len(time))])


@kept
@dataclass(frozen=True, eq=False)
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
    >>> import numpy as np, pactree_mcmc as pt
    >>> time, seen = [1.0, 2.0, 0.5, 9.0, 8.0, 9.0], [1, 1, 1, 1, 0, 0]
    >>> leaf = pt.ExponentialGamma(shape=2.0, rate=4.0)
    >>> model = pt.TreeModel([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], np.column_stack([time, seen]), leaf=leaf)
    >>> pt.sample(model, 100, tune=10, chains=2, rng=1).predict([[0.0], [1.0]]).shape
    (2,)
    """

    shape: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        settle_parameters(self, "shape", "rate")

    @property
    def score_function(self) -> Callable[..., float]:
        return exponential_score

    def score_params(self, target: Target) -> np.ndarray:
        return np.array([self.shape, self.rate])

    def statistics(self, y: np.ndarray, regressors: np.ndarray | None) -> np.ndarray:
        return y[:, ::-1]


@by_address
def exponential_score(s: Any, n: int, params: Any) -> float:
    """Compiled score. ``s``: events, total time; ``params``: shape, rate."""
    shape, rate = params[0], params[1]
    return lgamma(shape + s[0]) - lgamma(shape) - shape * log1p(s[1] / rate) - s[0] * log(rate + s[1])


class Lomax(NamedTuple):
    """Times whose power has an exponential distribution with a rate that is ``Gamma(shape, rate)``, one distribution
    for each place.
    """

    shape: np.ndarray
    rate: np.ndarray
    power: np.ndarray
    is_whole = False

    def take(self, place: np.ndarray) -> Self:
        """Return the distributions of some places."""
        return type(self)(*(part[place] for part in self))

    def _moment(self, j: float) -> np.ndarray:
        """Return the expectation of the j-th power of the time, which may be infinite."""
        r = j / self.power
        short = self.shape - r
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            found = r * np.log(self.rate) + gammaln(1.0 + r) + gammaln(np.maximum(short, 1e-300)) - gammaln(self.shape)
            return np.where(short > 0.0, np.exp(found), np.inf)

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances; infinite if ``shape`` is small."""
        mean, square = self._moment(1.0), self._moment(2.0)
        with np.errstate(invalid="ignore", over="ignore"):
            return mean, np.where(np.isinf(square), np.inf, square - mean**2)

    def below(self, y: np.ndarray) -> np.ndarray:
        """Return the probability of at most y."""
        return -np.expm1(self._log_above(y))

    def above(self, y: np.ndarray) -> np.ndarray:
        """Return the probability of more than y."""
        return np.exp(self._log_above(y))

    def _log_above(self, y: np.ndarray) -> np.ndarray:
        """Return the log probability of more than y. The power of y, which may overflow, is not computed."""
        with np.errstate(divide="ignore"):
            log_unit = self.power * np.log(np.maximum(y, 0.0)) - np.log(self.rate)
        return -self.shape * np.logaddexp(0.0, log_unit)

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the quantiles, twice: the inverse of `below`."""
        nats = -np.log1p(-q) / self.shape
        y = np.exp((np.log(self.rate) + nats + np.log(-np.expm1(-nats))) / self.power)
        return y, y
