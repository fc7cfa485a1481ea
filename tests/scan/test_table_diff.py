"""Two tables, or two moments of one, compared by record key."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random, randrange

import pyarrow as pa
import pytest

import lakeward
from lakeward.base.errors import DamagedFiles, UsageError
from lakeward.format.avro.schema_text import schema_text
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.scan.table_diff import DifferingRow, DiffQuery, DiffSide, PartitionCounts, TableDiff, diff_tables
from lakeward.storage.local import LocalStorage
from tests.golden_tables import copy_golden
from tests.write.writing import Row, new_table, rows_of, write

FIRST: list[Row] = [("k1", 1, "p", "a"), ("k2", 1, "q", "b"), ("k3", 1, "q", "c"), ("k4", 1, "q", None)]


def diff(before: Path, after: Path, **options: object) -> TableDiff:
    return lakeward.Table(str(before)).diff(lakeward.Table(str(after)), **options)  # type: ignore[arg-type]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "before")
    write(table, FIRST)
    return table


def test_a_copy_has_no_difference(base: Path, tmp_path: Path) -> None:
    found = diff(base, shutil.copytree(base, tmp_path / "after"))
    assert not found.differs and (found.same, found.rows_before, found.rows_after) == (4, 4, 4)
    assert (found.key, found.columns, found.slices_shared) == (("id",), ("ts", "part", "v"), 0)


def test_rows_that_were_added_are_gone_or_changed(base: Path, tmp_path: Path) -> None:
    """Keeps 1 of scan/table_diff: rows in logs count as a query finds them."""
    after = shutil.copytree(base, tmp_path / "after")
    write(after, [("k2", 2, "q", "x"), ("k4", 2, "q", "d"), ("k5", 1, "p", "new")])
    write(after, [("k3", 3, "q", None)], "delete")
    found = diff(base, after)
    assert (found.same, found.changed, found.added, found.gone) == (1, 2, 1, 1) and found.differs
    assert found.changed_columns == {"ts": 2, "v": 2}
    assert found.partitions == {"p": PartitionCounts(added=1), "q": PartitionCounts(gone=1, changed=2)}
    assert sorted(found.changed_rows, key=lambda row: str(row.key)) == [
        DifferingRow({"id": "k2"}, "q", {"ts": (1, 2), "v": ("b", "x")}),
        DifferingRow({"id": "k4"}, "q", {"ts": (1, 2), "v": (None, "d")}),
    ]
    assert found.added_rows == (DifferingRow({"id": "k5"}, "p"),)
    assert found.gone_rows == (DifferingRow({"id": "k3"}, "q"),)
    back = diff(after, base)
    assert (back.changed, back.added, back.gone) == (2, 1, 1)
    assert diff(base, after, columns=["part"]).changed_columns == {}
    chosen = diff(base, after, where="v = 'b' or v = 'a'")
    assert (chosen.same, chosen.gone, chosen.changed, chosen.added) == (1, 1, 0, 0)
    assert diff(base, after, samples=0).changed_rows == () and diff(base, after, samples=1).changed == 2
    assert not diff(base, after, read_optimized=True).gone


def test_a_row_in_another_partition_has_changed(base: Path, tmp_path: Path) -> None:
    """It does where its key is in one partition of either table; else it is another record."""
    after = new_table(tmp_path / "after")
    write(after, [("k1", 1, "q", "a"), *FIRST[1:]])
    found = diff(base, after)
    assert (found.same, found.changed, found.added, found.gone) == (3, 1, 0, 0)
    changes = {"_hoodie_partition_path": ("p", "q"), "part": ("p", "q")}
    assert found.changed_rows == (DifferingRow({"id": "k1"}, "p", changes),)
    write(after, [("k1", 1, "r", "a")])
    found = diff(base, after)
    assert (found.same, found.changed, found.added, found.gone) == (3, 0, 2, 1)


def test_paths_of_another_style_are_the_same_partition(base: Path, tmp_path: Path) -> None:
    after = new_table(tmp_path / "after", hive_style=True)
    write(after, FIRST)
    assert (after / "part=q").is_dir() and not diff(base, after).differs


def test_columns_of_one_side_and_types(base: Path, tmp_path: Path) -> None:
    """Keeps 2 of scan/table_diff."""
    columns = pa.schema(
        [("id", pa.string()), ("ts", pa.int32()), ("part", pa.string()), ("v", pa.int64()), ("w", pa.int32())]
    )
    after = new_table(tmp_path / "after", schema=schema_text(columns, "t"))
    write(after, rows_of([(key, ts, part, 1, 2) for key, ts, part, _ in FIRST], columns))
    found = diff(base, after)
    assert (found.columns_gone, found.columns_added) == ((), ("w",)) and found.differs
    assert found.types_changed == {"ts": ("int64", "int32")} and found.not_compared == {"v": ("string", "int64")}
    assert (found.same, found.columns) == (4, ("ts", "part"))
    assert diff(after, base).columns_gone == ("w",)
    assert not diff(base, after, columns=["ts"]).differs


def test_keys_that_repeat_are_counted(base: Path, tmp_path: Path) -> None:
    """Rows of one key are paired with equal ones first."""
    after = shutil.copytree(base, tmp_path / "after")
    write(after, [("k2", 1, "q", "other"), ("k2", 1, "q", "b")], "insert")
    found = diff(base, after)
    assert (found.repeated_before, found.repeated_after) == (0, 3)
    assert (found.same, found.added, found.changed, found.gone) == (4, 2, 0, 0)


def test_two_moments_of_one_table_share_slices(base: Path) -> None:
    """A file slice without logs that both have is not read; by what it is, not by its group."""
    before = lakeward.Table(str(base))
    write(base, [("k2", 2, "q", "x")])
    found = before.diff(lakeward.Table(str(base)))
    assert (found.slices_shared, found.rows_before, found.same, found.changed) == (1, 3, 2, 1)


def test_a_file_that_two_schemas_read_otherwise_is_not_shared(base: Path) -> None:
    """Rows of before a column was there have null in it, or 0 where it may not be null."""
    snapshot = lakeward.Table(str(base)).snapshot
    known = json.loads(snapshot.schema or "")

    def side(kind: object, default: object) -> DiffSide:
        fields = [*known["fields"], {"name": "w", "type": kind, "default": default}]
        return DiffSide(LocalStorage(), replace(snapshot, schema=json.dumps(known | {"fields": fields})))

    nullable, required = side(["null", "int"], None), side("int", 0)
    found = diff_tables(nullable, required, DiffQuery())
    assert (found.changed, found.changed_columns, found.slices_shared) == (4, {"w": 4}, 0)
    assert diff_tables(nullable, nullable, DiffQuery()).slices_shared == 2


def test_tables_of_two_versions(tmp_path: Path) -> None:
    """Hudi wrote the same rows to both golden tables; its own columns have other instants."""
    tables = [lakeward.Table(str(copy_golden(name, tmp_path / name)), timezone="UTC") for name in ("v6", "v9")]
    found = tables[0].diff(tables[1])
    assert not found.differs, found
    assert tables[0].diff(tables[1], meta_columns=True).changed == found.same


def test_by_chance(tmp_path: Path) -> None:
    """Keeps 1 and 3 of scan/table_diff, against dictionaries, in little memory. LAKEWARD_SEED repeats."""
    seed = int(os.environ.get("LAKEWARD_SEED", randrange(2**32)))
    print(f"LAKEWARD_SEED={seed}")
    chance = Random(seed)

    def some_rows() -> list[Row]:
        keys = chance.sample(range(3000), 2000)
        return [(f"k{key}", 1, "pqr"[key % 3], chance.choice(["a", "b" * 50, None])) for key in keys]

    sides = []
    for name in ("before", "after"):
        rows = some_rows()
        write(new_table(tmp_path / name), rows)
        sides.append({row[0]: row for row in rows})
    before, after = sides
    assert MemoryBudget(1 << 20).rows // 4 < 2000 * 60
    found = diff(tmp_path / "before", tmp_path / "after", samples=10_000, memory_bytes=1 << 20)
    assert {row.key["id"] for row in found.added_rows} == after.keys() - before.keys()
    assert {row.key["id"] for row in found.gone_rows} == before.keys() - after.keys()
    changed = {
        key: (before[key][3], after[key][3]) for key in before.keys() & after.keys() if before[key] != after[key]
    }
    assert {row.key["id"]: row.changes["v"] for row in found.changed_rows} == changed
    assert found.same == len(before.keys() & after.keys()) - len(changed)
    assert (found.changed, found.added, found.gone) == (len(changed), len(found.added_rows), len(found.gone_rows))
    assert sum(each.changed for each in found.partitions.values()) == len(changed)


def test_slips(base: Path, tmp_path: Path) -> None:
    other = new_table(tmp_path / "other", record_key_fields=("id", "v"))
    write(other, [row for row in FIRST if row[3]])
    with pytest.raises(UsageError, match=r"The tables have different record keys: id and id,v\."):
        diff(base, other)
    with pytest.raises(UsageError, match=r"Neither table has a column 'w'\."):
        diff(base, base, columns=["w"])
    columns = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("part", pa.string()), ("v", pa.string())])
    numbered = new_table(tmp_path / "numbered", schema=schema_text(columns, "t"))
    write(numbered, rows_of([(1, 1, "p", "a")], columns))
    with pytest.raises(UsageError, match=r"record key: id is of type string and int64\."):
        diff(base, numbered)
    damaged = shutil.copytree(base, tmp_path / "damaged")
    file = next((damaged / "q").glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DamagedFiles):
        diff(base, damaged)
