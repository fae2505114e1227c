"""Warnings that name the line of the user's program."""

from __future__ import annotations

import sys
import warnings

INSIDE = ("pactree_mcmc", "exact", "numba")
"""Packages whose lines a warning does not name. numba calls the library when it looks for compiled code."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that names the innermost line outside of the library."""
    frame, level = sys._getframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
