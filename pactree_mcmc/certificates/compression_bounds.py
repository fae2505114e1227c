"""Shah's bounds for one tree: sample compression, and Occam's razor with coded thresholds.

``n_nodes`` counts every node of the tree, leaves too, as the paper's table does. A leaf's label is coded like a
feature, so there must be at least as many features as classes. The bounds without a compression set need probabilities
of messages that sum to at most one over the trees of all sizes. They do: there are at most 4^k binary trees of k nodes,
one for k = 1, and ``1/4 + sum over k >= 2 of 4^k (2 (k + 1))^-k`` is below .86.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.checks import MAX_COUNT, check_count, check_number, read_array, repr_of
from ..core.compile.jit import jit
from ..table.coding import LARGEST_FLOAT
from .bound import Bound, binomial_tail_inversion, check_delta, check_errors, documented, log_choose

# codes of a node's parent among k nodes: one of k + 1 strings, as in the paper, or a number (footnote 3)
STRING, NUMBER = PARENTS = ("string", "number")


@documented
def compression_tail(n_nodes: int, n_features: int, n: int, errors: int, delta: float = 0.05) -> Bound:
    """Bound the risk of a tree whose thresholds are values of training rows by the binomial tail inversion.

    Parameters
    ----------
    {compression_set}

    {bound}

    Notes
    -----
    Cost O(errors). Shah (2007), Theorem 1 with equations 4 and 5.

    Examples
    --------
    >>> round(compression_tail(11, 17, 435, 9).value, 3)
    0.312
    """
    n_nodes, n_features, n, errors, delta = _check_compression(n_nodes, n_features, n, errors, delta)
    nats = _compressed_tree_nats(n_nodes, n_features, n)
    return tail_bound("sample compression, binomial tail", nats, n - n_nodes, errors, delta)


@documented
def compression(n_nodes: int, n_features: int, n: int, errors: int, delta: float = 0.05) -> Bound:
    """Bound the risk of a tree whose thresholds are values of training rows in closed form.

    ``1 - exp(-[ln C(n - d, errors) + ln(1 / (P_I P_M delta))] / (n - d - errors))`` with ``d = n_nodes``.

    The bound of `compression_tail` is never larger.

    Parameters
    ----------
    {compression_set}

    {bound}

    Notes
    -----
    Cost O(1). Shah (2007), Corollary 2 with equations 4 and 5: the bounds of its Table 1.

    Examples
    --------
    >>> round(compression(11, 17, 435, 9).value, 3)
    0.329
    """
    n_nodes, n_features, n, errors, delta = _check_compression(n_nodes, n_features, n, errors, delta)
    return _closed_form("sample compression", _compressed_tree_nats(n_nodes, n_features, n), n - n_nodes, errors, delta)


@documented
def occam_discrete(n_nodes: int, n_features: int, n_thresholds: int, n: int, errors: int, delta: float = 0.05) -> Bound:
    """Bound the risk of a tree whose thresholds come from a list fixed in advance, in closed form.

    ``1 - exp(-[ln C(n, errors) + ln(1 / (P_M delta))] / (n - errors))``, with a factor ``1 / n_thresholds`` per node in
    ``P_M``.

    Parameters
    ----------
    {n_nodes_n_features}
    n_thresholds : int
        Number of possible thresholds per feature.
    {n_errors_delta}

    {bound}

    Notes
    -----
    Cost O(1). Shah (2007), Theorem 3.

    Examples
    --------
    >>> round(occam_discrete(11, 17, 2, 435, 9).value, 3)
    0.243
    """
    n_nodes, n_features, n, errors, delta = _check_sizes(n_nodes, n_features, n, errors, delta)
    n_thresholds = check_count("n_thresholds", n_thresholds, 1)
    nats = message_nats(n_nodes, n_features) | {"thresholds": n_nodes * math.log(n_thresholds)}
    return _closed_form("Occam, discrete thresholds", nats, n, errors, delta)


@documented
def occam_continuous(
    n_nodes: int, n_features: int, lengths: Any, n: int, errors: int, delta: float = 0.05, *, halvings: Any = 0
) -> Bound:
    """Bound the risk of a tree whose thresholds are encoded dyadically by the binomial tail inversion.

    A threshold costs ``-ln[zeta(kappa) zeta(kappa') zeta(l) 2^-l]``, ``zeta(a) = 6 / (pi^2 (a + 1)^2)``.

    Parameters
    ----------
    {n_nodes_n_features}
    lengths : array-like of int of shape (m,)
        Number of bits l of each of the m <= n_nodes thresholds (`dyadic_length`).
    {n_errors_delta}
    halvings : int, or array of int that broadcasts to (2, m)
        How often the interval of each threshold was halved below (kappa) and above (kappa') its middle.

    {bound}

    Notes
    -----
    Cost O(errors). Shah (2007), Theorem 5 with equation 8.

    Examples
    --------
    >>> round(occam_continuous(11, 17, [1, 0, 2, 3, 1], 435, 9).value, 3)
    0.242
    """
    n_nodes, n_features, n, errors, delta = _check_sizes(n_nodes, n_features, n, errors, delta)
    bits, kappa = read_array("lengths", lengths), read_array("halvings", halvings)
    if bits.ndim != 1 or len(bits) > n_nodes:
        raise ValueError(f"lengths has shape {bits.shape}; give one a threshold, at most {n_nodes} of them.")
    for name, array in (("lengths", bits), ("halvings", kappa)):
        if array.size and (array.dtype.kind not in "iu" or array.min() < 0 or array.max() > MAX_COUNT):
            raise ValueError(f"{name}={repr_of(array)}; give integers 0..{MAX_COUNT}.")
    if kappa.shape not in ((), (len(bits),), (2, 1), (2, len(bits)), (1,), (1, 1), (1, len(bits))):
        raise ValueError(f"halvings has shape {kappa.shape}; give one number, or two a threshold: (2, {len(bits)}).")
    bits, kappa = bits.astype(np.float64), kappa.astype(np.float64)
    kappa = np.broadcast_to(kappa, (2, len(bits)))
    threshold_nats = float(len(bits) and (zeta_nats(bits) + bits * math.log(2.0) + zeta_nats(kappa).sum(axis=0)).sum())
    nats = message_nats(n_nodes, n_features) | {"thresholds": threshold_nats}
    return tail_bound("Occam, continuous thresholds", nats, n, errors, delta)


def dyadic_length(low: float, high: float, lower: float, upper: float) -> int:
    """Return the smallest number of bits that encode a threshold in ``[low, high]``, within ``[lower, upper]``.

    l bits code the points ``lower + (2j - 1) / 2^(l+1) * (upper - lower)``, j = 1, ..., 2^l.

    Raises
    ------
    ValueError
        Unless ``lower <= low < high <= upper``, or if the interval is too short for 60 bits.

    Notes
    -----
    Shah (2007), section 4.2.

    Examples
    --------
    >>> dyadic_length(0.2, 0.3, 0.0, 1.0)
    1
    """
    ends = {"low": low, "high": high, "lower": lower, "upper": upper}
    low, high, lower, upper = (check_number(name, value, "a finite number") for name, value in ends.items())
    if upper - lower > LARGEST_FLOAT:
        raise ValueError(f"[{lower}, {upper}] is too wide: its length overflows; rescale the feature.")
    if not lower <= low < high <= upper:
        raise ValueError(f"[{low}, {high}] in [{lower}, {upper}] is not an interval of thresholds; give low < high.")
    length, _ = dyadic_code(low, high, lower, upper)
    if length >= 0:
        return int(length)
    raise ValueError(f"[{low}, {high}] is too short a part of [{lower}, {upper}]: no threshold of 60 bits lies in it.")


@jit
def dyadic_code(low: float, high: float, lower: float, upper: float) -> tuple[int, float]:
    """Return the smallest number of bits of a dyadic code with a point in ``[low, high]``, and that point."""
    for length in range(61):
        scale = 2.0 ** (length + 1)
        # the smallest j whose point is at least `low`
        first = max(math.ceil(((low - lower) / (upper - lower) * scale + 1.0) / 2.0), 1.0)
        point = lower + (2.0 * first - 1.0) / scale * (upper - lower)
        if point <= high and first <= 2.0**length:
            return length, max(point, low)
    return -1, math.nan


def zeta_nats(a: Any) -> Any:
    """Return minus the log of ``zeta(a) = 6 / (pi^2 (a + 1)^2)``, a prior of a >= 0: the code length of a in nats."""
    return math.log(math.pi**2 / 6.0) + 2.0 * np.log(np.asarray(a) + 1.0)


def message_nats(n_nodes: int, n_features: int, parents: str = STRING) -> dict[str, float]:
    """Return the code length, nats, of a tree of k = `n_nodes` nodes without thresholds, in two parts by name."""
    # "features": those of inner nodes and labels of leaves; "structure": parent and side of each node. The sum is minus
    # the log of P_M = n_features^-k (k + 1)^-k 2^-k, with k^-k in the middle if parents are numbers
    n_names = n_nodes + 1.0 if parents == STRING else float(n_nodes)
    structure = n_nodes * (math.log(n_names) + math.log(2.0))
    return {"features": n_nodes * math.log(n_features), "structure": structure}


def _compressed_tree_nats(n_nodes: int, n_features: int, n: int) -> dict[str, float]:
    """Return the code lengths, in nats, of `message_nats` and of the "compression set": ``n_nodes`` of ``n`` rows."""
    set_nats = float(log_choose(n, n_nodes) + zeta_nats(np.array(n_nodes)))
    return message_nats(n_nodes, n_features) | {"compression set": set_nats}


def _closed_form(name: str, nats: dict[str, float], n: int, errors: int, delta: float) -> Bound:
    """Return 1 - exp(-(ln C(n, errors) + sum(nats) + ln(1 / delta)) / (n - errors)) as a bound called `name`."""
    # 1 if all n rows are errors
    total = float(log_choose(n, errors)) + sum(nats.values()) - math.log(delta)
    raw = 1.0 - math.exp(-total / (n - errors)) if errors < n else 1.0
    return Bound(name, raw, delta, {"empirical risk": errors / n, **_in_nats(nats)})


def tail_bound(name: str, nats: dict[str, float], n: int, errors: int, delta: float) -> Bound:
    """Bound the risk of a classifier with ``errors`` errors on n rows by the binomial tail inversion."""
    # the prior of the classifier is exp(-sum(nats)), the lengths of the parts of its message
    raw = binomial_tail_inversion(errors, n, math.log(delta) - sum(nats.values()))
    return Bound(name, raw, delta, {"empirical risk": errors / n, **_in_nats(nats)})


def _in_nats(nats: dict[str, float]) -> dict[str, float]:
    """Return a dictionary of code lengths with ", nats" added to each name, for `Bound.terms`."""
    return {f"{name}, nats": value for name, value in nats.items()}


def _check_sizes(n_nodes: int, n_features: int, n: int, errors: int, delta: float) -> tuple[int, int, int, int, float]:
    """Check and return the arguments that all bounds of this module have, in this order."""
    check_errors(errors, n)
    sizes = check_count("n_nodes", n_nodes, 1), check_count("n_features", n_features, 1)
    return *sizes, int(n), int(errors), check_delta(delta)


def _check_compression(
    n_nodes: int, n_features: int, n: int, errors: int, delta: float
) -> tuple[int, int, int, int, float]:
    """Check and return the arguments, in this order, of a bound whose compression set has a row for each node."""
    # n_nodes < n, and errors <= n - n_nodes
    n_nodes, n_features, n, _, delta = _check_sizes(n_nodes, n_features, n, 0, delta)
    if n_nodes >= n:
        raise ValueError(f"n_nodes={n_nodes} rows would be the compression set of n={n}; no row is left to count.")
    check_errors(errors, n - n_nodes)
    return n_nodes, n_features, n, int(errors), delta
