"""A key of a function that is not the library's: of its code and of all that it calls or reads."""

from __future__ import annotations

import hashlib
import math
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np

LIBRARIES = ("pactree_mcmc", "numba", "numpy", "math", "builtins")
"""What is known by its version, or by `cache.sources`."""


NOT_KEPT = "not kept: "
"""What a key begins with that is none."""


class Undigestible(ValueError):
    """The function reads something whose value cannot be part of a key."""


def key_of(function: Any) -> str:
    """A hash of a function's code, defaults, and everything its code can reach by name outside the libraries.

    Where that cannot be had it is ``NOT_KEPT`` and the reason.
    """
    hasher = hashlib.sha256()
    try:
        _Reader(hasher).read("it", function)
    except Undigestible as error:
        return f"{NOT_KEPT}{error}"
    return hasher.hexdigest()


def plain_of(function: Any) -> Any:
    """The Python function behind a compiled one; others as they are."""
    return getattr(function, "py_func", function)


def globals_of(function: FunctionType) -> dict[str, Any]:
    """What the code of a function, or one within it, can reach by name: globals and variables of closures."""
    names = set()
    ahead = [function.__code__]
    while ahead:
        code = ahead.pop()
        names |= set(code.co_names)
        ahead += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    found = {name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        found[name] = cell.cell_contents
    return found


def is_known(value: Any) -> bool:
    """Whether an object belongs to the library or to one it is built on."""
    plain = plain_of(value)
    name = plain.__name__ if isinstance(plain, ModuleType) else getattr(plain, "__module__", None)
    # a function made from text may say that it is of no module, or of the builtin ones
    is_python = not isinstance(plain, FunctionType) or name != "builtins"
    return is_python and isinstance(name, str) and name.partition(".")[0] in LIBRARIES


class _Reader:
    def __init__(self, hasher: Any) -> None:
        self.hasher = hasher
        self.met: set[int] = set()

    def read(self, name: str, value: Any) -> None:
        """Add a value to the key."""
        self.hasher.update(f"{name}:{type(plain_of(value)).__name__};".encode())
        if id(plain_of(value)) in self.met and isinstance(plain_of(value), FunctionType):
            return
        self.met.add(id(plain_of(value)))
        plain = plain_of(value)
        if isinstance(plain, FunctionType) and not is_known(plain):
            self._read_function(plain)
        elif isinstance(plain, bool | int | float | str | bytes | complex | np.generic | np.dtype | type(None)):
            self.hasher.update(repr(value).encode())
        elif isinstance(plain, tuple | list):
            for i, entry in enumerate(plain):
                self.read(str(i), entry)
        elif isinstance(plain, np.ndarray):
            self.hasher.update(f"{plain.dtype}{plain.shape}".encode() + plain.tobytes())
        elif is_known(plain) or isinstance(plain, BuiltinFunctionType | numba.types.Type) or plain is math:
            path = getattr(plain, "__qualname__", getattr(plain, "__name__", repr(plain)))
            self.hasher.update(f"{getattr(plain, '__module__', '')}.{path}".encode())
        else:
            self._read_other(name, plain)

    def _read_function(self, function: FunctionType) -> None:
        self._read_code(function.__code__)
        self.read("defaults", function.__defaults__)
        for name, value in globals_of(function).items():
            self.read(name, value)

    def _read_code(self, code: CodeType) -> None:
        self.hasher.update(code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._read_code(constant)
            else:
                self.hasher.update(repr(constant).encode())

    def _read_other(self, name: str, value: Any) -> None:
        file = getattr(value, "__file__", None)
        if isinstance(value, ModuleType) and file is not None and file.endswith(".py"):
            with open(file, "rb") as source:
                self.hasher.update(source.read())
            return
        if isinstance(value, type) and hasattr(value, "_fields"):
            self.hasher.update(f"{value.__qualname__}{value._fields}".encode())
            return
        raise Undigestible(f"{name!r}, a {type(value).__name__}, cannot be part of a key")
