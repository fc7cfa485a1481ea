"""`lakeward index …`: the group of the verbs about indexes, and the options that several of them take.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.verb_group import new_group
from lakeward.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_MOMENT_SECONDS = 1.0

index_app = new_group("Indexes, which say where a record key is: what a table has of them, and what they answer.")

PartitionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="PATH",
        help="Look in this partition alone, '' for that of a table without; of an index over all of the table the keys "
        "are found anyway. Repeatable.",
    ),
]
KeysFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Record keys, one a line; - for standard input."),
]


def given_keys(keys: list[str] | None, keys_file: Path | None) -> pa.Array:
    """The record keys of the command line and of the file, each once, in their order. Raises `UsageError`."""
    import sys

    import pyarrow as pa

    found = list(keys or ())
    if keys_file is not None:
        try:
            text = sys.stdin.read() if str(keys_file) == "-" else keys_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{keys_file} cannot be read.", why=f"{error}.", remedy="Give a text file with a key on each line."
            ) from error
        found += [line for line in text.split("\n") if line]
    return pa.array(dict.fromkeys(found), pa.string())


@contextmanager
def parts_watched() -> Iterator[Callable[[int, int], None]]:
    """Lookups of parts, one after the other, which are shown on stderr once they take longer than a moment."""
    from lakeward.cli.views.progress import open_view
    from lakeward.cli.views.terminal import Terminal
    from lakeward.clock import SystemClock

    clock = SystemClock()
    began = clock.monotonic()
    with open_view(Terminal(stderr=True), clock) as view:

        def on_part(done: int, of: int) -> None:
            seconds = clock.monotonic() - began
            if seconds >= _MOMENT_SECONDS:
                view.waiting(f"looked into {done:,} of {of:,} parts of the index", seconds)

        yield on_part
