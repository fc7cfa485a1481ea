"""Decoded data blocks and filters that lookups have at hand, in a bounded number of bytes; what was not asked for the
longest goes first.

Touches: nothing.
Keeps:   no more bytes are held than the bound, and nothing larger than it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol

CACHE_BYTES: Final = 256 * 1024 * 1024


class Cached(Protocol):
    @property
    def nbytes(self) -> int: ...


class BlockCache:
    """Safe to be shared by threads."""

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self._bytes_max = bytes_max
        self._held: OrderedDict[tuple[str, int], Cached] = OrderedDict()
        self._lock = threading.Lock()
        self.nbytes = 0
        self.hits = 0
        self.misses = 0

    def get(self, file: str, number: int) -> Cached | None:
        return self.get_all(file, [number])[0]

    def get_all(self, file: str, numbers: Sequence[int]) -> list[Cached | None]:
        """What is held of each of these blocks."""
        held, found = self._held, []
        with self._lock:
            for number in numbers:
                key = file, number
                block = held.get(key)
                if block is not None:
                    held.move_to_end(key)
                found.append(block)
            misses = found.count(None)
            self.misses += misses
            self.hits += len(found) - misses
        return found

    def has(self, file: str, numbers: Sequence[int]) -> list[bool]:
        """Which of these blocks are held."""
        with self._lock:
            return [(file, number) in self._held for number in numbers]

    def put(self, file: str, number: int, block: Cached) -> None:
        size = block.nbytes
        with self._lock:
            if size > self._bytes_max or (file, number) in self._held:
                return
            self._held[file, number] = block
            self.nbytes += size
            while self.nbytes > self._bytes_max:
                _, oldest = self._held.popitem(last=False)
                self.nbytes -= oldest.nbytes

    def forget(self, file: str) -> None:
        """Let go of what is held of a file that is gone."""
        with self._lock:
            for key in [key for key in self._held if key[0] == file]:
                self.nbytes -= self._held.pop(key).nbytes
