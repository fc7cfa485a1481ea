"""The decorator of all compiled kernels, and the array types that their signatures are made of.

Keys are compared and bytes are decoded by free functions over arrays, each of which states its signature. Numba
compiles one when it is called for the first time, with all that it calls: a process that imports kernels and calls none
does without Numba, which takes a second and 100 MB. A process from which others are forked makes them first
(`make_imported`). Kernels let go of the interpreter while they run, so that one process decodes on as many cores as it
has threads, and their code is kept on disk (`kernel_cache`).

An array type that ends in `_IN` is read only, and takes arrays that may not be written, such as those over Arrow
buffers; without it the kernel writes there.

They make no arrays, only write to those that they are given. So they are compiled without counts of references, which
each call of one kernel by another would raise and lower for each array, one atomic instruction every time: the loser
tree is four times as fast without.

Touches: the folder of compiled kernels (`kernel_folder`); a process that fills it, where none are there.
Keeps:   1. every kernel is cached where a folder can be written, and none holds the interpreter's lock;
         2. Numba is not loaded before a kernel is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, update_wrapper
from threading import RLock
from types import ModuleType
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=np.generic)


@cache
def _numba() -> ModuleType:
    """Numba, which takes kernels from their folder from here on."""
    import numba

    from lakeward.base import kernel_cache  # loads Numba, too

    kernel_cache.use_or_build()
    return numba


class _Late:
    """A type, or a signature, of Numba's that is made when a kernel is."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.made = make

    def __call__(self, *given: Any, **named: Any) -> _Late:
        return _Late(lambda: self.made()(*map(_made, given), **named))


class _Types:
    """What `numba.types` has, by its names there."""

    def __getattr__(self, name: str) -> _Late:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Late(lambda: getattr(_numba().types, name))


def _made(given: Any) -> Any:
    return given.made() if isinstance(given, _Late) else given


types: Any = _Types()

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

TWO_I64 = types.UniTuple(types.int64, 2)
TWO_U64 = types.UniTuple(types.uint64, 2)


def record(kind: np.dtype[np.void]) -> Any:
    """The type of one such record, which a kernel may write to: `array[i]`."""
    return _Late(lambda: _numba().from_dtype(kind))


def records(kind: np.dtype[np.void]) -> Any:
    """The type of an array of such records, which a kernel may write to: `array[i]["field"]`."""
    return types.Array(record(kind), 1, "C")


def named(kind: type[tuple[Any, ...]], *fields: Any) -> Any:
    """The type of a named tuple of this kind, whose fields have exactly these types."""

    def make() -> Any:
        made = [_made(each) for each in fields]
        if len(set(made)) == 1:
            return _numba().types.NamedUniTuple(made[0], len(made), kind)
        return _numba().types.NamedTuple(made, kind)

    return _Late(make)


def read_only(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """A view that may not be written: a field of a named tuple must be as its type says, which ends in `_IN`."""
    view = array.view()
    view.flags.writeable = False
    return view


_MAKING = RLock()


class Deferred:
    """A function that is made when a kernel that calls it is, or when it is called for the first time."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    def __call__(self, *given: Any) -> Any:
        return (self._made or self.made())(*given)

    def made(self) -> Any:
        with _MAKING:
            if self._made is None:
                self._made = self._make()
            return self._made


class Kernel(Deferred):
    imported: ClassVar[list[Kernel]] = []
    """The kernels of all modules that were imported so far."""

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        super().__init__(lambda: _compiled(function, _made(signature)))
        update_wrapper(self, function)
        self.imported.append(self)

    @property
    def stats(self) -> Any:
        """What Numba found in the folder of kernels, and what it did not."""
        return self.made().stats


def make_imported() -> None:
    """Make all kernels of the modules that were imported: a process that is forked from this one has them, and shares
    their memory."""
    for each in Kernel.imported:
        each.made()


def _compiled(function: Callable[..., Any], signature: Any) -> Any:
    """The function as Numba makes it, after the kernels that it calls."""
    njit, names = _numba().njit, function.__globals__
    for name in function.__code__.co_names:
        if isinstance(used := names.get(name), Deferred):
            names[name] = used.made()  # Numba knows its own functions alone
    try:
        return njit(signature, cache=True, nogil=True, _nrt=False)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        # No folder can be written, which `kernel_process` has said. A slow start is better than none.
        return njit(signature, cache=False, nogil=True, _nrt=False)(function)


def kernel(signature: Any) -> Callable[[F], F]:
    """Compile a function for this one signature, `types.int64(U8_IN, types.int64)`. It makes no arrays."""

    def deferred(function: F) -> F:
        return cast("F", Kernel(function, signature))

    return deferred
