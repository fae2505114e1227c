"""Refusal of the content of a file."""

from __future__ import annotations

from typing import Any

import numpy as np


class InvalidFile(ValueError):
    """Error for content of a file that this library cannot have written."""


def require(holds: Any, what: str) -> None:
    """Refuse a file with the message ``what`` unless the condition holds, in all entries if it is an array."""
    if not np.all(holds):
        raise InvalidFile(what)


def array_of(array: Any, kind: str, shape: tuple, what: str) -> None:
    """Refuse a value that is not an array of one of the kinds and of the shape. -1 stands for any length."""
    good = isinstance(array, np.ndarray) and array.dtype.kind in kind and array.ndim == len(shape)
    require(good and all(m in (-1, n) for m, n in zip(shape, array.shape, strict=True)), f"{what} has another shape")


def between(values: np.ndarray, low: Any, high: Any, what: str) -> None:
    """Refuse values outside of [low, high)."""
    require((values >= low) & (values < high), f"{what} is out of range")
