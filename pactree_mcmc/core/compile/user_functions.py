"""Keys of the compiled code, on disk, of functions that users wrote.

Such a function is not among the sources of the library. The key of its code is therefore a hash of its bytecode and of
everything that it calls or reads.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np

KNOWN_PACKAGES = ("pactree_mcmc", "numba", "numpy", "math", "builtins")
"""Packages whose functions the hash contains by name only. The cache depends on their sources or releases anyway."""
NO_KEY = "not kept: "
"""Beginning of the text, with the reason, in place of the key of a function that has none."""
ATOMIC_TYPES = bool | int | float | str | bytes | complex | np.generic | np.dtype | type(None)


class UnhashableFunction(ValueError):
    """Error for a function that reads an object whose value cannot be part of a hash."""


def python_function(function: Any) -> Any:
    """Return the Python function behind a compiled one, and anything else as it is."""
    return getattr(function, "py_func", function)


def readable_variables(function: FunctionType) -> dict[str, Any]:
    """Return the global and closure variables, by name, that a function, or a function defined in it, can read."""
    names, codes = set(), [function.__code__]
    while codes:
        code = codes.pop()
        names |= set(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    values = {name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        values[name] = cell.cell_contents
    return values


def is_of_known_package(value: Any) -> bool:
    """Return True if an object belongs to one of the packages in KNOWN_PACKAGES."""
    plain = python_function(value)
    name = plain.__name__ if isinstance(plain, ModuleType) else getattr(plain, "__module__", None)
    # a function made from text may claim to be of no module, or of the builtin ones
    is_python = not isinstance(plain, FunctionType) or name != "builtins"
    return is_python and isinstance(name, str) and name.partition(".")[0] in KNOWN_PACKAGES


def key_of(function: Any) -> str:
    """Return a hash of a function, or ``NO_KEY`` and the reason if it cannot have one.

    The hash covers code, defaults, and everything outside of KNOWN_PACKAGES that the code can reach by name.
    """
    hasher = hashlib.sha256()
    try:
        for part in _identifying_bytes("it", function, set()):
            hasher.update(part)
    except UnhashableFunction as error:
        return f"{NO_KEY}{error}"
    return hasher.hexdigest()


def _identifying_bytes(name: str, value: Any, visited: set[int]) -> Iterator[bytes]:
    """Yield bytes that identify a value called ``name``, and, if it is a function, all values that it can read.

    ``visited`` are the ids of functions that have been identified before. A value of which this is impossible, such as
    an open file, raises `UnhashableFunction`.
    """
    plain = python_function(value)
    yield f"{name}:{type(plain).__name__};".encode()
    if isinstance(plain, FunctionType):
        if id(plain) in visited:
            return
        visited.add(id(plain))
    if isinstance(plain, FunctionType) and not is_of_known_package(plain):
        yield from _bytes_of_code(plain.__code__)
        for key, part in [("defaults", plain.__defaults__), *readable_variables(plain).items()]:
            yield from _identifying_bytes(key, part, visited)
    elif isinstance(plain, ATOMIC_TYPES):
        yield repr(value).encode()
    elif isinstance(plain, tuple | list):
        for i, entry in enumerate(plain):
            yield from _identifying_bytes(str(i), entry, visited)
    elif isinstance(plain, np.ndarray):
        yield f"{plain.dtype}{plain.shape}".encode() + plain.tobytes()
    elif is_of_known_package(plain) or isinstance(plain, BuiltinFunctionType | numba.types.Type) or plain is math:
        path = getattr(plain, "__qualname__", getattr(plain, "__name__", repr(plain)))
        yield f"{getattr(plain, '__module__', '')}.{path}".encode()
    elif isinstance(plain, type) and hasattr(plain, "_fields"):
        yield f"{plain.__qualname__}{plain._fields}".encode()
    elif isinstance(plain, ModuleType) and (getattr(plain, "__file__", None) or "").endswith(".py"):
        with open(plain.__file__, "rb") as source:  # type: ignore[arg-type]
            yield source.read()
    else:
        raise UnhashableFunction(f"{name!r}, a {type(plain).__name__}, cannot be part of a key")


def _bytes_of_code(code: CodeType) -> Iterator[bytes]:
    """Yield bytes that identify the code of a function and of the functions defined in it."""
    yield code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _bytes_of_code(constant)
        else:
            yield repr(constant).encode()
