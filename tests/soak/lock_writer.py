"""A writer that shares its table's lock: real Hudi, in optimistic concurrency mode and with the metadata table
on, upserts, inserts and deletes in one table after the other, each until it hears that it is enough.

What a step does follows from the seed and its number. A step that fails, because the lock could not be had or its
commit conflicted, is done again, as Hudi's users do; each commit carries its step's number, by which a step is known
that was committed and failed after that. Stretches without a pause between two writes take turns with stretches with
one. How keys are found changes from step to step: by the record index, by bloom
filters and key ranges of the metadata table, by reading keys from files.

    python -m tests.soak.lock_writer FOLDER

FOLDER/settings.json    the seed, and the tables with their options, in the order in which they are written
FOLDER/journal          a line for each committed step
FOLDER/enough-TABLE     made by the process that has seen enough of it
FOLDER/rows-TABLE.json  then: what Hudi reads, by the metadata table and without it

In CI it is a thread of the test (`write_tables`), whose JVM has started and is warm.

Touches: the tables, FOLDER.
Keeps:   a step is in the journal only after its commit was found on the timeline, once.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import State, parse_instant, parse_instant_time
from tests.hudi.metadata_table import OPTIONS as METADATA_OPTIONS
from tests.hudi.spark import start_spark
from tests.hudi.table import HudiTable, TableShape
from tests.soak.writer import OPTIONS, rows_after

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 300
NEW_KEYS_A_STEP = 5
UPDATES_A_STEP = 40
DELETES_A_STEP = 10
MORTAL_OF = 7
"""One in so many keys may be deleted."""
COLUMNS = "id string, ts long, part string, value string"

SHARING_OPTIONS = {
    # A few commits are enough to have files cleaned and the metadata table compacted behind our back.
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "3",
    "hoodie.metadata.compact.max.delta.commits": "8",
    "hoodie.parquet.small.file.limit": "",  # Hudi's default: new keys go where there is room
    "hoodie.bloom.index.use.metadata": "true",
}
INDEXES = ("GLOBAL_RECORD_LEVEL_INDEX", "BLOOM", "SIMPLE")

STEP = "soak_step"
"""Under which a commit carries the number of its step."""

STRETCH = 6
"""Steps; in every second stretch there is a pause after each."""
PAUSE_SECONDS = (1.5, 4.0)
CONFLICT = "HoodieWriteConflictException"

LATEST = "by data skipping"
LATEST_STEPS = 2
WITH_METADATA = {"hoodie.metadata.enable": "true"}
WITHOUT_METADATA = {"hoodie.metadata.enable": "false"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A step that is committed, as the journal says it."""

    table: str
    step: int
    instant: str
    completion_time: str
    took: float = 0.0
    """Seconds from when the writer asked for it until its commit, waits for the lock and second tries included. The
    writer's own clean, which comes after that, is not."""
    conflicts: int = 0
    """How often it failed for what was committed meanwhile."""

    @property
    def has_gap(self) -> bool:
        """Whether a pause comes after it."""
        return self.step // STRETCH % 2 == 1

    @property
    def seconds(self) -> float:
        began, ended = (parse_instant_time(time, UTC) for time in (self.instant, self.completion_time))
        return (ended - began) / 1000


def step_of(seed: str, table: str, number: int) -> tuple[str, list[dict[str, Any]]]:
    """Operation and rows. The keys of an insert were never written before; ordering values grow, so the last write of
    a key wins, and its value says which one that was.

    A key that may be deleted is never written again: of one whose delete is still in a log, Hudi 1.2's bloom index says
    that it is where it was, and then the record index does not learn of it.
    """
    chance = Random(f"{seed}/{table}/{number}")
    known = KEYS + NEW_KEYS_A_STEP * (number - 1)
    new = list(range(known, known + NEW_KEYS_A_STEP)) if number else list(range(KEYS))
    mortal = [id_ for id_ in range(known if number else 0) if id_ % MORTAL_OF == 0]
    match number % 5 if number else None:
        case None | 2:
            operation, ids = "insert", new
        case 4:
            operation, ids = "delete", sorted(chance.sample(mortal, DELETES_A_STEP))
        case _:
            immortal = [id_ for id_ in range(known) if id_ % MORTAL_OF]
            operation, ids = "upsert", sorted(chance.sample(immortal, UPDATES_A_STEP)) + new
    return operation, [
        {"id": f"k{id_:05}", "ts": number, "part": f"p{id_ % 2}", "value": f"{table} {number} {id_}"} for id_ in ids
    ]


