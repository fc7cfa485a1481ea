"""A file in an object store, read in ranges, as a seekable reader.

Parquet is read column by column, each from a place of its own, logs from front to back or head to head. So blocks are
kept, the least recently used go first, and a reader that goes on where an earlier range ended gets twice as much with
the next request: reading a head costs one small request, and a scan few large ones.

Why not pyarrow's own file systems: they take other credentials, other names for the endpoint, and one library more for
each store; a table would have to be opened twice. What they do better, several ranges at a time, readers of one
column after another do not use.

Touches: the object, through the function it is given.
Keeps:   memory stays below `CACHE_BLOCKS` blocks and one range.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

BLOCK = 256 * 1024
RUN_MAX = 16
"""Blocks of the largest request."""
CACHE_BLOCKS = 128
CURSORS_MAX = 32


class ObjectInput(io.RawIOBase):
    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        """
        Args:
            fetch: the bytes from the first offset up to the second, exactly.
        """
        self._size = size
        self._fetch = fetch
        self._position = 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._ends: OrderedDict[int, int] = OrderedDict()
        """Ends of earlier requests: the number of the next block, and how many blocks they had."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError("before the beginning of the file")
        self._position = start + offset
        return self._position

    def readall(self) -> bytes:
        start, self._position = self._position, max(self._position, self._size)
        return self._fetch(start, self._size) if start < self._size else b""

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        wanted = min(len(target), max(0, self._size - self._position))
        if wanted >= BLOCK * RUN_MAX:
            # More than any request for blocks would bring: straight into its place.
            target[:wanted] = self._fetch(self._position, self._position + wanted)
            self._position += wanted
            return wanted
        done = 0
        while done < wanted:
            number, offset = divmod(self._position, BLOCK)
            part = memoryview(self._block(number))[offset : offset + wanted - done]
            target[done : done + len(part)] = part
            done += len(part)
            self._position += len(part)
        return done

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            self._load(number)
        self._blocks.move_to_end(number)
        return self._blocks[number]

    def _load(self, number: int) -> None:
        before = self._ends.pop(number, 0)
        # Several cursors share the cache; what one of them reads ahead must not push out what another did.
        cursors = 1 + sum(1 for blocks in self._ends.values() if blocks > 1)
        count = max(1, min(2 * before, RUN_MAX, CACHE_BLOCKS // (2 * cursors)))
        start = number * BLOCK
        end = min(start + count * BLOCK, self._size)
        data = self._fetch(start, end)
        for offset in range(0, len(data), BLOCK):
            self._blocks[number + offset // BLOCK] = data[offset : offset + BLOCK]
        while len(self._blocks) > CACHE_BLOCKS:
            self._blocks.popitem(last=False)
        self._ends[number + count] = count
        while len(self._ends) > CURSORS_MAX:
            self._ends.popitem(last=False)
