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

MAX_REPR_LENGTH = 400
"""Largest number of characters of the representation of a NamedTuple."""
MAX_PRINTED_LINES = 40
"""Largest number of lines of a text that `print` shows."""
MAX_FIELD_LENGTH = 60
"""Largest number of characters of a field in the representation of a dataclass."""
NAMES_ELSEWHERE = {
    **dict.fromkeys(("rng", "seed", "random_state", "random_seed", "generator"), ("rng", "random_state")),
    **dict.fromkeys(("class", "class_", "clas", "cls", "klass", "output"), ("label",)),
}
"""Names of arguments in other libraries, with the names that arguments of the same meaning have in this one.

A suggestion is the first of these that the function has.
"""
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

    Anything else, also an exception or a NamedTuple, is returned as it is. ``module`` is the name of the public module
    of a function, in which pickle finds it.
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


def _unknown_argument(function: Callable[..., Any], args: tuple, keywords: dict[str, Any]) -> str | None:
    """Return the message about the first of ``keywords`` that the function has no argument for.

    Return None if there is none, or the function takes any keyword. ``args`` and ``keywords`` are the arguments of the
    call that failed; args[0] is the object if the function is a constructor.
    """
    parameters = inspect.signature(function).parameters
    unknown = [name for name in keywords if name not in parameters]
    if not unknown or any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return None
    parameter_names = [name for name in parameters if name != "self"]
    name = type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__
    close = _most_similar_name(unknown[0], parameter_names)
    hint = f"did you mean {close!r}?" if close else f"it has {', '.join(parameter_names)}."
    return f"{name}() has no argument {unknown[0]!r}; {hint}"


def _most_similar_name(word: str, names: list[str]) -> str | None:
    """Return the name in ``names`` that is meant by ``word`` or spelt most like it, or None.

    Examples
    --------
    >>> _most_similar_name("seed", ["model", "seconds", "rng"]), _most_similar_name("x", ["rng", "X"])
    ('rng', 'X')
    >>> _most_similar_name("seed", ["seconds"])
    """
    if word in NAMES_ELSEWHERE:
        return next((name for name in NAMES_ELSEWHERE[word] if name in names), None)
    other_case = [name for name in names if name.lower() == word.lower()]
    return next(iter(other_case or difflib.get_close_matches(word, names, 1, 0.5)), None)


def short_repr(value: Any) -> str:
    """Return a one-line representation of a NamedTuple, in which arrays are shown by their shapes."""
    parts = [f"{name}={_size_or_text(part)}" for name, part in zip(value._fields, value, strict=True)]
    text = f"{type(value).__name__}({', '.join(parts)})"
    return text if len(text) <= MAX_REPR_LENGTH else f"{text[: MAX_REPR_LENGTH - 4]}...)"


def with_short_repr(kind: type[K]) -> type[K]:
    """Decorate a class of NamedTuples: set `short_repr` as its representation, and return the class."""
    type.__setattr__(kind, "__repr__", short_repr)
    return kind


def limited_lines(text: str) -> str:
    """Return a text to print. If it has more than MAX_PRINTED_LINES lines, a last line counts those left out.

    Examples
    --------
    >>> limited_lines(chr(10).join(map(str, range(100)))).splitlines()[-1]
    '... 61 more lines; .format() returns all'
    """
    lines = text.splitlines()
    if len(lines) <= MAX_PRINTED_LINES:
        return text
    first_lines = lines[: MAX_PRINTED_LINES - 1]
    return "\n".join([*first_lines, f"... {len(lines) - len(first_lines)} more lines; .format() returns all"])


def fields_repr(value: Any) -> str:
    """Return a one-line representation of a dataclass, in which long arrays and lists are shown by their sizes."""
    parts = []
    for field in dataclasses.fields(value):
        if field.repr:
            part = getattr(value, field.name)
            text = repr_of(part)
            parts.append(f"{field.name}={text if len(text) <= MAX_FIELD_LENGTH else _size_or_text(part)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def _size_or_text(part: Any) -> str:
    """Return a field as short text: the shape of an array, the length of a list, or the type if the text is long."""
    if hasattr(part, "shape"):
        return f"<array {tuple(part.shape)}>" if part.shape else str(part)
    if isinstance(part, list | tuple | dict):
        return f"<{len(part)} entries>"
    text = repr(part)
    return text if len(text) <= 40 else f"<{type(part).__name__}>"


def fill_docstring(texts: dict[str, str]) -> Callable[[Documented], Documented]:
    """Return a decorator that replaces each line ``{name}`` of a docstring by ``texts[name]``, with its indentation.

    So functions with the same parameters share their description.
    """

    def fill(documented: Documented) -> Documented:
        doc = documented.__doc__ or ""
        documented.__doc__ = re.sub(r"(?m)^( *)\{(\w+)\}$", lambda line: indent(texts[line[2]], line[1]), doc)
        return documented

    return fill
