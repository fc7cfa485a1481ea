"""The ranges of columns in file groups, by the metadata table and by footers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakeward.base.errors import UsageError
from lakeward.scan.column_ranges import ColumnRanges, column_ranges, measured_columns
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.our_reader import scan
from tests.write.writing import new_table, write

STORAGE = LocalStorage()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two file groups in each of two partitions; a log on one of them has the greatest `ts`."""
    base = new_table(tmp_path / "table")
    for first in (0, 50):
        rows = [(f"k{first + at:02}", first + at, "ab"[at % 2], None if first else "x") for at in range(10)]
        write(base, rows, "bulk_insert")
    write(base, [("k08", 99, "a", "y")])
    return base


def ends(found: ColumnRanges, column: str) -> list[tuple[str, object]]:
    return sorted(((each.partition_path, each.ends) for each in found.of_column[column]), key=repr)


def ranges(table: Path, *columns: str) -> ColumnRanges:
    return column_ranges(STORAGE, scan(table), columns, clock=SkippingClock())


def test_those_of_the_metadata_table_have_logs(table: Path) -> None:
    """The range of a slice is over its base file and its logs. A file group with nulls alone is read by no filter on a
    value, and is left out."""
    found = ranges(table, "ts", "v")
    assert found.is_of_metadata and found.logs_without == 0
    assert ends(found, "ts") == [("a", (0, 99)), ("a", (50, 58)), ("b", (1, 9)), ("b", (51, 59))]
    assert ends(found, "v") == [("a", ("x", "y")), ("b", ("x", "x"))]


def test_those_of_footers_have_none(table: Path) -> None:
    """Without column_stats footers say the ranges of base files. Keeps 1 of scan/column_ranges: a slice has the range
    of the files that say one, and none without that of its base file."""
    shutil.rmtree(table / ".hoodie/metadata")
    properties = table / ".hoodie/hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "checksum" not in line]
    properties.write_text("\n".join(line for line in lines if "metadata.partitions=" not in line) + "\n")
    found = ranges(table, "ts", "v")
    assert not found.is_of_metadata and found.logs_without == 1
    assert ends(found, "ts") == [("a", (0, 8)), ("a", (50, 58)), ("b", (1, 9)), ("b", (51, 59))]
    assert ends(found, "v") == [("a", ("x", "x")), ("b", ("x", "x"))]


def test_columns_that_are_not_there(table: Path) -> None:
    """The nearest is named; without names all are measured that have an order, none of Hudi's own."""
    assert measured_columns(scan(table), ()) == ("id", "ts", "part", "v")
    with pytest.raises(UsageError, match=r"no column 'tz'\. The columns are id, ts, part, v\."):
        measured_columns(scan(table), ["tz"])
    with pytest.raises(UsageError, match=r"no column 'parts'\. Did you mean part\?"):
        measured_columns(scan(table), ["ts", "parts"])
