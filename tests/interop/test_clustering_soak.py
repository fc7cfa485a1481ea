"""The daemon clusters all the time beside Hudi's writers, single and optimistic ones, with the lock that they share: no
write fails, no row is lost, doubled or wrong, and clusterings are published all the same.

LAKEWARD_SOAK_SECONDS says how long on each lock (`make soak-clustering` says longer), LAKEWARD_SEED which chance.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import State, parse_instant
from lakeward.services.clustering.plan.run_record import RECORD_KEY
from tests.hurried import HURRIED, REPOSITORY
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_concurrency import check_completed_once
from tests.interop.test_daemon_soak import Daemon
from tests.soak.clustering_writer import MODES

if TYPE_CHECKING:
    from tests.servers import ZooKeeperServer

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide, pytest.mark.timeout(2 * 3600)]

SECONDS = float(os.environ.get("LAKEWARD_SOAK_SECONDS", "15"))
WITHOUT_PAUSE_SECONDS = min(SECONDS / 3, 120.0)
"""The last part of it, beside writers that leave no pause."""
PUBLISHED_MIN = 20 if SECONDS >= 300 else 2
"""On both tables of a lock together; each has a quarter of them at least."""
START_SECONDS = 600.0
STEP_SECONDS = 300.0
PROVIDERS = "org.apache.hudi.client.transaction.lock"

CONFIG = """
[service]
name = "clusters"
state_folder = "{folder}/state"
listen = "127.0.0.1:0"
engine = "local"

[locks]
writers = "share"
{locks}

[discovery]
roots = ["{folder}/tables"]

