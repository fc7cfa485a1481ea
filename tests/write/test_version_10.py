"""Writes to tables of version 10: every operation by every index, held against a dictionary by the second reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import Refused, UsageError
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.index.index_type import IndexType
from lakeward.table.new_table import NewIndex, NewIndexes
from tests import native_log_judge as judge
from tests.crash.metadata_compacting import check_agrees
from tests.our_reader import read_rows, scan
from tests.services.together.versions.run.test_version_step import change
from tests.write.judged import judged_rows, judged_values
from tests.write.writing import BUCKETS, Row, new_table, rows_of, values, write

INDEXES: dict[str, tuple[dict[str, Any], NewIndexes]] = {
    "bucket": (BUCKETS, NewIndexes()),
    "simple": ({"index": IndexType.SIMPLE}, NewIndexes()),
    "record": ({"index": IndexType.METADATA}, NewIndexes(finds_keys=NewIndex.METADATA)),
}
FIRST: list[Row] = [("k1", 5, "p", "a"), ("k2", 5, "p", "a"), ("k3", 5, "q", "a"), ("k4", 5, "q", "a")]
SECOND: list[Row] = [("k1", 6, "p", "b"), ("k3", 4, "q", "late"), ("k5", 1, "p", "new")]
UPSERTED = {"k1": "b", "k2": "a", "k3": "a", "k4": "a", "k5": "new"}
BEFORE = {"k1": "a", "k2": "a", "k3": "a", "k4": "a"}

OPERATIONS: dict[str, tuple[list[Row], dict[str, Any], dict[str, Any]]] = {
    "upsert": (SECOND, {}, UPSERTED),
    "insert": ([("k5", 1, "p", "new")], {}, BEFORE | {"k5": "new"}),
    "bulk_insert": ([("k5", 1, "p", "new"), ("k6", 1, "r", "new")], {}, BEFORE | {"k5": "new", "k6": "new"}),
    "delete": ([("k1", 1, "p", None), ("k4", 1, "q", None), ("k9", 1, "p", None)], {}, {"k2": "a", "k3": "a"}),
    "insert_overwrite": ([("k1", 1, "p", "b")], {}, {"k1": "b", "k3": "a", "k4": "a"}),
    "insert_overwrite_table": ([("k1", 1, "p", "b")], {}, {"k1": "b"}),
    "delete_partition": ([], {"partitions": ("p",)}, {"k3": "a", "k4": "a"}),
}
CORE = [
    (False, "MERGE_ON_READ", "bucket", "upsert"),
    (True, "MERGE_ON_READ", "record", "delete"),
    (True, "COPY_ON_WRITE", "simple", "insert"),
    (False, "COPY_ON_WRITE", "simple", "upsert"),
]
ALL = [
    (lsm, kind, index, operation)
    for lsm in (False, True)
    for kind in ("MERGE_ON_READ", "COPY_ON_WRITE")
    for index in INDEXES
    for operation in OPERATIONS
]


@pytest.mark.parametrize(
    ("lsm", "kind", "index", "operation"),
    [pytest.param(*each, marks=() if each in CORE else pytest.mark.wide) for each in ALL],
)
def test_every_operation_by_every_index(lsm: bool, kind: str, index: str, operation: str, tmp_path: Path) -> None:
    """What a write leaves is what the dictionary says, and the metadata table has each file; logs are native, its own,
    too, and each file of the layout lsm_tree is sorted. Keeps 4 of write/handles/append."""
    by, indexes = INDEXES[index]
    base = new_table(tmp_path / "t", version=10, table_type=kind, indexes=indexes, is_lsm_tree=lsm)
    write(base, FIRST, **by)
    rows, request, expected = OPERATIONS[operation]
    write(base, rows, operation, **by, **request)
    assert judged_values(base) == expected == values(read_rows(base))
    check_agrees(base)
    assert not list(base.rglob(".*.log.*"))


@pytest.mark.wide
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_on_inline_logs(index: str, operation: str, tmp_path: Path) -> None:
    """A table that was upgraded has inline logs, and native ones beside them from then on."""
    by, indexes = INDEXES[index]
    base = new_table(tmp_path / "t", version=9, indexes=indexes)
    write(base, [(key, 3, part, "old") for key, _, part, _ in FIRST], **by)
    write(base, FIRST, **by)
    assert list(base.glob("[pq]/.*.log.*"))
    change(base, 10)
    rows, request, expected = OPERATIONS[operation]
    write(base, rows, operation, **by, **request)
    assert values(read_rows(base)) == expected
    check_agrees(base)


def with_deletes(rows: list[Row], deleted: set[str]) -> pa.RecordBatch:
    batch = rows_of(rows)
    return batch.append_column("_hoodie_is_deleted", pa.array([row[0] in deleted for row in rows]))


def test_the_commit_says_each_file(tmp_path: Path) -> None:
    """Rows and deletes of one file group are two files of one version, each with its stat and its place in the
    metadata table; an older delete loses to a newer row."""
    base = new_table(tmp_path / "t", version=10)
    write(base, FIRST, **BUCKETS)
    rows: list[Row] = [("k1", 6, "p", "x"), ("k2", 6, "p", "b"), ("k3", 6, "q", "b"), ("k4", 4, "q", "late")]
    write(base, with_deletes(rows, {"k1", "k4"}), **BUCKETS)
    assert judged_values(base) == {"k2": "b", "k3": "b", "k4": "a"}
    check_agrees(base)
    commit = scan(base).timeline.completed_writes[-1]
    (path,) = (base / ".hoodie" / "timeline").glob(f"{commit.time}_*.deltacommit")
    stats = read_commit_metadata(path.read_bytes(), file=path.name, layout=2).partition_to_write_stats
    shown = {stat.path: (stat.num_writes, stat.num_deletes) for of in stats.values() for stat in of}
    there = {f"{each.parent.name}/{each.name}" for each in base.glob("[pq]/*parquet") if commit.time in each.name}
    assert shown.keys() == there
    kinds = sorted((judge.name_parts(name.rpartition("/")[2])["kind"], counts) for name, counts in shown.items())
    assert [kind for kind, _ in kinds].count("deletes") == 2
    assert sum(deletes for _, (_, deletes) in kinds) == 2 == sum(rows for _, (rows, _) in kinds)


def test_deletes_by_keys_alone_on_several_ordering_fields(tmp_path: Path) -> None:
    """They are refused before anything is written where they would go into native logs; with their values they are
    taken. Keeps 4 of write/whole_write."""
    base = new_table(tmp_path / "t", version=10, ordering_fields=("ts", "v"), has_metadata_table=False)
    write(base, FIRST, **BUCKETS)
    before = sorted(base.rglob("*"))
    with pytest.raises(Refused, match=r"ordered by ts, v.*Upsert rows that have these values"):
        write(base, [("k1", 9, "p", "a")], "delete", **BUCKETS)
    assert sorted(base.rglob("*")) == before
    write(base, with_deletes([("k1", 9, "p", "z"), ("k2", 5, "p", "A")], {"k1", "k2"}), **BUCKETS)
    assert sorted(row["id"] for row in judged_rows(base)) == ["k2", "k3", "k4"]
    copied = new_table(
        tmp_path / "cow", version=10, ordering_fields=("ts", "v"), has_metadata_table=False, table_type="COPY_ON_WRITE"
    )
    write(copied, FIRST)
    write(copied, [("k1", 9, "p", "a")], "delete")
    assert sorted(row["id"] for row in judged_rows(copied)) == ["k2", "k3", "k4"]


@pytest.mark.parametrize("kind", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_no_file_of_the_layout_lsm_tree_has_a_key_twice(tmp_path: Path, kind: str, operation: str) -> None:
    """The layout default keeps both rows. Keeps 5 of write/whole_write."""
    twice: list[Row] = [("k2", 5, "p", "a"), ("k1", 5, "p", "old"), ("k1", 6, "p", "new")]
    tables = {
        lsm: new_table(tmp_path / str(lsm), version=10, table_type=kind, is_lsm_tree=lsm, has_metadata_table=False)
        for lsm in (False, True)
    }
    for base in tables.values():
        write(base, twice, operation)
    assert [row["v"] for row in judged_rows(tables[True])] == ["new", "a"]
    (of_default,) = tables[False].glob("p/*.parquet")
    assert len(judge.rows(of_default.read_bytes())) == 3
    write(tables[True], [("k0", 1, "p", "small"), ("k1", 7, "p", "newer")], "insert")
    assert len({path.name.split("_")[0] for path in tables[True].glob("p/*.parquet")}) == 1, "it is a small file"
    assert judged_values(tables[True]) == {"k0": "small", "k1": "newer", "k2": "a"}
    with pytest.raises(UsageError, match="--keep-duplicates"):
        write(tables[True], twice, operation, deduplicate=False)
