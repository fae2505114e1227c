"""Bounds on the excess risk of weighted votes: for any family of classifiers, and with a rate for dyadic trees."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates import Bound
from pactree_mcmc.certificates.bound import check_delta
from pactree_mcmc.core.checks import check_count, check_number, read_numbers

from ..pac_bayes.subtrees import LEAST_COUNTED, check_lambda

LARGEST = 1e100
MOST_ROWS = 10**40


def vote_excess_bound(
    excess: Any, deviation: Any, log_prior: Any, *, n: int, n_classes: int, lam: float = 1.0, delta: float = 0.05
) -> Bound:
    """Returns the bound of Proposition 2 on the excess risk of the vote of any family of classifiers.

    ``L / (1 - lam/2) * inf over h of { E(h) + Delta(h) + log(1 / P(h)) / (lam n) } + ...``, for the posterior ``Q(h)
    proportional to P(h) exp(-n lam (R^(h) + Delta^(h)))``.

    Parameters
    ----------
    excess : array-like of shape (m,)
        E(h), the risk of each classifier minus that of Bayes, in [0, 1].
    deviation : array-like of shape (m,)
        Delta(h) >= 0, which with probability ``1 - delta`` is at least the Delta^(h) of the posterior.
    log_prior : array-like of shape (m,)
        log P(h) <= 0, fixed before the rows are seen.
    n : int
        Number of counted rows, >= 8.
    n_classes : int
        L >= 2.
    lam : float, default 1.0
        In (0, 2).
    delta : float, default 0.05
        In (0, 1); the bound fails with probability at most 4 delta.

    Returns
    -------
    Bound
        ``terms["classifier"]`` is the place of the classifier with the infimum.

    Raises
    ------
    ValueError
        If an argument is out of range, or the arrays do not have the same length.

    Notes
    -----
    O(m). Nguyen and Kpotufe (2018), Proposition 2; `oracle_bound` is its case of subtrees, Theorem 1. A bound for
    simulations: the excess is unknown otherwise.

    Examples
    --------
    >>> print(vote_excess_bound([0.0, 0.1], [0.01, 0.0], np.log([0.5, 0.5]), n=100_000, n_classes=2))
    Vote, excess risk: 0.0714 with probability 0.8
        excess risk: 0
        deviation: 0.01
        log(1 / P(h)) / (lambda n): 6.93147e-06
        confidence: 0.00783491
        classifier: 0
    """
    lam, delta = check_lambda(lam), check_delta(delta)
    check_count("n", n, LEAST_COUNTED)
    check_count("n_classes", n_classes, 2)
    columns = {}
    for name, given, low, high in (
        ("excess", excess, 0.0, 1.0),
        ("deviation", deviation, 0.0, LARGEST),
        ("log_prior", log_prior, -LARGEST, 0.0),
    ):
        columns[name] = values = read_numbers(name, given)
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(f"{name} has shape {values.shape}; give a number for each classifier: (m,).")
        outside = np.flatnonzero(~((values >= low) & (values <= high)))
        if len(outside):
            raise ValueError(f"{name} holds {values[outside[0]]}; give numbers from {low:g} to {high:g}.")
    if len({len(values) for values in columns.values()}) > 1:
        raise ValueError("excess, deviation and log_prior have different lengths; give one number for each classifier.")
    paid = -columns["log_prior"] / (lam * n)
    i = int(np.argmin(columns["excess"] + columns["deviation"] + paid))
    terms = {
        "excess risk": float(columns["excess"][i]),
        "deviation": float(columns["deviation"][i]),
        "log(1 / P(h)) / (lambda n)": float(paid[i]) + 0.0,
        "confidence": _confidence(n, lam, delta),
    }
    raw = n_classes / (1.0 - lam / 2.0) * sum(terms.values())
    return Bound("Vote, excess risk", raw, 4.0 * delta, {**terms, "classifier": float(i)})


class AdaptiveRate(NamedTuple):
    """A bound on the expected excess risk of the vote over subtrees of a dyadic tree, and its rate."""

    value: float
    """The bound; above 1 it says nothing."""
    exponent: float
    """``alpha / (2 alpha + d)``: the bound falls like ``(log(n) / n)`` to this power."""
    radius: float
    """Diameter of the leaves of the subtree that gives the smallest bound."""
    n_leaves: float
    """Bound on the number of its leaves, ``C2 radius^-d``."""
    approximation: float
    """``2 lambda radius^alpha``, from the smoothness of the class probabilities."""
    labels: float
    """From labels by the majority of n other rows: ``2 sqrt(leaves log(2 L) / n) + leaves / (e n)``."""
    deviation: float
    """Bound on Delta(T)."""
    prior: float
    """``3 D0 leaves / (lam n)``."""
    confidence: float


def adaptive_rate(
    n: int,
    *,
    smoothness: float,
    holder: float,
    n_features: int,
    dimension: float | None = None,
    packing: float | None = None,
    n_classes: int = 2,
    lam: float = 1.0,
) -> AdaptiveRate:
    """Returns Corollary 1 with its constants: the expected excess risk of the vote over subtrees of a dyadic tree.

    Theorem 1 at the subtree whose leaves have diameter r, for the best r: smoothness bounds its approximation error,
    its labels are the majorities of n further rows, and its leaves are at most ``C2 r^-d``. The theorem fails with
    probability at most ``4 delta``, here ``delta = 1 / n``, which adds ``4 / n``.

    Parameters
    ----------
    n : int
        Rows of each half of the sample, >= 8.
    smoothness : float
        alpha in (0, 1]: the class probabilities are Hoelder continuous of this order.
    holder : float
        Their Hoelder constant, >= 0.
    n_features : int
        D, features in [0, 1].
    dimension : float, optional
        d in (0, D], the intrinsic dimension of the rows. Default: D.
    packing : float, optional
        C2 > 0: there are subtrees of diameter r with at most ``C2 r^-d`` leaves. Default: ``(2 sqrt D)^D``, that of all
        cubes, which needs ``dimension = D``.
    n_classes : int, default 2
        L >= 2.
    lam : float, default 1.0
        In (0, 2).

    Returns
    -------
    AdaptiveRate

    Raises
    ------
    ValueError
        If an argument is out of range, or a smaller dimension is given without its ``packing``.

    Notes
    -----
    The corollary has no parameter of noise: it holds for every distribution of that smoothness. T0 has depth ``D
    ceil(log2 n)`` and at most 2n nodes. The constants are large: the rate is what the number is for. O(1).

    References
    ----------
    .. [1] Nguyen and Kpotufe (2018), PAC-Bayes tree: weighted subtrees with guarantees, NeurIPS.

    Examples
    --------
    >>> found = adaptive_rate(10**8, smoothness=1.0, holder=1.0, n_features=1)
    >>> round(found.exponent, 4), round(found.value, 3), round(found.radius, 4)
    (0.3333, 0.192, 0.0079)
    """
    check_count("n", n, LEAST_COUNTED, MOST_ROWS)
    alpha = check_number("smoothness", smoothness, "a number in (0, 1]", 5e-324, 1.0)
    holder = check_number("holder", holder, "a number >= 0", 0.0, LARGEST)
    check_count("n_features", n_features)
    check_count("n_classes", n_classes, 2)
    lam = check_lambda(lam)
    d = float(n_features)
    if dimension is not None:
        d = check_number("dimension", dimension, f"a number in (0, {n_features}]", 5e-324, float(n_features))
    if packing is None and d < n_features:
        raise ValueError("a dimension below n_features needs packing, the constant of the number of leaves; give it.")
    if packing is None and n_features * math.log(2.0 * math.sqrt(n_features)) > math.log(LARGEST):
        raise ValueError(
            f"n_features={n_features} has more than {LARGEST:g} cubes at each diameter; give dimension and packing."
        )
    if packing is None:
        packing = (2.0 * math.sqrt(n_features)) ** n_features
    c2 = check_number("packing", packing, "a number > 0", 5e-324, LARGEST)
    radius = np.geomspace(1.0 / n, math.sqrt(n_features), 2000)
    leaves = np.maximum(c2 * radius**-d, 1.0)
    depth, delta = n_features * math.ceil(math.log2(n)), 1.0 / n
    least = (2.0 + math.log(n_features)) * depth + math.log(1.0 / delta)
    parts = np.array(
        [
            2.0 * holder * radius**alpha,
            2.0 * np.sqrt(leaves * math.log(2.0 * n_classes) / n) + leaves / (math.e * n),
            np.sqrt(8.0 * leaves * (1.0 + leaves * least / n) * math.log(2.0 * n / delta) / n),
            3.0 * depth * leaves / (lam * n),
            np.full(len(radius), _confidence(n, lam, delta)),
        ]
    )
    i = int(np.argmin(parts.sum(axis=0)))
    value = n_classes / (1.0 - lam / 2.0) * float(parts[:, i].sum()) + 4.0 * delta
    exponent = alpha / (2.0 * alpha + d)
    return AdaptiveRate(value, exponent, float(radius[i]), float(leaves[i]), *(float(part) for part in parts[:, i]))


def _confidence(n: int, lam: float, delta: float) -> float:
    """The last term of Proposition 2 and of Theorem 1."""
    return (math.log(2.0 * math.sqrt(n) / delta) + lam * math.sqrt(2.0 * n * math.log(1.0 / delta))) / (lam * n)
