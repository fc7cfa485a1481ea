"""Which file groups take the rows of a write: keys are made and looked for, rows counted, and places chosen.

A write does so once it has begun; a dry run does only this.

Touches: the input; reads the table.
Keeps:   nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol
from uuid import uuid4

from lakeward.engine.dispatch.dispatcher import Progress
from lakeward.format.avro.schema import block_schema
from lakeward.format.timeline.commit_metadata import CommitMetadata, read_commit_metadata
from lakeward.merge.rules.ordering_type import integer_fields, ordering_columns
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.read.table_rules import merge_rules
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timezone import parse_zone
from lakeward.write.existing_rows import existing_rows
from lakeward.write.flow.flow import Flow
from lakeward.write.flow.keying import Keying
from lakeward.write.keys.proving import prove_key_generator
from lakeward.write.own_index import while_index_moves
from lakeward.write.placing import average_row_bytes, place
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.tagging.choosing import OpenIndex, choose_tagging
from lakeward.write.target import Assignment, Workload


class Assign(Protocol):
    """What `assign_rows` is, and what stands in its place where a write has no rows of its own."""

    def __call__(
        self,
        table: ServicedTable,
        snapshot: TableSnapshot,
        request: WriteRequest,
        flow: Flow,
        *,
        schema: str,
        instant: str,
        on_progress: Callable[[Progress], None],
    ) -> Assignment: ...


def assign_rows(
    table: ServicedTable,
    snapshot: TableSnapshot,
    request: WriteRequest,
    flow: Flow,
    *,
    schema: str,
    instant: str,
    on_progress: Callable[[Progress], None],
    open_index: OpenIndex | None = None,
) -> Assignment:
    """Raises `Refused`, `Unsupported` and `UsageError`.

    Args:
        snapshot: of the whole table.
        schema: Avro JSON of the table's columns from this write on, without meta columns.
        instant: the write's own.
        open_index: the index of Lakeward that the request names.
    """
    if request.operation is WriteOperation.DELETE_PARTITION:
        workload = Workload({(path, None): 0 for path in request.partitions})
    else:
        keying = _keying(table, snapshot, request, schema)

        def tag() -> Workload:
            tagging = choose_tagging(table.storage, snapshot, request, clock=table.clock, open_index=open_index)
            return flow.tag(keying, tagging, on_progress=on_progress)

        workload = while_index_moves(tag)
    return place(
        snapshot,
        workload,
        request,
        instant=instant,
        schema=schema,
        row_bytes=average_row_bytes(_newest_commits(table, snapshot), request.sizes),
        new_uuid=lambda: str(uuid4()),
        memory_bytes=table.options.memory_bytes,
    )


def _keying(table: ServicedTable, snapshot: TableSnapshot, request: WriteRequest, schema: str) -> Keying:
    config = snapshot.config
    columns = {field.partition(".")[0] for field in (*config.record_key_fields, *config.partition_fields)}
    rows = list(existing_rows(table.storage, snapshot, columns))
    timezone = table.options.timezone
    writers_zone = None if timezone is None else parse_zone(timezone)
    keys_of = prove_key_generator(config, rows, writers_zone=writers_zone)
    rules, of = merge_rules(snapshot), block_schema(schema, where="the table")
    ordering = ordering_columns(rules, of).names
    return Keying(
        keys_of,
        schema,
        carries_columns=request.operation is not WriteOperation.DELETE,
        ordering_fields=tuple(name for name in ordering if name not in integer_fields(rules, of)),
    )


def _newest_commits(table: ServicedTable, snapshot: TableSnapshot) -> Iterator[CommitMetadata]:
    """The completed writes that say how large rows are, the newest first."""
    contents = InstantContents(table.storage, table.base_path, snapshot.config, snapshot.timeline)
    for each in reversed(snapshot.timeline.completed_writes):
        if each.comparable_action in ("commit", "deltacommit"):
            yield read_commit_metadata(
                contents.read(each.file_name), file=each.file_name, layout=snapshot.config.layout
            )
