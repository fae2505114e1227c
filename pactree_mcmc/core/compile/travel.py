"""Pickling of functions for other processes: by value, or by name if they belong to the library."""

from __future__ import annotations

import importlib
import io
import pickle
from typing import Any

from numba import cloudpickle
from numba.core.dispatcher import Dispatcher

from .digest import is_known
from .jit import jit


class _Packer(cloudpickle.CloudPickler):
    """Pickles compiled functions as what they were compiled from."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Dispatcher):
            function = obj.py_func
            if is_known(function):
                return _named, (function.__module__, function.__qualname__)
            return jit, (function,)
        return super().reducer_override(obj)


def packed(value: Any) -> bytes:
    """A value with functions in it, as bytes."""
    out = io.BytesIO()
    _Packer(out).dump(value)
    return out.getvalue()


def unpacked(data: bytes) -> Any:
    """What was packed; its functions are compiled where they are called."""
    return pickle.loads(data)


def _named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
