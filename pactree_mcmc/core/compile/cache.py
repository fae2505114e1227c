"""Cache on disk of the compiled code of functions, with the interface of numba's caches.

numba's own cache is valid as long as the file of the function is unchanged, although the code also contains everything
that the function calls from other files. This cache is valid until a source file changes that compiled code of the
function's package can reach by imports. A folder that cannot be read or written only costs time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..warn import warn
from .folders import CodeFiles, code_folder
from .rebuild import file_base, form_from_data, function_key
from .sources import is_of_library, sources_hash

FOLDER_ADVICE = (
    "every process compiles it again. Set NUMBA_CACHE_DIR to a folder that you can write, or to one that "
    "`pt.warm_up()` has filled"
)


class CodeCacheWarning(UserWarning, RuntimeWarning):
    """Warning about compiled code that cannot be written to disk."""


@functools.cache
def _warn_once(text: str) -> None:
    """Issue a CodeCacheWarning, but only once in a process for each text."""
    warn(text, CodeCacheWarning)


def _save_or_warn(files: CodeFiles, key: Any, data: Any) -> None:
    """Write compiled code ``data`` under a key, or warn that it cannot be written."""
    try:
        files.save(key, data)
    except OSError as error:
        where = "" if files.folder is None else f"{code_folder()}: "
        _warn_once(f"compiled code is not kept: {where}{error.strerror or error}; {FOLDER_ADVICE}.")


_watchers: list[Callable[[CodeCache], None]] = []  # functions that `watch_compilation` has registered


@contextlib.contextmanager
def watch_compilation(watcher: Callable[[CodeCache], None]) -> Iterator[None]:
    """Call ``watcher`` with the cache of each function that is about to be compiled while the block runs."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


class CodeCache:
    """Cache on disk of the compiled forms of one function, a form for each tuple of types of arguments."""

    # functions of users are not stored, since their code depends on sources that the library does not know
    def __init__(self, function: Any) -> None:
        self._function = function

    @functools.cached_property
    def digest(self) -> str:
        """Hash of the source files of the library on which the code depends."""
        return sources_hash(self.part)

    @functools.cached_property
    def _files(self) -> CodeFiles | None:
        """Cache files of the function, or None for a function of a user."""
        if not is_of_library(self._function):
            return None
        return CodeFiles(self.part, self.digest, file_base(self._function))

    @property
    def part(self) -> str:
        """Package of the function, which names the folder of its files, such as "pactree_mcmc.mcmc.moves"."""
        return str(self._function.__module__).rpartition(".")[0]

    @property
    def cache_path(self) -> str | None:
        """Folder to which the code is written, or None. numba shows it in its statistics."""
        return None if self._files is None or self._files.folder is None else str(self._files.folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled form for the types ``sig``, or None if it is not on disk or its file is damaged."""
        form, is_ready = None, False
        if self._files is not None:
            # before keys are compared, which name the processor
            target_context.refresh()
            data, is_ready = self._files.load(function_key(self._function, sig))
            form = None if data is None else form_from_data(*data)
        if form is None:
            notify_watchers(self)
        elif not is_ready:
            self.save_overload(sig, form)
        return form

    def save_overload(self, sig: Any, form: Any) -> None:
        """Write the compiled form for the types ``sig`` to disk, or warn if this is impossible."""
        if self._files is not None:
            _save_or_warn(self._files, function_key(self._function, sig), form._reduce())


def notify_watchers(cache: CodeCache) -> None:
    """Call the watchers of `watch_compilation` with the cache of a function that is about to be compiled."""
    for watcher in list(_watchers):
        watcher(cache)


class JointCache:
    """Cache on disk of several functions that are compiled as one, in the folder of the first function."""

    def __init__(self, functions: Sequence[Any]) -> None:
        caches = [function._cache for function in functions]
        digest = hashlib.sha256("".join(cache.digest for cache in caches).encode()).hexdigest()
        names = hashlib.sha256(" ".join(function.py_func.__qualname__ for function in functions).encode()).hexdigest()
        self._files = CodeFiles(caches[0].part, digest, f"together-{names[:16]}")

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that only one process at a time enters for the same functions."""
        return self._files.locked()

    def load(self, key: Any) -> tuple[Any, bool]:
        """Return the data saved under the key, or None, and True if there are data that need not be saved again."""
        return self._files.load(key)

    def save(self, key: Any, data: Any) -> None:
        """Write data under the key, or warn if this is impossible."""
        _save_or_warn(self._files, key, data)
