"""Checks of a `CustomLeaf`: the arguments of its functions, its scores and its predictions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .base import Leaf, Target

if TYPE_CHECKING:
    from .custom import CustomLeaf

# arguments of each function, before the rows of X if the leaf has ``x_columns``
CALL_ARGUMENTS = {
    "stats": "y",
    "log_score": "s",
    "predict": "stats",
    "variance": "stats",
    "cdf": "stats, y",
    "log_density": "stats, y",
    "draw": "rng, stats, leaf",
    "expectation": "rng, stats, leaf",
}
SCORE_TOLERANCE = 1e-9  # largest difference of the plain and the compiled score, relative to the score
MAX_CHECKED_ROWS = 1000  # largest number of rows that a check uses
# largest difference allowed between a probability from the distribution function and the same from the score
PROBABILITY_TOLERANCE = 1e-6
MAX_INTEGRAL_ERROR = 1e-4  # estimated error of an integral above which the check skips the integral
MAX_SUMMED_INTEGERS = 5000  # largest number of integers between two quantiles over which a probability is summed


def check_calls(score: Callable[..., Any], has_params: bool, functions: dict[str, Any], has_x: bool) -> None:
    """Raise a ValueError if ``score`` or another function does not take the arguments with which a leaf calls it."""
    if not _accepts(score, "s, n, params" if has_params else "s, n"):
        if has_params and _accepts(score, "s, n"):
            raise ValueError(
                "score takes no params, and params= are given; write score(s, n, params), or leave them out."
            )
        if not has_params and _accepts(score, "s, n, params"):
            raise ValueError("score takes three arguments, and no params are given; give params=.")
        raise ValueError(
            "score is called as score(s, n), or score(s, n, params) with params=; it takes other arguments."
        )
    for name, function in functions.items():
        call = CALL_ARGUMENTS[name] + (", X" if has_x and name != "log_score" else "")
        if function is not None and not _accepts(function, call):
            raise ValueError(
                f"{name} is called as {name}({call}), and takes other arguments. Params are given to score alone: make "
                "the leaf in a function that has them."
            )


def _accepts(function: Any, call: str) -> bool:
    """Return True if a function takes the arguments listed in ``call``, such as "s, n", or has no known signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*call.split(","))
    except TypeError:
        return False
    return True


def check_scores(leaf: CustomLeaf, target: Target, rng: np.random.Generator, n_cells: int) -> None:
    """Raise a ValueError if statistics do not add, a score is not 0 without rows, or two scores of a cell differ."""
    # the plain and the compiled score are compared on `n_cells` random sets of rows
    n = len(target.values)
    row_stats = leaf.stats_of_y(target.values, target)
    if not np.isfinite(row_stats).all():
        row = int(np.argmax(~np.isfinite(row_stats).all(axis=1)))
        raise ValueError(f"stats= of {leaf!r} is {row_stats[row, 1:].tolist()} in row {row}; return finite numbers.")
    _check_additive(leaf, target, row_stats, rng)
    zero = np.zeros(row_stats.shape[1] - (not leaf.is_classifier))
    empty = leaf.plain_score(zero, target)
    if not abs(empty) <= SCORE_TOLERANCE:
        raise ValueError(f"{leaf!r} scores {empty} for a cell without rows, sums {zero.tolist()}; it must be 0.")
    sizes = np.minimum(rng.geometric(1.0 / (1.0 + min(n, MAX_CHECKED_ROWS) / 4.0), n_cells), n)
    cells = np.array([row_stats[rng.choice(n, size, replace=False)].sum(axis=0) for size in sizes])
    for stats, compiled in zip(cells, leaf.scores(cells, target), strict=True):
        plain = leaf.log_score(stats, target)
        if not np.isfinite(plain) or not np.isfinite(compiled):
            raise ValueError(
                f"{leaf!r} scores {compiled}, and plainly {plain}, for a cell with sums "
                f"{leaf.sums_of(stats[None])[0].tolist()}; a score must be finite, and may raise no exception."
            )
        if not abs(plain - compiled) <= SCORE_TOLERANCE * max(1.0, abs(plain)):
            raise ValueError(
                f"{leaf!r} scores {compiled} for a cell with sums {leaf.sums_of(stats[None])[0].tolist()}, and "
                f"plainly {plain}: both must be the same function."
            )


