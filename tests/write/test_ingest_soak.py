"""Continuous ingest, as the test plan of RFC-06 asks: upserts, deletes and compactions of a table whose logs have
tails, by a process that is killed again and again. Each key is there once, with the row of its last step, and lookups
by logs find just these.

LAKEWARD_SOAK_SECONDS says how long (`make soak-ingest` says longer), LAKEWARD_SEED which chance.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from select import select
from signal import SIGKILL
from subprocess import PIPE

import pyarrow as pa
import pytest

from lakeward.base.clock import SystemClock
from lakeward.index.bloom.log_coverage import look_at_logs
from lakeward.index.bloom.slice_index import SliceBloomIndex
from lakeward.index.index import record_locations
from lakeward.storage.local import LocalStorage
from tests.our_reader import read_rows, scan
from tests.runs import MOST
from tests.soak import ingest

REPOSITORY = Path(__file__).parents[2]
SECONDS = float(os.environ.get("LAKEWARD_SOAK_SECONDS", "60" if MOST is None else "0"))
STEPS_MIN = 10
"""`make check` does just these: two log compactions, two deletes, a compaction and a clean are among them. A process is
killed in its second to fourth step, some four or five of them."""
LOOK_SECONDS = 60.0
"""After which it is seen what the table holds."""


class Ingesting:
    """One process at a time that ingests, until it is killed."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.soak.ingest", str(folder)]
        self._forks = subprocess.Popen(command, cwd=REPOSITORY, stdin=PIPE, stdout=PIPE, text=True, bufsize=1)
        assert self._forks.stdin is not None and self._forks.stdout is not None
        self._asked, self._said = self._forks.stdin, self._forks.stdout
        self._process = 0

    def start(self) -> None:
        self._asked.write("\n")
        self._process = int(self._said.readline())

    def check_alive(self) -> None:
        assert not select([self._said], [], [], 0)[0], "it ended by itself"

    def kill(self) -> None:
        self.check_alive()
        os.kill(self._process, SIGKILL)
        assert int(self._said.readline()) == -SIGKILL
        self._process = 0

    def close(self) -> None:
        if self._process:
            with suppress(ProcessLookupError):
                os.kill(self._process, SIGKILL)
        self._asked.close()
        self._forks.wait()
        self._said.close()


def check(folder: Path, steps: int) -> None:
    base = folder / "table"
    expected = ingest.rows_after(steps)
    rows = read_rows(base)
    assert [key for key, times in Counter(row["id"] for row in rows).items() if times > 1] == []
    assert {row["id"]: (row["id"], row["ts"], row["part"], row["v"]) for row in rows} == expected
    snapshot = scan(base)
    index = SliceBloomIndex.of(LocalStorage(), snapshot, clock=SystemClock())
    every = sorted({row[0] for number in range(steps) for row in ingest.step_of(number)[1]})
    found = record_locations(LocalStorage(), index, pa.array([*every, "none"])).column("_hoodie_record_key").to_pylist()
    assert sorted(found) == sorted(expected)
    assert look_at_logs(LocalStorage(), snapshot).coverage.unknown_bytes == 0


def soak(folder: Path, seconds: float) -> int:
    """How many steps were done: for so many seconds, and `STEPS_MIN` at least."""
    seed = os.environ.get("LAKEWARD_SEED") or secrets.token_hex(4)
    print(f"LAKEWARD_SEED={seed}")
    chance = Random(seed)
    ingest.make(folder)
    ends = time.monotonic() + seconds
    next_look = time.monotonic() + LOOK_SECONDS
    kills = 0
    with closing(Ingesting(folder)) as process:
        while time.monotonic() < ends or ingest.steps_done(folder) < STEPS_MIN:
            killed_after = ingest.steps_done(folder) + chance.randint(1, 3)
            process.start()
            while ingest.steps_done(folder) < killed_after:
                process.check_alive()
                time.sleep(0.02)
            time.sleep(chance.uniform(0, min(10.0, max(0.5, seconds / 12))))
            process.kill()
            kills += 1
            if time.monotonic() > next_look:
                check(folder, ingest.finish(folder))
                next_look = time.monotonic() + LOOK_SECONDS
    steps = ingest.finish(folder)
    check(folder, steps)
    print(f"{steps} steps, {kills} kills, {len(ingest.rows_after(steps))} rows")
    return steps


@pytest.mark.slow
@pytest.mark.turns(65)
@pytest.mark.timeout(2 * 3600)
def test_rows_are_those_of_the_steps(tmp_path: Path) -> None:
    soak(tmp_path, SECONDS)
