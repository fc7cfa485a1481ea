"""Hudi's 64-bit hash of a name: what stands for a partition or a column in keys, and for a base path in lock paths.

Touches: nothing.
Keeps:   equal text gives the eight bytes that every Hudi release gives it.
"""

from __future__ import annotations

import xxhash

_SEED = 0xFFFFFFFFDABADABA
"""The int 0xdabadaba with its sign, as a long."""


def hash_id(text: str) -> bytes:
    """Eight bytes, big-endian."""
    return xxhash.xxh64_digest(text.encode("utf-8"), seed=_SEED)
