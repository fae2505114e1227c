"""Structs: NamedTuples of arrays and numbers in packed form, which compiled code takes as one pointer.

A NamedTuple of arrays reaches a compiled function as some hundred separate values, which makes compilation slow. Here
the descriptions of the arrays, and the numbers, are written once into an array of 64-bit words, and compiled code gets
its address. A NamedTuple in a NamedTuple has its words among those of the outer one.

numba passes an array as seven values and counts references to it, so that reading one entry takes some ninety
instructions before optimisation. A *block* is an array that Python keeps alive and does not move. It is one pointer to
numba's description of the array, and reading an entry takes few instructions. Single entries and lengths are
implemented here. For all other operations a block is converted to an array. NumPy's random generators inside a struct
are a pointer to the addresses (words) that numba needs.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import operator
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_builtin, lower_cast, lower_getattr_generic
from numba.core.typeconv import Conversion
from numba.core.typing.arraydecl import get_array_index_type
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer, infer_global, signature
from numba.core.typing.typeof import typeof
from numba.extending import NativeValue, infer_getattr, intrinsic, models, overload_method, register_model, unbox
from numba.np import arrayobj
from numba.np.random.generator_core import next_uint32, next_uint64

# positions, in numba's description of an array, of the address of the first entry and of the shape
DATA_POSITION, SHAPE_POSITION = 4, 5


class BlockType(types.Type):
    """Type of a block. A row or a slice of a block is an array."""

    def __init__(self, dtype: types.Type, ndim: int, layout: str) -> None:
        self.dtype, self.ndim, self.layout, self.aligned = dtype, ndim, layout, True
        super().__init__(name=f"block({dtype}, {ndim}d, {layout})")

    @property
    def as_array(self) -> types.Array:
        return types.Array(self.dtype, self.ndim, self.layout)

    def can_convert_to(self, typingctx: Any, other: types.Type) -> Conversion | None:
        """Return a safe conversion if ``other`` is the type of the block's array, otherwise None."""
        return Conversion.safe if isinstance(other, types.Array) and other == self.as_array else None

    def unify(self, typingctx: Any, other: types.Type) -> types.Type | None:
        """Return the common type of a block and an array, which is an array."""
        return self.as_array.unify(typingctx, other) if isinstance(other, types.Array) else None

    def is_entry(self, kinds: Any) -> bool:
        """Return True if indices of these types select one entry of a contiguous block."""
        kinds = kinds if isinstance(kinds, types.BaseTuple) else (kinds,)
        return self.layout == "C" and len(kinds) == self.ndim and all(isinstance(k, types.Integer) for k in kinds)


@register_model(BlockType)
class _BlockModel(models.PrimitiveModel):
    """numba's data model of a block: a pointer to the description of the array."""

    def __init__(self, dmm: Any, fe_type: BlockType) -> None:
        super().__init__(dmm, fe_type, dmm[fe_type.as_array].get_value_type().as_pointer())


@lower_cast(BlockType, types.Array)
def _to_array(context: Any, builder: Any, block: Any, array: Any, value: Any) -> Any:
    """Generate code that converts a block to its array, by loading the array's description. Return its LLVM value."""
    return load_fixed(builder, value)


@infer_global(operator.getitem)
class _TypeOfItem(AbstractTemplate):
    """Type inference of ``block[index]``: the type of an entry, or of the array that a slice returns."""

    def generic(self, args: Any, kws: Any) -> Any:
        """Return numba's signature for the types ``args`` of block and index, or None unless they are these."""
        block, index = args
        if not isinstance(block, BlockType):
            return None
        out = get_array_index_type(block.as_array, index)
        if out is None:
            return None
        return signature(out.result, block if block.is_entry(out.index) else block.as_array, out.index)


@infer_global(operator.setitem)
class _TypeOfSetting(AbstractTemplate):
    """Type inference of ``block[index] = value``, and of the same with a block as value."""

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature for the types ``args`` of block, index and value, or None without a block."""
        block, index, value = args
        if not isinstance(block, BlockType) and not isinstance(value, BlockType):
            return None
        plain = tuple(arg.as_array if isinstance(arg, BlockType) else arg for arg in args)
        if isinstance(block, BlockType) and block.is_entry(index) and self.context.can_convert(value, block.dtype):
            return signature(types.none, block, index, block.dtype)
        array_signature = self.context.resolve_function_type(operator.setitem, plain, kws)
        return None if array_signature is None else signature(types.none, block, *array_signature.args[1:])


@infer_global(len)
class _TypeOfLen(AbstractTemplate):
    """Type inference of ``len(block)``."""

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature for the type in ``args``, or None if it is not a block."""
        return signature(types.intp, *args) if isinstance(args[0], BlockType) else None


