"""Refusing what a file says, in its own words."""

from __future__ import annotations

from typing import Any

import numpy as np


class Nonsense(ValueError):
    """What a file says cannot have been written by this library."""


def require(holds: Any, what: str) -> None:
    """Refuse a file in which ``what`` does not hold."""
    if not np.all(holds):
        raise Nonsense(what)


def array_of(array: Any, kind: str, shape: tuple, what: str) -> None:
    """Refuse what is no array of a kind and shape; -1 stands for any length."""
    good = isinstance(array, np.ndarray) and array.dtype.kind in kind and array.ndim == len(shape)
    require(good and all(m in (-1, n) for m, n in zip(shape, array.shape, strict=True)), f"{what} has another shape")


def between(values: np.ndarray, low: Any, high: Any, what: str) -> None:
    """Require values in [low, high)."""
    require((values >= low) & (values < high), f"{what} is out of range")
