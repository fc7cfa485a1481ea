"""`lakeward read TABLE`: the rows of a table, on the terminal or in a file.

Touches: stdout and stderr, or the file of --output; the table, reading only.
Keeps:   rows that are missing are reported, and the exit code is that of damage.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_count, format_size
from lakeward.cli.configured_table import ConfiguredTable, ZonedTable, open_table
from lakeward.cli.diff_report import diff_result
from lakeward.cli.index.group import given_keys
from lakeward.cli.progress import open_view
from lakeward.cli.result import Result, Show
from lakeward.cli.row_output import OutputFormat, format_of, plain, write_rows
from lakeward.cli.row_table import render_rows
from lakeward.cli.terminal import Rendered, Terminal
from lakeward.index.record.record_options import RecordOptions
from lakeward.scan.change_scan import ChangeQuery, ChangeScan
from lakeward.scan.commit_window import EARLIEST, check_options, read_window
from lakeward.scan.filter_text import parse_filter
from lakeward.scan.past_snapshot import read_as_of
from lakeward.scan.record_keys import split_keys
from lakeward.scan.scan_plan import QueryKind, TableQuery, known_schema
from lakeward.scan.table_diff import SAMPLES, DiffQuery, DiffSide, diff_tables
from lakeward.scan.table_scan import FIRST_FILES, FIRST_ROWS_MAX, TableScan

if TYPE_CHECKING:
    from lakeward.scan.key_lookup import KeyLookup
    from lakeward.table.snapshot import TableSnapshot

SHOWN_ROWS = 20
SHOWN_KEYS = 10


def read(
    *,
    opened: ZonedTable,
    show: Show,
    columns: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Columns, with commas between them. Default: all of the table.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Rows to choose, in the words of SQL: \"city = 'lima' and fare > 10\"."),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(
            metavar="KEYS", help="Rows with these record keys, with commas between them; a:1,b:2 of several fields."
        ),
    ] = None,
    keys_from: Annotated[Path | None, typer.Option(metavar="FILE", help="The same, a key a line; - for stdin.")] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="WHEN",
            help="The table as of an instant, a date, a date and time, or '2 hours ago'; times without an offset are "
            "in the zone of the table's instants.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Incremental: rows that commits wrote which completed after a moment, or 'earliest'; with --changes "
            "what they changed. stderr says where to go on.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="With --since: of commits that completed up to a moment.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help=f"At most N rows. Default: {SHOWN_ROWS} on a terminal, else all."),
    ] = None,
    row_format: Annotated[
        OutputFormat | None,
        typer.Option("--format", help="Default: by the name of --output; else a table."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file that is not there yet; it appears when it is whole.")
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Only count the rows.")] = False,
    read_optimized: Annotated[
        bool, typer.Option("--read-optimized", help="Base files alone: rows as of the last compaction.")
    ] = False,
    meta_columns: Annotated[bool, typer.Option("--meta-columns", help="Hudi's own five columns, too.")] = False,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Read what can be read; the rest is reported, and fails at the end.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say on stderr which partitions, file groups and row groups were read.")
    ] = False,
    changes: Annotated[
        bool,
        typer.Option(
            "--changes",
            help="What was inserted, updated and deleted, with the rows before and after, of a table that captures it.",
        ),
    ] = False,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff",
            metavar="OTHER",
            help="Compare the table, as before, with another, as after, by record key; exit 6 if they differ. "
            f"--limit: samples of each kind, {SAMPLES} if not given.",
        ),
    ] = None,
    diff_as_of: Annotated[
        str | None, typer.Option("--diff-as-of", metavar="WHEN", help="The moment of OTHER, as --as-of is TABLE's.")
    ] = None,
) -> Result:
    """Read the rows of a table, as a query by Hudi finds them. Reads only; takes no lock."""
    _check_options(
        count=count,
        diff=diff,
        explain=explain,
        skip_damaged=skip_damaged,
        output=output,
        row_format=row_format,
        keys=keys,
        keys_from=keys_from,
        as_of=as_of,
        read_optimized=read_optimized,
        meta_columns=meta_columns,
        changes=changes,
        since=since,
        until=until,
    )
    if diff is not None:
        compared = DiffQuery(
            columns=_names(columns),
            where=where,
            kind=QueryKind.READ_OPTIMIZED if read_optimized else QueryKind.SNAPSHOT,
            has_meta_columns=meta_columns,
            samples=SAMPLES if limit is None else limit,
        )
        other = open_table(diff, opened.config, timezone=opened.table.timezone)
        return _compared(opened, other, compared, as_of=as_of, diff_as_of=diff_as_of)
    if diff_as_of is not None:
        raise UsageError("--diff-as-of is for --diff.", remedy="Add --diff OTHER, or read with --as-of.")
    wanted = _format(row_format, output)
    if changes:
        changed = ChangeQuery(since=since, until=until, columns=_names(columns), where=where, limit=limit)
        scanned = ChangeScan(opened.storage, opened.snapshot(), changed, SystemClock())
        return _changed(scanned, show, wanted, output, only_counts=count)
    shown_rows = SHOWN_ROWS if limit is None and wanted is OutputFormat.TABLE and not count else limit
    asks_more = count or skip_damaged or any(each is not None for each in (where, keys, keys_from, as_of, since))
    of_first = not asks_more and shown_rows is not None and shown_rows <= FIRST_ROWS_MAX
    snapshot, commits = _snapshot(opened, as_of, files_enough=FIRST_FILES if of_first else None), None
    if since is not None:
        check_options(as_of=as_of is not None, read_optimized=read_optimized)
        snapshot, commits = read_window(opened.storage, snapshot, since, until, clock=SystemClock())
    elif until is not None:
        raise UsageError("A window has no beginning.", remedy="Add --since earliest, or a moment; or use --as-of.")
    query = TableQuery(
        columns=_names(columns),
        where=None if where is None else parse_filter(where, known_schema(snapshot)),
        kind=QueryKind.READ_OPTIMIZED if read_optimized else QueryKind.SNAPSHOT,
        has_meta_columns=meta_columns or commits is not None,
        commits=commits,
        keys=_keys(keys, keys_from, snapshot.config.record_key_fields),
        limit=shown_rows,
    )
    scan = TableScan(
        opened.storage,
        snapshot,
        query,
        skips_damaged=skip_damaged,
        lookup=partial(_lookup, opened, snapshot),
        whole=opened.snapshot,
    )
    if count:
        return _counted(scan, explain=explain)
    if output is not None:
        return _written(scan, wanted, output, explain=explain)
    if wanted is not OutputFormat.TABLE and show(RowStream(document=None, scan=scan, row_format=wanted)):
        return Result(document=None, notes=_notes(scan, explain=explain), error=scan.damage)
    return _shown(scan, explain=explain, is_cut=limit is None and wanted is OutputFormat.TABLE)


def _lookup(opened: ConfiguredTable, snapshot: TableSnapshot) -> KeyLookup:
    # Imported here: most reads ask no index, and loading them takes longer than a small read.
    from lakeward.scan.key_lookup import KeyLookup

    record = RecordOptions(opened.table.record_index_location)
    return KeyLookup(opened.storage, snapshot, clock=SystemClock(), record=record)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))


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
        ("--as-of", "--keys", "--keys-from", "--read-optimized", "--meta-columns", "--skip-damaged", "--explain"),
        "Choose with --since, --until, --columns and --where: \"op = 'u' and after.id = 'k1'\".",
    ),
}
"""Options that another one does not take, and the remedy."""


def _check_options(**given: object) -> None:
    """Raises `UsageError` for an option that would be passed over beside another one."""
    said = {
        "--" + {"row_format": "format"}.get(name, name).replace("_", "-")
        for name, value in given.items()
        if value is not None and value is not False
    }
    for option, (others, remedy) in _EXCLUDED.items():
        for other in others:
            if {option, other} <= said:
                raise UsageError(f"{other} is not for {option}.", remedy=remedy)


def _changed(scan: ChangeScan, show: Show, wanted: OutputFormat, output: Path | None, *, only_counts: bool) -> Result:
    notes = [] if scan.end is None else [f"{format_count(scan.commits, 'commit')}; go on with --since {scan.end}"]
    if only_counts:
        rows = scan.count()
        return Result(document={"rows": rows, "end": scan.end}, lines=[f"{rows}"], notes=notes)
    if output is not None:
        _refuse_table(wanted)
        rows = write_rows(scan, scan.schema, wanted, output)
        return Result(
            document={"rows": rows, "output": str(output), "format": wanted.value, "end": scan.end},
            notes=[f"{rows:,} rows are in {output}.", *notes],
        )
    if wanted is not OutputFormat.TABLE and show(RowStream(document=None, scan=scan, row_format=wanted)):
        return Result(document=None, notes=notes)
    found: list[dict[str, Any]] = []
    is_cut = scan.query.limit is None and wanted is OutputFormat.TABLE
    for batch in scan:
        found += batch.slice(0, SHOWN_ROWS + 1 - len(found) if is_cut else None).to_pylist()
        if is_cut and len(found) > SHOWN_ROWS:
            break
    shown = found[:SHOWN_ROWS] if is_cut else found
    total = None if len(found) > len(shown) else len(found)
    return Rendered(
        document={
            "columns": scan.schema.names,
            "rows": [plain(row) for row in shown],
            "rows_found": total,
            "end": scan.end,
        },
        render=partial(render_rows, shown, total, scan.schema.names),
        notes=notes,
    )


def _snapshot(opened: ConfiguredTable, as_of: str | None, *, files_enough: int | None = None) -> TableSnapshot:
    snapshot = opened.snapshot(files_enough=files_enough)
    return snapshot if as_of is None else read_as_of(opened.storage, snapshot, as_of, clock=SystemClock())


def _compared(
    before: ConfiguredTable, after: ConfiguredTable, query: DiffQuery, *, as_of: str | None, diff_as_of: str | None
) -> Result:
    with open_view(Terminal(stderr=True), SystemClock()) as view:
        found = diff_tables(
            DiffSide(before.storage, _snapshot(before, as_of)),
            DiffSide(after.storage, _snapshot(after, diff_as_of)),
            query,
            on_step=view.working,
        )
    return diff_result(before.base_path, after.base_path, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStream(Result):
    """Rows that go to standard output as they are read."""

    scan: TableScan | ChangeScan
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


def _keys(option: str | None, file: Path | None, key_fields: tuple[str, ...]) -> tuple[str, ...] | None:
    if option is None and file is None:
        return None
    named = [] if option is None else list(split_keys(option, key_fields))
    found = tuple(given_keys(named, file).to_pylist())
    if not found:
        raise UsageError("No record key is given.", remedy="Name keys with --keys, or a file that has some.")
    return found


def _further(scan: TableScan) -> dict[str, Any]:
    """What a document says beside rows: which keys have none, and from where an incremental read goes on."""
    keys = {} if scan.query.keys is None else {"missing_keys": scan.missing_keys}
    return keys if scan.query.commits is None else keys | {"end": scan.query.commits.end}


def _counted(scan: TableScan, *, explain: bool) -> Result:
    rows = scan.count()
    error = scan.damage
    return Result(
        document={"rows": rows, **_further(scan)},
        lines=[f"{rows}"],
        notes=_notes(scan, explain=explain),
        error=error,
    )


def _written(scan: TableScan, wanted: OutputFormat, output: Path, *, explain: bool) -> Result:
    _refuse_table(wanted)
    rows = write_rows(scan, scan.schema, wanted, output)
    return Result(
        document={"rows": rows, "output": str(output), "format": wanted.value, **_further(scan)},
        notes=[f"{rows:,} rows are in {output}.", *_notes(scan, explain=explain)],
        error=scan.damage,
    )


def _refuse_table(wanted: OutputFormat) -> None:
    if wanted is OutputFormat.TABLE:
        raise UsageError("A table is for the terminal.", remedy="Add --format jsonl, csv, parquet or arrow.")


def _shown(scan: TableScan, *, explain: bool, is_cut: bool) -> Result:
    batches = list(scan)
    rows = [row for batch in batches for row in batch.to_pylist()]
    total = scan.count_cheaply() if is_cut and len(rows) == SHOWN_ROWS else len(rows)
    found = {"columns": scan.schema.names, "rows": [plain(row) for row in rows], "rows_found": total}
    return Rendered(
        document=found | _further(scan),
        render=partial(render_rows, rows, total, scan.schema.names),
        notes=_notes(scan, explain=explain),
        error=scan.damage,
    )


def _notes(scan: TableScan, *, explain: bool) -> list[str]:
    return [*_notes_of_keys(scan), *_notes_of_window(scan), *(_explained(scan) if explain else ())]


def _notes_of_window(scan: TableScan) -> list[str]:
    commits = scan.query.commits
    if commits is None:
        return []
    return [f"{format_count(len(commits.requested), 'commit')}; go on with --since {commits.end or EARLIEST}"]


def _notes_of_keys(scan: TableScan) -> list[str]:
    missing = scan.missing_keys
    if scan.query.keys is None or not missing:
        return []
    shown = ", ".join(missing[:SHOWN_KEYS])
    more = f" and {len(missing) - SHOWN_KEYS:,} more" if len(missing) > SHOWN_KEYS else ""
    asked = format_count(len(dict.fromkeys(scan.query.keys)), "key")
    return [f"{len(missing):,} of {asked} {'has' if len(missing) == 1 else 'have'} no row: {shown}{more}"]


def _explained(scan: TableScan) -> list[str]:
    plan, meter = scan.plan, scan.meter
    groups = meter.row_groups + meter.row_groups_skipped
    passed = plan.groups_passed + plan.groups_by_statistics + plan.groups_without_keys
    by_paths = f"of {plan.partitions:,} read; the paths of the others contradict the filter"
    return [
        f"partitions: {plan.partitions - plan.partitions_passed:,} {by_paths}"
        if scan.snapshot.is_whole
        else f"partitions: {plan.partitions:,} listed, the first of the table, which have the rows that are asked for",
        *(f"keys by {note}" for note in plan.key_notes),
        *([f"file groups without the keys: {plan.groups_without_keys:,} passed over"] if plan.key_notes else ()),
        f"file groups: {len(plan.slices):,} of {len(plan.slices) + passed:,} read, "
        f"{sum(bool(each.log_files) for each in plan.slices):,} of them with logs to merge; "
        f"column statistics contradict the filter in {plan.groups_by_statistics:,}",
        f"row groups: {meter.row_groups:,} of {groups:,} read; the statistics of the others contradict the filter",
        f"bytes: {format_size(meter.bytes_read)} of {format_size(meter.bytes_stored)} in the files that were opened",
    ]


def _format(given: OutputFormat | None, output: Path | None) -> OutputFormat:
    if given is not None:
        return given
    if output is None:
        return OutputFormat.TABLE
    found = format_of(output)
    if found is None or found is OutputFormat.TABLE:
        raise UsageError(
            f"The format of {output} is not known by its name.", remedy="Add --format parquet, or another."
        )
    return found
