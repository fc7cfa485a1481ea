"""`lakeward.write.write(dataframe, table, …)`: rows of a data frame into a table, as one commit.

What `lakeward write` does for files, for programs that have their rows in Spark, or in what gives Arrow's stream
(pandas, Polars, DuckDB, a `lakeward.Table`'s scan): the same
journey (`write/whole_write.py`), with everything said by the call. Nothing of a configuration is read.

Touches: the table, through `write/whole_write.py`; the driver of the data frame, which goes on afterwards.
Keeps:   1. nothing is written without a statement about the table's other writers;
         2. a data frame's driver is used as it is, and never stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import pyarrow as pa

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.base.quantities import check_memory
from lakeward.engine.dispatch.local import places_of_machine
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.engine.dispatch.spark_memory import SparkMemory
from lakeward.index.index_type import IndexType
from lakeward.index.record.record_options import RecordOptions
from lakeward.index.tee import read_tee
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.protocol.lock.lock_choice import SHARING_OPTIONS, LockOptions, stopped_writers_options
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.protocol.progress import Observer
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.storage.storage import Storage
from lakeward.storage.storage_of_url import open_storage
from lakeward.write.flow.flow import Flow
from lakeward.write.flow.in_process import InProcessFlow
from lakeward.write.index_choice import choose_index
from lakeward.write.request import CONFLICT_RETRIES, FileSizes, WriteOperation, WriteRequest
from lakeward.write.tagging.tagging_choice import OpenIndex
from lakeward.write.whole_write import WriteReport, write_rows
from lakeward.write.write_start import timeline_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOCK_WAIT_SECONDS = 60.0


class ArrowStream(Protocol):
    """What gives its rows as a stream of Arrow's: pandas from 2.2 on, Polars, DuckDB, `pyarrow.Table`, a scan."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class WriteOptions(TypedDict, total=False):
    """The options of `write`, for callers that hand them on."""

    operation: WriteOperation | str
    writers_stopped: bool
    lock: LockOptions | None
    index: IndexType | str | None
    index_location: str | None
    buckets: int | None
    bucket_fields: Sequence[str]
    update_partition_path: bool | None
    partitions: Sequence[str]
    deduplicate: bool | None
    fill_missing: bool
    commit_metadata: Mapping[str, str] | None
    retries: int
    sizes: FileSizes | None
    verify: bool
    memory_bytes: int
    observer: Observer | None


