"""Rows as a table: what a terminal shows of them, and a pipe."""

from __future__ import annotations

import io
from typing import Any

import pytest

from lakeward.cli.read.row_table import render_rows
from lakeward.cli.terminal import Terminal

NAMES = [f"column_{number:02}" for number in range(12)]
ROWS: list[dict[str, Any]] = [dict.fromkeys(NAMES, f"v{number}") for number in range(3)]


def rendered(
    rows: list[dict[str, Any]], names: list[str], *, total: int | None = None, has_pager: bool = True, **options: Any
) -> str:
    sink = io.StringIO()
    render_rows(rows, total, names, Terminal(file=sink, **options), has_pager=has_pager)
    return sink.getvalue()


def test_columns_that_do_not_fit_are_counted() -> None:
    """Each row has one line, and each column that is shown its whole name."""
    lines = rendered(ROWS, NAMES, total=3, force_terminal=True, width=50, height=40, color_system=None).splitlines()
    assert lines[0].split() == NAMES[:5] and all(len(line.rstrip()) <= 50 for line in lines)
    assert [line.strip() for line in lines[-2:]] == ["7 more columns; --columns names those to show", "3 rows"]
    assert len(lines) == 1 + 3 + 2


def test_long_values_lose_their_end() -> None:
    rows = [{"id": "k1", "text": "x" * 500 + "\n\x1b[2J", "v": 1}]
    lines = rendered(rows, ["id", "text", "v"], total=1, force_terminal=True, width=80, color_system=None).splitlines()
    assert lines[1].split() == ["k1", "x" * 39 + "…", "1"]


def test_a_pipe_gets_all() -> None:
    """Nothing is cut, and no pager is started."""
    rows = [dict.fromkeys(NAMES, "x" * 60) for _ in range(200)]
    lines = rendered(rows, NAMES, total=200).splitlines()
    assert lines[0].split() == NAMES and lines[1].split() == ["x" * 60] * 12
    assert len(lines) == 202


def test_many_rows_go_through_a_pager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows do so that are more than the terminal has lines, unless that is switched off."""
    paged: list[str] = []
    monkeypatch.setattr("pydoc.pager", paged.append)
    terminal = {"force_terminal": True, "width": 80, "color_system": None}
    assert rendered(ROWS * 20, NAMES[:2], total=60, height=24, **terminal) == ""
    (text,) = paged
    assert text.splitlines()[-1].strip() == "60 rows" and len(text.splitlines()) == 62
    assert "v2" in rendered(ROWS, NAMES[:2], total=None, height=24, **terminal) and len(paged) == 1
    text = rendered(ROWS * 20, NAMES[:2], total=60, height=24, has_pager=False, **terminal)
    assert len(text.splitlines()) == 62 and len(paged) == 1
