"""The types of indexes, by which an operator names one.

    simple      keys of the newest base files
    bloom       the same, of the files whose ranges and filters of keys leave a key possible
    metadata    the record index that Hudi keeps in the metadata table
    record      hash buckets of Lakeward below the table, RFC-08's
    postgres    entries of Lakeward in a PostgreSQL database

Touches: nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

INDEX_NAME: Final = "keys"
"""A table has one index in a database, of this name,"""
REBUILT_NAME: Final = "keys.rebuilt"
"""and while it is rebuilt beside that, another one."""


class IndexType(StrEnum):
    SIMPLE = "simple"
    BLOOM = "bloom"
    METADATA = "metadata"
    RECORD = "record"
    POSTGRES = "postgres"

    @property
    def is_own(self) -> bool:
        """One of Lakeward's, which follows its table."""
        return self in OWN_TYPES

    @property
    def is_kept(self) -> bool:
        """Lakeward brings it up to date: one of its own, or the cache of filters."""
        return self.is_own or self is IndexType.BLOOM


OWN_TYPES: Final = (IndexType.RECORD, IndexType.POSTGRES)
