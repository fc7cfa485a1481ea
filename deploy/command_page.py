"""Write docs/reference/command-line.md: what `lakeward help VERB` prints, for each verb.

    python -m deploy.command_page

Touches: that file.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from lakeward.cli.main import run
from lakeward.cli.verbs import app

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "command-line.md"

HEAD = """\
# Command line

Made by `make command-page`: what `lakeward help VERB` prints, for each verb. The options that many verbs share are at
the end of this page. [Exit codes and output](exit-codes.md) are the same for all.
"""


def page() -> str:
    parts = [HEAD]
    for verb in [*verbs(get_command(app), []), ["options"]]:
        title = "Shared options" if verb == ["options"] else f"lakeward {' '.join(verb)}"
        parts.append(f"## {title}\n\n```\n{help_of(verb).strip()}\n```\n")
    return "\n".join(parts)


def verbs(command: Any, path: list[str]) -> Iterator[list[str]]:
    """The words of each verb that does something, in the order in which help lists them."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path
        return
    for name, each in inner.items():
        if not each.hidden and [*path, name] != ["help"]:
            yield from verbs(each, [*path, name])


def help_of(verb: list[str]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        ended = run(["help", *verb])
    assert ended == 0, f"lakeward help {' '.join(verb)} ended with {ended}"
    return printed.getvalue()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
