"""The daemon with its Spark over three tables that real Hudi keeps writing to, killed and stopped at random while it
compacts, cleans and archives.

LAKEWARD_SOAK_SECONDS says how long (`make soak` says longer), LAKEWARD_SEED which chance.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.hurried import HURRIED, REPOSITORY, hurried_command
from tests.interop.lakeward_cli import lakeward
from tests.runs import NIGHTLY
from tests.servers import PostgresServer
from tests.soak.writer import TABLES, expected_rows, rows_after_each_step

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3600)]

CHAOS_SECONDS = float(os.environ.get("LAKEWARD_SOAK_SECONDS", "60" if NIGHTLY else "8"))
START_SECONDS = 180.0
CATCH_UP_SECONDS = 180.0

RETAINED = 2
"""Commits as of which cleans leave the table readable."""
COMMITS_MAX = 30
"""On the timeline in the end, whatever was written: what archiving leaves, and what it waits for."""

CONFIG = """
[service]
name = "soak"
state_folder = "{folder}/state"
listen = "127.0.0.1:0"
grace = "60s"

[spark]
master = "local[1]"

[spark.conf]
"spark.driver.memory" = "1g"
"spark.ui.enabled" = "false"

[locks]
writers = "share"

[discovery]
roots = ["{folder}/tables"]