def write(
    rows: DataFrame | ArrowStream | None,
    table: str,
    *,
    operation: WriteOperation | str = WriteOperation.UPSERT,
    writers_stopped: bool = False,
    lock: LockOptions | None = None,
    index: IndexType | str | None = None,
    index_location: str | None = None,
    buckets: int | None = None,
    bucket_fields: Sequence[str] = (),
    update_partition_path: bool | None = None,
    partitions: Sequence[str] = (),
    deduplicate: bool | None = None,
    fill_missing: bool = False,
    commit_metadata: Mapping[str, str] | None = None,
    retries: int = CONFLICT_RETRIES,
    sizes: FileSizes | None = None,
    verify: bool = True,
    memory_bytes: int = MEMORY_BYTES,
    timezone: str | None = None,
    observer: Observer | None = None,
) -> WriteReport:
    """Write rows into a table, as one commit that Hudi's readers and writers can continue from.

    Raises an error of `lakeward.base.errors`; then nothing of the write is left in the table, but where it says
    otherwise.

    Args:
        rows: a data frame of Spark, which then does the work; or what gives Arrow's stream, as pandas, Polars and
            pyarrow do, whose rows are sorted in the memory of this process; None for delete_partition.
        table: path or URL of the table's base folder.
        writers_stopped: the caller's word that no other writer or table service is at work on the table now.
        lock: how the table is shared with writers that go on. One of the two must be said.
        index: what finds the file group of a key; None for what the table says, was chosen for it (`lakeward index
            tee`) or shows, or bucket with `buckets`. A shadow index is behind by the write.
        index_location: the folder of Lakeward's record indexes, where a configuration says one
            (`[defaults.index.record] location`); None: the table's own is below it.
        buckets: how many a partition has: the number that every writer of the table has.
        bucket_fields: key columns that are hashed; all of them where none is named.
        update_partition_path: whether a row that comes for another partition than the one that has its key goes there,
            by an index that is global; None for what the table says, or Hudi's default for the index.
        partitions: paths of the partitions that delete_partition takes.
        deduplicate: fold rows of one key into one; None: for upsert and delete.
        fill_missing: columns of the table that the rows lack become null.
        commit_metadata: what the commit says beside its schema.
        retries: how often to begin again where another writer wrote to the same file group.
        verify: read every new file back before it is published.
        memory_bytes: peak memory of one task, at least 300 MiB.
        timezone: of the table's instants, where these do not show it.
    """
    storage, base_path = open_storage(table)
    options = CompactionOptions(
        writers_stopped=writers_stopped,
        lock=lock_of(writers_stopped, lock),
        timezone=timezone,
        verify=verify,
        memory_bytes=memory_bytes,
    )
    serviced = ServicedTable.for_one_attempt(
        storage,
        base_path,
        options,
        clock=SystemClock(),
        processes=Processes(),
        observer=observer,
        guard=_never_stopped,
    )
    try:
        check_memory(memory_bytes)
    except ValueError as error:
        raise UsageError("The memory of a task is too small.", why=str(error), remedy="Give more.") from error
    asked = WriteOperation(operation)
    if (rows is None) != (asked is WriteOperation.DELETE_PARTITION):
        raise UsageError(
            f"{asked} takes {'no rows' if rows is not None else 'rows'}.",
            remedy="delete_partition takes `partitions`, and every other operation rows.",
        )
    chosen = choose_index(
        timeline_snapshot(serviced).config,
        None if index is None else IndexType(index),
        buckets,
        tuple(bucket_fields),
        update_partition_path,
        primary=read_tee(storage, base_path).primary,
    )
    request = WriteRequest(
        asked,
        index=chosen.type,
        buckets=chosen.buckets,
        bucket_fields=chosen.bucket_fields,
        moves_rows=chosen.moves_rows,
        deduplicate=deduplicate,
        partitions=tuple(partitions),
        sizes=sizes or FileSizes(),
        fill_missing=fill_missing,
        extra_metadata=commit_metadata or {},
        conflict_retries=retries,
    )
    open_index = None
    if chosen.type is IndexType.RECORD:
        open_index = _record_index(storage, base_path, index_location)
    if rows is None:
        return write_rows(serviced, request, InProcessFlow(storage, ()), None, open_index)
    flow: Flow
    if hasattr(rows, "__arrow_c_stream__") and not hasattr(rows, "sparkSession"):
        stream = pa.RecordBatchReader.from_stream(rows)
        columns, flow = stream.schema, InProcessFlow(storage, stream, memory_bytes=memory_bytes)
    else:
        columns, flow = _on_spark(rows, table, memory_bytes)
    try:
        return write_rows(serviced, request, flow, columns, open_index)
    finally:
        flow.close()


def _record_index(storage: Storage, base_path: str, location: str | None) -> OpenIndex:
    """Opens Lakeward's record index of the table."""
    return partial(RecordIndexWriter.of, storage, folder=RecordOptions(location).folder(base_path))


def _on_spark(frame: Any, table: str, memory_bytes: int) -> tuple[pa.Schema, Flow]:
    """The columns of a data frame, and its rows on its own driver."""
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.types import to_arrow_schema

    from lakeward.write.flow.spark import SparkFlow

    if not isinstance(frame, DataFrame):
        raise UsageError(
            f"The rows are a {type(frame).__module__}.{type(frame).__name__}.",
            why="They must be a data frame of a Spark driver in this process, or give Arrow's stream.",
            remedy="With Spark Connect, collect small inputs as Arrow's (`toArrow`), or write files and give those to "
            "`lakeward write`.",
        )
    memory = SparkMemory.on(places_of_machine(), memory_bytes)
    # It finds the driver that runs here, and does not start one.
    driver = SparkDispatcher(str(frame.sparkSession.sparkContext.master), memory=memory).driver()
    return to_arrow_schema(frame.schema), SparkFlow(driver, table, frame)


def lock_of(writers_stopped: bool, lock: LockOptions | None) -> LockOptions:
    """The lock by what a caller says of the table's other writers. Raises `UsageError` where that is not enough."""
    if writers_stopped == (lock is not None):
        raise UsageError(
            "It is not said how the table's other writers behave, or twice.",
            why="A write beside a writer that does not share its lock can lose that writer's rows; that no writer is "
            "seen proves nothing.",
            remedy="Stop the writers and say `writers_stopped=True`; or give `lock`, the options of the one that all "
            f"of them share, with {', '.join(f'{key}={value}' for key, value in SHARING_OPTIONS.items())}.",
        )
    return lock or stopped_writers_options(wait_seconds=_LOCK_WAIT_SECONDS)


def _never_stopped() -> None:
    """Ctrl-C is an exception in the caller's own thread."""
