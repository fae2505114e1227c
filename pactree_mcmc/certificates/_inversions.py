"""Risks found from their tails: the inverse of the binary divergence and that of the binomial tail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import gammaln, rel_entr, xlog1py, xlogy

from ._bound import check_errors

HALVINGS = 80
"""Steps of bisection: an interval of length 1 shrinks below 1e-24."""


def binary_kl(p: Any, q: Any) -> Any:
    """Divergence ``p log(p/q) + (1-p) log((1-p)/(1-q))`` in nats, arrays allowed.

    Examples
    --------
    >>> round(float(binary_kl(0.1, 0.2)), 6)
    0.03669
    """
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    return rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q)


def kl_inverse(p: Any, complexity: Any, *, upper: bool = True) -> Any:
    """Largest (or smallest) q whose divergence ``kl(p || q)`` is at most ``complexity``.

    Parameters
    ----------
    p : float or array, in [0, 1]
        Empirical mean.
    complexity : float or array, >= 0
        Nats.
    upper : bool, default True
        The largest q >= p; else the smallest q <= p.

    Returns
    -------
    float, or array of the broadcast shape

    Raises
    ------
    ValueError
        If p is outside [0, 1] or the complexity is negative.

    Notes
    -----
    Bisection, 80 evaluations of `binary_kl`; exact to rounding. The end of the last interval that lies farther from p
    is returned. Seeger (2002), Journal of Machine Learning Research 3; Langford (2005).

    Examples
    --------
    >>> round(kl_inverse(0.0, 0.05), 6), round(kl_inverse(0.1, 0.05), 6)
    (0.048771, 0.220079)
    """
    p, c = np.broadcast_arrays(np.asarray(p, dtype=np.float64), np.asarray(complexity, dtype=np.float64))
    if not np.all((p >= 0.0) & (p <= 1.0)):
        raise ValueError(f"p={p[~((p >= 0.0) & (p <= 1.0))].flat[0]} is out of range; give 0 <= p <= 1.")
    if not np.all(c >= 0.0):
        raise ValueError(f"complexity={c[~(c >= 0.0)].flat[0]} is out of range; give complexity >= 0.")
    near, far = p.copy(), np.full(p.shape, float(upper))
    for _ in range(HALVINGS):
        middle = (near + far) / 2.0
        allowed = binary_kl(p, middle) <= c
        near, far = np.where(allowed, middle, near), np.where(allowed, far, middle)
    return far if far.ndim else float(far)


def binomial_tail_inversion(errors: int, n: int, log_delta: float) -> float:
    """Largest risk at which at most ``errors`` errors in ``n`` rows have probability ``exp(log_delta)`` or more.

    Parameters
    ----------
    errors, n : int
        0 <= errors <= n.
    log_delta : float
        Log of a probability, <= 0; probabilities too small for a float are no trouble.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Bisection on the log of the tail, 80 sums of ``errors + 1`` terms. Langford (2005), Journal of Machine Learning
    Research 6; Shah (2007), section 3.

    Examples
    --------
    >>> round(binomial_tail_inversion(0, 100, np.log(0.05)), 6) == round(1 - 0.05 ** (1 / 100), 6)
    True
    """
    check_errors(errors, n)
    if not log_delta <= 0.0:
        raise ValueError(f"log_delta={log_delta} is out of range; give the log of a probability, <= 0.")
    if errors == n:
        return 1.0
    k = np.arange(errors + 1, dtype=np.float64)
    log_ways = log_choose(n, k)
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        log_terms = log_ways + xlogy(k, middle) + xlog1py(n - k, -middle)
        largest = float(log_terms.max())
        log_tail = largest + math.log(np.exp(log_terms - largest).sum()) if largest > -math.inf else -math.inf
        low, high = (middle, high) if log_tail >= log_delta else (low, middle)
    return high


def log_choose(n: Any, k: Any) -> Any:
    """Log of the binomial coefficient, arrays allowed."""
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
