"""`lakeward verify` and `lakeward metadata`: what goes to stdout, and the exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden
from tests.services.metadata.run.test_indexing_abort import INSTANT as INDEXING
from tests.services.metadata.run.test_indexing_abort import begin_indexing
from tests.write.writing import new_table

STOPPED = ("--writers", "stopped")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return copy_golden("v9_metadata", tmp_path / "table")


def test_verification_exits_six_when_it_finds_something(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A verification that finds nothing exits with 0; it writes nothing either way."""
    assert run(["verify", str(table), "--timezone", "UTC"]) == 0
    assert "No problem found." in capfd.readouterr().out

    (path,) = (table / "p").glob("*.parquet")
    path.write_bytes(path.read_bytes() + b"x")
    before = everything(table)
    assert run(["verify", str(table), "--timezone", "UTC", "--json"]) == 6
    printed = json.loads(capfd.readouterr().out)
    assert not printed["ok"]
    assert f"p/{path.name}" in {problem["subject"] for problem in printed["problems"]}
    assert run(["verify", str(table), "--timezone", "UTC", "--all"]) == 6
    assert f"files: p/{path.name}" in capfd.readouterr().out.replace("\n", "")
    assert everything(table) == before


def test_a_removal_needs_a_statement_about_writers(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A dry run does not, and writes nothing."""
    before = everything(table)
    assert run(["metadata", "disable", str(table)]) == 2
    assert "--lock filesystem" in capfd.readouterr().err
    assert run(["metadata", "drop", str(table), "column_stats", "--dry-run"]) == 0
    assert "Would take column_stats out of" in capfd.readouterr().out
    assert everything(table) == before


def test_drop_and_disable(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What went is printed; verification then finds a sound table."""
    assert run(["metadata", "drop", str(table), "column_stats", *STOPPED, "--json"]) == 0
    printed = json.loads(capfd.readouterr().out)
    assert (printed["named"], printed["folders"]) == (["column_stats"], [".hoodie/metadata/column_stats"])
    assert run(["metadata", "drop", str(table), "column_stats", *STOPPED]) == 2
    assert run(["verify", str(table), "--timezone", "UTC"]) == 0

    assert run(["metadata", "disable", str(table), "--lock", "filesystem"]) == 0
    assert not (table / ".hoodie/metadata").exists()
    capfd.readouterr()
    assert run(["metadata", "disable", str(table), *STOPPED]) == 0
    assert "Nothing to remove." in capfd.readouterr().out
    assert run(["verify", str(table), "--timezone", "UTC"]) == 0
    assert "has no metadata table" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["metadata", "rebuild", "TABLE", "column_stats", *STOPPED, "--json"], "metadata drop TABLE PARTITION"),
        (["metadata", "rebuild", "TABLE", "column_stats", "--dry-run"], "metadata drop TABLE PARTITION"),
    ],
)
def test_the_old_names_say_the_new_ones(
    table: Path, old: list[str], new: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """What only removes is not called rebuild any more: a usage error says the new name, and nothing is touched."""
    before = everything(table)
    assert run([str(table) if word == "TABLE" else word for word in old]) == 2
    shown = capfd.readouterr().err
    assert f"Run `lakeward {new}`, with the same options." in shown and " now." in shown
    assert "only removes" in shown
    assert everything(table) == before


def test_help_lists_no_old_name(capfd: pytest.CaptureFixture[str]) -> None:
    """A verb that only says its new name is not offered."""
    assert run(["metadata", "--help"]) == 0
    verbs = {line.split()[0] for line in capfd.readouterr().out.partition("Commands:")[2].splitlines() if line.strip()}
    assert {"drop", "disable"} <= verbs and "rebuild" not in verbs


def test_nothing_builds_that_of_version_10_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """There is no release of Hudi that would, and what is said of it is true."""
    base = new_table(tmp_path / "t", version=10)
    assert run(["metadata", "disable", str(base), "--writers", "stopped"]) == 0
    shown = capfd.readouterr().out
    assert "nothing rebuilds it before the downgrade" in shown and "The next Hudi writer" not in shown


def test_the_metadata_table_is_compacted_on_request(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A dry run says what there is and writes nothing; then it is done, and done once."""
    before = everything(table)
    compact = ["metadata", "compact", str(table), "--timezone", "UTC"]
    assert run([*compact, "--dry-run"]) == 0
    assert "Would compact the metadata table" in capfd.readouterr().out
    assert run(compact) == 2
    assert "--lock filesystem" in capfd.readouterr().err
    assert everything(table) == before

    assert run([*compact, *STOPPED, "--json"]) == 0
    done = json.loads(capfd.readouterr().out)["metadata_compaction"]
    assert (done["file_groups"] > 0, done["delta_commits"] > 0, done["entries"] > 0) == (True, True, True)
    assert run([*compact, "--dry-run", "--json"]) == 0
    backlog = json.loads(capfd.readouterr().out)
    assert (backlog["compacted_at"], backlog["is_due"], backlog["file_groups"]) == (done["instant"], False, [])
    assert run([*compact, *STOPPED, "--exit-code"]) == 3
    assert "Nothing to compact" in capfd.readouterr().out
    assert run(["verify", str(table), "--timezone", "UTC", "--all"]) == 0


def test_what_compactions_left_behind_is_cleaned(
    table: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by `--dry-run`, and said in both forms; with `--exit-code` it is something to do."""
    monkeypatch.setattr("lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS", 1)
    clean, compact = (["metadata", each, str(table), "--timezone", "UTC"] for each in ("clean", "compact"))
    assert run([*clean, "--dry-run", "--json"]) == 0
    would = json.loads(capfd.readouterr().out)["clean"]
    assert len(would["files"]) == 2 and would["bytes"] > 0 and would["earliest_retained"]
    assert run([*clean, "--dry-run"]) == 0
    assert "Would clean the metadata table: 2 files" in " ".join(capfd.readouterr().out.split())

    assert run([*clean, *STOPPED, "--json"]) == 0
    done = json.loads(capfd.readouterr().out)
    assert done["metadata_clean"]["files"] == len(would["files"])
    assert not any((table / ".hoodie" / "metadata" / name).exists() for name in would["files"])
    assert run([*compact, *STOPPED]) == 0
    capfd.readouterr()

    assert run([*clean, *STOPPED, "--exit-code"]) == 0
    assert "of the metadata table: 20 files deleted" in " ".join(capfd.readouterr().out.split())
    assert run([*clean, *STOPPED, "--exit-code"]) == 3


def test_each_service_has_a_command_of_its_own(
    table: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does that and nothing else."""
    monkeypatch.setattr("lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS", 1)
    clean, compact = (["metadata", each, str(table), "--timezone", "UTC"] for each in ("clean", "compact"))
    before = everything(table)
    documents = []
    for command in (clean, compact):
        assert run([*command, "--dry-run", "--json"]) == 0
        documents.append(json.loads(capfd.readouterr().out))
    assert documents[0].keys() == {"clean"} and not documents[0].keys() & documents[1].keys()
    assert run(compact) == run(clean) == 2
    capfd.readouterr()
    assert everything(table) == before

    assert run([*clean, *STOPPED, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["metadata_clean"]["files"] == len(documents[0]["clean"]["files"])
    timeline = table / ".hoodie/metadata/.hoodie/timeline"
    assert len(list(timeline.glob("*.clean"))) == 1
    assert run([*clean, *STOPPED, "--exit-code"]) == run([*clean, "--dry-run", "--exit-code"]) == 3
    assert capfd.readouterr().out.count("Nothing to clean") == 2
    assert run([*compact, *STOPPED, "--json"]) == 0
    assert json.loads(capfd.readouterr().out).keys() == {"metadata_compaction"}
    assert run([*compact, *STOPPED, "--exit-code"]) == run([*compact, "--dry-run", "--exit-code"]) == 3
    assert capfd.readouterr().out.count("Nothing to compact") == 2
    assert len(list(timeline.glob("*.clean"))) == 1


def test_a_compaction_services_the_metadata_table_before_its_writers_have_to(
    table: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A compaction does it at its end and says what it cost: the commit that it made itself is one of the two that this
    one's writers wait for. A dry run and `explain` say how far it is; with --no-metadata-services, or `off`, it is left
    to its writers."""
    in_process = ["--timezone", "UTC", "--engine", "local"]
    assert run(["explain", str(table), "--json"]) == 0
    outlook = json.loads(capfd.readouterr().out)["metadata_table"]
    assert (outlook["delta_commits"], outlook["after"], outlook["limit"], outlook["is_due"]) == (1, 2, 3, False)
    assert run(["compact", str(table), "--dry-run"]) == 0
    assert "The metadata table is not due for compaction" in " ".join(capfd.readouterr().out.split())

    left = shutil.copytree(table, table.parent / "left")
    assert run(["compact", str(left), *STOPPED, *in_process, "--no-metadata-services", "--json"]) == 0
    printed = json.loads(capfd.readouterr().out)
    assert len(printed["compactions"]) == 1
    assert printed["metadata_table"] is printed["metadata_compaction"] is printed["metadata_left"] is None
    assert run(["compact", str(left), *STOPPED, *in_process]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "Nothing to compact." in shown and "of the metadata table: 6 file groups" in shown

    assert run(["compact", str(table), *STOPPED, *in_process, "--json"]) == 0
    printed = json.loads(capfd.readouterr().out)
    assert len(printed["compactions"]) == 1
    assert (printed["metadata_table"]["delta_commits"], printed["metadata_table"]["is_due"]) == (2, True)
    assert printed["metadata_compaction"]["output_bytes"] > 0 and printed["metadata_left"] is None
    assert run(["compact", str(table), *STOPPED, *in_process, "--exit-code"]) == 3, "once is enough"


def test_what_prevents_the_metadata_tables_services_does_not_fail_a_compaction(
    table: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is a line of its result; nothing of the metadata table was changed."""
    timeline = table / ".hoodie/metadata/.hoodie/timeline"
    (requested, *_) = timeline.glob("*.compaction.requested")
    (timeline / "20261121143000000.compaction.requested").write_bytes(requested.read_bytes())
    compact = ["compact", str(table), *STOPPED, "--timezone", "UTC", "--engine", "local"]

    assert run([*compact, "--json"]) == 0
    printed = json.loads(capfd.readouterr().out)

    assert len(printed["compactions"]) == 1 and printed["metadata_compaction"] is None
    assert "pending-metadata-compaction" in printed["metadata_left"]
    assert run(compact) == 0
    assert "The metadata table was left as it is" in capfd.readouterr().out


def test_an_indexing_that_died(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A dry run says what would go; without one there is nothing to do."""
    assert run(["metadata", "abort-indexing", str(table), *STOPPED, "--timezone", "UTC"]) == 0
    assert "No indexing is pending." in capfd.readouterr().out
    begin_indexing(table)
    before = everything(table)
    assert run(["metadata", "abort-indexing", str(table), "--dry-run", "--timezone", "UTC"]) == 2
    assert f"Indexing {INDEXING} is left." in capfd.readouterr().err
    assert run(["metadata", "abort-indexing", str(table), *STOPPED, "--dry-run", "--timezone", "UTC"]) == 0
    out = capfd.readouterr().out
    assert f"Would abort indexing {INDEXING}, because no writer is at work" in out
    assert "Would take column_stats out of" in out
    assert everything(table) == before
    assert run(["compact", str(table), *STOPPED, "--timezone", "UTC"]) == 2
    assert "`lakeward metadata abort-indexing`" in capfd.readouterr().err

    assert run(["metadata", "abort-indexing", str(table), INDEXING, *STOPPED, "--timezone", "UTC", "--json"]) == 0
    aborted = json.loads(capfd.readouterr().out)["aborted"]
    assert (aborted["instant"], aborted["removed"][0]["partition"]) == (INDEXING, "column_stats")
    assert run(["verify", str(table), "--timezone", "UTC"]) == 0
