"""What a command that fails prints: an error in lines or, with --json, as a document; with --debug where it came from.

Touches: stderr.
Keeps:   no secret that the process was given, in its environment or its arguments, is in what is printed.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType

import orjson

from lakeward.base.errors import Cancelled, LakewardError
from lakeward.base.printable import encodings, printable, secrets_around
from lakeward.cli.result import shown

AFTER_AN_INTERRUPT = "Nothing half-done stays visible; the next run ends what was begun."
"""What is true wherever Ctrl-C came, where no attempt says that it was rolled back."""


def print_error(error: LakewardError, arguments: Sequence[str]) -> None:
    known = known_secrets(arguments)
    if "--debug" in arguments:
        print_traceback(type(error), error, error.__traceback__, known)
    what, why, remedy, *notes = (
        printable(text, known) for text in (error.what, error.why, error.remedy, *getattr(error, "__notes__", []))
    )
    if "--json" in arguments:
        fields = {"code": error.code, "what": what, "why": why, "remedy": remedy, "notes": notes}
        print(orjson.dumps({"error": fields}).decode(), file=sys.stderr)
    else:
        is_interrupt = isinstance(error, Cancelled)
        lines = [f"{error.code}: {what}", why, remedy, *(notes or ([AFTER_AN_INTERRUPT] if is_interrupt else []))]
        print(shown((" " if is_interrupt else "\n").join(line for line in lines if line)), file=sys.stderr)


def print_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None, known: Sequence[str]
) -> None:
    print(shown(printable("".join(traceback.format_exception(kind, error, trace)), known)), file=sys.stderr)


def known_secrets(arguments: Sequence[str]) -> tuple[str, ...]:
    """Whatever text of others an error brings along, these are in none that is printed."""
    return encodings(secrets_around(os.environ, arguments))
