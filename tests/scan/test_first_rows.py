"""A read of some first rows looks at the first partitions of a table, and at all only where it must."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lakeward
from lakeward.base.clock import SystemClock
from lakeward.base.errors import TryLater
from lakeward.cli.main import run
from lakeward.cli.read import read_command
from lakeward.format.avro.schema_text import schema_text
from lakeward.scan.scan_plan import TableQuery
from lakeward.scan.table_scan import TableScan
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from tests.write.writing import COLUMNS, new_table, write


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Four rows in each of the partitions `p`, `p-1` and `q`."""
    table = new_table(tmp_path / "t")
    write(table, [(f"k{number:02}", 1, ("p", "p-1", "q")[number % 3], f"v{number}") for number in range(12)])
    return table


def first_rows(base: Path, limit: int, whole: Callable[[], TableSnapshot] | None = None) -> TableScan:
    storage, clock = LocalStorage(), SystemClock()
    part = take_snapshot(storage, str(base), clock=clock, files_enough=1)
    assert not part.is_whole
    query = TableQuery(columns=("id", "part"), limit=limit)
    return TableScan(storage, part, query, whole=whole or (lambda: take_snapshot(storage, str(base), clock=clock)))


@pytest.mark.parametrize("limit", [0, 1, 4, 5, 9, 12, 13])
def test_first_rows_are_those_of_a_read_of_the_whole_table(base: Path, limit: int) -> None:
    """Keeps 5 of scan/table_scan: four rows are in the partition that is listed first."""
    scan = first_rows(base, limit)
    expected = lakeward.Table(str(base)).scan(columns=["id", "part"], limit=limit).to_arrow().to_pylist()
    for _ in range(2):
        assert [row for batch in scan for row in batch.to_pylist()] == expected
    assert scan.snapshot.is_whole is (limit > 4)
    assert scan.count() == min(limit, 12)


def test_rows_of_a_part_are_not_given_out_with_those_of_a_later_moment(base: Path) -> None:
    """A row of the first partition changes while it is read; no row of before comes out."""
    storage, clock = LocalStorage(), SystemClock()

    def later() -> TableSnapshot:
        write(base, [("k00", 2, "p", "new"), ("k12", 1, "q", "new")])
        return take_snapshot(storage, str(base), clock=clock)

    scan = first_rows(base, 20, later)
    rows = [row for batch in scan for row in batch.to_pylist()]
    assert len(rows) == 13 and len({row["id"] for row in rows}) == 13
    assert scan.plan.partitions == 3


def test_other_columns_meanwhile_end_the_read(base: Path, tmp_path: Path) -> None:
    fewer = new_table(tmp_path / "fewer", schema=schema_text(COLUMNS.remove(3), "t"))
    snapshot = lakeward.Table(str(fewer)).snapshot
    with pytest.raises(TryLater, match="got other columns"):
        list(TableScan(LocalStorage(), first_rows(base, 20).snapshot, TableQuery(limit=20), whole=lambda: snapshot))


def test_the_command_looks_at_first_partitions_alone(
    base: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reads that ask for more than first rows take the whole table."""
    monkeypatch.setattr(read_command, "FIRST_FILES", 1)
    assert run(["read", str(base), "--limit", "2", "--explain"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == "2 rows"
    assert "partitions: 1 listed, the first of the table" in captured.err
    assert run(["read", str(base)]) == 0  # 20 are not there
    assert capsys.readouterr().out.splitlines()[-1] == "12 rows"
    for options in (["--where", "ts = 1"], ["--keys", "k01"], ["--skip-damaged"], ["--as-of", "now"]):
        assert run(["read", str(base), "--limit", "1", "--explain", *options]) == 0
        assert "listed" not in capsys.readouterr().err
    assert run(["read", str(base), "--limit", "20", "--count"]) == 0
    assert capsys.readouterr().out.split() == ["12"]
