"""The indexes of a table, opened by their types."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.clock import SystemClock
from lakeward.index.index_type import IndexType
from lakeward.index.record.record_options import RecordOptions
from lakeward.services.indexing.judge.index_list import list_below
from lakeward.services.indexing.table_indexes import TableIndexes
from lakeward.storage.local import LocalStorage
from lakeward.storage.metered import MeteredStorage
from lakeward.table.snapshot import take_snapshot
from tests.golden_tables import copy_golden


@pytest.mark.parametrize("kind", [kind for kind in IndexType if kind is not IndexType.POSTGRES])
def test_no_database_is_opened_for_an_index_in_files(kind: IndexType, tmp_path: Path) -> None:
    """Keeps of services/indexing/table_indexes: an index that is in none is read while the database is away."""

    def away(*given: object) -> None:
        raise AssertionError("a database was opened")

    base = copy_golden("v9_metadata", tmp_path / "t")
    indexes = TableIndexes(LocalStorage(), str(base), RecordOptions(), away, away)
    if kind is IndexType.RECORD:
        with indexes.place(kind) as place:
            assert not place.is_there()
        return
    with indexes.reader(kind) as opened:
        assert opened is not None


def test_where_no_file_grows_the_list_says_that_commits_add_files(tmp_path: Path) -> None:
    """In an object store, which has no logs of buckets, and not in a file system."""
    base = str(copy_golden("v9_metadata", tmp_path / "t"))
    snapshot = take_snapshot(LocalStorage(), base, timezone="UTC", clock=SystemClock())
    notes = []
    for storage in (LocalStorage(), MeteredStorage(LocalStorage())):
        indexes = TableIndexes(storage, base, RecordOptions())
        if not notes:
            with indexes.place(IndexType.RECORD) as place:
                place.create(is_global=True)
        notes += [found.note for found in list_below(indexes, snapshot)]
    assert ["each commit adds a file" in note for note in notes] == [False, True]
