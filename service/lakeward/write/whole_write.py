"""One write, from its rows to its commit: what `lakeward write` and `lakeward.write.write` both do.

    the rows' columns are held against the table's -> a write begins -> the life cycle of `protocol/life_cycle.py` runs
    it -> where it met another write, and was asked to, it begins again with a new instant

Touches: the table and an index of Lakeward, through `write/write_start.py` and `write/write_run.py`.
Keeps:   1. rows that the table cannot take are refused before anything is written;
         2. a write that met another one leaves nothing, and begins again as often as it was asked to, no more;
         3. the columns of a table that has commits are never guessed from the rows that come;
         4. no delete without ordering values goes into a native log of a table with several ordering fields;
         5. no file of a table of the layout `lsm_tree` is asked to hold a key twice;
         6. what a caller says in the commit takes the place of nothing that Hudi or Lakeward says there;
         7. while a commit that doubled keys of logs is not put right, no rows are brought beside those that are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from lakeward.base.errors import Conflict, Refused, UsageError
from lakeward.format.timeline.commit_metadata import LATEST_SCHEMA
from lakeward.merge.rules.merge_rules import MergeMode
from lakeward.protocol.index.inserts import check_inserts
from lakeward.protocol.life_cycle import run_attempt
from lakeward.protocol.metadata.snapshot import check_rows_can_be_written
from lakeward.protocol.progress import Count
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.read.table_rules import merge_rules
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.assignment import Unassigned, assign_rows
from lakeward.write.flow.flow import Flow
from lakeward.write.input.input_schema import evolve
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.tagging.tagging_choice import OpenIndex, check_tagging
from lakeward.write.target import Assignment, TargetResult
from lakeward.write.write_run import WriteRun
from lakeward.write.write_start import begin_write, timeline_snapshot

_NO_INSTANT = "0" * 17
"""Stands for that of a write which does not begin."""


_BRINGING_ROWS: Final = (WriteOperation.UPSERT, WriteOperation.INSERT, WriteOperation.BULK_INSERT)
"""The others put doubled keys right."""
_RESERVED: Final = {
    "schema": "Readers and writers take the table's columns from it",
    LATEST_SCHEMA: "Readers and writers take the table's columns, with their ids, from it",
    "_hudi_streaming_sink_checkpoint": "A streaming query of Spark leaves out the batches that it names",
}
"""Entries of a commit's extra metadata that are not the caller's. The checkpoints of Hudi's Streamer are not among
them: other writers carry these on where the Streamer takes turns with them."""
_RESERVED_PREFIX: Final = "lakeward."


def check_request(snapshot: TableSnapshot, request: WriteRequest) -> None:
    """Raises `Refused`, and `UsageError` for the request.

    What is asked of a write that the table, or its operation, does not go with.

    What prevents any write to a table is in `protocol/refusals/eligibility.py`.
    """
    _check_table(snapshot)
    _check_commit_metadata(request.extra_metadata)
    names_partitions = request.operation is WriteOperation.DELETE_PARTITION
    if names_partitions != bool(request.partitions):
        raise UsageError(
            "delete_partition takes the paths of partitions, and no other operation does.",
            remedy="Name them for delete_partition; else leave them out.",
        )
    if request.operation is WriteOperation.DELETE:
        _check_deletes(snapshot)
    if request.deduplicate is False and snapshot.config.is_lsm_tree:
        raise UsageError(
            "Rows of one key cannot be kept side by side in a table of the layout lsm_tree.",
            why="Its files are merged by their order, and a key has one row in each; the next merge would fold them.",
            remedy="Leave --keep-duplicates out.",
        )


def _check_commit_metadata(keys: Iterable[str]) -> None:
    for key in keys:
        why = "It is Lakeward's own" if key.startswith(_RESERVED_PREFIX) else _RESERVED.get(key)
        if why is not None:
            raise UsageError(
                f"The commit metadata {key} cannot be given.",
                why=f"{why}.",
                remedy="Give what is said under another key.",
            )


def _check_deletes(snapshot: TableSnapshot) -> None:
    config, rules = snapshot.config, merge_rules(snapshot)
    is_ordered = rules.mode is MergeMode.EVENT_TIME_ORDERING and len(rules.ordering_fields) > 1
    if config.version.has_native_logs and config.is_merge_on_read and is_ordered:
        fields = ", ".join(rules.ordering_fields)
        raise Refused(
            f"Rows of {snapshot.base_path} cannot be deleted by their keys alone.",
            why=f"The table is ordered by {fields}, and Hudi reads a delete without values in a native log as one "
            "that has 0 in each.",
            remedy="Upsert rows that have these values, and true in _hoodie_is_deleted.",
        )


def _check_table(snapshot: TableSnapshot) -> None:
    # A table whose first write died, and was rolled back, has no columns but those that it was made with.
    if snapshot.schema is None and any(each.action != "rollback" for each in snapshot.timeline.completed):
        raise Refused(
            f"Rows cannot be written to {snapshot.base_path}.",
            why="No completed write on the active timeline says what the table's columns are.",
            remedy="Let any Hudi writer commit once.",
        )


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What a write did."""

    operation: WriteOperation
    instant: str
    completion_time: str
    results: tuple[TargetResult, ...]
    replaced: Mapping[str, tuple[str, ...]]
    """File ids of the groups that went, by partition path."""
    tries: int

    @property
    def inserted(self) -> int:
        return self._sum("num_inserts")

    @property
    def updated(self) -> int:
        return self._sum("num_update_writes")

    @property
    def deleted(self) -> int:
        return self._sum("num_deletes")

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for result in self.results for file in result.files)

    @property
    def files(self) -> int:
        return sum(len(result.files) for result in self.results)

    @property
    def bloom_error_rates(self) -> Sequence[float]:
        """How often the bloom filters of new base files err that have more keys than there was room for."""
        files = (file for result in self.results for file in result.files)
        return [file.bloom_error_rate for file in files if file.bloom_error_rate is not None]

    @property
    def partitions(self) -> Sequence[str]:
        return sorted({result.partition_path for result in self.results if result.files} | self.replaced.keys())

    def _sum(self, field: str) -> int:
        return sum(getattr(file.stat, field) or 0 for result in self.results for file in result.files)


