"""Writes of rows in this process: to golden tables, and to tables of our own making."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeward.base.clock import Clock
from lakeward.format.avro.schema_text import schema_text
from lakeward.index.index_type import IndexType
from lakeward.protocol.owner import Processes
from lakeward.protocol.table_birth import create_table
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.new_table import MERGE_ON_READ, NewTable
from lakeward.write.flow.in_process import InProcessFlow
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.tagging.tagging_choice import OpenIndex
from lakeward.write.whole_write import WriteReport, write_rows
from tests.clocks import SkippingClock
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table

COLUMNS = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("v", pa.string())])
"""The columns of tables of our own making."""

Row = tuple[str, int, str, str | None]

BUCKETS = {"index": IndexType.BUCKET, "buckets": 2}


def new_table(path: Path, storage: Storage | None = None, **changes: Any) -> Path:
    """An empty table of `COLUMNS`, partitioned, whose rows are merged by event time."""
    said: dict[str, Any] = {
        "name": "t",
        "schema": schema_text(COLUMNS, "t"),
        "record_key_fields": ("id",),
        "partition_fields": ("part",),
        "ordering_fields": ("ts",),
        "table_type": MERGE_ON_READ,
    }
    create_table(storage or LocalStorage(), str(path), NewTable(**(said | changes)), clock=SkippingClock())
    return path


def rows_of(rows: Sequence[tuple[object, ...]], columns: pa.Schema = COLUMNS) -> pa.RecordBatch:
    values = [list(each) for each in zip(*rows, strict=True)] or [[] for _ in columns]
    return pa.RecordBatch.from_arrays(
        [pa.array(value, field.type) for value, field in zip(values, columns, strict=True)], schema=columns
    )


def write(
    base: Path | str,
    batch: pa.RecordBatch | Sequence[Row],
    operation: str = "upsert",
    *,
    storage: Storage | None = None,
    processes: Processes | None = None,
    options: dict[str, object] | None = None,
    clock: Clock | None = None,
    open_index: OpenIndex | None = None,
    shadow: OpenIndex | None = None,
    **request: Any,
) -> WriteReport:
    """One write of these rows."""
    rows = batch if isinstance(batch, pa.RecordBatch) else rows_of(batch)
    at = storage or LocalStorage()
    table = serviced_table(str(base), at, processes or ScriptedProcesses(), **(options or {}))
    table = replace(table, clock=clock or table.clock)
    flow = InProcessFlow(at, [rows])
    return write_rows(table, WriteRequest(WriteOperation(operation), **request), flow, rows.schema, open_index, shadow)


def values(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The column `v` by key."""
    return {row["id"]: row["v"] for row in rows}
