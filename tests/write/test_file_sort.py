"""Base files rewritten by their keys: a write to every reader, index and metadata table."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import Conflict
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.index.index_type import IndexType
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ, NewIndex, NewIndexes
from lakeward.write.file_sort import sort_slices
from lakeward.write.handles.handle import sort_target
from tests.clocks import SkippingClock
from tests.crash.metadata_compacting import check_agrees
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.together.versions.run.test_layout_step import base_files, is_sorted, turn_over
from tests.write.writing import new_table, write

KEYS = [f"k{number}" for number in range(12)]


def sort(base: Path, slices: Any = None) -> None:
    storage, dispatcher = LocalStorage(), InProcessDispatcher()
    table = serviced_table(str(base), storage, ScriptedProcesses())
    chosen = scan(base).latest_slices if slices is None else slices
    sort_slices(table, chosen, lambda _: dispatcher, partial(sort_target, storage))


def made(base: Path, table_type: str) -> Path:
    """With every index that the metadata table may have."""
    indexes = NewIndexes(finds_keys=NewIndex.METADATA, bloom_filters=True)
    new_table(base, version=10, table_type=table_type, indexes=indexes)
    clock = SkippingClock()
    clock.slept = -60.0
    write(base, [(key, 1, "p", "a") for key in KEYS], "insert", clock=clock, index=IndexType.METADATA)
    for file in base_files(base):
        turn_over(file)
    return base


@pytest.mark.parametrize("table_type", [COPY_ON_WRITE, MERGE_ON_READ])
def test_rows_and_keys_stay_where_they_are(tmp_path: Path, table_type: str) -> None:
    """Keeps 1 of write/file_sort: each key is found by the record index in its old file group, each row has its commit
    time, and the metadata table lists what is there."""
    base = made(tmp_path / "t", table_type)
    before, groups = read_rows(base), [(each.partition_path, each.file_id) for each in scan(base).file_groups]
    assert not any(is_sorted(file) for file in base_files(base))
    sort(base)
    assert all(is_sorted(file) for file in base_files(base))
    assert read_rows(base) == before
    newest = scan(base).timeline.completed_writes[-1]
    assert newest.action == ("commit" if table_type == COPY_ON_WRITE else "deltacommit")
    check_agrees(base)
    write(base, [(KEYS[0], 2, "p", "b")], index=IndexType.METADATA)
    write(base, [(KEYS[1], 2, "p", None)], "delete", index=IndexType.METADATA)
    found = {row["id"]: row["v"] for row in read_rows(base)}
    assert found == dict.fromkeys(KEYS[2:], "a") | {KEYS[0]: "b"}
    assert [(each.partition_path, each.file_id) for each in scan(base).file_groups] == groups
    check_agrees(base)


def test_a_slice_that_is_another_one_now(tmp_path: Path) -> None:
    """Keeps 2 of write/file_sort: what was written since is not lost; the write fails and leaves nothing."""
    base = made(tmp_path / "t", MERGE_ON_READ)
    slices = scan(base).latest_slices
    write(base, [(KEYS[0], 2, "p", "b")], index=IndexType.METADATA)
    with pytest.raises(Conflict, match="another newest slice"):
        sort(base, slices)
    assert not scan(base).timeline.pending
    assert {row["id"]: row["v"] for row in read_rows(base)} == dict.fromkeys(KEYS, "a") | {KEYS[0]: "b"}
