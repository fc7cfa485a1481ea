"""What a verb found or did, as a value; and the options that the frame gives each verb that returns one.

    verb -> `Result` -> with --json its document, else its lines -> its error, else its exit code

Touches: stdout and stderr, where a result is printed.
Keeps:   1. with --json stdout is the document and nothing else;
         2. no text of a table commands a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from lakeward.base.errors import LakewardError
from lakeward.cli.verb_help import SharedPanel

NOTHING_EXIT = 3
PARTIAL_EXIT = 4
PROBLEMS_EXIT = 6

JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the result as one JSON document on stdout.",
        rich_help_panel=SharedPanel.OUTPUT,
    ),
]
DebugOption = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="Show a traceback with an error.",
        rich_help_panel=SharedPanel.OUTPUT,
    ),
]
ShowKeysOption = Annotated[
    bool,
    typer.Option(
        "--show-keys",
        help="Let errors and reports name record keys of the table; without it they say how long one is.",
        rich_help_panel=SharedPanel.OUTPUT,
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Dry run: report in detail what would be done, and change nothing.",
        rich_help_panel=SharedPanel.OUTPUT,
    ),
]
ExitCodeOption = Annotated[bool, typer.Option("--exit-code", help="Exit with 3 where there is nothing to do.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    document: Any
    """What --json prints; its fields are a contract."""
    lines: Sequence[str] = ()
    """What people read of it."""
    notes: Sequence[str] = ()
    """What they read on stderr."""
    is_nothing: bool = False
    """There was nothing to do: 3 with --exit-code."""
    exit_code: int = 0
    error: LakewardError | None = None
    """What the command ends with, once the result is printed."""

    def show(self) -> None:
        for line in self.lines:
            typer.echo(shown(line))
        self.show_notes()

    def show_notes(self) -> None:
        for note in self.notes:
            typer.echo(shown(note), err=True)


Show = Callable[[Result], bool]
"""Shows people a part of a result that is there before the rest; the frame hands it to a verb that asks for it. False,
and nothing is shown, where the result is one JSON document."""


def print_json(document: Any) -> None:
    sys.stdout.write(json_text(document) + "\n")


def json_text(document: Any) -> str:
    import orjson  # `--help` prints none

    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()


def shown(text: str) -> str:
    """The text with its line breaks, and escapes for what a terminal would not show as itself.

    A partition may be called anything that is UTF-8, `ESC[2J` or a line break included, and messages carry such names.
    What would be a control character, or no character at all, is shown as an escape (`\\x1b`).
    """
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable() or character == "\n":
        return character
    # Other spaces than the plain one are no control characters; format characters may turn the text around.
    return (
        character
        if character.isspace() and ord(character) > 0x9F and character not in "\u2028\u2029"
        else (character.encode("unicode_escape").decode("ascii"))
    )
