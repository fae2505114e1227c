"""Leaf models defined by the caller: additive statistics, a score and predictions, and checks of these functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numba import cloudpickle

from ...core.checks import check_count, check_flag, read_array, read_generator, read_numbers, refuse_other_rows, repr_of
from ...files.encoding import register_class
from .base import Leaf, Target, refuse_rows
from .distributions import Distributions

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
    "survival": "rng, stats, leaf, times",
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
            raise ValueError("score takes no params, and params= are given; write score(s, n, params), or drop them.")
        if not has_params and _accepts(score, "s, n, params"):
            raise ValueError("score takes three arguments, and no params are given; give params=.")
        raise ValueError("score is called as score(s, n), or score(s, n, params) with params=; it takes others.")
    for name, function in functions.items():
        call = CALL_ARGUMENTS[name] + (", X" if has_x and name != "log_score" else "")
        if function is not None and not _accepts(function, call):
            raise ValueError(f"{name} is called as {name}({call}), and takes other arguments, without the params.")


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
    cells = np.tile(leaf.stats_of_y(target.values, target).sum(axis=0), (len(target.values), 1))
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


FEW_CELLS = 4  # number of cells on which a leaf is checked when a model is built


@register_class
class LeafOutline(NamedTuple):
    """Description of a `CustomLeaf` in a file, which does not contain its functions."""

    name: str
    classes: bool
    y_columns: int
    x_columns: tuple
    params: np.ndarray
    stats: np.ndarray  # (m, n_stats): the statistics of some cells
    scores: np.ndarray  # (m,): the scores of these cells, to recognise the leaf


class CustomLeaf(Leaf):
    """Your own leaf model, for both engines, without recompiling the library.

    The score of a cell is a function of sums over its rows: ``score(s, n)`` takes the ``n`` sums ``s[0], ..., s[n-1]``
    and returns the log marginal likelihood of the cell in nats. It is compiled by numba, so it may use only numbers and
    ``math``. A cell without weight has score 0, and the engines do not call the function for it; where all sums are 0
    it must return 0 all the same, which a model verifies: otherwise it lacks a constant.

    ``score`` and ``stats`` suffice for sampling, ``exact.solve``, evidence, and the log likelihood of rows, the
    difference that a row makes to the score of its cell. A method that needs another function names the argument.

    Parameters
    ----------
    score : function, or numba.cfunc
        ``score(s, n)``, or ``score(s, n, params)`` if ``params`` are given. If it raises an exception, the score is
        NaN.
    stats : function
        ``stats(y)`` -> (n, k): what each row adds to the sums of its cell; ``stats(y, X)`` with ``x_columns``. Each row
        of the result must depend only on the same row of y. It is multiplied by the sample weights. Leave it out with
        ``classes``: the sums are then the weights of the classes.
    params : sequence of float, default ()
        Numbers that the score reads as ``params[0], ...``. Leaves that differ only in these use the same compiled
        score.
    classes : bool, default False
        Whether y is a class; the sums are then the weights of the sorted classes, and ``stats`` is left out.
    y_columns : int, default 1
        Number of columns of y, such as time and event: y has shape (n,) if 1, else (n, y_columns).
    x_columns : sequence of names or indices, optional
        Ordered columns of X that the statistics use: ``X`` (n, c) in ``stats(y, X)``.
    whole : bool, default False
        Whether y is an integer, so that its quantiles are integers too.
    name : str, optional
        Name by which files identify the leaf. Default: the name of ``score``.
    log_score : function, optional
        ``log_score(s)`` -> float in plain Python, for `check` and `TreeModel.log_score`. Default: ``score`` itself, run
        as Python.
    predict : function, optional
        ``predict(stats)`` -> mean of a new y, (m,), in cells with sums ``stats`` (m, k); with ``classes``
        probabilities (m, K), by default those that the score implies. With ``x_columns`` the signature is
        ``predict(stats, X)``, with a row of X for each cell; likewise for the next three.
    variance : function, optional
        ``variance(stats)`` -> variance (m,) of a new y.
    cdf : function, optional
        ``cdf(stats, y)`` -> probability (m,) that a new y is at most ``y`` (m,).
    log_density : function, optional
        ``log_density(stats, y)`` -> log density (m,) of a new row ``y`` (m,). Default: the difference of two scores.
    draw : function, optional
        ``draw(rng, stats, leaf)`` -> new y (n,), or (n, y_columns): draws the parameters of each of the leaves given
        their sums ``stats`` (m, k), then a y in leaf ``leaf[i]`` for each i < n.
    expectation : function, optional
        ``expectation(rng, stats, leaf)`` -> E(y), (n,), or class probabilities (n, K): draws the parameters
        of each of the leaves as ``draw`` does, then returns the expectation in leaf ``leaf[i]`` for each i < n.
        `credible_interval` and `draw_expectations` need it.
    survival : function, optional
        ``survival(rng, stats, leaf, times)`` -> P(time > t), (n, k): draws the parameters of each of the leaves as
        ``draw`` does, then returns the survival function in leaf ``leaf[i]`` for each i < n, at each of ``times`` (k,).
        For y of times, or of the two columns time and event (1: seen, 0: censored). `survival` and `calibration` need
        it. Not with ``x_columns``.

    Raises
    ------
    ValueError
        If an argument is out of range, or a function takes other arguments than it is called with. When a model is
        built: if ``stats`` returns a wrong shape, numbers that are not finite or that depend on other rows, or if the
        compiled and the plain score differ.
    TypeError
        If an argument that must be a function is not one.

    See Also
    --------
    load : Takes the leaf that a file needs as ``leaf=``.

    Notes
    -----
    Files never contain code. The leaf is sent to the workers of an executor as Python functions.

    Examples
    --------
    >>> import math, numpy as np, pactree_mcmc as pt
    >>> def exponential(s, n):  # rate ~ Gamma(1, 1); s: how many, sum of y
    ...     return math.lgamma(1.0 + s[0]) - (1.0 + s[0]) * math.log(1.0 + s[1])
    >>> leaf = pt.CustomLeaf(
    ...     exponential,
    ...     stats=lambda y: np.column_stack([np.ones_like(y), y]),
    ...     predict=lambda stats: (1.0 + stats[:, 1]) / stats[:, 0],
    ... )
    >>> leaf.check([0.5, 2.0, 1.2])
    >>> model = pt.TreeModel([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.2, 5.0, 7.0], leaf=leaf)
    >>> round(model.log_score(pt.Tree([-1], [0], [0], [0])), 4)
    -9.7608
    """

    needs_variance = False
    has_closed_expectation = False

    def __init__(
        self,
        score: Any,
        *,
        stats: Callable[..., np.ndarray] | None = None,
        params: Sequence[float] = (),
        classes: bool = False,
        y_columns: int = 1,
        x_columns: Sequence[Any] | None = None,
        whole: bool = False,
        name: str | None = None,
        log_score: Callable[..., float] | None = None,
        predict: Callable[..., np.ndarray] | None = None,
        variance: Callable[..., np.ndarray] | None = None,
        cdf: Callable[..., np.ndarray] | None = None,
        log_density: Callable[..., np.ndarray] | None = None,
        draw: Callable[..., np.ndarray] | None = None,
        expectation: Callable[..., np.ndarray] | None = None,
        survival: Callable[..., np.ndarray] | None = None,
    ) -> None:
        self._score = _python_function(score)
        check_flag("classes", classes)
        check_flag("whole", whole)
        self.is_classifier, self.whole = bool(classes), bool(whole)
        self.y_columns = check_count("y_columns", y_columns)
        self.x_columns = read_x_columns("x_columns", x_columns)
        functions = {"stats": stats, "log_score": log_score, "predict": predict, "variance": variance}
        functions |= {"cdf": cdf, "log_density": log_density, "draw": draw, "expectation": expectation}
        functions |= {"survival": survival}
        self._functions = functions
        for argument, function in self._functions.items():
            if function is not None and not callable(function):
                raise TypeError(f"{argument} is {repr_of(function)}; give a function.")
        if self.is_classifier and (stats is not None or self.y_columns > 1 or self.x_columns is not None):
            raise ValueError("with classes=True sums are weights of classes; drop stats=, y_columns= and x_columns=")
        if survival is not None and (self.is_classifier or self.y_columns > 2 or self.x_columns is not None):
            raise ValueError(
                "survival= is for y of times, or of time and event: leave out classes= and x_columns=, and give "
                "y_columns 1 or 2."
            )
        if not self.is_classifier and stats is None:
            raise ValueError("stats is missing; give a function of y that returns what each row adds, (n, k).")
        self._params = read_numbers("params", params)
        if self._params.ndim != 1 or not np.isfinite(self._params).all():
            raise ValueError(f"params is {repr_of(params)}; give a sequence of finite numbers.")
        self.name = getattr(self._score, "__name__", "score") if name is None else name
        if not isinstance(self.name, str):
            raise TypeError(f"name is {repr_of(name)}; give a string.")
        check_calls(self._score, len(self._params) > 0, self._functions, self.x_columns is not None)

    def has_function(self, argument: str) -> bool:
        """Return True if the caller gave the function ``argument``, such as "predict" or "draw"."""
        return self._functions[argument] is not None

    def _function(self, argument: str, use: str) -> Callable[..., Any]:
        """Return the function that the user gave as ``argument``, or raise a ValueError that ``use`` needs it."""
        function = self._functions[argument]
        if function is None:
            raise ValueError(f"{self!r} has no {argument}, which {use} needs; give CustomLeaf({argument}=...).")
        return function

    @property
    def compiled_score(self) -> Callable[..., float]:  # type: ignore[override]
        return self._score

    def score_params(self, target: Target | None) -> np.ndarray:
        return self._params

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        stats = np.asarray(self._function("stats", "a model")(y.copy(), *_copies(target.regressors)), dtype=np.float64)
        if stats.ndim != 2 or stats.shape[0] != len(y) or stats.shape[1] == 0:
            raise ValueError(f"stats= of {self!r} returned shape {stats.shape} for {len(y)} rows; return (n, k >= 1)")
        return stats.T

    def plain_score(self, sums: np.ndarray, target: Target | None) -> float:
        plain_function = self._functions["log_score"]
        with np.errstate(all="ignore"):
            if plain_function is not None:
                return float(plain_function(sums.copy()))
            try:
                return float(self._score(sums.copy(), len(sums), *_copies(self._params if len(self._params) else None)))
            except (ValueError, ArithmeticError):
                # as in compiled code, where math.log(-1.0) is NaN
                return float("nan")

    def resolve(self, target: Target) -> Self:
        check_scores(self, target, np.random.default_rng(0), FEW_CELLS)
        return self

    @property
    def predicts(self) -> bool:  # type: ignore[override]
        return self.is_classifier or self._functions["predict"] is not None

    def value(self, stats: np.ndarray, target: Target, regressors: np.ndarray | None = None) -> np.ndarray:
        if self.is_classifier and self._functions["predict"] is None:
            each = [self.log_density(stats, np.full(len(stats), k), target) for k in range(target.n_classes)]
            chances = np.exp(np.column_stack(each))
            return chances / chances.sum(axis=1, keepdims=True)
        function = self._function("predict", "a prediction")
        value = np.asarray(function(self.sums_of(stats).copy(), *_copies(regressors)), dtype=np.float64)
        value = value[:, None] if value.ndim == 1 else value
        columns = target.n_classes if self.is_classifier else 1
        if value.shape != (len(stats), columns):
            raise ValueError(f"predict= of {self!r} returned shape {value.shape} for {len(stats)} cells.")
        return value

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        score_gain = super().log_density(stats, y, target, weight)
        function = self._functions["log_density"]
        if function is None:
            return score_gain
        density = np.asarray(function(self.sums_of(stats).copy(), y.copy(), *_copies(target.regressors)), np.float64)
        return np.where(np.broadcast_to(weight, len(y)) == 1.0, density, score_gain)

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> CustomDistributions:
        if self.y_columns > 1:
            raise ValueError(f"{self!r} is a leaf of y in {self.y_columns} columns, which have no quantiles.")
        return CustomDistributions(self, target, stats)

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
        regressors: np.ndarray | None = None,
    ) -> np.ndarray:
        x = target.regressors[rows] if rows is not None and target.regressors is not None else regressors
        new_y = np.asarray(self._function("draw", "a draw of y")(rng, self.sums_of(stats).copy(), leaf, *_copies(x)))
        shapes = [(len(leaf),), (len(leaf), self.y_columns)] if self.y_columns > 1 else [(len(leaf),)]
        if new_y.shape not in shapes:
            raise ValueError(f"draw= of {self!r} returned shape {new_y.shape} for {len(leaf)} new y.")
        return new_y

    @property
    def has_expectation(self) -> bool:
        """True if the caller gave ``expectation=``."""
        return self._functions["expectation"] is not None

    def draw_expectation(
        self, rng: np.random.Generator, stats: np.ndarray, leaf: np.ndarray, target: Target, *regressors: np.ndarray
    ) -> np.ndarray:
        function = self._function("expectation", "an interval or a draw of E(y)")
        values = np.asarray(function(rng, self.sums_of(stats).copy(), leaf, *map(np.copy, regressors)), np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if values.shape != (len(leaf), target.n_classes if self.is_classifier else 1):
            raise ValueError(f"expectation= of {self!r} returned shape {values.shape} for {len(leaf)} rows.")
        return values

    @property
    def has_survival(self) -> bool:  # type: ignore[override]
        """True if the caller gave ``survival=``."""
        return self._functions["survival"] is not None

    def draw_survival(
        self, rng: np.random.Generator, stats: np.ndarray, leaf: np.ndarray, times: np.ndarray, target: Target
    ) -> np.ndarray:
        function = self._function("survival", "a survival function")
        values = np.asarray(function(rng, self.sums_of(stats).copy(), leaf, times.copy()), np.float64)
        if values.shape != (len(leaf), len(times)) or not np.all((values >= 0.0) & (values <= 1.0)):
            raise ValueError(
                f"survival= of {self!r} returned shape {values.shape}, or no probabilities, for {len(leaf)} rows and "
                f"{len(times)} times; return probabilities ({len(leaf)}, {len(times)})."
            )
        return values

    def times_and_events(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        time, event = (y, np.ones(len(y))) if self.y_columns == 1 else y.T
        refuse_rows(~(time >= 0.0), "the time", time, "give times >= 0.")
        refuse_rows((event != 0.0) & (event != 1.0), "the event", event, "give 1 where it was seen, else 0.")
        return time, event == 1.0

    def check(self, y: Any, X: Any = None, *, cells: int = 50, rng: Any = 0) -> None:
        """Compare the plain and compiled forms of the leaf on random cells of some data; raise an error if they
        disagree.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, y_columns)
            Data for which the leaf is meant; labels with ``classes``. Only the first thousand rows are used.
        X : array-like of shape (n, c), optional
            The columns ``x_columns``.
        cells : int, default 50
            Number of cells.
        rng : int, SeedSequence, Generator or None
            Source of randomness.

        Raises
        ------
        ValueError
            If the compiled and the plain score of a cell differ or are not finite; the score is not 0 where all sums
            are; the statistics of a row depend on other rows, so that they are not additive; ``log_density`` is not
            the difference of scores; ``predict`` has a wrong shape, or with ``classes`` does not return probabilities;
            ``variance`` is negative; or ``cdf`` decreases, leaves [0, 1], or is not that of the score.

        Notes
        -----
        Costs ``cells`` plain scores. The increase of ``cdf`` between two quantiles of y is compared, in three cells,
        with the predictive density that the score determines, ``exp(score(sums + stats(y)) - score(sums))``, summed
        over integers or integrated; not with ``x_columns``, and not where the integral is not resolved. The values of
        ``predict``, ``variance`` and ``draw`` are not compared with the score, and it is not checked that the score is
        a *marginal likelihood*: its exponential must sum or integrate to one over all y for evidences to be meaningful.
        """
        target = self._target(y, X)
        check_scores(self, target, read_generator(rng), check_count("cells", cells))
        check_predictions(self, target)

    def _target(self, y: Any, X: Any) -> Target:
        """Return the first ``MAX_CHECKED_ROWS`` rows of data, checked, as the `Target` that checks of a leaf take."""
        refuse_other_rows(X=X, y=y)
        if self.is_classifier:
            classes, values = np.unique(_first_rows("y", read_array("y", y)), return_inverse=True)
            return Target(values.reshape(-1).astype(np.int32), classes, None, None, 0.0, 1.0)
        values = _first_rows("y", read_numbers("y", y))
        if values.shape[1:] != ((self.y_columns,) if self.y_columns > 1 else ()) or not np.isfinite(values).all():
            shape = f"(n, {self.y_columns})" if self.y_columns > 1 else "(n,)"
            raise ValueError(f"y has shape {values.shape}; give finite numbers of shape {shape}.")
        if (X is None) != (self.x_columns is None):
            raise ValueError("X is needed where the leaf has x_columns=, and only there.")
        regressors = None if X is None else _first_rows("X", read_numbers("X", X))
        return Target(values, None, None, None, 0.0, 1.0, regressors)

    def outline(self, target: Target) -> LeafOutline:
        """Return the description that a file stores, with the scores of some cells to recognise the leaf."""
        rows = self.stats_of_y(target.values, target)
        n = len(rows)
        cells = np.array([part.sum(axis=0) for part in (rows[:1], rows[: n // 2 + 1], rows[::2], rows)])
        columns = () if self.x_columns is None else tuple(self.x_columns)
        scores = self.scores(cells, target)
        return LeafOutline(self.name, self.is_classifier, self.y_columns, columns, self._params, cells, scores)

    in_file = outline

    def mismatch(self, outline: LeafOutline, target: Target) -> str | None:
        """Return a text on the first difference from the leaf that ``outline``, part of a file, describes, or None."""
        for attribute in ("name", "classes", "y_columns"):
            mine = self.is_classifier if attribute == "classes" else getattr(self, attribute)
            if mine != getattr(outline, attribute):
                return f"its {attribute} is {mine!r}, that of the file's leaf {getattr(outline, attribute)!r}"
        if tuple(self.x_columns or ()) != tuple(outline.x_columns):
            return f"its x_columns are {self.x_columns}, those of the file's leaf {list(outline.x_columns)}"
        if not np.array_equal(self._params, outline.params):
            return f"its params are {self._params.tolist()}, those of the file's leaf {outline.params.tolist()}"
        mine = self.outline(target)
        for attribute, ours, stored in (("stats", mine.stats, outline.stats), ("scores", mine.scores, outline.scores)):
            if ours.shape != stored.shape or not np.allclose(ours, stored, rtol=SCORE_TOLERANCE, atol=SCORE_TOLERANCE):
                return f"its {attribute} of the file's data are not those of the file's leaf"
        return None

    def __reduce__(self) -> tuple:
        parts = self._functions | {"score": self._score, "params": self._params.tolist(), "classes": self.is_classifier}
        parts |= {"y_columns": self.y_columns, "x_columns": self.x_columns, "whole": self.whole, "name": self.name}
        return _unpickle_leaf, (cloudpickle.dumps(parts),)

    def __deepcopy__(self, memo: dict) -> CustomLeaf:
        return self

    def __repr__(self) -> str:
        params = f", params={self._params.tolist()}" if len(self._params) else ""
        return f"CustomLeaf({self.name}{params})"


class CustomDistributions(Distributions):
    """Distributions of a new y in cells with ``stats`` (m, n_stats), by the functions of a `CustomLeaf`."""

    def __init__(
        self, leaf: CustomLeaf, target: Target, stats: np.ndarray, regressors: np.ndarray | None = None
    ) -> None:
        super().__init__(leaf.name, *stats.T, is_whole=leaf.whole)
        self.leaf, self.target, self.stats, self.regressors = leaf, target, stats, regressors

    def take(self, indices: np.ndarray) -> CustomDistributions:
        return CustomDistributions(self.leaf, self.target, self.stats[indices])

    def at(self, regressors: np.ndarray) -> CustomDistributions:
        """Return the distributions given ``regressors`` (m, c), the columns of X of one new row for each cell."""
        return CustomDistributions(self.leaf, self.target, self.stats, regressors)

    def _call_function(self, argument: str, use: str, *arguments: np.ndarray) -> np.ndarray:
        """Return the result (m,) of the user's function ``argument``, such as "cdf", of the sums of the cells."""
        function = self.leaf._function(argument, use)
        out = np.asarray(function(self.leaf.sums_of(self.stats).copy(), *arguments, *_copies(self.regressors)))
        if out.shape != (len(self.stats),):
            raise ValueError(f"{argument}= of {self.leaf!r} returned shape {out.shape} for {len(self.stats)} cells.")
        return out.astype(np.float64)

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        return self.leaf.value(self.stats, self.target, self.regressors)[:, 0], self.variance()

    def variance(self) -> np.ndarray:
        return self._call_function("variance", "a standard deviation")

    def below(self, y: np.ndarray) -> np.ndarray:
        return self._call_function("cdf", "a quantile or an interval", y)

    def above(self, y: np.ndarray) -> np.ndarray:
        return 1.0 - self.below(y)

    has_exact_brackets = False

    @property
    def ends(self) -> tuple[float, float]:
        return -np.inf, np.inf

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        # a search begins with the smallest and the largest y of the data
        y = self.target.values
        return np.full(len(self.stats), y.min()), np.full(len(self.stats), y.max())