def write_rows(
    table: ServicedTable,
    request: WriteRequest,
    flow: Flow,
    columns: pa.Schema | None,
    open_index: OpenIndex | None = None,
    shadow: OpenIndex | None = None,
) -> WriteReport:
    """Write what the flow was made with.

    Args:
        columns: of the rows; None where the operation takes none.
        open_index: the index of Lakeward that the request names.
        shadow: one of Lakeward's that learns of the write beside it, while a tee is under way.

    Raises `Refused` and `Unsupported` before anything is written, `Conflict` where another write was met, and what
    the life cycle raises; then nothing of the write is left."""
    for tries in range(1, request.conflict_retries + 2):
        schema = _checked_schema(table, timeline_snapshot(table), request, columns, open_index)
        if request.operation in _BRINGING_ROWS:
            snapshot_now = partial(table.snapshot, service=TableService.WRITING)
            check_inserts(table.storage, table.base_path, snapshot_now, clock=table.clock)
        assign = partial(assign_rows, open_index=open_index)
        run = WriteRun(table, begin_write(table, request), flow, schema, assign, open_index, shadow)
        try:
            completion_time = _run(table, run)
        except Conflict as error:
            table.observer.counted(Count.CONFLICT)
            if tries > request.conflict_retries:
                raise
            table.observer.step(f"{run.name} begins again: {error.what}")
            continue
        assert completion_time is not None, "a write has a publication or an error"
        return WriteReport(
            request.operation, run.attempt.instant, completion_time, tuple(run.results), run.replaced, tries
        )
    raise AssertionError("the last try returns or raises")


def _run(table: ServicedTable, run: WriteRun) -> str | None:
    try:
        return run_attempt(table, run)
    except BaseException as error:
        run.withdraw(error)
        raise


def preview_rows(
    table: ServicedTable,
    request: WriteRequest,
    flow: Flow,
    columns: pa.Schema | None,
    open_index: OpenIndex | None = None,
) -> Assignment:
    """What `write_rows` would do with the rows now; nothing is written."""
    snapshot = table.snapshot(service=TableService.WRITING)
    schema = _checked_schema(table, snapshot, request, columns, open_index)
    unassigned = Unassigned(
        table=table,
        snapshot=snapshot,
        request=request,
        flow=flow,
        schema=schema,
        instant=_NO_INSTANT,
        on_progress=lambda progress: table.guard(),
    )
    return assign_rows(unassigned, open_index=open_index)


def _checked_schema(
    table: ServicedTable,
    snapshot: TableSnapshot,
    request: WriteRequest,
    columns: pa.Schema | None,
    open_index: OpenIndex | None,
) -> str:
    """The table's schema from this write on, where nothing prevents it so far."""
    check_request(snapshot, request)
    check_rows_can_be_written(table.storage, snapshot)
    check_tagging(table.storage, snapshot, request, open_index)
    if open_index is not None:
        open_index(snapshot)  # one that is not there is refused before an instant is minted
    return _schema(snapshot, request, columns)


def known_schema(snapshot: TableSnapshot) -> str | None:
    """Avro JSON of the table's columns, without meta columns; None where it has none yet."""
    return snapshot.schema or snapshot.config.create_schema


def _schema(snapshot: TableSnapshot, request: WriteRequest, columns: pa.Schema | None) -> str:
    """That of the table from this write on."""
    known = known_schema(snapshot)
    if columns is None or request.operation is WriteOperation.DELETE:
        if known is None:
            raise Refused(
                f"The table {snapshot.base_path} has no rows yet.",
                why=f"Nothing says what its columns are, so there is nothing to {request.operation}.",
                remedy="Write rows first.",
            )
        return known
    return evolve(known, columns, table_name=snapshot.config.name, fill_missing=request.fill_missing).schema_json
