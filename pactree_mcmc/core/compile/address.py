"""Functions that compiled code calls by their address, so that callers are not compiled again for each function.

Such a function takes a pointer to n numbers, n, and, if it has parameters, a pointer to these. It returns a number.
Values that contain compiled functions are sent to other processes as bytes.
"""

from __future__ import annotations

import ctypes
import importlib
import io
import math
import threading
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import cloudpickle
from numba.core import cgutils, types
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic

from . import COMPILES
from .cache import CodeCache, is_of_library
from .jit import HAS_PRIVATE_PARTS, jit

if HAS_PRIVATE_PARTS:
    from .private.structs import BlockType, load_fixed

NUMBERS_POINTER = types.CPointer(types.float64)
# signatures of a function without parameters, and of one with parameters
SIGNATURES = (types.float64(NUMBERS_POINTER, types.int64), types.float64(NUMBERS_POINTER, types.int64, NUMBERS_POINTER))
_compile_lock = threading.Lock()
# compiled functions, which must live as long as the process because their addresses are in use
_compiled_functions: dict[tuple[Callable[..., float], bool], Any] = {}
# functions of the library that `by_address` has registered, whose code is cached on disk
_library_functions: set[Callable[..., float]] = set()
# Python functions by the number that represents their address, if nothing is compiled
_python_functions: dict[int, Callable[..., float]] = {}


def by_address(function: Callable[..., float]) -> Callable[..., float]:
    """Register a function of this library that is called by its address. This is a decorator."""
    # its compiled code is cached on disk; it must raise no exception
    _library_functions.add(function)
    return function


def address_of(function: Callable[..., float], with_params: bool) -> int:
    """Return the address of `function`, compiled at the first call; without compilation a number that stands for it."""
    # The function takes (numbers, n), and params if `with_params`. Division is NumPy's: x / 0 is infinite or NaN.
    # Compiled callers cannot be passed an exception: a function that raises one returns NaN
    with _compile_lock:
        if not COMPILES:
            _python_functions[id(function)] = function
            return id(function)
        key = function, with_params
        if key not in _compiled_functions:
            signature = SIGNATURES[with_params]
            guarded = function if function in _library_functions else _without_exceptions(function, with_params)
            form = CFunc(guarded, (signature.args, signature.return_type), {}, {"error_model": "numpy"})
            if function in _library_functions:
                form._cache = CodeCache(function)
            form.compile()
            _compiled_functions[key] = form
        return _compiled_functions[key].address


def _without_exceptions(function: Callable[..., float], with_params: bool) -> Callable[..., float]:
    """Return the function wrapped so that it returns NaN instead of raising an exception."""
    # only compiled code calls it
    inner = numba.njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)

    def without(numbers, n):  # type: ignore[no-untyped-def]
        try:
            return inner(numbers, n)
        except Exception:
            return math.nan

    def with_them(numbers, n, params):  # type: ignore[no-untyped-def]
        try:
            return inner(numbers, n, params)
        except Exception:
            return math.nan

    return with_them if with_params else without


def _entry_pointer(context: Any, builder: Any, kind: Any, value: Any, place: list) -> Any:
    """Generate code for a pointer to the entry of an array at ``place``, a list of LLVM values. Return the pointer."""
    if HAS_PRIVATE_PARTS and isinstance(kind, BlockType):
        kind, value = kind.as_array, load_fixed(builder, value)
    array = context.make_array(kind)(context, builder, value)
    return cgutils.get_item_pointer(context, builder, kind, array, place, wraparound=False)


def _call_address(builder: Any, address: Any, args: list) -> Any:
    """Generate code that calls the function at ``address`` with ``args``, LLVM values. Return that of the result."""
    signature = ir.FunctionType(ir.DoubleType(), [arg.type for arg in args])
    return builder.call(builder.inttoptr(address, signature.as_pointer()), args)


@intrinsic
def _call_compiled(typing, address, numbers, row, first, n):  # type: ignore[no-untyped-def]
    """Return signature and code of `call_at`, which calls the function at ``address``, for numba."""

    def code(context, builder, sig, args):  # type: ignore[no-untyped-def]
        pointer = _entry_pointer(context, builder, sig.args[1], args[1], [args[2], args[3]])
        return _call_address(builder, args[0], [pointer, args[4]])

    return types.float64(types.int64, numbers, types.int64, types.int64, types.int64), code


@intrinsic
def _call_compiled_with_params(typing, address, numbers, row, first, n, params, at):  # type: ignore[no-untyped-def]
    """Return signature and code as `_call_compiled`. The function's third argument is a pointer to ``params[at:]``."""

    def code(context, builder, sig, args):  # type: ignore[no-untyped-def]
        pointer = _entry_pointer(context, builder, sig.args[1], args[1], [args[2], args[3]])
        own = _entry_pointer(context, builder, sig.args[5], args[5], [args[6]])
        return _call_address(builder, args[0], [pointer, args[4], own])

    five = (types.int64, numbers, types.int64, types.int64, types.int64)
    return types.float64(*five, params, types.int64), code


_POINTER = ctypes.POINTER(ctypes.c_double)


def _call_machine_code(address: int, numbers: np.ndarray, n: int, *params: np.ndarray) -> float:
    """Return the result of compiled code at an address, called from plain code, with copies of its arrays."""
    form = ctypes.CFUNCTYPE(ctypes.c_double, _POINTER, ctypes.c_int64, *[_POINTER for _ in params])
    arrays = [np.array(each, dtype=np.float64) for each in (numbers, *params)]
    first, *own = [array.ctypes.data_as(_POINTER) for array in arrays]
    return float(form(int(address))(first, int(n), *own))


def _call_plain(
    address: int, numbers: np.ndarray, row: int, first: int, n: int, params: np.ndarray | None = None, at: int = 0
) -> float:
    """Return the result of the function at an address for ``numbers[row, first:]``, n and maybe ``params[at:]``."""
    arguments = (numbers[row, first:], n) if params is None else (numbers[row, first:], n, params[at:])
    if address not in _python_functions:
        return _call_machine_code(address, *arguments)
    return float(_python_functions[address](*arguments))


# function for compiled code: call_at(address, numbers, row, first, n) passes a pointer to `numbers[row, first:]` and n
call_at: Any = _call_compiled if COMPILES else _call_plain
# function for compiled code: ``call_at_with_params(..., params, at)`` also passes a pointer to ``params[at:]``
call_at_with_params: Any = _call_compiled_with_params if COMPILES else _call_plain


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
    return getattr(importlib.import_module(module), name)


def to_bytes(value: Any) -> bytes:
    """Return a value that contains functions as bytes: those of importable modules by name, others as code."""
    out = io.BytesIO()
    _Pickler(out).dump(value)
    return out.getvalue()
