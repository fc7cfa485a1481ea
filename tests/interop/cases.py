"""The kinds of table that the interop suite runs through, as text: one line, one table.

The seven of `NARROW`, which CI runs, hold every value of every column; with the three of `PAIRS` they hold every pair
of values of every two columns (tests say so). `PAIRS` and the fourteen more of `WIDE` are for `make interop`. MEMORY is
Hudi's in-memory index, the one Spark index whose inserts go to logs, as Flink's do: its groups have no base file until
they are compacted.

What is left out, because Hudi 1.2.0 itself goes wrong there: soft deletes with MEMORY and event time (it forgets a key
even when the delete comes too late, and the key comes to lie in two groups); soft deletes with a date as ordering field
(the write fails); a string as ordering field with Parquet logs (each row is compared by the ordering value of the last
row of its block).

And with the metadata table on: a record index where inserts go to logs (BUCKET, MEMORY: Hudi refuses to write), or
with soft deletes by event time (it forgets a key even when the delete comes too late). Every combination of the
partitions of the metadata table, partitioned record index and secondary index among them, is the matter of
`test_metadata_matrix.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

FILES_ALONE = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"}
STATS = {"hoodie.metadata.enable": "true"}
"""What Hudi's Spark writers do by default: statistics of columns, and of partitions where there are some."""
BLOOMS = {"hoodie.metadata.index.bloom.filter.enable": "true"}
RECORD_INDEX = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
}

METADATA: Mapping[str, Mapping[str, str]] = {
    "off": {},
    "files": FILES_ALONE,
    "stats": STATS,
    "blooms": STATS | BLOOMS,
    "rli": FILES_ALONE | RECORD_INDEX,
    "all": STATS | BLOOMS | RECORD_INDEX,
}
"""The writers' options, by what there is beside the listing of files."""


@dataclass(frozen=True, slots=True)
class Case:
    index: str
    layout: str
    """flat, hive (part=v), or encoded (values with blanks, slashes and accents, URL-encoded)."""
    history: str
    """fresh, compacted (Hudi compacted it before), or pending (Hudi left a compaction plan that has not run)."""
    ordering: str
    log_format: str
    keys: str
    columns: str
    first: str
    deletes: str
    """hard only, or soft too (`_hoodie_is_deleted`)."""
    evolves: str
    """yes: a column is added halfway."""
    ordering_type: str
    metadata: str = "off"
    """off, or which partitions the metadata table has (`METADATA`)."""

    FREE: ClassVar[tuple[str, ...]] = ("ordering_type", "metadata")
    """Columns that need not meet every value of the others; of `metadata`, off and on do."""

    @property
    def has_metadata(self) -> bool:
        return self.metadata != "off"

    def __str__(self) -> str:
        return "-".join(getattr(self, column.name) for column in fields(self))


def _cases(text: str) -> tuple[Case, ...]:
    return tuple(Case(*line.split()) for line in text.strip().splitlines())


NARROW = _cases("""
    SIMPLE  hive     compacted  commit  parquet  composite  all  insert       hard  no   bigint         rli
    SIMPLE  encoded  pending    event   avro     single     few  insert       hard  yes  timestamp      stats
    BLOOM   flat     compacted  event   avro     single     few  insert       soft  yes  string         blooms
    BLOOM   encoded  fresh      commit  avro     composite  all  bulk_insert  hard  no   bigint         all
    BUCKET  hive     fresh      event   avro     single     few  insert       soft  no   bigint         files
    BUCKET  encoded  compacted  commit  parquet  composite  few  bulk_insert  soft  yes  bigint         off
    MEMORY  hive     pending    commit  avro     composite  all  insert       soft  yes  bigint         off
""")

PAIRS = _cases("""
    SIMPLE  flat     fresh      commit  parquet  single     all  bulk_insert  soft  yes  bigint         off
    BLOOM   hive     pending    event   parquet  composite  all  bulk_insert  soft  yes  int            off
    BUCKET  flat     pending    commit  avro     composite  all  insert       hard  no   bigint         off
""")

WIDE = _cases("""
    SIMPLE  flat     fresh      event   avro     single     all  insert       hard  no   bigint         blooms
    SIMPLE  flat     pending    event   parquet  composite  all  bulk_insert  soft  yes  decimal(10,2)  blooms
    SIMPLE  hive     fresh      event   avro     composite  all  insert       hard  yes  date           stats
    SIMPLE  encoded  compacted  event   parquet  single     all  bulk_insert  soft  no   double         files
    BLOOM   flat     fresh      commit  parquet  composite  few  insert       soft  no   bigint         all
    BLOOM   flat     pending    event   avro     single     all  insert       hard  yes  timestamp      stats
    BLOOM   hive     compacted  event   parquet  single     all  bulk_insert  hard  yes  bigint         stats
    BLOOM   encoded  pending    event   avro     composite  all  insert       soft  no   float          blooms
    BUCKET  flat     compacted  event   parquet  single     all  insert       soft  yes  int            stats
    BUCKET  flat     fresh      event   avro     composite  all  bulk_insert  hard  yes  string         blooms
    BUCKET  hive     pending    event   parquet  single     all  insert       hard  no   timestamp_ntz  files
    BUCKET  encoded  fresh      event   avro     single     all  insert       hard  yes  date           off
    MEMORY  flat     fresh      event   avro     single     all  insert       hard  no   bigint         stats
    MEMORY  encoded  compacted  commit  parquet  single     few  insert       soft  no   string         files
""")
