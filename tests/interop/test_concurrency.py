"""Hudi's writer and Lakeward on one table at the same time, with the lock that they share: a writer upserts, inserts
and deletes, with pauses and without, while FULL and LOG compactions run without a pause, the metadata table on. In CI
the writer is a thread that has this process's Spark; in a longer run it is a process of its own, nothing of Lakeward
runs for every other dozen of writes, and how long writes take is compared.

LAKEWARD_SOAK_SECONDS says how long on each lock (`make soak-locks` says longer), LAKEWARD_SEED which chance.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.format.timeline.instant import State, parse_instant
from tests.crash.compacting import compact as compact_in_process
from tests.faults import FaultyStorage, Killed
from tests.hudi.metadata_table import OPTIONS as METADATA_OPTIONS
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_metadata_writing import some_rows, values
from tests.metadata_golden import DATA_TIMELINE, METADATA, METADATA_TIMELINE
from tests.processes import ScriptedProcesses
from tests.runs import NIGHTLY
from tests.soak.lock_writer import (
    KEYS,
    LATEST,
    LATEST_STEPS,
    STRETCH,
    WITHOUT_METADATA,
    Entry,
    expected_rows,
    read_journal,
    step_of,
    write_tables,
)
from tests.soak.writer import OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers import ZooKeeperServer

T = TypeVar("T")
Wait = Callable[[Callable[[], bool], float], None]
"""Waits until something holds, so many seconds at most; it fails where the writer did."""

pytestmark = [pytest.mark.interop, pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(4 * 3600)]

SECONDS = float(os.environ.get("LAKEWARD_SOAK_SECONDS", "60" if NIGHTLY else "0"))
START_SECONDS = 600.0
STEP_SECONDS = 300.0
REPOSITORY = Path(__file__).parents[2]
PROVIDERS = "org.apache.hudi.client.transaction.lock"

SETTINGS = {
    "planner.small_base_size": "1",
    "planner.log_ratio": "0.3",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.compaction.logfile.num.threshold": "2",
    "hoodie.compaction.logfile.size.threshold": "1",
}
"""What makes a little work do."""

LOCK_POLL_SECONDS = 5.0
"""After which Hudi's file-system lock is asked for again."""
SECONDS_TO_COMPARE = 120.0
"""A shorter run has no longest write to speak of."""
ALONE_STEPS = 2
"""Writes before we begin; the first of a cold JVM counts for nothing."""
PHASE_STEPS = 2 * STRETCH
"""Writes beside us, and as many without us, in turn: the machine, and the table, are then the same for both."""

TEMPORARY_EXITS = (5, 75)
"""The lock was not free in time, or another process is at work: come back."""


@dataclass(frozen=True, slots=True)
class Lock:
    """One way to share a table: what the writers set for it, and what Lakeward does."""

    name: str
    hudi: dict[str, str]
    own: tuple[str, ...]


@pytest.fixture(params=["filesystem", pytest.param("zookeeper", marks=pytest.mark.wide)])
def lock(request: pytest.FixtureRequest) -> Lock:
    """Each lock; ZooKeeper's is in CI by `test_zookeeper_lock`, and here in the wide suite."""
    if request.param == "filesystem":
        return Lock(
            "filesystem",
            {"hoodie.write.lock.provider": f"{PROVIDERS}.FileSystemBasedLockProvider"},
            ("--lock", "filesystem"),
        )
    server: ZooKeeperServer = request.getfixturevalue("zookeeper")
    return Lock(
        "zookeeper",
        {
            "hoodie.write.lock.provider": f"{PROVIDERS}.ZookeeperBasedLockProvider",
            "hoodie.write.lock.zookeeper.url": server.url,
            "hoodie.write.lock.zookeeper.port": "1",
            "hoodie.write.lock.zookeeper.base_path": "/lakeward-soak",
        },
        ("--lock", "zookeeper", "--lock-zookeeper", server.url, "--lock-zookeeper-path", "/lakeward-soak"),
    )


