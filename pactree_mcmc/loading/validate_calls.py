"""Whether what a file says of the calls that made its draws makes sense."""

from __future__ import annotations

from typing import Any

from ..files.calls import Call
from .require import require

FUNCTIONS = ("sample", "resume")


def check_calls(calls: Any) -> None:
    """Refuse calls that are none."""
    require(type(calls) is tuple, "the calls are none")
    for call in calls:
        require(isinstance(call, Call) and call.function in FUNCTIONS, "a call is none")
        require(type(call.repeatable) is bool, "a call is none")
        for words in (call.arguments, call.versions):
            require(type(words) is dict and all(type(x) is str for x in words.values()), "a call is none")
