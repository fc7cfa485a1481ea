"""`lakeward.Table`: the rows of a table, from Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward
from lakeward.base.errors import BrokenFile, DamagedFiles, Refused, TryLater, UsageError
from lakeward.format.parquet import base_file
from tests.golden_tables import copy_golden, expected_rows
from tests.write.writing import Row, new_table, write

FIRST: list[Row] = [("k1", 1, "p", "a"), ("k2", 1, "q", "b"), ("k3", 1, "q", "c")]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "t")
    write(table, FIRST)
    return table


@pytest.mark.parametrize("version", ["v6", "v9", "v9_metadata", "in_part"])
def test_rows_are_those_that_hudi_gave(version: str, tmp_path: Path) -> None:
    """Tables that Hudi wrote, with the answer of its snapshot query. Keeps 2 of api/table."""
    table = lakeward.Table(str(copy_golden(version, tmp_path / "t")), timezone="UTC")
    found = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"]).to_pylist()
    expected = expected_rows(version)
    assert sorted(found, key=lambda row: row["_hoodie_record_key"]) == [
        {name: row[name] for name in found[0]} for row in expected
    ]
    assert table.count() == len(expected)


@pytest.mark.parametrize("lsm", [False, True], ids=["default", "lsm_tree"])
def test_a_table_of_version_10_is_read_by_its_owner(lsm: bool, tmp_path: Path) -> None:
    """No release of Hudi reads it: rows, later rows in native logs, and deletes there; by a filter on values that a log
    changed, too."""
    base = new_table(tmp_path / "t", version=10, is_lsm_tree=lsm)
    write(base, FIRST)
    write(base, [("k2", 2, "q", "x"), ("k3", 0, "q", "late")])
    write(base, [("k1", 3, "p", None)], "delete")
    table = lakeward.Table(str(base))
    found = table.scan(columns=["id", "v"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["v"]) for row in found) == [("k2", "x"), ("k3", "c")]
    assert (table.count(where="v = 'b'"), table.count(where="v = 'x'"), table.count()) == (0, 1, 2)
    assert table.scan(read_optimized=True).count() == 3


def test_columns_filter_and_limit(base: Path) -> None:
    """Columns come in the order of their names in the call."""
    table = lakeward.Table(str(base))
    scan = table.scan(columns=["v", "id"], where="part = 'q'")
    assert scan.schema.names == ["v", "id"]
    assert scan.to_arrow().to_pylist() == [{"v": "b", "id": "k2"}, {"v": "c", "id": "k3"}]
    assert table.scan(limit=2).to_arrow().num_rows == table.scan(limit=2).count() == 2
    assert table.scan(limit=0).to_arrow().num_rows == 0
    assert table.count(where="v > 'a'") == 2
    assert "_hoodie_record_key" in table.schema.names
    assert [name for name in table.scan().schema.names if name.startswith("_hoodie")] == []


def test_a_count_reads_what_footers_leave_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group whose rows all are chosen by its footer, or none, is not read; of the others the columns of the
    filter are. A null is not chosen, and in a log a row may have another value."""
    monkeypatch.setattr(base_file, "ROW_GROUP_ROWS", 10)
    base = new_table(tmp_path / "t", partition_fields=())
    rows = [(f"k{number:02}", number, "p", None if number == 25 else f"v{number:02}") for number in range(40)]
    write(base, rows, "bulk_insert")
    table = lakeward.Table(str(base))

    def counted(where: str) -> tuple[int, int]:
        scan = table.scan(where=where)
        found, groups = scan.count(), scan.scan.meter.row_groups
        assert found == scan.to_arrow().num_rows
        return found, groups

    assert counted("ts >= 10 and ts < 30") == (20, 0)
    assert counted("ts >= 15") == (25, 1)
    assert counted("v >= 'v10'") == (29, 1)
    assert counted("ts < 100 or part = 'x'") == (40, 0)
    assert counted("ts < 10 and part = 'p'") == (10, 0)
    assert counted("v is null") == (1, 4)
    write(base, [("k12", 50, "p", "new")])
    table = table.refresh()
    assert counted("ts >= 10 and ts < 30")[0] == 19


