"""What `erase-status` says is held against a search for a canary in all decompressed bytes of the table."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.cli.main import run
from lakeward.services.together.erasure import erase_status
from tests.crash.capturing import capture_changes
from tests.golden_tables import copy_golden
from tests.metadata_golden import set_property
from tests.our_reader import read_rows
from tests.services.together.erasure.canary import files_with
from tests.write.writing import Row, new_table, write

CANARY = "canary-7f3a9c51-0042"
LONGER = f"{CANARY}-and-more"
"""It begins with the canary, and stays."""

ROWS = [(f"id-{number:04d}-of-many", 1, "p", "v") for number in range(40)]


def status(base: Path | str, keys: Path, capfd: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    capfd.readouterr()
    code = run(["erase-status", str(base), "--keys", str(keys), "--json", *more])
    text = capfd.readouterr()
    assert CANARY not in text.out + text.err, "nothing of the key file is printed"
    return code, json.loads(text.out)


def lakeward(*words: str) -> None:
    assert run([*words, "--writers", "stopped"]) == 0, words


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.txt"
    path.write_text(f"{CANARY}\n")
    return path


def held(document: dict[str, Any]) -> set[str]:
    return {file["path"] for file in document["files"]}


def agrees(base: Path, keys: Path, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The files that it names are those that have the canary."""
    _, document = status(base, keys, capfd)
    assert document["unread"] == []
    assert held(document) == {path.replace(CANARY, "<key of line 1>") for path in files_with(base, CANARY)}
    return document


def places(document: dict[str, Any]) -> set[str]:
    return {file["place"] for file in document["files"]}


def forms(document: dict[str, Any]) -> set[str]:
    return {form for file in document["files"] for form in file["forms"]}


