"""Structs: NamedTuples of arrays and numbers in packed form, which compiled code takes as one pointer.

A NamedTuple of arrays reaches a compiled function as some hundred separate values, which makes compilation slow. Here
the descriptions of the arrays, and the numbers, are written once into an array of 64-bit words, and compiled code gets
its address. A NamedTuple in a NamedTuple has its words among those of the outer one.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.core.typing.typeof import typeof
from numba.extending import NativeValue, infer_getattr, models, register_model, unbox

from .blocks import BlockType, load_fixed
from .generators import GENERATOR, generator_words

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
    """Return the type of a struct inside another one, the same object for the same struct."""
    return InnerType(struct)


@functools.cache
def _block_type(dtype: np.dtype, ndim: int, layout: str) -> BlockType:
    """Return the type of a block with this layout, "C" or "A" of NumPy, the same object for the same arguments."""
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
