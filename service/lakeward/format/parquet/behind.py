"""Work that is carried out behind its caller's back, or ahead of him: one call at a time, on one thread.

Touches: one thread, which ends with `close`.
Keeps:   1. calls are carried out in their order, never two at once, and no more than one waits for its end;
         2. an error of a call is raised by the next `run` or `wait`;
         3. of each iterator no more than one item is made ahead, none while a large one is in use; items and errors
            come in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

AHEAD_BYTES_MAX = 8 * 1024 * 1024
"""While an item that takes more is in use, the next one is not made."""


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


_Item = TypeVar("_Item", bound=Sized)


class Behind:
    """Close it when no more is to be done, also after an error."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._last: Future[object] | None = None

    def run(self, work: Callable[[], object]) -> None:
        """Begin with this as soon as what was begun before has ended."""
        self.wait()
        self._last = self._thread.submit(work)

    def wait(self) -> None:
        """Wait until what was begun has ended."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def close(self) -> None:
        """Let what was begun end, whatever comes of it."""
        self._thread.shutdown(wait=True)


class Ahead:
    """Makes the next item of iterators while the last one is in use. Close it before what they read from."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    def over(self, items: Iterator[_Item]) -> Iterator[_Item]:
        """The items; those of several iterators are made by turns."""
        waiting = self._thread.submit(next, items, None)
        while (item := waiting.result()) is not None:
            if item.nbytes <= AHEAD_BYTES_MAX:
                waiting = self._thread.submit(next, items, None)
                yield item
            else:
                yield item
                waiting = self._thread.submit(next, items, None)

    def close(self) -> None:
        """Wait for the item that is being made; no other is made."""
        self._thread.shutdown(wait=True, cancel_futures=True)
