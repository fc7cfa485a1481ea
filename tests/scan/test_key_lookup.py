"""Rows by their keys, and where they are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward
from lakeward.format.avro.schema_text import schema_text
from lakeward.index.index_type import IndexType
from lakeward.index.metadata_record_index import MetadataRecordIndex
from lakeward.scan.key_lookup import other_moment
from lakeward.table.new_table import NewIndex, NewIndexes
from lakeward.table.timeline.timeline import Timeline
from tests.golden_tables import copy_golden, expected_rows
from tests.synthetic_table import completed, minute, pending
from tests.write.own_record_index import built, catch_up
from tests.write.writing import COLUMNS, Row, new_table, rows_of, write

FIRST: list[Row] = [(f"k{number}", 1, "pq"[number % 2], f"v{number}") for number in range(8)]


HUDI = NewIndexes(finds_keys=NewIndex.METADATA)
MANY: list[Row] = [(f"k{number:02}", 1, "pq"[number % 2], f"v{number}") for number in range(40)]


def by_hudis(path: Path, **changes: Any) -> Path:
    """A table with Hudi's record index, and two file groups in each partition."""
    base = new_table(path, indexes=HUDI, **changes)
    write(base, MANY[:20])
    write(base, MANY[20:], "bulk_insert")
    return base


def answers(rows: lakeward.Rows) -> tuple[list[str], int, str]:
    """The values of the rows, how many file groups were passed over for their keys, and what the indexes said."""
    plan = rows.scan.plan
    return sorted(rows.to_arrow().column("v").to_pylist()), plan.groups_without_keys, "; ".join(plan.key_notes)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "t")
    write(table, FIRST)
    return table


def test_rows_by_their_keys(base: Path) -> None:
    """A row of a base file, one that a log changed, one that a log deleted, one that is nowhere. Keeps 4 of
    scan/table_scan."""
    write(base, [("k2", 2, "p", "new")])
    write(base, [("k3", 2, "q", None)], "delete")
    table = lakeward.Table(str(base))
    found = table.get(["k1", "k2", "k3", "k9", "k2"], columns=["id", "v"])
    assert found.sort_by("id").to_pylist() == [{"id": "k1", "v": "v1"}, {"id": "k2", "v": "new"}]
    rows = table.scan(keys=["k1", "k3", "k9"], columns=["v"])
    assert rows.missing_keys is None
    assert (rows.to_arrow().column("v").to_pylist(), rows.missing_keys) == (["v1"], ("k3", "k9"))
    assert (rows.count(), rows.missing_keys) == (1, ("k3", "k9"))
    assert table.scan(keys=["k1"], where="v = 'x'").to_arrow().num_rows == 0
    assert table.get([]).num_rows == 0 and table.get("k1").num_rows == 1
    cut = table.scan(keys=["k1", "k2", "k4"], limit=1)
    assert (cut.to_arrow().num_rows, cut.missing_keys) == (1, None)


def test_where_rows_are(base: Path) -> None:
    """The partition, the file group, and the commit that wrote the row last; a deleted row is nowhere."""
    write(base, [("k2", 2, "p", "new")])
    write(base, [("k3", 2, "q", None)], "delete")
    table = lakeward.Table(str(base))
    found = table.record_locations(["k1", "k2", "k3"]).sort_by("key").to_pylist()
    rows = table.scan(columns=["_hoodie_record_key", "_hoodie_commit_time"]).to_arrow().to_pylist()
    times = {row["_hoodie_record_key"]: row["_hoodie_commit_time"] for row in rows}
    groups = {each.partition_path: each.file_id for each in table._snapshot.file_groups}
    assert found == [
        {"key": "k1", "partition": "q", "file_id": groups["q"], "instant": times["k1"]},
        {"key": "k2", "partition": "p", "file_id": groups["p"], "instant": times["k2"]},
    ]


