"""`lakeward table create TABLE`: a new table, which Hudi's writers go on with.

Touches: stdout, stderr; the file with the schema; the new table, through `protocol/table_birth.py`.
Keeps:   nothing is written with --dry-run, nor where there is anything already.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import LakewardError, UsageError
from lakeward.cli.options.new_table import StatedIndexes, StatedPaths, column_names
from lakeward.cli.result import Result
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.avro.schema_text import schema_text
from lakeward.format.parquet.columns import read_columns
from lakeward.protocol.table_birth import TableThere, check_is_free, create_table
from lakeward.storage.storage import Storage, join
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.new_keys import KeyGeneratorKind
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ, NewTable
from lakeward.table.snapshot import take_snapshot
from lakeward.table.table_config import COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING, TableConfig
from lakeward.write.keys.key_generator import key_generator

FOOTERS_MAX = 1000
"""Base files whose rows are counted for a message."""


class NewTableType(StrEnum):
    MOR = "mor"
    COW = "cow"


class NewMergeMode(StrEnum):
    EVENT_TIME = "event-time"
    COMMIT_TIME = "commit-time"


class NewVersion(StrEnum):
    V8 = "8"
    V9 = "9"
    V10 = "10"


class NewLayout(StrEnum):
    DEFAULT = "default"
    LSM_TREE = "lsm_tree"


def create(
    *,
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="Base path or URL: a folder that is empty or does not exist.")
    ],
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The columns, as an Avro schema of type record in JSON.")
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The columns of this Parquet file, each of which may be null."),
    ] = None,
    record_key: Annotated[str, typer.Option(metavar="COLUMNS", help="Record key columns, comma-separated.")],
    partition: Annotated[
        str,
        typer.Option(
            metavar="COLUMNS", help="Partition columns, comma-separated; without them the table is not partitioned."
        ),
    ] = "",
    ordering: Annotated[
        str,
        typer.Option(metavar="COLUMNS", help="Ordering columns: with event-time the row with the greatest value wins."),
    ] = "",
    merge_mode: Annotated[
        NewMergeMode | None,
        typer.Option(help="Which of two rows of a key wins; event-time where --ordering is given, else commit-time."),
    ] = None,
    table_type: Annotated[
        NewTableType, typer.Option("--type", help="Merge-on-read or copy-on-write.")
    ] = NewTableType.MOR,
    table_version: Annotated[
        NewVersion,
        typer.Option(
            help="9 is for Hudi 1.1 and later, 8 for Hudi 1.0, whose later releases upgrade it; 10, whose logs are "
            "files of the base files' format, is for releases to come: none reads it yet."
        ),
    ] = NewVersion.V9,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the table; by default the last folder of its path.")
    ] = None,
    layout: Annotated[
        NewLayout,
        typer.Option(help="How file groups are merged; lsm_tree, by the order of their files, needs version 10."),
    ] = NewLayout.DEFAULT,
    paths: StatedPaths,
    stated: StatedIndexes,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Dry run: show its properties, write nothing.")] = False,
) -> Result:
    """Make a new table, without rows.

    It is as Hudi's Spark writer makes one; what writers say of key, partition and ordering fields, and of an index that
    is named here, must be what is said here, or Hudi refuses them. If the command was interrupted, run it again with
    the same options: an incomplete table does not exist for readers.
    """
    storage, base_path = open_storage(table)
    table_name = name if name is not None else base_path.rstrip("/").rpartition("/")[2]
    modes = {None: None, NewMergeMode.EVENT_TIME: EVENT_TIME_ORDERING, NewMergeMode.COMMIT_TIME: COMMIT_TIME_ORDERING}
    new = NewTable(
        name=table_name,
        schema=_read_schema(schema, like, table_name),
        record_key_fields=column_names(record_key),
        partition_fields=column_names(partition),
        ordering_fields=column_names(ordering),
        merge_mode=modes[merge_mode],
        table_type=MERGE_ON_READ if table_type is NewTableType.MOR else COPY_ON_WRITE,
        version=int(table_version),
        hive_style=paths.hive_style,
        url_encode=paths.url_encode,
        slash_dates=paths.slash_dates,
        key_generator_kind=KeyGeneratorKind[paths.key_generator.name] if paths.key_generator is not None else None,
        timestamps=paths.timestamps,
        indexes=stated.indexes,
        has_metadata_table=stated.has_metadata_table,
        is_lsm_tree=layout is NewLayout.LSM_TREE,
    )
    # Refuses now what `lakeward write` could not make keys from.
    key_generator(TableConfig(new.properties), names_single_field=True)
    try:
        if dry_run:
            check_is_free(storage, base_path, new, clock=SystemClock())
        else:
            create_table(storage, base_path, new, clock=SystemClock())
    except TableThere as there:
        there.add_note(_rows_of(storage, base_path))
        raise
    lines = [f"{'Would make' if dry_run else 'Made'} the table {new.name} in {base_path}."]
    if dry_run:
        lines += [f"  {key}={value}" for key, value in new.properties.items()]
    return Result(
        document={"table": base_path, "name": new.name, "dry_run": dry_run, "properties": new.properties}, lines=lines
    )


def _rows_of(storage: Storage, base_path: str) -> str:
    """What an existing table holds, by the footers of its newest base files."""
    rows = 0
    try:
        slices = take_snapshot(storage, base_path, clock=SystemClock()).latest_slices
        bases = [slice_.base_file for slice_ in slices if slice_.base_file is not None]
        for base in bases[:FOOTERS_MAX]:
            with storage.open_input(join(base_path, base.path)) as file:
                rows += int(pq.read_metadata(file).num_rows)
    except (LakewardError, OSError, pa.ArrowException) as error:
        return f"How many rows it has cannot be read: {error}"
    logs = sum(len(slice_.row_logs) for slice_ in slices)
    more = "more than " if len(bases) > FOOTERS_MAX else ""
    beside = f", and {logs:,} logs that are not merged" if logs else ""
    return f"It has {more}{rows:,} rows in {len(bases):,} base files{beside}."


def _read_schema(schema: Path | None, like: Path | None, table_name: str) -> str:
    """The Avro JSON of the table's rows. Raises `UsageError`, and `Unsupported` for a type that no table has."""
    if (schema is None) == (like is None):
        raise UsageError("The table's columns are missing, or given twice.", remedy="Give one of --schema and --like.")
    try:
        if schema is not None:
            return json.dumps(json.loads(schema.read_bytes()), separators=(",", ":"))
        assert like is not None
        of_file = read_columns(like)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UsageError(
            f"{schema or like} has no schema to read.",
            why=f"{error}.",
            remedy="Give a file of Avro JSON with --schema, or a Parquet file with --like.",
        ) from error
    fields = [field for field in of_file if field.name not in META_COLUMNS]
    return schema_text(pa.schema(fields), table_name)
