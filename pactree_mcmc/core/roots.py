"""Root of a function of one variable, without SciPy's package of optimisers, which takes .2 seconds to import."""

from collections.abc import Callable
from math import inf

RELATIVE = 4.0 * 2.0**-52
"""Relative error of a root."""
MAX_STEPS = 100
"""Number of steps after which the last point is returned."""


def find_root(function: Callable[[float], float], low: float, high: float, error: float = 2e-12) -> float:
    """Return a root between ``low`` and ``high``, where the function has different signs, by the method of Brent.

    The steps, and so all digits, are those of `scipy.optimize.brentq` (Brent, *Algorithms for minimization without
    derivatives*, 1973, chapter 4). The error of the root r is at most about
    ``error + RELATIVE * abs(r)``. Raise a ValueError if the signs are equal.
    """
    before, now, other = float(low), float(high), 0.0
    f_before, f_now, f_other = function(before), function(now), 0.0
    step = last_step = 0.0
    if f_before == 0.0 or f_now == 0.0:
        return before if f_before == 0.0 else now
    if (f_before < 0.0) == (f_now < 0.0):
        raise ValueError("the function has the same sign at both ends.")
    for _ in range(MAX_STEPS):
        if f_before != 0.0 and f_now != 0.0 and (f_before < 0.0) != (f_now < 0.0):
            other, f_other = before, f_before
            last_step = step = now - before
        if abs(f_other) < abs(f_now):
            before, now, other = now, other, now
            f_before, f_now, f_other = f_now, f_other, f_now
        least, half = (error + RELATIVE * abs(now)) / 2.0, (other - now) / 2.0
        if f_now == 0.0 or abs(half) < least:
            return now
        new_step = half
        if abs(last_step) > least and abs(f_now) < abs(f_before):
            if before == other:
                new_step = -f_now * (now - before) / (f_now - f_before)
            else:
                slope, other_slope = (f_before - f_now) / (before - now), (f_other - f_now) / (other - now)
                divisor = other_slope * slope * (f_other - f_before)
                new_step = -f_now * (f_other * other_slope - f_before * slope) / divisor if divisor != 0.0 else inf
            is_short = 2.0 * abs(new_step) < min(abs(last_step), 3.0 * abs(half) - least)
            last_step, step = (step, new_step) if is_short else (half, half)
        else:
            last_step = step = half
        before, f_before = now, f_now
        now += step if abs(step) > least else (least if half > 0.0 else -least)
        f_now = function(now)
    return now
