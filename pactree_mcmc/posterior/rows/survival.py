"""Survival functions of rows, with credible bands.

Given the tree, a row is in one leaf, whose rates have gamma posteriors. With a single rate lambda, ``S(t) = exp(-lambda
t^k)`` is a decreasing function of lambda for each t, so its quantiles over trees and leaf parameters are those of
lambda, and the band of a row contains the whole curve with its probability. With several rates, and for leaves of the
caller, bands are quantiles of draws at each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import central_fractions, read_generator, read_numbers
from ...core.texts import with_short_repr
from ...model import TreeModel
from ...model.leaf.base import Leaf
from ...model.leaf.distributions import SMALLEST_NORMAL
from ...model.leaf.positive import OneRateLeaf, SurvivalLeaf
from ...tree.arrays import LEAF
from ..distribution import TreeDistribution, documented, random_draws, refuse_other_leaves
from .predictions import exposures_of, law_of_new_y, quantiles_at, values_at_exposure

if TYPE_CHECKING:
    import pandas as pd


MAX_PROBABILITIES_PER_BLOCK = 1 << 22
"""Largest number of survival probabilities, nodes or draws of rows times time points, that are computed at a time."""
N_GRID_TIMES = 101
"""Number of times at which curves are drawn."""
N_BAND_DRAWS = 1000
"""Number of draws of a tree and its leaf parameters for bands that have no closed form."""


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
    """Probability that the whole curve of a row is in its band; with several rates in a leaf, that S(t) is."""

    def table(self) -> pd.DataFrame:
        """Return one line for each row and time: row, time, mean, lower, upper."""
        import pandas as pd

        n, m = self.mean.shape
        columns = {name: getattr(self, name).ravel() for name in ("mean", "lower", "upper")}
        return pd.DataFrame({"row": np.repeat(np.arange(n), m), "time": np.tile(self.times, n), **columns})


def survival_leaf(model: TreeModel) -> Leaf:
    """Return the leaf of a model of times to an event, or raise a ValueError for any other model."""
    if not model.leaf.has_survival:
        raise ValueError(
            f"{type(model.leaf).__name__} is not a model of times to an event, so it has no survival function; give "
            "the model leaf=pt.ExponentialGamma(), pt.WeibullGamma(k) or pt.PiecewiseExponential(), and y with the "
            "columns time and event, or a leaf of your own with survival=."
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
        Probability, in (0, 1), that the whole curve of a row is in its band. For PiecewiseExponential and leaves of
        your own it is the probability at each time.
    {exposure}

    Returns
    -------
    Survival
        ``mean``, ``lower`` and ``upper`` (n, m); ``.table()`` is a DataFrame, and ``pt.plots.plot_survival`` draws
        the curves.

    Raises
    ------
    ValueError
        If the leaf is not of times to an event, or a CustomLeaf without ``survival=``, an argument is out of range, or
        X does not have the model's columns.

    See Also
    --------
    predict, credible_interval : The mean time, and its interval.
    median_survival : The median time, with its interval.

    Notes
    -----
    Given tree and rate lambda, ``S(t) = exp(-lambda t^k)``, so the mean over lambda is ``(1 + t^k / rate)^-shape``
    in each leaf, and the quantiles of S(t) are those of lambda, the same for all t. No random numbers are drawn.
    The cost is that of `predict_interval`, and that of `predict` for each time. For PiecewiseExponential the mean
    is the product of such terms, one for each interval, and bands are from 1,000 draws with a fixed seed, as are bands
    and means of leaves of your own.

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
    numbers, fractions = post.model.columns.numbers(X), central_fractions(coverage)
    exposures = exposures_of(post.model, X, numbers, exposure)
    if not isinstance(leaf, OneRateLeaf):
        mean, lower, upper = _survival_by_draws(post, numbers, times, fractions)
        if isinstance(leaf, SurvivalLeaf):
            mean = mean_survival(post, numbers, times)
        return Survival(times, mean, lower, upper, float(coverage))
    ends = quantiles_at(rows, leaf.rates(rows.place_stats), numbers, fractions)
    if exposures is None:
        exposures = np.ones(len(numbers))
    lower, upper = (leaf.survival_given(ends[:, j] * exposures, times) for j in (1, 0))
    mean = np.empty((len(numbers), len(times)))
    for e in np.unique(exposures).tolist():
        # a hazard e times as large is that of times multiplied by e^(1 / k)
        here = exposures == e
        mean[here] = mean_survival(post, numbers[here], times * e ** (1.0 / leaf.k))
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
        parameters, ``(log 2 / lambda)^(1 / k)`` given tree and rate lambda. For PiecewiseExponential the ends are
        from 1,000 draws with a fixed seed.

    Raises
    ------
    ValueError
        As for `survival`, and for any `CustomLeaf`: its median is where its survival function is one half.

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
    if not isinstance(leaf, SurvivalLeaf):
        raise ValueError(f"{leaf!r} has no closed median; find the time at which post.survival(X, times).mean is .5")
    fractions = central_fractions(coverage)
    if isinstance(leaf, OneRateLeaf):
        ends = leaf.median_given(quantiles_at(rows, leaf.rates(rows.place_stats), numbers, fractions))[:, ::-1]
    else:
        target, rng = post.model.target, read_generator(0)
        leaves = leaves_of_draws(post, numbers, rng)
        medians = [leaf.median_given(leaf.draw_parameters(rng, stats, target)[0])[at] for at, stats in leaves]
        ends = np.quantile(medians, fractions, axis=0).T
    out = np.column_stack([quantiles_at(rows, law_of_new_y(rows), numbers, 0.5), ends])
    out = values_at_exposure(post.model, out, exposures_of(post.model, X, numbers, exposure))
    return pd.DataFrame(out, columns=["median", "lower", "upper"])


def leaves_of_draws(
    post: TreeDistribution, numbers: np.ndarray, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each of 1,000 draws of a tree the leaf (n,) that each row reaches, and the statistics of its leaves."""
    refuse_other_leaves(post)
    draws, trees = random_draws(post, N_BAND_DRAWS, rng)
    arrays = draws.coded_trees
    for t, n_draws in zip(*(part.tolist() for part in np.unique(trees, return_counts=True)), strict=True):
        nodes = slice(int(arrays.offset[t]), int(arrays.offset[t + 1]))
        is_leaf = arrays.feature[nodes] == LEAF
        leaf = (np.cumsum(is_leaf) - 1)[draws.distinct_tree(t).routes().leaves(numbers)]
        for _ in range(n_draws):
            yield leaf, draws.place_stats[nodes][is_leaf]