@dataclass(frozen=True, slots=True)
class Compaction:
    """What `lakeward compact` said of a plan."""

    instant: str
    completion_time: str
    action: str

    def overlaps(self, write: Entry) -> bool:
        return self.instant < write.completion_time and write.instant < self.completion_time


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much of the two happened at the same time."""

    writes: int
    full: int
    """Compactions beside which a write was under way."""
    log: int
    landed: int
    """Writes that were committed between the scheduling of a plan and its commit."""

    @classmethod
    def of(cls, writes: list[Entry], compactions: list[Compaction]) -> Overlap:
        actions = Counter(each.action for each in compactions if any(each.overlaps(write) for write in writes))
        landed = [w for w in writes if any(c.instant < w.completion_time < c.completion_time for c in compactions)]
        return cls(len(writes), actions["compaction"], actions["logcompaction"], len(landed))

    @property
    def is_enough(self) -> bool:
        times = max(1, int(SECONDS / 120))  # for half of a longer run nothing of Lakeward runs
        return self.writes >= 4 * times and min(self.full, self.log, self.landed) >= times


@pytest.mark.long
@pytest.mark.turns(150)
def test_no_key_is_lost_or_doubled(
    tmp_path: Path, lock: Lock, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """In the end Hudi reads what the steps in the journal leave, by the metadata table and without it; the metadata
    table says what the files say; and the two really were at work at the same time. No write failed for us, and the
    longest one beside us was no longer than the longest alone and one poll of the lock."""
    seed = os.environ.get("LAKEWARD_SEED") or secrets.token_hex(4)
    print(f"LAKEWARD_SEED={seed}")
    (tmp_path / "settings.json").write_text(json.dumps({"seed": seed, "tables": {lock.name: lock.hudi}}))
    writer = process_that_writes(tmp_path) if SECONDS else thread_that_writes(tmp_path, request)
    with writer as wait_until:
        wait_until(lambda: len(steps_of(tmp_path, lock)) >= ALONE_STEPS, START_SECONDS)
        beside = Beside(tmp_path, lock, Random(f"{seed}/{lock.name}"))
        beside.compact(monkeypatch, wait_until)
        (tmp_path / f"enough-{lock.name}").touch()
        wait_until((tmp_path / f"rows-{lock.name}.json").exists, STEP_SECONDS)
        judge(tmp_path, lock, seed, beside.compactions)
        judge_writes(lock, steps_of(tmp_path, lock)[1:], beside.quiet_steps)


@contextmanager
def thread_that_writes(folder: Path, request: pytest.FixtureRequest) -> Iterator[Wait]:
    """The writer in this process's Spark, which a JVM of its own needs half a minute to be as warm as."""
    spark = request.getfixturevalue("spark")
    with ThreadPoolExecutor(1) as threads:
        writer = threads.submit(write_tables, spark, folder)

        def wait_until(condition: Callable[[], bool], seconds: float) -> None:
            deadline = time.monotonic() + seconds
            while not condition():
                assert not writer.done() or writer.result() is None
                assert time.monotonic() < deadline
                time.sleep(0.2)

        try:
            yield wait_until
            writer.result(STEP_SECONDS)
        finally:
            for table in json.loads((folder / "settings.json").read_text())["tables"]:
                (folder / f"enough-{table}").touch()


