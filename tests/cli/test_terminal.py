"""What a table may be called must not command a terminal."""

from __future__ import annotations

import io

import pytest
from rich.table import Table
from rich.text import Text

from lakeward.cli.result import shown
from lakeward.cli.terminal import Terminal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p=1", "p=1"),
        ("two\nlines", "two\nlines"),
        ("ü 日本 😀 a\xa0b", "ü 日本 😀 a\xa0b"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\rb\tc\x07", "a\\rb\\tc\\x07"),
        ("a\x9bb\u2028c", "a\\x9bb\\u2028c"),
        ("a\u202eb", "a\\u202eb"),
        ("a\udcffb", "a\\udcffb"),
    ],
)
def test_controls_are_shown_as_escapes(text: str, expected: str) -> None:
    """Line breaks, which are Lakeward's, stay; what comes out can be written as UTF-8."""
    assert shown(text) == expected
    shown(text).encode()


def test_nothing_printed_is_a_command() -> None:
    """Plain text, cells and errors hold none; colours stay."""
    sink = io.StringIO()
    terminal = Terminal(file=sink, width=80, force_terminal=True, color_system="truecolor")
    table = Table("partition")
    table.add_row(Text("p\x1b]0;title\x07"))
    table.add_row("q\udcff")
    terminal.print(table)
    terminal.print("[red]r\x1b[2J[/red]")
    printed = sink.getvalue()
    assert "\x1b]0" not in printed and "\x1b[2J" not in printed and "\x07" not in printed
    assert "p\\x1b]0" in printed and "q\\udcff" in printed
    assert "\x1b[31mr\\x1b" in printed


def test_a_pipe_has_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that goes to a pipe or a file is wrapped or cut, whatever width the environment claims."""
    monkeypatch.setenv("COLUMNS", "40")
    written = io.StringIO()
    Terminal(file=written).print("city=berlin 2b1b7f77-9450-4dfc-8596-635889b09d81-0 " * 4)
    assert written.getvalue().count("\n") == 1