def test_the_life_of_a_deleted_key(tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """From the write of a key to the last file that holds it: base file, log, delete block, old slice, metadata table
    and its own old files, indexes of Lakeward. Each step names the files that hold it, and none is named once none
    does. Keeps 1 and 2 of services/together/erasure/erase_status, Keeps 2 of
    services/together/erasure/file_contents."""
    base = new_table(tmp_path / "t")
    write(base, [*ROWS, (CANARY, 1, "p", "v")])
    lakeward("index", "build", str(base), "--type", "metadata", "--kind", "record")
    lakeward("index", "build", str(base), "--type", "record")
    lakeward("index", "build", str(base), "--type", "bloom")
    write(base, [(CANARY, 2, "p", "w")])

    document = agrees(base, keys, capfd)
    assert document["counts"] == {"live": 1, "held": 0, "gone": 0}
    assert {"data", "metadata", "index"} <= places(document)
    assert all(file["release"] == [] for file in document["files"]), "a row that is live is deleted first"

    write(base, [(CANARY, 3, "p", None)], "delete")
    code, document = status(base, keys, capfd)
    assert (code, document["counts"]) == (7, {"live": 0, "held": 1, "gone": 0})
    assert {"row", "delete", "entry"} <= forms(agrees(base, keys, capfd))

    lakeward("compact", str(base), "--type", "full")
    after = agrees(base, keys, capfd)
    (old,) = [file for file in after["files"] if file["kind"] == "base file"]
    assert any("clean policy keeps it" in line for line in old["why"])
    for number in range(4, 8):
        write(base, [(ROWS[0][0], number, "p", "v")])
    lakeward("clean", str(base), "--retain", "1", "--reader-window", "0s")
    document = agrees(base, keys, capfd)
    assert "data" not in places(document)

    for kind in ("record", "bloom"):
        lakeward("index", "rebuild", str(base), "--type", kind)
    document = agrees(base, keys, capfd)
    assert "index" in places(document), "lookups that run may still read the old files"
    for kind in ("record", "bloom"):
        assert run(["index", "drop", str(base), "--type", kind]) == 0
    lakeward("metadata", "compact", str(base))
    for number in range(8, 30):
        write(base, [(ROWS[0][0], number, "p", "v")])
    assert places(agrees(base, keys, capfd)) == {"metadata"}
    lakeward("metadata", "clean", str(base))
    code, document = status(base, keys, capfd)
    assert (code, document["files"], files_with(base, CANARY)) == (0, [], set())
    assert document["gone"] and document["counts"] == {"live": 0, "held": 0, "gone": 1}


def small(path: Path, *more: Row, canary: int = 1, **table: Any) -> Path:
    """A table whose newest write deleted the canary."""
    base = new_table(path, **{"has_metadata_table": False, **table})
    write(base, [*ROWS[:5], (CANARY, canary, "p", "v"), *more])
    write(base, [(CANARY, canary + 1, "p", "w")])
    write(base, [(CANARY, canary + 2, "p", None)], "delete")
    return base


def test_set_aside_and_pinned(tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Files of a savepoint name it, and those of the quarantine its time; nothing ends either silently. Keeps 2 of
    services/together/erasure/holdings."""
    base = small(tmp_path / "t")
    lakeward("savepoint", "create", str(base))
    (savepoint,) = sorted((base / ".hoodie/timeline").glob("*.savepoint"))
    instant = savepoint.name.partition("_")[0]
    lakeward("compact", str(base), "--type", "full")
    write(base, [(ROWS[0][0], 5, "p", "v")])
    document = agrees(base, keys, capfd)
    assert {file["held_by"] for file in document["files"]} == {f"savepoint {instant}"}
    assert all(f"lakeward savepoint delete {base} {instant}" in file["release"] for file in document["files"])
    plan = status(base, keys, capfd, "--expedite")[1]["expedite"]
    assert plan["steps"] == [], "nothing is expedited that a savepoint keeps"
    assert plan["held"] == {
        f"savepoint {instant}": [f"lakeward savepoint delete {base} {instant}", f"lakeward clean {base}"]
    }

    lakeward("savepoint", "delete", str(base), instant)
    lakeward("clean", str(base), "--retain", "1", "--reader-window", "0s", "--keep-deleted", "7d")
    document = agrees(base, keys, capfd)
    assert places(document) == {"quarantine"}
    assert all(file["held_by"].startswith("the quarantine, until ") for file in document["files"])
    assert all(file["until"] > document["at"] + 6 * 86400 for file in document["files"])

    lakeward("quarantine", "purge", str(base), "--older-than", "0s")
    code, document = status(base, keys, capfd)
    assert (code, held(document), files_with(base, CANARY)) == (0, set(), set())


def test_a_longer_key_stays(tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A row whose key begins with the deleted one is none of its files, also where it bounds statistics."""
    base = small(tmp_path / "t", (LONGER, 1, "p", "v"), has_metadata_table=True)
    lakeward("compact", str(base), "--type", "full")
    _, document = status(base, keys, capfd)

    assert all(file["kind"] != "base file" or "slice" in " ".join(file["why"]) for file in document["files"])
    newest = max((base / "p").glob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    assert f"p/{newest.name}" not in held(document) and f"p/{newest.name}" in files_with(base, LONGER)


def test_native_logs(tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Rows and deletes in files of their own."""
    base = small(tmp_path / "t", version=10, has_metadata_table=True)
    document = agrees(base, keys, capfd)

    assert {"row", "delete"} <= forms(document)
    assert any(file["path"].endswith(".deletes.parquet") and "delete" in file["forms"] for file in document["files"])


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("mode", ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"])
def test_change_logs(tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str], version: int, mode: str) -> None:
    """Changes that name the key, or have the row before."""
    base = new_table(tmp_path / "t", version=version, table_type="COPY_ON_WRITE", has_metadata_table=False)
    capture_changes(base)
    set_property(base, "hoodie.table.cdc.supplemental.logging.mode", mode)
    write(base, [*ROWS[:5], (CANARY, 1, "p", "v")])
    write(base, [(CANARY, 2, "p", None)], "delete")
    document = agrees(base, keys, capfd)

    assert "change log" in {file["kind"] for file in document["files"]}


def test_files_that_nothing_names(tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A listing has them, and so the answer: a copy, an orphan file, what an attempt left, a text, a folder's name;
    compressed ones too. Keeps 1 of services/together/erasure/holdings, Keeps 3 of
    services/together/erasure/file_contents, Keeps 4 of services/together/erasure/erase_status."""
    base = new_table(tmp_path / "t", has_metadata_table=False)
    write(base, ROWS[:3])
    other = small(tmp_path / "other")
    log = min((other / "p").glob(".*.log.1*"))
    for path in ("copy/of.a.log", ".hoodie/.temp/20261201000000000/p/x.log", ".hoodie/.lakeward/x"):
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_bytes(log.read_bytes())
    (base / "p" / log.name).write_bytes(log.read_bytes())
    (base / "notes.json.gz").write_bytes(gzip.compress(f'{{"who": "{CANARY}"}}'.encode()))
    (base / "notes.zst").write_bytes(pa.Codec("zstd").compress(f"deleted {CANARY}.".encode(), asbytes=True))
    (base / ".x.hfile.crc").write_bytes(b"a checksum that Hadoop left")
    (base / CANARY).mkdir()
    (base / CANARY / "x").write_bytes(b"")
    (base / "long").write_bytes(b" " * (4 * 1024 * 1024 - 5) + f"{CANARY} {LONGER}".encode())
    (base / "longer").write_bytes(b" " * (4 * 1024 * 1024 - len(CANARY)) + LONGER.encode())
    _, document = status(base, keys, capfd)

    expected = (files_with(base, CANARY) | {"notes.zst"}) - {"longer"}
    assert held(document) == {path.replace(CANARY, "<key of line 1>") for path in expected}
    assert places(document) == {"data", "attempt", "other"}
    assert document["unread"] == []


def test_what_cannot_be_read(tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A file that is torn is named with the reason, and exit code 4 says so where no other file holds a key; what it
    has in the clear is found all the same. Keeps 1 of services/together/erasure/file_contents, Keeps 2 of
    cli/look/erase_command."""
    base = new_table(tmp_path / "t", has_metadata_table=False)
    write(base, ROWS[:3])
    (base / "torn.parquet").write_bytes(b"PAR1 and no more")
    code, document = status(base, keys, capfd)
    assert code == 4 and [each["path"] for each in document["unread"]] == ["torn.parquet"]
    assert not document["gone"] and document["counts"]["gone"] == 1

    (base / "torn.parquet").write_bytes(b"PAR1 " + CANARY.encode() + b" and no more")
    code, document = status(base, keys, capfd)
    assert code == 7 and held(document) == {"torn.parquet"} and len(document["unread"]) == 1


def test_files_that_come_meanwhile(
    tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are looked at as well. Keeps 3 of services/together/erasure/erase_status."""
    base = new_table(tmp_path / "t", has_metadata_table=False)
    write(base, ROWS[:3])
    look, came = erase_status._look_into, []

    def look_into(*given: Any) -> None:
        if len(came) < 3:
            came.append(base / f"came-{len(came)}")
            came[-1].write_text(CANARY if len(came) == 3 else "")
        look(*given)

    monkeypatch.setattr(erase_status, "_look_into", look_into)
    code, document = status(base, keys, capfd)
    assert (code, held(document)) == (7, {"came-2"})


@pytest.mark.parametrize("kind", ["v6", "v9", "v9_metadata", "hfile", "in_part", "keyless", "operations"])
def test_tables_of_hudi(tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str], kind: str) -> None:
    """Every file that a release of Hudi wrote is read, and all rows are found by their keys."""
    base = copy_golden(kind, tmp_path / "t")
    there = sorted(row["_hoodie_record_key"] or row["id"] for row in read_rows(base))
    keys.write_text("\n".join(there))
    _, document = status(base, keys, capfd)

    assert document["unread"] == []
    assert there and document["counts"] == {"live": len(there), "held": 0, "gone": 0}


def test_steps_in_their_order(tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Compactions come before cleans, the table before its metadata table; none of them is run. What no command ends
    is named."""
    base = small(tmp_path / "t", has_metadata_table=True)
    (base / "notes").write_text(CANARY)
    before = sorted(path.as_posix() for path in base.rglob("*"))
    plan = status(base, keys, capfd, "--expedite")[1]["expedite"]

    verbs = [command.partition(f" {base}")[0].removeprefix("lakeward ") for command in plan["steps"]]
    assert verbs == ["compact", "clean", "metadata compact", "metadata clean"]
    assert plan["left"] == ["notes"] and plan["held"] == {}
    assert sorted(path.as_posix() for path in base.rglob("*")) == before
