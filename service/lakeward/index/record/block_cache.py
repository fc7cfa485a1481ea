"""Decoded data blocks and filters that lookups have at hand, in a bounded number of bytes; what was not asked for the
longest goes first.

Touches: nothing.
Keeps:   no more bytes are held than the bound, and nothing larger than it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
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
        with self._lock:
            found = self._held.get((file, number))
            if found is None:
                self.misses += 1
                return None
            self._held.move_to_end((file, number))
            self.hits += 1
            return found

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
