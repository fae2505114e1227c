"""The one place that sets compiler options."""

from collections.abc import Callable
from typing import Any

import numba


def jit(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on first call, cache it on disk, release the GIL while it runs.

    No fastmath: zero is ``-inf`` in log space and must stay so.
    """
    return numba.njit(cache=True, nogil=True, error_model="numpy")(function)
