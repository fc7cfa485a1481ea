"""What the functions of `base/addresses` are in compiled kernels, and whether there are any.

Touches: the bytes at the addresses.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

IS_COMPILED: bool = not config.DISABLE_JIT  # type: ignore[attr-defined]


def _load(kind: Any, *, swaps: bool = False) -> Any:
    """A load of an integer that need not be aligned, widened to 64 bits."""

    @intrinsic
    def load(_: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[0], context.get_value_type(kind).as_pointer()), align=1)
            if swaps:
                value = builder.bswap(value)
            widen = builder.sext if kind.signed else builder.zext
            return widen(value, context.get_value_type(types.int64))

        return (kind if kind == types.uint64 else types.int64)(types.int64), generate

    return load


@intrinsic
def copy_bytes(_: Any, target: Any, source: Any, length: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, from_ = (builder.inttoptr(each, cgutils.voidptr_t) for each in arguments[:2])
        cgutils.raw_memcpy(builder, to, from_, arguments[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def prefetch(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")  # type: ignore[no-untyped-call]
        to_read, kept, of_data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(ask, [builder.inttoptr(arguments[0], cgutils.voidptr_t), to_read, kept, of_data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


load_u8, load_i32, load_u64 = _load(types.uint8), _load(types.int32), _load(types.uint64)
load_big_u32 = _load(types.uint32, swaps=True)
