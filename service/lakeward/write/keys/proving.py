"""A key generator that is proved by rows of the table: their keys and paths are made again, and must be the same.

Some of what writers use no property says: whether COMPLEX names one field, how timestamps in keys are written (Hudi's
bulk_insert does it otherwise than its upsert), in which zone times become partitions, a parser of one's own. A writer
who makes another key of a row gives it a second life, which no error tells.

A row may lie in another partition than its columns say, where an index is global and rows do not move. So it is enough
that the path of one row is right, but for partitions of times: in another zone most hours are in the same day.

Touches: nothing.
Keeps:   1. a generator whose keys are not those of the rows is refused, with a row that shows it;
         2. so is one whose paths are not, as far as rows can tell.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Refused, UsageError
from lakeward.table.table_config import TableConfig
from lakeward.write.keyed_rows import PARTITION_PATH, RECORD_KEY
from lakeward.write.keys.key_generator import KeyGenerator, has_two_forms, key_generator, names_its_field


def prove_key_generator(
    config: TableConfig, rows: Sequence[pa.RecordBatch], *, writers_zone: datetime.tzinfo | None = None
) -> KeyGenerator:
    """The table's key generator. Raises `Refused`.

    Args:
        rows: some that the table has, with their keys, paths, and those of the columns which keys and paths are made of
            that are in its files; none where it has no row.
        writers_zone: see `key_generator`.
    """
    names_single_field = None
    if has_two_forms(config):
        keys = (key for batch in rows for key in batch.column(RECORD_KEY).to_pylist())
        names_single_field = names_its_field(keys, config.record_key_fields[0])
    generator = key_generator(config, names_single_field=names_single_field, writers_zone=writers_zone)
    for batch in rows:
        _check(generator, batch)
    return generator


def _check(generator: KeyGenerator, batch: pa.RecordBatch) -> None:
    if not generator.columns <= {*batch.schema.names}:
        generator = replace(generator, partition_fields=(), timestamps=None)  # files without partition columns
        if not generator.columns <= {*batch.schema.names}:
            return
    try:
        keys, paths = generator.keys(batch)
    except UsageError:
        return  # a row of which none would be made now proves nothing
    is_other = pc.not_equal(keys, batch.column(RECORD_KEY))
    if pc.any(is_other).as_py():
        raise _differs("record keys", batch.column(RECORD_KEY), keys, is_other)
    if generator.partition_fields:
        is_other = pc.not_equal(paths, batch.column(PARTITION_PATH))
        if (pc.any if generator.timestamps is not None else pc.all)(is_other).as_py():
            raise _differs("partition paths", batch.column(PARTITION_PATH), paths, is_other)


def _differs(what: str, there: pa.Array, ours: pa.Array, is_other: pa.Array) -> Refused:
    at = pc.index(is_other, pa.scalar(True)).as_py()
    return Refused(
        f"The table's {what} are not made as its properties say.",
        why=f"A row has {there[at].as_py()!r}, and by hoodie.properties it would be {ours[at].as_py()!r}: its writers "
        "have options that are not recorded there, or other classes. A row of it would get a second copy.",
        remedy="Write this table with the writers that it has. Of partitions by times, say the writers' time zone with "
        "--timezone.",
    )
