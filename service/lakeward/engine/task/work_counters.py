"""How far tasks are that run on this machine: a small file in its temporary folder, in which each has a place.

    driver  makes the file, and reads all of it with every report
    task    writes its counters to its place, a few times a second and when it ends: bytes, so no lock is needed

The file is the same for tasks in this process, in others, and in the workers of a Spark whose master is local. Workers
on other machines have no such file; of their tasks it is known which are finished.

Touches: one file outside of the table, in the folder for temporary files; it goes with the driver's `with` block.
Keeps:   1. the counters of a task never go down for the driver, whatever a second attempt of it begins with;
         2. a file that cannot be made, written or read costs the numbers, and never the work;
         3. a task writes its place at most once in `WRITE_SECONDS`, and at its end.
See:     docs/decisions/0101-progress-within-a-file-slice.md
"""

from __future__ import annotations

import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Self, cast
from zlib import crc32

from lakeward.storage.first_reads import FirstReads
from lakeward.storage.storage import Storage

WRITE_SECONDS = 0.25

_COUNTERS = struct.Struct("<3Q")
_CHECKSUM = struct.Struct("<Q")
_PLACE_BYTES = _COUNTERS.size + _CHECKSUM.size


@dataclass(frozen=True, slots=True)
class Counters:
    """What one task did, or all of them together."""

    read_bytes: int = 0
    """Bytes of its input that it has read."""
    written_bytes: int = 0
    """Bytes that it wrote, before anybody can see them."""
    verified_bytes: int = 0
    """Bytes of these that it has read back."""

    def __add__(self, other: Counters) -> Counters:
        return Counters(
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
            self.verified_bytes + other.verified_bytes,
        )

    def at_least(self, other: Counters) -> Counters:
        return Counters(
            max(self.read_bytes, other.read_bytes),
            max(self.written_bytes, other.written_bytes),
            max(self.verified_bytes, other.verified_bytes),
        )


@dataclass(frozen=True, slots=True)
class CounterPlace:
    """The place of a task's counters; travels in its spec."""

    path: str
    index: int


class WorkCounters:
    """The driver's side. A context manager: at its end the file goes."""

    def __init__(self, number: int, *, on_this_machine: bool) -> None:
        """
        Args:
            number: of tasks.
            on_this_machine: whether the tasks see the file; it is made for no others.
        """
        self._seen = [Counters()] * number
        self._path: str | None = None
        if on_this_machine:
            with suppress(OSError):
                descriptor, self._path = tempfile.mkstemp(prefix="lakeward-progress-")
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._path is not None:
            with suppress(OSError):
                os.unlink(self._path)

    @property
    def are_kept(self) -> bool:
        """Whether there are any to read."""
        return self._path is not None

    def place(self, index: int) -> CounterPlace | None:
        """The place of a task; None where there is no file."""
        return None if self._path is None else CounterPlace(self._path, index)

    def total(self) -> Counters:
        """What all tasks did so far."""
        if self._path is not None:
            with suppress(OSError), open(self._path, "rb") as file:
                data = file.read()
                for index in range(min(len(self._seen), len(data) // _PLACE_BYTES)):
                    self._seen[index] = _parse(data, index).at_least(self._seen[index])
        return sum(self._seen, Counters())


class WorkMeter:
    """The task's side: what it reads, writes and reads back goes through it. From any thread."""

    def __init__(
        self,
        place: CounterPlace | None,
        *,
        read_bytes_max: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            place: None where no driver looks; then nothing is counted.
            read_bytes_max: the size of its input, of which logs that are not merged are no part; None where it reads
                some columns, and how much that is is not known before.
        """
        self._place = place
        self._read_bytes_max = read_bytes_max
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counts = [0, 0, 0]
        self._quiet_until = 0.0

    def reading(self, storage: Storage) -> Storage:
        """The storage, for what the task takes in."""
        return storage if self._place is None else FirstReads(storage, on_first=lambda size: self._add(0, size))

    def writing(self, sink: BinaryIO) -> BinaryIO:
        """The sink, for what it makes."""
        if self._place is None:
            return sink
        return cast(BinaryIO, _CountedSink(sink, lambda size: self._add(1, size)))

    def checking(self, storage: Storage) -> Storage:
        """The storage, for what it reads back."""
        return storage if self._place is None else FirstReads(storage, on_first=lambda size: self._add(2, size))

    def finish(self) -> None:
        """Say the last figures. All of an input whose size is known was read; what was left unread is not missing."""
        self._add(0, self._read_bytes_max or 0, at_once=True)

    def _add(self, which: int, size: int, *, at_once: bool = False) -> None:
        if self._place is None:
            return
        with self._lock:
            self._counts[which] += size
            now = self._monotonic()
            if now < self._quiet_until and not at_once:
                return
            self._quiet_until = now + WRITE_SECONDS
            read, written, checked = self._counts
            # Reading back a log looks at the heads of those beside it.
            self._write(self._place, Counters(self._capped(read), written, min(checked, written)))

    def _capped(self, read_bytes: int) -> int:
        return read_bytes if self._read_bytes_max is None else min(read_bytes, self._read_bytes_max)

    def _write(self, place: CounterPlace, counters: Counters) -> None:
        with suppress(OSError):
            # Not created where it is gone: then its driver is, too.
            descriptor = os.open(place.path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.pwrite(descriptor, _format(counters), place.index * _PLACE_BYTES)
            finally:
                os.close(descriptor)


def _format(counters: Counters) -> bytes:
    data = _COUNTERS.pack(counters.read_bytes, counters.written_bytes, counters.verified_bytes)
    return data + _CHECKSUM.pack(crc32(data))


def _parse(data: bytes, index: int) -> Counters:
    """Nothing where the task has not written, or was just writing."""
    start = index * _PLACE_BYTES
    counters = data[start : start + _COUNTERS.size]
    (checksum,) = _CHECKSUM.unpack_from(data, start + _COUNTERS.size)
    return Counters(*_COUNTERS.unpack(counters)) if checksum == crc32(counters) else Counters()


class _CountedSink:
    """The sink below, which stays its opener's to close."""

    def __init__(self, sink: BinaryIO, on_write: Callable[[int], None]) -> None:
        self._sink = sink
        self._on_write = on_write

    def write(self, data: bytes) -> int:
        written = self._sink.write(data)
        self._on_write(written)
        return written

    def tell(self) -> int:
        return self._sink.tell()

    def flush(self) -> None:
        self._sink.flush()
