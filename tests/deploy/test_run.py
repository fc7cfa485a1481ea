"""`make run` for its minute: the page, the metrics and `lakeward inspect` show compactions happening as Spark jobs, and
why."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.run.__main__ import CONFIGURATION
from lakeward.cli.main import run as lakeward
from lakeward.config.file import load_settings
from tests.deploy.tools import PROJECT

TIMEOUT_SECONDS = 240.0
"""It takes some forty seconds on an idle machine; CI runs other things beside it."""


class Demo:
    """`python -m deploy.run` with what it prints."""

    def __init__(self, port: int, scratch: Path) -> None:
        self.page = f"http://127.0.0.1:{port}"
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "deploy.run", "--port", str(port)],
            cwd=PROJECT,
            env=os.environ | {"TMPDIR": str(scratch)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(line.rstrip() for line in self.process.stdout)

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.page + path, timeout=10) as answer:
            return str(answer.read().decode())

    def committed(self) -> float:
        """Compactions, as the metrics count them."""
        with contextlib.suppress(OSError):
            found = re.search(
                r'^lakeward_jobs_total\{end="committed",service="compaction",table="trips"\} (\S+)$',
                self.get("/metrics"),
                re.MULTILINE,
            )
            return float(found[1]) if found else 0.0
        return 0.0

    def wait_until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + TIMEOUT_SECONDS
        while not holds():
            assert self.process.poll() is None and time.monotonic() < end, "\n".join(self.lines[-60:])
            time.sleep(0.5)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=120)
        self._reader.join(timeout=10)
        return code


def test_its_configuration_is_one(tmp_path: Path) -> None:
    """The daemon does not start with a key that there is not."""
    file = tmp_path / "lakeward.toml"
    file.write_text(CONFIGURATION.format(port=8490, folder=tmp_path, table=tmp_path / "trips"))
    assert [table.name for table in load_settings(file, {}, {}).tables] == ["trips"]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    demo = Demo(port, tmp_path)
    yield demo
    if demo.process.poll() is None:
        for _ in range(2):  # the second one ends its processes now
            demo.process.send_signal(signal.SIGINT)
            time.sleep(1)
        demo.process.wait(timeout=60)


@pytest.mark.interop
@pytest.mark.wide
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_minute_of_make_run(demo: Demo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A compaction happens, everything that is printed to look at shows them, and Ctrl-C leaves nothing behind."""
    demo.wait_until(lambda: demo.committed() >= 1)

    assert "trips" in demo.get("/")
    # A page is of the moment of the daemon's status, which is a few seconds behind what the metrics count.
    demo.wait_until(lambda: "on Spark" in demo.get("/tables/trips"))
    page = demo.get("/tables/trips")
    assert "compaction" in page and "committed" in page
    assert "All jobs run on Spark, by service.engine = &#34;spark&#34;." in demo.get("/")
    assert re.search(r'^lakeward_engine_plans_total\{engine="spark",table="trips"\} [1-9]', demo.get("/metrics"), re.M)
    assert re.search(r'^lakeward_decisions_total\{choice="(FULL|LOG)",reason="\w', demo.get("/metrics"), re.MULTILINE)

    (table,) = tmp_path.glob("lakeward-run-*/tables/trips")
    assert any(f"inspect {table}" in line for line in demo.lines), "it says how to look at the table"
    assert lakeward(["inspect", str(table), "--json"]) == 0
    instants = {instant["time"] for instant in json.loads(capsys.readouterr().out)["timeline"]["instants"]}
    published = set(re.findall(r"compaction (\d{17}) committed", "\n".join(demo.lines)))
    assert published and published <= instants
    configuration = table.parent.parent / "lakeward.toml"
    assert any(f"explain trips --config {configuration}" in line for line in demo.lines), "as the daemon would decide"
    assert lakeward(["explain", "trips", "--config", str(configuration)]) == 0
    assert "Service make-run" not in capsys.readouterr().err
    assert lakeward(["explain", str(table)]) == 0
    assert "Service make-run works on this table" in capsys.readouterr().err

    assert demo.interrupt() == 0, "\n".join(demo.lines[-40:])
    assert any(line.startswith("writer | ") for line in demo.lines)
    assert any(line.startswith("daemon | ") for line in demo.lines)
    assert not list(tmp_path.glob("lakeward-run-*")), "its folder is removed"
