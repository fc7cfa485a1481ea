"""The commit of a log compaction, against one that Hudi 1.2.0 wrote."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from lakeward.engine.task.operation_spec import ChangeLog, DeleteLog, OperationKind, OperationResult
from lakeward.format.timeline.commit_metadata import (
    RuntimeStats,
    WriteStat,
    read_commit_metadata,
    write_commit_metadata,
)
from lakeward.read.slice_input import MERGED_BY_KEY, MergeCounts, MergedBy
from lakeward.services.compaction.run.publication import compaction_commit, log_compaction_commit
from lakeward.table.file_group import FileSlice

FILE_ID = "bc86f1d4-f4bf-4715-a7fd-f9bb1bc306ac-0"
NAME = f".{FILE_ID}_20261121080222954.log.1_0-72-90"

HUDIS = WriteStat(
    file_id=FILE_ID,
    path=NAME,
    prev_commit="20261121080210194",
    num_writes=11,
    num_deletes=3,
    num_update_writes=11,
    total_write_bytes=2593,
    total_write_errors=0,
    partition_path="",
    total_log_records=19,
    total_log_files=None,
    total_updated_records_compacted=14,
    num_inserts=0,
    total_log_blocks=4,
    total_corrupt_log_block=0,
    total_rollback_blocks=0,
    file_size_in_bytes=2593,
    log_version=1,
    log_offset=0,
    base_file="",
    log_files=(NAME,),
    runtime_stats=RuntimeStats(total_scan_time=132, total_create_time=0, total_upsert_time=200),
    total_log_files_compacted=4,
    total_log_read_time_ms=132,
    total_log_size_compacted=1642,
    num_updates=0,
)
"""What Hudi wrote for an upsert of 10 rows, a delete of 3, and two more upserts of 4 and 2."""

SLICE = FileSlice("", FILE_ID, "20261121080210194", None, ())
RESULT = OperationResult(
    kind=OperationKind.LOG,
    index=0,
    partition_path="",
    file_id=FILE_ID,
    file_name=NAME,
    size_bytes=2593,
    counts=MergeCounts(
        base_rows=0,
        log_files=4,
        log_blocks=4,
        corrupt_blocks=0,
        rollback_blocks=0,
        log_records=19,
        log_keys=14,
        updated=0,
        inserted=11,
        deleted=3,
        rows=11,
    ),
    digest="",
    input_bytes=4516,
    seconds=0.132,
)


def test_the_stat_is_hudis_field_by_field():
    """Equal but for the upsert's time, which we do not measure apart, and the size of the logs: Hudi counts the content
    of their data blocks, we count the files."""
    metadata = log_compaction_commit([SLICE], [RESULT], "{}")
    (stat,) = metadata.partition_to_write_stats[""]
    own, hudis = asdict(stat), asdict(HUDIS)
    differing = {name for name in own if own[name] != hudis[name]}
    assert differing == {"runtime_stats", "total_log_size_compacted"}
    assert stat.total_log_size_compacted == 4516


def test_two_native_logs_have_a_stat_each():
    """What was read is in the first alone, as in Hudi's source; each has its own counts and sizes."""
    rows, deletes = (f"{FILE_ID}_0-72-90_20261121080222954_1.{kind}.parquet" for kind in ("log", "deletes"))
    result = replace(RESULT, file_name=rows, delete_log=DeleteLog(deletes, 77))
    first, second = log_compaction_commit([SLICE], [result], "{}").partition_to_write_stats[""]
    alone = log_compaction_commit([SLICE], [replace(RESULT, file_name=rows)], "{}").partition_to_write_stats[""]
    assert [replace(first, num_deletes=3)] == list(alone)
    assert (first.num_writes, first.num_deletes, first.log_files) == (11, 0, (rows,))
    assert (second.num_writes, second.num_deletes, second.log_files) == (0, 3, (rows, deletes))
    assert (second.path, second.file_id, second.prev_commit) == (deletes, FILE_ID, SLICE.base_instant)
    assert (second.total_write_bytes, second.file_size_in_bytes, second.log_version) == (77, 77, 1)
    assert (second.base_file, second.log_offset) == ("", 0)
    read = ("total_log_records", "total_log_blocks", "total_log_files_compacted", "total_log_size_compacted")
    assert all(getattr(first, name) > 0 and getattr(second, name) == 0 for name in read)
    assert second.runtime_stats == RuntimeStats(total_scan_time=0, total_create_time=0, total_upsert_time=0)


