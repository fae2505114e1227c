"""Where compiled code is kept between processes.

numba keeps compiled code as long as the file of the function is unchanged, although the code also contains everything
that the function calls from other files. Here it is kept as long as none of the sources changes that compiled code of
its package can reach by imports. A cache that cannot be read or written only costs time.
"""

from __future__ import annotations

import functools
import hashlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

from .digest import NOT_KEPT, key_of

ADVICE = "it is compiled again in every process; set NUMBA_CACHE_DIR to a folder that can be written"


IMPORT = re.compile(r"^from (\.*)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
COMPILED = re.compile(r"^@jit|^@by_address|^@by_class", re.MULTILINE)


@functools.cache
def sources(package: str = "") -> str:
    """A hash of the sources that compiled code in the folder of ``package`` depends on; of all for another package.

    These are the files of the folder that hold compiled code, whatever these import at once, and the files
    that say how to compile.
    """
    texts = _texts()
    reached = {name for name in texts if name.rpartition(".")[0] == package and COMPILED.search(texts[name])}
    ahead = list(reached)
    while ahead:
        new = {name for name in _imports(ahead.pop()) if name in texts} - reached
        reached |= new
        ahead += new
    reached |= {name for name in texts if name.startswith(f"{__package__}.")} if reached else set(texts)
    digest = hashlib.sha256()
    for name in sorted(reached):
        digest.update(texts[name].encode())
    return digest.hexdigest()


@functools.cache
def _texts() -> dict[str, str]:
    """The sources of the library by the names of their modules."""
    root = Path(__file__).parents[3]
    paths = (path for package in ("pactree_mcmc", "exact") for path in (root / package).rglob("*.py"))
    return {_module(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(module: str) -> Iterator[str]:
    """Names that may be modules which ``module`` imports; those inside functions are not among them."""
    yield from re.findall(r"^import ([\w.]+)", _texts()[module], re.MULTILINE)
    is_package = any(name.startswith(f"{module}.") for name in _texts())
    for dots, base, names in IMPORT.findall(_texts()[module]):
        above = module.split(".")[: 1 - len(dots) or None] if is_package else module.split(".")[: -len(dots)]
        start = ".".join([*(above if dots else []), *([base] if base else [])])
        yield start
        yield from (f"{start}.{name}" for name in re.findall(r"\w+", names))


@functools.cache
def _warn(message: str) -> None:
    warnings.warn(f"compiled code is not kept: {message}; {ADVICE}.", RuntimeWarning, stacklevel=2)


class _Files(IndexDataCacheFile):
    def _load_index(self) -> dict[Any, str]:
        """The index; empty if it is damaged."""
        try:
            return super()._load_index()
        except Exception:  # whatever unpickling raises
            return {}


watchers: list[Callable[[CodeCache], None]] = []
"""Called with the cache of a function that is about to be compiled, since its code is not there."""


class CodeCache:
    """The compiled forms of one function on disk, in the terms of numba's caches; looked for at the first call."""

    def __init__(self, function: Any, key: Callable[[], str] | None = None) -> None:
        self._function, self._key = function, key

    @functools.cached_property
    def _kept(self) -> FunctionCache | NullCache:
        """Numba's cache, or one that keeps nothing where no folder can be written."""
        key = self._key() if self._key is not None else key_of(self._function) if self._is_foreign else ""
        if key.startswith(NOT_KEPT):
            _warn(f"{self._function.__qualname__} reads {key.removeprefix(NOT_KEPT)}")
            return NullCache()
        try:
            kept = FunctionCache(self._function)
        except (RuntimeError, OSError) as error:
            _warn(str(error).splitlines()[0])
            return NullCache()
        stamp = self._sources + key
        # code of one name and several keys stands side by side
        base = f"{kept._impl.filename_base}{key and '-'}{key[:16]}"
        kept._cache_file = _Files(kept.cache_path, base, stamp)
        # read before the rest of the index, which names classes that may be gone from a newer library
        kept._cache_file._version = f"{numba.__version__} {stamp}"
        return kept

    @property
    def stamp(self) -> str:
        """What its code depends on, as text."""
        return self._sources + (self._key() if self._key is not None else "")

    @property
    def _sources(self) -> str:
        return sources("" if self._is_foreign else self._function.__module__.rpartition(".")[0])

    @property
    def _is_foreign(self) -> bool:
        return (self._function.__module__ or "").partition(".")[0] not in ("pactree_mcmc", "exact")

    @property
    def cache_path(self) -> str | None:
        """The folder."""
        return self._kept.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The form for the types ``sig``, or None if there is none or its file is damaged."""
        try:
            found = self._kept.load_overload(sig, target_context)
        except Exception:  # whatever unpickling raises
            found = None
        for tell in list(watchers) if found is None else []:
            tell(self)
        return found

    @property
    def has_code(self) -> bool:
        """Whether code of the function is on disk, for whatever types."""
        file = getattr(self._kept, "_cache_file", None)
        return file is not None and bool(file._load_index())

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a form if it can be written."""
        try:
            self._kept.save_overload(sig, data)
        except OSError as error:
            _warn(str(error))


class Store:
    """Compiled code of several functions in one file on disk."""

    def __init__(self, folder: str | None, name: str, stamp: str) -> None:
        self._files = None if folder is None else _Files(folder, name, f"{numba.__version__} {stamp}")

    @classmethod
    def of_functions(cls, functions: Sequence[Any]) -> Store:
        """Beside the code of the first of them."""
        caches = [function._cache for function in functions]
        stamp = hashlib.sha256("".join(cache.stamp for cache in caches).encode()).hexdigest()
        names = hashlib.sha256(" ".join(function.py_func.__qualname__ for function in functions).encode()).hexdigest()
        return cls(caches[0].cache_path, f"together-{names[:16]}", stamp)

    def load(self, key: Any) -> Any:
        """What was saved by the key, or None."""
        try:
            return None if self._files is None else self._files.load(key)
        except Exception:  # whatever unpickling raises
            return None

    def save(self, key: Any, data: Any) -> None:
        """Keep it if it can be written."""
        try:
            if self._files is not None:
                self._files.save(key, data)
        except OSError as error:
            _warn(str(error))
