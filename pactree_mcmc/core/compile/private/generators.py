"""NumPy's random generators inside a struct, as a pointer to the addresses (words) that numba needs."""

from __future__ import annotations

import ctypes

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.typeof import typeof
from numba.extending import intrinsic, models, overload_method, register_model
from numba.np.random.generator_core import next_uint32, next_uint64

from .blocks import load_fixed

_NUMBA_TYPE = typeof(np.random.default_rng(0))
ZERO, ONE, THIRTY_TWO, TWO_TO_32 = np.uint64(0), np.uint64(1), np.uint64(32), np.uint64(1 << 32)
# fields of numba's form of a generator, each of which is an address
GENERATOR_FIELDS = (
    "state_address",
    "state",
    "fnptr_next_uint64",
    "fnptr_next_uint32",
    "fnptr_next_double",
    "bit_generator",
)


class GeneratorType(types.Type):
    """Type of a pointer to the words of a generator, see GENERATOR_FIELDS."""

    def __init__(self) -> None:
        super().__init__(name="generator")


GENERATOR = GeneratorType()


@register_model(GeneratorType)
class _GeneratorModel(models.OpaqueModel):
    """numba's data model of a generator in a struct: a pointer without further type."""


def generator_words(rng: np.random.Generator) -> np.ndarray:
    """Return the addresses of a generator's state and functions, in the order of GENERATOR_FIELDS."""
    interface = rng.bit_generator.ctypes
    functions = (interface.next_uint64, interface.next_uint32, interface.next_double)
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    own = getattr(interface.bit_generator, "value", interface.bit_generator)
    return np.array([interface.state_address, interface.state.value, *addresses, own], dtype=np.uint64)


@intrinsic
def _as_numba(typing, generator):  # type: ignore[no-untyped-def]
    """Return signature and code of ``_as_numba(generator)``, which gives a struct's generator in numba's own form."""

    # references to the generator are not counted
    def code(context, builder, sig, args):  # type: ignore[no-untyped-def]
        generator = cgutils.create_struct_proxy(_NUMBA_TYPE)(context, builder)
        bits = cgutils.create_struct_proxy(context.data_model_manager[_NUMBA_TYPE]._members[0])(context, builder)
        words = builder.bitcast(args[0], ir.IntType(64).as_pointer())
        for place, name in enumerate(GENERATOR_FIELDS):
            word = builder.gep(words, [ir.Constant(ir.IntType(64), place)], inbounds=True)
            setattr(bits, name, load_fixed(builder, word))
        generator.bit_generator = bits._getvalue()
        return generator._getvalue()

    return _NUMBA_TYPE(generator), code


@overload_method(GeneratorType, "random")
def _random(rng):  # type: ignore[no-untyped-def]
    """Return the function that numba compiles for ``rng.random()`` of a struct's generator. It draws from [0, 1)."""
    return lambda rng: _as_numba(rng).random()


@intrinsic
def _upper_word(typing, x, y):  # type: ignore[no-untyped-def]
    """Return signature and code of ``_upper_word(x, y)``, bits 64 to 127 of the product of two uint64."""

    def code(context, builder, sig, args):  # type: ignore[no-untyped-def]
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), code


@overload_method(GeneratorType, "integers")
def _draw_integer(rng, low, high):  # type: ignore[no-untyped-def]
    """Return the function to compile for `rng.integers(low, high)`, which draws from low to high - 1."""

    # As NumPy draws (Lemire 2019, Fast random integer generation in an interval, Algorithm 5). Let n = high - low, and
    # x have 32 or 64 random bits. The upper word of x n is uniform below n if x is drawn again whenever the lower word
    # is below 2^32 mod n, or 2^64 mod n. numba's own function takes half a second to compile, and omits the rejection
    # above 2^32, so that near 2^62 some integers would be 1.5 times as probable as others
    def implementation(rng, low, high):  # type: ignore[no-untyped-def]
        n, bits = np.uint64(high - low), _as_numba(rng).bit_generator
        if n <= ONE:
            return low
        if n <= TWO_TO_32:
            product = np.uint64(next_uint32(bits)) * n
            # the second condition, a slow division, is needed for few products
            while product % TWO_TO_32 < n and product % TWO_TO_32 < (TWO_TO_32 - n) % n:
                product = np.uint64(next_uint32(bits)) * n
            return low + np.int64(product >> THIRTY_TWO)
        x = next_uint64(bits)
        while x * n < (ZERO - n) % n:
            x = next_uint64(bits)
        return low + np.int64(_upper_word(x, n))

    return implementation


@overload_method(GeneratorType, "standard_exponential")
def _standard_exponential(rng):  # type: ignore[no-untyped-def]
    """Return the function to compile for ``rng.standard_exponential()``, see `_random`. The mean of a draw is 1."""
    return lambda rng: _as_numba(rng).standard_exponential()


@overload_method(GeneratorType, "gamma")
def _gamma(rng, shape):  # type: ignore[no-untyped-def]
    """Return the function to compile for ``rng.gamma(shape)``, see `_random`. It draws a gamma number of scale 1."""
    return lambda rng, shape: _as_numba(rng).gamma(shape)
