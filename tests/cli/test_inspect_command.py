"""The report on a terminal."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lakeward.cli.look.inspect_command import render
from lakeward.services.together.inspection import inspect_table
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden


def text_of(report: dict[str, Any]) -> str:
    sink = io.StringIO()
    render(report, Console(file=sink, width=140))
    return sink.getvalue()


def golden_report(tmp_path: Path) -> dict[str, Any]:
    table = copy_golden("v9", tmp_path / "table", pending=True)
    return inspect_table(LocalStorage(), str(table), timezone=None, clock=SkippingClock())


def test_what_an_operator_looks_for_is_there(tmp_path: Path) -> None:
    """Version, merge mode, pending work, sizes, and the verdict."""
    text = text_of(golden_report(tmp_path))

    for part in ("version 9", "EVENT_TIME_ORDERING by ts", "compaction 20261121043710038", "Nothing prevents"):
        assert part in text, part


@pytest.mark.parametrize(
    ("others", "last"), [(5, "Nothing prevents compacting the 5 other file groups"), (0, "has no others")]
)
def test_the_verdict_counts_what_is_left_out(tmp_path: Path, others: int, last: str) -> None:
    """Beside frozen groups it does not say that nothing prevents compacting the table."""
    report = golden_report(tmp_path)
    report["file_groups"] = report["file_groups"][:1] * others
    report["frozen_groups"] = [{"partition_path": "p", "file_id": "f", "instant": "1", "why": "damaged"}] * 2

    verdict = " ".join(text_of(report).splitlines()[-2:])

    assert "2 file groups are left out" in verdict and last in verdict
    assert "compacting this table" not in verdict


def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    """Each refusal is shown with its id, subject, reason and remedy."""
    report = golden_report(tmp_path)
    report["refusals"] = [{"id": "cdc-enabled", "subject": "hoodie.x", "why": "So it is.", "remedy": "Do that."}]
    report["services"]["compaction"]["refused_by"] = ["cdc-enabled"]

    text = text_of(report)

    assert "1 reason why this table is not serviced" in text
    for part in (
        "cdc-enabled",
        "hoodie.x",
        "So it is. Do that.",
        "compaction    refused: cdc-enabled",
        "metadata      may run",
    ):
        assert part in text, part


def test_logs_of_changes_have_a_column_of_their_own(tmp_path: Path) -> None:
    """They are none of the logs that are merged; without any there is no such column."""
    report = golden_report(tmp_path)
    assert "log bytes changes" not in text_of(report)
    report["totals"] |= {"change_logs": 1, "change_log_bytes": 7000}
    slices = report["file_groups"][0]["slices"]
    logs = len(slices[-1]["log_files"])
    slices[-1]["log_files"].append({"name": ".x_1.log.1_0-0-0.cdc", "size": 7000})

    text = text_of(report)

    assert "1 of changes of 6.8 KiB" in text and "log bytes changes" in text
    (row,) = [line for line in text.splitlines() if slices[-1]["base_instant"] in line and "6.8 KiB" in line]
    assert f" {logs} " in row


def test_text_from_the_table_is_no_markup(tmp_path: Path) -> None:
    """A partition or property that looks like markup is printed as it is."""
    report = golden_report(tmp_path)
    report["file_groups"][0]["partition_path"] = "[red]p[/]"
    report["table"]["name"] = "[bold]t[/]"
    report["frozen_groups"] = [{"partition_path": "[a]", "file_id": "[/b]", "instant": "1", "why": "[c]"}]
    report["timeline"]["in_future"] = ["[/g]"]
    report["timeline"]["broken"] = [{"file": "[/d]", "state": "completed", "why": "[e]"}]
    report["archive_problems"] = ["[/f]"]

    text = text_of(report)

    for part in ("[red]p[/]", "[bold]t[/]", "[a]/[/b]", "[c]", "[/d]: [e]", "[/f]", "[/g] lies in the future"):
        assert part in text, part


def test_long_lists_are_shortened_but_pending_work_is_not(tmp_path: Path) -> None:
    """A thousand groups and instants fit a screen or two; an old pending instant stays in sight."""
    report = golden_report(tmp_path)
    report["file_groups"] *= 1000
    instant = {"time": "20200101000000000", "action": "deltacommit", "state": "inflight", "completion_time": None}
    report["timeline"]["instants"] = [instant, *report["timeline"]["instants"][:4] * 1000]

    text = text_of(report)

    assert "20200101000000000" in text
    assert "(40 of 1000)" in text
    assert len(text.splitlines()) < 200
