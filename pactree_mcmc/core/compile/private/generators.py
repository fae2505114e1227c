"""NumPy's generators of random numbers inside a struct: a pointer to the addresses that numba needs."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.typeof import typeof
from numba.extending import intrinsic, models, overload_method, register_model

from .blocks import load_fixed

STATE_ADDRESS, STATE, NEXT_UINT64, NEXT_UINT32, NEXT_DOUBLE, BIT_GENERATOR = range(6)
_NUMBA = typeof(np.random.default_rng(0))


class GeneratorType(types.Type):
    """Type of a pointer to a generator's words."""

    def __init__(self) -> None:
        super().__init__(name="generator")


GENERATOR = GeneratorType()


@register_model(GeneratorType)
class _GeneratorModel(models.OpaqueModel):
    pass


def generator_words(rng: np.random.Generator) -> np.ndarray:
    """Return the addresses of a generator's state and functions, in the order of the constants above."""
    face = rng.bit_generator.ctypes
    state = face.state.value
    calls = [
        ctypes.cast(call, ctypes.c_void_p).value for call in (face.next_uint64, face.next_uint32, face.next_double)
    ]
    address = getattr(face.bit_generator, "value", face.bit_generator)
    return np.array([face.state_address, state, *calls, address], dtype=np.uint64)


def _word(builder: Any, generator: Any, which: int) -> Any:
    words = builder.bitcast(generator, ir.IntType(64).as_pointer())
    return load_fixed(builder, builder.gep(words, [ir.Constant(ir.IntType(64), which)], inbounds=True))


@intrinsic
def _next_double(typing, generator):  # type: ignore[no-untyped-def]
    def code(context, builder, sig, args):  # type: ignore[no-untyped-def]
        call = ir.FunctionType(ir.DoubleType(), [cgutils.voidptr_t]).as_pointer()
        state = builder.inttoptr(_word(builder, args[0], STATE), cgutils.voidptr_t)
        return builder.call(builder.inttoptr(_word(builder, args[0], NEXT_DOUBLE), call), [state])

    return types.float64(generator), code


@intrinsic
def _as_numba(typing, generator):  # type: ignore[no-untyped-def]
    """Return the generator in numba's own form, without a reference of its own."""

    def code(context, builder, sig, args):  # type: ignore[no-untyped-def]
        whole = cgutils.create_struct_proxy(_NUMBA)(context, builder)
        kind = context.data_model_manager[_NUMBA]._members[0]
        bits = cgutils.create_struct_proxy(kind)(context, builder)
        names = "state_address", "state", "fnptr_next_uint64", "fnptr_next_uint32", "fnptr_next_double", "bit_generator"
        for which, name in enumerate(names):
            setattr(bits, name, _word(builder, args[0], which))
        whole.bit_generator = bits._getvalue()
        return whole._getvalue()

    return _NUMBA(generator), code


@overload_method(GeneratorType, "random")
def _random(rng):  # type: ignore[no-untyped-def]
    return lambda rng: _next_double(rng)


@overload_method(GeneratorType, "integers")
def _integers(rng, low, high):  # type: ignore[no-untyped-def]
    return lambda rng, low, high: _as_numba(rng).integers(low, high)


@overload_method(GeneratorType, "standard_exponential")
def _standard_exponential(rng):  # type: ignore[no-untyped-def]
    return lambda rng: _as_numba(rng).standard_exponential()


@overload_method(GeneratorType, "gamma")
def _gamma(rng, shape):  # type: ignore[no-untyped-def]
    return lambda rng, shape: _as_numba(rng).gamma(shape)
