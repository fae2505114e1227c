"""Descriptions of parameters that several docstrings share."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import indent
from typing import TypeVar

Documented = TypeVar("Documented")


def with_texts(texts: dict[str, str]) -> Callable[[Documented], Documented]:
    """Return a decorator that replaces each line ``{name}`` of a docstring by the text of that name.

    The text is indented as the line is. So `help` and the pages show the whole docstring.
    """

    def fill(documented: Documented) -> Documented:
        doc = documented.__doc__ or ""
        documented.__doc__ = re.sub(r"(?m)^( *)\{(\w+)\}$", lambda line: indent(texts[line[2]], line[1]), doc)
        return documented

    return fill
