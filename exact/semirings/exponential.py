"""exp of numbers that are not positive, in compiled code: the fractions of a total, where the recursions spend their
time.

The library's exp costs ten times as much in a loop. With ``x = k log(2) / 32 + r`` and ``k = 32 i + j``, exp(x) is
``2^i * 2^(j / 32)``, two table entries, times a polynomial in ``|r| < 0.011``; within two units in the last place.
"""

from math import log

import numpy as np

from pactree_mcmc.core.compile.jit import jit

LOWEST = -708.0
"""Below this exp(x) is taken for 0: it is less than 1e-307."""

_STEPS = 32 / log(2)
# log(2) / 32 in two parts: k times the first is exact
_STEP_HIGH = 6.93147180369123816490e-01 / 32
_STEP_LOW = 1.90821492927058770002e-10 / 32
_POWERS = 2.0 ** np.arange(-1022, 1)
_ROOTS = 2.0 ** (np.arange(32) / 32)


@jit
def exp_down(x: float) -> float:
    """Return exp(x) for x <= 0, or above 0 by no more than rounding; 0 for -inf and NaN."""
    if not x > LOWEST:
        return 0.0
    k = np.int64(x * _STEPS - 0.5)
    r = (x - k * _STEP_HIGH) - k * _STEP_LOW
    series = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720))))))
    return _POWERS[1022 + (k >> 5)] * _ROOTS[k & 31] * series
