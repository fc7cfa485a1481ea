"""`erase-expedite` carries out what `erase-status --expedite` plans, and says again what holds keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import TryLater
from lakeward.cli.main import run
from lakeward.cli.services import clean_command
from tests.crash.compacting import everything
from tests.services.together.erasure.canary import files_with
from tests.services.together.erasure.test_erase_status import (
    CANARY,
    ROWS,
    held,
    lakeward,
    places,
    small,
    status,
)
from tests.write.writing import new_table, write

STOPPED = ("--writers", "stopped", "--engine", "local")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.txt"
    path.write_text(f"{CANARY}\n")
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A clean policy that lets old slices go after one commit, at once."""
    path = tmp_path / "lakeward.toml"
    path.write_text('[defaults.clean]\nretain = 1\nreader_window = "0s"\n')
    return path


def expedite(
    base: Path | str, keys: Path, capfd: pytest.CaptureFixture[str], *more: str
) -> tuple[int, dict[str, Any], list[str]]:
    """Its exit code, its document, and the verbs that it ran."""
    capfd.readouterr()
    code = run(["erase-expedite", str(base), "--keys", str(keys), "--json", *more])
    text = capfd.readouterr()
    assert CANARY not in text.out + text.err, "nothing of the key file is printed"
    document = json.loads(text.out)
    return code, document, [verb_of(each["command"], base) for each in document["done"]]


def verb_of(command: str, base: Path | str) -> str:
    return command.partition(f" {base}")[0].removeprefix("lakeward ")


def test_until_no_file_holds_the_key(
    tmp_path: Path, keys: Path, config: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The dry run shows the plan of `erase-status --expedite`, and changes nothing. The steps are the verbs themselves:
    the log of the delete is merged, and once the clean policy lets the old slices go, a second call takes them. Keeps 1
    to 3 of cli/services/expedite_command."""
    base = small(tmp_path / "t")
    configured = ("--config", str(config))
    before = everything(base)
    planned = status(base, keys, capfd, "--expedite", *configured)[1]["expedite"]
    code, document, ran = expedite(base, keys, capfd, "--dry-run", *configured)
    assert (code, ran, document["expedite"], document["dry_run"]) == (7, [], planned, True)
    assert run(["erase-expedite", str(base), "--keys", str(keys)]) == 2, "it asks how writers are kept away"
    assert everything(base) == before

    code, document, ran = expedite(base, keys, capfd, *STOPPED, *configured)
    assert (code, ran) == (7, ["compact", "clean"])
    assert document["done"][0]["result"]["compactions"], "the document of each step is there"
    assert held(document) == files_with(base, CANARY)
    (by,) = document["expedite"]["held"]
    assert by == "the clean policy" and document["expedite"]["steps"] == []

    for number in (5, 6):
        write(base, [(ROWS[0][0], number, "p", "v")])
    code, document, ran = expedite(base, keys, capfd, *STOPPED, *configured)
    assert (code, ran, document["counts"]) == (0, ["clean"], {"live": 0, "held": 0, "gone": 1})
    assert files_with(base, CANARY) == set()
    assert expedite(base, keys, capfd, *STOPPED)[2] == []


def test_no_promise_is_broken(tmp_path: Path, keys: Path, config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The savepoint, the quarantine, a record index and the metadata table stay; what releases each is named. Keeps 2
    of services/together/erasure/holdings."""
    base = small(tmp_path / "t", has_metadata_table=True, table_type="COPY_ON_WRITE")
    lakeward("index", "build", str(base), "--type", "metadata", "--kind", "record")
    write(base, [(CANARY, 7, "p", "v")])
    assert run(["index", "build", str(base), "--type", "record"]) == 0
    lakeward("savepoint", "create", str(base))
    write(base, [(CANARY, 8, "p", None)], "delete")
    write(base, [(ROWS[0][0], 9, "p", "v")])
    lakeward("clean", str(base), "--retain", "1", "--reader-window", "0s", "--keep-deleted", "7d")
    assert {"quarantine", "metadata", "index"} <= places(status(base, keys, capfd)[1])

    configured = ("--config", str(config))
    code, document, ran = expedite(base, keys, capfd, *STOPPED, *configured)
    assert code == 7 and set(ran) == {"metadata compact", "metadata clean", "index update"}
    kept = document["expedite"]["held"]
    (savepoint,) = (by for by in kept if by.startswith("savepoint "))
    assert verb_of(kept[savepoint][0], base) == "savepoint delete"
    assert any(by.startswith("the quarantine, until ") for by in kept)
    assert [verb_of(kept[by][0], base) for by in kept if by.startswith("lookups")] == ["index drop"]
    assert [verb_of(kept[by][0], base) for by in kept if by.startswith("readers of")] == ["metadata disable"]
    assert {"data", "quarantine", "metadata", "index"} <= places(document)


def test_the_first_step_that_fails_is_the_last(
    tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ends with its error, and still says what holds the keys now."""
    base = small(tmp_path / "t", has_metadata_table=True)
    assert [verb_of(each, base) for each in status(base, keys, capfd, "--expedite")[1]["expedite"]["steps"]][:2] == [
        *("compact", "clean"),
    ]

    def busy(*given: object, **named: object) -> None:
        raise TryLater("The table is busy.", why="Another process works on it.", remedy="Try again.")

    monkeypatch.setattr(clean_command, "clean_and_purge", busy)
    code, document, ran = expedite(base, keys, capfd, *STOPPED)
    assert code not in (0, 7) and ran == ["compact", "clean"]
    assert document["done"][-1]["result"] is None and "The table is busy." in document["done"][-1]["error"]
    assert held(document) == files_with(base, CANARY)


def test_a_key_that_is_not_deleted(tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is run for it."""
    base = new_table(tmp_path / "t", has_metadata_table=False)
    write(base, [*ROWS[:3], (CANARY, 1, "p", "v")])
    code, document, ran = expedite(base, keys, capfd, *STOPPED)
    assert (code, ran, document["counts"]["live"]) == (7, [], 1)
