"""Words that keys of the configuration and options of commands take.

Touches: nothing.
"""

from __future__ import annotations

from enum import StrEnum


class Codec(StrEnum):
    """How new base files are compressed."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    NONE = "none"


class ForeignServices(StrEnum):
    """What to do where another service works on the table too, inline in a writer or as a job beside it."""

    SHADOW = "shadow"
    SHARE = "share"


class LockProvider(StrEnum):
    """What keeps the lock that a table's writers share."""

    FILESYSTEM = "filesystem"
    STORAGE = "storage"
    ZOOKEEPER = "zookeeper"