def test_a_key_of_several_partitions(base: Path) -> None:
    """Keys that are of one partition: each partition that has it gives its row."""
    write(base, [("k1", 1, "p", "also here")])
    table = lakeward.Table(str(base))
    found = table.get("k1", columns=["part", "v"]).sort_by("part").to_pylist()
    assert found == [{"part": "p", "v": "also here"}, {"part": "q", "v": "v1"}]
    assert table.record_locations("k1").column("partition").to_pylist() == ["p", "q"]


def test_keys_of_several_fields(tmp_path: Path) -> None:
    """Keys as `_hoodie_record_key` has them, or by the names of their fields."""
    columns = pa.schema([("a", pa.int64()), ("b", pa.string()), *COLUMNS])
    base = new_table(tmp_path / "t", schema=schema_text(columns, "t"), record_key_fields=("a", "b"))
    write(base, rows_of([(1, "x", "i", 1, "p", "v"), (2, "y,z", "j", 1, "q", "w")], columns))
    table = lakeward.Table(str(base))
    assert table.get("a:1,b:x").column("v").to_pylist() == ["v"]
    assert table.get({"a": 2, "b": "y,z"}).column("v").to_pylist() == ["w"]


def test_keys_that_are_made_of_columns(tmp_path: Path) -> None:
    """Hudi wrote it, rows without keys, some in logs."""
    table = lakeward.Table(str(copy_golden("keyless", tmp_path / "t")), timezone="UTC")
    fields = table._snapshot.config.record_key_fields
    expected = {",".join(str(row[name]) for name in fields): row for row in expected_rows("keyless")}
    assert len(fields) == 1 and len(expected) > 2
    asked = [*sorted(expected)[:3], "nowhere"]
    rows = table.scan(keys=asked, columns=list(fields))
    assert sorted(str(row[fields[0]]) for row in rows.to_arrow().to_pylist()) == asked[:3]
    assert rows.missing_keys == ("nowhere",)
    bases = table.scan(columns=list(fields), read_optimized=True).to_arrow().column(0).to_pylist()
    assert table.scan(keys=bases, columns=list(fields), read_optimized=True).to_arrow().column(0).to_pylist() == bases


def test_hudis_record_index_leads_to_the_file_group(tmp_path: Path) -> None:
    """One file group of four is read for a key, by a filter on it, too; for a deleted one others are searched."""
    base = by_hudis(tmp_path / "t")
    write(base, [("k05", 2, "q", None)], "delete")
    table = lakeward.Table(str(base))
    for rows in (
        table.scan(keys=["k03"]),
        table.scan(where="id = 'k03'"),
        table.scan(where="_hoodie_record_key in ('k03') and v > 'a'"),
    ):
        values, passed, notes = answers(rows)
        assert (values, passed) == (["v3"], 3)
        assert notes.startswith("buckets: not asked, the table does not say that its rows lie in buckets")
        assert "record index of the metadata table: 1 file group, " in notes
        assert "ranges and bloom filters: not asked, every key is settled" in notes
    values, _, notes = answers(table.scan(keys=["k03", "k05"]))
    assert values == ["v3"]
    assert "record index of Lakeward: not asked, the table has none" in notes and "1 key left to others" in notes


def test_a_key_that_the_record_index_lost_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hudi's loses keys that come back after their delete. Keeps 1 of scan/key_lookup."""
    table = lakeward.Table(str(by_hudis(tmp_path / "t")))
    monkeypatch.setattr(MetadataRecordIndex, "look_up", lambda *_: iter(()))
    values, _, notes = answers(table.scan(keys=["k03", "k04"]))
    assert values == ["v3", "v4"] and "metadata table: 0 file groups" in notes and "2 keys left to others" in notes


def test_an_index_of_a_later_moment_is_not_asked(tmp_path: Path) -> None:
    """The key went to another partition after the table was opened: its old row is there. Keeps 2 of
    scan/key_lookup."""
    base = by_hudis(tmp_path / "t")
    table = lakeward.Table(str(base))
    write(base, [("k03", 2, "p", "moved")], index=IndexType.METADATA, moves_rows=True)
    values, _, notes = answers(table.scan(keys=["k03"]))
    assert values == ["v3"]
    assert "metadata table: not asked, it has the commit " in notes and "which the moment that is read does" in notes
    values, passed, _ = answers(table.refresh().scan(keys=["k03"]))
    assert (values, passed) == (["moved"], 3)


