"""Blocks: arrays inside a struct that compiled code uses through a pointer to numba's description of the array.

numba passes an array as seven values and counts references to it, so that reading one entry takes some ninety
instructions before optimisation. A *block* is an array that Python keeps alive and does not move. It is one pointer,
and reading an entry takes few instructions. Single entries and lengths are implemented here. For all other operations
a block is converted to an array.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_builtin, lower_cast, lower_getattr_generic
from numba.core.typeconv import Conversion
from numba.core.typing.arraydecl import get_array_index_type
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer, infer_global, signature
from numba.extending import infer_getattr, models, register_model
from numba.np import arrayobj

# positions, in numba's description of an array, of the address of the first entry and of the shape
DATA_POSITION, SHAPE_POSITION = 4, 5


class BlockType(types.Type):
    """Type of a block. A row or a slice of a block is an array."""

    def __init__(self, dtype: types.Type, ndim: int, layout: str) -> None:
        self.dtype, self.ndim, self.layout, self.aligned = dtype, ndim, layout, True
        super().__init__(name=f"block({dtype}, {ndim}d, {layout})")

    @property
    def as_array(self) -> types.Array:
        """Type of the array that the pointer points to."""
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


def _as_array(kind: types.Type) -> types.Type:
    """Return the type of the block's array if ``kind`` is the type of a block, otherwise ``kind``."""
    return kind.as_array if isinstance(kind, BlockType) else kind


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
        plain = tuple(map(_as_array, args))
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
    """Generate code that reads the length of an axis of a block. Return its LLVM value."""
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
