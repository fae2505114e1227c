"""Names of arguments that a function does not have, and fields by name in one line."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

MOST_SHOWN = 400
"""Largest number of characters of a representation."""
P = ParamSpec("P")
R = TypeVar("R")


def suggest_names(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with errors that suggest an argument for one that it does not have.

    Examples
    --------
    >>> @suggest_names
    ... def sample(draws=1, *, tune=0):
    ...     return draws
    >>> sample(2), sample(draws=3)
    (2, 3)
    >>> sample(drwas=3)
    Traceback (most recent call last):
    TypeError: sample() has no argument 'drwas'; did you mean 'draws'?
    """
    known = [name for name in inspect.signature(function).parameters if name != "self"]
    name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for given in kwargs:
            if given not in known:
                close = difflib.get_close_matches(given, known, 1, 0.5)
                hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}."
                raise TypeError(f"{name}() has no argument {given!r}; {hint}")
        return function(*args, **kwargs)

    return call


def short_repr(value: Any) -> str:
    """Return the name of a NamedTuple and its fields in one line, arrays by their shapes."""
    parts = [f"{name}={_short(part)}" for name, part in zip(value._fields, value, strict=True)]
    text = f"{type(value).__name__}({', '.join(parts)})"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 4]}...)"


def _short(part: Any) -> str:
    if hasattr(part, "shape"):
        return f"<array {tuple(part.shape)}>" if part.shape else str(part)
    if isinstance(part, list | tuple | dict):
        return f"<{len(part)} entries>"
    text = repr(part)
    return text if len(text) <= 40 else f"<{type(part).__name__}>"
