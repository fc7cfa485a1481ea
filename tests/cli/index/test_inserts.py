"""`lakeward index inserts`: what it says, what it refuses, and the way back to other writers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from lakeward.index.index_type import IndexType
from lakeward.index.log_inserts import read_log_inserts
from lakeward.storage.local import LocalStorage
from tests.our_reader import read_rows, scan
from tests.write.writing import new_table, values, write


def test_the_table_goes_back_to_other_writers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --compact a key stays in a log alone, and the command says what to do; with it none does, and a group
    without logs is left alone."""
    base = new_table(tmp_path / "t")
    for key in "pq":
        write(base, [(key, 1, key, "a")])
    assert run(["index", "inserts", str(base), "--into-logs", "--only-lakeward", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["only_lakeward"] is True
    write(base, [("new", 1, "p", "a")], index=IndexType.BLOOM)
    assert run(["index", "inserts", str(base), "--into-base-files"]) == 0
    assert "run this command with --into-base-files --compact" in " ".join(capsys.readouterr().out.split())
    assert run(["index", "inserts", str(base), "--into-base-files", "--compact", "--writers", "stopped", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["may_hold_keys"] is False
    assert read_log_inserts(LocalStorage(), str(base)).only_lakeward is False
    slices = {group.partition_path: len(group.slices) for group in scan(base).file_groups}
    assert slices == {"p": 2, "q": 1} and values(read_rows(base)) == {"new": "a", "p": "a", "q": "a"}


@pytest.mark.parametrize("words", [["--only-lakeward"], ["--compact"], ["--into-logs", "--into-base-files"]])
def test_options_that_need_others(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index", "inserts", str(new_table(tmp_path / "t")), *words]) == 2
    assert "needs" in (said := capsys.readouterr().err) or "exclude each other" in said
