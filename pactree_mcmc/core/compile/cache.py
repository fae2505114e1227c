"""Cache on disk of the compiled code of functions, with the interface of numba's caches.

numba's own cache is valid as long as the file of the function is unchanged, although the code also contains everything
that the function calls from other files. This cache is valid until a source file changes that compiled code of the
function's package can reach by imports. A folder that cannot be read or written only costs time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..warn import warn
from .folders import SHARED_VARIABLE, CodeFiles, shared_folder, writable_folder
from .rebuild import file_base, form_from_data, function_key
from .sources import sources_hash
from .user_functions import NO_KEY, key_of

FILL_COMMAND = "`pt.warm_up()`"
FOLDER_ADVICE = (
    "every process compiles it again. Set NUMBA_CACHE_DIR to a folder that you can write, or "
    f"{SHARED_VARIABLE} to a folder that was filled by {FILL_COMMAND}"
)
FUNCTION_ADVICE = "every process compiles it again. Let the function read numbers, arrays and functions only"
OWN_FUNCTIONS = "own_functions"
"""Name used in place of a package for functions that do not belong to the library."""


class CodeCacheWarning(UserWarning, RuntimeWarning):
    """Warning about compiled code that cannot be written to disk or found there."""


_warned: set[str] = set()


def _warn(subject: str, text: str) -> None:
    """Issue a CodeCacheWarning with ``text``, but only once in a process for each subject."""
    if subject not in _warned:
        _warned.add(subject)
        warn(text, CodeCacheWarning)


def _save_or_warn(files: CodeFiles, key: Any, data: Any) -> None:
    """Write compiled code ``data`` under a key, or warn that it cannot be written."""
    try:
        files.save(key, data)
    except OSError as error:
        where = "" if files.folder is None else f"{writable_folder()}: "
        _warn("writing", f"compiled code is not kept: {where}{error.strerror or error}; {FOLDER_ADVICE}.")


_watchers: list[Callable[[CodeCache], None]] = []
"""Functions that `watch_compilation` has registered."""


@contextlib.contextmanager
def watch_compilation(watcher: Callable[[CodeCache], None]) -> Iterator[None]:
    """Call ``watcher`` with the cache of each function that is about to be compiled while the block runs."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


class CodeCache:
    """Cache on disk of the compiled forms of one function, a form for each tuple of types of arguments.

    ``key`` is a function that returns everything, as text, on which the code depends besides the library's sources. By
    default nothing is added for functions of the library, and a hash of the function itself for others.
    """

    def __init__(self, function: Any, key: Callable[[], str] | None = None) -> None:
        self._function, self._key_function = function, key

    @functools.cached_property
    def _key(self) -> str:
        """Text, or hash, of everything on which the code depends besides the library's sources."""
        if self._key_function is not None:
            return self._key_function()
        return key_of(self._function) if self._is_foreign else ""

    @functools.cached_property
    def digest(self) -> str:
        """Hash of the source files of the library on which the code depends."""
        return sources_hash("" if self._is_foreign else self.part)

    @functools.cached_property
    def _files(self) -> CodeFiles | None:
        """Cache files of the function, or None (with a warning) if its code cannot be stored."""
        if self._key.startswith(NO_KEY):
            self._warn_of_function(self._key.removeprefix(NO_KEY))
            return None
        # functions of one name and several keys have files of their own
        base = f"{file_base(self._function)}{self._key and '-'}{self._key[:16]}"
        return CodeFiles(OWN_FUNCTIONS if self._is_foreign else self.part, self.digest, base, self._key)

    @property
    def part(self) -> str:
        """Package of the function, which names the folder of its files, such as "pactree_mcmc.mcmc.moves"."""
        return str(self._function.__module__).rpartition(".")[0]

    @property
    def cache_path(self) -> str | None:
        """Folder to which the code is written, or None. numba shows it in its statistics."""
        return None if self._files is None or self._files.folder is None else str(self._files.folder)

    @property
    def _is_foreign(self) -> bool:
        """True if the function does not belong to the library."""
        return (self._function.__module__ or "").partition(".")[0] not in ("pactree_mcmc", "exact")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled form for the types ``sig``, or None if it is not on disk or its file is damaged.

        numba calls this before it compiles the function, with its ``target_context``. The watchers of
        `watch_compilation` are called before None is returned.
        """
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
        if self._files is None:
            return
        if form.library.has_dynamic_globals:
            self._warn_of_function("an address, or an array of more than 1 MB")
            return
        _save_or_warn(self._files, function_key(self._function, sig), form._reduce())

    def _warn_of_function(self, what: str) -> None:
        """Warn that the code of the function is not stored, because the function reads ``what``."""
        name = self._function.__qualname__
        _warn(name, f"compiled code is not kept: {name} reads {what}; {FUNCTION_ADVICE}.")


def notify_watchers(cache: CodeCache) -> None:
    """Call the watchers of `watch_compilation` with the cache of a function that is about to be compiled.

    Warn if the shared folder, which should spare this, cannot be read.
    """
    shared = shared_folder()
    if shared is not None and not os.access(shared, os.R_OK | os.X_OK):
        _warn("shared", f"{SHARED_VARIABLE}={shared} is not a folder that can be read; fill it by {FILL_COMMAND}.")
    for watcher in list(_watchers):
        watcher(cache)


class JointCache:
    """Cache on disk of several functions that are compiled as one, in the folder of the first function."""

    def __init__(self, functions: Sequence[Any]) -> None:
        caches = [function._cache for function in functions]
        digest = hashlib.sha256("".join(cache.digest + cache._key for cache in caches).encode()).hexdigest()
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
