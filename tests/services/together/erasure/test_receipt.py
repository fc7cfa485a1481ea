"""Receipts: made once all keys are gone, and refused where anything of them was changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.cli.main import run
from lakeward.services.together.erasure.erase_status import EraseStatus, KeyState, LookedAt
from lakeward.services.together.erasure.receipt import make_receipt
from tests.services.together.erasure.test_erase_status import CANARY, ROWS, small, status
from tests.write.writing import new_table, write

OTHER = "some-other-key-that-never-was"


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Path]:
    files = {name: tmp_path / name for name in ("keys", "signing", "other", "receipt")}
    files["keys"].write_text(f"{CANARY}\n{OTHER}\n")
    files["signing"].write_bytes(bytes(range(32)))
    files["other"].write_bytes(bytes(range(1, 33)))
    return files


@pytest.fixture
def receipt(tmp_path: Path, given: dict[str, Path]) -> Path:
    base = new_table(tmp_path / "t", has_metadata_table=False)
    write(base, ROWS[:3])
    assert run(["erase-status", str(base), "--keys", str(given["keys"]), *signed(given)]) == 0
    return given["receipt"]


def signed(given: dict[str, Path]) -> list[str]:
    return ["--receipt", str(given["receipt"]), "--sign-with", str(given["signing"])]


def verify(given: dict[str, Path], *more: str, key: str = "signing") -> int:
    return run(["erase-verify", str(given["receipt"]), "--sign-with", str(given[key]), *more])


def test_what_it_says(receipt: Path, given: dict[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    """What was looked at and what was not, by place; no key. It is right, and about the keys. Keeps 3 of
    services/together/erasure/receipt."""
    text = receipt.read_text()
    said = json.loads(text)
    assert CANARY not in text and OTHER not in text
    assert len(said["keys"]) == 2 and len(said["salt"]) == 64 and said["instant"]
    assert said["looked_at"]["data"]["files"] == 1 and said["not_looked_at"]

    capfd.readouterr()
    assert verify(given, "--keys", str(given["keys"])) == 0
    shown = capfd.readouterr().out
    assert "is as it was signed" in shown and shown.count("Not looked at: ") == len(said["not_looked_at"])
    given["keys"].write_text(f"{CANARY}\nanother-key-altogether\n")
    assert verify(given, "--keys", str(given["keys"]), "--json") == 6
    shown = capfd.readouterr().out
    assert json.loads(shown)["missing_lines"] == [2] and "another-key" not in shown


def test_what_was_not_looked_for_is_said(
    tmp_path: Path, given: dict[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """A key that is too short for a search in text is gone as far as columns say, and the receipt says no more."""
    base = new_table(tmp_path / "t", has_metadata_table=False)
    write(base, ROWS[:3])
    given["keys"].write_text("gone-7\n")
    assert run(["erase-status", str(base), "--keys", str(given["keys"]), *signed(given)]) == 0
    said = json.loads(given["receipt"].read_text())
    assert said["not_looked_at"][-1] == "text outside of columns of keys, for 1 key of fewer than eight bytes"
    capfd.readouterr()
    assert verify(given) == 0
    assert "Not looked at: text outside of columns of keys" in capfd.readouterr().out


def _changed(document: dict[str, Any], name: str) -> None:
    value = document[name]
    match value:
        case list():
            document[name] = value[1:] or ["another"]
        case dict():
            document[name] = {}
        case str():
            document[name] = value[:-1] + ("0" if value[-1] != "0" else "1")
        case _:
            document[name] = value + 1


def test_what_was_changed_is_refused(receipt: Path, given: dict[str, Path]) -> None:
    """Each field, one at a time; the file of another key. Keeps 2 of services/together/erasure/receipt."""
    whole = json.loads(receipt.read_text())
    for name in whole.keys() - {"signature"}:
        document = json.loads(receipt.read_text())
        _changed(document, name)
        receipt.write_text(json.dumps(document))
        assert verify(given) in (2, 6), name
        receipt.write_text(json.dumps(whole))
        assert verify(given) == 0, "spaces and the order of fields are not signed"
    assert verify(given, key="other") == 6
    receipt.write_text("{}")
    assert verify(given) == 2


def test_none_of_keys_that_are_held(tmp_path: Path, given: dict[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    """No receipt is written, nor one where a file was not read. Keeps 1 of services/together/erasure/receipt,
    Keeps 3 of cli/look/erase_command."""
    base = small(tmp_path / "held")
    assert status(base, given["keys"], capfd, *signed(given))[0] == 7
    assert not given["receipt"].exists()
    base = new_table(tmp_path / "unread", has_metadata_table=False)
    (base / "torn.parquet").write_bytes(b"PAR1 and no more")
    code, document = status(base, given["keys"], capfd, *signed(given))
    assert code == 4 and document["receipt"] is None and not given["receipt"].exists()


def test_a_status_with_holdings() -> None:
    """No receipt is made of it. Keeps 1 of services/together/erasure/receipt."""
    states = (KeyState.GONE, KeyState.HELD)
    status = EraseStatus(1.0, "t1", 2, states, (), (), LookedAt({}, {}), 0, "")
    with pytest.raises(AssertionError):
        make_receipt(status, ["a", "b"], base_path="/t", salt=b"s", signing_key=b"k" * 32, made_by="x")


def test_how_it_is_asked_for(tmp_path: Path, given: dict[str, Path], receipt: Path) -> None:
    """With a key that is long enough, and over no file."""
    base = new_table(tmp_path / "u", has_metadata_table=False)
    before = receipt.read_bytes()
    words = ["erase-status", str(base), "--keys", str(given["keys"])]
    assert run([*words, *signed(given)]) == 2 and receipt.read_bytes() == before
    receipt.unlink()
    assert run([*words, "--receipt", str(receipt)]) == 2
    given["signing"].write_bytes(b"short")
    assert run([*words, *signed(given)]) == 2 and not receipt.exists()
