"""`lakeward service TABLE`: one run does, in the daemon's order, all that there is to do."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from lakeward.cli.verbs import app
from tests.execute.clean.cleaning import completed_cleans
from tests.execute.rollback.failed_tables import fail_last_write
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE

CONFIG = """
[locks]
writers = "stopped"

[defaults.clean]
policy = "versions"
retain = 1
reader_window = "0s"
"""


def service(base: Path, config: Path, *options: str) -> tuple[int, dict[str, object]]:
    result = CliRunner().invoke(app, ["service", str(base), "--config", str(config), "--json", *options])
    return result.exit_code, json.loads(result.stdout)


def configured(folder: Path) -> Path:
    file = folder / "lakeward.toml"
    file.write_text(CONFIG)
    return file


def test_one_run_rolls_back_compacts_and_cleans(tmp_path: Path) -> None:
    """Each step sees what the one before did: the clean takes the slice that the compaction made old."""
    base, config = copy_golden("v9", tmp_path / "table"), configured(tmp_path)
    failed = fail_last_write(base)

    code, report = service(base, config)

    assert code == 0
    assert list(report) == ["dry_run", "recovery", "rollback", "compaction", "clean", "archive"]
    assert [each["instant"] for each in report["rollback"]["rolled_back"]] == [failed]  # type: ignore[index]
    (compaction,) = report["compaction"]["compactions"]  # type: ignore[index]
    (clean,) = report["clean"]["cleans"]  # type: ignore[index]
    assert failed < compaction["instant"] < clean["instant"]
    assert clean["files"] > 0 and len(completed_cleans(base)) == 1
    assert not list((base / DATA_TIMELINE).glob(f"{failed}.deltacommit*"))

    code, again = service(base, config)
    assert code == 0
    assert not again["rollback"]["rolled_back"] and not again["clean"]["cleans"]  # type: ignore[index]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """Keeps 1 of cli/service_command: it says what each step would do, with no word about writers needed."""
    base = copy_golden("v9", tmp_path / "table")
    failed = fail_last_write(base)
    before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    empty = tmp_path / "empty.toml"
    empty.write_text("")

    code, report = service(base, empty, "--dry-run")

    assert code == 0 and list(report) == ["dry_run", "rollback", "compaction", "clean", "archive"]
    assert [each["instant"] for each in report["rollback"]["rolled_back"]] == [failed]  # type: ignore[index]
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == before
    refused = CliRunner().invoke(app, ["service", str(base)])
    assert refused.exit_code != 0
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == before


def test_a_step_that_is_refused_holds_no_other_back(tmp_path: Path) -> None:
    """Keeps 2 of cli/service_command: the refusal is told, the others are done, and the exit code is the refusal's."""
    base, config = copy_golden("v9", tmp_path / "table"), configured(tmp_path)
    properties = base / ".hoodie/hoodie.properties"
    text = properties.read_text()
    assert "hoodie.record.merge.mode" in text
    properties.write_text(
        "\n".join(
            "hoodie.record.merge.mode=CUSTOM" if line.startswith("hoodie.record.merge.mode") else line
            for line in text.splitlines()
        )
    )
    failed = fail_last_write(base)
    result = CliRunner().invoke(app, ["service", str(base), "--config", str(config), "--json"])
    report = json.loads(result.stdout)
    assert "refused" in report["compaction"]
    assert [each["instant"] for each in report["rollback"]["rolled_back"]] == [failed]
    assert "cleans" in report["clean"]
    assert result.exit_code != 0
