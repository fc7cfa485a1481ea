"""Two writer processes of one table, real Hudi and Lakeward, that share its lock and write to the same file groups and
keys at once, each until it hears that it is enough.

What a step writes is in its writer's journal before it begins, and each commit carries the number of its step. A step
that failed is not done again: its rows are then in no other commit, and would be seen. Greater ordering values win, and
no two steps share one. So the steps that were committed say what the table holds, in whatever order they were.

Some keys belong to one writer, which makes them in one step and deletes them in another. A deleted key does not come
back, since Hudi may double it while its delete is being compacted.

    python -m tests.soak.two_writers hudi|own FOLDER

FOLDER/settings.json   the seed, and the kind of table
FOLDER/table           the table
FOLDER/WRITER.journal  a line for each step that begins, and one for each that ended
FOLDER/hold            while it is there, writers begin nothing, and say so:
FOLDER/WRITER.held     there while its writer waits, and every step of its journal has ended
FOLDER/enough          then they end

Touches: the table, FOLDER.
Keeps:   a step counts as committed if its commit was found on the timeline, once, whatever the writer heard.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from lakeward.base.errors import Conflict, LockHeld, TryLater
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import State, parse_instant
from lakeward.protocol.lock.file_system_lock import FileSystemLockOptions
from lakeward.write.entry import write as write_rows
from tests.hudi.table import HudiTable, TableShape
from tests.soak.writer import OPTIONS

HUDI, OWN = "hudi", "own"
WRITERS = (HUDI, OWN)
BUCKETS = 3
PARTITIONS = 2
SHARED_KEYS = 200
MANY, FEW = 40, 2
"""Shared keys of a step: of all buckets, or of some, so that two steps may be beside each other."""
OWN_KEYS = 6
"""Which a step makes, or deletes."""
JITTER_MS = 4000
"""An ordering value may lie by so much before the time of its step: it may come late."""
STEP = "soak_step"
"""Under which a commit carries the number of its step."""
CONFLICT = "HoodieWriteConflictException"
PAUSE_SECONDS = {HUDI: 1.0, OWN: 2.0}
"""The longest between two steps. Lakeward's are faster: without pauses no step of Hudi's would be committed."""
COLUMNS = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("value", pa.string())])

Row = tuple[str, int, str, str]
"""Key, ordering value, partition, and which step of whom wrote it."""


_RECORD_INDEX = {"hoodie.metadata.global.record.level.index.enable": "true"}
_COMPACTS = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "4"}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table."""

    table_type: str
    index: str
    into_logs: bool = False
    """Lakeward puts new keys into logs; Hudi compacts."""

    @property
    def shape(self) -> TableShape:
        return TableShape(
            partition_fields="part",
            index="GLOBAL_RECORD_LEVEL_INDEX" if self.index == "metadata" else self.index.upper(),
            buckets=BUCKETS,
            options={
                **OPTIONS,
                "hoodie.datasource.write.table.type": self.table_type,
                "hoodie.metadata.enable": "true",
                "hoodie.metadata.compact.max.delta.commits": "8",
                "hoodie.clean.automatic": "true",
                "hoodie.clean.commits.retained": "12",
                "hoodie.parquet.small.file.limit": "",
                # It asks for the lock again sooner than after its five seconds, which would be half of a short run.
                "hoodie.write.lock.client.wait_time_ms_between_retry": "300",
                "hoodie.write.lock.client.num_retries": "200",
                **(_RECORD_INDEX if self.index == "metadata" else {}),
                **(_COMPACTS if self.into_logs else {}),
            },
        )

    @property
    def our_options(self) -> dict[str, Any]:
        return {"index": self.index} | ({"buckets": BUCKETS} if self.index == "bucket" else {})


KINDS = {
    "mor-buckets": Kind("MERGE_ON_READ", "bucket"),
    "cow-buckets": Kind("COPY_ON_WRITE", "bucket"),
    "mor-simple": Kind("MERGE_ON_READ", "simple"),
    "mor-into-logs": Kind("MERGE_ON_READ", "metadata", into_logs=True),
}


class Outcome(StrEnum):
    COMMITTED = "committed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Step:
    number: int
    operation: str
    rows: list[Row]
    outcome: Outcome | None = None
    """None: its writer does not know, or has died meanwhile."""
    instant: str = ""
    took: float = 0.0
    """Seconds until its writer heard of its end."""
    conflicts: int = 0
    """How often it met another commit."""


