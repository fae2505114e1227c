"""Decorators of compiled functions, with all compiler options, and the packed form of NamedTuples."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
from numba.core import types
from numba.extending import overload

from . import COMPILES
from .cache import CodeCache

try:
    from .private import structs
    from .private.linking import EntryCompiler, PartCompiler
except (ImportError, AttributeError):
    structs = None
# True if numba has the private parts that `private` uses. Otherwise compiling takes several times as long.
HAS_PRIVATE_PARTS = COMPILES and structs is not None


def jit(function: Callable[..., Any]) -> Any:
    """Compile ``function`` at its first call, cache the code on disk, and release the GIL while it runs.

    Compiled callers use the same code as a *part*, which is optimised and cached together with the function that Python
    calls (see `linking`). Fastmath is off, because the log of zero is ``-inf`` and must stay so. Constants that
    compiled callers pass count as values of their type, since numba would otherwise compile the function for each.

    The code of functions that users wrote is not cached: each process compiles them.
    """
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    if not HAS_PRIVATE_PARTS:
        plain = numba.njit(**options)(function)
        if COMPILES:
            plain._cache = CodeCache(function)
        return plain
    entry = numba.njit(pipeline_class=EntryCompiler, **options)(function)
    entry._cache = CodeCache(function)

    @functools.cache
    def part() -> Any:
        dispatcher = numba.njit(no_cpython_wrapper=True, pipeline_class=PartCompiler, **options)(function)
        dispatcher.add_overload = lambda form: dispatcher.overloads.update({form.signature.args: form})
        # numba asks whether a function that calls itself is being compiled
        dispatcher._compiling_counter = entry._compiling_counter
        return dispatcher

    entry.get_call_template = lambda args, kws: part().get_call_template(tuple(map(types.unliteral, args)), kws)
    entry.get_overload = lambda sig: part().get_overload(sig)
    return entry


def by_class(function: Callable[..., Any]) -> Any:
    """Return a generic function that dispatches on the class of its first argument, a NamedTuple (a decorator)."""
    # compiled callers are compiled for each class, so that a loop that is written once runs without dispatch
    registry = functools.singledispatch(function)
    if COMPILES:

        def implementation(*args: Any) -> Any:
            return registry.dispatch(args[0].instance_class) if isinstance(args[0], types.BaseNamedTuple) else None

        overload(registry, strict=False, jit_options={"error_model": "numpy"})(implementation)
    return registry


def pack(value: Any) -> Any:
    """Return a (nested) NamedTuple of arrays and numbers in a form that compiled code takes as one pointer."""
    # Arrays are shared and must not be resized; later changes of numbers have no effect. Without compilation, or with a
    # numba without the private parts needed, the NamedTuple itself is returned
    return structs.PackedRecord(value) if HAS_PRIVATE_PARTS else value
