"""What is called, and with what kinds of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import answers as a


class Target(NamedTuple):
    """A callable and what it takes."""

    name: str
    call: Callable[..., Any]
    kinds: dict[str, str]
    valid: Callable[[Any, dict[str, Any]], None]
    """Raises AssertionError where the answer is not what the documentation promises."""
    weight: float


def _method(name: str) -> Callable[..., Any]:
    return lambda self, **rest: getattr(self, name)(**rest)


def target(name: str, call: Callable, valid: Callable | None = None, weight: float = 1.0, /, **kinds: str) -> Target:
    """A callable, its arguments by name and kind; what is valid and how often it is called are positional."""
    return Target(name, call, kinds, valid or a.anything, weight)


def methods(cls: str, self: str, /, **asked: tuple) -> list[Target]:
    """Methods of a class: what is valid and the kinds of each; ``self`` is a kind too."""
    return [
        target(f"{cls}.{name}", _method(name), valid, 1.0, self=self, **kinds) for name, (valid, kinds) in asked.items()
    ]
