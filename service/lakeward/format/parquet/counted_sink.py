"""A sink that knows how many bytes it took, for a library that writes to it and closes what it wrote to.

Touches: the sink it is given, by appending; it is never closed.
Keeps:   1. the position counts what went to the sink, and what is held back is in neither;
         2. the checksum is that of the bytes which went there since it was begun.
"""

from __future__ import annotations

from typing import BinaryIO
from zlib import crc32


class CountedSink:
    """A sink that knows how many bytes it took; Arrow writes to anything with these methods."""

    def __init__(self, sink: BinaryIO, *, sums_up: bool = True) -> None:
        """
        Args:
            sums_up: the checksum is wanted.
        """
        self._sink = sink
        self._sums_up = sums_up
        self._held: bytearray | None = None
        self.position = 0
        self.checksum = 0
        """The CRC-32 of what was written since `begin_checksum`."""
        self.closed = False

    def write(self, data: bytes) -> int:
        if self._held is not None:
            self._held += data
            return len(data)
        self._sink.write(data)
        self.position += len(data)
        if self._sums_up:
            self.checksum = crc32(data, self.checksum)
        return len(data)

    def begin_checksum(self) -> int:
        """The place from which on bytes are summed up."""
        self.checksum = 0
        return self.position

    def hold(self) -> int:
        """From now on keep what is written; the place at which it would stand."""
        self._held = bytearray()
        return self.position

    def release(self) -> bytes:
        """What was kept. From now on all is written again."""
        assert self._held is not None
        held, self._held = bytes(self._held), None
        return held

    def tell(self) -> int:
        return self.position

    def flush(self) -> None:
        self._sink.flush()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Arrow closes what it wrote to; the sink stays open for its owner."""
