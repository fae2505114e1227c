"""Groups of arrays and numbers in the form that compiled code takes."""

from __future__ import annotations

from typing import Any

from .jit import FASTER

if FASTER:
    from .private.structs import Packed


def pack(value: Any) -> Any:
    """Return a NamedTuple of arrays, numbers, and NamedTuples of such, as one pointer. The arrays are shared.

    Without compilation, or with a numba of other private parts, return the NamedTuple itself. Arrays must not be
    resized, and later changes of numbers have no effect.
    """
    return Packed(value) if FASTER else value
