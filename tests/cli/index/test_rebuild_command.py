"""`lakeward index drop` of what is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden


@pytest.mark.parametrize(
    ("kind", "code", "what"),
    [
        ("record", "LW-USAGE", "has no index of the type record."),
        ("bloom", "LW-USAGE", "has no cache of filters of the type bloom."),
        ("metadata", "LW-REFUSED", "has no metadata table."),
    ],
)
@pytest.mark.parametrize("words", [(), ("--dry-run",)], ids=["", "dry-run"])
def test_a_drop_of_nothing_is_no_success(
    kind: str, code: str, what: str, words: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An operator who names another table, type or location by mistake is informed, by the exit code, too."""
    table = copy_golden("v9", tmp_path / "table")
    before = everything(table)
    command = ["index", "drop", str(table), "--type", kind, "--writers", "stopped", *words]

    assert run([*command, "--json"]) == 2

    captured = capfd.readouterr()
    error = json.loads(captured.err)["error"]
    assert (error["code"], captured.out) == (code, "")
    assert error["what"] == f"The table {table} {what}"
    assert error["why"] == "Nothing was removed."
    assert "shows what the table has" in error["remedy"]
    assert everything(table) == before
