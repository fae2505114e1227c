"""Inverses of the binary divergence and of the binomial tail, which are also the bounds from held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log, log1p
from typing import Any, overload

import numpy as np

from ..core.checks import check_count, check_flag, check_number, in_words, read_numbers
from ..core.compile.jit import jit
from ..core.logsum import log_sum
from ..core.special import gammaln
from .bound import Bound, check_delta, check_errors, check_fraction, documented

HALVINGS = 80
"""Steps of bisection: an interval of length 1 shrinks below 1e-24."""


@overload
def binary_kl(p: float, q: float) -> float: ...
@overload
def binary_kl(p: Any, q: Any) -> np.ndarray: ...
def binary_kl(p: Any, q: Any) -> float | np.ndarray:
    """Return the divergence ``p log(p/q) + (1-p) log((1-p)/(1-q))`` in nats, arrays allowed.

    Raises
    ------
    ValueError
        If p or q is outside [0, 1], or their shapes do not fit.

    Examples
    --------
    >>> round(float(binary_kl(0.1, 0.2)), 6)
    0.03669
    """
    p, q = _together(p=p, q=q)
    for name, array in (("p", p), ("q", q)):
        if not np.all((array >= 0.0) & (array <= 1.0)):
            raise ValueError(f"{name} is {in_words(array)}; give probabilities, 0 <= {name} <= 1.")
    return np.array([_kl(a, b) for a, b in zip(p.flat, q.flat, strict=True)]).reshape(p.shape)[()]


@overload
def kl_inverse(p: float, complexity: float, *, upper: bool = True) -> float: ...
@overload
def kl_inverse(p: Any, complexity: Any, *, upper: bool = True) -> np.ndarray: ...
def kl_inverse(p: Any, complexity: Any, *, upper: bool = True) -> float | np.ndarray:
    """Return the largest (or smallest) q whose divergence ``kl(p || q)`` is at most ``complexity``.

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
    p, c = _together(p=p, complexity=complexity)
    check_flag("upper", upper)
    if not np.all((p >= 0.0) & (p <= 1.0)):
        raise ValueError(f"p={p[~((p >= 0.0) & (p <= 1.0))].flat[0]} is out of range; give 0 <= p <= 1.")
    if not np.all(c >= 0.0):
        raise ValueError(f"complexity={c[~(c >= 0.0)].flat[0]} is out of range; give complexity >= 0.")
    far = np.array([_kl_end(a, b, float(upper)) for a, b in zip(p.flat, c.flat, strict=True)])
    return far.reshape(p.shape) if p.ndim else float(far[0])


@documented
def binomial_tail_inversion(errors: int, n: int, log_delta: float) -> float:
    """Return the largest risk at which ``errors`` errors or fewer in ``n`` rows have probability ``exp(log_delta)``.

    Parameters
    ----------
    errors, n : int
        0 <= errors <= n.
    log_delta : float
        Log of a probability, <= 0; the probability itself may be too small for a float.

    {raises}

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
    log_delta = check_number("log_delta", log_delta, "the log of a probability, <= 0", most=0.0)
    if errors == n:
        return 1.0
    return float(_tail_end(log_choose(n, np.arange(errors + 1.0)), int(n), float(log_delta)))


@documented
def holdout(errors: int, n: int, delta: float = 0.05) -> Bound:
    """Bound the risk of a fixed classifier from its errors on ``n`` held-out rows, by the binomial tail inversion.

    Parameters
    ----------
    errors, n : int
        0 <= errors <= n.
    {delta}

    {bound}

    Notes
    -----
    Langford (2005); the upper end of Clopper and Pearson's interval.

    Examples
    --------
    >>> round(holdout(5, 200).value, 4)
    0.0518
    """
    delta = check_delta(delta)
    raw = binomial_tail_inversion(errors, n, log(delta))
    return Bound("hold-out, binomial tail", raw, delta, {"empirical risk": errors / n, "errors": errors, "n": n})


@documented
def holdout_gibbs(risk: float, n: int, delta: float = 0.05) -> Bound:
    """Bound an expected loss in [0, 1] by its mean over ``n`` held-out rows: ``kl(risk || R) <= ln(1/delta) / n``.

    Parameters
    ----------
    risk : float, in [0, 1]
        Mean loss on the held-out rows.
    n : int
        Held-out rows, >= 1.
    {delta}

    {bound}

    Notes
    -----
    Chernoff's bound in Hoeffding's form (1963).

    Examples
    --------
    >>> round(holdout_gibbs(0.025, 200).value, 4)
    0.0619
    """
    delta, risk, n = check_delta(delta), check_fraction("risk", risk), check_count("n", n, 1)
    complexity = log(1.0 / delta) / n
    terms = {"empirical risk": risk, "ln(1/delta) / n": complexity}
    return Bound("hold-out, Chernoff", kl_inverse(risk, complexity), delta, terms)


def _together(**given: Any) -> Sequence[np.ndarray]:
    arrays = {name: read_numbers(name, value) for name, value in given.items()}
    try:
        return np.broadcast_arrays(*arrays.values())
    except (ValueError, RuntimeError) as error:  # the latter if there are more than 32 dimensions
        shapes = " and ".join(f"{name} has shape {array.shape}" for name, array in arrays.items())
        raise ValueError(f"{shapes}; give numbers, or arrays that broadcast together.") from error


def log_choose(n: Any, k: Any) -> Any:
    """Return the log of the binomial coefficient, arrays allowed."""
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


@jit
def _kl(p: float, q: float) -> float:
    if (p > 0.0 and q <= 0.0) or (p < 1.0 and q >= 1.0):
        return inf
    out = 0.0
    if p > 0.0:
        out += p * log(p / q)
    if p < 1.0:
        out += (1.0 - p) * log((1.0 - p) / (1.0 - q))
    return out


@jit
def _kl_end(p: float, complexity: float, far: float) -> float:
    """Return the end of the q between p and ``far`` whose divergence from p is at most ``complexity``."""
    near = p
    for _ in range(HALVINGS):
        middle = (near + far) / 2.0
        if _kl(p, middle) <= complexity:
            near = middle
        else:
            far = middle
    return far


@jit
def _tail_end(log_chosen: np.ndarray, n: int, log_delta: float) -> float:
    """Return the q at which ``sum over k of exp(log_chosen[k]) q^k (1 - q)^(n - k)`` falls below ``exp(log_delta)``."""
    low, high, term = 0.0, 1.0, np.empty(len(log_chosen))
    for _ in range(HALVINGS):
        q = (low + high) / 2.0
        if q <= 0.0 or q >= 1.0:
            break
        log_q, log_rest = log(q), log1p(-q)
        for k in range(len(log_chosen)):
            term[k] = log_chosen[k] + k * log_q + (n - k) * log_rest
        if log_sum(term, len(term)) >= log_delta:
            low = q
        else:
            high = q
    return high
