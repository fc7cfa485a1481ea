"""How new base files are compressed.

Touches: nothing.
"""

from __future__ import annotations

from enum import StrEnum


class Codec(StrEnum):
    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    NONE = "none"
