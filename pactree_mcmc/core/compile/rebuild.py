"""Reading of compiled functions from the data in their files.

A file contains machine code for one processor, and the optimised code (LLVM bitcode) from which it was made. Making the
machine code for another processor from the latter takes a few seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
from numba.core.caching import FunctionCache
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target


def file_base(function: Any) -> str:
    """Return the beginning of the names of a function's files, by numba's convention: file, function, line, Python."""
    name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}".replace("<", "").replace(">", "")
    python = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    return f"{name}-{function.__code__.co_firstlineno}.{python}"


def function_key(function: Any, sig: Any) -> Any:
    """Return numba's key of the compiled form of a function for arguments of the types ``sig``."""
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