@contextmanager
def process_that_writes(folder: Path) -> Iterator[Wait]:
    """The writer's process; gives what waits for something that it does. It must end by itself."""
    log_path = folder / "writer.log"
    with log_path.open("wb") as log:
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.lock_writer", str(folder)], stdout=log, stderr=log, cwd=REPOSITORY
        )

    def wait_until(condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert writer.poll() in (None, 0), log_path.read_text()[-5000:]
            assert time.monotonic() < deadline, log_path.read_text()[-5000:]
            time.sleep(0.2)

    try:
        yield wait_until
        assert writer.wait(STEP_SECONDS) == 0, log_path.read_text()[-5000:]
    finally:
        if writer.poll() is None:
            writer.kill()
            writer.wait()
        print(log_path.read_text()[-3000:])


def steps_of(folder: Path, lock: Lock) -> list[Entry]:
    return [entry for entry in read_journal(folder) if entry.table == lock.name]


class Beside:
    """Our runs beside a writer, of this kind and that, until the time is over and enough was seen.

    Tables of a test are merged in no time, and a service that begins whenever a write has ended meets none. So it comes
    at any time, and merges for as long as a write takes, more or less.
    """

    def __init__(self, folder: Path, lock: Lock, chance: Random) -> None:
        self._folder = folder
        self._lock = lock
        self._chance = chance
        self._exits = Counter[int]()
        self.compactions: list[Compaction] = []
        self.quiet_steps = {1}
        """Steps that began and ended while nothing of Lakeward ran."""

    @property
    def overlap(self) -> Overlap:
        return Overlap.of(steps_of(self._folder, self._lock), self.compactions)

    def compact(self, monkeypatch: pytest.MonkeyPatch, wait_until: Wait) -> None:
        merge = InProcessDispatcher.run

        def merge_slowly(dispatcher: InProcessDispatcher, *arguments: Any, **options: Any) -> Any:
            merged = merge(dispatcher, *arguments, **options)
            self._pass_time(1.5)
            return merged

        end = time.monotonic() + SECONDS
        phase_end = self._steps() + PHASE_STEPS
        with monkeypatch.context() as patched:
            patched.setattr(InProcessDispatcher, "run", merge_slowly)
            while time.monotonic() < end or not self.overlap.is_enough:
                assert time.monotonic() < end + START_SECONDS, self.overlap
                self._pass_time(2.0 if SECONDS else 0.5)
                self._run()
                if SECONDS >= SECONDS_TO_COMPARE and self._steps() >= phase_end:
                    self._rest(wait_until)
                    phase_end = self._steps() + PHASE_STEPS
        print(f"{self._lock.name}: {self.overlap}, exit codes {dict(self._exits)}")
        assert self._exits[0] >= 0.9 * self._exits.total(), self._exits

    def _rest(self, wait_until: Wait) -> None:
        under_way = self._steps()
        quiet = range(under_way + 1, under_way + 1 + PHASE_STEPS)
        wait_until(lambda: self._steps() >= quiet.stop, PHASE_STEPS * STEP_SECONDS)
        self.quiet_steps.update(quiet)

    def _run(self) -> None:
        kind = next_kind(self._chance, self.overlap)
        options = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
        exit_code, printed = lakeward(
            *("compact", str(self._folder / "tables" / self._lock.name), "--type", kind),
            *(options if kind != "full" else ()),
            *(*self._lock.own, "--lock-wait", "60s", "--engine", "local"),
        )
        self._exits[exit_code] += 1
        assert exit_code in (0, *TEMPORARY_EXITS), printed
        self.compactions += [
            Compaction(plan["instant"], plan["completion_time"], plan["action"])
            for plan in printed.get("compactions", ())
            if plan["completion_time"] is not None
        ]

    def _pass_time(self, of_a_write: float) -> None:
        time.sleep(self._chance.uniform(0, of_a_write * steps_of(self._folder, self._lock)[-1].seconds))

    def _steps(self) -> int:
        return len(steps_of(self._folder, self._lock))


def next_kind(chance: Random, seen: Overlap) -> str:
    """What was not seen yet beside a write comes first, and LOG before FULL, which leaves it nothing to merge."""
    if not seen.log:
        return "log"
    return chance.choice(["full", "log", "log", "hybrid"]) if seen.full else "full"


def judge(folder: Path, lock: Lock, seed: str, compactions: list[Compaction]) -> None:
    table = folder / "tables" / lock.name
    writes = steps_of(folder, lock)
    assert [write.step for write in writes] == list(range(len(writes)))
    expected = expected_rows(seed, writes)
    for how, rows in json.loads((folder / f"rows-{lock.name}.json").read_text()).items():
        keys = Counter(row["id"] for row in rows)
        assert max(keys.values()) == 1, f"{lock.name}, {how}: {[key for key, n in keys.items() if n > 1]} are doubled"
        wanted = {key: row for key, row in expected.items() if how != LATEST or row["ts"] >= len(writes) - LATEST_STEPS}
        assert {row["id"]: row for row in rows} == wanted, f"{lock.name}, {how}"
    exit_code, printed = lakeward("verify", str(table), "--all", "--merge-sample", "4")
    assert exit_code == 0, printed.get("checks", printed)
    for timeline in (table / ".hoodie" / "timeline", table / ".hoodie" / "metadata" / ".hoodie" / "timeline"):
        check_completed_once(timeline)
    assert not (table / ".hoodie" / "lock").exists()
    assert Overlap.of(writes, compactions).is_enough, "else all of this would have shown nothing"


def judge_writes(lock: Lock, writes: list[Entry], quiet_steps: Set[int]) -> None:
    """Did the writer notice?"""
    beside = [write for write in writes if write.step not in quiet_steps]
    longest = {
        "alone": max(write.took for write in writes if write.step in quiet_steps),
        "beside, without pauses": max((write.took for write in beside if not write.has_gap), default=0.0),
        "beside, with pauses": max((write.took for write in beside if write.has_gap), default=0.0),
    }
    conflicts = sum(write.conflicts for write in beside)
    shown = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in longest.items())
    numbers = f"{len(beside)} writes beside, {len(quiet_steps)} alone, {conflicts} conflicts"
    print(f"{lock.name}: {numbers}; the longest write {shown}")
    assert conflicts == 0
    if SECONDS >= SECONDS_TO_COMPARE:
        assert max(longest.values()) <= longest["alone"] + LOCK_POLL_SECONDS


