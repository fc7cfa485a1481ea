"""What keeps the lock that a table's writers share.

Touches: nothing.
"""

from __future__ import annotations

from enum import StrEnum


class LockProvider(StrEnum):
    FILESYSTEM = "filesystem"
    STORAGE = "storage"
    ZOOKEEPER = "zookeeper"
