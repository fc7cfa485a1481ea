"""Store the help of each verb, and write docs/reference/command-line.md: what `lakeward help VERB` prints of it.

    python -m deploy.command_page

Touches: that file, and `service/lakeward/cli/verb_help.json`.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from lakeward.cli.main import run
from lakeward.cli.verb_help import STORED, StoredHelp, VerbHelp, explained, help_of, shared_by_panel
from lakeward.cli.verbs import app

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "command-line.md"

HEAD = """\
# Command line

Made by `make command-page`: what `lakeward help VERB` prints, for each verb. The options that many verbs share are at
the end of this page. [Exit codes and output](exit-codes.md) are the same for all.
"""


HAVE_ALL = ("compact", "jobs", "status")
"""Verbs that take every shared option between them."""


def stored() -> str:
    """The text of `verb_help.json`, from the verbs, which are loaded for it."""
    group: Any = get_command(app)
    context = group.context_class(group, **group.context_settings)
    verbs = {" ".join(words): help_of_verb(context, words) for words in verbs_of(group, [])}
    parameters = {each.opts[0]: each for verb in HAVE_ALL for each in group.commands[verb].params}
    shared = shared_by_panel(list(parameters.values()))
    options = {panel: explained(each, context) for panel, each in shared.items()}
    return json.dumps(StoredHelp(verbs=verbs, options=options), indent=1, ensure_ascii=False) + "\n"


def help_of_verb(context: Any, words: list[str]) -> VerbHelp:
    command = context.command
    for word in words:
        command = command.commands[word]
    return help_of(command, command.context_class(command, parent=context))


def page() -> str:
    parts = [HEAD]
    for verb in [*verbs_of(get_command(app), []), ["options"]]:
        title = "Shared options" if verb == ["options"] else f"lakeward {' '.join(verb)}"
        parts.append(f"## {title}\n\n```\n{printed(verb).strip()}\n```\n")
    return "\n".join(parts)


def verbs_of(command: Any, path: list[str]) -> Iterator[list[str]]:
    """The words of each verb that does something, in the order in which help lists them."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path
        return
    for name, each in inner.items():
        if not each.hidden and [*path, name] != ["help"]:
            yield from verbs_of(each, [*path, name])


def printed(verb: list[str]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        ended = run(["help", *verb])
    assert ended == 0, f"lakeward help {' '.join(verb)} ended with {ended}"
    return text.getvalue()


if __name__ == "__main__":
    STORED.write_text(stored(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
