"""Pickling of values that contain compiled functions, to send them to other processes."""

from __future__ import annotations

import importlib
import io
import pickle
from typing import Any

from numba import cloudpickle
from numba.core.dispatcher import Dispatcher

from .jit import jit
from .sources import is_of_library


class _Pickler(cloudpickle.CloudPickler):
    """Pickler that replaces compiled functions by the functions they were compiled from."""

    def reducer_override(self, obj: Any) -> Any:
        """Return how to make ``obj`` again, a function and its arguments, if it is compiled. Else ask cloudpickle."""
        if isinstance(obj, Dispatcher):
            function = obj.py_func
            if is_of_library(function):
                return _attribute, (function.__module__, function.__qualname__)
            return jit, (function,)
        return super().reducer_override(obj)


def _attribute(module: str, name: str) -> Any:
    """Return an attribute of a module, both given by name."""
    return getattr(importlib.import_module(module), name)


def to_bytes(value: Any) -> bytes:
    """Return a value that contains functions as bytes: those of importable modules by name, others as code."""
    out = io.BytesIO()
    _Pickler(out).dump(value)
    return out.getvalue()


def from_bytes(data: bytes) -> Any:
    """Return the value that `to_bytes` has converted to bytes. Its functions are compiled at their first call."""
    return pickle.loads(data)
