"""What `lakeward read` prints of a query: a count, a table of the first rows, a stream, or a file.

    scan -> count | file of --output | stream to stdout | rows as a table -> notes, and the error of what is missing

Touches: the table, reading only; stdout, or the file of --output.
Keeps:   what is said beside rows is asked once they were read.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from lakeward.base.errors import DamagedFiles, UsageError
from lakeward.cli.read.read_options import SHOWN_ROWS, PrintArguments
from lakeward.cli.read.row_output import OutputFormat, plain, write_rows
from lakeward.cli.read.row_table import render_rows
from lakeward.cli.result import Result, Show
from lakeward.cli.terminal import Rendered


class RowQuery(Protocol):
    """A query on a table; each iteration reads it once more."""

    @property
    def schema(self) -> pa.Schema: ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    def count(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Said:
    """What is known beside the rows, once they were read."""

    document: Mapping[str, Any]
    """Further fields of the document."""
    notes: Sequence[str]
    damage: DamagedFiles | None
    """What is missing in the rows."""


def rows_to_read(limit: int | None, wanted: OutputFormat, printing: PrintArguments) -> int | None:
    """The limit of the query: one more than a table shows by itself, which says whether there are more."""
    return SHOWN_ROWS + 1 if limit is None and wanted is OutputFormat.TABLE and not printing.count else limit


def leaves_terminal(printing: PrintArguments) -> bool:
    """Whether a bar on stderr disturbs nothing: rows do not go to a program that may show them meanwhile."""
    if printing.output is not None or printing.count or printing.wanted is OutputFormat.TABLE:
        return True
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:  # a stream of this process, without a file
        return False


def printed(
    scan: RowQuery,
    printing: PrintArguments,
    show: Show,
    said: Callable[[], Said],
    *,
    is_cut: bool,
    count_rest: Callable[[], int | None],
) -> Result:
    """
    Args:
        is_cut: the table ends after `SHOWN_ROWS`, since no limit is given.
        count_rest: counts all rows where there are more; None where that takes long.
    """
    wanted = printing.wanted
    if printing.count:
        rows = scan.count()
        found = said()
        return Result(
            document={"rows": rows, **found.document}, lines=[f"{rows}"], notes=found.notes, error=found.damage
        )
    if printing.output is not None:
        if wanted is OutputFormat.TABLE:
            raise UsageError("A table is for the terminal.", remedy="Add --format jsonl, csv, parquet or arrow.")
        rows = write_rows(scan, scan.schema, wanted, printing.output)
        found = said()
        return Result(
            document={"rows": rows, "output": str(printing.output), "format": wanted.value, **found.document},
            notes=[f"{rows:,} rows are in {printing.output}.", *found.notes],
            error=found.damage,
        )
    if wanted is not OutputFormat.TABLE and show(RowStream(document=None, scan=scan, row_format=wanted)):
        found = said()
        return Result(document=None, notes=found.notes, error=found.damage)
    return _table(scan, said, is_cut=is_cut, count_rest=count_rest, has_pager=not printing.no_pager)


def _table(
    scan: RowQuery,
    said: Callable[[], Said],
    *,
    is_cut: bool,
    count_rest: Callable[[], int | None],
    has_pager: bool,
) -> Result:
    rows = [row for batch in scan for row in batch.to_pylist()]
    total: int | None = len(rows)
    if is_cut and len(rows) > SHOWN_ROWS:
        rows, total = rows[:SHOWN_ROWS], count_rest()
    found = said()
    names = scan.schema.names
    return Rendered(
        document={"columns": names, "rows": [plain(row) for row in rows], "rows_found": total, **found.document},
        render=partial(render_rows, rows, total, names, has_pager=has_pager),
        notes=found.notes,
        error=found.damage,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStream(Result):
    """Rows that go to standard output as they are read."""

    scan: RowQuery
    row_format: OutputFormat

    def show(self) -> None:
        if not self.row_format.is_text and sys.stdout.isatty():
            raise UsageError(
                f"{self.row_format} is not for a terminal.", remedy="Name a file with --output, or a program with |."
            )
        try:
            write_rows(self.scan, self.scan.schema, self.row_format, None)
        except BrokenPipeError:
            # The program that read the rows has seen enough, as `head` has.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
