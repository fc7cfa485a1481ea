"""`lakeward status` and `lakeward top` beside a daemon that answers over a real connection."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.cli.daemon.fleet_view import Fleet, fleet_lines
from lakeward.cli.main import run
from lakeward.cli.terminal import Terminal
from lakeward.daemon.web.access import AccessRules
from lakeward.daemon.web.document_makers import service_document, table_document
from lakeward.daemon.web.http import HttpServer
from lakeward.surface.documents import JobDocument
from lakeward.surface.table_kind import KIND_WORDS, TableKind
from tests.daemon.synthetic_status import NOW, job, service, table, varied_tables
from tests.daemon.web.api_example import STATUS, app_of, example_store

STATUS_OF_MANY = service(*varied_tables(), *(table(f"lake.table_{number:03}") for number in range(300)))
RUNNING = JobDocument.of(replace(job("orders"), ended_at=None, result=None))
WAITING = {"waiting_for": "writer 20260101 of spark-7", "waiting_since": NOW - 13}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with example_store(f"sqlite:///{tmp_path_factory.mktemp('store') / 'lakeward.db'}") as store:
        server = HttpServer(app_of(STATUS, store, AccessRules(token="t0ken")), "127.0.0.1:0")
        server.start()
        yield server.address.rstrip("/")
        server.stop()


def frame(width: int, height: int, *, running: int = 1) -> list[str]:
    """The lines of a frame of 312 tables."""
    jobs = [RUNNING.model_copy(update={"progress": WAITING})] * running
    tables = [table_document(each, NOW) for each in STATUS_OF_MANY.tables]
    fleet = Fleet("http://lake:8490", service_document(STATUS_OF_MANY), tables, len(tables), jobs)
    console = Terminal(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    console.print(fleet_lines(fleet, width=width, height=height, note="q quit"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 50), (40, 12), (200, 100)])
def test_a_frame_fits_the_terminal(width: int, height: int):
    """Whatever its size, and however much runs (Keeps of cli/daemon/fleet_view)."""
    lines = frame(width, height, running=40)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert lines[-1].strip() == "q quit"


def test_kinds_jobs_and_tables_are_named_as_on_the_page():
    """The most urgent table comes first, a job says what it waits for."""
    lines = frame(200, 60)
    numbers = service_document(STATUS_OF_MANY).kinds
    assert lines[1].strip() == f"312 tables: {', '.join(f'{n} {KIND_WORDS[TableKind(k)]}' for k, n in numbers.items())}"
    assert any("waits for 13 s: writer 20260101 of spark-7" in line for line in lines)
    assert [line.split()[0] for line in lines if "cannot be read" in line][-1] == "broken"


def test_status_says_what_the_daemon_knows(
    address: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """In a pipe nothing is cut; the exit code says whether a table needs attention."""
    monkeypatch.setenv("LAKEWARD_TOKEN", "t0ken")
    assert run(["status", "--server", address]) == 6
    text = capfd.readouterr().out
    assert all(each.title in text for each in STATUS.tables)
    assert run(["status", "--server", address, "--search", "with/slashes", "--json"]) == 6
    document = json.loads(capfd.readouterr().out)
    assert (document["matching"], document["daemon"]["tables"]) == (1, len(STATUS.tables))
    assert document["tables"][0]["base_path"] == "s3://lake/with/slashes"


def test_who_has_no_token_is_not_answered(address: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """A token is in a file, the environment or the configuration; an empty file is an error."""
    assert run(["status", "--server", address]) != 0
    assert "token" in capfd.readouterr().err
    (file := tmp_path / "token").write_text("\n")
    assert run(["status", "--server", address, "--token-file", str(file)]) == 2
    assert "is empty" in capfd.readouterr().err
    file.write_text("t0ken\n")
    assert run(["status", "--server", address, "--token-file", str(file)]) == 6
    (config := tmp_path / "lakeward.toml").write_text(f'[service]\nlisten = "{address.removeprefix("http://")}"\n')
    assert run(["status", "--config", str(config), "--token-file", str(file)]) == 6


def test_controls_by_server_say_what_they_say_beside_the_store(
    address: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """The same words; a job is found by its id."""
    monkeypatch.setenv("LAKEWARD_TOKEN", "t0ken")
    monkeypatch.setenv("LAKEWARD_SERVER", address)
    for words, said in (
        (["pause", "orders", "--reason", "x", "--for", "2h"], "Paused: table orders until 2027-01-15"),
        (["pause", "--group", "default", "--reason", "x"], "Paused: group default. A daemon sees it within seconds."),
        (["resume", "orders", "--file-group", "p/f"], "Resumed: file group orders p/f. A daemon"),
        (["resume", "--group", "default"], "Resumed: group default. A daemon"),
        (["cancel", "j2", "--reason", "x"], "Asked to cancel: job j2. A daemon"),
        (["cancel", "orders", "--reason", "x"], "Asked to cancel: table orders. A daemon"),
    ):
        assert run(words) == 0
        assert capfd.readouterr().out.startswith(said)
    assert run(["cancel", "no-such", "--reason", "x"]) == 2
    assert run(["pause", "--reason", "x"]) == 2


def test_top_follows_the_keyboard_and_ends(address: str):
    """On a terminal of 80 columns: the order changes, a search leaves one table, q restores the terminal."""
    controller, terminal = pty.openpty()
    environ = {**os.environ, "LAKEWARD_TOKEN": "t0ken", "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    command = [sys.executable, "-m", "lakeward.cli.main", "top", "--server", address, "--every", "60"]
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=subprocess.STDOUT, env=environ)
    os.close(terminal)
    seen = ""

    def wait_for(text: str) -> None:
        nonlocal seen
        deadline = time.monotonic() + 30
        while text not in seen:
            assert time.monotonic() < deadline, (text, seen[-2000:])
            seen += os.read(controller, 65536).decode(errors="replace")
        seen = ""

    wait_for("sort: urgency")
    os.write(controller, b"s")
    wait_for("sort: oldest")
    os.write(controller, b"/slashes\r")
    wait_for("search: slashes")
    os.write(controller, b"q")
    assert process.wait(30) == 0
    os.close(controller)


def test_top_without_a_terminal_names_the_other_verb(address: str, capfd: pytest.CaptureFixture[str]):
    assert run(["top", "--server", address]) == 2
    assert "lakeward status" in capfd.readouterr().err
