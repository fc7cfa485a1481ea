"""Rows as the ids that simulated data files hold: a record key and the number of the write that wrote it last.

Of equal keys the row of the later write wins, whichever file it is in, as with an ordering column. A row that a write
deleted has its number with a minus, and stays in files as such: so one that is written late does not come back.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping

from lakeward.base.paths import join
from lakeward.engine.task.operation_output import open_operation_output
from lakeward.engine.task.operation_spec import OperationKind, OperationResult, OperationSpec
from lakeward.format.file_name import BaseFileName, parse_log_file
from lakeward.read.slice_input import SliceInput
from lakeward.services.clustering.run.packed_file import PackSpec
from lakeward.services.clustering.run.tasks import TaskSpec
from lakeward.storage.storage import Storage
from lakeward.write.handles.stats import created_stat
from lakeward.write.target import TargetResult, WriteContext, WrittenFile
from tests.simulation.data_files import base_file, fold, log_file, read_base_file, read_log_file
from tests.simulation.dispatcher import no_counts

WRITES_MAX = 1_000_000


def to_ids(rows: Mapping[int, int]) -> list[int]:
    return [(key * WRITES_MAX + abs(write)) * 2 + (write < 0) for key, write in sorted(rows.items())]


def newest(ids: Collection[int]) -> dict[int, int]:
    """The write by key, deleted rows with them."""
    rows = ((id_ // 2 // WRITES_MAX, id_ // 2 % WRITES_MAX, id_ % 2) for id_ in sorted(ids))
    return {key: -write if is_deleted else write for key, write, is_deleted in rows}


def present(rows: Mapping[int, int]) -> dict[int, int]:
    """The rows that readers find."""
    return {key: write for key, write in rows.items() if write > 0}


def merge_rows(storage: Storage, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """Stands in for `run_operation`."""
    slice_ = spec.slice
    ids, sources = _read(storage, slice_)
    merged = to_ids(newest(ids))
    is_log = spec.kind is OperationKind.LOG
    data = log_file(slice_.instant, merged, sources=sources) if is_log else base_file(merged)
    name_text = spec.file_name(task_attempt)
    with open_operation_output(storage, spec.place, name_text, replaces_base_file=slice_.base_file is not None) as file:
        file.write(data)
    storage.create(spec.place.done_path(task_attempt, rows=len(merged)), b"")
    return OperationResult(
        kind=spec.kind,
        index=spec.index,
        partition_path=slice_.partition_path,
        file_id=slice_.file_id,
        file_name=name_text,
        size_bytes=len(data),
        counts=no_counts(len(merged)),
        digest="",
        input_bytes=spec.input_bytes,
        seconds=1.0,
    )


def pack_rows(storage: Storage, context: WriteContext, spec: TaskSpec, task_attempt: int) -> TargetResult:
    """Stands in for `run_task` of a clustering."""
    assert isinstance(spec, PackSpec), "rows here have no columns to bring them together by"
    ids: set[int] = set()
    for slice_ in spec.slices:
        ids |= _read(storage, slice_)[0]
    merged = to_ids(newest(ids))
    data, target, place = base_file(merged), spec.target, context.place(spec.target)
    name = BaseFileName(target.file_id, place.token(task_attempt), context.instant).text
    with open_operation_output(storage, place, name) as file:
        file.write(data)
    storage.create(place.done_path(task_attempt, rows=len(merged)), b"")
    stat = created_stat(
        target, file_id=target.file_id, name=name, size_bytes=len(data), rows=len(merged), deletes=0, seconds=1.0
    )
    return TargetResult(target.index, target.partition_path, (WrittenFile(name, len(data), stat, (), False),))


def _read(storage: Storage, slice_: SliceInput) -> tuple[set[int], list[str]]:
    """The ids of a slice, and the instants that its logs stand for."""
    base = slice_.base_file
    ids = set() if base is None else {*read_base_file(storage.read(join(slice_.base_path, base))).ids}
    logs = []
    for path in slice_.log_files:
        name = parse_log_file(posixpath.basename(path))
        assert name is not None
        logs.append((name.instant, read_log_file(storage.read(join(slice_.base_path, path)))))
    of_logs, sources = fold(logs)
    return ids | of_logs, sources
