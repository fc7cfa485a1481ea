"""What the metadata table gets of a write: Lakeward's and Hudi's of the same files, Lakeward's of the same rows, and
Hudi goes on.

Wide: eight tables of up to ten writes by Hudi.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakeward.format.metadata.log_file import MetadataBlock, metadata_blocks
from lakeward.format.metadata.record import (
    BloomFilterRecord,
    ColumnStatsRecord,
    FilesRecord,
    PartitionStatsRecord,
    RecordIndexRecord,
    SecondaryIndexRecord,
    StatsRecord,
)
from lakeward.index.index_type import IndexType
from lakeward.protocol.metadata import metadata_writer
from lakeward.protocol.metadata.key_sorter import KeySorter
from lakeward.write.request import FileSizes
from tests.hudi.metadata_table import INDEXES, WITHOUT_METADATA
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.replayed_writes import Written, places, replay, written
from tests.our_reader import scan
from tests.write.writing import write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide, pytest.mark.timeout(1800)]

SMALL_FILES = {"hoodie.parquet.small.file.limit": "104857600"}
COPY_ON_WRITE = SMALL_FILES | {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
NO_RANGES = {"hoodie.metadata.index.column.stats.enable": "false", "hoodie.metadata.index.bloom.filter.enable": "false"}
NO_KEYS = {"hoodie.metadata.record.index.enable": "false"}
GLOBAL = "GLOBAL_RECORD_LEVEL_INDEX"
BY_VALUE = "by_value"
"""The name of a table with a secondary index."""
SHAPE = TableShape(
    partition_fields="part",
    index=GLOBAL,
    options=INDEXES
    | {
        "hoodie.metadata.compact.max.delta.commits": "100",
        "hoodie.record.index.update.partition.path": "true",
        "hoodie.simple.index.update.partition.path": "true",
        "hoodie.write.set.null.for.missing.columns": "true",
    },
)
KINDS: dict[str, tuple[dict[str, Any], int]] = {
    "cow": ({"options": COPY_ON_WRITE}, 6),
    "mor": ({"options": {}}, 6),
    "mor-small-files": ({"options": SMALL_FILES}, 6),
    "mor-ranges": ({"options": NO_KEYS, "index": "GLOBAL_SIMPLE"}, 10),
    "cow-keys": ({"options": COPY_ON_WRITE | NO_RANGES}, 10),
    "cow-values": ({"options": COPY_ON_WRITE | NO_RANGES, "name": BY_VALUE}, 6),
    "mor-values": ({"options": NO_RANGES, "name": BY_VALUE}, 6),
    "mor-keys": ({"options": NO_RANGES}, 10),
}
"""How the table differs, and how many writes there are: Hudi 1.2.0 cannot overwrite where there are both statistics of
partitions and a record index (its reader of the metadata table loses the base file of `files` on the way to a task)."""
SKIPPING = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
PARTITIONS = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index", "secondary_index_v")


@dataclass(frozen=True)
class Step:
    """One write, by either writer."""

    what: str
    operation: str
    rows: tuple[tuple[str, str, int], ...]
    """Key, partition and time of each."""
    extra: bool = True
    """Whether the table has a column more by then."""
    deleted: str = ""
    """The partition that goes."""

    def frame(self, spark: SparkSession) -> DataFrame:
        text = ", ".join(f"('{key}', '{part}', {ts})" for key, part, ts in self.rows)
        more = ", CAST(ts * 2 AS INT) AS extra" if self.extra else ""
        return spark.sql(
            f"SELECT id, part, CAST(ts AS LONG) AS ts, concat('v', ts) AS v, CAST(ts / 3 AS DOUBLE) AS real{more} "
            f"FROM VALUES {text} AS t(id, part, ts)"
        )

    def batch(self) -> pa.RecordBatch:
        keys, parts, times = (list(each) for each in zip(*self.rows, strict=True))
        columns = {
            "id": pa.array(keys),
            "part": pa.array(parts),
            "ts": pa.array(times, pa.int64()),
            "v": pa.array([f"v{ts}" for ts in times]),
            "real": pa.array([ts / 3 for ts in times], pa.float64()),
        }
        return pa.RecordBatch.from_pydict(
            columns | ({"extra": pa.array([ts * 2 for ts in times], pa.int32())} if self.extra else {})
        )


STEPS = (
    Step("birth", "upsert", tuple((f"k{number}", f"p{number % 2}", 10) for number in range(6)), extra=False),
    Step(
        "update, insert, new partition",
        "upsert",
        (("k0", "p0", 20), ("k6", "p0", 20), ("k10", "p0", 20), ("k7", "p2", 20)),
        extra=False,
    ),
    Step("new column", "upsert", (("k1", "p1", 30), ("k8", "p0", 30))),
    Step("delete", "delete", (("k2", "p0", 40), ("unknown", "p0", 40))),
    Step("move", "upsert", (("k3", "p0", 50),)),
    Step("bulk insert", "bulk_insert", (("k20", "p1", 60), ("k21", "p1", 61))),
    Step("overwrite", "insert_overwrite", (("k0", "p0", 70), ("k30", "p0", 70))),
    Step("update after it", "upsert", (("k30", "p0", 80),)),
    Step("delete partition", "delete_partition", (("k1", "p1", 90),), deleted="p1"),
    Step("back again", "upsert", (("k1", "p1", 100), ("k40", "p1", 100))),
)


def create_secondary_index(spark: SparkSession, table: HudiTable) -> None:
    provider = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}
    settings = dict(table.shape.options) | provider
    spark.sql(f"CREATE TABLE {BY_VALUE} USING hudi LOCATION '{table.path}'")
    for name, value in settings.items():
        spark.sql(f"SET {name}={value}")
    spark.sql(f"CREATE INDEX v ON {BY_VALUE} (v)")
    for name in settings:
        spark.sql(f"RESET {name}")
    spark.sql(f"DROP TABLE {BY_VALUE}")


def write_all(spark: SparkSession, table: HudiTable, count: int) -> Iterator[tuple[Step, str]]:
    """The first writes by Hudi, each with its instant."""
    for step in STEPS[:count]:
        gone = {"hoodie.datasource.write.partitions.to.delete": step.deleted} if step.deleted else {}
        table.write(step.frame(spark), step.operation, **gone)
        if step is STEPS[0] and table.shape.name == BY_VALUE:
            create_secondary_index(spark, table)
        yield step, table.completed_instants()[-1][0]


def write_own(base: Path, step: Step, *, small_file: int, index: IndexType) -> str:
    """The same by our writer. Returns the instant."""
    how: dict[str, Any] = {"sizes": FileSizes(small_file=small_file), "index": index, "moves_rows": True}
    partitions = (step.deleted,) if step.deleted else ()
    return write(base, step.batch(), step.operation, partitions=partitions, **how).instant


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_hudis(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    """Each write has the same records in each partition of the metadata table, to the names of files; Hudi reads the
    table by them, finds keys, folds them with its own, and verification finds nothing. Log files of the record index
    have several blocks, and the definitions name a column that no commit has."""
    monkeypatch.setattr(metadata_writer, "KeySorter", lambda groups, **shown: KeySorter(groups, run_bytes=1, **shown))
    changes, count = KINDS[kind]
    table = HudiTable(
        spark, tmp_path / "hudis", replace(SHAPE, **changes | {"options": SHAPE.options | changes["options"]})
    )
    own = tmp_path / "own"
    rewritten = tmp_path / "rewritten"
    small_file = int(table.shape.write_options()["hoodie.parquet.small.file.limit"])
    kind_of_index = IndexType.METADATA if table.shape.index == GLOBAL else IndexType.GLOBAL_SIMPLE
    for step, instant in write_all(spark, table, count):
        if step is STEPS[0]:
            table.copy_to(own)
            table.copy_to(rewritten)
            continue
        replay(own, table.path, instant)
        at = write_own(rewritten, step, small_file=small_file, index=kind_of_index)
        for partition in PARTITIONS:
            of_hudi, of_lakeward = (written(path, instant, partition) for path in (table.path, own))
            assert_same(of_hudi, of_lakeward, own, what=f"{step.what}: {partition}")
            assert_alike(step, partition, (of_lakeward, instant), (written(rewritten, at, partition), at))
    us = HudiTable(spark, own, table.shape)
    rows_now = us.snapshot()
    assert rows_now == us.snapshot(**WITHOUT_METADATA) == table.snapshot()
    by_our_writer = HudiTable(spark, rewritten, table.shape)
    assert by_our_writer.snapshot(with_meta=False) == us.snapshot(with_meta=False)
    assert by_our_writer.snapshot(**SKIPPING) == by_our_writer.snapshot(**WITHOUT_METADATA)
    assert lakeward("verify", str(rewritten), "--all")[0] == 0
    if (own / ".hoodie/metadata/record_index").exists():
        assert max(entry_blocks(path) for path in (own / ".hoodie/metadata/record_index").glob(".*.log.*_*-1-0")) > 1
    if (index := own / ".hoodie/.index_defs/index.json").exists():
        definitions = json.loads(index.read_text())
        if "column_stats" in definitions["indexDefinitions"]:
            definitions["indexDefinitions"]["column_stats"]["sourceFields"].append("never")
            index.write_text(json.dumps(definitions))
    assert us.snapshot(**SKIPPING) == rows_now
    for condition in ("ts >= 60", "id = 'k0'", "extra > 59", "real < 4"):
        with_and_without = [
            us.formatted(us.frame(**options).where(condition)) for options in (SKIPPING, WITHOUT_METADATA)
        ]
        assert with_and_without[0] == with_and_without[1], condition
    assert lakeward("verify", str(own), "--all")[0] == 0
    keys = sorted(places(scan(own)))
    compacting = {"hoodie.metadata.compact.max.delta.commits": "1"}
    for of in (tuple((key, "p0", 200) for key in (*keys, "new")), (("new", "p0", 201),)):
        us.write(Step("afterwards", "upsert", of).frame(spark), "upsert", **compacting)
    found = [row["id"] for row in us.frame().select("id").collect()]
    assert sorted(found) == sorted((*keys, "new")), "each key once"
    assert us.snapshot() == us.snapshot(**WITHOUT_METADATA)
    assert lakeward("verify", str(own), "--all")[0] == 0


def assert_alike(step: Step, partition: str, replayed: tuple[Written, str], rewritten: tuple[Written, str]) -> None:
    """What our writer says of its own files is what it says of Hudi's, whatever these are called."""
    one, two = (content(each, instant) for each, instant in (replayed, rewritten))
    if step.what == "bulk insert" and partition != "record_index":
        return  # Hudi's rows are in two files, Lakeward's in one
    assert one == two, f"{step.what}: {partition}"
    assert replayed[0].deleted == rewritten[0].deleted, f"{step.what}: {partition}"


