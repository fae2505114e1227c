"""Compilers and libraries by which code is optimised only once, in the function through which Python calls it.

By default numba optimises every compiled function together with all that it calls and turns it into machine code, so
that a function ten calls deep is processed ten times. Here a function called by compiled code is a *part*, which is
only typed and lowered to LLVM code. An *entry*, called from Python, links the parts it reaches, which are optimised and
cached as one.
"""

import contextlib
import gc
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, _pass_registry, register_pass
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.types import Function
from numba.core.untyped_passes import FixupArgs, GenericRewrites, IRProcessing, ReconstructSSA, TranslateByteCode

from ..cache import LIBRARY_PACKAGES


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Return a context manager that turns garbage collection off, since all objects of a compilation stay alive."""
    if not gc.isenabled():
        yield
        return
    are_frozen = gc.get_freeze_count() > 0
    gc.disable()
    try:
        yield
    finally:
        # together these make all objects old, so that the next collection of young objects skips those of numba
        gc.freeze()
        # objects that the caller has frozen stay so
        if not are_frozen:
            gc.unfreeze()
        gc.enable()


class PartLibrary(JITCodeLibrary):
    """Library with the code of one function (a part), neither linked nor optimised."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Do nothing, since the part is optimised in the entry that links it."""

    def finalize(self) -> None:
        """Mark the library as complete, so that no code can be added."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def add_linking_library(self, library: CodeLibrary) -> None:
        self._linking_libraries.append(library)

    @property
    def own_module(self) -> Any:
        """LLVM module with the code of the function alone."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """Return a module with the function and all that it calls, for libraries of numba's own overloads."""
        module = self.own_module.clone()
        for library in _with_callees([self]):
            if library is not self:
                _link_library(module, library)
        return module


class EntryLibrary(JITCodeLibrary):
    """Library with the code of a function that Python calls (an entry), and of all functions that it calls."""

    def finalize(self) -> None:
        """Link, optimise, make machine code."""
        for library in _with_callees(self._linking_libraries):
            _link_library(self._final_module, library)
        self._linking_libraries = []
        super().finalize()

    def _optimize_functions(self, ll_module: Any) -> None:
        """Do nothing, since the whole module is optimised."""

    def _optimize_final_module(self) -> None:
        """Optimise once. numba does it twice, to remove counts of references, which parts hardly have."""
        manager = self._codegen._module_pass_manager()
        # a pair since numba 0.62
        passes, *builder = manager if isinstance(manager, tuple) else (manager,)
        passes.run(self._final_module, *builder)


class MembersLibrary(EntryLibrary):
    """Library with the code of several functions that Python calls, and of all functions that they call."""

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


def _with_callees(libraries: Iterable[CodeLibrary]) -> Iterable[CodeLibrary]:
    """Return the libraries and all that parts (of one function) among them call, directly or not, each once."""
    reached, pending = dict.fromkeys(libraries), list(libraries)
    while pending:
        library = pending.pop()
        if isinstance(library, PartLibrary):
            new = [called for called in library._linking_libraries if called not in reached]
            reached.update(dict.fromkeys(new))
            pending += new
    return reached


def _link_library(module: Any, library: CodeLibrary) -> None:
    part = isinstance(library, PartLibrary)
    module.link_in(library.own_module if part else library._get_module_for_linking(), preserve=True)


class _Lowering(NativeLowering):
    """numba's lowering pass, whose code goes to a library of the class ``library_class``."""

    library_class: type[JITCodeLibrary]

    def run_pass(self, state: Any) -> bool:
        """Make the library in which the code goes, and lower the function of numba's ``state``. Return True."""
        state.library = self.library_class(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


@register_pass(mutates_CFG=True, analysis_only=False)
class EntryLowering(_Lowering):
    """numba's lowering pass for a function that Python calls, whose library is an `EntryLibrary`."""

    _name, library_class = "entry_lowering", EntryLibrary


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(_Lowering):
    """numba's lowering pass for a function that compiled code calls. It makes no machine code."""

    # it makes no machine code; a new object takes the place of the function's address
    _name, library_class = "part_lowering", PartLibrary

    def run_pass(self, state: Any) -> bool:
        """Lower the function, and declare it to code that calls it."""
        state.flags.no_compile = True
        super().run_pass(state)
        state["cr"] = state["cr"]._replace(cfunc=object())
        state.targetctx.insert_user_function(state["cr"].cfunc, state["cr"].fndesc, [state.library])
        return True


class _UncheckedPasses(PassManager):
    """Passes that run without the records and checks of numba's manager, which take as long as the passes."""

    def run(self, state: Any) -> None:
        """Run the passes in their order on the state of a compilation."""
        for each, _ in self.passes:
            _pass_registry.get(each).pass_inst.run_pass(state)


@register_pass(mutates_CFG=True, analysis_only=False)
class TypeInference(NopythonTypeInference):
    """numba's type inference pass, which uses `_TypingContext`."""

    _name = "type_inference"

    def run_pass(self, state: Any) -> bool:
        """Infer the types."""
        context, state.typingctx = state.typingctx, _TypingContext(state.typingctx)
        try:
            return super().run_pass(state)
        finally:
            state.typingctx = context


class _TypingContext:
    """numba's typing context, in which a built-in function is resolved once for the same types of arguments."""

    # numba tries the templates of all libraries, most of which do not fit, at every use of an operator
    signatures: ClassVar[dict[Any, Any]] = {}

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call, or None if there is none."""
        if kws or not isinstance(func, Function):
            return self._context.resolve_function_type(func, args, kws)
        key = func, tuple(args)
        if key not in self.signatures:
            signature = self._context.resolve_function_type(func, args, kws)
            if signature is None:
                return None
            self.signatures[key] = signature
        return self.signatures[key]


# numba's compiler passes without those for closures, array expressions, constants and parallel loops
PASSES = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    GenericRewrites,
    ReconstructSSA,
    TypeInference,
    PreLowerStripPhis,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
)


class EntryCompiler(CompilerBase):
    """numba's compiler for functions that Python calls."""

    lowering: type[_Lowering] = EntryLowering

    def compile_extra(self, func: Any) -> Any:
        with no_garbage_collection():
            return super().compile_extra(func)

    def define_pipelines(self) -> list[Any]:
        """Return the lists of compiler passes to try in turn, all with ``self.lowering``."""
        managers = [DefaultPassBuilder.define_nopython_pipeline(self.state)]
        if self.state.func_id.modname.partition(".")[0] in LIBRARY_PACKAGES:
            few = _UncheckedPasses("few passes")
            few.passes = [(each, each.__name__) for each in PASSES]
            managers.insert(0, few)
        for manager in managers:
            manager.passes = [(self.lowering if each is NativeLowering else each, why) for each, why in manager.passes]
            manager._finalized = False
            manager.finalize()
        return managers


class PartCompiler(EntryCompiler):
    """numba's compiler for functions that compiled code calls."""

    lowering = PartLowering


class MemberCompiler(EntryCompiler):
    """numba's compiler for functions that Python calls and that are linked with others."""

    lowering = PartLowering
