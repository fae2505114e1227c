"""Where compiled code is kept between processes.

numba keeps it as long as the file of the function stays as it is; but the code has everything built in that the
function calls, from whatever file. Here it is kept as long as no source of the library changes, and a cache that cannot
be read or written costs time, nothing else.
"""

import functools
import hashlib
import warnings
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

ADVICE = "it is compiled again in every process; set NUMBA_CACHE_DIR to a folder that can be written"


@functools.cache
def sources() -> str:
    """A hash of the sources of the library."""
    digest = hashlib.sha256()
    for package in (Path(__file__).parent, Path(__file__).parents[1] / "exact"):
        for path in sorted(package.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


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


class CodeCache:
    """The compiled forms of one function on disk, in the terms of numba's caches; looked for at the first call."""

    def __init__(self, function: Any) -> None:
        self._function = function

    @functools.cached_property
    def _kept(self) -> FunctionCache | NullCache:
        """Numba's cache, or one that keeps nothing where no folder can be written."""
        try:
            kept = FunctionCache(self._function)
        except (RuntimeError, OSError) as error:
            _warn(str(error).splitlines()[0])
            return NullCache()
        kept._cache_file = _Files(kept.cache_path, kept._impl.filename_base, sources())
        # read before the rest of the index, which names classes that may be gone from a newer library
        kept._cache_file._version = f"{numba.__version__} {sources()}"
        return kept

    @property
    def cache_path(self) -> str | None:
        """The folder."""
        return self._kept.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The form for the types ``sig``, or None if there is none or its file is damaged."""
        try:
            return self._kept.load_overload(sig, target_context)
        except Exception:  # whatever unpickling raises
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a form if it can be written."""
        try:
            self._kept.save_overload(sig, data)
        except OSError as error:
            _warn(str(error))
