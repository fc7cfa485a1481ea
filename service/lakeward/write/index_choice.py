"""The index that a write uses: what was asked for, else what the table says, else what it shows.

    asked, or in the table's properties    that one; both, and another one, is refused as Hudi's writers refuse it
    chosen by `lakeward index tee`         the primary; another one that is asked for is refused
    a record index in the metadata table   metadata
    otherwise                              simple, as for Hudi's writers on Spark

Under an index that is global, a row that comes for another partition than the one that has its key moves there, or not:

    asked, or in the table's properties    that; both, and another one, is refused
    otherwise                              as for Hudi's writers: by the record index it stays, by others it moves;
                                           by an index of Lakeward's as by the record index

Touches: nothing.
Keeps:   1. a table that says its index is never written by another one;
         2. a table that says whether its rows move to other partitions is never written otherwise.
Source:  HoodieIndexConfig (Hudi 1.2)
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.base.errors import Refused, UsageError
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.index.index_type import IndexType, LookupType
from lakeward.table.table_config import (
    MOVES_BY_BLOOM_INDEX,
    MOVES_BY_RECORD_INDEX,
    MOVES_BY_SIMPLE_INDEX,
    RECORD_INDEX_TYPES,
    TableConfig,
)

_TYPES = {
    "SIMPLE": IndexType.SIMPLE,
    "GLOBAL_SIMPLE": IndexType.GLOBAL_SIMPLE,
    "BLOOM": IndexType.BLOOM,
    "GLOBAL_BLOOM": IndexType.GLOBAL_BLOOM,
    "BUCKET": IndexType.BUCKET,
    **dict.fromkeys(RECORD_INDEX_TYPES, IndexType.METADATA),
}
_MOVES = {
    IndexType.GLOBAL_SIMPLE: (MOVES_BY_SIMPLE_INDEX, True),
    IndexType.GLOBAL_BLOOM: (MOVES_BY_BLOOM_INDEX, True),
    IndexType.METADATA: (MOVES_BY_RECORD_INDEX, False),
    IndexType.RECORD: (MOVES_BY_RECORD_INDEX, False),
    IndexType.POSTGRES: (MOVES_BY_RECORD_INDEX, False),
}
"""Hudi's property for each global index, and its default; for one of Lakeward's those of the record index."""


@dataclass(frozen=True, slots=True)
class IndexChoice:
    type: IndexType
    buckets: int | None = None
    bucket_fields: tuple[str, ...] = ()
    moves_rows: bool = False


def choose_index(
    config: TableConfig,
    asked: IndexType | None,
    buckets: int | None,
    bucket_fields: tuple[str, ...],
    moves_rows: bool | None = None,
    *,
    primary: LookupType | None = None,
) -> IndexChoice:
    """Raises `UsageError` where something else was asked than the table says, and `Refused` where it says an index by
    which this release does not write.

    Args:
        primary: what was chosen for the table by `lakeward index tee`.
        moves_rows: rows are to go to the partitions that they come for, or to stay; None: what the table says, else
            what Hudi's writers do.
    """
    if IndexType.HBASE in (asked, primary):
        raise UsageError(
            "`lakeward write` does not use an index in HBase.",
            why="It is read only: Hudi has had no such index since 1.1.",
            remedy="Copy it into one of Lakeward's: `lakeward index migrate TABLE --from hbase --to record`.",
        )
    if asked is None and (buckets is not None or bucket_fields):
        asked = IndexType.BUCKET
    said = None if config.index_type is None else _TYPES.get(config.index_type)
    if config.index_type is not None and said is None:
        raise Refused(
            f"The table's writers find keys by the index {config.index_type}.",
            why=f"This release writes by {', '.join(_TYPES)}.",
            remedy="Write to this table with Hudi.",
        )
    if said is not None and asked not in (None, said):
        raise _other("index", asked=asked, said=said)
    chosen = None if primary is None or said is not None else primary
    if chosen is not None and asked not in (None, chosen):
        raise UsageError(
            f"--index {asked} conflicts with the table's primary index {chosen}.",
            why="With another index the trial of the table's indexes would prove nothing.",
            remedy="Leave the options of the index out; or take the choice back: `lakeward index tee TABLE --forget`.",
        )
    type_ = said or asked or chosen
    if said is IndexType.BUCKET:
        for what, given, its in (
            ("number of buckets", buckets, config.buckets),
            ("fields that are hashed", bucket_fields or None, config.bucket_fields or None),
        ):
            if given is not None and its is not None and given != its:
                raise _other(what, asked=given, said=its)
        buckets, bucket_fields = buckets or config.buckets, bucket_fields or config.bucket_fields
    if type_ is None:
        type_ = IndexType.METADATA if RECORD_INDEX in config.built_metadata_partitions else IndexType.SIMPLE
    return IndexChoice(type_, buckets, bucket_fields, _moves_rows(config, type_, moves_rows))


def _moves_rows(config: TableConfig, type_: IndexType, asked: bool | None) -> bool:
    if type_ not in _MOVES:
        if asked is not None:
            raise UsageError(
                f"Rows are to go to other partitions or to stay, and the index is {type_}.",
                why="This index is not global: it finds keys in one partition only.",
                remedy=f"Leave it out, or name a global index: {', '.join(_MOVES)}.",
            )
        return False
    name, default = _MOVES[type_]
    said = config.is_true(name, default)
    if asked is not None and asked is not said and config.get(name) is not None:
        raise _other(name, asked=asked, said=said)
    return said if asked is None else asked


def _other(what: str, *, asked: object, said: object) -> UsageError:
    return UsageError(
        f"The requested {what} conflicts with the table's own.",
        why=f"The table says {said}, the request {asked}: keys would not be found again.",
        remedy="Leave the options of the index out: the table's own hold.",
    )
