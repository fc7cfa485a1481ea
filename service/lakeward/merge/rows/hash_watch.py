"""Which of any number of hashes were seen more than once.

Hashes are collected, eight bytes each. Beyond the budget they are sorted and go to a file; in the end each part of the
range of hashes, which are spread evenly over it, is brought together from all files and sorted once more.

Touches: temporary files without names, outside of the table.
Keeps:   1. `repeats` are exactly the hashes that were added more than once;
         2. no more than twice the budget is held, and what came last.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from typing import IO

import numpy as np
import numpy.typing as npt

from lakeward.merge.rows.spill_file import SPILL_PREFIX, spilling

_PARTS = 256
_WIDTH = 8

Hashes = npt.NDArray[np.uint64]


class HashWatch:
    """`add` hashes, then ask for `repeats`; close it afterwards."""

    def __init__(self, *, memory_bytes: int, folder: str | None = None) -> None:
        self._memory_bytes = memory_bytes
        self._folder = folder
        self._held: list[Hashes] = []
        self._held_bytes = 0
        self._files: list[tuple[IO[bytes], npt.NDArray[np.int64]]] = []

    def add(self, hashes: Hashes) -> None:
        self._held.append(hashes)
        self._held_bytes += hashes.nbytes
        if self._held_bytes > self._memory_bytes:
            self._spill()

    def repeats(self) -> Hashes:
        """Each hash once that was added more than once, ascending. Raises `SpillFailed`, as `add` does."""
        if not self._files:
            return _repeats(self._sorted())
        self._spill()
        total = sum(int(bounds[-1]) for _, bounds in self._files) * _WIDTH
        at_once = max(1, _PARTS * self._memory_bytes // max(1, total))
        found = [
            _repeats(np.sort(np.concatenate([_read(file, bounds, first, at_once) for file, bounds in self._files])))
            for first in range(0, _PARTS, at_once)
        ]
        return np.concatenate(found)

    def close(self) -> None:
        for file, _ in self._files:
            with suppress(OSError):  # what could not be written is tried once more
                file.close()

    def _spill(self) -> None:
        hashes = self._sorted()
        starts = np.arange(_PARTS, dtype=np.uint64) << np.uint64(56)
        with spilling("hashes of the base file's keys", self._folder):
            file = tempfile.TemporaryFile(prefix=SPILL_PREFIX, dir=self._folder)  # noqa: SIM115 - closed by `close`
            self._files.append((file, np.append(np.searchsorted(hashes, starts), len(hashes))))
            file.write(hashes.data)
            file.flush()

    def _sorted(self) -> Hashes:
        hashes = np.concatenate(self._held) if self._held else np.zeros(0, dtype=np.uint64)
        self._held, self._held_bytes = [], 0
        hashes.sort()
        return hashes


def _read(file: IO[bytes], bounds: npt.NDArray[np.int64], first: int, parts: int) -> Hashes:
    start, end = int(bounds[first]), int(bounds[min(first + parts, _PARTS)])
    file.seek(start * _WIDTH)
    return np.frombuffer(file.read((end - start) * _WIDTH), dtype=np.uint64)


def _repeats(hashes: Hashes) -> Hashes:
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