@infer
class _TypeOfIterator(AbstractTemplate):
    """Type inference of a loop over a block, which is a loop over its array."""

    key = "getiter"

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature for the type in ``args``, or None if it is not a block."""
        if not isinstance(args[0], BlockType):
            return None
        return self.context.resolve_function_type("getiter", (args[0].as_array,), kws)


@infer_getattr
class _TypeOfAttribute(AttributeTemplate):
    """Type inference of the attributes of a block, which are those of its array."""

    key = BlockType

    def generic_resolve(self, block: BlockType, name: str) -> Any:
        """Return the type of the attribute ``name``, or None if arrays have none of this name."""
        return self.context.resolve_getattr(block.as_array, name)


@lower_getattr_generic(BlockType)
def _get_attribute(context: Any, builder: Any, block: BlockType, value: Any, name: str) -> Any:
    """Generate code that reads an attribute of a block, which is that of its array; return the LLVM value."""
    array, loaded = block.as_array, load_fixed(builder, value)
    result = context.typing_context.resolve_getattr(array, name)
    return context.get_getattr(array, name)(context, builder, array, loaded, name) if result is not None else None


def load_fixed(builder: Any, pointer: Any) -> Any:
    """Generate code that loads the value at a pointer, marked as never changing, so that loops load it once."""
    loaded = builder.load(pointer)
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


def _axis_length(builder: Any, block: Any, axis: int) -> Any:
    return load_fixed(builder, cgutils.gep_inbounds(builder, block, 0, SHAPE_POSITION, axis))


def _entry_address(context: Any, builder: Any, kinds: Any, block: Any, indices: Any) -> Any:
    """Generate code for the address of the entry of a block at `indices`; negative ones count from the end."""
    offset = ir.Constant(ir.IntType(64), 0)
    for axis, (kind, index) in enumerate(zip(kinds, indices, strict=True)):
        size = _axis_length(builder, block, axis) if axis > 0 or _may_be_negative(kind, index) else None
        if axis > 0:
            offset = builder.mul(offset, size)
        if _may_be_negative(kind, index):
            index = arrayobj.fix_integer_index(context, builder, kind, index, size)
        else:
            index = context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)
        offset = builder.add(offset, index) if axis > 0 else index
    return builder.gep(load_fixed(builder, cgutils.gep_inbounds(builder, block, 0, DATA_POSITION)), [offset])


def _may_be_negative(kind: Any, index: Any) -> bool:
    """Return True if an index, with numba type ``kind`` and LLVM value ``index``, is signed and not a constant >= 0."""
    is_constant = isinstance(index, ir.Constant) and isinstance(index.constant, int)
    return bool(kind.signed) and not (is_constant and index.constant >= 0)


@lower_builtin(operator.getitem, BlockType, types.Integer)
@lower_builtin(operator.getitem, BlockType, types.BaseTuple)
def _lower_getitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Generate code for ``block[index]`` of one entry, and return the LLVM value of the entry."""
    return arrayobj.load_item(context, builder, sig.args[0], _indexed_entry_address(context, builder, sig, args))


@lower_builtin(operator.setitem, BlockType, types.Integer, types.Any)
@lower_builtin(operator.setitem, BlockType, types.BaseTuple, types.Any)
@lower_builtin(operator.setitem, BlockType, types.SliceType, types.Any)
def _lower_setitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Generate code for ``block[index] = value``. ``args`` are block, index and value. Return a dummy value."""
    # numba's code for the block's array is used for slices, for some axes only, and if the block is not contiguous
    block, index, value = sig.args
    if not block.is_entry(index) or value != block.dtype:
        array_signature = signature(types.none, block.as_array, index, value)
        return context.get_function(operator.setitem, array_signature)(
            builder, (load_fixed(builder, args[0]), *args[1:])
        )
    arrayobj.store_item(context, builder, sig.args[0], args[2], _indexed_entry_address(context, builder, sig, args))
    return context.get_dummy_value()


def _indexed_entry_address(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Generate code for the address of an entry from the arguments of getitem or setitem."""
    if isinstance(sig.args[1], types.BaseTuple):
        at = cgutils.unpack_tuple(builder, args[1], count=len(sig.args[1]))
        return _entry_address(context, builder, sig.args[1], args[0], at)
    return _entry_address(context, builder, sig.args[1:2], args[0], args[1:2])


