"""The write stats of a write's files, field by field as Hudi's writers leave them.

Numbers that nothing is said of are 0, texts and lists are null.

Touches: nothing.
Source:  tables of Hudi 1.2.0 (version 9) and 1.0.2 (version 8); of native logs HoodieNativeLogAppendHandle (Hudi's
         master of August 2026).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakeward.engine.task.operation_spec import ChangeLog
from lakeward.format.timeline.commit_metadata import NO_COMMIT, RuntimeStats, WriteStat, file_stat, log_stat
from lakeward.write.target import SliceNames, WriteTarget


def created_stat(
    target: WriteTarget, *, file_id: str, name: str, size_bytes: int, rows: int, deletes: int, seconds: float
) -> WriteStat:
    """
    Args:
        deletes: of unknown keys that came along, and are in no file.
    """
    return replace(
        _stat(target, name, size_bytes, file_id=file_id),
        prev_commit=NO_COMMIT,
        num_writes=rows,
        num_inserts=rows,
        num_deletes=deletes,
        runtime_stats=RuntimeStats(0, _milliseconds(seconds), 0),
    )


def merged_stat(
    target: WriteTarget,
    *,
    name: str,
    size_bytes: int,
    rows: int,
    inserted: int,
    updated: int,
    deleted: int,
    prev_base_file: str,
    seconds: float,
    change_log: ChangeLog | None,
) -> WriteStat:
    """
    Args:
        rows: all of the new file.
    """
    return replace(
        _stat(target, name, size_bytes),
        prev_commit=target.prev_commit,
        prev_base_file=prev_base_file,
        num_writes=rows,
        num_inserts=inserted,
        num_update_writes=updated,
        num_deletes=deleted,
        cdc_stats=None if change_log is None else change_log.stats_in(target.partition_path),
        runtime_stats=RuntimeStats(0, 0, _milliseconds(seconds)),
    )


def appended_stat(
    target: WriteTarget,
    *,
    instant: str,
    name: str,
    size_bytes: int,
    rows: int,
    inserted: int,
    deletes: int,
    seconds: float,
    version: int = 1,
    names_before: Sequence[str] = (),
) -> WriteStat:
    """Rows of a log count as updates: those of keys that were found, and all that a bucket gets.

    Args:
        inserted: how many of the rows have keys that were not found.
        version: of the log.
        names_before: the files of the same target that were written before this one, which it names, too.
    """
    beneath = target.beneath or SliceNames("", ())
    stat = _stat(target, name, size_bytes)
    return replace(
        log_stat(stat, version=version, names_before=(*beneath.log_files, *names_before)),
        base_file=beneath.base_file,
        prev_commit=instant if target.beneath is None else target.prev_commit,
        num_writes=rows,
        num_inserts=inserted,
        num_update_writes=rows - inserted,
        num_deletes=deletes,
        runtime_stats=RuntimeStats(0, 0, _milliseconds(seconds)),
    )


def _stat(target: WriteTarget, name: str, size_bytes: int, *, file_id: str | None = None) -> WriteStat:
    return file_stat(target.partition_path, file_id or target.file_id, name, size_bytes)


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