[defaults]
interval = "1s"
services = ["compaction", "clustering", "rollback"]
planner = {{ "hoodie.compact.inline.max.delta.commits" = 3 }}
clustering = {{ min_groups = 2 }}
"""

QUICK = HURRIED | {
    "lakeward.services.rollback.job.QUIET_SECONDS": 5.0,
    "lakeward.services.clustering.job._TIMES_ITS_COST": 1.0,
    "lakeward.services.clustering.plan.pauses.WHILE_SECONDS": 1.0,
    "lakeward.services.clustering.plan.pauses.WHILE_SECONDS_MAX": 5.0,
}


@dataclass(frozen=True, slots=True)
class Lock:
    hudi: dict[str, str]
    own: str
    types: dict[str, str]
    """The type of the table of each kind of writer."""


@pytest.fixture(params=["filesystem", pytest.param("zookeeper", marks=pytest.mark.services)])
def lock(request: pytest.FixtureRequest) -> Lock:
    if request.param == "filesystem":
        return Lock(
            {"hoodie.write.lock.provider": f"{PROVIDERS}.FileSystemBasedLockProvider"},
            'provider = "filesystem"',
            {"single": "COPY_ON_WRITE", "optimistic": "MERGE_ON_READ"},
        )
    server: ZooKeeperServer = request.getfixturevalue("zookeeper")
    return Lock(
        {
            "hoodie.write.lock.provider": f"{PROVIDERS}.ZookeeperBasedLockProvider",
            "hoodie.write.lock.zookeeper.url": server.url,
            "hoodie.write.lock.zookeeper.port": "1",
            "hoodie.write.lock.zookeeper.base_path": "/clusters",
        },
        f'provider = "zookeeper"\nzookeeper = {{ url = "{server.url}", base_path = "/clusters", lock_key = "t" }}',
        {"single": "MERGE_ON_READ", "optimistic": "COPY_ON_WRITE"},
    )


def test_no_write_fails_and_no_row_is_wrong(tmp_path: Path, lock: Lock) -> None:
    """The writer's process, which compares rows itself, ends well; the daemon published clusterings on both tables; it
    says that it waits beside writers that leave no pause; and `verify` finds nothing."""
    seed = os.environ.get("LAKEWARD_SEED") or secrets.token_hex(4)
    print(f"LAKEWARD_SEED={seed}")
    tables = {
        mode: MODES[mode] | lock.hudi | {"hoodie.datasource.write.table.type": lock.types[mode]} for mode in MODES
    }
    (tmp_path / "settings.json").write_text(json.dumps({"seed": seed, "tables": tables}))
    (tmp_path / "tables").mkdir()
    (tmp_path / "lakeward.toml").write_text(CONFIG.format(folder=tmp_path, locks=lock.own))
    seen = Seen(tmp_path)
    with (tmp_path / "writer.log").open("wb") as log:
        command = [sys.executable, "-m", "tests.soak.clustering_writer", str(tmp_path)]
        writer = subprocess.Popen(command, stdout=log, stderr=log, cwd=REPOSITORY)
    daemon: Daemon | None = None

    def wait_until(condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            said = (tmp_path / "writer.log").read_text()[-5000:]
            assert writer.poll() in (None, 0), said
            assert daemon is None or daemon.process.poll() is None, daemon.log[-5000:]
            assert time.monotonic() < deadline, f"{seen}\n{said}\n{daemon.log[-3000:] if daemon else ''}"
            seen.look()
            time.sleep(0.5)

    try:
        wait_until(lambda: seen.steps["optimistic"] > 1, START_SECONDS)
        daemon = Daemon(tmp_path, None, QUICK)
        end = time.monotonic() + SECONDS - WITHOUT_PAUSE_SECONDS
        wait_until(lambda: time.monotonic() >= end and seen.has_published(PUBLISHED_MIN), SECONDS + START_SECONDS)
        (tmp_path / "without-pause").write_text("optimistic")
        end = time.monotonic() + WITHOUT_PAUSE_SECONDS
        wait_until(lambda: time.monotonic() >= end and says_that_it_waits(daemon), SECONDS + STEP_SECONDS)
        (tmp_path / "enough").touch()
        wait_until(lambda: writer.poll() == 0, STEP_SECONDS)
        assert daemon.stop() == 0, daemon.log[-5000:]
    finally:
        for process in (writer, *([daemon.process] if daemon is not None else [])):
            if process.poll() is None:
                process.kill()
                process.wait()
    print(seen)
    for mode in MODES:
        check_completed_once(tmp_path / "tables" / mode / ".hoodie" / "timeline")
        exit_code, printed = lakeward("verify", str(tmp_path / "tables" / mode), "--all")
        assert exit_code == 0, json.dumps(printed)[:3000]


def says_that_it_waits(daemon: Daemon) -> bool:
    waits = re.findall(r"lakeward_table_clustering_waiting_seconds\{[^}]*optimistic[^}]*\} (\S+)", daemon.metrics())
    return any(float(seconds) > 0 for seconds in waits)


@dataclass(slots=True)
class Seen:
    folder: Path
    published: dict[str, set[str]] = field(default_factory=dict)
    """The instants of Lakeward's clusterings, by table."""
    rolled_back: dict[str, set[str]] = field(default_factory=dict)
    steps: Counter[str] = field(default_factory=Counter)
    looks: int = 0

    def __str__(self) -> str:
        published = {name: len(instants) for name, instants in self.published.items()}
        rolled_back = {name: len(instants) for name, instants in self.rolled_back.items()}
        return f"steps {dict(self.steps)}, {self.looks} looks, published {published}, rolled back {rolled_back}"

    def has_published(self, number: int) -> bool:
        of_tables = [len(self.published.get(mode, ())) for mode in MODES]
        return sum(of_tables) >= number and min(of_tables) >= max(1, number // 4)

    def look(self) -> None:
        journal = self.folder / "journal"
        said: list[dict[str, Any]] = (
            [json.loads(line) for line in journal.read_text().splitlines()] if (journal.exists()) else []
        )
        self.steps = Counter({each["table"]: each["step"] for each in said if "step" in each})
        self.looks = sum("looked_after" in each for each in said)
        for mode in MODES:
            timeline = self.folder / "tables" / mode / ".hoodie" / "timeline"
            for path in timeline.glob("*_*.*") if timeline.exists() else ():
                instant = parse_instant(path.name, 2)
                if instant is None or instant.state is not State.COMPLETED:
                    continue
                if instant.action == "rollback":
                    self.rolled_back.setdefault(mode, set()).add(instant.time)
                if instant.action == "replacecommit" and instant.time not in self.published.get(mode, ()):
                    try:
                        commit = read_commit_metadata(path.read_bytes(), file=path.name, layout=2)
                    except FileNotFoundError:
                        continue  # it was archived since
                    if RECORD_KEY in commit.extra_metadata:
                        self.published.setdefault(mode, set()).add(instant.time)
