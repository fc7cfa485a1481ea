"""`lakeward table create TABLE`: a new table, which Hudi's writers go on with.

Touches: stdout, stderr; the file with the schema; the new table, through `protocol/table_birth.py`.
Keeps:   nothing is written with --dry-run, nor where there is anything already.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.cli.options.table_creation import IndexArguments, PathArguments, column_names
from lakeward.cli.result import DryRunOption, Result
from lakeward.protocol.table_birth import check_is_free, create_table
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.new_keys import KeyGeneratorKind
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ, NewTable
from lakeward.table.table_config import COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING, TableConfig
from lakeward.write.input.files import read_schema, schema_like
from lakeward.write.keys.key_generator import key_generator


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
    paths: PathArguments,
    given: IndexArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Make a new table, without rows.

    It is as Hudi's Spark writer makes one; what writers say of key, partition and ordering fields, and of an index that
    is named here, must be what is said here, or Hudi refuses them. If the command was interrupted, run it again with
    the same options: an incomplete table does not exist for readers.
    """
    if (schema is None) == (like is None):
        raise UsageError("The table's columns are missing, or given twice.", remedy="Give one of --schema and --like.")
    storage, base_path = open_storage(table)
    table_name = name if name is not None else base_path.rstrip("/").rpartition("/")[2]
    modes = {None: None, NewMergeMode.EVENT_TIME: EVENT_TIME_ORDERING, NewMergeMode.COMMIT_TIME: COMMIT_TIME_ORDERING}
    new = NewTable(
        name=table_name,
        schema=read_schema(schema) if schema is not None else schema_like(like or Path(), table_name),
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
        indexes=given.indexes,
        has_metadata_table=given.has_metadata_table,
        is_lsm_tree=layout is NewLayout.LSM_TREE,
    )
    # Refuses now what `lakeward write` could not make keys from.
    key_generator(TableConfig(new.properties), names_single_field=True)
    (check_is_free if dry_run else create_table)(storage, base_path, new, clock=SystemClock())
    lines = [f"{'Would make' if dry_run else 'Made'} the table {new.name} in {base_path}."]
    if dry_run:
        lines += [f"  {key}={value}" for key, value in new.properties.items()]
    return Result(
        document={"table": base_path, "name": new.name, "dry_run": dry_run, "properties": new.properties}, lines=lines
    )
