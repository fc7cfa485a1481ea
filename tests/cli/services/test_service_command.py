"""`lakeward service TABLE`: one run does, in the daemon's order, all that there is to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lakeward.base.clock import SystemClock
from lakeward.base.errors import LockHeld
from lakeward.cli.verbs import app
from lakeward.config.file import load_settings
from lakeward.services.clean.job import CleanService
from lakeward.services.services import ROUND
from lakeward.state.migration import migrate
from lakeward.state.records import ControlKind, ControlRecord, ParkedRecord, TargetKind
from lakeward.state.store import open_store
from lakeward.table.new_table import COPY_ON_WRITE
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE
from tests.our_reader import scan
from tests.services.clean.run.cleaning import completed_cleans
from tests.services.clustering.run.test_clusterer import made
from tests.services.rollback.run.failed_tables import fail_last_write

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
    assert list(report) == [
        *("dry_run", "parked", "recovery", "rollback", "compaction", "clustering", "ttl", "clean", "archive")
    ]
    assert list(report)[3:] == [kind for kind in ROUND if kind in report], "the order is the scheduler's"
    assert report["compaction"].keys() >= {"compactions", "metadata_table"}  # type: ignore[attr-defined]
    assert [each["instant"] for each in report["rollback"]["rolled_back"]] == [failed]  # type: ignore[index]
    (compaction,) = report["compaction"]["compactions"]  # type: ignore[index]
    (clean,) = report["clean"]["cleans"]  # type: ignore[index]
    assert failed < compaction["instant"] < clean["instant"]
    assert clean["files"] > 0 and len(completed_cleans(base)) == 1
    assert not list((base / DATA_TIMELINE).glob(f"{failed}.deltacommit*"))

    code, again = service(base, config, "--exit-code")
    assert code == 3
    assert not again["rollback"]["rolled_back"] and not again["clean"]["cleans"]  # type: ignore[index]


def test_small_file_groups_are_packed(tmp_path: Path) -> None:
    """The step is the daemon's job, with the same settings; a dry run says what it would take."""
    base, config = made(tmp_path / "table", COPY_ON_WRITE), configured(tmp_path)
    config.write_text(f"{CONFIG}\n[defaults.clustering]\nmin_groups = 2\n")
    planned = service(base, config, "--dry-run")[1]["clustering"]
    assert (planned["input_groups"], planned["instant"]) == (6, None)  # type: ignore[index]
    code, report = service(base, config)
    assert code == 0 and report["clustering"]["output_groups"] == 2  # type: ignore[index]
    assert len(scan(base).latest_slices) == 2


def test_partitions_expire_after_a_notice(tmp_path: Path) -> None:
    """Keeps 2 of services/ttl/job: the first run on a table gives notice, and deletes nothing."""
    base, config = made(tmp_path / "table", COPY_ON_WRITE), configured(tmp_path)
    plain = config.read_text()
    config.write_text(f'{plain}\n[defaults.ttl]\nkeep = "1ms"\n')
    for options in (["--dry-run"], [], []):
        report: Any = service(base, config, *options)[1]["ttl"]
        assert (report["expired"], report["instant"]) == (2, None) and report["first_at"] is not None
    assert len(scan(base).latest_slices) == 6
    config.write_text(f'{plain}\n[defaults.ttl]\nkeep = "1ms"\nnotice = "0s"\n')
    code, whole = service(base, config)
    report = whole["ttl"]
    assert code == 0 and (report["expired"], report["first_at"]) == (2, None) and report["instant"] is not None
    assert scan(base).latest_slices == ()


def test_for_people_each_step_has_its_name(tmp_path: Path) -> None:
    """What a line is about follows from the step that it stands under."""
    base, config = copy_golden("v9", tmp_path / "table"), configured(tmp_path)
    lines = CliRunner().invoke(app, ["service", str(base), "--config", str(config), "--dry-run"]).stdout.splitlines()
    steps = [line for line in lines if line in ("recovery", *ROUND)]
    assert steps == ["rollback", "compaction", "clustering", "ttl", "clean", "archive"]
    assert lines.index("compaction") < next(i for i, line in enumerate(lines) if "What compact would do" in line)


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """Keeps 1 of cli/services/service_command: it says what each step would do, with no word about writers needed."""
    base = copy_golden("v9", tmp_path / "table")
    failed = fail_last_write(base)
    before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    empty = tmp_path / "empty.toml"
    empty.write_text("")

    code, report = service(base, empty, "--dry-run", "--engine", "spark")

    assert [each["why"] for each in report["compaction"]["runs_on"]] == ["by --engine spark"]  # type: ignore[index]
    assert code == 0 and list(report) == [
        *("dry_run", "parked", "rollback", "compaction", "clustering", "ttl", "clean", "archive")
    ]
    assert report["compaction"]["metadata_table"] is None, "of what belongs to compaction, too"  # type: ignore[index]
    assert [each["instant"] for each in report["rollback"]["rolled_back"]] == [failed]  # type: ignore[index]
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == before
    refused = CliRunner().invoke(app, ["service", str(base)])
    assert refused.exit_code != 0
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == before


def test_a_step_that_is_refused_holds_no_other_back(tmp_path: Path) -> None:
    """Keeps 2 of cli/services/service_command: the refusal is reported, the others are done, and the exit code is the
    refusal's."""
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


def test_what_the_configuration_leaves_out_and_what_is_parked_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps 3 of cli/services/service_command: each with its reason; no window and no pause is waited for."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    base, config = copy_golden("v9", tmp_path / "table"), configured(tmp_path)
    with config.open("a") as file:
        file.write('[defaults]\nservices = ["rollback", "compaction", "clean"]\nwindows = ["daily 00:00-00:01"]\n')
    url = load_settings(config, {"XDG_STATE_HOME": str(tmp_path / "state")}).store_url
    migrate(url)
    store = open_store(url, clock=SystemClock())
    (group, *_) = {path.name.split("_")[0] for path in (base / "p").glob("*.parquet")}
    now = SystemClock().now()
    store.controls.park(ParkedRecord(str(base), ("p", group), "parked", "It is torn.", 1, now, now + 1e6))
    store.controls.add(ControlRecord(ControlKind.PAUSE, TargetKind.TABLE, str(base), "inventory", "anna", at=now))
    store.close()

    code, report = service(base, config, "--exit-code")

    assert code == 3
    assert [(each["file_id"], each["reason"]) for each in report["parked"]] == [(group, "It is torn.")]  # type: ignore[attr-defined]
    assert report["archive"] == {"left_out": "services of the configuration does not have archive"}
    assert not report["compaction"]["compactions"] and not report["clean"]["cleans"]  # type: ignore[index]


def test_what_was_done_before_a_failure_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of cli/services/service_command: nothing follows after the step that failed, and the exit code is its."""
    base, config = copy_golden("v9", tmp_path / "table"), configured(tmp_path)

    def fails(*given: object, **named: object) -> None:
        raise LockHeld("The lock is held.", why="By another.", remedy="Wait.")

    monkeypatch.setattr(CleanService, "run", fails)
    result = CliRunner().invoke(app, ["service", str(base), "--config", str(config), "--json"])
    report = json.loads(result.stdout)
    assert report["compaction"]["compactions"] and "The lock is held." in report["clean"]["failed"]
    assert "archive" not in report and isinstance(result.exception, LockHeld)
