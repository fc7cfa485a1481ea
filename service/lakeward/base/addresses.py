"""Bytes at addresses, for kernels that read the buffers of many Arrow arrays at once, whatever their number.

An address is an integer. Nothing is checked: who calls knows that the bytes are there, and keeps them there.

Touches: the bytes at the addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, config
from numba.extending import intrinsic

from lakeward.base.kernel import types


def _load_u8(address: int) -> int:
    return ctypes.c_uint8.from_address(int(address)).value


def _load_i32(address: int) -> int:
    return ctypes.c_int32.from_address(int(address)).value


def _load_big_u32(address: int) -> int:
    return int.from_bytes(ctypes.string_at(int(address), 4), "big")


def _load_u64(address: int) -> np.uint64:
    return np.uint64(ctypes.c_uint64.from_address(int(address)).value)


def _copy_bytes(target: int, source: int, length: int) -> None:
    ctypes.memmove(int(target), int(source), int(length))


def _compiled_load(kind: Any, *, swaps: bool = False) -> Any:
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
def _compiled_copy(_: Any, target: Any, source: Any, length: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, from_ = (builder.inttoptr(each, cgutils.voidptr_t) for each in arguments[:2])
        cgutils.raw_memcpy(builder, to, from_, arguments[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def _compiled_prefetch(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")  # type: ignore[no-untyped-call]
        to_read, kept, of_data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(ask, [builder.inttoptr(arguments[0], cgutils.voidptr_t), to_read, kept, of_data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _prefetch(address: int) -> None:
    """The interpreter has no such thing."""


_IS_COMPILED: bool = not config.DISABLE_JIT  # type: ignore[attr-defined]

load_u8: Callable[[Any], Any] = _compiled_load(types.uint8) if _IS_COMPILED else _load_u8
"""(address) -> the byte there."""
load_i32: Callable[[Any], Any] = _compiled_load(types.int32) if _IS_COMPILED else _load_i32
"""(address) -> the signed 32-bit integer there, which need not be aligned."""
load_big_u32: Callable[[Any], Any] = _compiled_load(types.uint32, swaps=True) if _IS_COMPILED else _load_big_u32
"""(address) -> the unsigned 32-bit integer there, of which the highest byte comes first; it need not be aligned."""
load_u64: Callable[[Any], Any] = _compiled_load(types.uint64) if _IS_COMPILED else _load_u64
"""(address) -> the eight bytes there as a word; they need not be aligned."""
copy_bytes: Callable[[Any, Any, Any], None] = _compiled_copy if _IS_COMPILED else _copy_bytes  # type: ignore[assignment]
"""(target, source, length): copy bytes from one address to another; the two do not overlap."""
prefetch: Callable[[Any], None] = _compiled_prefetch if _IS_COMPILED else _prefetch  # type: ignore[assignment]
"""(address): have the processor fetch what is there, which is about to be read. Any address may be given."""