def test_others_take_the_stream(base: Path) -> None:
    """Arrow's stream interface, as pandas, Polars and DuckDB use it; each call reads once more."""
    scan = lakeward.Table(str(base)).scan(columns=["id"])
    assert pa.table(scan).num_rows == pa.table(scan).num_rows == 3


def test_a_table_is_of_one_moment(base: Path) -> None:
    """Keeps 1 of api/table; until it is refreshed. Keeps 1 of scan/table_scan."""
    table = lakeward.Table(str(base))
    before = table.scan().to_arrow()
    write(base, [("k1", 2, "p", "new"), ("k9", 2, "r", "new")])
    assert table.scan().to_arrow() == before
    assert table.refresh().count() == 4
    assert table.count(where="v = 'new'") == 2


GONE = {"base": (9, "*.parquet"), "inline log": (9, ".*.log.*"), "native log": (10, "*.log.*")}
"""Table version, and the files of partition q that go."""


@pytest.mark.parametrize("kind", GONE)
def test_files_that_are_gone_end_the_query(kind: str, tmp_path: Path) -> None:
    """Never fewer rows: a cleaner, a rollback or a restore took a file while rows came out. Also where rows are only
    counted, and where what is damaged is skipped."""
    version, files = GONE[kind]
    base = new_table(tmp_path / "t", version=version)
    write(base, FIRST)
    if kind != "base":
        write(base, [("k2", 2, "q", "x")])
    table = lakeward.Table(str(base))
    rows = iter(table.scan())
    assert next(rows).column("id").to_pylist() == ["k1"]
    (file,) = (base / "q").glob(files)
    file.unlink()
    with pytest.raises(TryLater, match="were deleted while the query ran") as raised:
        next(rows)
    assert raised.value.exit_code == 75 and file.name in raised.value.why
    for scan in (table.scan(), table.scan(where="v is not null"), table.scan(skip_damaged=True)):
        with pytest.raises(TryLater):
            scan.count()
    with pytest.raises(TryLater):
        list(table.scan(skip_damaged=True))


def test_damage_is_named_and_can_be_skipped(base: Path) -> None:
    """Keeps 2 of scan/table_scan; 2 of scan/scan_plan."""
    file = next((base / "q").glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-9])
    table = lakeward.Table(str(base))
    with pytest.raises(DamagedFiles, match=file.name):
        table.scan().to_arrow()
    with pytest.raises(DamagedFiles):
        table.count()
    assert table.scan(where="part = 'p'").to_arrow().num_rows == 1
    scan = table.scan(skip_damaged=True)
    assert scan.to_arrow().column("id").to_pylist() == ["k1"]
    assert scan.damage is not None and file.name in str(scan.damage)


def test_columns_of_the_partition_that_files_lack(tmp_path: Path) -> None:
    """They have the values of the path, also where a log has them, and filters find them. Rows are those of Hudi's
    compaction, which leaves null there."""
    table = lakeward.Table(str(copy_golden("dropped", tmp_path / "t")), timezone="UTC")
    expected = {row["id"]: row for row in expected_rows("dropped")}
    found = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    assert found == {
        key: {name: row[name] for name in ("id", "part", "ts", "v")} | {"part": row["_hoodie_partition_path"]}
        for key, row in expected.items()
    }
    of_one = sorted(key for key, row in found.items() if row["part"] == "p1")
    assert 0 < len(of_one) < len(found)
    scan = table.scan(columns=["id"], where="part = 'p1'")
    assert sorted(scan.to_arrow().column("id").to_pylist()) == of_one and scan.count() == len(of_one)
    assert table.count(where="part = 'p1' or part = 'p0' and v > 0") >= len(of_one)
    assert table.count(where="part is null or not part in ('p0', 'p1')") == 0


