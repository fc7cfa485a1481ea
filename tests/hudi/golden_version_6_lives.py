"""Makes tests/golden/v6_lives: tables of version 6 by Hudi 0.15.0, as they were after each of many steps; in the end
1.2.0 writes to them, which upgrades them first.

    python -m tests.hudi.golden_version_6_lives FOLDER SCRATCH

Each `<name>.tar.xz` in FOLDER has a folder for each step, in order, without Hadoop's checksum files; `<name>.json` what
each step did, and the partition path of each record key by the writer's snapshot query behind it.

Touches: FOLDER, through other releases' processes.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.hudi.golden_version_6 import BY_EVENT_TIME, SHAPE, completed
from tests.hudi.other_release import OtherRelease, OtherTable
from tests.hudi.spark import HUDI_VERSION, OLDEST_VERSION_OF_6
from tests.hudi.table import TableShape

MOVING = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
TIDYING = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
BESIDE_OTHERS = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
COPIED = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
SMALL_FILES = {"hoodie.parquet.small.file.limit": "104857600"}


def with_options(shape: TableShape, **options: str) -> TableShape:
    return replace(shape, options={**shape.options, **options})


LIVES: dict[str, TableShape] = {
    "merged": with_options(SHAPE, **MOVING),
    "by_event_time": with_options(BY_EVENT_TIME, **MOVING),
    "copied": with_options(SHAPE, **MOVING, **COPIED),
}


def rows_of(keys: Sequence[int], partition: str, ts: int, value: str) -> str:
    ids = ", ".join(map(str, keys))
    return (
        f"SELECT concat('k', id) AS id, '{partition}' AS part, {ts}L AS ts, '{value}' AS v "
        f"FROM (SELECT explode(array({ids})) AS id)"
    )


@dataclass
class Life:
    table: OtherTable
    states: Path
    steps: list[dict[str, object]] = field(default_factory=list)
    ts: int = 10

    def keep(self, what: str) -> None:
        """The table as it is now, and what Hudi reads of it."""
        rows = [json.loads(row) for row in self.table.snapshot(with_meta=True)]
        places = {str(row["_hoodie_record_key"]): str(row["_hoodie_partition_path"]) for row in rows}
        assert len(places) == len(rows), f"{what}: a key is there twice"
        shutil.copytree(
            self.table.path,
            self.states / f"{len(self.steps):02}",
            ignore=shutil.ignore_patterns("*.crc", ".temp", ".heartbeat"),
        )
        self.steps.append({"what": what, "places": dict(sorted(places.items()))})
        print(len(self.steps), what, flush=True)

    def write(self, keys: Sequence[int], partition: str, operation: str = "upsert", **options: str) -> None:
        self.ts += 1
        self.table.write(rows_of(keys, partition, self.ts, f"v{self.ts}"), operation, **options)

    def act(self, keys: Sequence[int], partition: str, operation: str = "upsert", **options: str) -> None:
        self.write(keys, partition, operation, **options)
        tidied = " and clean" if "hoodie.clean.automatic" in options else ""
        self.keep(f"{operation}{tidied} {list(keys)} in {partition}")

    def call(self, what: str) -> None:
        """A procedure, which would build a metadata table."""
        self.table.procedure(what, **{"hoodie.metadata.enable": "false"})

    @property
    def newest(self) -> Path:
        found = [path for action in ("commit", "deltacommit") for path in completed(self.table.path, action)]
        return max(found, key=lambda path: path.name)


def live(life: Life, *, has_logs: bool) -> None:
    path = life.table.path
    life.act(range(8), "p0")
    life.act(range(8, 14), "p1")
    life.act([0, 1, 9, 14], "p0")  # 9 moves
    life.act([2, 3], "p0", "delete")
    # A writer that is late: it began first, and completes behind the other one.
    life.write([4, 15, 16], "p2", **BESIDE_OTHERS)
    late = life.newest
    late.rename(path / "late")
    life.keep("a write is under way")
    life.act([10, 17], "p1", **BESIDE_OTHERS)
    (path / "late").rename(late)
    life.keep("it is complete, behind another one that began later")
    # One that dies, and is rolled back by the next writer.
    life.write([5, 18], "p0")
    life.newest.unlink()
    life.keep("a write died")
    life.act([6, 19], "p0")
    if has_logs:
        life.table.compaction("op => 'scheduleAndExecute'")
        life.keep("compaction")
        life.act([0, 7], "p0", "delete")
        instant = life.table.compaction("op => 'schedule'")
        life.keep("a compaction is planned")
        life.act([0, 1, 12], "p0")
        life.table.compaction(f"op => 'run', timestamp => {instant}")
        life.keep("it is carried out")
    life.act([20, 21, 22], "p1", **SMALL_FILES)
    for number in range(4):
        life.act([23 + number, 9, 10], "p1", **TIDYING)
    life.act([30, 31], "p1", "insert_overwrite")
    gone = {"hoodie.datasource.write.partitions.to.delete": "p2"}
    life.write([1], "p2", "delete_partition", **gone)
    life.keep("delete_partition p2")
    # What was complete is rolled back, in two steps of Hudi's.
    life.act([32, 33], "p0")
    life.call(f"rollback_to_instant(table => '{{table}}', instant_time => '{life.newest.stem}')")
    life.keep("that is rolled back")
    target = life.newest.stem
    life.call(f"create_savepoint(path => '{{path}}', commit_time => '{target}')")
    life.keep("a savepoint")
    life.act([34, 31], "p0")
    life.act([35], "p2", "insert_overwrite")
    life.act([34], "p0", "delete")
    life.call(f"rollback_to_savepoint(path => '{{path}}', instant_time => '{target}')")
    life.call(f"delete_savepoint(path => '{{path}}', instant_time => '{target}')")
    life.keep("back to it")
    for number in range(6):
        life.act([36 + number, 31], "p2", **TIDYING)
    life.act([36, 31, 30], "p0", "delete", **TIDYING)


def live_on(life: Life, *, has_logs: bool) -> None:
    """What a release does that upgrades the table with its first write."""
    life.act([40, 41], "p0")
    life.act([2, 9], "p1")
    life.act([9, 10], "p1", "delete")
    if has_logs:
        life.table.compaction("op => 'scheduleAndExecute'")
        life.keep("compaction by the later release")
    life.act([42, 3], "p2")


def main(folder: Path, scratch: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    with (
        OtherRelease(OLDEST_VERSION_OF_6, scratch / "oldest") as oldest,
        OtherRelease(HUDI_VERSION, scratch / "newest") as newest,
    ):
        for name in names or LIVES:
            shape, folder_of_life = LIVES[name], scratch / name
            has_logs = shape.options.get("hoodie.datasource.write.table.type") != "COPY_ON_WRITE"
            life = Life(oldest.table(folder_of_life / "table", shape), folder_of_life / "states")
            live(life, has_logs=has_logs)
            life.table = newest.table(life.table.path, shape)
            live_on(life, has_logs=has_logs)
            with tarfile.open(folder / f"{name}.tar.xz", "w:xz") as archive:
                archive.add(life.states, ".")
            (folder / f"{name}.json").write_text(json.dumps(life.steps, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]), *sys.argv[3:])
