"""Refusal of the content of a file, by conditions and by the declarations of its classes."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

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


Sizes = dict[str, int]
"""Lengths of the axes that declarations name."""


def check_declared(value: Any, hint: Any, what: str, sizes: Sizes | None = None) -> None:
    """Refuse a value that has another type than declared, or contains a part that has.

    Parameters
    ----------
    value : object
        Value from a file.
    hint : type or annotation
        Its declaration. A NamedTuple is checked field by field.
    what : str
        Name of the value in messages.
    sizes : dict, optional
        Lengths of named axes. Any other axis must have one length in all arrays of the same NamedTuple, and enters the
        dict if ``value`` is an array.
    """
    sizes = {} if sizes is None else sizes
    if get_origin(hint) in (Union, UnionType):
        hint = next((part for part in get_args(hint) if _has_class(value, part)), hint)
    require(_has_class(value, hint), f"{what} is a {type(value).__name__}")
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Annotated:
        _check_array(value, parts[1], parts[2:], what, sizes)
    elif kind is dict:
        for key, entry in value.items():
            check_declared(key, parts[0], f"a key of {what}", sizes)
            check_declared(entry, parts[1], f"{what}[{key!r}]", sizes)
    elif kind in (tuple, list):
        of_each = parts[:1] * len(value) if kind is list or parts[-1] is Ellipsis else parts
        require(len(of_each) == len(value), f"{what} has {len(value)} entries")
        for i, (entry, part) in enumerate(zip(value, of_each, strict=True)):
            check_declared(entry, part, f"{what}[{i}]", sizes)
    elif hasattr(hint, "_fields"):
        own = dict(sizes)
        for name, field in get_type_hints(hint, include_extras=True).items():
            check_declared(getattr(value, name), field, f"{what}.{name}", own)


def _check_array(array: np.ndarray, dtype: Any, axes: tuple[int | str, ...], what: str, sizes: Sizes) -> None:
    """Refuse an array of another dtype or shape. An axis is a length or a name, which may enter ``sizes``."""
    require(array.dtype == dtype, f"{what} has dtype {array.dtype}")
    require(array.ndim == len(axes), f"{what} has shape {array.shape}")
    named = zip(axes, array.shape, strict=True)
    shape = tuple(sizes.setdefault(axis, n) if isinstance(axis, str) else axis for axis, n in named)
    require(array.shape == shape, f"{what} has shape {array.shape}, not {shape}")


def _has_class(value: Any, hint: Any) -> bool:
    """Return True if a value has exactly the class of a declaration, whatever the value contains."""
    kind = get_origin(hint) or hint
    if kind is Annotated or kind is np.ndarray:
        return isinstance(value, np.ndarray)
    return kind is Any or type(value) is (NoneType if kind is None else kind)