def _check_additive(leaf: CustomLeaf, target: Target, row_stats: np.ndarray, rng: np.random.Generator) -> None:
    """Raise a ValueError if the statistics of a row, ``row_stats`` (n, n_stats), depend on the other rows."""
    n = len(target.values)
    for size in {1, max(n // 2, 1)}:
        rows = np.sort(rng.choice(n, size, replace=False))
        regressors = None if target.regressors is None else target.regressors[rows]
        of_some_rows = leaf.stats_of_y(target.values[rows], target._replace(regressors=regressors))
        if of_some_rows.shape[1] != row_stats.shape[1] or not np.array_equal(of_some_rows, row_stats[rows]):
            raise ValueError(
                f"stats= of {leaf!r} gives other numbers for {size} of the rows than for all {n}: what a row adds "
                "must not depend on the other rows, or the sums are not additive."
            )


def check_predictions(leaf: CustomLeaf, target: Target) -> None:
    """Raise a ValueError if a prediction, density or distribution function is invalid, or contradicts the score."""
    whole_cell = leaf.stats_of_y(target.values, target).sum(axis=0)
    cells = np.tile(whole_cell, (len(target.values), 1))
    if leaf.has_function("log_density"):
        _check_density(leaf, cells, target)
    if leaf.has_function("predict"):
        value = leaf.value(cells[:1], target, None if target.regressors is None else target.regressors[:1])
        if leaf.is_classifier and (np.any(value < 0.0) or not abs(value.sum() - 1.0) <= 1e-6):
            raise ValueError(f"predict= of {leaf!r} is {value[0].tolist()}; give probabilities that sum to one.")
    if leaf.has_function("variance"):
        spread = leaf.predictive(cells, target.values, target).at(target.regressors).variance()
        if not np.all(spread >= 0.0):
            raise ValueError(f"variance= of {leaf!r} is {spread.min()}; a variance is at least 0.")
    if leaf.has_function("cdf"):
        _check_monotone(leaf, cells, target)
        if target.regressors is None:
            _check_cdf(leaf, target)


def _check_density(leaf: CustomLeaf, cells: np.ndarray, target: Target) -> None:
    """Raise a ValueError if `log_density` of a row is not the difference that the row makes to the score of a cell."""
    density = leaf.log_density(cells, target.values, target)
    gain = Leaf.log_density(leaf, cells, target.values, target)
    agrees = np.abs(density - gain) <= 1e-6 * np.maximum(1.0, np.abs(gain))
    if not np.all(agrees):
        row = int(np.argmin(agrees))
        raise ValueError(f"log_density= of {leaf!r} is {density[row]} for row {row}; by the score it is {gain[row]}.")


def _check_monotone(leaf: CustomLeaf, cells: np.ndarray, target: Target) -> None:
    """Raise a ValueError if ``cdf``, the distribution function of a new y, decreases in y or leaves [0, 1]."""
    chances = leaf.predictive(cells, target.values, target).at(target.regressors).below(np.sort(target.values))
    rises = target.regressors is not None or np.all(np.diff(chances) >= -1e-12)
    if not np.all((chances >= 0.0) & (chances <= 1.0)) or not rises:
        raise ValueError(f"cdf= of {leaf!r} falls, or leaves [0, 1].")


def _check_cdf(leaf: CustomLeaf, target: Target) -> None:
    """Raise a ValueError if ``cdf`` contradicts the score on the probability between quantiles of y in a cell."""
    row_stats, n = leaf.stats_of_y(target.values, target), len(target.values)
    quantiles = np.unique(np.quantile(target.values, [0.0, 0.25, 0.5, 0.75, 1.0], method="nearest"))
    for size in sorted({min(2, n), (n + 1) // 2, n}):
        cell = row_stats[:size].sum(axis=0)
        chances = leaf.predictive(np.tile(cell, (len(quantiles), 1)), quantiles, target).below(quantiles)
        for low, high, increase in zip(quantiles[:-1], quantiles[1:], np.diff(chances), strict=True):
            by_score = list(_probabilities_by_score(leaf, cell, float(low), float(high), target))
            if by_score and not any(abs(increase - probability) <= tolerance for probability, tolerance in by_score):
                raise ValueError(
                    f"cdf= of {leaf!r} rises by {increase:.9g} from y={low:.6g} to y={high:.6g} in a cell with sums "
                    f"{leaf.sums_of(cell[None])[0].tolist()}, and by the score it is {by_score[-1][0]:.9g}: one "
                    "of them is wrong, or the score is not a marginal likelihood."
                )


def _probabilities_by_score(
    leaf: CustomLeaf, cell: np.ndarray, low: float, high: float, target: Target
) -> Iterator[tuple[float, float]]:
    """Yield P(low < y <= high) by the score in a cell with statistics ``cell``, and the error allowed."""
    # from a sum over integers unless y has others, and from an integral unless it is inaccurate or y are integers
    are_integers = np.array_equal(target.values, np.round(target.values)) and high - low <= MAX_SUMMED_INTEGERS
    if are_integers:
        total = float(_densities_by_score(leaf, cell, np.arange(low + 1.0, high + 1.0), target).sum())
        if np.isfinite(total):
            yield total, PROBABILITY_TOLERANCE
    if leaf.whole:
        return
    # scipy.integrate takes longer to import than this library
    from scipy import integrate

    def density(y: float) -> float:
        return float(_densities_by_score(leaf, cell, np.array([y]), target)[0])

    precision = {"epsabs": PROBABILITY_TOLERANCE / 10.0, "epsrel": PROBABILITY_TOLERANCE / 10.0}
    total, error = integrate.quad(density, low, high, full_output=True, **precision)[:2]
    if np.isfinite(total) and error <= MAX_INTEGRAL_ERROR:
        yield total, PROBABILITY_TOLERANCE + 10.0 * error


def _densities_by_score(leaf: CustomLeaf, cell: np.ndarray, y: np.ndarray, target: Target) -> np.ndarray:
    """Return the predictive densities (m,) of y (m,) in a cell with statistics ``cell``, as the score implies them."""
    # exponentials of the differences that a row with this y makes to the score
    with np.errstate(all="ignore"):
        return np.exp(Leaf.log_density(leaf, np.tile(cell, (len(y), 1)), y, target))
