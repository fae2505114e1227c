"""Warnings that name the line of the user's program instead of a line of the library."""

from __future__ import annotations

import sys
import warnings

# packages whose lines a warning does not name. numba is one, since it calls the library when it loads code
SKIPPED_PACKAGES = ("pactree_mcmc", "exact", "numba")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that names the innermost line of the call stack outside of the packages in SKIPPED_PACKAGES."""
    frame, level = sys._getframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in SKIPPED_PACKAGES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
