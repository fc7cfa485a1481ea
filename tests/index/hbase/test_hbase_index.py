"""Which entries of HBase count, as of a table's timeline and file groups."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.errors import Unsupported
from lakeward.index.hbase.hbase_index import HBaseIndex, HBaseSource, PassedOver
from lakeward.index.index import record_locations
from lakeward.index.location import LOCATIONS
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from tests.clocks import SkippingClock
from tests.write.writing import new_table, write

Entry = tuple[str, str, str, str]


class Entries:
    """What a table of HBase answers."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries

    def scan(self) -> Iterator[pa.RecordBatch]:
        yield self._of(self.entries)

    def get(self, keys: pa.Array) -> Iterator[pa.RecordBatch]:
        yield self._of([entry for entry in self.entries if entry[0] in keys.to_pylist()])

    def _of(self, entries: Sequence[Entry]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(
            [dict(zip(LOCATIONS.names, each, strict=True)) for each in entries], LOCATIONS
        )


@pytest.fixture
def table(tmp_path: Path) -> TableSnapshot:
    base = new_table(tmp_path / "t")
    write(base, [("a", 1, "p", "x")])
    return take_snapshot(LocalStorage(), str(base), clock=SkippingClock())


def test_entries_of_commits_that_do_not_count_are_passed_over(table: TableSnapshot) -> None:
    (group,) = table.file_groups
    (commit,) = (each.time for each in table.timeline.completed)
    entries = [
        ("complete", "p", group.file_id, commit),
        ("archived", "p", group.file_id, "20200101000000000"),
        ("unknown", "p", group.file_id, "29990101000000000"),
        ("replaced", "p", "another-file-group", commit),
        ("elsewhere", "q", group.file_id, commit),
    ]
    passed_over = PassedOver()
    source = HBaseSource(Entries(entries), passed_over)  # type: ignore[arg-type]
    index = HBaseIndex(source, LocalStorage(), table)
    found = pa.Table.from_batches(index.look_up(LocalStorage(), None, None), LOCATIONS)
    assert found["_hoodie_record_key"].to_pylist() == ["complete", "archived"]
    assert passed_over == PassedOver(uncommitted=1, without_file_group=2)
    asked = record_locations(LocalStorage(), index, pa.array(["archived", "replaced"]))
    assert asked.to_pylist() == [dict(zip(LOCATIONS.names, entries[1], strict=True))]
    with pytest.raises(Unsupported, match="not by Spark's tasks"):
        pickle.dumps(index)
