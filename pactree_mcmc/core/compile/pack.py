"""Groups of arrays and numbers as compiled code takes them."""

from __future__ import annotations

from typing import Any

from .jit import FASTER

if FASTER:
    from .private.structs import Packed


def pack(value: Any) -> Any:
    """Returns a NamedTuple of arrays, numbers, and NamedTuples of such, as one pointer; the arrays are shared.

    Without compilation, or with a numba whose private parts are others, it is the NamedTuple itself. Arrays must not be
    resized, nor numbers be expected to change.
    """
    return Packed(value) if FASTER else value
