"""`lakeward init`: the file that it writes, once, and what it asks for that."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakeward.cli.main import run
from lakeward.config.file import load_settings
from lakeward.config.settings import Writers
from tests.golden_tables import copy_golden


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    copy_golden("v6", tmp_path / "lake" / "old")
    copy_golden("v9", tmp_path / "lake" / "trips")
    return tmp_path / "lake"


def test_a_configuration_from_options(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Written, checked, its tables found and looked into; the last words are the next command, which takes the file."""
    assert run(["init", "--tables", "lake"]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("lakeward.toml is written.")
    assert "2 tables found." in out and f"{lake}/trips  MERGE_ON_READ, version 9: can be serviced" in out
    assert "Start the daemon:  lakeward run --config lakeward.toml\nThen open http://127.0.0.1:8490\n" in out
    assert "Nothing will be written to tables" in err
    settings = load_settings(Path("lakeward.toml"), {})
    assert settings.discovery.roots == (str(lake),) and settings.locks.writers is None
    assert run(["config", "check", "lakeward.toml"]) == 0
    assert sorted(each.name for each in lake.parent.iterdir()) == ["lake", "lakeward.toml"]


def test_the_result_as_a_document(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With --json all that people read; a table of version 6 is refused beside writers, and a broken one has its
    reason."""
    properties = copy_golden("v9", lake / "broken") / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.version=9", "hoodie.table.version=99"))
    options = ("--writers", "filesystem", "--engine", "local", "--state", "state", "--json")
    assert run(["init", "other.toml", "--tables", "lake", *options]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["next"] == "lakeward run --config other.toml"
    assert document["nothing_is_written_because"] is None and document["tables_found"] == 3
    found = {Path(each["base_path"]).name: each for each in document["tables"]}
    assert (found["trips"]["version"], found["trips"]["refused"]) == (9, [])
    assert found["old"]["version"] == 6 and "stopped" in found["old"]["refused"][0]
    assert found["broken"]["refused"]
    settings = load_settings(Path("other.toml"), {})
    assert settings.locks.writers is Writers.SHARE and settings.service.engine == "local"
    assert settings.service.state_folder == lake.parent / "state"


def test_what_is_there_is_left(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps 1 of cli/daemon/init_command: a second run changes nothing, --overwrite replaces the file, and a token
    is never replaced."""
    assert run(["init", "--tables", "lake", "--listen", "0.0.0.0:8490"]) == 0
    assert "with the token in lakeward-token as the password" in capfd.readouterr().out
    token, before = Path("lakeward-token"), Path("lakeward.toml").read_bytes()
    made = token.read_text()
    assert token.stat().st_mode & 0o777 == 0o600 and len(made.strip()) == 48
    assert run(["init", "--tables", "lake", "--engine", "local"]) == 2
    assert "lakeward.toml is there already" in capfd.readouterr().err
    assert Path("lakeward.toml").read_bytes() == before
    assert run(["init", "--tables", "lake", "--engine", "local", "--listen", "0.0.0.0:1", "--overwrite"]) == 0
    assert 'engine = "local"' in Path("lakeward.toml").read_text() and token.read_text() == made
    assert load_settings(Path("lakeward.toml"), {}).http_token == made.strip()


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ((), "No place of tables is named."),
        (("--tables", "nowhere"), "--tables: "),
        (("--tables", "s3:///lake"), "--tables: discovery.roots[1] cannot be"),
        (("--tables", "lake", "--listen", "8490"), "--listen: service.listen cannot be"),
        (("--tables", "lake", "--engine", "lcal"), "Did you mean local?"),
        (("--tables", "lake", "--state", "postgresql://ada:pa55@h/l"), "--state: state.url holds a secret."),
        (("--tables", "lake", "--state", "postgresql://ada@127.0.0.1:1/l"), "--state: The store does not answer."),
        (("no/folder.toml", "--tables", "lake"), "There is no folder no."),
    ],
)
def test_wrong_answers(lake: Path, options: tuple[str, ...], reported: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps 2 of cli/daemon/init_command: the command exits with 2, names the option and writes no file."""
    assert run(["init", *options]) == 2
    assert reported in capfd.readouterr().err
    assert [each.name for each in lake.parent.iterdir()] == ["lake"]


def test_an_empty_lake_is_no_mistake(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The tables may come later."""
    Path("empty").mkdir()
    assert run(["init", "--tables", "empty"]) == 0
    assert "0 tables found. The daemon looks again once a minute." in capfd.readouterr().out


def test_five_questions(lake: Path) -> None:
    """On a terminal: what an option says is not asked, a wrong answer is asked for again, and Enter takes the
    default."""
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "lakeward.cli.main", "init", "--engine", "local"]
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=subprocess.STDOUT, env=os.environ)
    os.close(terminal)
    seen = ""

    def answer(question: str, text: str) -> None:
        nonlocal seen
        deadline = time.monotonic() + 30
        while question not in seen:
            assert time.monotonic() < deadline, (question, seen)
            seen += os.read(controller, 65536).decode()
        seen = ""
        os.write(controller, f"{text}\n".encode())

    answer("1 of 5  Where are the tables?", "nowhere")
    answer("cannot be searched", "lake")
    answer("3 of 5  Where is state kept?", "")
    answer("4 of 5  At which address", "8490")
    answer("An address is written like", "127.0.0.1:1")
    answer("5 of 5  What do the tables' other writers do?", "stoped")
    answer("Did you mean stopped?", "stopped")
    assert process.wait(30) == 0
    os.close(controller)
    settings = load_settings(Path("lakeward.toml"), {})
    assert settings.discovery.roots == (str(lake),) and settings.service.listen == "127.0.0.1:1"
    assert settings.locks.writers is Writers.STOPPED
