"""Indexes of Lakeward follow tables that released Hudi writes and services: up to date, late, and not at all; by
commands, and by the daemon.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.cli.main import run
from lakeward.index.index_type import IndexType
from lakeward.index.record.index_growth import Scaling
from lakeward.index.record.merge_choice import MergeOptions
from lakeward.index.record.record_options import RecordOptions
from tests.daemon.serving import Serving
from tests.hudi.table import HudiTable, TableShape
from tests.index.following import completion_times, memory_index, places, shown, truth, update
from tests.index.memory_index import MemoryIndex
from tests.index.record.reopened_record_index import ReopenedRecordIndex, new_record_index
from tests.our_reader import scan
from tests.runs import runs
from tests.write.own_record_index import located, opened
from tests.write.writing import write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

KEYS = [f"k{number:02}" for number in range(24)]
PARTITIONS = ("p0", "p1", "p2")
MOVING = {
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.simple.index.update.partition.path": "true",
}
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "mor-moving": ("MERGE_ON_READ", {}, MOVING),
    "mor-buckets": ("MERGE_ON_READ", {"index": "BUCKET"}, {}),
    "mor-commit-time": ("MERGE_ON_READ", {"ordering_fields": "", "merge_mode": "COMMIT_TIME_ORDERING"}, {}),
    "cow-moving": ("COPY_ON_WRITE", {}, MOVING),
    "mor-logs-of-inserts": ("MERGE_ON_READ", {"log_format": "parquet", "index": "BUCKET"}, {}),
}
CLEANING = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.clean.trigger.max.commits": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


@dataclass
class Followed:
    """A table of Hudi's, and three indexes of it, one of which is a record index below its `.hoodie`."""

    spark: SparkSession
    table: HudiTable
    table_type: str
    options: dict[str, str]
    chance: random.Random
    updated_index: MemoryIndex = field(init=False)
    late: MemoryIndex = field(init=False)
    below: ReopenedRecordIndex = field(init=False)
    shown: list[str] = field(default_factory=list)
    times: int = 0

    def __post_init__(self) -> None:
        base = self.table.path
        self.updated_index, self.late = memory_index(base), memory_index(base)
        self.below = ReopenedRecordIndex(
            Path(RecordOptions().folder(str(base))),
            lambda instants: completion_times(base, instants),
            merges=MergeOptions(3, 0.3),
        )

    @property
    def moves(self) -> bool:
        return "GLOBAL_SIMPLE" in self.options.values()

    def frame(self, keys: list[str], partition: str | None) -> DataFrame:
        """Rows of these keys, which are in another partition now and then where the writer moves them."""
        rows = []
        for key in keys:
            number = self.chance.randrange(3) if self.moves else KEYS.index(key) % 3
            where = partition or PARTITIONS[number]
            rows.append((key, self.times + self.chance.choice([0, 0, -3]), where, f"v{self.times}"))
        return self.spark.createDataFrame(rows, "id string, ts bigint, part string, v string")

    def write(self, operation: str, keys: list[str], *, partition: str | None = None, **options: str) -> None:
        self.times += 1
        self.shown.append(f"{operation} {keys} {sorted(options)}")
        words = {"hoodie.datasource.write.table.type": self.table_type, **self.options, **options}
        self.table.write(self.frame(keys, partition), operation, **words)

    def some(self) -> list[str]:
        return self.chance.sample(KEYS, self.chance.randint(1, 10))

    def upsert(self) -> None:
        small = self.chance.choice(["0", "104857600"])
        self.write("upsert", self.some(), **{"hoodie.parquet.small.file.limit": small})

    def delete(self) -> None:
        self.write("delete", self.some())

    def write_by_it(self) -> None:
        """Lakeward's writer finds keys by the record index, and puts what it did into it; an upsert or a delete."""
        self.times += 1
        operation = self.chance.choice(["upsert", "upsert", "delete"])
        keys = self.some()
        self.shown.append(f"{operation} {keys} of Lakeward")
        rows = [
            (key, self.times + self.chance.choice([0, 0, -3]), self.chance.choice(PARTITIONS), f"v{self.times}")
            for key in keys
        ]
        opens = partial(opened, self.table.path)
        write(self.table.path, rows, operation, index=IndexType.RECORD, moves_rows=True, open_index=opens)

    def overwrite(self) -> None:
        """One partition; no key of another one comes there, or it would be in both."""
        number = self.chance.randrange(3)
        places = dict(truth(self.table.path))
        there = [key for key in KEYS if key in places and places[key][0] == PARTITIONS[number]]
        new = [key for key in KEYS if key not in places and (self.moves or KEYS.index(key) % 3 == number)]
        if keys := self.chance.sample([*there, *new], min(5, len(there) + len(new))):
            self.write("insert_overwrite", keys, partition=PARTITIONS[number])

    def delete_partition(self) -> None:
        gone = {"hoodie.datasource.write.partitions.to.delete": self.chance.choice(PARTITIONS)}
        self.write("delete_partition", KEYS[:1], **gone)

    def clean(self) -> None:
        """An upsert, behind which Hudi cleans and archives what it may."""
        self.write("upsert", self.some(), **CLEANING)

    def compact(self) -> None:
        if self.table_type == "MERGE_ON_READ" and any(
            slice_.log_files for slice_ in scan(self.table.path).latest_slices
        ):
            self.shown.append("compact")
            self.table.compact()

    def cluster(self) -> None:
        self.shown.append("cluster")
        options = "hoodie.metadata.enable=false"
        self.spark.sql(
            f"CALL run_clustering(path => '{self.table.path}', op => 'scheduleAndExecute', options => '{options}')"
        ).collect()

    def go_back(self) -> None:
        """A savepoint, two writes that Hudi's restore undoes, which one of the indexes has seen."""
        target = scan(self.table.path).timeline.completed_writes[-1].time
        self.shown.append(f"restore {target}")
        for call in (f"create_savepoint(path => '{self.table.path}', commit_time => '{target}')",):
            self.spark.sql(f"CALL {call}").collect()
        self.chance.choice([self.upsert, self.overwrite])()
        self.chance.choice([self.upsert, self.delete])()
        self.check()
        self.spark.sql(f"CALL rollback_to_savepoint(path => '{self.table.path}', instant_time => '{target}')").collect()
        self.spark.sql(f"CALL delete_savepoint(path => '{self.table.path}', instant_time => '{target}')").collect()

    def check(self) -> None:
        rows = truth(self.table.path)
        frame = self.table.frame(**{"hoodie.metadata.enable": "false"})
        read = frame.select("_hoodie_record_key", "_hoodie_partition_path").collect()
        assert sorted((row[0], row[1]) for row in read) == sorted((key, place[0]) for key, place in rows)
        if not Path(self.below.folder).exists():
            new_record_index(Path(self.below.folder), buckets=3, scaling=Scaling(entries_max=6))
        for index in (self.updated_index, self.late, self.below):
            assert shown(self.table.path, index, KEYS) == rows, "\n".join([*self.shown, "not indexed"])
        for index in (self.updated_index, self.below):
            update(self.table.path, index)
            assert shown(self.table.path, index, KEYS) == rows, "\n".join([*self.shown, "indexed"])
        if (through := self.below.indexed().through) is not None:
            self.below.tidy(scan(self.table.path).timeline, through=through)
            assert shown(self.table.path, self.below, KEYS) == rows, "\n".join([*self.shown, "tidied"])
        if self.chance.random() < 0.15:
            update(self.table.path, self.late)
            self.shown.append("the late one, too")
            assert shown(self.table.path, self.late, KEYS) == rows, "\n".join([*self.shown, "late"])


