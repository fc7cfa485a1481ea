"""Bytes at addresses, for kernels that read the buffers of many Arrow arrays at once, whatever their number.

An address is an integer. Nothing is checked: who calls knows that the bytes are there, and keeps them there.

Touches: the bytes at the addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from lakeward.base.kernel import Deferred


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


def _prefetch(address: int) -> None:
    """The interpreter has no such thing."""


def _compiled(name: str, interpreted: Callable[..., Any]) -> Any:
    """The function in kernels; what is run by the interpreter where nothing is compiled."""

    def make() -> Any:
        from lakeward.base import address_code  # loads Numba

        return getattr(address_code, name) if address_code.IS_COMPILED else interpreted

    return Deferred(make)


load_u8: Callable[[Any], Any] = _compiled("load_u8", _load_u8)
"""(address) -> the byte there."""
load_i32: Callable[[Any], Any] = _compiled("load_i32", _load_i32)
"""(address) -> the signed 32-bit integer there, which need not be aligned."""
load_big_u32: Callable[[Any], Any] = _compiled("load_big_u32", _load_big_u32)
"""(address) -> the unsigned 32-bit integer there, of which the highest byte comes first; it need not be aligned."""
load_u64: Callable[[Any], Any] = _compiled("load_u64", _load_u64)
"""(address) -> the eight bytes there as a word; they need not be aligned."""
copy_bytes: Callable[[Any, Any, Any], None] = _compiled("copy_bytes", _copy_bytes)
"""(target, source, length): copy bytes from one address to another; the two do not overlap."""
prefetch: Callable[[Any], None] = _compiled("prefetch", _prefetch)
"""(address): have the processor fetch what is there, which is about to be read. Any address may be given."""
