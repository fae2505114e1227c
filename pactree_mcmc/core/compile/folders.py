"""Folders of compiled code: the archive of a wheel, which is only read, and the folder of the user.

Compiled code is never written to the folder of the package, because files there that pip did not write survive an
uninstallation and then hide other installations. Both have the same layout: a folder for each part (package) of the
library, in it a folder for each version of the sources that this part can reach, in it numba's files.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile
from numba.core.serialize import dumps

from .rebuild import without_machine_code

ARCHIVE = Path(__file__).with_name("archives")  # folder of the code that a wheel contains
MAX_VERSIONS = 30  # largest number of versions of a part on disk. Every edit of the sources makes one.
PROCESSOR_POSITION = 1  # position of the processor in numba's key of a compiled form


def environment_id() -> str:
    """Return a name of the environment on which compiled code depends: Python, numba, platform and options."""
    python = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    checks = "-checked" if numba.config.BOUNDSCHECK else ""
    return f"{python}-numba{numba.__version__}-{sys.platform}-{platform.machine().lower()}{checks}"


def code_folder() -> Path | None:
    """Return the folder of compiled code that NUMBA_CACHE_DIR names, or that of the user; None without a home."""
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR).absolute()
    from platformdirs import user_cache_path

    try:
        folder = user_cache_path("pactree-mcmc", appauthor=False)
    except RuntimeError:
        return None
    # older releases of platformdirs return "~/.cache/..." for a user without a home
    return folder if folder.is_absolute() else None


class CodeFiles:
    """Cache files with the compiled forms of a function, or of several functions linked as one, by numba's keys."""

    # `part` is a part of the library, `digest` the hash of the sources that the code depends on
    def __init__(self, part: str, digest: str, base: str) -> None:
        subfolder, own = Path(part) / f"{environment_id()}-{digest[:16]}", code_folder()
        self._base = base
        self._indices = [_Index(folder / subfolder, base) for folder in (ARCHIVE, own) if folder is not None]
        # folder that the files are written to, or None if the user has no home directory
        self.folder = None if own is None else own / subfolder

    def load(self, key: Any) -> tuple[Any, bool]:
        """Return the compiled form under a key, and True if it is complete."""
        # if there is only a form for another processor, it is returned without machine code, and False: the caller
        # makes the machine code and saves it; None and False if there is none
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
        """Write a compiled form to the folder of the user, or raise an OSError if this is impossible."""
        self._make_folder()
        try:
            self._indices[-1].write(key, data)
        except PermissionError:
            # Windows does not replace a file while another process reads it
            if sys.platform != "win32":
                raise

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Return a context manager that only one process at a time enters for the same files."""
        # Processes that waited find the code that the first one compiled. The system removes the lock of a process that
        # ends. Without such locks (Windows, some network folders, a read-only folder), several processes may enter
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError, ImportError):
                import fcntl

                self._make_folder()
                file = stack.enter_context((self.folder / f"{self._base}.lock").open("w"))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make_folder(self) -> None:
        """Create the folder to which files are written. If it is new, remove the oldest versions of the part."""
        if self.folder is None:
            raise OSError("the user has no home directory")
        if self.folder.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            versions = sorted(self.folder.parent.iterdir(), key=lambda folder: folder.stat().st_mtime)
            for folder in versions[:-MAX_VERSIONS]:
                shutil.rmtree(folder, ignore_errors=True)


class _Index(IndexDataCacheFile):
    """numba's files of a function in one folder. Damaged files count as missing."""

    def __init__(self, folder: Path, base: str) -> None:
        super().__init__(str(folder), base, "")

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
