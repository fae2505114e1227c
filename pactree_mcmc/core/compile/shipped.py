"""Compiled code that comes with a wheel, so that the first run need not compile.

An archive holds what `warm_up` compiled when the wheel was built: machine code for the builder's processor, and the
optimised code it was made of, from which another processor's takes a few seconds. It is looked at only where Python,
numba and the platform are those it was built with, and each function's code only where the sources are the same.
"""

from __future__ import annotations

import pickle
import platform
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core.caching import FunctionCache, _CacheLocator
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target

ROOT = Path(__file__).parents[3]
ARCHIVES = Path(__file__).with_name("archives")
PROCESSOR = 1
"""Its place in the keys of an index."""


def tag() -> str:
    """What an archive is for: Python, numba, and the platform."""
    python, code = f"py{sys.version_info[0]}{sys.version_info[1]}", ".".join(numba.__version__.split(".")[:2])
    return f"{python}-numba{code}-{sys.platform}-{platform.machine().lower()}"


def write_archive(cache: Path) -> Path:
    """Make an archive of all of the library's compiled code in a cache; its folder."""
    out = ARCHIVES / tag()
    shutil.rmtree(out, ignore_errors=True)
    sources = [path for name in ("pactree_mcmc", "exact") for path in (ROOT / name).rglob("*.py")]
    for package in sorted({path.parent for path in sources}):
        kept = cache / _CacheLocator.get_suitable_cache_subpath(str(package / "any.py"))
        for file in sorted(kept.glob("*.nb[ic]")):
            to = out / ".".join(package.relative_to(ROOT).parts)
            to.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to / file.name)
    return out


def file_base(function: Any) -> str:
    """How the files of a function's code are called, as numba calls them."""
    name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}".replace("<", "").replace(">", "")
    python = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    return f"{name}-{function.__code__.co_firstlineno}.{python}"


def function_key(function: Any, sig: Any) -> Any:
    """The key of a function's code for some types in numba's indices."""
    return FunctionCache._index_key(SimpleNamespace(_py_func=function), sig, cpu_target.target_context.codegen())


class Archive:
    """The part of the archive for this Python, numba and platform that holds code of one function, or of several."""

    def __init__(self, function: Any, base: str, stamp: str) -> None:
        self._folder = ARCHIVES / tag() / function.__module__.rpartition(".")[0]
        self._base, self._stamp = base, stamp

    def load(self, key: Any) -> tuple[Any, bool]:
        """What is there for the key, or None; and whether it is for this processor as it is."""
        try:
            with (self._folder / f"{self._base}.nbi").open("rb") as file:
                if pickle.load(file) != f"{numba.__version__} {self._stamp}":
                    return None, False
                _, index = pickle.load(file)
            name = index.get(key)
            is_ready = name is not None
            if name is None:
                name = next(
                    (name for at, name in index.items() if _without_processor(at) == _without_processor(key)), None
                )
            if name is None:
                return None, False
            libdata, *rest = pickle.loads((self._folder / name).read_bytes())
        except Exception:  # whatever unpickling raises
            return None, False
        return (libdata if is_ready else _without_machine_code(libdata), *rest), is_ready


def _without_processor(key: Any) -> Any:
    return (*key[:PROCESSOR], *key[PROCESSOR + 1 :])


def _without_machine_code(libdata: Any) -> Any:
    name, kind, data = libdata
    return (name, "bitcode", data[1]) if kind == "object" else libdata


def library_of(libdata: Any) -> Any:
    """A library of kept code, that can be kept again."""
    codegen = cpu_target.target_context.codegen()
    name, kind, data = libdata
    if kind == "object":
        return codegen.unserialize_library(libdata)
    library = codegen.create_library(name)
    library.enable_object_caching()
    library._final_module = llvm.parse_bitcode(data)
    library._finalize_final_module()
    return library


def result_of(libdata: Any, fndesc: Any, environment: Any, sig: Any, *rest: Any) -> CompileResult:
    """A function's compiled form from what numba keeps of it."""
    library, reload_init, environments = library_of(libdata), rest[-2], rest[-1]
    result = result_in(library, fndesc, environment, sig, reload_init)
    set_environments(environments)
    return result


def result_in(library: Any, fndesc: Any, environment: Any, sig: Any, reload_init: Any = ()) -> CompileResult:
    """The compiled form of a function of a library."""
    target = cpu_target.target_context
    given = dict.fromkeys(CompileResult._fields) | {
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
    return CompileResult(**given)


def set_environments(environments: Any) -> None:
    """Let code find the constants it refers to."""
    for environment in environments:
        cpu_target.target_context.codegen().set_env(environment.env_name, environment)
