"""The bytes of one HFile: a whole file, or a stretch of another file such as the content of a log block.

Offsets are relative to the HFile's own first byte, as everything inside of an HFile is; errors name the offset in the
file that holds it, which is where an operator would look.

Touches: the file it is given, by seeking and reading inside of the range only.
Keeps:   1. nothing outside of the range is read, and no length is allocated before it is known to lie inside of it;
         2. the end of the range is read once: it holds the trailer and, for small files, all the rest;
         3. of what is read ahead, one stretch is held, that which was asked for last.
"""

from __future__ import annotations

from typing import BinaryIO

from lakeward.base.errors import BrokenFile, Unsupported

_TAIL_BYTES = 64 * 1024
"""A read of this size costs an object store no more than one of a few bytes; most HFiles in log blocks are smaller."""


class HFileRange:
    def __init__(self, file: BinaryIO, *, offset: int, length: int, name: str) -> None:
        """`name` is how errors call the file."""
        assert offset >= 0 and length >= 0
        self._file = file
        self._offset = offset
        self._name = name
        self.length = length
        self._tail_start = max(0, length - _TAIL_BYTES)
        self._tail = self._fetch(self._tail_start, length - self._tail_start)
        self._ahead_start = 0
        self._ahead = b""

    def read(self, offset: int, length: int, what: str) -> bytes:
        """`length` bytes from `offset`. Raises `BrokenFile` where the range does not hold them."""
        if not (0 <= offset <= self.length and 0 <= length <= self.length - offset):
            raise self.broken(offset, f"{what} of {length} bytes lies outside of the HFile's {self.length} bytes")
        if offset >= self._tail_start:
            first = offset - self._tail_start
            return self._tail[first : first + length]
        first = offset - self._ahead_start
        if first >= 0 and first + length <= len(self._ahead):
            return self._ahead[first : first + length]
        return self._fetch(offset, length)

    def read_ahead(self, offset: int, length: int, what: str) -> None:
        """Read a stretch at once, out of which `read` takes what lies in it. Raises as `read` does."""
        self._ahead = b""
        self._ahead, self._ahead_start = self.read(offset, length, what), offset

    def _fetch(self, offset: int, length: int) -> bytes:
        self._file.seek(self._offset + offset)
        data = self._file.read(length)
        while len(data) < length:  # an unbuffered file may return less than it was asked for
            more = self._file.read(length - len(data))
            if not more:
                raise self.broken(offset, f"the file ended after {len(data)} of {length} bytes")
            data += more
        return data

    def broken(self, offset: int, why: str) -> BrokenFile:
        return BrokenFile(
            f"The HFile {self._name} is broken at byte {self._place(offset)}.",
            why=f"{why[0].upper()}{why[1:]}.",
            remedy="Restore the file, or roll back the commit that wrote it.",
        )

    def unsupported(self, offset: int, why: str) -> Unsupported:
        return Unsupported(
            f"The HFile {self._name} is not supported, because of its content at byte {self._place(offset)}.",
            why=f"{why[0].upper()}{why[1:]}.",
            remedy="Rewrite the file with the Hudi release that wrote it, with its default HFile settings.",
        )

    def _place(self, offset: int) -> int:
        # An offset found in a broken file may be any number; the nearest place that exists is returned instead.
        return self._offset + min(max(offset, 0), self.length)
