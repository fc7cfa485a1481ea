"""The daemon as a process: what an operator, a container and Prometheus see of it from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from lakeward.base.kernel_process import Report
from lakeward.cli.main import run
from lakeward.config.settings import Settings, SparkSettings
from lakeward.daemon import app as daemon_app
from lakeward.index.record.record_index import RecordIndex
from lakeward.index.record.record_options import RECORD_OPTIONS
from lakeward.storage.local import LocalStorage
from tests.clocks import SettableClock
from tests.daemon.serving import Serving
from tests.golden_tables import copy_golden
from tests.hurried import REPOSITORY, hurried_command
from tests.index.following import places, truth
from tests.our_reader import scan
from tests.write.writing import new_table, write

pytestmark = pytest.mark.slow

TIMEOUT_SECONDS = 60.0

CONFIG = """
[service]
state_folder = "{folder}/state"
listen = "127.0.0.1:0"
grace = "10s"

[locks]
writers = "share"

[metrics]
tables = "all"

[discovery]
roots = ["{folder}/tables"]

[defaults]
planner = {{ "hoodie.compact.inline.max.delta.commits" = 1 }}
interval = "1s"
foreign_services = "share"
"""


class Daemon:
    """`lakeward run` in a process of its own."""

    def __init__(self, folder: Path, *arguments: str, constants: Mapping[str, object] | None = None) -> None:
        self.config = folder / "lakeward.toml"
        if not self.config.exists():
            self.config.write_text(CONFIG.format(folder=folder))
        self._log = (folder / f"log-{time.monotonic_ns()}").open("w+b")
        self.process = subprocess.Popen(
            hurried_command(constants or {}, "run", "--config", str(self.config), *arguments),
            cwd=REPOSITORY,
            stdout=self._log,
            stderr=self._log,
        )

    @property
    def log(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text()

    @property
    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]

    def get(self, path: str, *, method: str = "GET") -> tuple[int, str]:
        request = urllib.request.Request(self.address + path, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    @property
    def address(self) -> str:
        self.wait_for('"event": "serving"')
        found = re.search(r'"address": "(http://[^"]+)/"', self.log)
        assert found is not None
        return found[1]

    def wait_for(self, text: str, *, times: int = 1) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.log.count(text) < times:
            assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.log}"
            assert time.monotonic() < deadline, f"{text!r} never came:\n{self.log}"
            time.sleep(0.05)

    def wait_until(self, path: str, text: str) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while text not in (answer := self.get(path)[1]):
            assert time.monotonic() < deadline, f"{path} never says {text!r}:\n{answer}"
            time.sleep(0.1)

    def children_when(self, condition: Callable[[list[str]], bool]) -> list[psutil.Process]:
        """Its processes, as soon as their names fulfil the condition."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            with contextlib.suppress(psutil.NoSuchProcess):
                children = psutil.Process(self.process.pid).children(recursive=True)
                if condition([child.name() for child in children]):
                    return children
            assert time.monotonic() < deadline and self.process.poll() is None, self.log
            time.sleep(0.05)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT_SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tables").mkdir()
    copy_golden("v9", tmp_path / "tables/orders")
    return tmp_path


@pytest.fixture
def daemon(folder: Path) -> Iterator[Daemon]:
    daemon = Daemon(folder)
    yield daemon
    daemon.close()


