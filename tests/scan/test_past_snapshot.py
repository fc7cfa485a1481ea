"""A table as it was: rows as of each commit, in this process; `tests/interop/test_read.py` compares with Hudi."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeward
from lakeward.api.table import Rows
from lakeward.base.clock import SystemClock
from lakeward.base.errors import Refused, UsageError
from lakeward.scan.key_lookup import KeyLookup
from lakeward.scan.past_snapshot import snapshot_as_of
from lakeward.scan.scan_plan import TableQuery
from lakeward.scan.table_scan import TableScan
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import COPY_ON_WRITE
from tests.write.writing import Row, new_table, write

FIRST: list[Row] = [("k1", 1, "p", "a"), ("k2", 1, "q", "b")]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "t")
    write(table, FIRST)
    write(table, [("k1", 2, "p", "new"), ("k9", 2, "r", "z")])
    write(table, [("k2", 3, "q", None)], "delete")
    return table


def instants(base: Path) -> list[str]:
    return sorted(file.name[:17] for file in (base / ".hoodie" / "timeline").glob("*_*.*commit"))


def found(rows: Rows) -> dict[str, str]:
    return {row["id"]: row["v"] for row in rows.to_arrow().to_pylist()}


def test_rows_as_of_each_commit(base: Path) -> None:
    """Logs and groups that came later are left out; base files alone, too. Keeps 2 of scan/past_snapshot."""
    table = lakeward.Table(str(base))
    first, second, third = instants(base)
    assert found(table.scan(as_of=first)) == {"k1": "a", "k2": "b"}
    assert found(table.scan(as_of=second)) == {"k1": "new", "k2": "b", "k9": "z"}
    assert found(table.scan(as_of=second, read_optimized=True)) == {"k1": "a", "k2": "b", "k9": "z"}
    assert found(table.scan(as_of=third)) == found(table.scan()) == {"k1": "new", "k9": "z"}
    assert table.scan(as_of=first).count() == 2


def test_a_table_of_a_moment(base: Path) -> None:
    """All that is asked of it is of then."""
    first, second, _ = instants(base)
    past = lakeward.Table(str(base), as_of=first)
    assert past.instant == first
    assert past.count(where="v = 'b'") == 1
    assert past.refresh().count() == 2
    assert past.get("k1").column("v").to_pylist() == ["a"]
    assert found(past.scan(as_of=second)) == {"k1": "new", "k2": "b", "k9": "z"}
    difference = past.diff(lakeward.Table(str(base)))
    assert (difference.added, difference.gone, difference.changed) == (1, 1, 1)


def test_indexes_are_of_now(base: Path) -> None:
    """An index knows where keys are now, and is not asked where they were."""
    snapshot = snapshot_as_of(lakeward.Table(str(base)).snapshot, instants(base)[0])
    lookup = KeyLookup(LocalStorage(), snapshot, clock=SystemClock())
    scan = TableScan(LocalStorage(), snapshot, TableQuery(keys=("k1",)), lookup=lambda: lookup)
    assert [row["v"] for batch in scan for row in batch.to_pylist()] == ["a"]
    assert sum("not asked, it leads to the newest rows" in note for note in scan.plan.key_notes) == 2


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    """Never older rows in place of those that are gone: Hudi reads the slice before. Keeps 1 of scan/past_snapshot."""
    base = new_table(tmp_path / "t", table_type=COPY_ON_WRITE)
    for value in ("a", "b", "c"):
        write(base, [("k1", 1, "p", value)])
    first, second, third = instants(base)
    file = next((base / "p").glob(f"*{second}.parquet"))
    file.unlink()
    table = lakeward.Table(str(base))
    assert found(table.scan(as_of=first)) == {"k1": "a"}
    assert found(table.scan(as_of=third)) == {"k1": "c"}
    with pytest.raises(Refused) as caught:
        table.scan(as_of=second)
    assert str(caught.value).startswith(
        f"The table cannot be read as of {second}: p/{file.name} is gone. Commit {second} wrote it, "
        "and rows as of then are in it."
    )


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    """Nothing else compares files of slices that are not the newest any more. Keeps 1 of scan/past_snapshot."""
    base = new_table(tmp_path / "t", table_type=COPY_ON_WRITE)
    for value in ("a", "b"):
        write(base, [("k1", 1, "p", value)])
    first, second = instants(base)
    file = next((base / "p").glob(f"*{first}.parquet"))
    size = file.stat().st_size
    with file.open("ab") as more:
        more.write(b"x")
    table = lakeward.Table(str(base))
    assert found(table.scan(as_of=second)) == {"k1": "b"}
    with pytest.raises(
        Refused, match=f"p/{file.name} has {size + 1:,} bytes instead of {size:,}. Commit {first} wrote"
    ):
        table.scan(as_of=first)


def test_what_was_archived_is_refused(base: Path) -> None:
    """The earliest moment is the first commit that was not."""
    first, second, _ = instants(base)
    timeline = base / ".hoodie" / "timeline"
    (timeline / "history" / "1_2_0.parquet").write_bytes(b"")
    for file in timeline.glob(f"{first}*"):
        file.unlink()
    with pytest.raises(Refused, match=f"the earliest moment is {second}. Older commits were archived."):
        lakeward.Table(str(base), as_of=first)


def test_no_moment(base: Path) -> None:
    with pytest.raises(UsageError, match="is no moment"):
        lakeward.Table(str(base), as_of="someday")
