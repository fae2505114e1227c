"""Records of the calls of `sample` and `resume` that made draws: arguments, seed, and releases of the packages."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from .encoding import register_class

PACKAGES = ("numpy", "numba", "scipy")
"""Packages whose releases are recorded, beside the library and Python."""
ALWAYS_RECORDED = ("draws", "chains", "rng", "kernel")
"""Arguments that are recorded even if they have their default."""
NOT_RECORDED = ("model", "run", "executor", "progress", "checkpoint", "every", "moves", "leaf", "split_prior")
"""Arguments that are not recorded: draws do not depend on them, or the model or the kernel contains them."""
POOL_SIZE = 4
"""Default pool size of a SeedSequence."""


@register_class
class Call(NamedTuple):
    """Record of a call of `sample` or `resume`; ``line`` gives the same draws again if it is ``repeatable``."""

    function: str
    """Name of the function, "sample" or "resume"."""
    arguments: dict[str, str]
    """Arguments by name, as Python source. A value without such a form is described between < and >."""
    repeatable: bool
    """True if the line determines the draws: no used generator, start tree, user's move or interruption."""
    versions: dict[str, str]
    """Release numbers of Python and of packages, by name."""

    @property
    def line(self) -> str:
        """The call as a line of Python source."""
        arguments = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        first = "model" if self.function == "sample" else "post"
        return f"post = pt.{self.function}({first}{arguments and ', '}{arguments})"

    @property
    def seed(self) -> str | None:
        """Seed as Python source, such as "0", without the name of the argument; None if the call has no seed."""
        return self.arguments.get("rng")

    def with_outcome(self, steps: int | None) -> Call:
        """Return the record of the call after its run has ended with ``steps`` steps, None if it was interrupted."""
        # ``steps`` replaces a time limit ``seconds``. An interrupted call is not repeatable
        if steps is None:
            return self._replace(repeatable=False)
        if "seconds" not in self.arguments:
            return self
        rest = {name: value for name, value in self.arguments.items() if name not in ("seconds", "steps")}
        return self._replace(arguments=rest | {"steps": str(steps)})


def call_record(function: Callable[..., Any], values: Mapping[str, Any]) -> Call:
    """Return the record of a call of ``function``, a `Call.function`, given its arguments by name."""
    # defaults are left out, except those of ALWAYS_RECORDED, and so are the arguments NOT_RECORDED. The caller gives as
    # ``rng`` the seed that `seed_of` returns
    arguments, repeatable = {}, True
    for name, parameter in signature(function).parameters.items():
        value = values.get(name, parameter.default)
        is_default = isinstance(value, type(parameter.default)) and bool(np.all(value == parameter.default))
        if name in NOT_RECORDED or (is_default and name not in ALWAYS_RECORDED):
            continue
        arguments[name], is_complete = python_source(value)
        repeatable &= is_complete
    return Call(function.__name__, arguments, repeatable, versions())


def seed_of(rng: Any, sources: Sequence[Any]) -> Any:
    """Return a seed that gives the same ``sources`` of the chains as ``rng`` did."""
    # this is ``rng`` itself if it determines them, and the entropy of the system if it is None. A Generator gives the
    # seeds of the generators that it spawned, or their bit generators if these are not PCG64
    if rng is None:
        return sources[0].entropy
    if isinstance(rng, np.random.Generator):
        spawned = [source.bit_generator for source in sources]
        return [bits.seed_seq if type(bits) is np.random.PCG64 else bits for bits in spawned]
    return list(sources) if isinstance(rng, list | tuple) else rng


def python_source(value: Any) -> tuple[str, bool]:
    """Return a value as Python source, and True if this determines it. Parts without source are text in < and >."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value), True
    if isinstance(value, list | tuple | np.ndarray):
        parts = [python_source(part) for part in value]
        return f"[{', '.join(text for text, _ in parts)}]", all(good for _, good in parts)
    if isinstance(value, Mapping):
        pairs = [(python_source(key), python_source(part)) for key, part in value.items()]
        text = ", ".join(f"{key[0]}: {part[0]}" for key, part in pairs)
        return f"{{{text}}}", all(key[1] and part[1] for key, part in pairs)
    if isinstance(value, np.random.SeedSequence):
        size = "" if value.pool_size == POOL_SIZE else f", pool_size={value.pool_size}"
        entropy, is_complete = python_source(value.entropy)
        key = tuple(int(k) for k in value.spawn_key)
        return f"np.random.SeedSequence({entropy}{f', spawn_key={key}' if key else ''}{size})", is_complete
    name = getattr(value, "name", None)
    return f"<{type(value).__name__}{f' {name}' if isinstance(name, str) else ''}>", False


def versions() -> dict[str, str]:
    """Return the release numbers of the library, of the packages in PACKAGES and of Python, by name."""
    packages = {"pactree-mcmc": library_version()} | {name: _version(name) for name in PACKAGES}
    return packages | {"python": ".".join(map(str, sys.version_info[:3]))}


def library_version() -> str:
    """Return the release number of the library, ``__version__``, which sources that are not installed have too."""
    return sys.modules[__name__.partition(".")[0]].__version__


@functools.cache
def _version(name: str) -> str:
    """Return the release number of a package, "unknown" if it has no metadata, as in a frozen application."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"
