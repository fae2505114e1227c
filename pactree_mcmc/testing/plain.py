"""Uncompiled forms: a copy of the package that runs as plain Python, functions of users, and fast records."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import CellType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numba
import numpy as np
from numba.core.dispatcher import Dispatcher

PACKAGE = "pactree_mcmc"
EXCLUDED_PARTS = ("faces", "testing")  # parts of the package that the plain copy does not import


def _package_modules() -> list[str]:
    """Return the names in ``sys.modules`` that belong to the package."""
    return [name for name in sys.modules if name.partition(".")[0] == PACKAGE]


@cache
def plain_package() -> SimpleNamespace:
    """Import the package once more without compilation, and return a namespace of it, not in sys.modules."""
    compiled = {name: sys.modules.pop(name) for name in _package_modules()}
    disabled, numba.config.DISABLE_JIT = numba.config.DISABLE_JIT, True
    try:
        package = importlib.import_module(PACKAGE)
        for module in pkgutil.walk_packages(package.__path__, PACKAGE + "."):
            if module.name.split(".")[1] not in EXCLUDED_PARTS:
                importlib.import_module(module.name)
        plain = {name: sys.modules.pop(name) for name in _package_modules()}
    finally:
        numba.config.DISABLE_JIT = disabled
        for name in _package_modules():
            del sys.modules[name]
        sys.modules.update(compiled)
    # both copies share the table of Python functions by the number that represents their address
    address = f"{PACKAGE}.core.compile.address"
    plain[address]._python_functions = compiled[address]._python_functions
    hash_integer = with_stored_results(plain[f"{PACKAGE}.core.bits"].hash_integer)
    for module in plain.values():
        if hasattr(module, "hash_integer"):
            module.hash_integer = hash_integer
    return SimpleNamespace(package=package, module=lambda name: plain[f"{PACKAGE}.{name}"])


def with_stored_results(hash_integer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of Python integers that equals the hash function ``hash_integer``, and stores its results."""

    # plain code calls it instead of `hash_integer`, which would be slow with NumPy integers, and warn of overflows
    @cache
    def stored_result(x: int) -> Any:
        with np.errstate(over="ignore"):
            return hash_integer(np.int64(x))

    return lambda x: stored_result(as_signed(int(x)))


def as_signed(x: int) -> int:
    """Return the integer from -2^63 to 2^63 - 1 that equals ``x`` modulo 2^64."""
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)


def plain_function(function: Any) -> Any:
    """Return an uncompiled copy of a user's compiled function, which calls the plain copy of the library."""
    return _PlainForms().plain_form(function)


class _PlainForms:
    """Conversion of functions, and of all objects that they can reach, to their plain (uncompiled) forms, made once."""

    def __init__(self) -> None:
        self.plain_forms: dict[int, Any] = {}
        self.modules = plain_package()

    def plain_form(self, value: Any) -> Any:
        """Return the plain form of a function, class or module; any other value as it is."""
        plain = value.py_func if isinstance(value, Dispatcher) else value
        if isinstance(plain, ModuleType):
            return self._module(plain)
        name = getattr(plain, "__module__", None)
        if isinstance(name, str) and name.partition(".")[0] == PACKAGE and isinstance(plain, FunctionType | type):
            return getattr(self._module(sys.modules[name]), plain.__qualname__)
        if not isinstance(plain, FunctionType):
            return value
        if id(plain) not in self.plain_forms:
            self.plain_forms[id(plain)] = self._function(plain)
        return self.plain_forms[id(plain)]

    def _module(self, module: ModuleType) -> Any:
        """Return the plain copy of a module of the package, or another module itself."""
        if module.__name__ == PACKAGE:
            return self.modules.package
        is_of_package = module.__name__.partition(".")[0] == PACKAGE
        return self.modules.module(module.__name__.partition(".")[2]) if is_of_package else module

    def _function(self, function: FunctionType) -> FunctionType:
        """Return a copy of a function whose globals and closure variables are in plain form."""
        names, copied_globals = _readable_variables(function), dict(function.__globals__)
        code, cells = function.__code__, self._cells(function)
        copy = FunctionType(code, copied_globals, function.__name__, function.__defaults__, cells)
        # registered first, since the functions that it calls may call it
        self.plain_forms[id(function)] = copy
        values = {name: value for name, value in names.items() if name not in code.co_freevars}
        copied_globals.update({name: self.plain_form(value) for name, value in values.items()})
        return copy

    def _cells(self, function: FunctionType) -> tuple[CellType, ...]:
        """Return the closure variables of a function in plain form."""
        return tuple(CellType(self.plain_form(cell.cell_contents)) for cell in function.__closure__ or ())


def _readable_variables(function: FunctionType) -> dict[str, Any]:
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


class Record:
    """Record whose fields are attributes, since NumPy's records would take nine tenths of the time of plain code."""

    def __init__(self, fields: Any) -> None:
        self.__dict__.update(fields)


class Records(Sequence):
    """Sequence of the records of a copy of an array. An attribute is the field of all records, as a new array."""

    # a record is made when it is used for the first time, since most records of large arrays are never used
    def __init__(self, array: np.ndarray) -> None:
        self._array, self._made = array.copy(), {}

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, i: Any) -> Any:
        """Return record ``i``, not negative, or a list of records if ``i`` is a slice."""
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        records = self._made
        if i not in records:
            if not 0 <= i < len(self._array):
                raise IndexError(f"there is no record {i} of {len(self._array)}")
            records[int(i)] = Record(self._fields_of(i))
        return records[i]

    def __getattr__(self, name: str) -> np.ndarray:
        """Return the field ``name`` of all records as a new array."""
        if name.startswith("_"):
            raise AttributeError(name)
        values = self._array[name].copy()
        for i, record in self._made.items():
            values[i] = getattr(record, name)
        return values

    def copies(self) -> dict[int, dict[str, Any]]:
        """Return a copy of the fields of each record that was used, for `put_back`."""
        return {i: record.__dict__.copy() for i, record in self._made.items()}

    def put_back(self, copies: dict[int, dict[str, Any]]) -> None:
        """Restore the fields of all records from the result of `copies`."""
        for i in {*self._made, *copies}:
            self[i].__dict__ = copies[i].copy() if i in copies else self._fields_of(i)

    def _fields_of(self, i: int) -> dict[str, Any]:
        """Return the fields of a record as the array contains them."""
        return dict(zip(self._array.dtype.names, self._array[i].item(), strict=True))


def with_records(group: Any) -> Any:
    """Return a NamedTuple of arrays with each record array replaced by `Records`, which plain code reads fast."""

    def replaced(value: Any) -> Any:
        """Return a record array as `Records`, a NamedTuple by `with_records`, or any other value itself."""
        if hasattr(value, "_fields"):
            return with_records(value)
        return Records(value) if isinstance(value, np.ndarray) and value.dtype.names else value

    return group._replace(**{name: replaced(getattr(group, name)) for name in group._fields})
