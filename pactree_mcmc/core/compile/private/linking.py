"""Code that only compiled code calls is optimised once, together with the function through which Python reaches it.

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
    """The code of one function, linked with nothing and not optimised."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """It is optimised where it is linked."""

    def finalize(self) -> None:
        """Let nothing more be added; there is nothing to do."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def add_linking_library(self, library: CodeLibrary) -> None:
        """Remember what the function calls."""
        self._linking_libraries.append(library)

    @property
    def own_module(self) -> Any:
        """The function by itself."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """The function and all it calls, for the libraries that numba makes of its own overloads."""
        module = self.own_module.clone()
        for library in _reached([self]):
            if library is not self:
                _link(module, library)
        return module


class EntryLibrary(JITCodeLibrary):
    """The code of a function called from Python, with that of all it calls."""

    def finalize(self) -> None:
        """Link, optimise, make machine code."""
        for library in _reached(self._linking_libraries):
            _link(self._final_module, library)
        self._linking_libraries = []
        super().finalize()


class MembersLibrary(EntryLibrary):
    """The code of several functions called from Python, with that of all they call."""

    def __init__(self, codegen: Any, name: str, members: list[PartLibrary]) -> None:
        super().__init__(codegen, name)
        self._members = members

    def finalize(self) -> None:
        """Link, optimise, make machine code."""
        for member in self._members:
            # as it is: what is linked as a part goes where no other part calls it
            self._final_module.link_in(member._final_module, preserve=True)
            self._linking_libraries += member._linking_libraries
        super().finalize()


def _reached(libraries: Iterable[CodeLibrary]) -> Iterable[CodeLibrary]:
    """The libraries, and those that parts among them call, each once."""
    found, ahead = dict.fromkeys(libraries), list(libraries)
    while ahead:
        library = ahead.pop()
        if isinstance(library, PartLibrary):
            new = [called for called in library._linking_libraries if called not in found]
            found.update(dict.fromkeys(new))
            ahead += new
    return found


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
        """Lower; declare the function to code that calls it."""
        state.flags.no_compile = True
        super().run_pass(state)
        state["cr"] = state["cr"]._replace(cfunc=object())
        state.targetctx.insert_user_function(state["cr"].cfunc, state["cr"].fndesc, [state.library])
        return True


class EntryCompiler(CompilerBase):
    """numba's compiler for functions that Python calls."""

    lowering: type[_Lowering] = EntryLowering

    def compile_extra(self, func: Any) -> Any:
        """Compile; its objects refer to one another and live on, so that looking for garbage among them is in vain."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()

    def define_pipelines(self) -> list[Any]:
        """Numba's passes, with the other lowering."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(self.lowering if made is NativeLowering else made, why) for made, why in passes.passes]
        passes._finalized = False
        passes.finalize()
        return [passes]


class PartCompiler(EntryCompiler):
    """numba's compiler for functions that compiled code calls."""

    lowering = PartLowering


class MemberCompiler(EntryCompiler):
    """numba's compiler for functions that Python calls and that are linked with others."""

    lowering = PartLowering
