"""Bounds from held-out rows: no choice depends on them, so the bounds depend only on their number and the errors."""

from __future__ import annotations

import math

from ..core.checks import check_count
from .bound import Bound, check_delta, check_fraction
from .inversions import binomial_tail_inversion, kl_inverse


def holdout(errors: int, n: int, delta: float = 0.05) -> Bound:
    """Risk of a fixed classifier from its errors on ``n`` held-out rows, by the binomial tail inversion.

    Raises
    ------
    ValueError
        Unless ``0 <= errors <= n`` are integers and ``0 < delta < 1``.

    Notes
    -----
    Langford (2005); the upper end of Clopper and Pearson's interval.

    Examples
    --------
    >>> round(holdout(5, 200).value, 4)
    0.0518
    """
    delta = check_delta(delta)
    raw = binomial_tail_inversion(errors, n, math.log(delta))
    return Bound("hold-out, binomial tail", raw, delta, {"empirical risk": errors / n, "errors": errors, "n": n})


def holdout_gibbs(risk: float, n: int, delta: float = 0.05) -> Bound:
    """Expected loss in [0, 1] from its mean over ``n`` held-out rows: ``kl(risk || R) <= ln(1/delta) / n``.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Chernoff's bound in Hoeffding's form (1963).

    Examples
    --------
    >>> round(holdout_gibbs(0.025, 200).value, 4)
    0.0619
    """
    delta, risk, n = check_delta(delta), check_fraction("risk", risk), check_count("n", n, 1)
    complexity = math.log(1.0 / delta) / n
    return Bound(
        "hold-out, Chernoff",
        kl_inverse(risk, complexity),
        delta,
        {"empirical risk": risk, "ln(1/delta) / n": complexity},
    )
