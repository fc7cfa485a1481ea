"""The index that a write goes by: what was asked for, else what the table says, else what it shows.

    asked, or in the table's properties    that one; both, and another one, is refused as Hudi's writers refuse it
    a record index in the metadata table   record
    otherwise                              simple, as for Hudi's writers on Spark

Touches: nothing.
Keeps:   1. a table that says its index is never written by another one;
         2. a table that says that its rows move to other partitions is not written by an index under which ours stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.errors import Refused, UsageError
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.table.table_config import MOVES_ROWS, RECORD_INDEX_TYPES, TableConfig
from lakeward.write.request import IndexKind

_KINDS = {
    "SIMPLE": IndexKind.SIMPLE,
    "BUCKET": IndexKind.BUCKET,
    **dict.fromkeys(RECORD_INDEX_TYPES, IndexKind.RECORD),
}


@dataclass(frozen=True, slots=True)
class IndexChoice:
    kind: IndexKind
    buckets: int | None = None
    bucket_fields: tuple[str, ...] = ()


def choose_index(
    config: TableConfig, asked: IndexKind | None, buckets: int | None, bucket_fields: tuple[str, ...]
) -> IndexChoice:
    """Raises `UsageError` where something else was asked than the table says, and `Refused` where it says an index by
    which this release does not write."""
    if asked is None and (buckets is not None or bucket_fields):
        asked = IndexKind.BUCKET
    said = None if config.index_type is None else _KINDS.get(config.index_type)
    if config.index_type is not None and said is None:
        raise Refused(
            f"The table's writers find keys by the index {config.index_type}.",
            why=f"This release writes by {', '.join(_KINDS)}.",
            remedy="Write to this table with Hudi.",
        )
    if said is not None and asked not in (None, said):
        raise _other("index", asked, said)
    if said is IndexKind.BUCKET:
        for what, given, its in (
            ("number of buckets", buckets, config.buckets),
            ("fields that are hashed", bucket_fields or None, config.bucket_fields or None),
        ):
            if given is not None and its is not None and given != its:
                raise _other(what, given, its)
        return IndexChoice(said, buckets or config.buckets, bucket_fields or config.bucket_fields)
    kind = said or asked
    if kind is None:
        kind = IndexKind.RECORD if RECORD_INDEX in config.built_metadata_partitions else IndexKind.SIMPLE
    if kind is IndexKind.RECORD and config.is_true(MOVES_ROWS):
        raise Refused(
            "The table's rows move to the partitions that they come for; this release leaves them where they are.",
            why=f"{MOVES_ROWS} is true in its properties, and Hudi's writers go by it.",
            remedy="Write to this table with Hudi, or take the property away.",
        )
    return IndexChoice(kind, buckets, bucket_fields)


def _other(what: str, asked: object, said: object) -> UsageError:
    return UsageError(
        f"The table says another {what} than was asked for.",
        why=f"It says {said}, and asked for was {asked}; keys would not be found again.",
        remedy="Leave the options of the index out: the table's own hold.",
    )
