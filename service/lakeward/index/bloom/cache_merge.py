"""Which files of the cache of filters are rewritten when it is brought up to date: few files, and little in them
that is gone.

    no base file of it is there     it is left out
    half of them are gone           what is left is rewritten
    more than `SMALL_MAX` small     all small ones become one, or as many as fit

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.index.bloom.cache_file import CacheFile

FILE_BYTES: Final = 64 * 1024**2
"""Filters that one file has; it is put together in memory."""
SMALL_BYTES: Final = FILE_BYTES // 4
SMALL_MAX: Final = 8
GONE_SHARE_MAX: Final = 0.5


def files_to_replace(live: Mapping[CacheFile, int]) -> set[CacheFile]:
    """
    Args:
        live: the files of the cache, and of how many entries in each the base file is there.
    """
    chosen = {file for file, left in live.items() if left <= file.entries * GONE_SHARE_MAX}
    small = [file for file in live if file not in chosen and file.size < SMALL_BYTES]
    return chosen | set(small) if len(small) > SMALL_MAX else chosen
