"""The options of `lakeward read`, by the panels in which its help shows them, and which of them exclude each other.

Touches: nothing.
Keeps:   an option that another one would pass over is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from lakeward.base.errors import UsageError
from lakeward.cli.index.group import given_keys
from lakeward.cli.read.row_output import OutputFormat, format_of
from lakeward.scan.record_keys import split_keys
from lakeward.scan.scan_plan import QueryKind
from lakeward.scan.table_diff import SAMPLES

SHOWN_ROWS = 20

_ROWS = "Which rows and columns"
_SOURCE = "What to read"
_PRINTING = "How to print"


@dataclass(frozen=True, slots=True)
class RowArguments:
    columns: Annotated[
        str | None,
        typer.Option(rich_help_panel=_ROWS, metavar="NAMES", help="Columns, comma-separated. Default: all."),
    ] = None
    where: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_ROWS,
            metavar="FILTER",
            help="Only rows that a filter in the words of SQL chooses: \"city = 'lima' and fare > 10\".",
        ),
    ] = None
    keys: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_ROWS,
            metavar="KEYS",
            help="Only rows with these record keys, comma-separated; a:1,b:2 where a key has several fields.",
        ),
    ] = None
    keys_from: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_ROWS,
            metavar="FILE",
            help="Only rows with the record keys in a file, one a line; - for stdin.",
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_ROWS,
            min=0,
            metavar="N",
            help=f"At most N rows. Default: {SHOWN_ROWS} as a table, else all.",
        ),
    ] = None
    meta_columns: Annotated[
        bool, typer.Option("--meta-columns", rich_help_panel=_ROWS, help="Hudi's own five columns, too.")
    ] = False

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns. Raises `UsageError`."""
        if self.columns is None:
            return None
        names = tuple(name.strip() for name in self.columns.split(","))
        if not all(names):
            raise UsageError(
                f"--columns {self.columns!r} has a comma without a name.", remedy="Write names like id,fare."
            )
        return names

    def wanted_keys(self, key_fields: tuple[str, ...]) -> tuple[str, ...] | None:
        """Raises `UsageError`."""
        if self.keys is None and self.keys_from is None:
            return None
        named = [] if self.keys is None else list(split_keys(self.keys, key_fields))
        found = tuple(given_keys(named, self.keys_from).to_pylist())
        if not found:
            raise UsageError("No record key is given.", remedy="Name keys with --keys, or a file that has some.")
        return found


@dataclass(frozen=True, slots=True)
class SourceArguments:
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            rich_help_panel=_SOURCE,
            metavar="WHEN",
            help="The table as of an instant, a date, a date and time, or '2 hours ago'. Times without an offset are "
            "in the zone of the table's instants.",
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_SOURCE,
            metavar="WHEN",
            help="Incremental: only rows that commits wrote which completed after a moment, or 'earliest'. stderr says "
            "where to go on.",
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_SOURCE, metavar="WHEN", help="With --since: no commits that completed after this moment."
        ),
    ] = None
    changes: Annotated[
        bool,
        typer.Option(
            "--changes",
            rich_help_panel=_SOURCE,
            help="What commits inserted, updated and deleted, with the rows before and after; of tables that capture "
            "changes. --since and --until choose commits.",
        ),
    ] = False
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff",
            rich_help_panel=_SOURCE,
            metavar="OTHER",
            help="Compare TABLE (before) with the table OTHER (after) by record key; exit 6 if they differ. --limit: "
            f"samples of each kind, {SAMPLES} if not given.",
        ),
    ] = None
    diff_as_of: Annotated[
        str | None,
        typer.Option(
            "--diff-as-of", rich_help_panel=_SOURCE, metavar="WHEN", help="With --diff: OTHER as of this moment."
        ),
    ] = None
    read_optimized: Annotated[
        bool,
        typer.Option(
            "--read-optimized", rich_help_panel=_SOURCE, help="Base files alone: rows as of the last compaction."
        ),
    ] = False
    skip_damaged: Annotated[
        bool,
        typer.Option(
            "--skip-damaged",
            rich_help_panel=_SOURCE,
            help="Pass over file groups that cannot be read; name them at the end, and exit 1.",
        ),
    ] = False

    @property
    def kind(self) -> QueryKind:
        return QueryKind.READ_OPTIMIZED if self.read_optimized else QueryKind.SNAPSHOT


@dataclass(frozen=True, slots=True)
class PrintArguments:
    row_format: Annotated[
        OutputFormat | None,
        typer.Option("--format", rich_help_panel=_PRINTING, help="Default: by the name of --output; else a table."),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_PRINTING,
            metavar="FILE",
            help="Write to a file, which must not exist; it appears once all rows are in it.",
        ),
    ] = None
    count: Annotated[bool, typer.Option("--count", rich_help_panel=_PRINTING, help="Only count the rows.")] = False
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            rich_help_panel=_PRINTING,
            help="Say on stderr which partitions, file groups and row groups were read.",
        ),
    ] = False
    no_pager: Annotated[
        bool, typer.Option("--no-pager", rich_help_panel=_PRINTING, help="Print long tables without $PAGER.")
    ] = False

    @property
    def wanted(self) -> OutputFormat:
        """Raises `UsageError` for a file whose name does not say it."""
        if self.row_format is not None:
            return self.row_format
        if self.output is None:
            return OutputFormat.TABLE
        found = format_of(self.output)
        if found is None or found is OutputFormat.TABLE:
            raise UsageError(
                f"The format of {self.output} is not known by its name.", remedy="Add --format parquet, or another."
            )
        return found


_EXCLUDED: Final = {
    "--count": (("--output", "--format"), "A count is one number, or one document with --json; leave it out."),
    "--diff": (
        (
            *("--count", "--explain", "--skip-damaged", "--output", "--format", "--keys", "--keys-from"),
            *("--changes", "--since", "--until"),
        ),
        "Its report is text, or one document with --json; leave it out.",
    ),
    "--changes": (
        ("--as-of", "--keys", "--keys-from", "--read-optimized", "--meta-columns", "--explain"),
        "Choose with --since, --until, --columns and --where: \"op = 'u' and after.id = 'k1'\".",
    ),
}
"""Options that another one does not take, and the remedy."""


def check_options(rows: RowArguments, source: SourceArguments, printing: PrintArguments) -> None:
    """Raises `UsageError` for an option that would be passed over beside another one, or without one."""
    said = {name for group in (rows, source, printing) for name in _given(group)}
    for option, (others, remedy) in _EXCLUDED.items():
        for other in others:
            if {option, other} <= said:
                raise UsageError(f"{other} is not for {option}.", remedy=remedy)
    if source.diff_as_of is not None and source.diff is None:
        raise UsageError("--diff-as-of is for --diff.", remedy="Add --diff OTHER, or read with --as-of.")
    if source.until is not None and source.since is None and not source.changes:
        raise UsageError("A window has no beginning.", remedy="Add --since earliest, or a moment; or use --as-of.")


def _given(group: Any) -> Iterator[str]:
    for each in fields(group):
        if getattr(group, each.name) not in (None, False):
            yield "--format" if each.name == "row_format" else "--" + each.name.replace("_", "-")