def read_journal(folder: Path) -> list[Entry]:
    path = folder / "journal"
    return [Entry(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def expected_rows(seed: str, entries: Iterable[Entry]) -> dict[str, dict[str, Any]]:
    """Maps a key to the row that the steps in the journal of one table leave."""
    return rows_after(step_of(seed, entry.table, entry.step) for entry in entries)


def commits_of_steps(table: Path) -> dict[int, list[tuple[str, str]]]:
    """Instant and completion time of the commits that a step has on the active timeline; it should be one."""
    found: dict[int, list[tuple[str, str]]] = {}
    for path in sorted((table / ".hoodie" / "timeline").glob("*_*.deltacommit")):
        instant = parse_instant(path.name, 2)
        if instant is not None and instant.state is State.COMPLETED:
            step = read_commit_metadata(path.read_bytes(), file=path.name, layout=2).extra_metadata.get(STEP)
            if step is not None:
                found.setdefault(int(step), []).append((instant.time, str(instant.completion_time)))
    return found


def write(table: HudiTable, frame: Any, operation: str, step: int) -> Entry:
    """Until it is committed."""
    asked_at, conflicts = time.time(), 0
    index = INDEXES[step % len(INDEXES)]
    options = {"hoodie.datasource.write.commitmeta.key.prefix": STEP, STEP: str(step)}
    while True:
        try:
            table.reshaped(index=index).write(frame, operation, **options)
        except Exception as error:
            conflicts += CONFLICT in str(error)
            print(f"step {step} ({operation}, {index}) failed: {error}"[:3000], flush=True)
        committed = commits_of_steps(table.path).get(step, []) if (table.path / ".hoodie").exists() else []
        assert len(committed) <= 1, f"step {step} was committed twice: {committed}"
        if committed:
            took = parse_instant_time(committed[0][1], UTC) / 1000 - asked_at
            return Entry(table.shape.name, step, *committed[0], took, conflicts)


def read(table: HudiTable, step: int) -> dict[str, list[dict[str, Any]]]:
    """All rows in two ways, and those of the step and later in a way that skips what statistics say they are not in."""
    columns = ("id", "ts", "part", "value")
    frames = {
        "by metadata table": table.frame(**WITH_METADATA),
        "by listing": table.frame(**WITHOUT_METADATA),
        LATEST: table.frame(**WITH_METADATA, **{"hoodie.enable.data.skipping": "true"}).where(f"ts >= {step}"),
    }
    return {how: [row.asDict() for row in frame.select(*columns).collect()] for how, frame in frames.items()}


def write_tables(spark: SparkSession, folder: Path) -> None:
    settings = json.loads((folder / "settings.json").read_text())
    with (folder / "journal").open("a") as journal:
        for name, options in settings["tables"].items():
            shape = TableShape(
                name=name,
                partition_fields="part",
                options=METADATA_OPTIONS | OPTIONS | SHARING_OPTIONS | options,
            )
            table = HudiTable(spark, folder / "tables" / name, shape)
            step = 0
            while not (folder / f"enough-{name}").exists():
                operation, rows = step_of(settings["seed"], name, step)
                entry = write(table, spark.createDataFrame(rows, COLUMNS), operation, step)
                journal.write(json.dumps(asdict(entry)) + "\n")
                journal.flush()
                os.fsync(journal.fileno())
                if entry.has_gap:
                    time.sleep(Random(step).uniform(*PAUSE_SECONDS))
                step += 1
            counts = Counter({step: len(commits) for step, commits in commits_of_steps(table.path).items()})
            assert not counts or max(counts.values()) == 1, counts
            shown = folder / f"rows-{name}.part"
            shown.write_text(json.dumps(read(table, step - LATEST_STEPS)))
            shown.rename(folder / f"rows-{name}.json")


def main(folder: Path) -> None:
    spark = start_spark(scratch=folder, memory="1g")
    write_tables(spark, folder)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
