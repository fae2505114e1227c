"""Where compiled code is kept between processes.

numba keeps compiled code as long as the file of the function is unchanged, although the code also contains everything
that the function calls from other files. Here it is kept as long as none of the sources changes that compiled code of
its package can reach by imports. What is not on disk may have come with the library (see `shipped`). A cache that
cannot be read or written only costs time.
"""

from __future__ import annotations

import functools
import hashlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

from .digest import NOT_KEPT, key_of
from .shipped import Archive, file_base, function_key, result_of
from .sources import sources

ADVICE = "it is compiled again in every process; set NUMBA_CACHE_DIR to a folder that can be written"


@functools.cache
def _warn(message: str) -> None:
    warnings.warn(f"compiled code is not kept: {message}; {ADVICE}.", RuntimeWarning, stacklevel=2)


class _Files(IndexDataCacheFile):
    def __init__(self, folder: str, base: str, stamp: str) -> None:
        super().__init__(folder, base, stamp)
        # read before the rest of the index, which names classes that may be gone from a newer library
        self._version = f"{numba.__version__} {stamp}"

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
        self._function, self._given_key = function, key

    @functools.cached_property
    def _key(self) -> str:
        """Of what the code depends on besides the library's sources."""
        return self._given_key() if self._given_key is not None else key_of(self._function) if self._is_foreign else ""

    @functools.cached_property
    def stamp(self) -> str:
        """What its code depends on, as text."""
        package = self._function.__module__.rpartition(".")[0]
        return sources("" if self._is_foreign else package) + self._key

    @functools.cached_property
    def _kept(self) -> FunctionCache | NullCache:
        """Numba's cache, or one that keeps nothing where no folder can be written."""
        if self._key.startswith(NOT_KEPT):
            _warn(f"{self._function.__qualname__} reads {self._key.removeprefix(NOT_KEPT)}")
            return NullCache()
        try:
            kept = FunctionCache(self._function)
        except (RuntimeError, OSError) as error:
            _warn(str(error).splitlines()[0])
            return NullCache()
        # code of one name and several keys stands side by side
        base = f"{kept._impl.filename_base}{self._key and '-'}{self._key[:16]}"
        kept._cache_file = _Files(kept.cache_path, base, self.stamp)
        return kept

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
        found = self._load_shipped(sig) if found is None and not self._key else found
        for tell in list(watchers) if found is None else []:
            tell(self)
        return found

    def _load_shipped(self, sig: Any) -> Any:
        data, is_ready = Archive(self._function, file_base(self._function), self.stamp).load(
            function_key(self._function, sig)
        )
        found = None if data is None else result_of(*data)
        if found is not None and not is_ready:
            self.save_overload(sig, found)
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
    """Compiled code of several functions in one file on disk, beside that of the first of them."""

    def __init__(self, functions: Sequence[Any]) -> None:
        caches = [function._cache for function in functions]
        stamp = hashlib.sha256("".join(cache.stamp for cache in caches).encode()).hexdigest()
        names = hashlib.sha256(" ".join(function.py_func.__qualname__ for function in functions).encode()).hexdigest()
        folder, base = caches[0].cache_path, f"together-{names[:16]}"
        self._files = None if folder is None else _Files(folder, base, stamp)
        self._shipped = Archive(functions[0].py_func, base, stamp)

    def load(self, key: Any) -> tuple[Any, bool]:
        """What was saved by the key, or None; and whether it need not be saved."""
        try:
            found = None if self._files is None else self._files.load(key)
        except Exception:  # whatever unpickling raises
            found = None
        return self._shipped.load(key) if found is None else (found, True)

    def save(self, key: Any, data: Any) -> None:
        """Keep it if it can be written."""
        try:
            if self._files is not None:
                self._files.save(key, data)
        except OSError as error:
            _warn(str(error))