def content(found: Written, instant: str) -> list[object]:
    """The records without names and sizes of files, and without instants."""

    def value(record: StatsRecord, end: object) -> object:
        if record.column == "_hoodie_commit_time" and end is not None:
            return "now" if end == instant else "before"
        return end

    shown: list[object] = []
    for key, record in found.records.items():
        match record:
            case FilesRecord():
                shown.append((key, sorted(record.entries) if record.is_all_partitions else len(record.entries)))
            case ColumnStatsRecord() | PartitionStatsRecord():
                ends = value(record, record.min_value), value(record, record.max_value)
                counts = record.value_count, record.null_count, bool(record.total_size), record.is_tight
                where = record.file_name if isinstance(record, PartitionStatsRecord) else key[12:24]
                shown.append((record.column, where, ends, counts, record.value_type))
            case BloomFilterRecord():
                shown.append((key[:12], record.type_code))
            case RecordIndexRecord():
                shown.append((key, record.partition))
            case SecondaryIndexRecord():
                shown.append(key)
    return sorted(shown, key=repr)


def entry_blocks(path: Path) -> int:
    with path.open("rb") as file:
        found = list(metadata_blocks(file, path.stat().st_size, path.name))
    return sum(isinstance(block, MetadataBlock) and block.hfile is not None for block in found)


