"""Folders of compiled code: reading from three folders, writing to one, and the removal of old versions.

Compiled code is never written to the folder of the package, because files there that pip did not write survive an
uninstallation and then hide other installations. Code is read from the archive of a wheel, then from the folder that an
administrator filled, then from the folder of the user. It is written only to the folder of the user. All three have the
same layout: a folder for each part (package) of the library, in it a folder for each version of the sources that this
part can reach, in it numba's files.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile
from numba.core.serialize import dumps

from .rebuild import without_machine_code

ARCHIVE = Path(__file__).with_name("archives")
"""Folder of the code that a wheel contains."""
SHARED_VARIABLE = "PACTREE_SHARED_CACHE"
"""Environment variable that names the folder of an administrator, which is only read."""
MOST, DAYS = 20, 30
"""Largest number of versions of a part on disk, and number of days without use after which a version is removed."""
PROCESSOR_POSITION = 1
"""Position of the processor in numba's key of a compiled form."""


def environment_id() -> str:
    """Return a name of the environment on which compiled code depends: Python, numba, platform and options."""
    python = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    checks = "-checked" if numba.config.BOUNDSCHECK else ""
    return f"{python}-numba{numba.__version__}-{sys.platform}-{platform.machine().lower()}{checks}"


def writable_folder() -> Path | None:
    """Return the folder to which this process writes, or None if its user has no home directory."""
    return Path(numba.config.CACHE_DIR).absolute() if numba.config.CACHE_DIR else _user_folder()


def shared_folder() -> Path | None:
    """Return the folder of the administrator, or None if none is named."""
    name = os.environ.get(SHARED_VARIABLE)
    return Path(name).absolute() if name else None


def use_folder(folder: str) -> None:
    """Let this process write compiled code to ``folder``, and read it from there and from the wheel's ARCHIVE only."""
    # numba reads its variables again, at a compilation, if one of them has changed
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = folder
    os.environ.pop(SHARED_VARIABLE, None)


class CodeFiles:
    """Cache files with the compiled forms of a function, or of several functions linked as one.

    A form is stored under its key, numba's tuple of argument types, processor and hashes. ``part`` is the package, a
    part of the library, and ``digest`` the hash of the sources that the code depends on. The names of the files begin
    with ``base``. ``stamp`` is everything else on which the code depends, as text. Files with another stamp are not
    used.
    """

    def __init__(self, part: str, digest: str, base: str, stamp: str = "") -> None:
        subfolder, own = Path(part) / f"{environment_id()}-{digest[:16]}", writable_folder()
        folders = [folder / subfolder for folder in (ARCHIVE, shared_folder(), own) if folder is not None]
        self._base = base
        self._indices = [_Index(folder, base, stamp) for folder in folders]
        self.folder = None if own is None else own / subfolder
        """Folder that the files are written to, or None if the user has no home directory."""
        if self.folder is not None:
            _mark_used(self.folder)

    def load(self, key: Any) -> tuple[Any, bool]:
        """Return the compiled form under a key, and True if it is complete.

        If there is only a form for another processor, return it without machine code, and False: the caller makes the
        machine code and saves it. If there is none, return None and False.
        """
        for index in self._indices:
            form = index.read(key)
            if form is not None:
                return form, True
        for index in self._indices:
            for other in index.stored_keys():
                form = index.read(other) if _without_processor(other) == _without_processor(key) else None
                if form is not None:
                    return without_machine_code(form), False
        return None, False

    def save(self, key: Any, data: Any) -> None:
        """Write a compiled form to the `writable_folder`, or raise an OSError if this is impossible."""
        self._make_folder()
        try:
            self._indices[-1].write(key, data)
        except PermissionError:
            # Windows does not replace a file while another process reads it
            if sys.platform != "win32":
                raise

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Return a context manager that only one process at a time enters for the same files.

        Processes that waited then find the code that the first one compiled. The system removes the lock of a process
        that ends. Without such locks (Windows, some network folders), or if the folder cannot be written, several
        processes may enter.
        """
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError, ImportError):
                import fcntl

                self._make_folder()
                file = stack.enter_context((self.folder / f"{self._base}.lock").open("w"))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make_folder(self) -> None:
        """Create the folder to which files are written, and remove old versions if it is new."""
        if self.folder is None:
            raise OSError("the user has no home directory")
        if not self.folder.exists():
            remove_old_versions()
        self.folder.mkdir(parents=True, exist_ok=True)


class _Index(IndexDataCacheFile):
    """numba's files of a function in one folder. Damaged files count as missing."""

    def __init__(self, folder: Path, base: str, stamp: str) -> None:
        super().__init__(str(folder), base, stamp)

    def _load_index(self) -> dict[Any, str]:
        """Return the name of the file of each key, or no keys if the index is damaged."""
        try:
            return super()._load_index()
        except Exception:  # whatever unpickling raises
            return {}

    def stored_keys(self) -> list[Any]:
        """Return the keys of all compiled forms in the folder."""
        return list(self._load_index())

    def read(self, key: Any) -> Any:
        """Return the compiled form under a key, or None if it is missing, damaged, or was written under another key."""
        try:
            digest, payload = self.load(key) or ("", b"")
            if digest != hashlib.sha256(payload).hexdigest():
                return None
            # two processes that save at the same time may write the forms of two keys to files of the same name
            stored, data = pickle.loads(payload)
        except Exception:  # whatever unpickling raises
            return None
        return data if stored == key else None

    def write(self, key: Any, data: Any) -> None:
        """Write a compiled form under a key."""
        payload = dumps((key, data))
        self.save(key, (hashlib.sha256(payload).hexdigest(), payload))


def _without_processor(key: Any) -> Any:
    """Return a key without the processor."""
    return (*key[:PROCESSOR_POSITION], *key[PROCESSOR_POSITION + 1 :])


def _user_folder() -> Path | None:
    """Return the cache folder of the user for this library, or None if the user has no home directory."""
    from platformdirs import user_cache_path

    try:
        folder = user_cache_path("pactree-mcmc", appauthor=False)
    except RuntimeError:
        return None
    # older releases of platformdirs return "~/.cache/..." for a user without a home
    return folder if folder.is_absolute() else None


@functools.cache
def _mark_used(folder: Path) -> None:
    """Set the modification time of a folder, which is the time of its last use, to now, once in a process."""
    with contextlib.suppress(OSError):
        os.utime(folder)


@functools.cache
def remove_old_versions() -> None:
    """Remove versions of compiled code that were not used for DAYS days, or are beyond the MOST newest of their part.
    This is done at most once in a process.

    It applies to the default folder of the user only. In folders that somebody named, processes that read may be unable
    to mark the versions that they use.
    """
    root = _user_folder()
    if root is None or root != writable_folder():
        return
    with contextlib.suppress(OSError):
        for part in list(root.iterdir()):
            versions = sorted(part.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
            for rank, folder in enumerate(versions):
                if rank >= MOST or folder.stat().st_mtime < time.time() - DAYS * 86400.0:
                    shutil.rmtree(folder, ignore_errors=True)
