"""Survival functions of rows, with credible bands.

Given the tree, a row is in one leaf, whose rate lambda has a gamma posterior, and ``S(t) = exp(-lambda t^k)``. S(t)
is a decreasing function of lambda for each t, so its quantiles over trees and leaf parameters are those of lambda. The
band of a row therefore contains the whole curve with its probability, not only each point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import central_fractions, read_numbers
from ...core.texts import with_short_repr
from ...model import TreeModel
from ...model.leaf.positive import SurvivalLeaf
from ..distribution import TreeDistribution, documented
from ..laws import RowLaw
from .predictions import exposures_of, law_of_new_y, quantiles_at, values_at_exposure

if TYPE_CHECKING:
    import pandas as pd


MAX_PROBABILITIES_PER_BLOCK = 1 << 22
"""Largest number of survival probabilities, nodes times time points, that are computed at a time."""


@with_short_repr
class Survival(NamedTuple):
    """Survival functions of rows: P(time > t | x), with credible bands."""

    times: np.ndarray
    """(m,) the times t."""
    mean: np.ndarray
    """(n, m) P(time > t | x), averaged over trees and leaf parameters."""
    lower: np.ndarray
    """(n, m) lower end of the credible band."""
    upper: np.ndarray
    """(n, m) upper end of the credible band."""
    coverage: float
    """Probability that the whole curve of a row is in its band."""

    def table(self) -> pd.DataFrame:
        """Return one line for each row and time: row, time, mean, lower, upper."""
        import pandas as pd

        n, m = self.mean.shape
        columns = {name: getattr(self, name).ravel() for name in ("mean", "lower", "upper")}
        return pd.DataFrame({"row": np.repeat(np.arange(n), m), "time": np.tile(self.times, n), **columns})


def survival_leaf(model: TreeModel) -> SurvivalLeaf:
    """Return the leaf of a model of times to an event, or raise a ValueError for any other model."""
    if not isinstance(model.leaf, SurvivalLeaf):
        raise ValueError(
            f"{type(model.leaf).__name__} is not a model of times to an event, so it has no survival function; give "
            "the model leaf=pt.ExponentialGamma() or pt.WeibullGamma(k), and y with the columns time and event."
        )
    return model.leaf


@documented
def survival(post: TreeDistribution, X: Any, times: Any, coverage: float = 0.9, *, exposure: Any = None) -> Survival:
    """Return survival functions P(time > t | x), with credible bands over trees and leaf parameters.

    Parameters
    ----------
    {X}
    times : array-like of shape (m,), or float
        Times t >= 0 at which the survival functions are evaluated.
    coverage : float, default 0.9
        Probability, in (0, 1), that the whole curve of a row is in its band.
    {exposure}

    Returns
    -------
    Survival
        ``mean``, ``lower`` and ``upper`` (n, m); ``.table()`` is a DataFrame, and ``pt.plots.plot_survival`` draws
        the curves.

    Raises
    ------
    ValueError
        If the leaf is neither ExponentialGamma nor WeibullGamma, an argument is out of range, or X does not have
        the model's columns.

    See Also
    --------
    predict, credible_interval : The mean time, and its interval.
    median_survival : The median time, with its interval.

    Notes
    -----
    Given tree and rate lambda, ``S(t) = exp(-lambda t^k)``, so the mean over lambda is ``(1 + t^k / rate)^-shape``
    in each leaf, and the quantiles of S(t) are those of lambda, the same for all t. No random numbers are drawn.
    The cost is that of `predict_interval`, and that of `predict` for each time.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> y = np.column_stack([np.linspace(0.1, 2.0, 40) * np.repeat([1.0, 9.0], 20), np.arange(40) % 4 > 0])
    >>> model = pt.TreeModel(np.repeat([[0.0], [1.0]], 20, axis=0), y, leaf=pt.ExponentialGamma())
    >>> post = pt.sample(model, 100, tune=20, chains=2, rng=1, kernel="grow-prune")
    >>> post.survival([[0.0], [1.0]], [1.0, 5.0]).mean.round(1).tolist()
    [[0.6, 0.1], [0.9, 0.8]]
    """
    leaf, times, rows = survival_leaf(post.model), read_times(times), post._rows
    numbers = post.model.columns.numbers(X)
    exposures = exposures_of(post.model, X, numbers, exposure)
    ends = quantiles_at(rows, leaf.rates(rows.place_stats), numbers, central_fractions(coverage))
    if exposures is None:
        exposures = np.ones(len(numbers))
    lower, upper = (leaf.survival_given(ends[:, j] * exposures, times) for j in (1, 0))
    mean = np.empty((len(numbers), len(times)))
    for e in np.unique(exposures).tolist():
        # a hazard e times as large is that of times multiplied by e^(1 / k)
        here = exposures == e
        mean[here] = mean_survival(rows, numbers[here], times * e ** (1.0 / leaf.k))
    return Survival(times, mean, lower, upper, float(coverage))


@documented
def median_survival(post: TreeDistribution, X: Any, coverage: float = 0.9, *, exposure: Any = None) -> pd.DataFrame:
    """Return the median time to the event, with its credible interval.

    Parameters
    ----------
    {X}
    {coverage}
    {exposure}

    Returns
    -------
    DataFrame
        One line for each row: ``median``, the time that a new row survives with probability one half, as of
        ``predict_quantiles(X, 0.5)``; ``lower`` and ``upper``, the interval of the median time over trees and leaf
        parameters, ``(log 2 / lambda)^(1 / k)`` given tree and rate lambda.

    Raises
    ------
    ValueError
        As for `survival`.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> y = np.column_stack([np.linspace(0.1, 2.0, 40) * np.repeat([1.0, 9.0], 20), np.arange(40) % 4 > 0])
    >>> model = pt.TreeModel(np.repeat([[0.0], [1.0]], 20, axis=0), y, leaf=pt.ExponentialGamma())
    >>> post = pt.sample(model, 100, tune=20, chains=2, rng=1, kernel="grow-prune")
    >>> post.median_survival([[0.0], [1.0]]).columns.tolist()
    ['median', 'lower', 'upper']
    """
    import pandas as pd

    leaf, numbers, rows = survival_leaf(post.model), post.model.columns.numbers(X), post._rows
    ends = quantiles_at(rows, leaf.rates(rows.place_stats), numbers, central_fractions(coverage))
    median = quantiles_at(rows, law_of_new_y(rows), numbers, 0.5)
    out = np.column_stack([median, leaf.median_given(ends)[:, ::-1]])
    out = values_at_exposure(post.model, out, exposures_of(post.model, X, numbers, exposure))
    return pd.DataFrame(out, columns=["median", "lower", "upper"])


def mean_survival(rows: RowLaw, numbers: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the posterior mean of P(time > t), (n, m), at rows of ``numbers`` (n, p), for each of ``times`` (m,)."""
    leaf, stats = survival_leaf(rows.model), rows.place_stats
    step = max(1, MAX_PROBABILITIES_PER_BLOCK // max(len(stats), 1))
    blocks = [leaf.mean_survival(stats, times[first : first + step]) for first in range(0, len(times), step)]
    return np.clip(np.hstack([rows.average(numbers, block) for block in blocks]), 0.0, 1.0)


def mean_cumulative_hazard(rows: RowLaw, numbers: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Return the posterior mean of the cumulative hazard (n,) of each row of ``numbers`` (n, p) at its time (n,)."""
    leaf = survival_leaf(rows.model)
    shape, rate = leaf._posterior(rows.place_stats)
    return rows.average(numbers, (shape / rate)[:, None])[:, 0] * time**leaf.k


def read_times(times: Any) -> np.ndarray:
    """Check the argument ``times``, and return it as an array (m,) of times >= 0; a single number becomes (1,)."""
    values = np.atleast_1d(read_numbers("times", times))
    if values.ndim != 1 or len(values) == 0 or not np.all((values >= 0.0) & np.isfinite(values)):
        raise ValueError(f"times has shape {values.shape} or entries out of range; give a row of finite times >= 0.")
    return values
