"""The decorator of all compiled kernels, and the array types that their signatures are made of.

Keys are compared and bytes are decoded by free functions over arrays, which Numba compiles when their module is
imported, since each states its signature. They let go of the interpreter while they run, so that one process decodes
on as many cores as it has threads, and their code is kept on disk (`kernel_cache`).

An array type that ends in `_IN` is read only, and takes arrays that may not be written, such as those over Arrow
buffers; without it the kernel writes there.

They make no arrays, only write to those that they are given. So they are compiled without counts of references, which
each call of one kernel by another would raise and lower for each array, one atomic instruction every time: the loser
tree is four times as fast without.

Touches: the folder of compiled kernels (`kernel_folder`); a process that fills it, where none are there.
Keeps:   every kernel is cached where a folder can be written, and none holds the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import from_dtype, njit
from numba import types as types

from lakeward.base import kernel_cache

kernel_cache.use_or_build()

F = TypeVar("F", bound=Callable[..., Any])

BOOL_IN = types.Array(types.boolean, 1, "C", readonly=True)
I8_IN = types.Array(types.int8, 1, "C", readonly=True)
U8_IN = types.Array(types.uint8, 1, "C", readonly=True)
U16_IN = types.Array(types.uint16, 1, "C", readonly=True)
I32_IN = types.Array(types.int32, 1, "C", readonly=True)
U32_IN = types.Array(types.uint32, 1, "C", readonly=True)
I64_IN = types.Array(types.int64, 1, "C", readonly=True)
U64_IN = types.Array(types.uint64, 1, "C", readonly=True)

BOOL = types.Array(types.boolean, 1, "C")
I8 = types.Array(types.int8, 1, "C")
U8 = types.Array(types.uint8, 1, "C")
I32 = types.Array(types.int32, 1, "C")
U32 = types.Array(types.uint32, 1, "C")
I64 = types.Array(types.int64, 1, "C")
U64 = types.Array(types.uint64, 1, "C")

TWO_I64 = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]
TWO_U64 = types.UniTuple(types.uint64, 2)  # type: ignore[no-untyped-call]


def records(kind: np.dtype[np.void]) -> Any:
    """The type of an array of such records, which a kernel may write to: `array[i]["field"]`."""
    return types.Array(from_dtype(kind), 1, "C")


def kernel(signature: Any) -> Callable[[F], F]:
    """Compile a function for this one signature, `types.int64(U8_IN, types.int64)`. It makes no arrays."""

    def compiled(function: F) -> F:
        try:
            return _compiled(function, cache=True)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            # No folder can be written, which `kernel_process` has said. A slow start is better than none.
            return _compiled(function, cache=False)

    def _compiled(function: F, *, cache: bool) -> F:
        made: F = njit(signature, cache=cache, nogil=True, _nrt=False)(function)  # type: ignore[call-overload]
        return made

    return compiled
