"""Snapshots of tables that exist only as sizes, for planners: no file is ever written or read."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakeward.format.file_name import CDC_SUFFIX, LogFileName
from lakeward.format.timeline.instant import Instant, State, instant_file_name, parse_instant
from lakeward.services.compaction.simulation.replay import sized_snapshot
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, LogFile
from lakeward.table.file_system_view import PartitionFiles
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import TableConfig

TOKEN = "0-0-0"


def minute(number: int) -> str:
    """The instant time of a minute of the first day of 2026 and the following."""
    day, rest = divmod(number, 24 * 60)
    return f"202601{day + 1:02}{rest // 60:02}{rest % 60:02}00000"


def completed(requested: str, action: str, at: str | None = None) -> list[Instant]:
    """An instant with all its files; `at` is its completion time, its own time when not given."""
    pending = {"commit": "compaction"}.get(action, action)
    return [
        *(_instant(requested, pending, state) for state in (State.REQUESTED, State.INFLIGHT)),
        _instant(requested, action, State.COMPLETED, at or requested),
    ]


def pending(requested: str, action: str, state: State = State.INFLIGHT) -> list[Instant]:
    states = (State.REQUESTED, State.INFLIGHT) if state is State.INFLIGHT else (State.REQUESTED,)
    return [_instant(requested, action, each) for each in states]


def log_compacted(requested: str, at: str | None = None) -> list[Instant]:
    return [*pending(requested, "logcompaction"), _instant(requested, "deltacommit", State.COMPLETED, at or requested)]


def _instant(time: str, action: str, state: State, completion_time: str | None = None) -> Instant:
    instant = parse_instant(instant_file_name(time, action, state, 2, completion_time), 2)
    assert instant is not None
    return instant


def file_group(
    partition: str,
    file_id: str,
    *,
    base: tuple[str, int] | None,
    logs: Iterable[tuple[str, int]],
    changes: Iterable[tuple[str, int]] = (),
) -> FileGroup:
    """A group of one slice. `base`, `logs` and `changes`, which are logs of changes, are instants with sizes."""
    of_slice = [_log(partition, file_id, *each) for each in logs]
    of_slice += [_log(partition, file_id, *each, suffix=CDC_SUFFIX) for each in changes]
    files = tuple(sorted(of_slice, key=lambda log: log.name.sort_key))
    base_file = None
    if base is not None:
        name = f"{file_id}_{TOKEN}_{base[0]}.parquet"
        base_file = BaseFile(file_id, base[0], name, partition, base[1], TOKEN)
    base_instant = base[0] if base is not None else files[0].instant
    return FileGroup(partition, file_id, (FileSlice(partition, file_id, base_instant, base_file, files),))


def _log(partition: str, file_id: str, instant: str, size: int, suffix: str = "") -> LogFile:
    return LogFile(LogFileName(file_id, instant, 1, TOKEN, suffix), partition, size)


def snapshot_of(
    groups: Sequence[FileGroup],
    instants: Iterable[Instant],
    *,
    properties: Mapping[str, str] | None = None,
    **fields: Any,
) -> TableSnapshot:
    """A version 9 table by event time, unless `properties` say otherwise; `fields` are further ones of the snapshot."""
    config = TableConfig(
        {
            "hoodie.table.name": "t",
            "hoodie.table.version": "9",
            "hoodie.timeline.layout.version": "2",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.table.timeline.timezone": "UTC",
            **(properties or {}),
        }
    )
    replaced = [group for group in fields.get("replaced_groups", ()) if isinstance(group, FileGroup)]
    ordered = sorted(instants, key=lambda i: (i.time, i.state == State.COMPLETED))
    found = sized_snapshot(groups, ordered, config, {}, _files_of((*groups, *replaced)))
    return dataclasses.replace(found, **fields)


def _files_of(groups: Iterable[FileGroup]) -> tuple[PartitionFiles, ...]:
    base_files: dict[str, list[BaseFile]] = defaultdict(list)
    log_files: dict[str, list[LogFile]] = defaultdict(list)
    for group in groups:
        for slice_ in group.slices:
            base_files[group.partition_path] += [] if slice_.base_file is None else [slice_.base_file]
            log_files[group.partition_path] += slice_.log_files
    return tuple(
        PartitionFiles(partition, tuple(bases), tuple(log_files[partition]), ())
        for partition, bases in base_files.items()
    )
