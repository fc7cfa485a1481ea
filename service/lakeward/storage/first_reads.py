"""A storage that counts how much of its files was read for the first time: what is read again does not count.

A merge reads some of a base file more than once: its footer, keys of rows that it copies, rows to compare. So bytes
that are read say nothing of how far it is, and bytes that were never read before do.

Touches: what the storage below it does.
Keeps:   no more of a file is counted than it has, in steps of `CHUNK_BYTES`.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import BinaryIO, cast

from lakeward.storage.metered import MeteredFile, MeteredStorage
from lakeward.storage.storage import Storage

CHUNK_BYTES = 64 * 1024


class FirstReads(MeteredStorage):
    """The storage below; files that are opened are followed, those that are read in one go are not."""

    def __init__(self, storage: Storage, *, on_first: Callable[[int], None] = lambda size: None) -> None:
        """
        Args:
            on_first: gets how many bytes were read for the first time, after each reading that had some; in the thread
                that read.
        """
        super().__init__(storage)
        self._on_first = on_first
        self._lock = threading.Lock()
        self._chunks: dict[str, bytearray] = {}
        """Path to whether each chunk of the file was read."""
        self.first_bytes = 0
        """Bytes that were read for the first time."""

    def open_input(self, path: str) -> BinaryIO:
        file = self._storage.open_input(path)
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        return cast(BinaryIO, _FollowedFile(file, self, path, size))

    def saw(self, path: str, start: int, end: int, *, size: int) -> None:
        """The bytes from `start` to `end` of a file that has `size` bytes were read."""
        if start >= end:
            return
        first, behind = start // CHUNK_BYTES, -(-end // CHUNK_BYTES)
        with self._lock:
            chunks = self._chunks.get(path)
            if chunks is None:
                chunks = self._chunks[path] = bytearray(-(-max(size, end) // CHUNK_BYTES))
            new = chunks.count(0, first, behind)
            if not new:
                return
            counted = new * CHUNK_BYTES
            if behind == len(chunks) and not chunks[-1]:
                counted -= behind * CHUNK_BYTES - max(size, end)
            chunks[first:behind] = b"\1" * (behind - first)
            self.first_bytes += counted
        self._on_first(counted)


class _FollowedFile(MeteredFile):
    def __init__(self, file: BinaryIO, storage: FirstReads, path: str, size: int) -> None:
        super().__init__(file, storage)
        self._storage = storage
        self._path = path
        self._size = size

    def read(self, size: int | None = -1) -> bytes:
        start = self._file.tell()
        data = super().read(size)
        self._storage.saw(self._path, start, start + len(data), size=self._size)
        return data