def check_completed_once(timeline: Path) -> None:
    """But for cleans: two writers of Hudi's may carry out the same one."""
    parsed = [parse_instant(path.name, 2) for path in timeline.iterdir() if path.is_file()]
    completed = Counter(
        each.time for each in parsed if each is not None and each.state is State.COMPLETED and each.action != "clean"
    )
    assert max(completed.values()) == 1, completed


STEPS = {
    "requested": f"create {{table}}/{METADATA_TIMELINE}/*.deltacommit.requested",
    "inflight": f"create {{table}}/{METADATA_TIMELINE}/*.deltacommit.inflight",
    "last-log-file": f"[mr]*e {{table}}/{METADATA}/partition_stats/*",
    "metadata-commit": f"link {{table}}/{METADATA_TIMELINE}/*",
}


class DyingStorage(FaultyStorage):
    """Its process dies right after the first call of this form."""

    def __init__(self, last: str) -> None:
        super().__init__()
        self._last = last

    def _call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        result = super()._call(name, path, act, tear)
        if fnmatchcase(f"{name} {path}", self._last):
            self._dead = True
            raise Killed(name)
        return result


@pytest.mark.wide
@pytest.mark.parametrize("step", STEPS)
def test_a_writer_comes_between(spark: SparkSession, table_with_metadata: Path, tmp_path: Path, step: str) -> None:
    """We died right after a step of the metadata table's commit, and Hudi's writer, not we, comes next and goes on,
    whether it rolls back what is incomplete there or leaves it. Then our plan is carried out after all, and its writer
    goes on again. (In a JVM that has written before: the first write of one fails where it compacts the metadata table,
    as docs/reference/compatibility.md says.)"""
    shape = TableShape(partition_fields="part", options=METADATA_OPTIONS | OPTIONS)
    source = HudiTable(spark, table_with_metadata, shape)
    table = source.copy_to(tmp_path / "table")
    with pytest.raises(Killed):
        compact_in_process(table.path, DyingStorage(STEPS[step].format(table=table.path)), ScriptedProcesses())
    (instant,) = table.pending_instants()
    (table.path / ".hoodie" / "lock").unlink()
    os.utime(table.path / ".hoodie" / ".heartbeat" / instant, (0, 0))
    own = list((table.path / METADATA).glob(f"*/.*_{instant}.log.*"))
    assert bool(own) == (step in ("last-log-file", "metadata-commit"))
    expected = values(table, **WITHOUT_METADATA)

    def upsert(numbers: range, value: str) -> None:
        table.write(some_rows(spark, numbers, value), "upsert")
        expected.update({f"k{number}": value for number in numbers})
        assert values(table) == values(table, **WITHOUT_METADATA) == expected

    upsert(range(3490, 3510), "while we are dead")
    exit_code, printed = lakeward("compact", str(table.path), "--type", "full", "--lock", "filesystem")
    assert exit_code == 0, printed
    assert [plan["instant"] for plan in printed["compactions"]][:1] == [instant]
    assert values(table) == values(table, **WITHOUT_METADATA) == expected
    upsert(range(3500, 3520), "after that")
    for folder in (table.path / DATA_TIMELINE, table.path / METADATA_TIMELINE):
        check_completed_once(folder)


def test_a_seed_is_a_story() -> None:
    """The same seed writes the same rows, and an insert writes only keys that never were there."""
    steps = [step_of("seed", "t", number) for number in range(200)]
    assert steps == [step_of("seed", "t", number) for number in range(200)]
    assert steps[:20] != [step_of("other", "t", number) for number in range(20)]
    written: set[str] = set()
    for operation, rows in steps:
        ids = {row["id"] for row in rows}
        assert len(ids) == len(rows)
        assert operation != "insert" or not ids & written
        written |= ids
    assert {operation for operation, _ in steps} == {"insert", "upsert", "delete"}
    entries = [Entry("t", number, "", "") for number in range(200)]
    left: dict[str, Any] = expected_rows("seed", entries)
    assert KEYS < len(left) < len(written)
    deleted = {row["id"] for operation, rows in steps for row in rows if operation == "delete"}
    assert not deleted & left.keys(), "they do not come back"