@pytest.mark.wide
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(max(1, runs(2))))
def test_a_table_of_hudis_is_followed(spark: SparkSession, tmp_path: Path, kind: str, seed: int) -> None:
    """Writes, also of Lakeward by the record index, moves between partitions, compactions, clusterings, replaced
    groups, cleans, archiving and restores: each key is found where Hudi has its row, and nowhere else; and nothing that
    Hudi does touches the record index below the table, which hudi-rs does not mind either."""
    table_type, shape, options = KINDS[kind]
    chance = random.Random(f"{kind} {seed}")
    table = HudiTable(spark, tmp_path / "t", TableShape(partition_fields="part", **shape))
    followed = Followed(spark, table, table_type, options, chance)
    followed.shown.append(f"{kind} {seed=}")
    followed.write("upsert", KEYS[:16])
    acts = [followed.upsert] * 4 + [followed.delete] * 3 + [followed.clean] * 2 + [followed.overwrite, followed.compact]
    acts += [followed.compact, followed.delete_partition, followed.go_back]
    acts += [followed.cluster] if shape.get("index") != "BUCKET" else []
    drawn = chance.sample(acts, 3 if seed == 0 else len(acts))
    if followed.moves:
        for _ in range(2 if seed == 0 else 6):
            drawn.insert(chance.randint(1, len(drawn)), followed.write_by_it)
    for act in drawn:
        act()
        followed.check()
    manifest = followed.below.open().manifest
    folder = Path(followed.below.folder)
    assert manifest.files and all((folder / file.path).stat().st_size == file.size for file in manifest.files)
    assert not isinstance(table.read_by_hudi_rs(), str)
    update(table.path, followed.late)
    assert [key for key, _ in places(followed.late, KEYS)] == sorted(
        key for key, _ in places(followed.updated_index, KEYS)
    ) or shown(table.path, followed.late, KEYS) == truth(table.path)


@pytest.mark.usefixtures("short_waits")
@pytest.mark.turns
def test_an_index_of_lakeward_follows_hudis_writer(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi upserts, moves rows to other partitions and deletes; the daemon's loop takes that into the record index, and
    lookups by the index alone are as the rows are then. Its next check finds nothing."""
    table = HudiTable(spark, tmp_path / "tables/orders", TableShape(partition_fields="part"))
    columns = "id string, ts bigint, part string, v string"

    def write(operation: str, *keys: tuple[str, str], ts: int) -> None:
        frame = spark.createDataFrame([(key, ts, part, "v") for key, part in keys], columns)
        table.write(frame, operation, **MOVING)

    write("upsert", ("k1", "a"), ("k2", "a"), ("k3", "b"), ts=1)
    assert run(["index", "build", str(table.path), "--type", "record"]) == 0
    write("upsert", ("k1", "b"), ("k4", "c"), ts=2)
    write("delete", ("k2", "a"), ts=3)
    settings = {"defaults.services": '["index"]'}
    monkeypatch.setattr("lakeward.services.indexing.upkeep.checks.ROUND_SECONDS", 600.0)
    serving = Serving(tmp_path / "tables", tmp_path / "state", settings=settings)

    serving.run(90.0, step=10.0)

    assert located(table.path, ["k1", "k2", "k3", "k4"], bytes_max=0) == truth(table.path)
    assert [key for key, _ in truth(table.path)] == ["k1", "k3", "k4"]
    assert serving.sample("lakeward_indexed_commits_total", table="orders") == 2
    serving.run(1600.0, step=10.0)
    (index,) = (each for each in serving.index_memory().indexes if each.type is IndexType.RECORD)
    assert (index.checked, index.wrong, index.out_of_use) == (6, 0, "")