def read_journal(folder: Path, writer: str) -> list[Step]:
    path = folder / f"{writer}.journal"
    steps: dict[int, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        shown = json.loads(line)
        steps[shown["number"]] = steps.get(shown["number"], {}) | shown
    return [
        Step(**{**shown, "rows": [tuple(row) for row in shown["rows"]], "outcome": Outcome(shown["outcome"])})
        if shown.get("outcome")
        else Step(shown["number"], shown["operation"], [tuple(row) for row in shown["rows"]])
        for shown in steps.values()
    ]


def expected_rows(steps: Iterable[Step]) -> dict[str, Row]:
    """Maps a key to the row that the committed steps of both writers leave, in whatever order these are given."""
    committed = [step for step in steps if step.outcome is Outcome.COMMITTED]
    gone = {row[0] for step in committed if step.operation == "delete" for row in step.rows}
    left: dict[str, Row] = {}
    for step in committed:
        for row in step.rows:
            if row[0] not in gone and (row[0] not in left or left[row[0]][1] < row[1]):
                left[row[0]] = row
    return left


def committed_steps(table: Path) -> Iterator[tuple[str, str]]:
    """The step (`hudi 3`) and the instant of each commit of a writer on the active timeline."""
    for path in sorted((table / ".hoodie" / "timeline").glob("*_*commit")):
        instant = parse_instant(path.name, 2)
        if instant is not None and instant.state is State.COMPLETED and instant.action in ("commit", "deltacommit"):
            with suppress(FileNotFoundError):  # it was archived since
                shown = read_commit_metadata(path.read_bytes(), file=path.name, layout=2).extra_metadata.get(STEP)
                if shown is not None:
                    yield shown, instant.time


class Writer:
    """One of the two, from its first step to its last. After a violent end it goes on where its journal ends."""

    def __init__(self, folder: Path, name: str, write: Callable[[str, list[Row], str], tuple[int, bool]]) -> None:
        """
        Args:
            write: what a step does, by operation, rows, and what its commit is to carry; returns how many conflicts
                there were, and whether the step is reported as committed.
        """
        self._folder = folder
        self._name = name
        self._write = write
        self._steps = {step.number: step for step in read_journal(folder, name)}
        self._seed = json.loads((folder / "settings.json").read_text())["seed"]

    def run(self) -> None:
        with (self._folder / f"{self._name}.journal").open("a") as journal:
            while True:
                undecided = any(step.outcome is None for step in self._steps.values())
                if not undecided and (self._folder / "enough").exists():
                    return
                if not undecided and (self._folder / "hold").exists():
                    self._hold()
                    continue
                self._do(journal, max(self._steps, default=-1) + 1)

    def _hold(self) -> None:
        held = self._folder / f"{self._name}.held"
        held.touch()
        while (self._folder / "hold").exists():
            time.sleep(0.05)
        held.unlink()

    def _do(self, journal: Any, number: int) -> None:
        chance = Random(f"{self._seed}/{self._name}/{number}")
        step = self._next(chance, number)
        self._report(journal, step)
        began = time.monotonic()
        conflicts, is_shown = self._write(step.operation, step.rows, f"{self._name} {number}")
        took = time.monotonic() - began
        found: dict[str, list[str]] = {}
        for of, instant in committed_steps(self._folder / "table"):
            found.setdefault(of, []).append(instant)
        # What a process left that died is over once another step has been committed, or was refused.
        for each in [each for each in self._steps.values() if each.outcome is None]:
            instants = found.get(f"{self._name} {each.number}", [])
            assert len(instants) <= 1, f"{self._name} {each.number} was committed twice: {instants}"
            is_this = each.number == number
            assert not is_this or is_shown == bool(instants), f"{self._name} {number}: {is_shown}, but {instants}"
            if is_this or instants or is_shown:
                outcome = Outcome.COMMITTED if instants else Outcome.FAILED
                said = (took, conflicts) if is_this else (0.0, 0)
                self._report(journal, Step(each.number, each.operation, each.rows, outcome, "".join(instants), *said))
        time.sleep(chance.uniform(0, PAUSE_SECONDS[self._name]) if chance.random() < 0.5 else 0)

    def _report(self, journal: Any, step: Step) -> None:
        self._steps[step.number] = step
        journal.write(json.dumps(asdict(step)) + "\n")
        journal.flush()
        os.fsync(journal.fileno())

    def _next(self, chance: Random, number: int) -> Step:
        at = int(time.time() * 1000)

        def row(key: str) -> Row:
            # Of the step's own, whatever the clock says.
            late = chance.randrange(JITTER_MS) if key.startswith("shared") else 0
            ts = ((at - late) * 100_000 + number) * len(WRITERS) + WRITERS.index(self._name)
            return key, ts, f"p{int(key.rpartition('-')[2]) % PARTITIONS}", f"{self._name} {number}"

        new = [f"{self._name}-{number}-{each}" for each in range(OWN_KEYS)]
        if number == 0 and self._name == HUDI:
            return Step(number, "insert", [row(key) for key in (*map(_shared, range(SHARED_KEYS)), *new)])
        mortal = self._mortal()
        match chance.randrange(6):
            case 0 if len(mortal) >= OWN_KEYS:
                return Step(number, "delete", [row(key) for key in sorted(chance.sample(mortal, OWN_KEYS))])
            case 1:
                return Step(number, "insert", [row(key) for key in new])
            case 2 | 3:
                part = chance.randrange(PARTITIONS)  # one partition: half of the file groups at most
                keys = chance.sample(range(part, SHARED_KEYS, PARTITIONS), FEW)
                return Step(number, "upsert", [row(_shared(key)) for key in sorted(keys)])
            case _:
                keys = chance.sample(range(SHARED_KEYS), MANY)
                return Step(number, "upsert", [row(key) for key in (*map(_shared, sorted(keys)), *new)])

    def _mortal(self) -> list[str]:
        """Keys of its own that are in the table, and of which no delete was tried."""
        keys: dict[str, None] = {}
        for step in self._steps.values():
            for key, *_ in step.rows:
                if step.operation == "delete":
                    keys.pop(key, None)
                elif step.outcome is Outcome.COMMITTED and key.startswith(self._name):
                    keys[key] = None
        return list(keys)


def _shared(number: int) -> str:
    return f"shared-{number}"


def write_as_hudi(folder: Path, kind: Kind) -> Callable[[str, list[Row], str], tuple[int, bool]]:
    from tests.hudi.spark import start_spark

    spark = start_spark(scratch=folder, memory="1g")
    table = HudiTable(spark, folder / "table", kind.shape)

    def write(operation: str, rows: list[Row], step: str) -> tuple[int, bool]:
        frame = spark.createDataFrame(rows, "id string, ts long, part string, value string")
        options = {"hoodie.datasource.write.commitmeta.key.prefix": STEP, STEP: step}
        try:
            table.write(frame, operation, **options)
        except Exception as error:
            print(f"step {step} ({operation}) failed: {error}"[:2000], flush=True)
            # It may have failed at its own clean, after its commit.
            return int(CONFLICT in str(error)), step in dict(committed_steps(table.path))
        return 0, True

    return write


def write_as_lakeward(folder: Path, kind: Kind) -> Callable[[str, list[Row], str], tuple[int, bool]]:
    def write(operation: str, rows: list[Row], step: str) -> tuple[int, bool]:
        retries = int(step.split()[1]) % 3
        if kind.into_logs and operation == "insert":
            operation = "upsert"  # which alone puts new keys into logs
        columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), COLUMNS, strict=True)]
        try:
            report = write_rows(
                pa.table(columns, schema=COLUMNS),
                str(folder / "table"),
                operation=operation,
                lock=FileSystemLockOptions(wait_seconds=30.0),
                commit_metadata={STEP: step},
                retries=retries,
                **kind.our_options,
            )
        except Conflict as error:
            print(f"step {step} ({operation}) met another commit {retries + 1} times: {error}", flush=True)
            return retries + 1, False
        except (LockHeld, TryLater) as error:
            print(f"step {step} ({operation}) was not let in: {error}", flush=True)
            return 0, False
        return report.tries - 1, True

    return write


WRITES: Mapping[str, Callable[[Path, Kind], Callable[[str, list[Row], str], tuple[int, bool]]]] = {
    HUDI: write_as_hudi,
    OWN: write_as_lakeward,
}


def main(name: str, folder: Path) -> None:
    kind = KINDS[json.loads((folder / "settings.json").read_text())["kind"]]
    Writer(folder, name, WRITES[name](folder, kind)).run()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
