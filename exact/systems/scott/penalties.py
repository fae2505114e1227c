"""Penalties of a dyadic tree: sums over its leaves, or functions of their number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates import dyadic_penalty
from pactree_mcmc.certificates.bound import check_delta
from pactree_mcmc.core.checks import as_number, check_count, check_number, in_words, read_numbers

LARGEST_PENALTY = 1e150


class Sample(NamedTuple):
    """The quantities besides the tree on which a penalty may depend."""

    n: int
    """Rows."""
    n_features: int
    n_classes: int
    """Possible labels, at least 2."""
    cyclic: bool
    """Whether the depth determines the coordinate, which then needs no bits."""


@dataclass(frozen=True)
class SpatiallyAdaptive:
    """The penalty of Scott's Theorem 2, which adds over the leaves (equation 2.9; `certificates.dyadic_penalty`).

    Parameters
    ----------
    delta : float or None, default None
        Confidence parameter in (0, 1); None: one over the number of rows, as in the paper.

    Raises
    ------
    ValueError
        If ``delta`` is outside (0, 1).
    """

    delta: float | None = None

    def __post_init__(self) -> None:
        _check_given(self.delta)

    def of_cells(self, rows: np.ndarray, depth: np.ndarray, sample: Sample) -> np.ndarray:
        """Returns the penalty of cells with ``rows`` rows at ``depth``."""
        delta = 1.0 / sample.n if self.delta is None else self.delta
        n, p = sample.n, sample.n_features
        return dyadic_penalty(rows, depth, n, p, delta, n_classes=sample.n_classes, cyclic=sample.cyclic)


@dataclass(frozen=True)
class SquareRoot:
    """The penalty of Scott's Proposition 1, a concave function of the number of leaves.

    ``sqrt(([T] ln 2 + ln(1/delta)) / (2n))``, ``[T] = 2k - 1 + k log2 K + (k - 1) log2 p`` bits for k leaves and
    K classes.

    Parameters
    ----------
    delta : float or None, default None
        Confidence parameter in (0, 1); None: one over the number of rows.

    Raises
    ------
    ValueError
        If ``delta`` is outside (0, 1).
    """

    delta: float | None = None

    def __post_init__(self) -> None:
        _check_given(self.delta)

    def of_sizes(self, leaves: np.ndarray, sample: Sample) -> np.ndarray:
        """Returns the penalty of trees with ``leaves`` leaves."""
        delta = 1.0 / sample.n if self.delta is None else self.delta
        split_bits = 0.0 if sample.cyclic else math.log2(sample.n_features)
        bits = 2.0 * leaves - 1.0 + leaves * math.log2(sample.n_classes) + (leaves - 1.0) * split_bits
        return np.sqrt((bits * math.log(2.0) - math.log(delta)) / (2.0 * sample.n))


@dataclass(frozen=True)
class AdditivePenalty:
    """A penalty that adds over the leaves.

    Parameters
    ----------
    cost : float, or function of (rows, depth) that returns an array
        Cost of each leaf, in units of risk, finite and >= 0.

    Raises
    ------
    ValueError
        If a cost is negative or not finite.

    Examples
    --------
    >>> AdditivePenalty(0.01).of_cells(np.array([5, 3]), np.array([0, 1]), None).tolist()
    [0.01, 0.01]
    """

    cost: float | Callable[[np.ndarray, np.ndarray], Any]

    def __post_init__(self) -> None:
        if not callable(self.cost):
            number = check_number("cost", self.cost, "a number >= 0, or a function of (rows, depth)", 0.0)
            object.__setattr__(self, "cost", number)

    def of_cells(self, rows: np.ndarray, depth: np.ndarray, sample: Sample) -> np.ndarray:
        """Returns the penalty of cells with ``rows`` rows at ``depth``."""
        cost = read_numbers("what cost returns", self.cost(rows, depth) if callable(self.cost) else self.cost)
        if cost.shape not in ((), rows.shape):
            raise ValueError(f"cost returns shape {cost.shape}; return one value for each of the {len(rows)} cells.")
        _check_costs(cost)
        return np.broadcast_to(cost, rows.shape)


@dataclass(frozen=True)
class SizePenalty:
    """A penalty that depends only on the number of leaves.

    Parameters
    ----------
    function : function of an array of numbers of leaves that returns an array
        Finite and nondecreasing, in units of risk.

    Examples
    --------
    >>> SizePenalty(lambda leaves: 0.1 * leaves**0.7).of_sizes(np.array([1.0, 2.0]), None).round(4).tolist()
    [0.1, 0.1625]
    """

    function: Callable[[np.ndarray], Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function is {in_words(self.function)}; give a function of an array of numbers of leaves.")

    def of_sizes(self, leaves: np.ndarray, sample: Sample) -> np.ndarray:
        """Returns the penalty of trees with ``leaves`` leaves."""
        return sizes_penalty(self.function, leaves)


Penalty = SpatiallyAdaptive | SquareRoot | AdditivePenalty | SizePenalty


def read_penalty(penalty: Any) -> Penalty:
    """Returns a penalty given by name, as a number (the cost of a leaf), or as an object."""
    named: dict[str, Penalty] = {"adaptive": SpatiallyAdaptive(), "square-root": SquareRoot()}
    if isinstance(penalty, str) and penalty in named:
        return named[penalty]
    if as_number(penalty) is not None:
        return AdditivePenalty(penalty)
    if isinstance(penalty, Penalty):
        return penalty
    raise ValueError(
        f"penalty={in_words(penalty)} is unknown; give 'adaptive', 'square-root', a number for the cost of a leaf, "
        "SpatiallyAdaptive(...), SquareRoot(...), AdditivePenalty(...), SizePenalty(...) or RootFragments(...)."
    )


def sizes_penalty(penalty: Any, leaves: np.ndarray) -> np.ndarray:
    """A penalty by number of leaves, a function or the values for 1, 2, ... leaves, at ascending ``leaves``.

    Raises
    ------
    ValueError
        If it is not finite or decreases, or there are too few values.
    """
    if callable(penalty):
        out = read_numbers("what penalty returns", penalty(leaves))
    else:
        given = read_numbers("penalty", penalty)
        if given.ndim != 1 or len(given) < leaves[-1]:
            raise ValueError(f"penalty has shape {given.shape}; give values for 1 to {int(leaves[-1])} leaves.")
        out = given[leaves.astype(np.int64) - 1]
    if out.shape != leaves.shape or not np.isfinite(out).all():
        raise ValueError("penalty must return a finite number for each number of leaves in the array it is given.")
    if np.abs(out).max(initial=0.0) > LARGEST_PENALTY:
        raise ValueError(f"penalty is as large as {np.abs(out).max():.3g}; give penalties up to {LARGEST_PENALTY:g}.")
    falls = out[1:] < out[:-1]
    if falls.any():
        i = int(np.argmax(falls))
        raise ValueError(
            f"the penalty falls from {out[i]:.6g} for {leaves[i]:g} leaves to {out[i + 1]:.6g} for {leaves[i + 1]:g}; "
            "give one that increases with the number of leaves."
        )
    return out


def increasing_penalty(penalty: Any, most: int) -> np.ndarray:
    """A penalty of 1, ..., ``most`` leaves, which must increase everywhere."""
    phi = sizes_penalty(penalty, np.arange(1.0, most + 1.0))
    if np.any(np.diff(phi) <= 0.0):
        k = int(np.argmax(np.diff(phi) <= 0.0)) + 1
        raise ValueError(f"the penalty of {k + 1} leaves is not above that of {k}; give an increasing one.")
    return phi


def dominates(first: Any, second: Any, max_leaves: int) -> bool:
    """Returns whether one penalty of the number of leaves dominates another (Scott 2004, definition 1).

    ``(g(a) - g(b)) / (g(a) - g(c)) <= (f(a) - f(b)) / (f(a) - f(c))`` for all ``a > b > c``, with f the first and g the
    second: g is a concave function of f. Then every pruning that is best under ``alpha g`` for some alpha is so under
    ``alpha f`` for another one, for every tree (Theorem 18). A penalty that is dominated by ``k`` is sub-additive in
    Scott's words.

    Parameters
    ----------
    first, second : function of an array of numbers of leaves, or array
        Increasing penalties of 1, 2, ... leaves.
    max_leaves : int
        Trees of up to so many leaves, >= 1.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        If a penalty does not increase everywhere or is not finite, or ``max_leaves`` is out of range.

    Notes
    -----
    It is enough that ``(g(k + 1) - g(k)) / (f(k + 1) - f(k))`` does not increase: O(max_leaves), up to rounding.
    Scott's Proposition 9 (``g'' <= f'' g' / f'`` where ``0 < g' <= f'``) and Proposition 10 (both composed with one
    increasing function) are conditions on functions under which this holds for all sizes.

    Examples
    --------
    >>> dominates(lambda k: k, np.sqrt, 1000), dominates(np.sqrt, lambda k: k, 1000)
    (True, False)
    """
    check_count("max_leaves", max_leaves)
    f, g = increasing_penalty(first, max_leaves), increasing_penalty(second, max_leaves)
    slope = np.diff(g) / np.diff(f)
    return bool(np.all(np.diff(slope) <= 1e-9 * slope[:-1]))


def is_concave(values: np.ndarray) -> bool:
    """Whether values at 1, 2, ... are concave, up to rounding: a sub-additive penalty in Scott's sense."""
    bend = np.diff(values, 2)
    return bool(np.all(bend <= 1e-12 * max(1.0, float(np.abs(values).max(initial=0.0)))))


def _check_given(delta: float | None) -> None:
    if delta is not None:
        check_delta(delta)


def _check_costs(cost: np.ndarray) -> None:
    if not np.all(np.isfinite(cost) & (cost >= 0.0)):
        raise ValueError("the cost of a leaf is negative or not finite; give numbers >= 0.")
