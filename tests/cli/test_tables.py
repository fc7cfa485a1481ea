"""Tables on a terminal of 80 columns, on a wide one, and where there is none."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lakeward.cli.look.inspect_command import render
from lakeward.cli.look.plan_command import render_plan
from lakeward.cli.terminal import Terminal, cut
from lakeward.services.compaction.plan.decision import Choice, Decision, Form, PlanOutcome, Reason
from lakeward.services.together.inspection import inspect_table
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden

GROUPS = [f"961af96{n}-1c4e-4f0d-a4f1-8a3a9c3f884{n}-0" for n in range(3)]
PARTITION = "region=europe-central/day=2026-11-22"


def inspected(tmp_path: Path) -> dict[str, Any]:
    table = copy_golden("v9", tmp_path / "table", pending=True)
    report = inspect_table(LocalStorage(), str(table), timezone=None, clock=SkippingClock())
    (group,) = report["file_groups"]
    report["file_groups"] = [
        group | {"partition_path": PARTITION, "file_id": file_id, "slices": group["slices"][-1:]} for file_id in GROUPS
    ]
    return report


def planned() -> PlanOutcome:
    numbers = {"base_bytes": 123 << 20, "log_files": 12, "log_bytes": 456 << 20}
    decisions = tuple(
        Decision(PARTITION, file_id, Choice.NONE, Reason.PENDING_LOG_COMPACTION, numbers, instant="20261121043710038")
        for file_id in GROUPS
    )
    return PlanOutcome(decisions, (), Form.SPLIT)


VIEWS: dict[str, Callable[[Path, Console], None]] = {
    "inspect": lambda tmp_path, console: render(inspected(tmp_path), console),
    "plan": lambda tmp_path, console: render_plan(planned(), console, explained=False),
}


def lines(tmp_path: Path, view: str, width: int | None) -> list[str]:
    sink = io.StringIO()
    options: dict[str, Any] = {} if width is None else {"width": width, "force_terminal": True, "color_system": None}
    VIEWS[view](tmp_path, Terminal(file=sink, **options))
    return sink.getvalue().splitlines()


@pytest.mark.parametrize("view", VIEWS)
def test_on_80_columns_each_group_has_one_line(tmp_path: Path, view: str) -> None:
    """Partition and id are cut in the middle, never broken; numbers, instants and what a group waits for are whole."""
    found = [line for line in lines(tmp_path, view, 80) if "961af96" in line]

    assert [line.split()[1] for line in found] == [f"{file_id[:8]}…{file_id[-5:]}" for file_id in GROUPS]
    for line in found:
        partition = line.split()[0]
        assert "…" in partition and partition.startswith("re") and partition.endswith("22"), line
        assert line.count("…") == 2 and len(line) <= 80, line
        assert "compaction" in line, line


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [None, 200], ids=["no-terminal", "wide"])
def test_where_there_is_room_nothing_is_cut(
    tmp_path: Path, view: str, width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wide terminal shows every name whole, and so does output that a script reads, a line for each group."""
    monkeypatch.delenv("COLUMNS", raising=False)
    found = [line for line in lines(tmp_path, view, width) if "961af96" in line]

    assert [line.split()[:2] for line in found] == [[PARTITION, file_id] for file_id in GROUPS]
    assert all("20261121043710038" in line for line in found)


@pytest.mark.parametrize(
    ("text", "cells", "short"),
    [
        ("961af969-1c4e-4f0d-a4f1-8a3a9c3f8847-0", 14, "961af969…847-0"),
        ("short", 5, "short"),
        ("abcdef", 5, "abc…f"),
        ("日本語日本語", 7, "日本…語"),
        ("abcdef", 1, "…"),
    ],
)
def test_cut_in_the_middle(text: str, cells: int, short: str) -> None:
    """What is too wide keeps its beginning and its end, by the cells that its characters take on a terminal."""
    assert cut(text, cells) == short
