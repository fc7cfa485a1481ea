"""Which file groups take the rows of a write: keys are made and looked for, rows counted, and places chosen.

A write does so once it has begun; a dry run does only this.

Touches: the input; reads the table; storage, reading the first rows of a few base files, of few columns.
Keeps:   1. nothing is written;
         2. a generator whose keys are not those of the rows is refused, with a row that shows it;
         3. so is one whose paths are not, as far as rows show;
         4. by an index of base files no key is looked for while some may be in logs alone, but by one that looks into
            logs, too.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Refused, UsageError
from lakeward.base.paths import join
from lakeward.engine.dispatch.dispatcher import Progress
from lakeward.format.avro.schema import block_schema
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.unreadable import broken_if_unreadable
from lakeward.format.projection import project
from lakeward.format.timeline.commit_metadata import CommitMetadata, read_commit_metadata
from lakeward.index.bloom.log_tails import LogsBefore
from lakeward.index.log_inserts import check_none_in_logs, looks_into_logs, read_log_inserts
from lakeward.index.tail_choice import gets_tails
from lakeward.merge.rules.ordering_type import integer_fields, ordering_columns
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.read.newest_slice import newest_slice
from lakeward.read.table_rules import merge_rules
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timezone import parse_zone
from lakeward.write.flow.flow import Flow
from lakeward.write.flow.row_keys import Keying
from lakeward.write.keyed_rows import PARTITION_PATH, RECORD_KEY
from lakeward.write.keys.key_generator import KeyGenerator, has_two_forms, key_generator, names_its_field
from lakeward.write.own_index import while_index_moves
from lakeward.write.placement import average_row_bytes, place
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.tagging.tagging_choice import OpenIndex, choose_tagging
from lakeward.write.target import Assignment, HandleKind, Workload, WriteTarget

_ROWS = 500


def prove_key_generator(
    config: TableConfig, rows: Sequence[pa.RecordBatch], *, writers_zone: datetime.tzinfo | None = None
) -> KeyGenerator:
    """The table's key generator. Raises `Refused`.

    Args:
        rows: some that the table has, with their keys, paths, and those of the columns which keys and paths are made of
            that are in its files; none where it has no row.
        writers_zone: see `key_generator`.

    A key generator that is proved by rows of the table: their keys and paths are made again, and must be the same.

    Some of what writers use no property says: whether COMPLEX names one field, how timestamps in keys are written
    (Hudi's bulk_insert does it otherwise than its upsert), in which zone times become partitions, a parser of one's
    own. A writer who makes another key of a row gives it a second life, and no error says so.

    A row may lie in another partition than its columns say, where an index is global and rows do not move. So it is
    enough that the path of one row is right, but for partitions of times: in another zone most hours are in the same
    day.
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


def _differs(what: str, there: pa.Array, computed: pa.Array, is_other: pa.Array) -> Refused:
    at = pc.index(is_other, pa.scalar(True)).as_py()
    return Refused(
        f"The table's {what} are not made as its properties say.",
        why=f"A row has {there[at].as_py()!r}, and by hoodie.properties it would be {computed[at].as_py()!r}: its "
        "writers have options that are not recorded there, or other classes. A row of it would get a second copy.",
        remedy="Write this table with the writers that it has. Of partitions by times, say the writers' time zone with "
        "--timezone.",
    )


def existing_rows(storage: Storage, snapshot: TableSnapshot, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
    """The first rows of the newest base file and of the oldest, which other writers may have made; none where the table
    has no base file.

    Args:
        columns: which of the table's they have beside keys and paths, as far as they are in the file.

    Raises `BrokenFile`.

    Some rows that a table has already, by which its writers' way of making keys is proved (`keys/proving.py`).
    """
    bases = [slice_.base_file for slice_ in snapshot.latest_slices if slice_.base_file is not None]
    if not bases or snapshot.schema is None:
        return
    bases.sort(key=lambda base: base.instant)
    known = {field.name: field for field in block_schema(snapshot.schema, where="the table")}
    keys = [pa.field(name, pa.string()) for name in (RECORD_KEY, PARTITION_PATH)]
    for base in {base.path: base for base in (bases[-1], bases[0])}.values():
        with broken_if_unreadable(base.path), storage.open_input(join(snapshot.base_path, base.path)) as source:
            file = ParquetBatches(source, where=base.path, coerce_int96_timestamp_unit="us")
            wanted = [known[name] for name in file.schema.names if name in known and name in columns]
            schema = pa.schema([*keys, *wanted])
            batch = next(
                file.read(schema.names, rows_max=_ROWS, groups=range(min(1, file.metadata.num_row_groups))), None
            )
            if batch is not None:
                yield project(batch, schema, where=base.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unassigned:
    """A write before it is known which file groups take its rows."""

    table: ServicedTable
    snapshot: TableSnapshot
    """It is of the whole table."""
    request: WriteRequest
    flow: Flow
    schema: str
    """Avro JSON of the table's columns from this write on, without meta columns."""
    instant: str
    """The write's own."""
    on_progress: Callable[[Progress], None]


Assign = Callable[[Unassigned], Assignment]
"""Chooses the file groups: `assign_rows`, or what takes its place where a write has no rows of its own."""


def assign_rows(write: Unassigned, *, open_index: OpenIndex | None = None) -> Assignment:
    """Raises `Refused`, `Unsupported` and `UsageError`.

    Args:
        open_index: the index of Lakeward that the request names.
    """
    table, snapshot, request, schema = write.table, write.snapshot, write.request, write.schema
    # The write's instant is on the timeline by now: who ends inserts into logs after this sees it pending.
    said = read_log_inserts(table.storage, table.base_path)
    in_logs = looks_into_logs(said, request.index)
    if request.index.finds_keys_in_base_files and request.operation.finds_keys and not in_logs:
        check_none_in_logs(said, what=f"The table is not written by the index {request.index}")
    if request.operation is WriteOperation.DELETE_PARTITION:
        workload = Workload({(path, None): 0 for path in request.partitions})
    else:
        keying = _keying(table, snapshot, request, schema)

        def tag() -> Workload:
            tagging = choose_tagging(
                table.storage, snapshot, request, clock=table.clock, open_index=open_index, in_logs=in_logs
            )
            return write.flow.tag(keying, tagging, on_progress=write.on_progress)

        workload = while_index_moves(tag)
    assignment = place(
        snapshot,
        workload,
        request,
        instant=write.instant,
        schema=schema,
        row_bytes=average_row_bytes(_newest_commits(table, snapshot), request.sizes),
        new_uuid=lambda: str(uuid4()),
        memory_bytes=table.options.memory_bytes,
        into_logs=said.into_logs,
        looks_into_logs=in_logs,
    )
    gets = gets_tails(table.storage, table.base_path, snapshot.config)
    return _with_tails(snapshot, assignment) if gets else assignment


def _with_tails(snapshot: TableSnapshot, assignment: Assignment) -> Assignment:
    """The logs of the targets go on with the tails of those that are there."""
    newest = {(group.partition_path, group.file_id): newest_slice(group.slices) for group in snapshot.file_groups}

    def before(target: WriteTarget) -> LogsBefore:
        group_id = (target.partition_path, target.file_id)
        return LogsBefore.of(
            snapshot.base_path, group_id, newest.get(group_id), under=snapshot.pending_compactions.get(group_id)
        )

    targets = (
        replace(target, before=before(target)) if target.kind is HandleKind.APPEND else target
        for target in assignment.targets
    )
    return replace(assignment, targets=tuple(targets))


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
