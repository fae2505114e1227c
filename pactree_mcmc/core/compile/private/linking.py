"""Compilation in which code is optimised once, together with the function through which Python calls it.

By default numba optimises every compiled function together with all that it calls and turns it into machine code, so
that a function ten calls deep is processed ten times. Here a function called by compiled code is a *part*, which is
only typed and lowered. An *entry*, called from Python, links the parts it reaches, which are optimised and cached as
one.
"""

import gc
from collections.abc import Iterable
from typing import Any

from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


class PartLibrary(JITCodeLibrary):
    """Code of one function, neither linked nor optimised."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Do nothing, since the part is optimised in the entry that links it."""

    def finalize(self) -> None:
        """Let nothing more be added."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def add_linking_library(self, library: CodeLibrary) -> None:
        """Register a library that the function calls."""
        self._linking_libraries.append(library)

    @property
    def own_module(self) -> Any:
        """Code of the function alone."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """Return the code of the function and of all it calls, for libraries that numba makes of its own overloads."""
        module = self.own_module.clone()
        for library in _reached([self]):
            if library is not self:
                _link(module, library)
        return module


class EntryLibrary(JITCodeLibrary):
    """Code of a function that Python calls, with the code of all it calls."""

    def finalize(self) -> None:
        """Link, optimise, make machine code."""
        for library in _reached(self._linking_libraries):
            _link(self._final_module, library)
        self._linking_libraries = []
        super().finalize()


class MembersLibrary(EntryLibrary):
    """Code of several functions that Python calls, with the code of all they call."""

    def __init__(self, codegen: Any, name: str, members: list[PartLibrary]) -> None:
        super().__init__(codegen, name)
        self._members = members

    def finalize(self) -> None:
        """Link, optimise, make machine code."""
        for member in self._members:
            # linked as a part, a member that no other part calls would be dropped
            self._final_module.link_in(member._final_module, preserve=True)
            self._linking_libraries += member._linking_libraries
        super().finalize()


def _reached(libraries: Iterable[CodeLibrary]) -> Iterable[CodeLibrary]:
    """Return the libraries, and those that parts among them call, each once."""
    reached, ahead = dict.fromkeys(libraries), list(libraries)
    while ahead:
        library = ahead.pop()
        if isinstance(library, PartLibrary):
            new = [called for called in library._linking_libraries if called not in reached]
            reached.update(dict.fromkeys(new))
            ahead += new
    return reached


def _link(module: Any, library: CodeLibrary) -> None:
    part = isinstance(library, PartLibrary)
    module.link_in(library.own_module if part else library._get_module_for_linking(), preserve=True)


class _Lowering(NativeLowering):
    library_class: type[JITCodeLibrary]

    def run_pass(self, state: Any) -> bool:
        state.library = self.library_class(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


@register_pass(mutates_CFG=True, analysis_only=False)
class EntryLowering(_Lowering):
    """numba's lowering, linked as an entry."""

    _name, library_class = "entry_lowering", EntryLibrary


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(_Lowering):
    """numba's lowering without machine code; an object of its own stands for the function's address."""

    _name, library_class = "part_lowering", PartLibrary

    def run_pass(self, state: Any) -> bool:
        """Lower the function, and declare it to code that calls it."""
        state.flags.no_compile = True
        super().run_pass(state)
        state["cr"] = state["cr"]._replace(cfunc=object())
        state.targetctx.insert_user_function(state["cr"].cfunc, state["cr"].fndesc, [state.library])
        return True


class EntryCompiler(CompilerBase):
    """numba's compiler for functions that Python calls."""

    lowering: type[_Lowering] = EntryLowering

    def compile_extra(self, func: Any) -> Any:
        """Compile without garbage collection, since the many objects of a compilation all stay alive."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes with the lowering of this module."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(self.lowering if each is NativeLowering else each, why) for each, why in passes.passes]
        passes._finalized = False
        passes.finalize()
        return [passes]


class PartCompiler(EntryCompiler):
    """numba's compiler for functions that compiled code calls."""

    lowering = PartLowering


class MemberCompiler(EntryCompiler):
    """numba's compiler for functions that Python calls and that are linked with others."""

    lowering = PartLowering
