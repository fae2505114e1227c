"""Penalties of a dyadic tree: sums over its leaves, functions of their number, or root fragments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates import dyadic_bits, dyadic_penalty
from pactree_mcmc.certificates.bound import check_delta
from pactree_mcmc.core.checks import as_number, check_number, in_words, read_numbers
from pactree_mcmc.core.names import with_texts

from ..pruning.size_penalties import sizes_penalty


class Sample(NamedTuple):
    """The quantities besides the tree on which a penalty may depend."""

    n: int
    """Number of rows."""
    n_features: int
    n_classes: int
    """Number of possible labels, at least 2."""
    cyclic: bool
    """True if the depth determines the coordinate, which then needs no bits."""


_documented = with_texts(
    {
        "delta": """\
Parameters
----------
delta : float or None, default None
    Confidence parameter in (0, 1); None: one over the number of rows, as in the paper.

Raises
------
ValueError
    If ``delta`` is outside (0, 1)."""
    }
)


@dataclass(frozen=True)
class _WithDelta:
    """Base of the penalties of Scott's theorems."""

    delta: float | None = None

    def __post_init__(self) -> None:
        if self.delta is not None:
            check_delta(self.delta)

    def _delta_of(self, sample: Sample) -> float:
        return 1.0 / sample.n if self.delta is None else self.delta


@_documented
@dataclass(frozen=True)
class SpatiallyAdaptive(_WithDelta):
    """The penalty of Scott's Theorem 2, which adds over the leaves (equation 2.9; `certificates.dyadic_penalty`).

    {delta}
    """

    def of_cells(self, rows: np.ndarray, depth: np.ndarray, sample: Sample) -> np.ndarray:
        """Return the penalty of cells with ``rows`` rows at ``depth``."""
        how: dict[str, Any] = {"n_classes": sample.n_classes, "cyclic": sample.cyclic}
        return dyadic_penalty(rows, depth, sample.n, sample.n_features, self._delta_of(sample), **how)


@_documented
@dataclass(frozen=True)
class SquareRoot(_WithDelta):
    """The penalty of Scott's Proposition 1, a concave function of the number of leaves.

    ``sqrt(([T] ln 2 + ln(1/delta)) / (2n))``, ``[T] = 2k - 1 + k log2 K + (k - 1) log2 p`` bits for k leaves and
    K classes.

    {delta}
    """

    def of_sizes(self, leaves: np.ndarray, sample: Sample) -> np.ndarray:
        """Return the penalty of trees with ``leaves`` leaves."""
        nats = tree_bits(leaves, sample) * math.log(2.0)
        return np.sqrt((nats - math.log(self._delta_of(sample))) / (2.0 * sample.n))


@_documented
@dataclass(frozen=True)
class RootFragments(_WithDelta):
    """The spatially adaptive penalty at the best root fragment of each tree (Scott 2004, remark 1).

    A tree T is cut off at the leaves of a root fragment R; the deviance of each cell A of R is bounded as that of a
    leaf, with the code of the part of T below A added to the code of A:

    ``Phi_R(T) = sum over A of sqrt(2 p'_A ([A] ln 2 + [T_A] ln 2 + ln(1 / delta)) / n)``,  the smallest over R counts.

    {delta}

    Notes
    -----
    The pairs of a cell and a tree below it have a prefix code, so that Theorem 2 holds for all T and R simultaneously
    (Mansour and McAllester 2000). A fragment that is the whole tree has the penalty of `SpatiallyAdaptive` with one bit
    more for each leaf, which says that it is one.
    """

    def of_fragments(self, rows: Any, depth: Any, leaves: Any, sample: Sample) -> np.ndarray:
        """Return the penalty of cells with ``rows`` rows at ``depth`` below which a tree has ``leaves`` leaves."""
        log_delta = math.log(self._delta_of(sample))
        nats = dyadic_bits(depth, sample.n_features, cyclic=sample.cyclic) * math.log(2.0)
        below = tree_bits(leaves, sample) * math.log(2.0)
        mass = 4.0 * np.maximum(rows, nats - log_delta) / sample.n
        return np.sqrt(2.0 * mass * (nats + below - log_delta) / sample.n)


def tree_bits(leaves: Any, sample: Sample) -> np.ndarray:
    """Return the code length of a labelled tree of ``leaves`` leaves below a known cell, bits: ``[T]``."""
    k = np.asarray(leaves, dtype=np.float64)
    split_bits = 0.0 if sample.cyclic else math.log2(sample.n_features)
    return 2.0 * k - 1.0 + k * math.log2(sample.n_classes) + (k - 1.0) * split_bits


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
        """Return the penalty of cells with ``rows`` rows at ``depth``."""
        cost = read_numbers("what cost returns", self.cost(rows, depth) if callable(self.cost) else self.cost)
        if cost.shape not in ((), rows.shape):
            raise ValueError(f"cost returns shape {cost.shape}; return one value for each of the {len(rows)} cells.")
        if not np.all(np.isfinite(cost) & (cost >= 0.0)):
            raise ValueError("the cost of a leaf is negative or not finite; give numbers >= 0.")
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
        """Return the penalty of trees with ``leaves`` leaves."""
        return sizes_penalty(self.function, leaves)


Penalty = SpatiallyAdaptive | SquareRoot | AdditivePenalty | SizePenalty | RootFragments


def read_penalty(penalty: Any) -> Penalty:
    """Read a penalty: a name, a number (the cost of a leaf), or an object."""
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
