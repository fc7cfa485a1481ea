"""The kinds of table that the interop suite runs through, as text: one line, one table.

The ten of `NARROW` hold every pair of values of every two columns (a test says so); `WIDE` adds fourteen more for
`make interop`. MEMORY is Hudi's in-memory index, the one Spark index whose inserts go to logs, as Flink's do: its
groups have no base file until they are compacted.

What is left out, because Hudi 1.2.0 itself goes wrong there: soft deletes with MEMORY and event time (it forgets a key
even when the delete comes too late, and the key comes to lie in two groups); soft deletes with a date as ordering field
(the write fails); a string as ordering field with Parquet logs (each row is compared by the ordering value of the last
row of its block).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Case:
    index: str
    layout: str
    """flat, hive (part=v), or encoded (values with blanks, slashes and accents, URL-encoded)."""
    history: str
    """fresh, compacted (Hudi compacted it before), or pending (Hudi left a compaction plan that nobody has run)."""
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

    FREE: ClassVar[tuple[str, ...]] = ("ordering_type",)

    def __str__(self) -> str:
        return "-".join(getattr(self, column.name) for column in fields(self))


def _cases(text: str) -> tuple[Case, ...]:
    return tuple(Case(*line.split()) for line in text.strip().splitlines())


NARROW = _cases("""
    SIMPLE  flat     fresh      commit  parquet  single     all  bulk_insert  soft  yes  bigint
    SIMPLE  hive     compacted  commit  parquet  composite  all  insert       hard  no   bigint
    SIMPLE  encoded  pending    event   avro     single     few  insert       hard  yes  timestamp
    BLOOM   flat     compacted  event   avro     single     few  insert       soft  yes  string
    BLOOM   hive     pending    event   parquet  composite  all  bulk_insert  soft  yes  int
    BLOOM   encoded  fresh      commit  avro     composite  all  bulk_insert  hard  no   bigint
    BUCKET  flat     pending    commit  avro     composite  all  insert       hard  no   bigint
    BUCKET  hive     fresh      event   avro     single     few  insert       soft  no   bigint
    BUCKET  encoded  compacted  commit  parquet  composite  few  bulk_insert  soft  yes  bigint
    MEMORY  hive     pending    commit  avro     composite  all  insert       soft  yes  bigint
""")

WIDE = _cases("""
    SIMPLE  flat     fresh      event   avro     single     all  insert       hard  no   bigint
    SIMPLE  flat     pending    event   parquet  composite  all  bulk_insert  soft  yes  decimal(10,2)
    SIMPLE  hive     fresh      event   avro     composite  all  insert       hard  yes  date
    SIMPLE  encoded  compacted  event   parquet  single     all  bulk_insert  soft  no   double
    BLOOM   flat     fresh      commit  parquet  composite  few  insert       soft  no   bigint
    BLOOM   flat     pending    event   avro     single     all  insert       hard  yes  timestamp
    BLOOM   hive     compacted  event   parquet  single     all  bulk_insert  hard  yes  bigint
    BLOOM   encoded  pending    event   avro     composite  all  insert       soft  no   float
    BUCKET  flat     compacted  event   parquet  single     all  insert       soft  yes  int
    BUCKET  flat     fresh      event   avro     composite  all  bulk_insert  hard  yes  string
    BUCKET  hive     pending    event   parquet  single     all  insert       hard  no   timestamp_ntz
    BUCKET  encoded  fresh      event   avro     single     all  insert       hard  yes  date
    MEMORY  flat     fresh      event   avro     single     all  insert       hard  no   bigint
    MEMORY  encoded  compacted  commit  parquet  single     few  insert       soft  no   string
""")
