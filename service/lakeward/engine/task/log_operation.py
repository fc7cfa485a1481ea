"""A LOG operation, as it runs in a Spark task or in process: the oldest logs of a slice become one larger log.

    logs --read, folded--> rows and deletes --written--> one log, which no reader sees yet
                                 |                            |
                              digests   == must be ==   digests of what a reader makes of logs and output together

Every block of the output names the instants that it stands for (COMPACTED_BLOCK_TIMES, oldest first), so readers put it
into their place and read them no more; an instant that is itself such an output is named in place of its own
sources. Deletes stay, with their ordering values, even where no base file has the key: only a FULL compaction
knows that. A key is in the output once, as a row or as a delete, so the order of the blocks says nothing, and neither
does that of the two files which are the output where logs are native.

Hudi's fold is not associative by event time, so what is merged must begin with the slice's oldest log and hold all
logs of an instant or none; the planner sees to that.

In the layout `lsm_tree` readers merge output and sources side by side, by the ranks of their files, the output last; it
is the same with and without the sources, since no delete of them always wins. There the output names no instants: a
reader of the other layout, by which Hudi's own log compaction reads, ignores an output that does and finds no source
beside it, and all its rows with it. One that names none it reads as the log that it is, with its sources and without.

Touches: reads the log files, but those that an earlier LOG superseded; writes one file, or up to two where logs are
         native, in the place that `engine/task/operation_output` says.
Keeps:   1. a result is returned only for files that, beside their sources, read as those did without them, and in the
            layout `lsm_tree` alone;
         2. rows keep their commit times and sequence numbers, for incremental queries;
         3. an output whose sources may go says nothing that makes a reader look for them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.engine.task.native_log_output import NativeLogForm, NativeLogOutput
from lakeward.engine.task.operation_output import open_operation_output, output_path
from lakeward.engine.task.operation_spec import DeleteLog, OperationResult, OperationSpec
from lakeward.engine.task.peak_memory import PeakMemory
from lakeward.engine.task.record_digests import RecordDigests
from lakeward.engine.task.verification import check_digest, check_folded_counts, check_folded_sample
from lakeward.engine.task.waiting_deletes import WaitingDeletes
from lakeward.engine.task.work_counters import WorkMeter
from lakeward.format.avro.schema import table_schema
from lakeward.format.log.block import BlockType, HeaderKey
from lakeward.format.log.log_tail import LogTailBuilder, TailPlace
from lakeward.format.log.log_writer import LogFileWriter, log_block_schema
from lakeward.format.log.native_log.footer import NativeLogFooter
from lakeward.format.metadata.log_stats import log_column_stats
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.stats.column_range import ColumnRange, ColumnRangeAccumulator
from lakeward.index.bloom.log_tails import covered_logs
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.merge.rules.ordering_type import ordering_columns
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.read.logs.log_run import LogMerge, LogRun, SliceLogs
from lakeward.read.made_keys import without_made_keys
from lakeward.read.query.sample import SampleTap, common_samples
from lakeward.read.query.slice_query import EVERYTHING, SliceQuery
from lakeward.read.slice_input import MergeCounts, MergedBy
from lakeward.storage.storage import Storage
from lakeward.table.damaged_file import DamagedFile


def run_log_operation(storage: Storage, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """Merge the logs into one. Raises `VerificationFailed` when the file it wrote is not what was merged."""
    assert spec.slice.base_file is None and spec.slice.log_files
    started = time.monotonic()
    memory = PeakMemory()
    meter = WorkMeter(spec.counters, read_bytes_max=spec.input_bytes)
    written = _merge(storage, spec, task_attempt, meter)
    if spec.verify:
        _verify(storage, spec, written, meter)
    meter.finish()
    storage.create(spec.place.done_path(task_attempt, rows=written.rows + written.deletes), b"")
    first, *others = written.files
    return OperationResult(
        kind=spec.kind,
        index=spec.index,
        partition_path=spec.slice.partition_path,
        file_id=spec.slice.file_id,
        file_name=first.file_name,
        size_bytes=first.size_bytes,
        counts=written.counts,
        digest=written.digest,
        input_bytes=spec.input_bytes,
        seconds=time.monotonic() - started,
        peak_memory_bytes=memory.peak_bytes(),
        column_stats=first.column_stats,
        damage=written.damage,
        delete_log=next((DeleteLog(log.file_name, log.size_bytes, log.column_stats) for log in others), None),
    )


@dataclass(frozen=True, slots=True)
class _Log:
    """A file that was written."""

    file_name: str
    size_bytes: int
    rows: int
    deletes: int
    column_stats: tuple[ColumnStatsRecord, ...]


@dataclass(frozen=True, slots=True)
class _Written:
    """What is left of a merge when its rows and keys have been let go, which reading back needs the memory of."""

    files: tuple[_Log, ...]
    counts: MergeCounts
    sample: SampleTap
    digest: str
    damage: tuple[DamagedFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def deletes(self) -> int:
        return sum(file.deletes for file in self.files)


def _merge(storage: Storage, spec: OperationSpec, task_attempt: int, meter: WorkMeter) -> _Written:
    row_bytes_max = spec.slice.budget.row
    query = SliceQuery(
        keeps_dictionaries=True,
        carries_hashes=spec.verify,
        takes_sample=spec.verify,
        row_bytes_max=row_bytes_max,
    )
    with closing(_open_run(meter.reading(storage), spec, query=query)) as run:
        run.read()
        if run.records.records == 0:
            raise Unsupported(
                f"The logs of file group {spec.slice.file_id} hold no records.",
                why="Their blocks are empty, rolled back, or stand for logs that were compacted already.",
                remedy="Compact the file group with --type full.",
            )
        if run.records.repeats_in_block:
            raise Unsupported(
                f"The logs of file group {spec.slice.file_id} are not compacted into one log.",
                why="They name several places in the base file for one record key. Hudi's readers use these, and one "
                "log would have none, so that other rows came out.",
                remedy="Compact the file group with --type full.",
            )
        digests = RecordDigests()
        write = _write_native if spec.native else _write_inline
        files = write(storage, spec, run, digests, task_attempt, meter)
        digest = digests.hexdigest if spec.verify else ""
        return _Written(files, _counts(run, files), run.sample, digest, run.scan.damage)


def _open_run(
    storage: Storage, spec: OperationSpec, *, unpublished: Sequence[str] = (), query: SliceQuery = EVERYTHING
) -> LogRun:
    of = spec.slice
    by_rank = of.merges_by_rank
    return LogRun(
        storage,
        SliceLogs(
            of.base_path,
            # What readers of `lsm_tree` read beside its sources is to be right without them, too.
            () if by_rank and unpublished else of.log_files,
            of.instant,
            superseded=of.superseded,
            accept_damaged=of.accept_damaged_logs,
            unpublished=unpublished,
            by_rank=by_rank,
        ),
        # Without deletes that always win (`read/logs/log_deletes`) ranks make no difference among logs alone.
        LogMerge(replace(of.rules, by_rank=False), of.budget, key_fields=of.key_fields, watched_base=of.base_file),
        schema=table_schema(of.schema),
        query=query,
    )


def _records(spec: OperationSpec, run: LogRun, digests: RecordDigests) -> Iterator[pa.RecordBatch | Tombstones]:
    """What is to be written, which the digests have then."""
    for part in run.folded(by_key=spec.native):
        if isinstance(part, Tombstones):
            if spec.verify:
                digests.update_deletes(part)
            yield part
        else:
            yield digests.rows.take_hashes(part) if spec.verify else part


def _write_inline(
    storage: Storage, spec: OperationSpec, run: LogRun, digests: RecordDigests, task_attempt: int, meter: WorkMeter
) -> tuple[_Log, ...]:
    of = spec.slice
    ranges = ColumnRangeAccumulator(spec.indexed.columns if spec.indexed is not None else (), run.schema)
    block_type = _block_type(run)
    place = _place(storage, spec)
    tail = None if place is None else LogTailBuilder(place, lists_keys=block_type is BlockType.AVRO_DATA)
    with open_operation_output(storage, spec.place, spec.file_name(task_attempt)) as sink:
        writer = LogFileWriter(
            meter.writing(sink),
            run.schema,
            instant=of.instant,
            schema_json=log_block_schema(of.schema),
            block_type=block_type,
            headers={HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(run.instants)},
            codec=spec.codec,
            block_bytes=of.budget.log_block,
            tail=tail,
        )
        deletes = WaitingDeletes(writer, partition_path=of.partition_path, bytes_max=of.budget.window)
        for part in _records(spec, run, digests):
            if isinstance(part, Tombstones):
                deletes.add(part)
                continue
            ranges.add(part)
            writer.write(without_made_keys(part, of.key_fields))
        deletes.write()
        stats = writer.close()
    name = spec.file_name(task_attempt)
    return (_Log(name, stats.size_bytes, stats.rows, stats.deletes, _column_stats(spec, name, ranges.ranges)),)


def _write_native(
    storage: Storage, spec: OperationSpec, run: LogRun, digests: RecordDigests, task_attempt: int, meter: WorkMeter
) -> tuple[_Log, ...]:
    """One flush: a file of rows, one of deletes, or both."""
    of, schema = spec.slice, table_schema(spec.slice.schema)
    sources = () if of.merges_by_rank else run.instants
    form = NativeLogForm(
        file_id=of.file_id,
        schema=schema,
        footer=NativeLogFooter(of.instant, log_block_schema(of.schema), compacted_instants=sources),
        ordering_fields=tuple(ordering_columns(of.rules, schema).names),
        indexed=spec.indexed,
        file_bytes_max=None,
        row_group_bytes=of.budget.row_group,
        codec=spec.codec,
        dictionaries=tuple(column.name for column in run.schema if pa.types.is_dictionary(column.type)),
        tails=_place(storage, spec),
    )
    with NativeLogOutput(storage, spec.place, form, task_attempt=task_attempt, writing=meter.writing) as output:
        for part in _records(spec, run, digests):
            if isinstance(part, Tombstones):
                output.write_deletes(part)
                continue
            output.write_rows(without_made_keys(part, of.key_fields), keys=part.column(RECORD_KEY_FIELD))
        files = output.finish()
    return tuple(_Log(file.name.text, file.size_bytes, file.rows, file.deletes, file.column_stats) for file in files)


def _place(storage: Storage, spec: OperationSpec) -> TailPlace | None:
    """The place of the output among the slice's logs; None where it gets no tail."""
    of = spec.slice
    return TailPlace(merged=covered_logs(storage, of.base_path, of.log_files)) if spec.tails else None


