"""Conversion of NamedTuples of arrays and numbers to the form that compiled code uses."""

from __future__ import annotations

from typing import Any

from .jit import HAS_PRIVATE_PARTS

if HAS_PRIVATE_PARTS:
    from .private.structs import PackedRecord


def pack(value: Any) -> Any:
    """Return a (nested) NamedTuple of arrays and numbers in a form that compiled code takes as one pointer."""
    # Arrays are shared and must not be resized; later changes of numbers have no effect. Without compilation, or with a
    # numba without the private parts needed, the NamedTuple itself is returned
    return PackedRecord(value) if HAS_PRIVATE_PARTS else value
