"""What `lakeward doctor` prints, and its exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lakeward.base.named_key import SHOW_KEYS
from lakeward.cli.main import run
from lakeward.services.together.doctor.catalogue import PATTERNS
from tests.golden_tables import copy_golden
from tests.services.together.doctor.sick_tables import LATER, SICK

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "doctor.md"


def test_a_danger(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit code 6; the text has what is wrong, the evidence, and the dry run before the command that helps. The
    document has the same, and the patterns that were looked for."""
    base = SICK["clean-of-planned-files"].make(tmp_path / "table")

    assert run(["doctor", str(base)]) == 6
    text = capfd.readouterr().out
    assert "DANGER  A pending clean is about to delete what a pending plan reads" in text
    assert "clean-of-planned-files (apache/hudi issue 19290)" in text
    assert "Hudi 1.2.0, tried: Its next clean deletes the log." in text
    assert f"- clean {LATER}" in text and "it is going to delete p/.ebf517f7" in text
    assert text.index(f"try  lakeward compact {base} --dry-run\n") < text.index(f"then lakeward compact {base}\n")
    assert f"{base}: 1 danger. {len(PATTERNS) - 1} patterns looked for." in text

    assert run(["doctor", str(base), "--json"]) == 6
    document = json.loads(capfd.readouterr().out)
    assert (document["worst"], document["healthy"]) == ("danger", False)
    (left,) = document["unseen"]
    assert (left["code"], left["by_choice"]) == ("doubled-keys", True)
    (found,) = document["found"]
    assert (found["code"], found["grade"], len(found["symptoms"])) == ("clean-of-planned-files", "danger", 1)
    assert found["symptoms"][0]["dry_run"] == f"lakeward compact {base} --dry-run"
    assert sorted([found["code"], left["code"], *document["absent"]]) == sorted(pattern.code for pattern in PATTERNS)


def test_a_warning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit code 7."""
    assert run(["doctor", str(SICK["service-stuck"].make(tmp_path / "table"))]) == 7
    assert "WARNING  A service died" in capfd.readouterr().out


def test_a_table_that_is_right(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, and it says how much was looked for, and what only an option looks for."""
    base = copy_golden("v9", tmp_path / "table", pending=True)

    assert run(["doctor", str(base)]) == 0
    *left, last = capfd.readouterr().out.splitlines()
    assert left == ["Not looked for: doubled-keys. It takes long on a large table: --keys looks for it."]
    assert last == f"{base}: nothing was found. {len(PATTERNS) - 1} patterns looked for."
    assert run(["doctor", str(base), "--keys"]) == 0
    assert capfd.readouterr().out == f"{base}: nothing was found. {len(PATTERNS)} patterns looked for.\n"


def test_what_could_not_be_looked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 4, with the reason once for all patterns that it is the reason of: the table does not count as
    healthy."""
    base = copy_golden("v9", tmp_path / "table")

    def away(*_: object) -> None:
        raise PermissionError("no heartbeat may be read")

    monkeypatch.setattr("lakeward.services.together.doctor.doctor_view.watch_writers", away)

    assert run(["doctor", str(base)]) == 4
    text = capfd.readouterr().out
    reason = "Could not be looked for: failed-write-left, rollback-not-ended, service-stuck. PermissionError: no heartb"
    assert text.count(reason) == 1 and "3 could not be looked for" in text
    assert run(["doctor", str(base), "--json"]) == 4
    assert json.loads(capfd.readouterr().out)["healthy"] is False


def test_much_of_one_kind_is_shortened(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The text shows the first places and counts the others; the document has all."""
    base = copy_golden("v9", tmp_path / "table")
    for number in range(7):
        (base / "p" / f".old{number}-0_20250101000000000.log.1_0-0-0").write_bytes(b"x")

    assert run(["doctor", str(base)]) == 6
    text = capfd.readouterr().out
    assert text.count("- file group old") == 5 and "- 2 more in --json" in text
    assert run(["doctor", str(base), "--json"]) == 6
    (found,) = json.loads(capfd.readouterr().out)["found"]
    assert len(found["symptoms"]) == 7


def test_the_page_has_the_catalogue() -> None:
    """The table of docs/operate/doctor.md is what the patterns say, in their order."""
    rows = [
        f"| `{each.code}` | {each.grade} | {each.title}. {each.why} | {each.tried} | {each.source} |"
        for each in PATTERNS
    ]

    assert re.findall(r"^\| `.*\|$", PAGE.read_text(), re.MULTILINE) == rows, "\n".join(rows)


def test_keys_are_named_only_where_they_are_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evidence names the keys that have several rows with --show-keys alone."""
    monkeypatch.delenv(SHOW_KEYS)
    base = SICK["doubled-keys"].make(tmp_path / "table")
    shown = {}
    for words in ((), ("--show-keys",)):
        assert run(["doctor", str(base), "--keys", "--json", *words]) == 6
        found = json.loads(capfd.readouterr().out)["found"]
        (shown[words],) = (each["symptoms"][0]["evidence"][1] for each in found if each["code"] == "doubled-keys")
    assert shown[()].startswith("[hidden, 2 long; --show-keys shows it] has rows in ")
    assert shown[("--show-keys",)].startswith("'k")
