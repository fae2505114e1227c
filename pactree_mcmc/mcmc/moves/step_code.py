"""Checks of the code of a user's step, so that errors come when the move is made and not from numba in a run."""

from __future__ import annotations

import dis
import random
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.registry import cpu_target

from ...core.compile.user_functions import is_of_known_package, python_function

GENERATOR_TYPES = (random.Random, np.random.RandomState, np.random.Generator)


def check_code(name: str, step: FunctionType) -> None:
    """Raise ValueError if a step draws from another source than ``rng``, TypeError if it calls a plain Python function.

    Check the functions that it calls as well. ``name`` is the name of the move, for the message.
    """
    functions, visited = [step], {id(step)}
    while functions:
        for path, value in values_read_by(functions.pop()):
            if _is_random_source(value):
                raise ValueError(
                    f"the step of the move {name!r} uses {path}, which rng= does not seed and check_balance cannot "
                    "follow; draw random numbers from rng, by moves.pick, moves.flip, moves.flip_log or "
                    "moves.pick_weighted."
                )
            if _is_uncompiled(value):
                raise TypeError(
                    f"the step of the move {name!r} calls {path}, a plain Python function; decorate it with @moves.jit."
                )
            plain = python_function(value)
            if isinstance(plain, FunctionType) and not is_of_known_package(value) and id(plain) not in visited:
                visited.add(id(plain))
                functions.append(plain)


def values_read_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield dotted name and value of each global, closure variable and attribute of a module that a function reads."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        path, value = "", None
        for instruction in dis.get_instructions(code):
            name = instruction.argval
            if instruction.opname == "LOAD_GLOBAL" and name in function.__globals__:
                path, value = name, function.__globals__[name]
            elif instruction.opname == "LOAD_DEREF" and name in cells:
                path, value = name, cells[name].cell_contents
            elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
                path, value = f"{path}.{name}", getattr(value, name, None)
            else:
                value = None
                continue
            yield path, value


def _is_random_source(value: Any) -> bool:
    """Return True if the value is a generator of random numbers, a method of one, or a module of random functions."""
    is_method = isinstance(getattr(value, "__self__", None), GENERATOR_TYPES)
    return value is random or value is np.random or isinstance(value, GENERATOR_TYPES) or is_method


def _is_uncompiled(value: Any) -> bool:
    """Return True if the value is a user's Python function that compiled code cannot call."""
    if numba.config.DISABLE_JIT or not isinstance(value, FunctionType) or is_of_known_package(value):
        return False
    context = cpu_target.typing_context
    context.refresh()
    try:
        return context.resolve_value_type(value) is None
    except (ValueError, numba.core.errors.NumbaError):
        return True
