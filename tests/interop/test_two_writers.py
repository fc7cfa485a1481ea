"""Hudi's writer and Lakeward's on one table at the same time, on the same file groups and keys, with the lock that they
share and the daemon's services on: what was committed is in the table, once, and nothing else is.

Our writer is killed, and stopped for a while, at random. LAKEWARD_SOAK_SECONDS says how long on each kind of table
(`make soak-writers` and `make soak-inserts` say longer), LAKEWARD_SEED which chance. CI has a minute for new keys in
logs.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import State, parse_instant
from tests.hudi.table import HudiTable
from tests.hurried import HURRIED
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_concurrency import check_completed_once
from tests.interop.test_daemon_soak import Daemon
from tests.our_reader import scan
from tests.soak.two_writers import (
    HUDI,
    KINDS,
    OWN,
    WRITERS,
    Outcome,
    Step,
    committed_steps,
    expected_rows,
    read_journal,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(4 * 3600)]

SECONDS = float(os.environ.get("LAKEWARD_SOAK_SECONDS", "60"))
START_SECONDS = 600.0
STEP_SECONDS = 300.0
CHECK_SECONDS = 45.0
"""After which it is seen what the table holds."""
TRY_SECONDS = 45.0
"""In which a try of Lakeward is over, the longest stop of its process included: thirty are the wait for the lock."""
STOP_SECONDS = 5.0
SECONDS_TO_AWAIT_ROLLBACKS = 120.0
"""In a shorter run the last failed writes stay pending: Hudi's leave a heartbeat in the metadata table, which has to be
silent for minutes until the daemon rolls them back."""
REPOSITORY = Path(__file__).parents[2]

CONFIG = """
[service]
name = "two-writers"
state_folder = "{folder}/state"
listen = "127.0.0.1:0"
engine = "local"

[locks]
writers = "share"

[discovery]
roots = ["{folder}"]

