"""Texts: one-line representations, shared parts of docstrings, warnings, and errors about optional packages."""

from __future__ import annotations

import dataclasses
import re
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from inspect import cleandoc
from textwrap import indent
from typing import Any, TypeVar

from .checks import repr_of

MAX_REPR_LENGTH = 400  # largest number of characters of the representation of a NamedTuple
MAX_PRINTED_LINES = 40  # largest number of lines of a text that `print` shows
MAX_FIELD_LENGTH = 60  # largest number of characters of a field in the representation of a dataclass
Documented = TypeVar("Documented")
K = TypeVar("K")


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
    """Return a text to print. If it has more than MAX_PRINTED_LINES lines, a last line counts those left out."""
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


def fill_docstring(descriptions: Callable[[], None]) -> Callable[[Documented], Documented]:
    """Return a decorator that replaces each line ``{name}`` of a docstring by the description of this name."""
    # in the docstring of `descriptions` each description is behind a line ``[name]``
    _, *parts = re.split(r"(?m)^\[(\w+)\]\n", cleandoc(descriptions.__doc__ or ""))
    texts = {name: text.strip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}

    def filled(doc: str) -> str:
        return re.sub(r"(?m)^( *)\{(\w+)\}$", lambda line: indent(filled(texts[line[2]]), line[1]), doc)

    def fill(documented: Documented) -> Documented:
        documented.__doc__ = filled(documented.__doc__ or "")
        return documented

    return fill


# packages whose lines a warning does not name. numba is one, since it calls the library when it loads code
SKIPPED_PACKAGES = ("pactree_mcmc", "exact", "numba")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that names the innermost line of the call stack outside of the packages in SKIPPED_PACKAGES."""
    frame, level = sys._getframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in SKIPPED_PACKAGES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


# name of the extra that installs each optional package
EXTRAS = {"matplotlib": "plots", "sklearn": "sklearn", "arviz": "arviz"}


def require_package(package: str, what: str) -> None:
    """Raise an ImportError if a package is not installed."""
    # the message says that ``what`` needs it, and what to install
    if find_spec(package) is None:
        raise ImportError(
            f"{what} needs {package}, which is not installed; type: pip install 'pactree-mcmc[{EXTRAS[package]}]'",
            name=package,
        )