def test_an_index_that_lacks_a_commit_is_not_asked(tmp_path: Path) -> None:
    """The newest commit moved the key, and the metadata table has nothing of it. Keeps 2 of scan/key_lookup."""
    base = by_hudis(tmp_path / "t")
    before = tmp_path / "before"
    shutil.copytree(base / ".hoodie" / "metadata", before)
    write(base, [("k03", 2, "p", "moved")], index=IndexType.METADATA, moves_rows=True)
    shutil.rmtree(base / ".hoodie" / "metadata")
    shutil.copytree(before, base / ".hoodie" / "metadata")
    instant = lakeward.Table(str(base)).instant
    values, _, notes = answers(lakeward.Table(str(base)).scan(keys=["k03"]))
    assert values == ["moved"]
    assert f"record index of the metadata table: not asked, it lacks the commit {instant}" in notes


def test_as_of_a_moment_no_index_of_the_newest_rows_is_asked(tmp_path: Path) -> None:
    """The key moved since: by a table of a moment, and by a scan of one. Keeps 2 of scan/key_lookup."""
    base = by_hudis(tmp_path / "t")
    table = lakeward.Table(str(base))
    before = table.instant
    assert answers(table.scan(keys=["k03"]))[1] == 3
    write(base, [("k03", 2, "p", "moved")], index=IndexType.METADATA, moves_rows=True)
    assert answers(table.refresh().scan(keys=["k03"]))[:2] == (["moved"], 3)
    for rows in (table.scan(keys=["k03"], as_of=before), lakeward.Table(str(base), as_of=before).scan(keys=["k03"])):
        values, _, notes = answers(rows)
        assert values == ["v3"]
        assert "metadata table: not asked, it leads to the newest rows, and an earlier moment is read" in notes


def test_buckets(tmp_path: Path) -> None:
    """The hash of a key says its bucket: of a key by name, of one in a filter, and of the hashed field alone."""
    columns = pa.schema([("a", pa.string()), ("b", pa.int64()), *COLUMNS])
    indexes = NewIndexes(finds_keys=NewIndex.BUCKET, buckets=8)
    base = new_table(
        tmp_path / "t",
        schema=schema_text(columns, "t"),
        record_key_fields=("a", "b"),
        indexes=indexes,
        partition_fields=(),
    )
    file = base / ".hoodie" / "hoodie.properties"
    text = file.read_text()
    assert "hoodie.bucket.index.hash.field=a,b" in text
    file.write_text(text.replace("hash.field=a,b", "hash.field=a"))
    rows = rows_of([(f"a{n // 2}", n, "i", 1, "p", f"v{n}") for n in range(60)], columns)
    write(base, rows, index=IndexType.BUCKET, buckets=8, bucket_fields=("a",))
    table = lakeward.Table(str(base))
    for asked, expected in (
        (table.scan(keys=[{"a": "a4", "b": 9}]), ["v9"]),
        (table.scan(where="b = 9 and a = 'a4'"), ["v9"]),
        (table.scan(where="a = 'a4'"), ["v8", "v9"]),
        (table.scan(keys=["a:a4,b:77"]), []),
    ):
        values, passed, notes = answers(asked)
        assert values == expected and passed == 7, notes
        assert notes == "buckets: 1 file group, 0 B read"
    assert answers(table.scan(where="b = 9"))[1:] == (0, "")


def test_lakewards_record_index(tmp_path: Path) -> None:
    """With what was committed since it was brought up to date; a key that it does not have is nowhere."""
    base = built(tmp_path / "t", rows=MANY[:20])
    write(base, [("k03", 2, "q", "new"), ("k90", 1, "p", "later")])
    write(base, [("k05", 2, "q", None)], "delete")
    table = lakeward.Table(str(base))
    values, passed, notes = answers(table.scan(keys=["k03", "k05", "k99"]))
    assert (values, passed) == (["new"], 1), notes
    assert "record index of Lakeward: 1 file group, " in notes and "every key is settled" in notes
    assert answers(table.scan(keys=["k90"]))[0] == ["later"]
    catch_up(base)
    assert "Lakeward: 1 file group" in answers(table.scan(keys=["k04"]))[2]