@lower_builtin(len, BlockType)
def _lower_len(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Generate code for ``len(block)``, the block alone in ``args``. Return the length of its first axis."""
    return _axis_length(builder, args[0], 0)


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


WORD_BYTES = 8  # number of bytes of a word


class StructType(types.Type):
    """Type of a pointer to the packed form of a NamedTuple."""

    def __init__(self, class_name: str, fields: tuple[tuple[str, types.Type], ...]) -> None:
        self.fields = fields
        digest = hashlib.sha256(repr([(name, str(kind)) for name, kind in fields]).encode()).hexdigest()
        super().__init__(name=f"{class_name}_{digest[:12]}")

    @functools.cached_property
    def places(self) -> dict[str, tuple[int, types.Type]]:
        """Offset in bytes and type of each field, by name."""
        places, offset = {}, 0
        for name, kind in self.fields:
            places[name] = offset, kind
            offset += n_words(kind) * WORD_BYTES
        return places

    def kind_of(self, name: str) -> types.Type:
        """Return the type of the field ``name``, of an inner NamedTuple that of a pointer to it."""
        kind = self.places[name][1]
        return kind.struct if isinstance(kind, InnerType) else kind

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "places"}


class InnerType(types.Type):
    """Type of a field that is a NamedTuple itself, whose words are among those of the outer struct."""

    def __init__(self, struct: StructType) -> None:
        self.struct = struct
        super().__init__(name=f"inner({struct.name})")


def n_words(kind: types.Type) -> int:
    """Return the number of 64-bit words that a field takes: 5 + 2 ndim for an array, 1 for a number or a pointer."""
    # a NamedTuple in another one takes the sum over its fields
    if isinstance(kind, InnerType):
        return sum(n_words(field) for _, field in kind.struct.fields)
    return 5 + 2 * kind.ndim if isinstance(kind, BlockType) else 1


class PackedRecord:
    """Packed form of a NamedTuple: an int64 array ``words`` with its ``address``. It keeps the arrays alive."""

    __slots__ = ("_alive", "_numba_type_", "address", "words")

    def __init__(self, value: Any) -> None:
        self._numba_type_, words, self._alive = _pack_record(value)
        self.words = np.array(words, dtype=np.int64)
        self.address = self.words.ctypes.data

    def __reduce__(self) -> Any:
        raise TypeError("packed arrays are addresses and cannot be pickled.")


def _pack_record(value: Any) -> tuple[StructType, list[int], Any]:
    """Return the type of a NamedTuple, its 64-bit words, and for each field the object to whose memory these refer."""
    kinds, words, alive = zip(*map(_pack_field, value), strict=True)
    return _cached_struct_type(type(value).__name__, value._fields, kinds), [*itertools.chain(*words)], alive


@functools.cache
def _cached_struct_type(class_name: str, names: tuple[str, ...], kinds: tuple[types.Type, ...]) -> StructType:
    """Return the struct type of the NamedTuple class ``class_name``, the same object for the same arguments."""
    return StructType(class_name, tuple(zip(names, kinds, strict=True)))


def _pack_field(value: Any) -> tuple[types.Type, list[int], Any]:
    """Return the type of a field, its 64-bit words, and the object to whose memory these refer, or None."""
    if isinstance(value, np.ndarray):
        kind = _block_type(value.dtype, value.ndim, "C" if value.flags.c_contiguous else "A")
        words = [0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides]
        return kind, words, value
    if isinstance(value, PackedRecord):
        return value._numba_type_, [value.address], value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        kind, words, alive = _pack_record(value)
        return _cached_inner_type(kind), words, alive
    if isinstance(value, np.random.Generator):
        words = generator_words(value)
        return GENERATOR, [words.ctypes.data], (value, words)
    kind = typeof(value)
    if isinstance(kind, types.Integer | types.Boolean):
        return types.boolean if isinstance(kind, types.Boolean) else types.int64, [int(value)], None
    if isinstance(kind, types.Float):
        return types.float64, [int(np.float64(value).view(np.int64))], None
    raise TypeError(f"compiled code takes no {type(value).__name__} in a group of arrays.")


@functools.cache
def _cached_inner_type(struct: StructType) -> InnerType:
    return InnerType(struct)


@functools.cache
def _block_type(dtype: np.dtype, ndim: int, layout: str) -> BlockType:
    return BlockType(numba.from_dtype(dtype), ndim, layout)


@register_model(StructType)
class _StructModel(models.OpaqueModel):
    """numba's data model of a struct: a pointer without further type."""


@unbox(StructType)
def _unbox(kind: Any, obj: Any, c: Any) -> Any:
    """Generate code that takes the ``address`` of a `PackedRecord` when Python calls compiled code with it."""
    number = c.pyapi.object_getattr_string(obj, "address")
    value = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(value)


@infer_getattr
class _Fields(AttributeTemplate):
    """Type inference of ``struct.name``."""

    key = StructType

    def generic_resolve(self, kind: StructType, name: str) -> types.Type | None:
        """Return the type of the field ``name`` of the struct type ``kind``, or None without it."""
        return kind.kind_of(name) if name in kind.places else None


@lower_getattr_generic(StructType)
def _get_field(context: Any, builder: Any, kind: StructType, value: Any, name: str) -> Any:
    """Generate code that reads a field of a struct: a number, or a pointer to the words of an array or a struct."""
    at, field = kind.places[name]
    place = builder.gep(value, [ir.Constant(ir.IntType(64), at)], inbounds=True)
    if isinstance(field, InnerType):
        return place
    model = context.data_model_manager[field]
    if isinstance(field, BlockType):
        return builder.bitcast(place, model.get_value_type())
    loaded = load_fixed(builder, builder.bitcast(place, model.get_data_type().as_pointer()))
    return model.from_data(builder, loaded)