def test_rows_that_are_not_certain_are_refused(tmp_path: Path) -> None:
    """The error names the refusal."""
    base = copy_golden("dropped", tmp_path / "t")
    properties = base / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text() + "hoodie.datasource.write.slash.separated.date.partitioning=true\n")
    with pytest.raises(Refused, match="cannot be read: dropped-partition-columns"):
        lakeward.Table(str(base), timezone="UTC").scan()


def test_a_table_without_rows(tmp_path: Path) -> None:
    """It has the columns that it was made with; one that was made without any says so."""
    base = new_table(tmp_path / "t")
    table = lakeward.Table(str(base))
    assert table.scan().to_arrow().schema.names == ["id", "ts", "part", "v"]
    assert (table.count(), table.instant) == (0, None)
    properties = base / ".hoodie/hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("hoodie.table.create.schema")]
    properties.write_text("\n".join(lines) + "\n")
    with pytest.raises(Refused, match="has no columns yet"):
        table.refresh().count()


def test_slips(base: Path, tmp_path: Path) -> None:
    table = lakeward.Table(str(base))
    with pytest.raises(UsageError, match="no column 'idd'"):
        table.scan(columns=["idd"])
    with pytest.raises(UsageError, match="'id' is named twice"):
        table.scan(columns=["id", "id"])
    shutil.rmtree(base / ".hoodie")
    with pytest.raises(UsageError):
        lakeward.Table(str(base))


@pytest.mark.slow
def test_a_slice_that_breaks_while_it_is_read_is_skipped_whole(tmp_path: Path) -> None:
    """A page in the middle of a base file, which its footer does not show: none of the slice's rows come out, and what
    is missing is reported with its rows. Keeps 2 of scan/table_scan."""
    base = new_table(tmp_path / "t")
    write(base, [("k0", 1, "p", "a"), *((f"q{n:06}", 1, "q", f"v{n * 7919 % 150_000}") for n in range(150_000))])
    file = next((base / "q").glob("*.parquet"))
    break_the_last_row_group(file)
    table = lakeward.Table(str(base))
    with pytest.raises(BrokenFile, match=file.name):
        table.scan().to_arrow()
    scan = table.scan(skip_damaged=True)
    assert scan.damage is None
    assert scan.to_arrow().column("id").to_pylist() == ["k0"]
    assert scan.damage is not None and file.name in scan.damage.what
    assert scan.damage.__notes__ == [
        f"Missing: file group {file.name.split('_')[0]} in partition q, whose base file has 150,000 rows."
    ]
    assert table.scan(skip_damaged=True, where="v != 'v5'").count() == 1


def test_a_log_that_breaks_while_it_is_read_is_skipped(tmp_path: Path) -> None:
    """The block is whole by its head and length, and its records are not."""
    base = new_table(tmp_path / "t")
    write(base, FIRST)
    write(base, [("k2", 2, "q", "changed" * 20)])
    log = next((base / "q").glob(".*.log.*"))
    content = bytearray(log.read_bytes())
    place = content.rindex(b"changed")
    content[place - 200 : place - 60] = b"\xff" * 140
    log.write_bytes(bytes(content))
    scan = lakeward.Table(str(base)).scan(skip_damaged=True)
    assert scan.to_arrow().column("id").to_pylist() == ["k1"]
    assert scan.damage is not None and log.name in scan.damage.what


def break_the_last_row_group(file: Path) -> None:
    chunk = pq.ParquetFile(file).metadata
    groups = chunk.num_row_groups
    assert groups > 1
    column = chunk.row_group(groups - 1).column(chunk.num_columns - 1)
    begin = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(file.read_bytes())
    content[begin : begin + column.total_compressed_size] = b"\x00" * column.total_compressed_size
    file.write_bytes(bytes(content))