[defaults]
interval = "1s"
objective = "40s"
metadata_compact_after = 3
planner = {{ "hoodie.compact.inline.max.delta.commits" = 1 }}
clean = {{ policy = "commits", retain = {retained}, reader_window = "0s" }}
archive.hudi = {{ "hoodie.keep.min.commits" = 3, "hoodie.keep.max.commits" = 4 }}
"""

QUICK = HURRIED | {
    "lakeward.daemon.app.LEASE_SECONDS": 10.0,
    "lakeward.daemon.work.table_planner.PLAN_EXPIRY_SECONDS": 30.0,
}

AT_WORK = ("scheduled", "merging", "committing", "files deleted", "archived up to")
"""What its steps say of a job that has begun and is not done."""


class Daemon:
    """`lakeward run`, started again after each violent end."""

    def __init__(self, folder: Path, store_url: str | None, constants: Mapping[str, object] = QUICK) -> None:
        self._folder = folder
        self._constants = constants
        self._environ = dict(os.environ) | ({"LAKEWARD__STATE__URL": store_url} if store_url else {})
        self.starts = 0
        self.process = self.start()

    @property
    def log(self) -> str:
        return (self._folder / f"daemon-{self.starts}.log").read_text()

    @property
    def doing(self) -> str:
        """What its log says last of a compaction, a clean or an archiving."""
        shown = re.findall(rf'"step": "[^"]*?({"|".join((*AT_WORK, "committed"))})|"event": "(job ended)"', self.log)
        return "".join(shown[-1]) if shown else "starting"

    @property
    def is_at_work(self) -> bool:
        return self.doing in AT_WORK

    def start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        with (self._folder / f"daemon-{self.starts}.log").open("wb") as log:
            self.process = subprocess.Popen(
                hurried_command(self._constants, "run", "--config", str(self._folder / "lakeward.toml")),
                cwd=REPOSITORY,
                stdout=log,
                stderr=log,
                env=self._environ,
                start_new_session=True,
            )
        return self.process

    def kill(self) -> None:
        """With its JVM: a machine that loses its power."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def pause(self, seconds: float) -> None:
        os.killpg(self.process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.killpg(self.process.pid, signal.SIGCONT)

    def metrics(self) -> str:
        found = re.search(r'"address": "(http://[^"]+)/"', self.log)
        if found is None:
            return ""
        with urllib.request.urlopen(found[1] + "/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(120)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[pytest.mark.services, pytest.mark.wide])])
def store_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    if request.param == "sqlite":
        yield None
        return
    with PostgresServer() as server:
        yield server.url(server.create_database())


@pytest.mark.turns(70)
def test_nothing_is_lost_and_services_catch_up(tmp_path: Path, store_url: str | None, spark: SparkSession) -> None:
    """In the end rows equal what was written, as of each commit that is retained too; no plan was carried out twice,
    nothing is left to merge, and each table was cleaned and archived."""
    seed = os.environ.get("LAKEWARD_SEED") or secrets.token_hex(4)
    print(f"LAKEWARD_SEED={seed}")
    chance = Random(seed)
    (tmp_path / "tables").mkdir()
    (tmp_path / "lakeward.toml").write_text(CONFIG.format(folder=tmp_path, retained=RETAINED))
    journal = tmp_path / "journal"
    journal.touch()
    with (tmp_path / "writer.log").open("wb") as log:
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.writer", str(tmp_path / "tables"), str(tmp_path), str(journal)],
            stdout=log,
            stderr=log,
            cwd=Path(__file__).parent.parent.parent,
        )
    daemon: Daemon | None = None
    try:
        wait_until(lambda: len(journal.read_text().splitlines()) >= len(TABLES), START_SECONDS, tmp_path)
        daemon = Daemon(tmp_path, store_url)
        end = time.monotonic() + CHAOS_SECONDS
        strikes = Counter[str]()
        while time.monotonic() < end:
            # Most of the time in the middle of a job, else whenever it happens.
            if chance.random() < 0.8:
                wait_until(lambda: daemon.is_at_work or time.monotonic() >= end, CHAOS_SECONDS * 2, tmp_path)
            time.sleep(chance.uniform(0, 1))
            assert daemon.process.poll() is None, daemon.log
            if chance.random() < 0.6:
                strikes[f"killed while {daemon.doing}"] += 1
                daemon.kill()
                daemon.start()
            else:
                strikes[f"paused while {daemon.doing}"] += 1
                daemon.pause(chance.uniform(0.5, 12))
        print(dict(strikes))
        wait_until(lambda: all(is_serviced(tmp_path / "tables" / each) for each in TABLES), CATCH_UP_SECONDS, tmp_path)
        writer.terminate()
        assert writer.wait(120) == 0, (tmp_path / "writer.log").read_text()[-3000:]
        wait_until(lambda: caught_up(daemon), CATCH_UP_SECONDS, tmp_path)
        assert daemon.stop() == 0, daemon.log
    finally:
        for process in (writer, *([daemon.process] if daemon is not None else [])):
            if process.poll() is None:
                process.kill()
                process.wait()
    judge(spark, tmp_path, journal)


def wait_until(condition: object, seconds: float, folder: Path) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        logs = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
        assert time.monotonic() < deadline, "\n".join(f"{log}:\n{log.read_text()[-3000:]}" for log in logs)
        time.sleep(0.5)


def caught_up(daemon: Daemon) -> bool:
    """Nothing is left to merge, nothing runs."""
    metrics = daemon.metrics()
    figures = re.findall(r'lakeward_table_(?:log_files|pending_plans)\{[^}]*table="[^"]*"\} (\S+)', metrics)
    running = re.findall(r"lakeward_jobs_running\{[^}]*\} (\S+)", metrics)
    tables = len(re.findall(r"lakeward_table_log_files\{", metrics))
    return tables == len(TABLES) and not any(float(figure) for figure in (*figures, *running))


def archived(table: Path) -> set[tuple[str, str]]:
    """Instants with their actions that the table's archive has, by Hudi's format and none of our code."""
    history = table / ".hoodie/timeline/history"
    if not (history / "_version_").exists():
        return set()
    manifest = json.loads((history / f"manifest_{(history / '_version_').read_text()}").read_text())
    return {
        (row["instantTime"], row["action"])
        for file in manifest["files"]
        for row in pq.read_table(history / file["fileName"], columns=["instantTime", "action"]).to_pylist()
    }


def is_serviced(table: Path) -> bool:
    """Cleaned and archived, which only the daemon does there."""
    timeline = table / ".hoodie/timeline"
    return any(timeline.glob("*_*.clean")) and (timeline / "history/_version_").exists()


def found_rows(spark: SparkSession, table: Path, option: str, value: str) -> dict[str, dict[str, object]]:
    reader = spark.read.format("hudi").option(option, value)
    rows = reader.load(str(table)).select("id", "ts", "part", "value").collect()
    found = {row["id"]: row.asDict() for row in rows}
    assert len(found) == len(rows), f"{table}: a key is there twice"
    return found


def judge(spark: SparkSession, folder: Path, journal: Path) -> None:
    expected, after_each_step = expected_rows(journal), rows_after_each_step(journal)
    for table in TABLES:
        path = folder / "tables" / table
        timeline = path / ".hoodie/timeline"
        on_timeline = {(name.split("_")[0], name.rpartition(".")[2]) for name in os.listdir(timeline) if "_" in name}
        writes = sorted(time for time, action in on_timeline if action in ("commit", "deltacommit"))
        for by_metadata in ("true", "false"):
            assert found_rows(spark, path, "hoodie.metadata.enable", by_metadata) == expected[table]
        for instant in writes[-RETAINED:]:
            found = found_rows(spark, path, "as.of.instant", instant)
            assert found in after_each_step[table], f"{table} as of {instant}"
        exit_code, printed = lakeward("verify", str(path), "--all")
        assert exit_code == 0, printed
        completed = Counter(name.split("_")[0] for name in os.listdir(timeline) if "_" in name)
        assert max(completed.values()) == 1, f"{table}: an instant was completed twice"
        gone = archived(path)
        cleans = {time for time, action in gone | on_timeline if action == "clean"}
        assert cleans and {action for _, action in gone} & {"commit", "deltacommit"}, f"{table}: {cleans}, {gone}"
        assert len(writes) <= COMMITS_MAX, f"{table}: {len(writes)} commits are on the timeline"
        own = [plan for plan in timeline.glob("*.compaction.requested") if b"planned_by" in plan.read_bytes()]
        assert any(completed[plan.name.split(".")[0]] for plan in own), f"{table}: we never compacted it"
        assert not list(timeline.glob("*.logcompaction.inflight"))
        assert not (path / ".hoodie/lock").exists()


def test_the_journal_is_what_was_written(tmp_path: Path) -> None:
    """The model of the soak test replays steps, deletes included."""
    journal = tmp_path / "journal"
    journal.write_text("".join(json.dumps({"table": "orders", "step": step}) + "\n" for step in range(4)))

    rows = expected_rows(journal)["orders"]

    assert len(rows) == 410
    assert "k00410" in rows and "k00420" not in rows
    assert {row["ts"] for row in rows.values()} <= {0, 1, 2}
