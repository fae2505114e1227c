"""Errors about names of arguments that a function does not have."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P, R = ParamSpec("P"), TypeVar("R")


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
