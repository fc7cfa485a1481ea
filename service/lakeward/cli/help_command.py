"""`lakeward help [VERB]`, which is `lakeward VERB --help`; and `lakeward help options`: what many verbs share.

Touches: stdout.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakeward.cli.verb_help import read_stored, write_explained


def help_on(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="[VERB]...", help="A verb, or `options`.")] = None,
) -> None:
    """Explain a verb; with `options`, the options that many verbs share."""
    root: Any = context.find_root()
    if words != ["options"]:
        root.command.main([*(words or ()), "--help"], prog_name=root.info_name, standalone_mode=False)
        return
    formatter = root.make_formatter()
    for panel, options in read_stored()["options"].items():
        write_explained(panel, options, formatter)
    typer.echo(formatter.getvalue().strip("\n"))
