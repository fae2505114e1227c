"""Cache on disk of the compiled code of functions, with the interface of numba's caches.

numba's own cache is valid as long as the file of the function is unchanged, although the code also contains everything
that the function calls from other files. This cache is valid until a source file changes that compiled code of the
function's package can reach by imports. A folder that cannot be read or written only costs time.

Compiled code is never written to the folder of the package, because files there that pip did not write survive an
uninstallation and then hide other installations. The archive of a wheel, which is only read, and the folder of the user
have the same layout: a folder for each part (package) of the library, in it a folder for each version of the sources
that this part can reach, in it numba's files. A file contains machine code for one processor, and the optimised code
(LLVM bitcode) from which it was made. Making the machine code for another processor from the latter takes a few
seconds.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

from ..texts import warn

LIBRARY_PACKAGES = ("pactree_mcmc", "exact")
IMPORT_LINE = re.compile(r"^from (\.*)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
DECORATOR = re.compile(r"^@jit|^@by_address|^@by_class", re.MULTILINE)


@functools.cache
def sources_hash(package: str = "") -> str:
    """Return a hash of the sources on which compiled code in the folder of ``package`` depends."""
    # the files of the folder with compiled code, everything that they import, directly or not, at the top of a module,
    # and those of `core.compile`; all sources if the package has no compiled code
    texts = _source_texts()
    modules = {name for name in texts if name.rpartition(".")[0] == package and DECORATOR.search(texts[name])}
    pending = list(modules)
    while pending:
        new = (_imported_names(pending.pop()) & texts.keys()) - modules
        modules |= new
        pending += new
    modules |= {name for name in texts if name.startswith(f"{__package__}.")} if modules else set(texts)
    digest = hashlib.sha256()
    for name in sorted(modules):
        digest.update(texts[name].encode())
    return digest.hexdigest()


def is_of_library(function: Any) -> bool:
    return (function.__module__ or "").partition(".")[0] in LIBRARY_PACKAGES


@functools.cache
def _source_texts() -> dict[str, str]:
    """Return the text of each source file of the library by the name of its module."""
    root = Path(__file__).parents[3]
    paths = (path for package in LIBRARY_PACKAGES for path in (root / package).rglob("*.py"))
    return {_module_name(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _imported_names(module: str) -> frozenset[str]:
    """Return the names in the top-level imports of ``module`` in full, some of which are names of modules."""
    # `from ..core import bits` gives "pactree_mcmc.core" and "pactree_mcmc.core.bits"
    out = set(re.findall(r"^import ([\w.]+)", _source_texts()[module], re.MULTILINE))
    is_package = any(name.startswith(f"{module}.") for name in _source_texts())
    for dots, base, names in IMPORT_LINE.findall(_source_texts()[module]):
        above = module.split(".")[: 1 - len(dots) or None] if is_package else module.split(".")[: -len(dots)]
        start = ".".join([*(above if dots else []), *([base] if base else [])])
        out |= {start, *(f"{start}.{name}" for name in re.findall(r"\w+", names))}
    return frozenset(out)


def file_base(function: Any) -> str:
    """Return the beginning of the names of a function's files, by numba's convention: file, function, line, Python."""
    name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}".replace("<", "").replace(">", "")
    python = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    return f"{name}-{function.__code__.co_firstlineno}.{python}"


def function_key(function: Any, sig: Any) -> Any:
    return FunctionCache._index_key(SimpleNamespace(_py_func=function), sig, cpu_target.target_context.codegen())


def without_machine_code(data: Any) -> Any:
    """Return the data of a file, a tuple whose first entry is the code, with bitcode in place of machine code."""
    # machine code of another processor must not run here; bitcode, the optimised code, suits every processor
    (name, kind, code), *rest = data
    return ((name, "bitcode", code[1]) if kind == "object" else (name, kind, code), *rest)


def library_from_data(libdata: Any) -> Any:
    """Return numba's library (a group of functions in machine code) from the data of a file."""
    # machine code is made from bitcode if it is missing
    codegen = cpu_target.target_context.codegen()
    name, kind, data = libdata
    if kind == "object":
        return codegen.unserialize_library(libdata)
    library = codegen.create_library(name)
    library.enable_object_caching()
    library._final_module = llvm.parse_bitcode(data)
    library._finalize_final_module()
    return library


def form_from_data(libdata: Any, fndesc: Any, environment: Any, sig: Any, *rest: Any) -> CompileResult:
    """Return the compiled form of a function from the data that numba writes to a file."""
    library, reload_init, environments = library_from_data(libdata), rest[-2], rest[-1]
    result = form_in_library(library, fndesc, environment, sig, reload_init)
    set_environments(environments)
    return result


def form_in_library(library: Any, fndesc: Any, environment: Any, sig: Any, reload_init: Any = ()) -> CompileResult:
    """Return the compiled form of a function whose code is in ``library``."""
    target = cpu_target.target_context
    fields = dict.fromkeys(CompileResult._fields) | {
        "typing_context": target.typing_context,
        "target_context": target,
        "library": library,
        "fndesc": fndesc,
        "environment": environment,
        "signature": sig,
        "objectmode": False,
        "lifted": (),
        "reload_init": list(reload_init),
        "type_annotation": "",
        "entry_point": target.get_executable(library, fndesc, environment),
    }
    return CompileResult(**fields)


def set_environments(environments: Any) -> None:
    """Store the constants to which compiled code refers where this code finds them."""
    for environment in environments:
        cpu_target.target_context.codegen().set_env(environment.env_name, environment)


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
            for other in list(index._load_index()):
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
        payload = dumps((key, data))
        self.save(key, (hashlib.sha256(payload).hexdigest(), payload))


def _without_processor(key: Any) -> Any:
    return (*key[:PROCESSOR_POSITION], *key[PROCESSOR_POSITION + 1 :])


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
        return self._files.locked()

    def load(self, key: Any) -> tuple[Any, bool]:
        """Return the data saved under the key, or None, and True if there are data that need not be saved again."""
        return self._files.load(key)

    def save(self, key: Any, data: Any) -> None:
        """Write data under the key, or warn if this is impossible."""
        _save_or_warn(self._files, key, data)
