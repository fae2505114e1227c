"""Suggestions for misspelt names of arguments, one-line representations of objects, and shared texts of docstrings."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
from collections.abc import Callable
from functools import wraps
from textwrap import indent
from typing import Any, ParamSpec, TypeVar

from .checks import repr_of

MOST_SHOWN = 400
"""Largest number of characters of the representation of a NamedTuple."""
MOST_LINES = 40
"""Largest number of lines of a text that `print` shows."""
MOST_OF_FIELD = 60
"""Largest number of characters of a field in the representation of a dataclass."""
MEANT = {
    **dict.fromkeys(("rng", "seed", "random_state", "random_seed", "generator"), ("rng", "random_state")),
    **dict.fromkeys(("class", "class_", "clas", "cls", "klass", "output"), ("label",)),
}
"""Arguments of this library that are meant by a name from elsewhere, which may be spelt otherwise."""
P = ParamSpec("P")
R = TypeVar("R")
Documented = TypeVar("Documented")
K = TypeVar("K")


def suggest_names(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a better TypeError for an unknown argument, which suggests the name that was meant.

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

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            # an error of another kind, from inside the function, is left as it is
            message = _unknown_argument(function, args, kwargs)
            if message is None:
                raise
        raise TypeError(message)

    return call


def suggest_names_in(namespace: dict[str, Any]) -> None:
    """Apply `suggest_names` to the public functions of a module, and to the methods of its public classes, in place.

    ``namespace`` is the dict of the module's globals.
    """
    for name in namespace["__all__"]:
        if name in namespace:
            namespace[name] = with_suggestions(namespace[name], namespace["__name__"])


def with_suggestions(part: Any, module: str) -> Any:
    """Return a public function with `suggest_names`, or a class after `suggest_names` was applied to its methods.

    Anything else is returned as it is.
    """
    if inspect.isfunction(part):
        out = suggest_names(part)
        # pickle finds a function by its module and its name, and must find this one
        out.__module__ = module
        return out
    if inspect.isclass(part) and not issubclass(part, Exception | tuple):
        for owner in part.__mro__:
            if owner.__module__.partition(".")[0] in ("pactree_mcmc", "exact"):
                _suggest_in_class(owner)
    return part


def _suggest_in_class(owner: type) -> None:
    """Apply `suggest_names` to the constructor of a class, and to its public methods that have arguments."""
    for name, method in list(vars(owner).items()):
        # a base class of several classes may have been changed before
        is_plain = inspect.isfunction(method) and not hasattr(method, "__wrapped__")
        has_arguments = is_plain and method.__code__.co_argcount + method.__code__.co_kwonlyargcount > 1
        if is_plain and (name == "__init__" or (has_arguments and not name.startswith("_"))):
            setattr(owner, name, suggest_names(method))


def _unknown_argument(function: Callable[..., Any], args: tuple, given: dict[str, Any]) -> str | None:
    """Return the message about the first unknown argument of a call, or None if the function has all of ``given``."""
    parameters = inspect.signature(function).parameters
    unknown = [name for name in given if name not in parameters]
    if not unknown or any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return None
    known = [name for name in parameters if name != "self"]
    name = type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__
    close = _closest(unknown[0], known)
    hint = f"did you mean {close!r}?" if close else f"it has {', '.join(known)}."
    return f"{name}() has no argument {unknown[0]!r}; {hint}"


def _closest(given: str, known: list[str]) -> str | None:
    """Return the name in ``known`` that is meant by ``given`` or spelt most like it, or None.

    Examples
    --------
    >>> _closest("seed", ["model", "seconds", "rng"]), _closest("seed", ["seconds"]), _closest("x", ["rng", "X"])
    ('rng', None, 'X')
    """
    if given in MEANT:
        return next((name for name in MEANT[given] if name in known), None)
    other_case = [name for name in known if name.lower() == given.lower()]
    return next(iter(other_case or difflib.get_close_matches(given, known, 1, 0.5)), None)


def short_repr(value: Any) -> str:
    """Return a one-line representation of a NamedTuple, in which arrays are shown by their shapes."""
    parts = [f"{name}={_short(part)}" for name, part in zip(value._fields, value, strict=True)]
    text = f"{type(value).__name__}({', '.join(parts)})"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 4]}...)"


def with_short_repr(kind: type[K]) -> type[K]:
    """Decorate a class of NamedTuples: set `short_repr` as its representation, and return the class."""
    type.__setattr__(kind, "__repr__", short_repr)
    return kind


def on_a_screen(text: str) -> str:
    """Return a text. If it has more than ``MOST_LINES`` lines, return its first lines and the number of other lines.

    Examples
    --------
    >>> on_a_screen(chr(10).join(map(str, range(100)))).splitlines()[-1]
    '... 61 more lines; .format() returns all'
    """
    lines = text.splitlines()
    if len(lines) <= MOST_LINES:
        return text
    shown = lines[: MOST_LINES - 1]
    return "\n".join([*shown, f"... {len(lines) - len(shown)} more lines; .format() returns all"])


def fields_repr(value: Any) -> str:
    """Return a one-line representation of a dataclass, in which long arrays and lists are shown by their sizes."""
    parts = []
    for field in dataclasses.fields(value):
        if field.repr:
            part = getattr(value, field.name)
            text = repr_of(part)
            parts.append(f"{field.name}={text if len(text) <= MOST_OF_FIELD else _short(part)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def _short(part: Any) -> str:
    """Return a field as short text: the shape of an array, the length of a list, or the type if the text is long."""
    if hasattr(part, "shape"):
        return f"<array {tuple(part.shape)}>" if part.shape else str(part)
    if isinstance(part, list | tuple | dict):
        return f"<{len(part)} entries>"
    text = repr(part)
    return text if len(text) <= 40 else f"<{type(part).__name__}>"


def with_texts(texts: dict[str, str]) -> Callable[[Documented], Documented]:
    """Return a decorator that replaces each line ``{name}`` of a docstring by ``texts[name]``, with its indentation."""

    def fill(documented: Documented) -> Documented:
        doc = documented.__doc__ or ""
        documented.__doc__ = re.sub(r"(?m)^( *)\{(\w+)\}$", lambda line: indent(texts[line[2]], line[1]), doc)
        return documented

    return fill
