"""Whether a file that is written has grown as large as files should be, without asking its writer all the time.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Callable

_WEIGHINGS = 16
"""At most so often, and as often again as rows shrink by being encoded: each time waits for the encoder."""


class SizeWatch:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._unweighed_bytes = 0

    def add(self, size_bytes: int) -> None:
        """So much was written, before it is encoded."""
        self._unweighed_bytes += size_bytes

    def is_full(self, estimate_size: Callable[[], int]) -> bool:
        """The answer as far as it can be known.

        Args:
            estimate_size: about how many bytes the file would have if it were closed now.
        """
        if self._unweighed_bytes < self._bytes_max // _WEIGHINGS:
            return False
        self._unweighed_bytes = 0
        return estimate_size() >= self._bytes_max
