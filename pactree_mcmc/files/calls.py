"""The calls that made draws: what each was given, its seed, and the releases that ran it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from .encoding import kept

RESTED_ON = ("pactree-mcmc", "numpy", "numba", "scipy")
"""What the numbers rest on, beside Python."""
ALWAYS = ("draws", "chains", "rng", "kernel")
"""Arguments that a line has also where they are the default."""
LEFT_OUT = ("model", "run", "executor", "progress", "checkpoint", "every", "moves", "leaf", "split_prior")
"""Arguments on which draws do not depend, and those that the model and the kernel have."""
POOL_SIZE = 4
"""Of a SeedSequence, where nothing is said."""


@kept
class Call(NamedTuple):
    """A call that made draws, or further ones.

    Its ``line`` makes the same draws again with the same model and the same ``versions``, if it is ``repeatable``.
    """

    function: str
    """Which: "sample" or "resume"."""
    arguments: dict[str, str]
    """What it was given, by name, as Python writes it; what Python cannot write stands between < and >."""
    repeatable: bool
    """Whether the line says all: no generator in a state of its own, no start tree, move of one's own or interrupt."""
    versions: dict[str, str]
    """Numbers of the releases that ran it, by name."""

    @property
    def line(self) -> str:
        """The call as a line of Python."""
        first = "model" if self.function == "sample" else "post"
        given = "".join(f", {name}={value}" for name, value in self.arguments.items())
        return f"post = pt.{self.function}({first}{given})"

    @property
    def seed(self) -> str | None:
        """The seed as Python writes it; None of a call that takes none."""
        return self.arguments.get("rng")

    def ended(self, steps: int | None) -> Call:
        """The call with the ``steps`` in place of the seconds after which a run ended; None: it was interrupted."""
        if steps is None:
            return self._replace(repeatable=False)
        if "seconds" not in self.arguments:
            return self
        rest = {name: value for name, value in self.arguments.items() if name not in ("seconds", "steps")}
        return self._replace(arguments=rest | {"steps": str(steps)})


def call_of(function: Callable[..., Any], given: Mapping[str, Any]) -> Call:
    """The call of ``function`` with the arguments ``given`` by name, of which those equal to the default are left out.

    Parameters
    ----------
    function : function
        `sample` or `resume`.
    given : mapping
        All its arguments; ``rng`` as what `source_of` returns.
    """
    arguments, repeatable = {}, True
    for name, parameter in signature(function).parameters.items():
        value = given.get(name, parameter.default)
        is_default = isinstance(value, type(parameter.default)) and bool(np.all(value == parameter.default))
        if name in LEFT_OUT or (is_default and name not in ALWAYS):
            continue
        arguments[name], says_all = as_python(value)
        repeatable &= says_all
    return Call(function.__name__, arguments, repeatable, versions())


def source_of(rng: Any, sources: Sequence[Any]) -> Any:
    """What makes the ``sources`` of the chains again that came of ``rng``: itself where it says all.

    Without a seed it is the entropy that was drawn from the system; of a Generator the seeds of those it spawned.
    """
    if rng is None:
        return sources[0].entropy
    if isinstance(rng, np.random.Generator):
        spawned = [source.bit_generator for source in sources]
        return [bits.seed_seq if type(bits) is np.random.PCG64 else bits for bits in spawned]
    return list(sources) if isinstance(rng, list | tuple) else rng


def as_python(value: Any) -> tuple[str, bool]:
    """A value as Python writes it, and whether that says all."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value), True
    if isinstance(value, list | tuple | np.ndarray):
        parts = [as_python(part) for part in value]
        return f"[{', '.join(text for text, _ in parts)}]", all(good for _, good in parts)
    if isinstance(value, Mapping):
        pairs = [(as_python(key), as_python(part)) for key, part in value.items()]
        text = ", ".join(f"{key[0]}: {part[0]}" for key, part in pairs)
        return f"{{{text}}}", all(key[1] and part[1] for key, part in pairs)
    if isinstance(value, np.random.SeedSequence):
        size = "" if value.pool_size == POOL_SIZE else f", pool_size={value.pool_size}"
        entropy, says_all = as_python(value.entropy)
        key = tuple(int(k) for k in value.spawn_key)
        return f"np.random.SeedSequence({entropy}{f', spawn_key={key}' if key else ''}{size})", says_all
    name = getattr(value, "name", None)
    return f"<{type(value).__name__}{f' {name}' if isinstance(name, str) else ''}>", False


def versions() -> dict[str, str]:
    """Numbers of the releases of the library, of what its numbers rest on, and of Python."""
    return {name: _version(name) for name in RESTED_ON} | {"python": ".".join(map(str, sys.version_info[:3]))}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # sources that were not installed
        return "unknown"
