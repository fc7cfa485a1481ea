"""Writers beside a daemon that clusters all the time: real Hudi, which upserts, inserts and overwrites partitions of
some tables in turn, and looks itself whether each of them has the rows that it wrote.

The tables are written one after the other, so each has a pause while the others are written. What a step does follows
from the seed and its number. No step may fail. After some steps the rows are compared with those that all steps leave:
as Hudi finds them by listing, as it does by the metadata table, and as Lakeward's reader does.

    python -m tests.soak.clustering_writer FOLDER

FOLDER/settings.json  the seed, and the tables with their options
FOLDER/tables/NAME    the tables
FOLDER/journal        a line for each step that is committed, and for each look
FOLDER/without-pause  holds the name of a table, once it is there: two writers insert into that one at once, again and
                      again, so that at nearly every moment one of them is at work
FOLDER/enough         then the writers end, with a last look at each table

Touches: the tables, FOLDER.
Keeps:   1. a step that fails ends the process with an error, and so does a row that is lost, doubled or wrong.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import lakeward
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 3
KEYS = 90
NEW_KEYS = 6
UPDATES = 24
OVERWRITES_EVERY = 8
LOOKS_EVERY = 4
COLUMNS = "id string, ts long, part string, value string"
NAMES = ("id", "ts", "part", "value")

OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "8",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "6",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "8",
    "hoodie.keep.max.commits": "12",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.client.num_retries": "300",
}
MODES = {
    "single": {
        "hoodie.write.concurrency.mode": "SINGLE_WRITER",
        "hoodie.clean.failed.writes.policy": "LAZY",
    },
    "optimistic": {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.clean.failed.writes.policy": "LAZY",
    },
}
"""Both have a lock provider, so a single writer takes the lock, too; but it looks for no conflicts."""

Row = tuple[str, int, str, str]


@dataclass(frozen=True, slots=True)
class Step:
    operation: str
    rows: tuple[Row, ...]


def step_of(seed: str, number: int, before: dict[str, Row]) -> Step:
    """Values say which step wrote them; the ordering value grows, so a step's rows win over those before."""
    chance = Random(f"{seed}/{number}")

    def row(id_: int) -> Row:
        return f"k{id_:06}", number, f"p{id_ % PARTITIONS}", f"{number} {id_}"

    first = KEYS + number * NEW_KEYS
    new = [row(id_) for id_ in range(first, first + NEW_KEYS)]
    if number == 0:
        return Step("insert", tuple(row(id_) for id_ in range(KEYS)))
    there = sorted(int(key[1:]) for key in before)
    if number % OVERWRITES_EVERY == 0:
        part = chance.randrange(PARTITIONS)
        kept = [id_ for id_ in there if id_ % PARTITIONS == part][:KEYS]
        stay = chance.sample(kept, len(kept) * 2 // 3)
        rows = [row(id_) for id_ in sorted(stay)] + [each for each in new if each[2] == f"p{part}"]
        return Step("insert_overwrite", tuple(rows))
    if number % 2:
        return Step("insert", tuple(new))
    updated = chance.sample(there, min(UPDATES, len(there)))
    return Step("upsert", tuple([row(id_) for id_ in sorted(updated)] + new))


def rows_after(step: Step, before: dict[str, Row]) -> dict[str, Row]:
    left = dict(before)
    if step.operation == "insert_overwrite":
        parts = {row[2] for row in step.rows}
        left = {key: row for key, row in left.items() if row[2] not in parts}
    return left | {row[0]: row for row in step.rows}


class Written:
    """A table, and the rows that it must have."""

    def __init__(self, spark: SparkSession, folder: Path, name: str, options: dict[str, str], seed: str) -> None:
        shape = TableShape(name="t", partition_fields="part", options=OPTIONS | options)
        self.table = HudiTable(spark, folder / "tables" / name, shape)
        self._spark = spark
        self._seed = f"{seed}/{name}"
        self.name = name
        self.steps = 0
        self.rows: dict[str, Row] = {}

    def take_step(self) -> None:
        step = step_of(self._seed, self.steps, self.rows)
        self._write(step)
        self.rows = rows_after(step, self.rows)
        self.steps += 1

    def insert_at_once(self, writers: int = 2) -> None:
        """An insert of each writer, whose keys and files are its own. Two of Hudi's writers at once may both begin one
        clean, and the second fails, since its `.inflight` is there: so none of them cleans."""
        options = {"hoodie.clean.automatic": str(writers == 1).lower()}
        with ThreadPoolExecutor(writers) as threads:
            step = self.steps
            inserts = []
            for number in range(step, step + writers):
                first = KEYS + number * NEW_KEYS
                ids = range(first, first + NEW_KEYS)
                rows = tuple((f"k{id_:06}", number, f"p{id_ % PARTITIONS}", f"{number} {id_}") for id_ in ids)
                inserts.append(Step("insert", rows))
            for done in [threads.submit(self._write, each, **options) for each in inserts]:
                done.result()
        for each in inserts:
            self.rows = rows_after(each, self.rows)
        self.steps += writers

    def _write(self, step: Step, **options: str) -> None:
        self.table.write(self._spark.createDataFrame(list(step.rows), COLUMNS), step.operation, **options)

    def look(self) -> None:
        by_hudi = {
            f"Hudi, metadata table {on}": self.table.frame(**{"hoodie.metadata.enable": on}) for on in ("true", "false")
        }
        found: dict[str, list[Any]] = {
            how: [tuple(row) for row in frame.select(*NAMES).collect()] for how, frame in by_hudi.items()
        }
        own = lakeward.Table(str(self.table.path), timezone="UTC").scan(columns=list(NAMES)).to_arrow()
        found["Lakeward"] = [tuple(row[name] for name in NAMES) for row in own.to_pylist()]
        for how, rows in found.items():
            where = f"{self.name} after {self.steps} steps, by {how}"
            twice = [key for key, times in Counter(row[0] for row in rows).items() if times > 1]
            assert not twice, f"{where}: there twice: {twice}"
            read = {row[0]: row for row in rows}
            lost = {key: (row, read.get(key)) for key, row in self.rows.items() if read.get(key) != row}
            more = read.keys() - self.rows.keys()
            assert not lost and not more, f"{where}: wrong {lost}, more {more}"


def write_tables(spark: SparkSession, folder: Path) -> None:
    settings = json.loads((folder / "settings.json").read_text())
    tables = {
        name: Written(spark, folder, name, options, settings["seed"]) for name, options in settings["tables"].items()
    }
    without_pause, enough = folder / "without-pause", folder / "enough"
    with (folder / "journal").open("a") as journal:

        def tell(**said: object) -> None:
            journal.write(json.dumps(said) + "\n")
            journal.flush()

        while not enough.exists():
            for name, table in tables.items():
                if not without_pause.exists():
                    table.take_step()
                elif name == without_pause.read_text():
                    table.insert_at_once()
                else:
                    continue
                tell(table=name, step=table.steps)
                if table.steps % LOOKS_EVERY == 0 and not without_pause.exists():
                    table.look()
                    tell(table=name, looked_after=table.steps)
        for name, table in tables.items():
            # Of two writers at once of Hudi 1.2 the second leaves the first one's files out of partition statistics.
            # The next write counts all files.
            table.insert_at_once(writers=1)
            table.look()
            tell(table=name, looked_after=table.steps, last=True)


def main(folder: Path) -> None:
    from tests.hudi.spark import start_spark

    spark = start_spark(scratch=folder, memory="1g")
    write_tables(spark, folder)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
