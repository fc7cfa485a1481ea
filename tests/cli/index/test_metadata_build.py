"""`lakeward index build TABLE --type metadata`: what is said, shown and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.crash.compacting import everything
from tests.services.together.metadata_index.test_initial_build import places, truth, unindexed

BUILD = ("--type", "metadata")


def test_each_kind_by_its_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps of cli/index/metadata_build: a dry run writes nothing, nor does a command without a word about writers."""
    base = unindexed(tmp_path / "t")
    before = everything(base)

    def said(*words: str) -> tuple[int, str, str]:
        code = run(["index", "build", str(base), *BUILD, "--timezone", "UTC", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    for words, why in (
        ((), "Say with --kind"),
        (("--kind", "record"), "Say how the table's other writers behave"),
        (("--kind", "record", "--name", "x"), "--name and --column do not go"),
        (("--kind", "secondary", "--name", "x"), "has a name and a column"),
        (("--kind", "record", "--by-partition"), "do not go with --type metadata"),
        (("--kind", "bloom_filters", "--engine", "local", "--dry-run"), "is not built by tasks"),
    ):
        code, _, error = said(*words)
        assert code == 2 and why in error, error
    code, printed, _ = said("--kind", "record", "--dry-run", "--json")
    assert code == 0 and (json.loads(printed)["file_groups"], json.loads(printed)["partition"]) == (3, "record_index")
    code, printed, _ = said("--kind", "bloom_filters", "--dry-run", "--json")
    assert code == 0 and json.loads(printed)["base_files"] == 3
    assert everything(base) == before

    code, printed, _ = said("--kind", "record", "--writers", "stopped", "--json")
    assert code == 0 and json.loads(printed)["built"]["entries"] == 3
    assert places(base) == truth(base)
    code, printed, _ = said("--kind", "record", "--writers", "stopped")
    assert code == 0 and "Nothing to build" in printed

    for words, expected in (
        ((), 2),
        (("--kind", "record", "--dry-run"), 0),
        (("--kind", "record", "--writers", "stopped"), 0),
    ):
        before = everything(base)
        assert run(["index", "rebuild", str(base), *BUILD, "--timezone", "UTC", *words]) == expected
        shown = capsys.readouterr()
        assert ("Built record_index" in shown.out) == (everything(base) != before) == ("--writers" in words), shown
    assert places(base) == truth(base)
    code = run(["index", "build", str(base), "--type", "record", "--kind", "record"])
    assert code == 2 and "do not go with --type record" in capsys.readouterr().err
