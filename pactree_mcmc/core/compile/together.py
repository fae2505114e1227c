"""Compilation of several functions as one library, so that the code that they share is optimised once.

A compiled function that Python calls is linked with all code that it calls, so that code that two such functions call
is optimised twice. The functions of a run call much the same code. Therefore they are linked into one library, which
has one file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from numba.core import types
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler
from numba.core.registry import cpu_target

from .cache import JointCache, form_in_library, library_from_data, notify_watchers, set_environments
from .jit import HAS_PRIVATE_PARTS

if HAS_PRIVATE_PARTS:
    from .private.linking import MemberCompiler, MembersLibrary, no_garbage_collection


class Member(NamedTuple):
    """Compiled function (numba's dispatcher) that is to be linked with others, and the numba types of its arguments."""

    function: Any
    args: tuple[types.Type, ...]


def compile_together(members: Sequence[Member], larger_group: Sequence[Member] = ()) -> None:
    """Load the functions from disk, or compile those that are missing as one library."""
    # the library of `larger_group`, stored by a release, is loaded if that of `members` is not on disk; a single
    # missing function is compiled at its first call
    if not HAS_PRIVATE_PARTS or len(_not_compiled(members)) < 2:
        return
    with global_compiler_lock:
        missing = _not_compiled(members)
        if len(missing) < 2 or any(_load_from_disk(some) for some in (members, larger_group, missing)):
            return
        with _cache_of(missing).locked():
            # another process may have compiled them meanwhile
            if not _load_from_disk(missing):
                with no_garbage_collection():
                    results, library = _compile_members(missing)
                    _cache_of(missing).save(_joint_key(missing), _as_file_data(results, library))
                _register_forms(missing, results)


def load_together(members: Sequence[Member]) -> None:
    """Load the functions if exactly these are on disk as one library. Otherwise do nothing."""
    if HAS_PRIVATE_PARTS and _not_compiled(members):
        with global_compiler_lock:
            _load_from_disk(members)


def _load_from_disk(members: Sequence[Member]) -> bool:
    """Load the functions if exactly these are on disk as one library. Return True if they were."""
    if not members:
        return False
    data, is_ready = _cache_of(members).load(_joint_key(members))
    if data is None:
        return False
    results, library = _from_file_data(*data)
    if not is_ready:
        _cache_of(members).save(_joint_key(members), _as_file_data(results, library))
    _register_forms(members, results)
    return True


def _cache_of(members: Sequence[Member]) -> JointCache:
    return JointCache([member.function for member in members])


def _joint_key(members: Sequence[Member]) -> Any:
    return tuple(str(member.args) for member in members), _target_context().codegen().magic_tuple()


def _register_forms(members: Sequence[Member], results: Sequence[CompileResult]) -> None:
    """Add each compiled form to its function, unless the function already has a form for these argument types."""
    for member, result in zip(members, results, strict=True):
        if member.args not in member.function.overloads:
            member.function.add_overload(result)


def _not_compiled(members: Iterable[Member]) -> list[Member]:
    """Return the functions that this process has neither compiled nor loaded."""
    return [member for member in members if member.args not in member.function.overloads]


def _target_context() -> Any:
    """Return numba's target context after it has registered all functions that compiled code may call."""
    context = cpu_target.target_context
    context.refresh()
    return context


def _compile_members(members: Sequence[Member]) -> tuple[list[CompileResult], Any]:
    """Compile the functions as one library. Return their compiled forms and the library."""
    lowered = []
    for function, args in members:
        notify_watchers(function._cache)
        compiler = _FunctionCompiler(
            function.py_func, function.targetdescr, function.targetoptions, function.locals, MemberCompiler
        )
        lowered.append(compiler.compile(args, None))
    name = f"together_{hashlib.sha256(str(members).encode()).hexdigest()[:16]}"
    library = MembersLibrary(_target_context().codegen(), name, [each.library for each in lowered])
    library.enable_object_caching()
    library.finalize()
    return [_with_code_of(each, library) for each in lowered], library


def _with_code_of(result: CompileResult, library: Any) -> CompileResult:
    """Return the compiled form ``result`` of one function with its entry point in the machine code of ``library``."""
    entry = _target_context().get_executable(library, result.fndesc, result.environment)
    return result._replace(library=library, entry_point=entry)


def _as_file_data(results: Sequence[CompileResult], library: Any) -> tuple[Any, ...]:
    """Return the data for a file from which `_from_file_data` makes the compiled forms and their library again."""
    parts = []
    for result in results:
        result.fndesc.typemap = result.fndesc.calltypes = None
        parts.append((result.fndesc, result.environment, result.signature))
    return library.serialize_using_object_code(), parts, results[0]._find_referenced_environments()


def _from_file_data(libdata: Any, parts: Sequence[Any], environments: Sequence[Any]) -> tuple[list[CompileResult], Any]:
    """Return the compiled forms and their library from the data that `_as_file_data` returned."""
    library = library_from_data(libdata)
    results = [form_in_library(library, *part) for part in parts]
    set_environments(environments)
    return results, library
