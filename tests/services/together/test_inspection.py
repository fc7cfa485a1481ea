"""The report that `inspect` prints is complete, is what its JSON schema says, and survives broken tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lakeward.services.together.inspection import inspect_table
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "formats" / "inspect.schema.json").read_text())


def inspect(base_path: Path) -> dict[str, Any]:
    return inspect_table(LocalStorage(), str(base_path), timezone=None, clock=SkippingClock())


@pytest.mark.parametrize("version", ["v6", "v9"])
@pytest.mark.parametrize("pending", [False, True])
def test_report_fits_its_schema(tmp_path: Path, version: str, pending: bool) -> None:
    """What is printed with --json is what the documentation says, to the last key, and is plain JSON."""
    report = inspect(copy_golden(version, tmp_path / "table", pending=pending))

    jsonschema.validate(json.loads(json.dumps(report)), SCHEMA, jsonschema.Draft202012Validator)


def test_report_of_a_damaged_table_fits_its_schema(tmp_path: Path) -> None:
    """Broken instants, strange files, frozen groups and a backup are reported, not raised."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    timeline = table / ".hoodie" / "timeline"
    (timeline / "20261121043709156_20261121043709888.deltacommit").write_bytes(b"")
    (timeline / "20261121043711000.upgrade").write_bytes(b"x")
    (table / "p" / "x_0-0-0_1.parquet.tmp").write_bytes(b"x")
    (table / "p" / ".old-0_20250101000000000.log.1_0-0-0").write_bytes(b"x")
    (table / "p" / "new-0_0-0-0_20271121043709156.parquet").write_bytes(b"x")
    (table / ".hoodie" / "hoodie.properties.backup").touch()

    report = inspect(table)

    jsonschema.validate(report, SCHEMA, jsonschema.Draft202012Validator)
    assert [broken["why"] for broken in report["timeline"]["broken"]] == ["The file is empty."]
    assert report["timeline"]["unknown"] == ["20261121043711000.upgrade"]
    assert report["unrecognised_files"] == ["p/x_0-0-0_1.parquet.tmp"]
    assert report["uncommitted_files"] == ["p/new-0_0-0-0_20271121043709156.parquet"]
    assert [group["file_id"] for group in report["frozen_groups"]] == ["old-0"]
    broken = {"properties-backup", "frozen-timeline", "unknown-action"}
    assert broken <= {refusal["id"] for refusal in report["refusals"]}
    assert all(broken <= set(service["refused_by"]) for service in report["services"].values())


def test_instants_in_the_future_are_named(tmp_path: Path) -> None:
    """Requested or completed there, by a clock that runs ahead; no time is published before they have passed."""
    table = copy_golden("v9", tmp_path / "table")
    assert inspect(table)["timeline"]["in_future"] == []
    future = "20991121043709156"
    timeline = table / ".hoodie" / "timeline"
    (timeline / f"{future}.deltacommit.requested").touch()
    completed = min(timeline.glob("*.deltacommit"))
    completed.rename(timeline / f"{completed.name.partition('_')[0]}_{future}.deltacommit")

    report = inspect(table)

    jsonschema.validate(report, SCHEMA, jsonschema.Draft202012Validator)
    assert report["timeline"]["in_future"] == [
        f"{completed.name.partition('_')[0]}_{future}.deltacommit",
        f"{future}.deltacommit.requested",
    ]


def test_report_of_a_golden_table(tmp_path: Path) -> None:
    """It has version, merge mode, slices with sizes, and the pending plan with the number of its groups."""
    report = inspect(copy_golden("v9", tmp_path / "table", pending=True))

    assert report["table"]["version"] == 9
    assert report["table"]["merge_mode"] == "EVENT_TIME_ORDERING"
    assert report["timezone"]["zone"] == "UTC"
    assert report["totals"]["log_files"] == 3
    assert report["pending"] == [
        {"time": "20261121043710038", "action": "compaction", "state": "requested", "file_groups": 1}
    ]
    (group,) = report["file_groups"]
    opened, merged_from = group["slices"]
    assert group["pending"] == {"compaction": "20261121043710038"}
    assert (opened["base_instant"], opened["base_file"], opened["log_files"]) == ("20261121043710038", None, [])
    base_file = tmp_path / "table" / "p" / merged_from["base_file"]["name"]
    assert merged_from["base_file"]["size"] == base_file.stat().st_size
    assert len(merged_from["log_files"]) == 3
    assert report["refusals"] == []