[defaults]
interval = "1s"
metadata_compact_after = 6
planner = {{ "hoodie.compact.inline.max.delta.commits" = 3 }}
clean = {{ policy = "commits", retain = 6, reader_window = "0s" }}
archive.hudi = {{ "hoodie.keep.min.commits" = 20, "hoodie.keep.max.commits" = 25 }}
"""

BESIDE_HUDI = 'services = ["index", "rollback"]\n'
"""The daemon leaves compactions and cleans to Hudi."""

QUICK = HURRIED | {"lakeward.services.rollback.job.QUIET_SECONDS": 5.0}


IN_CI = pytest.mark.turns(180)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=IN_CI if of.into_logs else pytest.mark.wide) for kind, of in KINDS.items()]
)
def test_what_was_committed_is_there_once(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """At every look Hudi reads, by the metadata table and by listing, what the committed steps of both leave; nothing
    of a step that failed. In the end the timeline has each step once, in a longer run no failed write is pending, and
    `verify` finds nothing but what a failed write hides that is not rolled back yet. No try of Lakeward takes longer
    than it may."""
    seed = os.environ.get("LAKEWARD_SEED") or secrets.token_hex(4)
    print(f"LAKEWARD_SEED={seed}")
    chance = Random(f"{seed}/{kind}")
    (tmp_path / "settings.json").write_text(json.dumps({"seed": seed, "kind": kind}))
    seen = Seen(spark, tmp_path, kind)
    with processes(tmp_path, services=BESIDE_HUDI if KINDS[kind].into_logs else "") as started:
        started.begin(HUDI)
        started.wait_until(lambda: bool(steps_of(tmp_path, HUDI, Outcome.COMMITTED)), START_SECONDS)
        if KINDS[kind].into_logs:
            exit_code, printed = lakeward("index", "inserts", str(tmp_path / "table"), "--into-logs")
            assert exit_code == 0, printed
        started.daemon = Daemon(tmp_path, None, QUICK)
        started.begin(OWN)
        end = time.monotonic() + SECONDS
        look_at = time.monotonic() + min(CHECK_SECONDS, SECONDS / 2)
        while time.monotonic() < end or not seen.is_enough:
            assert time.monotonic() < end + START_SECONDS, seen
            started.wait(chance.uniform(1, 6))
            if chance.random() < 0.3:
                started.kill(OWN)
                started.begin(OWN)
            elif chance.random() < 0.3:
                started.stop(OWN, chance.uniform(0.2, STOP_SECONDS))
            if time.monotonic() >= look_at:
                with started.held():
                    seen.look()
                look_at = time.monotonic() + CHECK_SECONDS
        (tmp_path / "enough").touch()
        for writer in WRITERS:
            started.await_end(writer)
        if SECONDS >= SECONDS_TO_AWAIT_ROLLBACKS:
            started.wait_until(lambda: not pending_writes(tmp_path / "table"), STEP_SECONDS)
        assert started.daemon.stop() == 0, started.daemon.log
    print(f"{kind}: {seen}; {dict(started.strikes)}")
    seen.judge()


class Processes:
    """Both writers, and the daemon."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[str, subprocess.Popen[bytes]] = {}
        self.daemon: Daemon | None = None
        self.strikes = Counter[str]()

    def begin(self, name: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.soak.two_writers", name, str(self._folder)]
            self._writers[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=REPOSITORY, start_new_session=True
            )

    def kill(self, name: str) -> None:
        self.strikes["killed"] += 1
        self._writers[name].kill()
        self._writers[name].wait()
        (self._folder / f"{name}.held").unlink(missing_ok=True)

    def stop(self, name: str, seconds: float) -> None:
        self.strikes["stopped"] += 1
        self._writers[name].send_signal(signal.SIGSTOP)
        self.wait(seconds)
        self._writers[name].send_signal(signal.SIGCONT)

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.wait_until(lambda: time.monotonic() >= end, 2 * seconds + STEP_SECONDS)

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Until then each process must go on, or end as it was asked to."""
        deadline = time.monotonic() + seconds
        while not condition():
            for name, process in self._writers.items():
                assert process.poll() in (None, 0), self.logs(name)
            if self.daemon is not None:
                assert self.daemon.process.poll() is None, self.daemon.log[-5000:]
            assert time.monotonic() < deadline, self.logs(*self._writers)
            time.sleep(0.1)

    def await_end(self, name: str) -> None:
        self.wait_until(lambda: self._writers[name].poll() is not None, STEP_SECONDS)

    @contextmanager
    def held(self) -> Iterator[None]:
        """While both writers wait."""
        (self._folder / "hold").touch()
        held = [self._folder / f"{writer}.held" for writer in WRITERS]
        self.wait_until(lambda: all(each.exists() for each in held), STEP_SECONDS)
        yield
        (self._folder / "hold").unlink()
        self.wait_until(lambda: not any(each.exists() for each in held), STEP_SECONDS)

    def end(self) -> None:
        for process in (*self._writers.values(), *([self.daemon.process] if self.daemon is not None else [])):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def logs(self, *names: str) -> str:
        return "\n".join(f"{name}:\n{(self._folder / f'{name}.log').read_text()[-5000:]}" for name in names)


@contextmanager
def processes(folder: Path, *, services: str) -> Iterator[Processes]:
    started = Processes(folder)
    (folder / "lakeward.toml").write_text(CONFIG.format(folder=folder) + services)
    try:
        yield started
    finally:
        started.end()


def steps_of(folder: Path, writer: str, outcome: Outcome) -> list[Step]:
    return [step for step in read_journal(folder, writer) if step.outcome is outcome]


def pending_writes(table: Path) -> list[str]:
    states: dict[str, set[State]] = {}
    for path in (table / ".hoodie" / "timeline").iterdir():
        instant = parse_instant(path.name, 2)
        if instant is not None and instant.comparable_action in ("commit", "deltacommit"):
            states.setdefault(instant.time, set()).add(instant.state)
    return [time for time, known in states.items() if State.COMPLETED not in known]


def inserts_in_logs(table: Path) -> Iterator[int]:
    """New keys that the active timeline's commits say that logs have."""
    for path in (table / ".hoodie" / "timeline").glob("*_*.deltacommit"):
        commit = read_commit_metadata(path.read_bytes(), file=path.name, layout=2)
        for stats in commit.partition_to_write_stats.values():
            yield from (stat.num_inserts or 0 for stat in stats if ".log." in (stat.path or ""))


class Seen:
    """What the table was seen to hold, and what its writers say of themselves."""

    def __init__(self, spark: SparkSession, folder: Path, kind: str) -> None:
        self._folder = folder
        self._kind = KINDS[kind]
        self._table = HudiTable(spark, folder / "table", self._kind.shape)
        self._looks = 0
        self._hidden = 0
        """Looks at which a base file of a write that failed hid a committed log from readers that list."""

    def __str__(self) -> str:
        shown = []
        for writer in WRITERS:
            steps = read_journal(self._folder, writer)
            outcomes = Counter(str(step.outcome) for step in steps)
            conflicts = sum(step.conflicts for step in steps)
            longest = max((step.took for step in steps), default=0.0)
            shown.append(f"{writer} {dict(outcomes)}, {conflicts} conflicts, longest step {longest:.1f} s")
        return "; ".join((*shown, f"{self._looks} looks, rows hidden by a failed write at {self._hidden}"))

    @property
    def is_enough(self) -> bool:
        """Both were at work, and met each other."""
        committed = [len(steps_of(self._folder, writer, Outcome.COMMITTED)) for writer in WRITERS]
        met = sum(step.conflicts for writer in WRITERS for step in read_journal(self._folder, writer))
        return min(committed) >= 4 and met >= 1 and self._looks >= 1

    def look(self) -> None:
        """Compare what Hudi reads with what was committed, while neither writer writes."""
        steps = [step for writer in WRITERS for step in read_journal(self._folder, writer)]
        expected = expected_rows(steps)
        # t18 Hudi begins to write a base file again; t29 Lakeward begins, and t40 commits a log of that group; t46
        # the base file of t18 is there, t47 Hudi meets that commit and fails. Until it is rolled back readers that list
        # put the log behind that base file, and see neither.
        is_hidden = bool(scan(self._table.path).frozen)
        self._hidden += is_hidden
        for metadata in ("true",) if is_hidden else ("true", "false"):
            frame = self._table.frame(**{"hoodie.metadata.enable": metadata})
            rows = [tuple(row) for row in frame.select("id", "ts", "part", "value").collect()]
            twice = [key for key, times in Counter(row[0] for row in rows).items() if times > 1]
            assert not twice, f"with the metadata table {metadata}: there twice: {twice}"
            found = {row[0]: row for row in rows}
            lost = {key: row for key, row in expected.items() if found.get(key) != row}
            more = {key: row for key, row in found.items() if expected.get(key) != row}
            assert not lost and not more, f"with the metadata table {metadata}: lost {lost}, more {more}"
        self._looks += 1

    def judge(self) -> None:
        self.look()
        table = self._table.path
        steps = {f"{writer} {step.number}": step for writer in WRITERS for step in read_journal(self._folder, writer)}
        on_timeline = list(committed_steps(table))
        assert len({step for step, _ in on_timeline}) == len(on_timeline), "a step was committed twice"
        assert {(step, steps[step].instant) for step, _ in on_timeline} == set(on_timeline)
        check_completed_once(table / ".hoodie" / "timeline")
        hidden = {f"{group.partition_path}/{group.file_id}" for group in scan(table).frozen}
        assert not hidden or pending_writes(table), f"nothing that is under way hides {hidden}"
        exit_code, printed = lakeward("verify", str(table), "--all", "--merge-sample", "4")
        assert exit_code == (6 if hidden else 0), printed.get("problems", printed)
        assert {problem["subject"] for problem in printed["problems"]} == hidden
        assert not (table / ".hoodie" / "lock").exists()
        if self._kind.into_logs:
            assert sum(inserts_in_logs(table)), "new keys went into logs"
            exit_code, printed = lakeward("index", "inserts", str(table))
            assert exit_code == 0, printed
        for step in read_journal(self._folder, OWN):
            assert step.took <= TRY_SECONDS * (step.conflicts + 1), step


def test_the_order_of_commits_does_not_matter(tmp_path: Path) -> None:
    """The greatest ordering value wins; a deleted key is gone; what failed, or began alone, counts for nothing."""
    (tmp_path / f"{OWN}.journal").write_text(
        "".join(
            json.dumps({"number": number, "operation": operation, "rows": rows} | shown) + "\n"
            for number, operation, rows, shown in [
                (0, "upsert", [("a", 5, "p", "late"), ("b", 1, "p", "gone")], {}),
                (0, "upsert", [("a", 5, "p", "late"), ("b", 1, "p", "gone")], {"outcome": "committed"}),
                (1, "upsert", [("a", 4, "p", "early"), ("c", 1, "p", "there")], {"outcome": "committed"}),
                (2, "delete", [("b", 2, "p", "")], {"outcome": "committed"}),
                (3, "upsert", [("a", 9, "p", "failed")], {"outcome": "failed"}),
                (4, "upsert", [("c", 9, "p", "of one who died")], {}),
            ]
        )
    )
    steps = read_journal(tmp_path, OWN)
    expected = {"a": ("a", 5, "p", "late"), "c": ("c", 1, "p", "there")}
    assert expected_rows(steps) == expected_rows(steps[::-1]) == expected
    assert [step.number for step in steps if step.outcome is None] == [4]