def test_a_day_in_the_life(
    folder: Path, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It compacts, answers, is reconfigured by signal, POST and a command, refuses a bad file, and stops on SIGTERM."""
    daemon.wait_for('"end": "committed"')
    assert daemon.get("/-/healthy")[0] == daemon.get("/-/ready")[0] == daemon.get("/readyz")[0] == 200
    daemon.wait_until("/", "orders")
    metrics = daemon.get("/metrics")[1]
    assert re.search(r'lakeward_jobs_total\{end="committed",service="compaction",table="[^"]*orders"\} 1\.0', metrics)
    daemon.wait_until("/metrics", 'lakeward_table_log_files{table="orders"} 0.0')
    status, page = daemon.get(f"/tables/{urllib.parse.quote(str(folder / 'tables/orders'), safe='')}")
    assert (status, "no logs to merge" in page) == (200, True)
    assert "no logs to merge" in daemon.get("/tables/orders")[1], "its short name has the same page"
    job = re.search(r'href="(/jobs/[^"]+)"', page)
    assert job is not None
    status, of_job = daemon.get(job[1])
    assert status == 200 and "committed" in of_job and "</svg> merged</th>" in of_job
    place = re.search(r"interval = &#34;1s&#34;</code></th><td[^>]*>([^<]*)</td>", page)
    good = daemon.config.read_text()
    line = good.splitlines().index('interval = "1s"') + 1
    where = f"lakeward.toml:{line}:"
    assert place is not None and where in place[1]

    daemon.config.write_text(good.replace('interval = "1s"', 'interval = "1 fortnight"'))
    status, answer = daemon.get("/-/reload", method="POST")
    assert status == 500 and where in answer, answer
    daemon.wait_until("/metrics", "lakeward_config_last_reload_successful 0.0")
    daemon.config.write_text(good.replace('interval = "1s"', 'interval = "2s"'))
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for('"event": "configuration reloaded"')
    assert '"defaults.interval"' in daemon.log
    monkeypatch.setenv("LAKEWARD__SERVICE__LISTEN", daemon.address.removeprefix("http://"))
    assert run(["reload", "--config", str(daemon.config)]) == 0
    assert "interval = &#34;2s&#34;" in daemon.get("/tables/orders")[1], "those that were reloaded"
    daemon.wait_for('"event": "configuration reloaded"', times=2)
    assert "has reloaded its configuration" in capfd.readouterr().out

    daemon.config.write_text(daemon.config.read_text() + 'services = ["verification"]\n')
    assert "<dd>verification</dd>" not in daemon.get("/tables/orders")[1]
    assert daemon.get("/-/reload", method="POST")[0] == 200
    assert "<dd>verification</dd>" in daemon.get("/tables/orders")[1], "at once"

    assert daemon.end() == 0
    assert daemon.events[-1]["event"] == "stopped"


def test_pages_show_a_reload_at_once(tmp_path: Path) -> None:
    """No time passes between the reload and the page that shows it; else a status is as old as its readers allow."""
    copy_golden("v9", tmp_path / "tables" / "orders")
    clock = SettableClock(1_800_000_000.0)
    serving = Serving(tmp_path / "tables", tmp_path / "state")
    serving.run(2)
    board = daemon_app.StatusBoard(serving.status, clock)
    board.show()
    assert board.read().tables[0].served.settings.interval == 10
    reloaded = Serving.load(tmp_path / "tables", tmp_path / "state", {"defaults.interval": "20s"})
    shown = threading.Event()

    serving.service.post(lambda: serving.service.apply(reloaded))
    serving.service.step()
    board.show()
    assert board.read().tables[0].served.settings.interval == 10, "a status is work for each table"
    board.renew(shown)
    assert not shown.is_set()
    board.show()

    assert shown.is_set()
    assert board.read().tables[0].served.settings.interval == 20
    for seconds, is_new in ((1.9, False), (0.2, True)):
        before = board.read()
        clock.sleep(seconds)
        board.show()
        assert (board.read() is not before) is is_new


def test_a_killed_daemon_is_followed_by_one_that_goes_on(folder: Path, daemon: Daemon) -> None:
    """After kill -9 the next process finds the store as it was left, and takes the lease when it is over."""
    daemon.wait_for('"end": "committed"')
    daemon.end(signal.SIGKILL)

    after = Daemon(folder)
    try:
        after.wait_for('"event": "ready"')
        assert after.end() == 0
    finally:
        after.close()


@pytest.mark.turns(14)
def test_one_pass(folder: Path) -> None:
    """--once services every table, those of version 8 too, ends by itself with 0, and with 4 where a table could not be
    serviced."""
    copy_golden("v8", folder / "tables/by_1_0")
    first = Daemon(folder, "--once")
    assert first.process.wait(TIMEOUT_SECONDS) == 0, first.log
    ended = [event["table"] for event in first.events if event.get("end") == "committed"]
    assert any("by_1_0" in str(name) for name in ended) and len(set(ended)) == 2
    copy_golden("v6", folder / "tables/old")
    quiet = Daemon(folder, "--once")
    assert quiet.process.wait(TIMEOUT_SECONDS) == 0, "a version that no setting asks for by its service is left to Hudi"
    config = folder / "lakeward.toml"
    config.write_text(config.read_text() + 'services = ["compaction"]\n')

    second = Daemon(folder, "--once")
    assert second.process.wait(TIMEOUT_SECONDS) == 4, second.log
    assert '"end": "committed"' not in second.log and "writers-at-work" in second.log


def test_a_bad_configuration_starts_nothing(folder: Path) -> None:
    """All that is wrong is reported with its place, the exit code is 2, and not even the state folder was made."""
    (folder / "lakeward.toml").write_text(CONFIG.format(folder=folder).replace("grace", "grade"))
    daemon = Daemon(folder)
    assert daemon.process.wait(TIMEOUT_SECONDS) == 2
    assert "lakeward.toml:5:1" in daemon.log and "grace" in daemon.log
    assert not (folder / "state").exists()


def test_no_secret_is_shown(folder: Path) -> None:
    """A store that cannot be reached is an error without its password, exit code 75."""
    os.environ["LAKEWARD__STATE__URL"] = "postgresql://lakeward:canary-7f3a@127.0.0.1:1/lakeward?connect_timeout=1"
    try:
        daemon = Daemon(folder)
    finally:
        del os.environ["LAKEWARD__STATE__URL"]
    assert daemon.process.wait(TIMEOUT_SECONDS) == 75, daemon.log
    assert "canary-7f3a" not in daemon.log


@pytest.mark.turns(18)
def test_a_storage_that_hangs_keeps_no_process(folder: Path, daemon: Daemon) -> None:
    """One table's files are never answered: the others are serviced, and the daemon ends all the same, with 0."""
    daemon.wait_for('"end": "committed"')
    hung = folder / "tables/hung/.hoodie"
    hung.mkdir(parents=True)
    os.mkfifo(hung / "hoodie.properties")
    hanging = f'\n[[tables]]\npath = "{hung.parent}"\nservices = ["verification"]\n'
    daemon.config.write_text(daemon.config.read_text() + hanging)
    assert daemon.get("/-/reload", method="POST")[0] == 200
    daemon.wait_for('"event": "table added"', times=2)
    # Not before its first scan is under way, which comes anywhere in its first interval.
    daemon.wait_until("/metrics", 'lakeward_table_state{state="polling",table="hung"} 1.0')

    assert daemon.end() == 0
    assert daemon.events[-1]["event"] == "ending around what hangs"


@pytest.mark.interop
@pytest.mark.turns(20)
def test_no_jvm_outlives_its_daemon(folder: Path) -> None:
    """A stop while Spark starts ends within the usual time; the Spark of a daemon that is killed ends by itself."""
    with (folder / "lakeward.toml").open("w") as config:
        config.write(CONFIG.format(folder=folder) + '\n[spark]\nmaster = "local[1]"\n')
    stopped = Daemon(folder)
    try:
        started = stopped.children_when(lambda names: "java" in names)
        before = time.monotonic()
        assert stopped.end() == 0, stopped.log
        assert time.monotonic() - before < 10 + daemon_app.ABANDON_SECONDS + 2 * daemon_app.HUNG_SECONDS, (
            "grace, and what comes after it"
        )
        wait_for_the_end(started)
    finally:
        stopped.close()
    copy_golden("v9", folder / "tables/more")
    killed = Daemon(folder)
    try:
        killed.wait_for('"event": "Spark session started"')
        assert '"where": "local[1]"' in killed.log
        started = killed.children_when(lambda names: names.count("java") == 1 and len(names) > 1)
        killed.end(signal.SIGKILL)
        wait_for_the_end(started)
    finally:
        killed.close()


def wait_for_the_end(processes: list[psutil.Process]) -> None:
    """In a container without an init a process that ended stays as a zombie."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            while process.status() != psutil.STATUS_ZOMBIE:
                assert time.monotonic() < deadline, process
                time.sleep(0.05)


def test_a_daemon_has_no_kernels_in_memory() -> None:
    """What only tasks need is imported by tasks: with Numba the daemon would take more than 100 MB more."""
    reported = (
        "import sys, lakeward.daemon.app; print(sorted({'numba', 'llvmlite', 'pyspark', 'pandas'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", reported], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize("once", [True, False])
def test_missing_kernels_are_compiled_by_the_daemon(
    once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once it is ready, and before a job begins; a stop meanwhile ends that, and the jobs that wait for it."""
    copy_golden("v9", tmp_path / "tables" / "orders")
    (tmp_path / "lakeward.toml").write_text(CONFIG.format(folder=tmp_path))
    stopped = threading.Event()

    class Compiling:
        def run(self, report: Report) -> None:
            report(12, 107)
            if not once:
                os.kill(os.getpid(), signal.SIGTERM)
                assert stopped.wait(20)

        def stop(self) -> None:
            stopped.set()

    monkeypatch.setattr(daemon_app, "is_needed", lambda: True)
    monkeypatch.setattr(daemon_app, "KernelProcess", Compiling)
    words = ["run", "--config", str(tmp_path / "lakeward.toml"), *(["--once"] if once else [])]
    assert run(words) == 0
    lines = [json.loads(line) for line in "".join(capfd.readouterr()).splitlines() if line.startswith("{")]
    events = [line["event"] for line in lines]
    said = "compiling kernels, once on this machine: 12 of 107"
    if once:
        assert events.index(said) < events.index("kernels compiled") < events.index("job ended")
    else:
        assert events.index("ready") < events.index(said) < events.index("stopped")
        assert stopped.is_set()
        assert "committed" not in [line.get("end") for line in lines]


@pytest.mark.turns(12)
def test_an_index_is_kept_at_pace(tmp_path: Path) -> None:
    """What another writer commits is in the record index and in the cache of filters soon, by processes of the
    daemon's, which itself has no kernels in memory afterwards."""
    table = new_table(tmp_path / "tables" / "orders")
    write(table, [("k1", 1, "a", "x")])
    for kind in ("record", "bloom"):
        assert run(["index", "build", str(table), "--type", kind]) == 0
    write(table, [("k2", 2, "b", "x")])
    settings = 'timezone = "UTC"\n'
    (tmp_path / "lakeward.toml").write_text(CONFIG.format(folder=tmp_path) + settings)
    daemon = Daemon(tmp_path, constants={"lakeward.index.update_choice.SECONDS_MAX": 1.0})
    try:
        daemon.wait_until("/metrics", 'lakeward_indexed_commits_total{table="orders"} 2.0')
        daemon.wait_until("/metrics", 'lakeward_table_index_coverage_ratio{index="bloom",table="orders"} 1.0')
        daemon.wait_until("/metrics", 'lakeward_table_index_behind_commits{index="record",table="orders"} 0.0')
        assert b"llvmlite" not in Path(f"/proc/{daemon.process.pid}/maps").read_bytes()
    finally:
        daemon.close()
    snapshot = scan(table)
    index = RecordIndex.of(LocalStorage(), snapshot, RECORD_OPTIONS.folder(str(table)))
    assert places(index, ["k1", "k2"]) == truth(table)


def test_a_master_is_hidden_from_the_log_only_for_its_password() -> None:
    """`local[*]` is where the work runs, and not a secret."""
    assert "local[*]" not in daemon_app._secrets(Settings())
    master = "spark://me:pass-word@host:7077"
    assert master in daemon_app._secrets(Settings(spark=SparkSettings(master=master)))
