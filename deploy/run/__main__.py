"""`make run`: the daemon on this machine, with a sample table that real Hudi keeps writing to.

    writer (deploy/run/writer.py, Hudi and its Spark)  ->  tables/trips  <-  lakeward run (SQLite, Spark local[*])

Everything lies in one folder under the system's temporary folder, which is removed at the end; `--keep` leaves it.
Where the Hudi bundle cannot be fetched, a small table that Hudi wrote, shipped with the tests, takes the place of the
written one: it has a pending plan, so there is something to see, once.

Ctrl-C stops both: the writer after the write it is in, the daemon as SIGTERM makes it. A second one stops them now.

Touches: a temporary folder, one port on the loopback interface; two processes, which end before this one does.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from deploy.run.writer import HUDI_CANNOT_BE_HAD
from tests.golden_tables import copy_golden

PROJECT = Path(__file__).parent.parent.parent
USUAL_PORT = 8490

CONFIGURATION = """\
# Written by `make run`. Small figures, so that something happens every few seconds.
# docs/reference/configuration.md has all keys.
[service]
name = "make-run"
jobs_max = 1
listen = "127.0.0.1:{port}"
# By default a job that reads less than 128 MiB starts no Spark; this table is smaller, and Spark is to be seen.
engine = "spark"
grace = "20s"
state_folder = "{folder}/state"

[state]
url = "sqlite:///{folder}/state/lakeward.db"

# One table: all of its series are worth scraping.
[metrics]
tables = "all"

# The writer takes Hudi's file-system lock, and so do we.
[locks]
writers = "share"

[[tables]]
name = "trips"
path = "{table}"
interval = "1s"
objective = "2m"
# Of the machine that writes; the writer's Java runs in this zone.
timezone = "UTC"

[tables.planner]
"hoodie.compact.inline.max.delta.commits" = 3
# Base files of this table count as large from here on: while its logs are small beside them, only the logs are merged.
"planner.small_base_size" = "100KiB"
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make run", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the folder where it is, to inspect")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds instead of at Ctrl-C")
    parser.add_argument("--port", type=int, help=f"of the page; {USUAL_PORT}, or a free one where that is taken")
    arguments = parser.parse_args()

    stop = Stop()
    folder = Path(tempfile.mkdtemp(prefix="lakeward-run-"))
    for name in ("tables", "state", "scratch"):
        (folder / name).mkdir()
    try:
        return watch(folder, arguments.port or usual_or_free_port(), arguments.seconds, stop)
    finally:
        if arguments.keep:
            say(f"The tables and the daemon's state are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
            say(f"{folder} is removed.")


def watch(folder: Path, port: int, seconds: float | None, stop: Stop) -> int:
    table = folder / "tables" / "trips"
    configuration = folder / "lakeward.toml"
    configuration.write_text(CONFIGURATION.format(port=port, folder=folder, table=table))
    lakeward = [sys.executable, "-m", "lakeward.cli.main"]

    end = None if seconds is None else time.monotonic() + seconds
    say("Hudi starts and writes the first rows of a table; that takes some seconds.")
    writes = [sys.executable, "-m", "deploy.run.writer", str(table), str(folder / "scratch")]
    with running("writer", writes, stop) as writer:
        if not wait_for(lambda: has_commit(table), 120, writer, stop):
            if stop.is_asked:
                return 0
            if writer.wait() != HUDI_CANNOT_BE_HAD:
                return complain(f"The writer ended; {folder / 'scratch' / 'hudi.log'} says why.", writer)
            say("Hudi cannot be fetched here: a small table that Hudi wrote, shipped with the tests, stands in.")
            copy_golden("v9", table, pending=True)
        with running("daemon", [*lakeward, "run", "--config", str(configuration)], stop) as daemon:
            if not wait_for(lambda: answers(port, "/-/ready"), 60, daemon, stop):
                return 0 if stop.is_asked else complain("The daemon was not ready within a minute.", daemon)
            say(f"The page           http://127.0.0.1:{port}/")
            say(f"Metrics            http://127.0.0.1:{port}/metrics")
            say(f"Look at the table  {command_line(lakeward)} inspect {table}")
            say(f"Why this, why not  {command_line(lakeward)} explain trips --config {configuration}")
            say(f"What was done      {command_line(lakeward)} jobs --config {configuration}")
            say("Ctrl-C stops it.")
            while not stop.is_asked and (end is None or time.monotonic() < end):
                if daemon.poll() is not None:
                    return complain("The daemon ended by itself.", daemon)
                if writer.poll() not in (None, HUDI_CANNOT_BE_HAD):
                    return complain(f"The writer ended; {folder / 'scratch' / 'hudi.log'} says why.", writer)
                stop.wait(0.5)
            say("Stopping: the daemon after what it is at, then the writer after its write.")
    return 0


class Stop:
    """Ctrl-C, once or twice."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._processes: list[subprocess.Popen[str]] = []
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    def wait(self, seconds: float) -> None:
        self._asked.wait(seconds)

    def will_kill(self, process: subprocess.Popen[str]) -> None:
        self._processes.append(process)

    def _on_signal(self, *_: object) -> None:
        if self.is_asked:
            for process in self._processes:
                kill_all_of(process)
        self._asked.set()


@contextlib.contextmanager
def running(name: str, command: list[str], stop: Stop) -> Iterator[subprocess.Popen[str]]:
    """A process whose lines are passed on with its name before them; it is stopped at the end."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    # A session of its own: Ctrl-C is for us, and we stop our processes in order.
    process = subprocess.Popen(
        command,
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    stop.will_kill(process)
    reader = threading.Thread(target=pass_on, args=(name, process), daemon=True)
    reader.start()
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            say(f"The {name} did not stop within a minute; it is ended.")
        kill_all_of(process)  # its JVM too, should that have outlived it
        process.wait()
        reader.join(timeout=5)


def kill_all_of(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def pass_on(name: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        say(f"{name} | {line.rstrip()}")


def wait_for(holds: Callable[[], bool], seconds: float, process: subprocess.Popen[str], stop: Stop) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None and not stop.is_asked:
        if holds():
            return True
        stop.wait(0.2)
    return False


def answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def has_commit(table: Path) -> bool:
    return any((table / ".hoodie" / "timeline").glob("*_*.deltacommit"))


def usual_or_free_port() -> int:
    for port in (USUAL_PORT, 0):
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                free.bind(("127.0.0.1", port))
                return int(free.getsockname()[1])
    raise AssertionError("some port is free")


def command_line(lakeward: list[str]) -> str:
    beside = Path(sys.executable).with_name("lakeward")
    if not beside.exists():
        return " ".join(lakeward)
    return str(beside.relative_to(PROJECT) if beside.is_relative_to(PROJECT) else beside)


def complain(what: str, process: subprocess.Popen[str]) -> int:
    ended = f" Its exit code is {process.returncode}." if process.poll() is not None else ""
    say(f"{what}{ended} What it said stands above.")
    return 1


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