def draw_survival(model: TreeModel, rng: np.random.Generator, stats: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Draw P(time > t) (l, m) at ``times`` (m,) in the leaves of one tree, whose statistics are ``stats`` (l, s)."""
    return model.leaf.draw_survival(rng, stats, np.arange(len(stats)), times, model.target)


def _survival_by_draws(
    post: TreeDistribution, numbers: np.ndarray, times: np.ndarray, fractions: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean and quantiles of P(time > t) over draws, (n, m) each."""
    rng = read_generator(0)
    leaves = leaves_of_draws(post, numbers, rng)
    draws = [(leaf, draw_survival(post.model, rng, stats, times)) for leaf, stats in leaves]
    out = np.empty((3, len(numbers), len(times)))
    step = max(1, MAX_PROBABILITIES_PER_BLOCK // (N_BAND_DRAWS * len(times)))
    for first in range(0, len(numbers), step):
        block = slice(first, first + step)
        values = np.array([by_leaf[leaf[block]] for leaf, by_leaf in draws])
        out[0, block], out[1:, block] = values.mean(axis=0), np.quantile(values, fractions, axis=0)
    return out[0], out[1], out[2]


def mean_survival(post: TreeDistribution, numbers: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the posterior mean of P(time > t), (n, m), at rows of ``numbers`` (n, p), for each of ``times`` (m,)."""
    leaf, rows = survival_leaf(post.model), post._rows
    if not isinstance(leaf, SurvivalLeaf):
        return _survival_by_draws(post, numbers, times, (0.5, 0.5))[0]
    stats = rows.place_stats
    step = max(1, MAX_PROBABILITIES_PER_BLOCK // max(len(stats), 1))
    blocks = [leaf.mean_survival(stats, times[first : first + step]) for first in range(0, len(times), step)]
    return np.clip(np.hstack([rows.average(numbers, block) for block in blocks]), 0.0, 1.0)


def mean_cumulative_hazard(post: TreeDistribution, numbers: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Return the posterior mean of the cumulative hazard (n,) of each row of ``numbers`` (n, p) at its time (n,)."""
    leaf, rows = survival_leaf(post.model), post._rows
    if isinstance(leaf, SurvivalLeaf):
        shape, rate = leaf.gammas(rows.place_stats)
        return (rows.average(numbers, shape / rate) * leaf.basis(time)).sum(axis=1)
    # a leaf of the caller: minus log S, whose mean over draws is interpolated between some times
    rng, grid = read_generator(0), np.unique(np.quantile(np.unique(time), np.linspace(0.0, 1.0, N_GRID_TIMES)))
    total, row = np.zeros((len(numbers), len(grid))), np.arange(len(numbers))
    for at, stats in leaves_of_draws(post, numbers, rng):
        total -= np.log(np.maximum(draw_survival(post.model, rng, stats, grid), SMALLEST_NORMAL))[at] / N_BAND_DRAWS
    after = np.clip(np.searchsorted(grid, time), 1, max(len(grid) - 1, 1))
    if len(grid) == 1:
        return total[:, 0]
    part = (time - grid[after - 1]) / (grid[after] - grid[after - 1])
    return (1.0 - part) * total[row, after - 1] + part * total[row, after]


def read_times(times: Any) -> np.ndarray:
    """Check the argument ``times``, and return it as an array (m,) of times >= 0; a single number becomes (1,)."""
    values = np.atleast_1d(read_numbers("times", times))
    if values.ndim != 1 or len(values) == 0 or not np.all((values >= 0.0) & np.isfinite(values)):
        raise ValueError(f"times has shape {values.shape} or entries out of range; give a row of finite times >= 0.")
    return values