def test_the_commit_is_a_delta_commit_that_says_what_it_is():
    """Hudi distinguishes it from an append by these two; the schema is what the next writer starts from."""
    metadata = log_compaction_commit([SLICE], [RESULT], '{"type":"record"}')
    assert (metadata.operation_type, metadata.compacted) == ("LOG_COMPACT", True)
    assert metadata.schema == '{"type":"record"}'
    assert read_commit_metadata(write_commit_metadata(metadata), file="x", layout=2) == metadata


def test_paths_lie_in_their_partition():
    """Stats are grouped by partition, and each path starts with it."""
    groups = (("a", "1"), ("b", "2"), ("a", "3"))
    slices = [replace(SLICE, partition_path=path, file_id=file_id) for path, file_id in groups]
    results = [replace(RESULT, partition_path=each.partition_path, file_id=each.file_id) for each in slices]
    metadata = log_compaction_commit(slices, results, "{}")
    stats = {path: [stat.file_id for stat in each] for path, each in metadata.partition_to_write_stats.items()}
    assert stats == {"a": ["1", "3"], "b": ["2"]}
    assert metadata.partition_to_write_stats["b"][0].path == f"b/{NAME}"


def test_a_full_operation_has_another_stat():
    """A base file's counts in a log's stat would be wrong."""
    with pytest.raises(AssertionError):
        log_compaction_commit([SLICE], [replace(RESULT, kind=OperationKind.FULL)], "{}")


def test_a_commit_says_how_its_groups_were_merged():
    """It counts groups by how they were merged, and row groups that were copied, where some were."""
    slices = [replace(SLICE, file_id=name) for name in "abc"]
    ways = ((MergedBy.ORDER, 30), (MergedBy.HASHES, 0), (MergedBy.ORDER, 4))
    results = [
        replace(
            RESULT,
            kind=OperationKind.FULL,
            file_id=slice_.file_id,
            counts=replace(RESULT.counts, merged_by=by, row_groups_copied=copied),
        )
        for slice_, (by, copied) in zip(slices, ways, strict=True)
    ]
    said = [compaction_commit(slices[:some], results[:some], "{}").extra_metadata[MERGED_BY_KEY] for some in (2, 3)]
    assert said == ["hashes 1, order 1, row groups copied 30", "hashes 1, order 2, row groups copied 34"]
    alone = compaction_commit(slices[1:2], results[1:2], "{}").extra_metadata[MERGED_BY_KEY]
    assert alone == "hashes 1"


def test_the_log_of_changes_is_in_the_stat():
    """Hudi's readers of changes find it by its path and size, beside the base file's, and by nothing else; what is read
    back is what was written. Without one there is no such entry."""
    full = replace(RESULT, kind=OperationKind.FULL, partition_path="p")
    of = replace(SLICE, partition_path="p")
    captured = replace(full, change_log=ChangeLog(".x.cdc", 7))
    metadata = compaction_commit([of], [captured], "{}")
    (stat,) = metadata.partition_to_write_stats["p"]
    assert stat.cdc_stats == {"p/.x.cdc": 7}
    assert read_commit_metadata(write_commit_metadata(metadata), file="x", layout=2) == metadata
    assert compaction_commit([of], [full], "{}").partition_to_write_stats["p"][0].cdc_stats is None