def assert_same(hudis: Written, own: Written, table: Path, *, what: str) -> None:
    """What is Lakeward's and Hudi's alike, but for what we say better."""
    if what == "bulk insert: secondary_index_v":
        # Hudi's row writer writes nothing for secondary indexes, and a query by the index does not find these rows.
        assert (len(own.records) in (0, 2), hudis.records) == (True, {})
        return
    assert own.records.keys() == hudis.records.keys(), what
    for key, record in hudis.records.items():
        mine = own.records[key]
        if isinstance(record, PartitionStatsRecord) and isinstance(mine, PartitionStatsRecord):
            if what.startswith("overwrite"):
                # Hudi counts what was replaced.
                assert (mine.column, mine.is_tight, mine.value_count) == (record.column, True, 2), what
                continue
            if record.column == "extra":
                # Hudi counts no nulls in files from before the column.
                more = (mine.value_count or 0) - (record.value_count or 0)
                assert more == (mine.null_count or 0) - (record.null_count or 0) >= 0, what
                mine = replace(mine, value_count=record.value_count, null_count=record.null_count)
        assert mine == record, f"{what}: {key}"
    # Hudi deletes keys once more that a log of what is overwritten has deleted.
    assert own.deleted <= hudis.deleted, what
    assert not places(scan(table)).keys() & (hudis.deleted - own.deleted), what
