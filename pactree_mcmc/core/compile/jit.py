"""The one place that sets compiler options."""

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
FASTER = COMPILES and structs is not None
"""Whether numba's private parts are as known here; else it compiles as it does for everybody, which takes longer."""


def jit(function: Callable[..., Any], key: Callable[[], str] | None = None) -> Any:
    """Compile ``function`` on first call, cache it on disk, release the GIL while it runs.

    Compiled callers get a *part* of the same code, optimised and cached as one with the function that Python calls (see
    `linking`). No fastmath: zero is ``-inf`` in log space and must stay so. Constants given by compiled callers count
    as values of their type: numba would compile the function once more for each of them.

    ``key`` returns what the code depends on besides the sources of the library, when it is first called (see `cache`).
    """
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    if not FASTER:
        plain = numba.njit(**options)(function)
        if COMPILES:
            plain._cache = CodeCache(function, key)
        return plain
    entry = numba.njit(pipeline_class=EntryCompiler, **options)(function)
    entry._cache = CodeCache(function, key)

    @functools.cache
    def part() -> Any:
        made = numba.njit(no_cpython_wrapper=True, pipeline_class=PartCompiler, **options)(function)
        made.add_overload = lambda form: made.overloads.update({form.signature.args: form})
        # a function that calls itself asks whether it is being compiled
        made._compiling_counter = entry._compiling_counter
        return made

    entry.get_call_template = lambda args, kws: part().get_call_template(tuple(map(types.unliteral, args)), kws)
    entry.get_overload = lambda sig: part().get_overload(sig)
    return entry


def by_class(function: Callable[..., Any]) -> Any:
    """Let ``function`` be another one for each class of its first argument, a NamedTuple of arrays.

    ``@function.register(Class)`` adds one, as with `functools.singledispatch`. Compiled callers have theirs built in,
    so a loop written once is compiled once for each class, and found again in the disk cache.
    """
    registry = functools.singledispatch(function)
    if COMPILES:

        def implementation(*args: Any) -> Any:
            return registry.dispatch(args[0].instance_class) if isinstance(args[0], types.BaseNamedTuple) else None

        overload(registry, strict=False, jit_options={"error_model": "numpy"})(implementation)
    return registry
