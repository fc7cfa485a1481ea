"""What a command line says about the table's other writers, where it cannot be carried out."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.golden_tables import copy_golden


@pytest.mark.parametrize("written", ["stoped", "Stopped", "stop"])
def test_a_slip_of_the_pen_is_shown(written: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The error says nothing of writers that go on."""
    table = copy_golden("v9", tmp_path / "table")
    assert run(["compact", str(table), f"--writers={written}"]) == 2
    assert capfd.readouterr().err == (
        f"LW-USAGE: --writers cannot be {written}.\nDid you mean stopped?\n"
        "Write --writers stopped, if no other writer or table service is at work on this table.\n"
    )


def test_what_is_no_slip_is_shown_what_there_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An operator whose writers go on reads how they share a lock."""
    table = copy_golden("v9", tmp_path / "table")
    assert run(["compact", str(table), "--writers=share"]) == 2
    assert "--writers share cannot be typed: for writers that go on, name the lock" in capfd.readouterr().err
