"""What a table holds by our own reader: the snapshot query, for tests that cannot start Hudi for every question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from lakeward.base.paths import join
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.read.file_slice import open_slice
from lakeward.read.logs.committed_writes import committed_writes
from lakeward.read.slice_input import SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.storage.local import LocalStorage
from lakeward.table.file_group import FileSlice
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from tests.clocks import SkippingClock


def read_rows(base: Path, *, as_of: str | None = None) -> list[dict[str, Any]]:
    """All rows by record key, without `_hoodie_file_name`.

    Args:
        as_of: the instant of a commit; what was written since is not read.
    """
    snapshot = scan(base)
    rows: list[dict[str, Any]] = []
    for group in snapshot.file_groups:
        slices = group.slices if as_of is None else tuple(_until(group.slices, as_of))
        if (merged := _readable(slices)) is not None:
            rows += slice_rows(base, snapshot, merged)
    return sorted(rows, key=lambda row: row["_hoodie_record_key"])


def scan(base: Path) -> TableSnapshot:
    return take_snapshot(LocalStorage(), str(base), timezone="UTC", clock=SkippingClock())


def _until(slices: tuple[FileSlice, ...], time: str) -> Iterator[FileSlice]:
    for slice_ in slices:
        if slice_.base_instant <= time:
            yield replace(slice_, log_files=tuple(log for log in slice_.log_files if log.instant <= time))


def _readable(slices: tuple[FileSlice, ...]) -> FileSlice | None:
    """The latest slice; under a pending compaction the slice before it with the logs that came since."""
    if not slices:
        return None
    latest = slices[0]
    if latest.base_file is not None or len(slices) == 1:
        return latest
    before = slices[1]
    return FileSlice(
        before.partition_path,
        before.file_id,
        before.base_instant,
        before.base_file,
        before.log_files + latest.log_files,
    )


def slice_rows(base: Path, snapshot: TableSnapshot, slice_: FileSlice) -> list[dict[str, Any]]:
    """All rows of one slice, in no order."""
    assert snapshot.schema is not None
    reading = SliceInput(
        base_path=str(base),
        partition_path=slice_.partition_path,
        file_id=slice_.file_id,
        base_file=join(slice_.partition_path, slice_.base_file.name) if slice_.base_file else None,
        log_files=tuple(join(slice_.partition_path, log.name.text) for log in slice_.log_files),
        instant="99999999999999999",
        schema=snapshot.schema,
        rules=merge_rules(snapshot),
        key_fields=snapshot.config.made_key_fields,
        committed=committed_writes(snapshot.timeline, snapshot.config.version),
    )
    try:
        rows = _merged(reading, by_order=True)
    except NotSorted:  # in the layout lsm_tree of a file that says nothing of its order, too
        rows = _merged(reading, by_order=False)
    return [{name: value for name, value in row.items() if name != "_hoodie_file_name"} for row in rows]


def _merged(reading: SliceInput, *, by_order: bool) -> list[dict[str, Any]]:
    with open_slice(LocalStorage(), reading, by_order=by_order) as merged:
        return [row for batch in merged.batches() for row in batch.to_pylist()]
