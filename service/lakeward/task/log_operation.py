"""A LOG operation, as it runs in a Spark task or in process: the oldest logs of a slice become one larger log.

    logs --read, folded--> rows and deletes --written--> one log file, which no reader sees yet
                                 |                            |
                              digests   == must be ==   digests of what a reader makes of logs and output together

Every block of the output names the instants that it stands for (COMPACTED_BLOCK_TIMES, oldest first), so readers put it
into their place and read them no more; an instant that is itself such an output is named in place of its own
sources. Deletes stay, with their ordering values, even where no base file has the key: only a FULL compaction
knows that. A key is in the output once, as a row or as a delete, so the order of the blocks says nothing.

Hudi's fold is not associative by event time, so what is merged must begin with the slice's oldest log and hold all
logs of an instant or none; the planner sees to that.

Touches: reads the log files, but those that an earlier LOG superseded; writes one file, where `task/operation_output`
         says.
Keeps:   1. a result is returned only for a file that, beside its sources, reads as they did without it;
         2. rows keep their commit times and sequence numbers, for incremental queries.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from lakeward.errors import Unsupported
from lakeward.format.avro.schema import table_schema
from lakeward.format.log.block import BlockType, HeaderKey
from lakeward.format.log.writer import LogFileStats, LogFileWriter, log_block_schema
from lakeward.format.metadata.log_stats import log_column_stats
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.stats.column_range import ColumnRange, ColumnRangeAccumulator
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.read.log_run import LogRun
from lakeward.read.made_keys import without_made_keys
from lakeward.read.sample import SampleTap, common_samples
from lakeward.read.slice_input import MergeCounts, MergedBy
from lakeward.read.slice_query import EVERYTHING, SliceQuery
from lakeward.storage.storage import Storage
from lakeward.table.damaged_file import DamagedFile
from lakeward.task.operation_output import open_operation_output, output_path
from lakeward.task.operation_spec import OperationResult, OperationSpec
from lakeward.task.peak_memory import PeakMemory
from lakeward.task.record_digests import RecordDigests
from lakeward.task.verification import check_digest, check_folded_counts, check_folded_sample
from lakeward.task.waiting_deletes import WaitingDeletes


def run_log_operation(storage: Storage, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """Merge the logs into one. Raises `VerificationFailed` when the file it wrote is not what was merged."""
    assert spec.slice.base_file is None and spec.slice.log_files
    started = time.monotonic()
    memory = PeakMemory()
    path = output_path(storage, spec.place, spec.file_name(task_attempt))
    written = _merge(storage, spec, task_attempt)
    if spec.verify:
        _verify(storage, path, spec, written)
    storage.create(spec.place.done_path(task_attempt, rows=written.stats.rows + written.stats.deletes), b"")
    return OperationResult(
        kind=spec.kind,
        index=spec.index,
        partition_path=spec.slice.partition_path,
        file_id=spec.slice.file_id,
        file_name=spec.file_name(task_attempt),
        size_bytes=written.stats.size_bytes,
        counts=written.counts,
        digest=written.digest,
        input_bytes=spec.input_bytes,
        seconds=time.monotonic() - started,
        peak_memory_bytes=memory.peak_bytes(),
        column_stats=_column_stats(spec, task_attempt, written.ranges),
        damage=written.damage,
    )


@dataclass(frozen=True, slots=True)
class _Written:
    """What is left of a merge when its rows and keys have been let go, which reading back needs the memory of."""

    stats: LogFileStats
    counts: MergeCounts
    sample: SampleTap
    digest: str
    ranges: Mapping[str, ColumnRange]
    """Ranges of the indexed columns in the rows that were written."""
    damage: tuple[DamagedFile, ...]


def _merge(storage: Storage, spec: OperationSpec, task_attempt: int) -> _Written:
    row_bytes_max = spec.slice.budget.row
    query = SliceQuery(
        keeps_dictionaries=True,
        carries_hashes=spec.verify,
        takes_sample=spec.verify,
        row_bytes_max=row_bytes_max,
    )
    with closing(_open_run(storage, spec, query=query)) as run:
        run.read()
        if run.records.records == 0:
            raise Unsupported(
                f"The logs of file group {spec.slice.file_id} hold no records.",
                why="Their blocks are empty, rolled back, or stand for logs that were compacted already.",
                remedy="Compact the file group with --type full.",
            )
        digests = RecordDigests()
        ranges = ColumnRangeAccumulator(spec.indexed.columns if spec.indexed is not None else (), run.schema)
        stats = _write(storage, spec, run, digests, ranges, task_attempt)
        digest = digests.hexdigest if spec.verify else ""
        return _Written(stats, _counts(run, stats), run.sample, digest, ranges.ranges, run.scan.damage)


def _open_run(
    storage: Storage, spec: OperationSpec, *, unpublished: Sequence[str] = (), query: SliceQuery = EVERYTHING
) -> LogRun:
    return LogRun(
        storage,
        spec.slice.base_path,
        spec.slice.log_files,
        instant=spec.slice.instant,
        schema=table_schema(spec.slice.schema),
        rules=spec.slice.rules,
        budget=spec.slice.budget,
        unpublished=unpublished,
        accept_damaged_logs=spec.slice.accept_damaged_logs,
        superseded=spec.slice.superseded,
        query=query,
        key_fields=spec.slice.key_fields,
    )


def _write(
    storage: Storage,
    spec: OperationSpec,
    run: LogRun,
    digests: RecordDigests,
    ranges: ColumnRangeAccumulator,
    task_attempt: int,
) -> LogFileStats:
    with open_operation_output(storage, spec.place, spec.file_name(task_attempt)) as sink:
        writer = LogFileWriter(
            sink,
            run.schema,
            instant=spec.slice.instant,
            schema_json=log_block_schema(spec.slice.schema),
            block_type=_block_type(run),
            headers={HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(run.instants)},
            codec=spec.codec,
            block_bytes=spec.slice.budget.log_block,
        )
        of = spec.slice
        deletes = WaitingDeletes(writer, partition_path=of.partition_path, bytes_max=of.budget.window)
        for part in run.folded():
            if isinstance(part, Tombstones):
                if spec.verify:
                    digests.update_deletes(part)
                deletes.add(part)
                continue
            rows = digests.rows.take_hashes(part) if spec.verify else part
            ranges.add(rows)
            writer.write(without_made_keys(rows, spec.slice.key_fields))
        deletes.write()
        return writer.close()


def _block_type(run: LogRun) -> BlockType:
    """That of the newest data block. Avro for HFile blocks, which Hudi 1.2.0 on Spark writes and cannot read."""
    return BlockType.PARQUET_DATA if run.newest_data_type is BlockType.PARQUET_DATA else BlockType.AVRO_DATA


def _column_stats(
    spec: OperationSpec, task_attempt: int, ranges: Mapping[str, ColumnRange]
) -> tuple[ColumnStatsRecord, ...]:
    if spec.indexed is None:
        return ()
    columns, version = spec.indexed.columns, spec.indexed.version
    return tuple(log_column_stats(spec.file_name(task_attempt), ranges, columns=columns, version=version))


def _verify(storage: Storage, path: str, spec: OperationSpec, written: _Written) -> None:
    """Read the slice as it will be and judge it; raises `VerificationFailed`."""
    read_back = RecordDigests()
    with closing(_open_run(storage, spec, unpublished=(path,), query=SliceQuery(takes_sample=True))) as run:
        run.sample = SampleTap(passed_over=written.sample.passed_over)
        run.read()
        for part in run.folded():
            if isinstance(part, Tombstones):
                read_back.update_deletes(part)
            else:
                read_back.rows.update(part)
        check_digest(written.digest, read_back.hexdigest)
        check_folded_counts(
            records=written.counts.log_records,
            keys=written.counts.log_keys,
            written=written.stats.rows + written.stats.deletes,
            records_read=run.records.records,
            instants_read=run.instants,
            instant=spec.slice.instant,
        )
        of_sources, of_output = common_samples(written.sample, run.sample)
        check_folded_sample(of_sources, of_output, rules=spec.slice.rules, schema=run.schema)


def _counts(run: LogRun, stats: LogFileStats) -> MergeCounts:
    return MergeCounts(
        base_rows=0,
        log_files=run.scan.log_files,
        log_blocks=run.scan.log_blocks,
        corrupt_blocks=run.scan.corrupt_blocks,
        rollback_blocks=run.scan.rollback_blocks,
        log_records=run.records.records,
        log_keys=stats.rows + stats.deletes if run.records.fold is None else run.records.fold.keys,
        updated=0,
        inserted=stats.rows,
        deleted=stats.deletes,
        rows=stats.rows,
        merged_by=MergedBy.HASHES if run.records.fits else MergedBy.SORTING,
    )
