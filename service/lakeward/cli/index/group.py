"""`lakeward index …`: the group of the verbs about indexes, and the options that several of them take.

Touches: stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.cli.progress import open_view
from lakeward.cli.result import Result
from lakeward.cli.terminal import Terminal
from lakeward.index.index_type import LOOKUP_TYPES, LookupType, lookup_type

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable

_MOMENT_SECONDS = 1.0


PartitionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="PATH",
        help="Look in this partition only, '' for a table without partitions; an index over the whole table finds "
        "the keys anyway. Repeatable.",
    ),
]


def type_option(*names: str, help: str) -> Any:
    """An option that takes the types that answer lookups, and no other."""
    return typer.Option(*names, parser=lookup_type, metavar=f"<{'|'.join(LOOKUP_TYPES)}>", help=help)


TypeOption = Annotated[
    LookupType | None,
    type_option("--type", help="Index to ask; default metadata where Hudi keeps a record index, else simple."),
]
WithLogsOption = Annotated[
    bool,
    typer.Option(
        "--with-logs",
        help="With --type bloom: find rows as a query does, in logs too. Slices with a log that the cache does not "
        "have are merged.",
    ),
]
KeysFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Record keys, one a line; - for standard input."),
]


def given_keys(keys: list[str] | None, keys_file: Path | None) -> pa.Array:
    """The record keys of the command line and of the file, each once, in their order. Raises `UsageError`."""
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


def dropped(opened: ConfiguredTable, kind: LookupType, what: str, *, is_there: bool, dry_run: bool) -> Result:
    """Report that an index is gone, or would go. Raises `UsageError` where there was none."""
    if not is_there:
        raise UsageError(
            f"The table {opened.base_path} has no {what} of the type {kind}.",
            why="Nothing was removed.",
            remedy="`lakeward index list TABLE` shows what the table has; one of another database or location, the "
            "configuration (--config) or --url names.",
        )
    return Result(
        document={"base_path": opened.base_path, "type": kind.value, "is_there": True, "dry_run": dry_run},
        lines=[f"Would remove the {what}." if dry_run else f"Removed the {what}."],
    )


@contextmanager
def work_watched() -> Iterator[Callable[[str, int, int], None]]:
    """A long reading, which is shown on stderr once it takes longer than a moment: what is done (with two gaps for
    figures), how much of it, and how much there is."""
    clock = SystemClock()
    began = clock.monotonic()
    with open_view(Terminal(stderr=True), clock) as view:

        def on_step(what: str, done: int, of: int) -> None:
            seconds = clock.monotonic() - began
            if seconds >= _MOMENT_SECONDS:
                view.working(what.format(f"{done:,}", f"{of:,}"))

        yield on_step