def _block_type(run: LogRun) -> BlockType:
    """That of the newest data block. Avro for HFile blocks, which Hudi 1.2.0 on Spark writes and cannot read."""
    return BlockType.PARQUET_DATA if run.newest_data_type is BlockType.PARQUET_DATA else BlockType.AVRO_DATA


def _column_stats(
    spec: OperationSpec, file_name: str, ranges: Mapping[str, ColumnRange]
) -> tuple[ColumnStatsRecord, ...]:
    if spec.indexed is None:
        return ()
    columns, version = spec.indexed.columns, spec.indexed.version
    return tuple(log_column_stats(file_name, ranges, columns=columns, version=version))


def _verify(storage: Storage, spec: OperationSpec, written: _Written, meter: WorkMeter) -> None:
    """Read the slice as it will be and judge it; raises `VerificationFailed`."""
    paths = [output_path(storage, spec.place, file.file_name) for file in written.files]
    read_back = RecordDigests()
    source = meter.checking(storage)
    with closing(_open_run(source, spec, unpublished=paths, query=SliceQuery(takes_sample=True))) as run:
        run.sample = SampleTap(passed_over=written.sample.passed_over)
        run.read()
        for part in run.folded():
            if isinstance(part, Tombstones):
                read_back.update_deletes(part)
            else:
                read_back.rows.update(part)
        check_digest(merged=written.digest, written=read_back.hexdigest)
        check_folded_counts(
            records=written.counts.log_records,
            keys=written.counts.log_keys,
            written=written.rows + written.deletes,
            records_read=run.records.records,
            instants_read=run.instants,
            instant=spec.slice.instant,
        )
        of_sources, of_output = common_samples(written.sample, run.sample)
        check_folded_sample(of_sources, of_output, rules=spec.slice.rules, schema=run.schema)


def _counts(run: LogRun, files: Sequence[_Log]) -> MergeCounts:
    rows, deletes = sum(file.rows for file in files), sum(file.deletes for file in files)
    return MergeCounts(
        base_rows=0,
        log_files=run.scan.log_files,
        log_blocks=run.scan.log_blocks,
        corrupt_blocks=run.scan.corrupt_blocks,
        rollback_blocks=run.scan.rollback_blocks,
        log_records=run.records.records,
        log_keys=rows + deletes if run.records.fold is None else run.records.fold.keys,
        updated=0,
        inserted=rows,
        deleted=deletes,
        rows=rows,
        merged_by=MergedBy.HASHES if run.records.fits else MergedBy.SORTING,
    )
