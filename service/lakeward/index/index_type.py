"""The types of indexes, by which an operator and a write name one.

    simple         keys of the newest base files: a write looks in the partitions that its rows come for
    global_simple  the same, in all partitions
    bloom          as simple, of the files whose ranges and filters of keys leave a key possible
    global_bloom   the same, in all partitions
    bucket         the hash of the key: a partition has as many file groups as it has buckets
    metadata       the record index that Hudi keeps in the metadata table
    record         hash buckets of Lakeward below the table, RFC-08's, which says itself how far a key is unique
    postgres       entries of Lakeward in a PostgreSQL database, which says itself how far a key is unique
    hbase          the entries that Hudi's writers before 1.1 keep in HBase; read, and not written by

A lookup says itself in which partitions it looks, and a hash finds no row: so lookups have six of the types.

Touches: nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, get_args

INDEX_NAME: Final = "keys"
"""A table has one index in a database, of this name,"""
REBUILT_NAME: Final = "keys.rebuilt"
"""and while it is rebuilt beside that, another one."""


class IndexType(StrEnum):
    SIMPLE = "simple"
    GLOBAL_SIMPLE = "global_simple"
    BLOOM = "bloom"
    GLOBAL_BLOOM = "global_bloom"
    BUCKET = "bucket"
    METADATA = "metadata"
    RECORD = "record"
    POSTGRES = "postgres"
    HBASE = "hbase"

    @property
    def is_global(self) -> bool:
        """Whether a key is one in all of the table, whatever the index says of itself."""
        return self in (IndexType.GLOBAL_SIMPLE, IndexType.GLOBAL_BLOOM, IndexType.METADATA, IndexType.HBASE)

    @property
    def has_filters(self) -> bool:
        return self in (IndexType.BLOOM, IndexType.GLOBAL_BLOOM)

    @property
    def finds_keys_in_base_files(self) -> bool:
        return self in (IndexType.SIMPLE, IndexType.GLOBAL_SIMPLE) or self.has_filters

    @property
    def is_own(self) -> bool:
        """One of Lakeward's, which follows its table, and learns of each write that uses it."""
        return self in OWN_TYPES

    @property
    def is_kept(self) -> bool:
        """Lakeward brings it up to date: one of its own, or the cache of filters."""
        return self.is_own or self is IndexType.BLOOM

    @property
    def keeps_places(self) -> bool:
        """Whether it has a place for each key, wherever its row is, so that it finds keys that are in logs alone."""
        return self in (IndexType.METADATA, IndexType.HBASE) or self.is_own


LookupType = Literal[
    IndexType.SIMPLE, IndexType.BLOOM, IndexType.METADATA, IndexType.RECORD, IndexType.POSTGRES, IndexType.HBASE
]
"""The types that answer where a key is, whichever write asks."""
LOOKUP_TYPES: Final[tuple[LookupType, ...]] = get_args(LookupType)
OWN_TYPES: Final[tuple[LookupType, ...]] = (IndexType.RECORD, IndexType.POSTGRES)


def lookup_type(name: str) -> LookupType:
    """The type of this name. Raises `ValueError` for one that answers no lookups."""
    for each in LOOKUP_TYPES:
        if each == name:
            return each
    raise ValueError(f"{str(name)!r} is not one of {', '.join(repr(each.value) for each in LOOKUP_TYPES)}.")