def test_a_record_index_of_a_later_moment_is_not_asked(tmp_path: Path) -> None:
    """Keeps 2 of scan/key_lookup."""
    base = built(tmp_path / "t", rows=MANY[:20])
    table = lakeward.Table(str(base))
    write(base, [("k03", 2, "q", "new")])
    catch_up(base)
    values, _, notes = answers(table.scan(keys=["k03"]))
    assert values == ["v3"]
    assert "Lakeward: not asked, it has commits that completed after the moment that is read" in notes
    assert "record index of Lakeward: 1 file group" in answers(table.refresh().scan(keys=["k03"]))[2]


def test_buckets_are_not_gone_by_where_a_file_group_is_in_none(tmp_path: Path) -> None:
    """Another index wrote it."""
    base = new_table(tmp_path / "t")
    write(base, FIRST)
    file = base / ".hoodie" / "hoodie.properties"
    file.write_text(f"{file.read_text()}hoodie.index.type=BUCKET\nhoodie.bucket.index.num.buckets=4\n")
    values, passed, notes = answers(lakeward.Table(str(base)).scan(keys=["k1"]))
    assert (values, passed) == (["v1"], 0)
    assert "buckets: not asked, the table has file groups that are in none of its buckets: 2" in notes


def test_bloom_filters_of_the_metadata_table(tmp_path: Path) -> None:
    """Ranges and filters rule file groups out before one is opened; not one with a log, which may have every key."""
    base = new_table(tmp_path / "t", indexes=NewIndexes(bloom_filters=True))
    write(base, MANY[:20])
    write(base, MANY[20:], "bulk_insert")
    assert answers(lakeward.Table(str(base)).scan(keys=["k03"]))[:2] == (["v3"], 3)
    write(base, [("k00", 2, "p", "new")])
    values, passed, notes = answers(lakeward.Table(str(base)).scan(keys=["k03"]))
    assert (values, passed) == (["v3"], 2) and "ranges and bloom filters: 2 file groups, " in notes


def test_the_filter_of_a_footer_rules_its_file_out(base: Path) -> None:
    """The key lies within the range of one file, and is not in it: no row group is read."""
    table = lakeward.Table(str(base))
    there, absent = table.scan(keys=["k2"]), table.scan(keys=["k22", "k23"])
    assert there.to_arrow().num_rows == 1 and there.scan.meter.row_groups == 1
    assert absent.to_arrow().num_rows == 0 and absent.scan.meter.row_groups == 0
    assert absent.scan.meter.row_groups_skipped == 2 and absent.missing_keys == ("k22", "k23")


def test_rows_of_base_files_are_where_they_were(tmp_path: Path) -> None:
    """A row that moved is still in its old base file: no index of the newest rows is asked for it."""
    base = by_hudis(tmp_path / "t")
    write(base, [("k03", 2, "p", "moved")], index=IndexType.METADATA, moves_rows=True)
    rows = lakeward.Table(str(base)).scan(keys=["k03"], read_optimized=True)
    values, _, notes = answers(rows)
    assert "v3" in values and "base files alone are read" in notes


def test_a_metadata_table_that_was_compacted_over_a_pending_commit_is_not_asked() -> None:
    """Hudi writes a commit there before it completes it: after a compaction nothing tells its entries apart. Keeps 2 of
    scan/key_lookup."""
    data = Timeline((*completed(minute(1), "deltacommit"), *pending(minute(2), "deltacommit")))
    written = (*completed(minute(1), "deltacommit"), *completed(minute(2), "deltacommit"))
    assert other_moment(data, Timeline(written)) is None
    assert other_moment(data, Timeline((*written, *completed(minute(3), "commit")))) == (
        f"it may have the commit {minute(2)}, which was not completed at the moment that is read"
    )
