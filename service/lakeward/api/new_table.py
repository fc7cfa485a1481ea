"""`lakeward.create_table`: a new table, without rows, as `lakeward table create` makes one.

Touches: the folder of the new table.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, TypeVar

import pyarrow as pa

from lakeward.api.table import Table
from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.format.avro.schema_text import schema_text
from lakeward.protocol.table_birth import create_table as create
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ, NewIndex, NewIndexes, NewTable
from lakeward.table.table_config import COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING, TableConfig
from lakeward.table.table_version import KNOWN, NEWEST_RELEASED, TableVersion
from lakeward.write.keys.key_generator import key_generator

_TYPES = {"mor": MERGE_ON_READ, "cow": COPY_ON_WRITE}
_MODES = {None: None, "event-time": EVENT_TIME_ORDERING, "commit-time": COMMIT_TIME_ORDERING}
_LAYOUTS = ("default", "lsm_tree")
T = TypeVar("T")


def create_table(
    location: str,
    *,
    schema: pa.Schema | str,
    record_key: Sequence[str],
    partition: Sequence[str] = (),
    ordering: Sequence[str] = (),
    merge_mode: Literal["event-time", "commit-time"] | None = None,
    table_type: Literal["mor", "cow"] = "mor",
    version: int = NEWEST_RELEASED,
    layout: Literal["default", "lsm_tree"] = "default",
    name: str | None = None,
    hive_style: bool = False,
    url_encode: bool = False,
    buckets: int | None = None,
    metadata_table: bool = True,
) -> Table:
    """Make a new table, without rows. If it was interrupted, call it again with the same arguments.

    Raises `UsageError`, and `Unsupported` for a type of a column that no table has; nothing was written then.

    Args:
        location: path or URL of a folder that is empty or does not exist.
        schema: the columns, as a schema of Arrow's, each of which may be null where it says so, or as Avro JSON.
        record_key: columns whose values identify a row.
        partition: columns by whose values rows lie in folders; none: the table is not partitioned.
        ordering: columns by which the row with the greatest value wins, of several with one key.
        merge_mode: which of two rows with one key wins; None: event-time where there is `ordering`, else commit-time.
        table_type: merge-on-read or copy-on-write.
        version: 9 is for Hudi 1.1 and later, 8 for Hudi 1.0; 10, which no release of Hudi reads yet, for native logs.
        layout: lsm_tree needs version 10.
        name: of the table; None: the last folder of its path.
        hive_style: partitions are named column=value.
        url_encode: what may not be in a path is escaped in the names of partitions.
        buckets: rows are found by the hash of their key, in so many file groups of each partition.
        metadata_table: make the metadata table too, as Hudi's first write does.
    """
    storage, base_path = open_storage(location)
    table_name = name if name is not None else base_path.rstrip("/").rpartition("/")[2]
    new = NewTable(
        name=table_name,
        schema=schema if isinstance(schema, str) else schema_text(schema, table_name),
        record_key_fields=tuple(record_key),
        partition_fields=tuple(partition),
        ordering_fields=tuple(ordering),
        merge_mode=_MODES[_one_of("merge_mode", merge_mode, _MODES)],
        table_type=_TYPES[_one_of("table_type", table_type, _TYPES)],
        version=_one_of("version", version, [each for each in KNOWN if TableVersion(each).is_writable]),
        hive_style=hive_style,
        url_encode=url_encode,
        indexes=NewIndexes() if buckets is None else NewIndexes(finds_keys=NewIndex.BUCKET, buckets=buckets),
        has_metadata_table=metadata_table,
        is_lsm_tree=_one_of("layout", layout, _LAYOUTS) == "lsm_tree",
    )
    # Refuses now what `Table.write` could not make keys from.
    key_generator(TableConfig(new.properties), names_single_field=True)
    create(storage, base_path, new, clock=SystemClock())
    return Table(location)


def _one_of(what: str, given: T, known: Collection[T]) -> T:
    if given not in known:
        raise UsageError(
            f"{what} cannot be {given!r}.", remedy=f"It is one of {', '.join(repr(each) for each in known)}."
        )
    return given
