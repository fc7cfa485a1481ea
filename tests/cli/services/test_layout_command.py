"""`lakeward table convert` by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.clocks import SkippingClock
from tests.our_reader import read_rows, scan
from tests.services.together.versions.run.test_layout_step import base_files, is_sorted, turn_over
from tests.write.writing import new_table, values, write


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Two file groups: one out of order, one with a log."""
    base, clock = new_table(tmp_path / "t", version=10, has_metadata_table=False), SkippingClock()
    clock.slept = -60.0  # the writes are a minute old, for the command's own clock
    write(base, [(f"k{number}", 1, part, "a") for number in range(4) for part in "pq"], clock=clock)
    for file in base_files(base):
        turn_over(file)
    write(base, [("k0", 2, "q", "b")], clock=clock)
    return base


def test_from_a_dry_run_to_the_layout_and_back(base: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps 1 and 2 of cli/services/layout_command: nothing is written with --dry-run, nor without a word about the
    writers, a shared lock is no such word, and what is done is what was announced; the files are sorted and verified in
    processes of this machine as in this one."""
    words = ["table", "convert", str(base), "--timezone", "UTC", "--layout"]
    files = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    assert run([*words, "lsm_tree", "--dry-run", "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)
    for given in ([], ["--lock", "filesystem"]):
        assert run([*words, "lsm_tree", *given]) == 2
        assert "--writers stopped" in capfd.readouterr().err
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == files

    assert run([*words, "lsm_tree", "--writers", "stopped", "--engine", "local", "--json"]) == 0
    done = json.loads(capfd.readouterr().out)
    assert [step["step"] for step in done["steps"]] == ["compaction", "sorting", "verification", "properties"]
    assert [step["step"] for step in shown["steps"]] == [step["step"] for step in done["steps"]]
    for before, after in zip(shown["steps"][:2], done["steps"][:2], strict=True):
        assert after == before
        assert before["bytes"] > 0 and len(before["subjects"]) == 1
    assert (done["found"], done["target"], done["dry_run"]) == ("default", "lsm_tree", False)
    assert all(is_sorted(file) for file in base_files(base)) and scan(base).config.is_lsm_tree
    assert values([row for row in read_rows(base) if row["part"] == "q"])["k0"] == "b"

    assert run([*words, "lsm_tree", "--writers", "stopped"]) == 0
    assert "has the layout lsm_tree already. Nothing to do." in capfd.readouterr().out
    assert run([*words, "default", "--writers", "stopped"]) == 0
    assert "Gave the table the layout default:\n  properties, since" in capfd.readouterr().out
    assert not scan(base).config.is_lsm_tree