@functools.lru_cache(maxsize=64)
def _unpickle_leaf(parts: bytes) -> CustomLeaf:
    """Return the leaf with the pickled arguments ``parts``."""
    # the same bytes give the same object, so that the score is compiled once
    return CustomLeaf(**cloudpickle.loads(parts))


def _copies(array: np.ndarray | None) -> list[np.ndarray]:
    """Return a list with a copy of the array, as an argument of a function of the caller; no entries for None."""
    return [] if array is None else [np.array(array)]


def _python_function(score: Any) -> Callable[..., float]:
    """Return the Python function behind a function that numba has compiled, or ``score`` itself."""
    for attribute in ("_pyfunc", "py_func"):
        score = getattr(score, attribute, score)
    if not callable(score) or not hasattr(score, "__code__"):
        raise TypeError(f"score is {repr_of(score)}; give a Python function of the sums s and their number n.")
    return score


def read_x_columns(argument: str, x_columns: Any) -> list | None:
    """Check the ``argument`` with columns of X, by name or index, and return them as a list; None stays None."""
    if x_columns is None:
        return None
    if isinstance(x_columns, str) or not isinstance(x_columns, Sequence | np.ndarray) or len(x_columns) == 0:
        raise TypeError(f"{argument} is {repr_of(x_columns)}; give a list of column names or indices.")
    out = [int(c) if isinstance(c, int | np.integer) and not isinstance(c, bool) else c for c in x_columns]
    if not all(isinstance(c, int | str) for c in out) or len(set(out)) < len(out):
        raise ValueError(f"{argument} is {repr_of(x_columns)}; give different column names or indices.")
    return out


def _first_rows(name: str, array: np.ndarray) -> np.ndarray:
    """Return the first ``MAX_CHECKED_ROWS`` rows of the argument called ``name``, an array."""
    if array.ndim == 0:
        raise ValueError(f"{name} is one value; give an array with an entry for each row.")
    return array[:MAX_CHECKED_ROWS]
