"""The result of a verb with --json, and the options that each verb has.

Touches: stdout.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import orjson
import typer

OUTPUT_PANEL = "Output"

JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the result as one JSON document on stdout.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
DebugOption = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="Show a traceback with an error.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]


def print_json(document: Any) -> None:
    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")
